"""Corpus and model are the frozen ones in every attempt, not only when `measure` begins (M2, M3, M8, M29)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.errors import NotAccepted
from runner.evidence.campaign import Campaign
from runner.evidence.store import read_attempts
from runner.judge.campaign import judge_campaign
from runner.measure.inputs import InputWatch
from runner.measure.run import Request, measure
from runner.protocol.freeze import load_lock
from runner.protocol.modelfiles import checked_model
from tests.measure.light import WORKER, Quiet, light_campaign, run

SWAPPING = (sys.executable, str(Path(__file__).with_name("swapping_worker.py")))


def final(campaign: Campaign) -> Path:
    return campaign.protocol_dir / "corpus" / "final.csv"


def weights(campaign: Campaign) -> Path:
    return campaign.protocol_dir / "model" / "model.safetensors"


def shorter(campaign: Campaign) -> bytes:
    """Same ids and labels, shorter texts."""
    return final(campaign).read_bytes().replace(b"text number", b"text")


class AtStart(Quiet):
    """Does something after the attempt's row was begun and before its worker starts."""

    def __init__(self, act: Callable[[int], None]) -> None:
        super().__init__()
        self._act = act

    def started(self, planned: Any) -> None:
        self._act(len(self.seen))


def test_m8_rows_say_what_they_read_and_untouched_inputs_pass(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, passes=2)
    run(campaign)
    rows = read_attempts(campaign)
    assert len(rows) == 2
    for row in rows:
        assert row.inputs is not None and row.inputs.changed == () and row.inputs.corpus_records_sha256 is None
    for verdict in judge_campaign(campaign):
        assert verdict.accepted
        assert next(check for check in verdict.checks if check.name == "inputs").status == "passed"


def test_m2_m29_a_corpus_replaced_between_attempts_is_named_and_measuring_stops(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, passes=3)
    original, other = final(campaign).read_bytes(), shorter(campaign)
    progress = AtStart(lambda number: final(campaign).write_bytes(other) and None if number == 1 else None)
    with pytest.raises(NotAccepted, match="no longer the frozen one") as stopped:
        measure(campaign, Request(gpu="cpu"), progress, WORKER)
    assert "protocol/corpus/final.csv has other content" in str(stopped.value)
    final(campaign).write_bytes(original)
    first, second = judge_campaign(campaign)
    assert first.accepted and not second.accepted
    assert any("protocol/corpus/final.csv: other content during the attempt" in text for text in second.reasons)
    assert any("other ids or texts" in text for text in second.reasons)
    outcome = run(campaign)  # goes on with what is missing
    assert len(outcome.written) == 1 and judge_campaign(campaign)[2].accepted


def test_m8_a_corpus_swapped_in_and_put_back_within_one_attempt_is_seen(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, passes=2)
    final(campaign).with_suffix(".other").write_bytes(shorter(campaign))
    before = final(campaign).read_bytes()
    measure(campaign, Request(gpu="cpu"), Quiet(), SWAPPING)
    assert final(campaign).read_bytes() == before
    rows, verdicts = read_attempts(campaign), judge_campaign(campaign)
    assert len(rows) == 2 and not any(verdict.accepted for verdict in verdicts)
    for row in rows:
        assert row.inputs is not None
        # Two traces, each enough: the texts that the pass got, and the file system.
        corpus, texts = row.inputs.changed
        assert corpus.startswith("protocol/corpus/final.csv: ")
        assert texts == "the pass was given other ids or texts than those of corpus small-final as frozen"


def test_m8_mo19_a_model_replaced_between_attempts_is_named(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, passes=3)
    original = weights(campaign).read_bytes()
    progress = AtStart(lambda number: weights(campaign).write_bytes(original + b" ") and None if number == 1 else None)
    with pytest.raises(NotAccepted, match=r"model file model\.safetensors: other content"):
        measure(campaign, Request(gpu="cpu"), progress, WORKER)
    weights(campaign).write_bytes(original)
    first, second = judge_campaign(campaign)
    assert first.accepted and not second.accepted
    assert second.reasons == ("inputs: model.safetensors: other content during the attempt",)


def test_m8_a_large_model_file_is_not_hashed_again_unless_it_was_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = light_campaign(tmp_path)
    lock = load_lock(campaign)
    monkeypatch.setattr("runner.measure.inputs._HASHED_ANEW_BYTES", 0)
    hashed: list[Path] = []
    from runner.measure import inputs

    real = inputs.sha256_file
    monkeypatch.setattr("runner.measure.inputs.sha256_file", lambda path: hashed.append(path) or real(path))
    watch = InputWatch(campaign, lock, lock.protocol.corpus, checked_model(campaign, lock))
    hashed.clear()
    seen = watch.before("small-final")
    assert watch.after("small-final", seen, None).changed == () and hashed == []
    # Renamed away and back: same bytes, same inode, same time of the content, and yet it is seen.
    aside = weights(campaign).with_suffix(".aside")
    weights(campaign).rename(aside)
    aside.rename(weights(campaign))
    found = watch.after("small-final", seen, None).changed
    assert found == ("model.safetensors: replaced or written to during the attempt",)
    assert hashed == [weights(campaign)]


def test_m8_other_line_ends_are_still_the_frozen_corpus(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, passes=2)
    final(campaign).write_bytes(final(campaign).read_bytes().replace(b"\n", b"\r\n"))
    run(campaign)
    assert all(verdict.accepted for verdict in judge_campaign(campaign))
    assert all(row.inputs is not None and row.inputs.corpus_records_sha256 for row in read_attempts(campaign))


def test_m8_a_row_that_claims_another_corpus_or_model_is_rejected(tmp_path: Path) -> None:
    from runner.judge.record import record_checks

    campaign = light_campaign(tmp_path, passes=2)
    run(campaign)
    row, lock = read_attempts(campaign)[0], load_lock(campaign)
    assert row.inputs is not None
    for field, words in (("corpus_sha256", "corpus 'small-final'"), ("model_sha256", "the model that was loaded")):
        forged = row.model_copy(update={"inputs": row.inputs.model_copy(update={field: "0" * 64})})
        check = next(check for check in record_checks(forged, lock) if check.name == "inputs")
        assert check.status == "failed" and words in check.reason
