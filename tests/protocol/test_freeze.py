"""Freeze and lock (M2-M5): what is fixed, what is refused, what may be appended. QU-08, CO-14, MO-12, MO-19."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.cli.main import run
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.protocol.changes import judgement_changes
from runner.protocol.freeze import (
    append_variants,
    earlier_locks,
    freeze,
    load_lock,
    make_freeze,
    read_lock,
    with_variants,
)
from runner.protocol.modelfiles import check_model
from runner.protocol.schema import Lock, Protocol
from runner.protocol.variants import batch_series
from tests.support.small_campaign import (
    PLAN,
    PROTOCOL,
    ROWS,
    SIMPLE_PROTOCOL,
    case_campaign,
    make_attempt,
    make_campaign,
    store_attempt,
    write_csv,
    write_predictions,
)

CASES = Path(__file__).parent.parent / "cases"


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    return make_campaign(tmp_path)


def started(campaign: Campaign) -> Lock:
    """A frozen campaign with one attempt under the lock."""
    lock = freeze(campaign)
    path = write_predictions(campaign.predictions / "a000.parquet", [(row[0], row[2]) for row in ROWS])
    store_attempt(campaign, make_attempt(campaign, lock, path))
    return lock


def edit(campaign: Campaign, old: str, new: str) -> None:
    text = campaign.protocol.read_text(encoding="utf-8")
    assert old in text
    campaign.protocol.write_text(text.replace(old, new), encoding="utf-8")


def test_m3_the_lock_holds_every_fingerprint(campaign: Campaign) -> None:
    lock = freeze(campaign)
    corpus = lock.judgement.corpora[0]
    assert corpus.documents == 10 and corpus.baseline is not None and corpus.reference is not None
    assert [file.path for file in lock.judgement.model_files] == [
        "config.json",
        "model.safetensors",
        "tokenizer_config.json",
    ]
    assert lock.judgement.max_length == 128
    assert lock.judgement.deadline == "2026-12-31T09:00[Europe/Berlin]"
    assert [variant.id for variant in lock.variants] == ["b1", "b4", "b8"]
    assert all(variant.settings.max_length == 128 for variant in lock.variants)
    assert load_lock(campaign) == lock
    assert campaign.lock_signature.is_file()


def test_freezing_again_without_a_change_keeps_the_nonce(campaign: Campaign) -> None:
    lock = freeze(campaign)
    data = campaign.lock.read_bytes()
    assert make_freeze(campaign).outcome == "unchanged"
    assert campaign.lock.read_bytes() == data
    assert freeze(campaign).nonce == lock.nonce


def test_a_change_before_the_first_attempt_is_free(campaign: Campaign) -> None:
    before = freeze(campaign)
    edit(campaign, "0.80", "0.70")
    frozen = make_freeze(campaign)
    assert frozen.outcome == "frozen again"
    assert str(frozen.changes[0]) == "quality.min_agreement: 0.80 -> 0.70"
    assert frozen.lock.nonce != before.nonce


@pytest.mark.parametrize("case", [("0.90", "0.85")])
def test_qu_08_the_threshold_is_lowered_after_results(
    tmp_path: Path, case: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """QU-08 (M4): exit 2, the field with old and new value, nothing judged."""
    original = json.loads((CASES / "QU-08" / "protocol_original.json").read_text())
    lowered = json.loads((CASES / "QU-08" / "protocol.json").read_text())
    assert (original["threshold"], lowered["threshold"]) == case
    campaign = make_campaign(tmp_path, protocol=PROTOCOL.replace('threshold = "0.80"', 'threshold = "0.90"'))
    started(campaign)
    edit(campaign, 'threshold = "0.90"', 'threshold = "0.85"')
    for command in ("validate", "freeze"):
        assert run(["--campaign", str(tmp_path), command]) == 2
        shown = capsys.readouterr().err
        assert "quality.threshold: 0.90 -> 0.85" in shown
        assert "new revision" in shown and "new independent final corpus" in shown
    assert not campaign.verdicts.exists()
    assert run(["--campaign", str(tmp_path), "protocol", "diff"]) == 3
    assert "quality.threshold: 0.90 -> 0.85" in capsys.readouterr().out


def leaves(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Place of every value that is no table and no list of tables."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, (*place, key))
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for number, item in enumerate(value):
            yield from leaves(item, (*place, number))
    else:
        yield place


def test_m3_m4_every_value_of_the_protocol_is_fixed_and_named_when_it_changes(campaign: Campaign) -> None:
    """M3, M4: threshold, tolerance, metric, subgroups, warm-up, passes, order, boundaries, exclusion, separation, ...

    Only series and variants may be appended to; only the place of a local model and who answers are no decision.
    """
    edit(campaign, "[[series]]", '[reproduction]\ngoal = "bounded"\nmax_score_difference = "0.01"\n\n[[series]]')
    lock = freeze(campaign)
    content = lock.judgement.protocol
    open_fields = {"series", "variant", "contact"}
    assert set(content) | {"evaluation"} == set(Protocol.model_fields) - open_fields, "none is asked for here"
    places = list(leaves(content))
    said = {".".join(map(str, place)) for place in places}
    assert {"quality.threshold", "quality.subgroup.0.minimum", "warm_up.passes", "measurement.order"} <= said
    assert {"measurement.boundaries", "measurement.passes_most", "rules.exclusion", "rules.separation"} <= said
    for place in places:
        other = copy.deepcopy(content)
        table: Any = other
        for key in place[:-1]:
            table = table[key]
        table[place[-1]] = "another value"
        changed = lock.judgement.model_copy(update={"protocol": other})
        assert lock.model_copy(update={"judgement": changed}).lock_sha256 != lock.lock_sha256, place
        found = [change.field for change in judgement_changes(lock.judgement, changed)]
        if place == ("model", "source"):
            assert found == []
        elif place[0] == "corpus" and place[-1] == "id":
            assert found == ["corpus[small-final]", "corpus[another value]"]
        else:
            (name,) = found
            assert name.split(".")[-1].partition("[")[0] == place[-1], "the field itself is named"


def test_m3_m4_what_the_plan_promises_is_fixed_too(campaign: Campaign) -> None:
    """M3: expected deliverables and identifiers: another list, another deadline, another id is another judgement."""
    lock = freeze(campaign)
    for update, field in (
        ({"deliverables": ("other",)}, "deliverables"),
        ({"deadline": "2027-01-01T09:00[Europe/Berlin]"}, "deadline"),
        ({"max_length": 64}, "max_length"),
        ({"label_table": ("pos", "neg")}, "label_table"),
    ):
        changed = lock.judgement.model_copy(update=update)
        assert [change.field for change in judgement_changes(lock.judgement, changed)] == [field]
        assert lock.model_copy(update={"judgement": changed}).lock_sha256 != lock.lock_sha256
    started(campaign)
    final = campaign.protocol_dir / "corpus" / "final.csv"
    final.write_text(final.read_text(encoding="utf-8").replace("d03,", "e03,"), encoding="utf-8")
    with pytest.raises(InputRefused, match="changed"):
        load_lock(campaign)


def test_m4_revision_alone_or_corpus_alone_is_not_enough(campaign: Campaign) -> None:
    started(campaign)
    edit(campaign, "revision = 1", "revision = 2")
    with pytest.raises(InputRefused, match="needed: a new independent final corpus"):
        freeze(campaign)
    edit(campaign, "revision = 2", "revision = 1")
    fresh = [(f"n{row[0]}", f"new {row[1]}", row[2], row[3]) for row in ROWS]
    write_csv(campaign.protocol_dir / "corpus" / "final.csv", ("id", "text", "label", "stratum"), fresh)
    write_predictions(campaign.baseline_dir / "small-final.parquet", [(row[0], row[2]) for row in fresh])
    with pytest.raises(InputRefused, match=r"needed: question\.revision must be above 1"):
        freeze(campaign)


def test_m4_a_new_revision_on_a_new_corpus_keeps_the_old_lock(campaign: Campaign) -> None:
    before = started(campaign)
    fresh = [(f"n{row[0]}", f"new {row[1]}", row[2], row[3]) for row in ROWS]
    write_csv(campaign.protocol_dir / "corpus" / "second.csv", ("id", "text", "label", "stratum"), fresh)
    write_predictions(campaign.baseline_dir / "small-final.parquet", [(row[0], row[2]) for row in fresh])
    edit(campaign, "revision = 1", "revision = 2")
    edit(campaign, "final.csv", "second.csv")
    frozen = make_freeze(campaign)
    assert frozen.outcome == "new revision"
    assert earlier_locks(campaign) == (before,)
    assert load_lock(campaign) == frozen.lock


def test_m4_the_new_corpus_must_not_hold_the_old_texts(campaign: Campaign) -> None:
    started(campaign)
    renamed = [(f"n{row[0]}", row[1].upper(), row[2], row[3]) for row in ROWS]
    write_csv(campaign.protocol_dir / "corpus" / "second.csv", ("id", "text", "label", "stratum"), renamed)
    write_predictions(campaign.baseline_dir / "small-final.parquet", [(row[0], row[2]) for row in renamed])
    edit(campaign, "revision = 1", "revision = 2")
    edit(campaign, "final.csv", "second.csv")
    with pytest.raises(InputRefused, match="new texts: 10 texts"):
        freeze(campaign)


def test_m3_variants_are_append_only_and_marked(campaign: Campaign) -> None:
    lock = freeze(campaign)
    early = with_variants(campaign, lock, batch_series((16,), lock.protocol, max_length=128))
    assert read_lock(campaign) == lock, "not written yet"
    said = append_variants(campaign, early)
    assert said == ("b16: not among the frozen variants; added to the lock, lock signed again",)
    assert append_variants(campaign, early) == (), "nothing added, nothing said"
    assert [(variant.id, variant.added_later) for variant in early.variants][-1] == ("b16", False)
    edit(campaign, "values = [1, 4, 8]", "values = [1, 4, 8, 16]")
    started(campaign)
    late = with_variants(campaign, early, batch_series((32,), lock.protocol, max_length=128))
    (said_late,) = append_variants(campaign, late)
    assert "b32" in said_late and "b16" not in said_late and "marked as added later" in said_late
    assert [(variant.id, variant.added_later) for variant in late.variants][-1] == ("b32", True)
    assert late.lock_sha256 == early.lock_sha256  # attempts stay under it
    assert read_lock(campaign) == late
    with pytest.raises(InputRefused, match="frozen with other settings"):
        with_variants(campaign, late, batch_series((32,), lock.protocol, max_length=64))


def test_a_variant_removed_after_an_attempt_stays(campaign: Campaign) -> None:
    started(campaign)
    edit(campaign, "values = [1, 4, 8]", "values = [1, 4]")
    assert [variant.id for variant in freeze(campaign).variants] == ["b1", "b4", "b8"]


def test_an_edited_lock_is_seen(campaign: Campaign) -> None:
    freeze(campaign)
    campaign.lock.write_bytes(campaign.lock.read_bytes().replace(b'"0.10"', b'"0.20"'))
    with pytest.raises(InputRefused, match="signature of the lock is not good"):
        load_lock(campaign)


def test_without_a_lock_the_next_command_is_named(campaign: Campaign) -> None:
    with pytest.raises(InputRefused) as caught:
        load_lock(campaign)
    assert "runner freeze" in str(caught.value.next_step)


def test_changed_files_are_named(campaign: Campaign) -> None:
    """M3: corpus, baseline, deliverables, deadline."""
    freeze(campaign)
    final = campaign.protocol_dir / "corpus" / "final.csv"
    text = final.read_text(encoding="utf-8")
    final.write_text(text.replace("number 3", "number 33"), encoding="utf-8")
    write_predictions(campaign.baseline_dir / "small-final.parquet", [(row[0], "pos") for row in ROWS])
    campaign.plan.write_text(PLAN.replace("12-31T09", "12-31T10"), encoding="utf-8")
    with pytest.raises(InputRefused) as caught:
        load_lock(campaign)
    fields = [detail.split(":")[0] for detail in caught.value.details]
    assert fields == ["deadline", "file protocol/corpus/final.csv", "file protocol/baseline/small-final.parquet"]


def test_no_09_other_line_ends_are_the_same_records(campaign: Campaign) -> None:
    """NO-09: bytes differ, records do not: the freeze holds."""
    lock = started(campaign)
    final = campaign.protocol_dir / "corpus" / "final.csv"
    final.write_bytes(final.read_bytes().replace(b"\n", b"\r\n"))
    assert load_lock(campaign) == lock
    assert make_freeze(campaign).outcome == "unchanged"


def test_m53_a_copy_without_texts_can_be_judged(campaign: Campaign) -> None:
    lock = freeze(campaign)
    shutil.rmtree(campaign.protocol_dir / "corpus")
    assert load_lock(campaign) == lock


def test_co_14_tuning_and_final_share_texts(tmp_path: Path) -> None:
    """CO-14 (M5): refused at the freeze, both pairs named, nothing written."""
    protocol = SIMPLE_PROTOCOL.replace("group_columns", 'tuning = "corpus/tuning.csv"\ngroup_columns')
    campaign = case_campaign(tmp_path, CASES / "CO-14" / "final.csv", protocol=protocol)
    shutil.copy(CASES / "CO-14" / "tuning.csv", campaign.protocol_dir / "corpus" / "tuning.csv")
    with pytest.raises(InputRefused) as caught:
        freeze(campaign)
    message = str(caught.value)
    assert "'t2' and final 'f2'" in message and "'t1' and final 'f3'" in message
    assert not campaign.lock.exists()


def test_the_baseline_comes_first(campaign: Campaign) -> None:
    """M2: missing, incomplete or wrong reference predictions stop the freeze."""
    path = campaign.baseline_dir / "small-final.parquet"
    path.unlink()
    with pytest.raises(InputRefused, match="runner baseline"):
        freeze(campaign)
    write_predictions(path, [(row[0], row[2]) for row in ROWS[1:]])
    with pytest.raises(InputRefused, match="missing 1, duplicate 0, unexpected 0"):
        freeze(campaign)
    write_predictions(path, [(row[0], "POS") for row in ROWS])
    with pytest.raises(InputRefused, match="labels or scores are not valid"):
        freeze(campaign)
    assert not campaign.lock.exists()


def test_a_task_about_an_unknown_corpus_is_refused(campaign: Campaign) -> None:
    """M34: its window would stay the planned one, whatever the passes take."""
    campaign.plan.write_text(PLAN.replace("delivery = true", 'corpus = "other"'), encoding="utf-8")
    with pytest.raises(InputRefused, match="task 'measure' is about no corpus of the protocol; there are small-final"):
        freeze(campaign)
    assert not campaign.lock.exists()


def test_an_empty_subgroup_and_an_unknown_deliverable_are_refused(campaign: Campaign) -> None:
    edit(campaign, 'value = "long"', 'value = "Long"')
    with pytest.raises(InputRefused, match="has no document") as caught:
        freeze(campaign)
    assert "'long', 'short'" in str(caught.value)
    edit(campaign, 'value = "Long"', 'value = "long"')
    campaign.plan.write_text(PLAN.replace("small-final", "other"), encoding="utf-8")
    with pytest.raises(InputRefused, match="no corpus of the protocol"):
        freeze(campaign)


def test_mo_12_custom_code_is_not_run_and_not_frozen(campaign: Campaign, tmp_path: Path) -> None:
    """MO-12: refused before loading; allowed explicitly, every .py file is hashed."""
    model = campaign.protocol_dir / "model"
    for file in (CASES / "MO-12" / "model").iterdir():
        content = json.loads(file.read_text()) if file.suffix == ".json" else None
        if content is not None:
            (model / file.name).write_text(json.dumps({**content, "max_position_embeddings": 256}))
        else:
            shutil.copy(file, model / file.name)
    with pytest.raises(InputRefused) as caught:
        freeze(campaign)
    message = str(caught.value)
    assert "auto_map" in message and "modelling_custom.py" in message and "allow_custom_code" in message
    edit(campaign, 'source = "model"', 'source = "model"\nallow_custom_code = true')
    lock = freeze(campaign)
    assert "modelling_custom.py" in [file.path for file in lock.judgement.model_files]
    assert not list(Path().glob("EXECUTED")) and not list(tmp_path.rglob("EXECUTED"))


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
@pytest.mark.parametrize("code", ["owner/other--modelling.Custom", ["owner/other--tok.Slow", None]])
def test_mo_12_code_of_another_repository_is_refused_even_where_code_is_allowed(
    campaign: Campaign, name: str, code: object
) -> None:
    """MO-12, point 3: every .py file is hashed; one that is not in the folder cannot be, so it is not run."""
    file = campaign.protocol_dir / "model" / name
    file.write_text(json.dumps(json.loads(file.read_bytes()) | {"auto_map": {"AutoModel": code}}), encoding="utf-8")
    with pytest.raises(InputRefused, match="wants its own Python code"):
        freeze(campaign)
    edit(campaign, 'source = "model"', 'source = "model"\nallow_custom_code = true')
    with pytest.raises(InputRefused, match="lies in another repository, so it cannot be hashed") as caught:
        freeze(campaign)
    assert f"{name}: 'owner/other--" in str(caught.value) and not campaign.lock.exists()


def test_pickled_weights_are_refused_unless_allowed(campaign: Campaign) -> None:
    model = campaign.protocol_dir / "model"
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    with pytest.raises(InputRefused) as caught:
        freeze(campaign)
    assert "pytorch_model.bin" in str(caught.value) and "allow_pickle" in str(caught.value)
    edit(campaign, 'source = "model"', 'source = "model"\nallow_pickle = true')
    assert "pytorch_model.bin" in [file.path for file in freeze(campaign).judgement.model_files]


def test_mo_19_another_tokenizer_under_the_same_name(campaign: Campaign) -> None:
    """MO-19: the changed file is named, the equal ones too."""
    frozen = json.loads((CASES / "MO-19" / "frozen_model.json").read_text())["files"]
    found = json.loads((CASES / "MO-19" / "run_model.json").read_text())["files"]
    changed = [name for name in frozen if frozen[name] != found[name]]
    lock = freeze(campaign)
    assert check_model(campaign, lock) == campaign.protocol_dir / "model"
    for name in changed:
        (campaign.protocol_dir / "model" / name).write_text('{"model_max_length": 128}')
    with pytest.raises(InputRefused) as caught:
        check_model(campaign, lock)
    assert changed == ["tokenizer_config.json"]
    assert "model file tokenizer_config.json: " in caught.value.details[0]
    assert caught.value.details[-1] == "as frozen: config.json, model.safetensors"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('source = "no-such-folder"', "needs a revision"),
        ('source = "org/name"', "needs a revision"),
        ('source = "/no/such/folder"', "does not exist"),
        ('source = "./model-x"', "does not exist"),
    ],
)
def test_a_model_that_is_not_there(campaign: Campaign, line: str, words: str) -> None:
    edit(campaign, 'source = "model"', line)
    with pytest.raises(InputRefused, match=words):
        freeze(campaign)


def test_mo_19_a_hub_model_is_pinned_to_its_commit(
    campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that is in the cache needs no network; a moving name does, and is refused without."""
    pytest.importorskip("huggingface_hub")
    from huggingface_hub import constants

    commit = "0123456789abcdef0123456789abcdef01234567"
    cache = tmp_path / "cache"
    snapshot = cache / "models--org--name" / "snapshots" / commit
    shutil.copytree(campaign.protocol_dir / "model", snapshot)
    shutil.rmtree(campaign.protocol_dir / "model")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    edit(campaign, 'source = "model"', 'source = "org/name"\nrevision = "main"')
    with pytest.raises(InputRefused, match="could not be had from the hub"):
        freeze(campaign)
    edit(campaign, 'revision = "main"', f'revision = "{commit}"')
    lock = freeze(campaign)
    assert lock.judgement.model_revision == commit
    assert check_model(campaign, lock) == snapshot


