"""What the attempt's row says: TI-02, TI-03, TI-11, RE-07, MO-10, MO-15, MO-17, and each check broken on purpose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runner.cli.main import run
from runner.evidence.attempt import Attempt, DeviceMatch, ErrorInfo, Status
from runner.evidence.campaign import Campaign
from runner.evidence.verdict import Verdict
from runner.judge.campaign import judge_campaign
from runner.judge.verdict import judge_attempt
from runner.protocol.freeze import freeze
from runner.protocol.schema import Lock
from runner.units import parse_utc, utc_text
from tests.support.small_campaign import ROWS, make_attempt, make_campaign, store_attempt, write_predictions

CASES = Path(__file__).parent.parent / "cases"
RIGHT = [(row[0], row[2]) for row in ROWS]


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    return make_campaign(tmp_path)


@pytest.fixture
def lock(campaign: Campaign) -> Lock:
    return freeze(campaign)


@pytest.fixture
def predictions(campaign: Campaign) -> Path:
    return write_predictions(campaign.predictions / "a000.parquet", RIGHT)


def failed(verdict: Verdict) -> list[str]:
    return [check.name for check in verdict.checks if check.status == "failed"]


def test_a_clean_pass_is_accepted(campaign: Campaign, lock: Lock, predictions: Path) -> None:
    verdict = judge_attempt(campaign, lock, make_attempt(campaign, lock, predictions))
    assert verdict.accepted and verdict.reasons == () and verdict.warnings == ()
    assert all(check.status == "passed" for check in verdict.checks)


BROKEN: list[tuple[str, dict[str, Any], str]] = [
    ("status", {"status": Status.FAILED, "error": ErrorInfo(kind="RuntimeError", message="no")}, "status failed"),
    ("status", {"status": Status.OUT_OF_MEMORY}, "status out_of_memory"),
    ("status", {"status": Status.INTERRUPTED}, "status interrupted"),
    ("status", {"pass_seconds": None, "pass_seconds_reason": "lost"}, "completed, yet without a duration"),
    ("status", {"pass_seconds": 0.0}, "completed, yet without a duration"),
    ("lock", {"lock_sha256": "0" * 64}, "another lock"),
    ("lock", {"nonce": "0" * 64}, "nonce"),
    ("lock", {"seed": 99}, "seed 99"),
    ("lock", {"corpus_id": "other"}, "'other' is not frozen"),
    ("coverage", {"completed_documents": 9}, "completed 9 of 10"),
    ("coverage", {"expected_documents": 9, "completed_documents": 9}, "the frozen corpus has 10"),
    ("coverage", {"completed_documents": None}, "completed is unknown"),
    ("settings", {"variant_id": "b99"}, "'b99' is not frozen"),
    ("settings", {"effective": None}, "unknown"),
    ("recompilation", {"recompilations": 1}, "1 compilation in the timed part"),
    ("device", {"device_shared": True, "gpu_declared": "b200"}, "other processes"),
]


@pytest.mark.parametrize(("name", "changes", "words"), BROKEN)
def test_every_check_of_the_row_refuses_when_broken(
    campaign: Campaign, lock: Lock, predictions: Path, name: str, changes: dict[str, Any], words: str
) -> None:
    """M3, M11, M16, M22, M23: one fault, one rejection that names it; a pass of no time is none."""
    verdict = judge_attempt(campaign, lock, make_attempt(campaign, lock, predictions, **changes))
    assert not verdict.accepted
    found = next(check for check in verdict.checks if check.name == name)
    assert found.status in ("failed", "not assessable")
    assert words in found.reason


B200 = DeviceMatch(code="fits", pattern="NVIDIA B200", fitting=("NVIDIA B200",))
WORDS = DeviceMatch(code="fits", pattern=None, fitting=("NVIDIA H200",))


@pytest.mark.parametrize(
    ("match", "found", "accepted"),
    [
        (B200, ("NVIDIA B200",), True),
        (B200, ("NVIDIA B200", "NVIDIA B200"), True),
        (B200, ("NVIDIA A100",), False),
        (B200, ("NVIDIA B200", "NVIDIA A100"), False),
        (B200, (), False),
        (B200.model_copy(update={"code": "other device"}), ("NVIDIA B200",), False),
        (B200.model_copy(update={"pattern": "(NVIDIA)+ B200"}), ("NVIDIA B200",), False),
        (WORDS, ("NVIDIA H200",), True),
        (WORDS, ("NVIDIA H100",), False),
        (None, ("NVIDIA A100",), True),  # a row older than the field keeps its verdict
    ],
)
def test_m11_a_completed_pass_of_another_card_is_refused_by_what_the_row_says(
    campaign: Campaign, lock: Lock, predictions: Path, match: DeviceMatch | None, found: tuple[str, ...], accepted: bool
) -> None:
    """The pattern stands in the row: tariffs may have changed since, or not be there."""
    changes: dict[str, Any] = {"gpu_declared": "b200", "devices_found": found, "device_match": match}
    attempt = make_attempt(campaign, lock, predictions, device_shared=False, **changes)
    assert Attempt.from_json(attempt.as_json()) == attempt
    assert ("device_match" in attempt.as_json()) == (match is not None)
    campaign.tariffs.unlink(missing_ok=True)
    verdict = judge_attempt(campaign, lock, attempt)
    assert verdict.accepted == accepted
    if not accepted:
        assert failed(verdict) == ["device"]
        assert verdict.reasons == (f"device: declared b200, found {', '.join(found) or 'no card'}",)


def test_settings_in_effect_must_be_those_requested(campaign: Campaign, lock: Lock, predictions: Path) -> None:
    """MO-15: the attention backend was silently replaced."""
    record = json.loads((CASES / "MO-15" / "records.jsonl").read_text().splitlines()[0])
    clean = make_attempt(campaign, lock, predictions)
    assert clean.effective is not None
    requested = clean.requested.model_copy(update={"attention": record["requested"]["attention"]})
    effective = clean.effective.model_copy(update={"attention": record["effective"]["attention"]})
    variants = (lock.variants[0].model_copy(update={"settings": requested}), *lock.variants[1:])
    with_flash = lock.model_copy(update={"variants": variants})
    verdict = judge_attempt(
        campaign, with_flash, make_attempt(campaign, with_flash, predictions, requested=requested, effective=effective)
    )
    assert failed(verdict) == ["settings"]
    assert verdict.reasons == ("settings: configuration mismatch: attention requested flash_attention_2, used eager",)


def test_a_row_that_requests_something_else_than_its_variant(campaign: Campaign, lock: Lock, predictions: Path) -> None:
    """M16: batch 4 under the name b8."""
    wrong = next(variant.settings for variant in lock.variants if variant.id == "b4")
    attempt = make_attempt(campaign, lock, predictions, variant="b8", requested=wrong)
    verdict = judge_attempt(campaign, lock, attempt)
    assert failed(verdict) == ["settings"]
    assert "batch_size requested 8, used 4" in verdict.reasons[0]


def test_texts_cut_elsewhere_are_other_work(campaign: Campaign, lock: Lock, predictions: Path) -> None:
    """M29 (MO-17): 64 tokens against 128."""
    settings = lock.variants[0].settings.model_copy(update={"max_length": 64})
    lock = lock.model_copy(update={"variants": (lock.variants[0].model_copy(update={"settings": settings}),)})
    verdict = judge_attempt(campaign, lock, make_attempt(campaign, lock, predictions))
    assert failed(verdict) == ["same work"]
    assert "max_length 64 against 128" in verdict.reasons[0]


def test_sharing_the_own_cpu_is_a_warning(campaign: Campaign, lock: Lock, predictions: Path) -> None:
    verdict = judge_attempt(campaign, lock, make_attempt(campaign, lock, predictions, device_shared=True))
    assert verdict.accepted
    assert "other processes" in verdict.warnings[0]


def test_ti_02_a_compilation_in_the_timed_part(campaign: Campaign, lock: Lock, predictions: Path) -> None:
    """TI-02: not clean, and the duration stays what it was."""
    record = json.loads((CASES / "TI-02" / "record.json").read_text())
    batches = record["timed_batches"]
    compiled = [batch["shape"] for batch in batches if batch["compile_events"]]
    seconds = sum(round(float(batch["s"]) * 1000) for batch in batches) / 1000
    attempt = make_attempt(
        campaign,
        lock,
        predictions,
        recompilations=len(compiled),
        pass_seconds=seconds,
        notes=(f"shape {compiled[0][0]}×{compiled[0][1]}",),
    )
    verdict = judge_attempt(campaign, lock, attempt)
    assert not verdict.accepted
    assert verdict.reasons == ("recompilation: not clean: 1 compilation in the timed part, shape 8×384",)
    assert attempt.pass_seconds == 14.423


def test_ti_03_the_wall_clock_was_set_back(campaign: Campaign, lock: Lock, predictions: Path) -> None:
    """TI-03: accepted, with a warning; the duration is the monotonic one."""
    record = json.loads((CASES / "TI-03" / "record.json").read_text())
    mono = float(record["mono_end"]) - float(record["mono_start"])
    wall = (parse_utc(record["wall_end"]) - parse_utc(record["wall_start"])).total_seconds()
    attempt = make_attempt(campaign, lock, predictions, pass_seconds=mono, wall_clock_moved_seconds=wall - mono)
    verdict = judge_attempt(campaign, lock, attempt)
    assert verdict.accepted
    assert verdict.warnings[0].startswith("wall clock moved by -3600 s during the pass")


def test_ti_11_order_is_proved_by_the_nonce(campaign: Campaign, lock: Lock, predictions: Path) -> None:
    """TI-11: 480 s before the freeze: with the nonce a warning about the clock, without it rejected."""
    early = utc_text(
        parse_utc(lock.frozen_at_utc).replace(microsecond=0)
        - (parse_utc("2026-05-04T12:00:00Z") - parse_utc("2026-05-04T11:52:00Z"))
    )
    assert (
        judge_attempt(
            campaign, lock, make_attempt(campaign, lock, predictions, started_at_utc=lock.frozen_at_utc)
        ).warnings
        == ()
    ), "at the very instant of the freeze is not before it"
    lock = lock.model_copy(update={"frozen_on": "M1"})
    chain = make_attempt(campaign, lock, predictions).chain.model_copy(update={"machine_id": "M2"})
    with_nonce = make_attempt(campaign, lock, predictions, started_at_utc=early, chain=chain)
    verdict = judge_attempt(campaign, lock, with_nonce)
    assert verdict.accepted
    assert verdict.warnings[0].startswith("clock of M2 is at least 480 s behind M1")
    without = with_nonce.model_copy(update={"attempt_id": "x1", "nonce": ""})
    verdict = judge_attempt(campaign, lock, without)
    assert not verdict.accepted
    assert "run x1 starts 480 s before the freeze" in verdict.reasons[0]


def test_re_07_rows_of_another_freeze_are_never_judged_as_ours(
    campaign: Campaign, lock: Lock, predictions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """RE-07 (M3): other corpus or protocol means another lock; missing means empty. Nothing is mixed."""
    rows = [json.loads(line) for line in (CASES / "RE-07" / "records.jsonl").read_text().splitlines()]
    expected = json.loads((CASES / "RE-07" / "expected.json").read_text())
    for number, row in enumerate(rows):
        ours = all(row.get(key) == value for key, value in expected.items())
        changes = {} if ours else {"lock_sha256": row.get("protocol_sha256", "0" * 64), "nonce": ""}
        store_attempt(
            campaign, make_attempt(campaign, lock, predictions, number=number, attempt_id=row["run_id"], **changes)
        )
    verdicts = {verdict.attempt_id: verdict for verdict in judge_campaign(campaign)}
    assert [name for name, verdict in verdicts.items() if verdict.accepted] == ["g1"]
    for name in ("g2", "g3", "g4"):
        assert failed(verdicts[name])[0] == "lock" and verdicts[name].metrics == ()
    assert run(["--campaign", str(campaign.root), "validate"]) == 3
    shown = capsys.readouterr().out
    assert shown.count("measured under another lock") == 3 and "1 of 4 attempts accepted" in shown


def test_predictions_changed_after_the_pass(campaign: Campaign, lock: Lock, predictions: Path) -> None:
    attempt = make_attempt(campaign, lock, predictions)
    write_predictions(predictions, [(name, label, 0.8) for name, label in RIGHT])
    verdict = judge_attempt(campaign, lock, attempt)
    assert failed(verdict) == ["predictions"]
    assert "not the one that the attempt wrote" in verdict.reasons[0]


def test_missing_damaged_and_partial_prediction_files(campaign: Campaign, lock: Lock, predictions: Path) -> None:
    attempt = make_attempt(campaign, lock, predictions)
    partial = judge_attempt(campaign, lock, attempt.model_copy(update={"predictions_partial": True}))
    assert "partial" in partial.reasons[0]
    predictions.write_bytes(b"PAR1 no more")
    assert failed(judge_attempt(campaign, lock, attempt)) == ["predictions"]
    predictions.unlink()
    assert "missing" in judge_attempt(campaign, lock, attempt).reasons[0]
    assert not judge_attempt(campaign, lock, make_attempt(campaign, lock, None)).accepted


def test_scores_that_are_not_finite(campaign: Campaign, lock: Lock) -> None:
    """MO-10, seen by the judge: NaN and infinity in the file, whatever the label says."""
    rows = [(name, label, 0.9) for name, label in RIGHT]
    rows[1], rows[2] = (*rows[1][:2], float("nan")), (*rows[2][:2], float("inf"))
    path = write_predictions(campaign.predictions / "a000.parquet", rows)
    verdict = judge_attempt(campaign, lock, make_attempt(campaign, lock, path))
    assert failed(verdict) == ["scores"]
    assert "line 2: score nan not finite; line 3: score inf not finite" in verdict.reasons[0]
    assert verdict.metrics == ()
    json.loads(verdict.dump(), parse_constant=lambda name: pytest.fail(name))


def test_verdicts_are_written_whole_and_repeat_byte_for_byte(campaign: Campaign, lock: Lock, predictions: Path) -> None:
    store_attempt(campaign, make_attempt(campaign, lock, predictions))
    judge_campaign(campaign)
    path = campaign.verdicts / "a000.json"
    first, when = path.read_bytes(), path.stat().st_mtime_ns
    judge_campaign(campaign)
    assert path.read_bytes() == first and path.stat().st_mtime_ns == when
    assert Verdict.load(path).accepted
    assert [item.name for item in campaign.verdicts.iterdir()] == ["a000.json"]


def test_re_03_a_half_written_row_is_one_attempt_without_result(
    campaign: Campaign, lock: Lock, predictions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """RE-03: exit 0 with a warning that names file and bytes; two whole rows, one of three without a result."""
    for number in range(2):
        store_attempt(campaign, make_attempt(campaign, lock, predictions, number=number, attempt_id=f"d{number + 1}"))
    torn = (CASES / "RE-03" / "records.jsonl").read_bytes().rpartition(b"\n")[2]
    (campaign.attempts / "d3.json").write_bytes(torn)
    assert run(["--campaign", str(campaign.root), "validate"]) == 0
    shown = capsys.readouterr().out
    assert "warning: d3.json: incomplete, 48 bytes, kept; an attempt without result" in shown
    assert "2 of 3 attempts accepted" in shown
    assert (campaign.attempts / "d3.json").read_bytes() == torn
