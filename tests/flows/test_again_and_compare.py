"""Ask again and compare (M47): same judgement, new nonce, corpus seen before; what may be compared."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from runner.cli.main import run
from runner.errors import InputRefused, NotAccepted
from runner.evidence.campaign import Campaign
from runner.flows.again import set_up_again
from runner.flows.archive import make_archive
from runner.flows.compare import compare
from runner.flows.note_state import note_state
from runner.note.build import note_markdown
from runner.note.i18n import load_catalogue
from runner.pricing.rental import read_rental
from runner.protocol.freeze import freeze, make_freeze
from runner.protocol.read import read_protocol
from runner.protocol.schema import Lock
from tests.flows.conftest import measured_campaign
from tests.support.small_campaign import PROTOCOL, ROWS, make_attempt, store_attempt, write_predictions
from tests.support.small_campaign import make_campaign as small_campaign

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def archive(reported: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("archive") / "campaign"
    shutil.copytree(reported, root)
    return make_archive(Campaign(root), root / "rental.toml", {}).path


def test_the_same_experiment_from_an_archive(archive: Path, reported: Path, tmp_path: Path) -> None:
    made = set_up_again(archive, tmp_path / "new")
    new, old = Campaign(tmp_path / "new"), Lock.load(Campaign(reported).lock)
    assert made.missing == ()
    assert not new.lock.exists() and not new.records.exists() and not new.note.exists()
    assert not (new.protocol_dir / "keys").exists()
    lock = freeze(new)
    assert lock.nonce != old.nonce
    assert lock.judgement.corpora[0].records_sha256 == old.judgement.corpora[0].records_sha256
    assert all(corpus.seen_before for corpus in lock.judgement.corpora)
    assert lock.protocol.quality == old.protocol.quality
    assert lock.variants == old.variants
    assert made.note_id in new.protocol.read_text(encoding="utf-8")


def test_m46_the_new_folder_has_the_form_of_a_rental_record(archive: Path, tmp_path: Path) -> None:
    """M46, M47: step 4 of README begins with it, and no archive carries it; what is printed for it works as it is."""
    made = set_up_again(archive, tmp_path / "my new")
    (line,) = [step for step in made.next_steps if "rental.example.toml" in step]
    command = line.split(": ", 1)[1].split(", then")[0]
    subprocess.run(command, shell=True, check=True, timeout=30)
    with pytest.raises(InputRefused, match="fill"):
        read_rental(made.folder / "rental.toml")


@pytest.mark.parametrize("seen", [True, False])
def test_m4_a_campaign_on_a_corpus_used_before_says_so_in_its_note(tmp_path: Path, seen: bool) -> None:
    """M4, M47: said at the freeze and in the note, in its language; of another corpus nothing is said."""
    mark = f'id = "small-final"\nseen_before = {str(seen).lower()}\n'
    campaign = small_campaign(tmp_path, protocol=PROTOCOL.replace('id = "small-final"\n', mark))
    frozen = make_freeze(campaign)
    assert any("small-final was seen before" in warning for warning in frozen.warnings) is seen
    shutil.copyfile(PROJECT / "tariffs.csv", campaign.tariffs)
    path = write_predictions(campaign.predictions / "a000.parquet", [(row[0], row[2]) for row in ROWS])
    store_attempt(campaign, make_attempt(campaign, frozen.lock, path))
    assert run(["--campaign", str(tmp_path), "validate"]) == run(["--campaign", str(tmp_path), "decide"]) == 0
    for language in ("en", "de", "tr", "fr"):
        words = load_catalogue(PROJECT / "templates", language).gettext("corpus seen before")
        (row,) = [line for line in note_markdown(campaign, language).splitlines() if line.startswith("| small-final |")]
        assert (words in row) is seen


def test_from_a_folder_with_another_model(reported: Path, tmp_path: Path) -> None:
    made = set_up_again(reported, tmp_path / "new", model="example/other", revision="0" * 40)
    new = Campaign(tmp_path / "new")
    model = read_protocol(new.protocol).model
    assert (model.source, model.revision) == ("example/other", "0" * 40)
    assert model.max_length == 128
    assert not new.baseline_dir.exists()
    assert not (new.protocol_dir / "model").exists()
    assert any("baseline" in step for step in made.next_steps)


def test_comments_and_an_earlier_mark_stay_readable(reported: Path, tmp_path: Path) -> None:
    first = tmp_path / "first"
    shutil.copytree(reported, first)
    path = Campaign(first).protocol
    marked = PROTOCOL.replace('id = "small-final"\n', 'id = "small-final"  # ours\nseen_before = false\n')
    path.write_text(marked, encoding="utf-8")
    set_up_again(first, tmp_path / "new")
    text = Campaign(tmp_path / "new").protocol.read_text(encoding="utf-8")
    assert "# ours" in text
    assert text.count("seen_before") == 1
    assert read_protocol(Campaign(tmp_path / "new").protocol).corpus[0].seen_before


def test_a_full_folder_is_never_written_over(reported: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("x", encoding="utf-8")
    with pytest.raises(InputRefused, match="empty or a new folder"):
        set_up_again(reported, tmp_path / "full")
    assert [path.name for path in tmp_path.iterdir()] == ["full"]


def test_a_damaged_archive_sets_up_nothing(archive: Path, tmp_path: Path) -> None:
    data = bytearray(archive.read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "damaged.zip").write_bytes(bytes(data))
    with pytest.raises((NotAccepted, InputRefused)):
        set_up_again(tmp_path / "damaged.zip", tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["damaged.zip"]


# ---- compare --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def faster(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same experiment again, b8 twice as fast, b4 within the old spread, decided but without a note."""
    from runner.decide.write import write_decision
    from runner.judge.campaign import judge_campaign

    root = tmp_path_factory.mktemp("faster") / "campaign"
    set_up_again(archive, root)
    campaign = Campaign(root)
    lock = freeze(campaign)
    rows = (campaign.protocol_dir / "corpus" / "final.csv").read_text("utf-8").splitlines()[1:]
    right = [(row.split(",")[0], row.split(",")[2]) for row in rows]
    seconds = {"b1": 3.0, "b4": 2.0, "b8": 0.5}
    for number in range(9):
        variant = ("b1", "b4", "b8")[number % 3]
        predictions = write_predictions(campaign.predictions / f"n{number:03d}.parquet", right)
        attempt = make_attempt(
            campaign, lock, predictions, number=number, variant=variant, attempt_id=f"n{number:03d}",
            pass_seconds=seconds[variant] + number // 3 * 0.01,
        )  # fmt: skip
        store_attempt(campaign, attempt)
    judge_campaign(campaign)
    write_decision(campaign)
    return root


