"""The evidence of a campaign is what its locks name: corpora and models of something else are not of it (M45, M53)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.evidence.campaign import Campaign
from runner.flows import integrity
from runner.flows.archive import make_archive
from runner.flows.report import make_report
from runner.flows.verification import Verification
from runner.flows.verify import verify
from runner.protocol.lockfile import keep_lock, read_lock
from runner.seal import sums
from runner.seal.bag import LEFT_OUT, read_bag

EXAMPLE = ("protocol/corpus/other.csv", "protocol/corpus/mine/final.csv", "protocol/corpus/mine/README.md")
MODEL = ("protocol/example/config.json", "protocol/example/model.safetensors")


@pytest.fixture
def crowded(campaign: Campaign) -> Iterator[Campaign]:
    """A signed campaign beside whose corpus and model those of something else lie, signed again."""
    for name in (*EXAMPLE, *MODEL):
        place = campaign.root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("of another campaign\n", encoding="utf-8")
    # A link, as folders of a hub's cache hold: nothing of it is read, so it is no reason to refuse.
    (campaign.protocol_dir / "example" / "weights").symlink_to("model.safetensors")
    make_report(campaign, environ={})
    yield campaign


def step(found: Verification, name: str) -> tuple[str, tuple[str, ...]]:
    (one,) = [step for step in found.steps if step.name == name]
    return one.status, one.details


def test_m45_list_and_archive_hold_the_corpus_and_model_of_this_campaign_only(crowded: Campaign) -> None:
    listed = {name for name, _ in sums.evidence_files(crowded)}
    assert "protocol/corpus/final.csv" in listed
    assert not listed & {*EXAMPLE, *MODEL}
    made = make_archive(crowded, crowded.root / "rental.toml", {})
    payload = read_bag(made.path).payload
    assert {"protocol/corpus/final.csv", "protocol/model/model.safetensors"} <= set(payload)
    assert not set(payload) & {*EXAMPLE, *MODEL}
    assert not any(b"of another campaign" in data for data in payload.values())
    found = verify(made.path)
    assert found.accepted, found.lines()


def test_m45_verify_names_them_as_covered_by_nothing(crowded: Campaign) -> None:
    """NO-14: what lies there is no fault, and said."""
    found = verify(crowded.root)
    assert found.accepted, found.lines()
    status, (remark, *_) = step(found, "other files")
    assert status == "passed"
    for name in ("protocol/corpus/mine/final.csv", "protocol/corpus/other.csv", "protocol/example/"):
        assert name in remark


def test_a_note_that_signed_them_before_verifies_still(campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    """M52: a list of an older version holds more than is needed; each file of it is still checked."""
    other = campaign.root / EXAMPLE[0]
    other.write_text("of another campaign\n", encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(sums, "of_another", lambda campaign: lambda relative: False)
        make_report(campaign, environ={})
    listed = integrity.check_list(campaign, None)
    assert listed.signed is not None and EXAMPLE[0] in listed.signed.files
    assert integrity.check_files(campaign, listed.signed).status == "passed"
    made = make_archive(campaign, campaign.root / "rental.toml", {}, texts=False)
    assert EXAMPLE[0] in made.left_out and verify(made.path).accepted
    other.write_text("changed\n", encoding="utf-8")
    assert integrity.check_files(campaign, listed.signed).status == "failed"


def test_m53_what_is_left_out_is_named_with_the_measured_model(crowded: Campaign) -> None:
    """M53: the list of what is missing names my corpus and my model's files, not somebody else's."""
    made = make_archive(crowded, crowded.root / "rental.toml", {}, texts=False)
    named = read_bag(made.path).payload[LEFT_OUT].decode().splitlines()
    model = [f"protocol/model/{file.path}" for file in read_lock(crowded).judgement.model_files]
    assert len(model) > 1
    assert named == sorted(["protocol/corpus/final.csv", *model])
    found = verify(made.path)
    assert found.accepted, found.lines()


def test_what_is_read_by_its_pattern_cannot_be_hidden_as_a_model(crowded: Campaign) -> None:
    """NO-14: a config.json beside earlier locks or baselines makes no model of them: what is added is found."""
    for folder in ("locks", "baseline", "reference"):
        place = crowded.protocol_dir / folder
        place.mkdir(exist_ok=True)
        (place / "config.json").write_text("{}", encoding="utf-8")
    status, details = step(verify(crowded.root), "files")
    assert status == "failed"
    assert {line.split(":")[0] for line in details} >= {
        f"protocol/{folder}/config.json" for folder in ("locks", "baseline", "reference")
    }


def test_the_corpus_of_an_earlier_revision_is_of_the_campaign(crowded: Campaign, tmp_path: Path) -> None:
    """M4: rows of an earlier lock stay, so what that lock names stays signed."""
    lock = read_lock(crowded)
    (corpus,) = lock.judgement.corpora
    (final,) = corpus.final
    old = corpus.model_copy(update={"final": (final.model_copy(update={"path": EXAMPLE[1]}),)})
    earlier = lock.model_copy(update={"judgement": lock.judgement.model_copy(update={"corpora": (old,)})})
    now = crowded.lock.read_bytes()
    crowded.lock.write_bytes(earlier.dump())
    keep_lock(crowded, earlier)
    crowded.lock.write_bytes(now)
    listed = {name for name, _ in sums.evidence_files(crowded)}
    assert {EXAMPLE[1], EXAMPLE[2]} <= listed and EXAMPLE[0] not in listed


def test_before_a_freeze_nothing_is_of_another(crowded: Campaign) -> None:
    shutil.move(crowded.lock, crowded.root / "lock")
    (crowded.protocol_dir / "example" / "weights").unlink()
    assert {name for name, _ in sums.evidence_files(crowded)} >= {*EXAMPLE, *MODEL}