def test_mo_19_a_local_model_may_lie_elsewhere_its_files_are_frozen(campaign: Campaign, tmp_path: Path) -> None:
    """MO-19, M4: on the rental the folder has another place; that is no change, another byte in it is one."""
    outside = tmp_path / "elsewhere" / "model"
    shutil.copytree(campaign.protocol_dir / "model", outside)
    lock = started(campaign)
    edit(campaign, 'source = "model"', f'source = "{outside}"')
    shutil.rmtree(campaign.protocol_dir / "model")
    assert load_lock(campaign) == lock
    again = make_freeze(campaign)
    assert (again.outcome, again.lock, again.changes) == ("unchanged", lock, ()), "neither a new lock nor a new nonce"
    assert check_model(campaign, lock) == outside
    (outside / "config.json").write_text('{"id2label": {"0": "neg", "1": "pos"}, "x": 1}', encoding="utf-8")
    with pytest.raises(InputRefused, match="the model is not the frozen one"):
        check_model(campaign, lock)
    with pytest.raises(InputRefused, match="changed although attempts exist"):
        make_freeze(campaign)


def test_mo_19_a_moved_model_that_is_missing_is_refused_with_the_step(campaign: Campaign) -> None:
    lock = freeze(campaign)
    shutil.rmtree(campaign.protocol_dir / "model")
    edit(campaign, 'source = "model"', 'source = "/nowhere/model"')
    with pytest.raises(InputRefused, match="the model folder does not exist") as caught:
        check_model(campaign, lock)
    assert "set source under [model] to where it lies here" in (caught.value.next_step or "")