def test_two_campaigns_of_one_experiment_may_be_compared(archive: Path, faster: Path) -> None:
    found = compare(archive, faster)
    assert found.obstacles == ()
    pairs = {pair.configuration: pair for pair in found.pairs}
    assert set(pairs) == {"cpu.b1", "cpu.b4", "cpu.b8"}
    assert pairs["cpu.b8"].separated is True
    assert pairs["cpu.b8"].ratio == Decimal("0.51") / Decimal("1.01")
    assert pairs["cpu.b1"].separated is False
    assert found.changes["model"] == ()
    assert any("seen_before" in change for change in found.changes["question and rules"])
    lines = "\n".join(found.lines())
    assert "may be compared" in lines
    assert "not separated" in lines


def test_a_campaign_equals_itself(reported: Path) -> None:
    found = compare(reported, reported)
    assert found.obstacles == ()
    assert all(changes == () for changes in found.changes.values())
    assert all(pair.ratio == 1 and pair.separated is False for pair in found.pairs)


def test_m27_m38_rows_of_several_corpora_and_seeds_can_be_told_apart(reported: Path) -> None:
    """M27, M38: a line per corpus and seed says which; with one of each the name of the configuration is enough."""
    found = compare(reported, reported)
    assert sum(line.startswith("cpu.b8  ") for line in found.lines()) == 1
    first = found.pairs[0]
    second = replace(first, corpus_id="other", seed=first.seed + 1)
    lines = list(replace(found, pairs=(*found.pairs, second)).lines())
    assert sum(line.startswith(f"cpu.b1 on {first.corpus_id}, seed {first.seed} ") for line in lines) == 1
    assert sum(line.startswith(f"cpu.b1 on other, seed {first.seed + 1} ") for line in lines) == 1
    assert len({line.index(" s ") for line in lines if line.startswith("cpu.")}) == 1, "columns stand under each other"


def test_a_decision_without_a_note_is_called_none(archive: Path, faster: Path) -> None:
    """M47: the id of a note is that of the signed one; what was only decided has none."""
    found = compare(archive, faster)
    first, second = list(found.lines())[:2]
    assert f", note {found.a.note.signed_id}: cpu.b8" in first and "stale" not in first
    assert second == f"B: {faster}, decided, no note signed: cpu.b8"
    assert found.as_json()["b"]["note_id"] is None and found.as_json()["b"]["stale"] is None


def test_a_stale_note_is_said_to_be_stale(reported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """M47: attempts recorded since, and a decision made again since: the signed id stands, with what happened since."""
    root = tmp_path / "c"
    shutil.copytree(reported, root)
    campaign, signed = Campaign(root), note_state(Campaign(root))
    assert not signed.stale and signed.signed_id == signed.decision_id
    (campaign.note / "decision-note.html").write_text("spoilt", encoding="utf-8")
    assert run(["--campaign", str(root), "verify"]) == 3
    assert "The note is stale" not in capsys.readouterr().out, "a spoilt note is not a stale one"
    shutil.copyfile(reported / "note" / "decision-note.html", campaign.note / "decision-note.html")
    right = [(row[0], row[2]) for row in ROWS]
    path = write_predictions(campaign.predictions / "a009.parquet", right)
    lock = Lock.load(campaign.lock)
    store_attempt(campaign, make_attempt(campaign, lock, path, number=9, variant="b1", pass_seconds=9.0))
    (line, *_) = compare(root, reported).lines()
    assert f"note {signed.signed_id}, which is stale: 1 attempt recorded since it was signed:" in line
    assert run(["--campaign", str(root), "validate"]) == run(["--campaign", str(root), "decide"]) == 0
    capsys.readouterr()
    assert run(["--campaign", str(root), "verify"]) == 3
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == (
        "The note is stale: 1 attempt recorded and decided again since it was signed. If that was you, next: "
        f"make CAMPAIGN={root} report"
    )
    found = compare(root, reported)
    assert found.as_json()["a"]["stale"] == "1 attempt recorded and decided again since it was signed"
    assert found.as_json()["a"]["note_id"] == signed.signed_id != found.as_json()["a"]["decision_id"]


def test_changed_prices_and_models_are_named(reported: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(reported, other)
    tariffs = other / "tariffs.csv"
    text = tariffs.read_text(encoding="utf-8")
    assert ",110.00," in text
    tariffs.write_text(text.replace(",110.00,", ",120.00,"), encoding="utf-8")
    changes = compare(reported, other).changes["prices"]
    assert len(changes) == 1
    assert "rtx-4090" in changes[0] and "110.00" in changes[0] and "120.00" in changes[0]


@pytest.mark.parametrize(
    ("old", "new", "obstacle"),
    [
        ('threshold = "0.80"', 'threshold = "0.70"', "judged by other rules"),
        ("max_length = 128", "max_length = 64", "texts are cut elsewhere (128 and 64 tokens)"),
    ],
)
def test_other_work_must_not_be_compared(
    reported: Path, tmp_path: Path, old: str, new: str, obstacle: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from runner.decide.write import write_decision

    other = measured_campaign(tmp_path / "other", protocol=PROTOCOL.replace(old, new))
    write_decision(other)
    assert run(["compare", str(reported), str(other.root), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["may_be_compared"] is False
    assert any(obstacle in line for line in found["obstacles"])
    assert all(pair["separated"] is None for pair in found["pairs"])


def test_an_undecided_folder_is_refused(reported: Path, tmp_path: Path) -> None:
    with pytest.raises(InputRefused):
        compare(reported, tmp_path)


def test_m47_a_changed_deadline_has_its_name_in_the_comparison() -> None:
    """M47: every line says what changed, old value and new one."""
    from types import SimpleNamespace
    from typing import Any, cast

    from runner.flows.compare import _asked
    from runner.protocol.changes import content_changes

    one, other = (
        _asked(cast("Any", SimpleNamespace(deadline=f"2026-12-0{day}T12:00[UTC]", deliverables=("messages",))))
        for day in (4, 5)
    )
    (change,) = content_changes(one, other)
    assert str(change) == "deadline: '2026-12-04T12:00[UTC]' -> '2026-12-05T12:00[UTC]'"