def test_mo_19_freeze_warns_of_a_model_that_a_copy_of_the_folder_does_not_hold(tmp_path: Path) -> None:
    campaign = make_campaign(tmp_path / "campaign")
    assert make_freeze(campaign).warnings == ()
    shutil.move(campaign.protocol_dir / "model", tmp_path / "model")
    edit(campaign, 'source = "model"', f'source = "{tmp_path / "model"}"')
    (warning,) = make_freeze(campaign).warnings
    assert str(tmp_path / "model") in warning and "set source under [model]" in warning


def test_a_hub_model_is_another_one_under_another_name(campaign: Campaign) -> None:
    """M4: only where the lock holds no commit is the source a mere place."""
    lock = freeze(campaign)
    assert lock.judgement.model_revision is None
    content = {**lock.judgement.protocol, "model": {**lock.judgement.protocol["model"], "source": "org/model"}}
    update = {"model_revision": "a" * 40}
    old = lock.judgement.model_copy(update=update)
    new = lock.judgement.model_copy(update={**update, "protocol": content})
    assert [change.field for change in judgement_changes(old, new)] == ["model.source"]


@pytest.mark.parametrize("name", ["corpus/final.csv", "baseline/small-final.parquet"])
def test_m8_a_file_that_is_a_link_out_of_the_campaign_is_refused_at_the_freeze(tmp_path: Path, name: str) -> None:
    """Later decision, note and archive would lack it: better known before paid hours."""
    campaign = make_campaign(tmp_path / "campaign")
    path = campaign.protocol_dir / name
    elsewhere = tmp_path / path.name
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    with pytest.raises(InputRefused, match="a link out of the campaign folder"):
        freeze(campaign)
    assert not campaign.lock.exists()
    inside = path.with_name(f"real-{path.name}")
    elsewhere.rename(inside)
    path.unlink()
    path.symlink_to(inside.name)  # a link within the campaign stays possible
    freeze(campaign)
