"""Cases of judging, read from their files and judged by the commands: QU-07, QU-08, RE-08, TI-11."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from runner.cli.main import run
from runner.evidence.attempt import Status
from runner.evidence.campaign import Campaign
from runner.evidence.store import read_attempts
from runner.evidence.verdict import Verdict
from runner.flows.recompute import recompute_verdicts
from runner.judge.campaign import judge_campaign, judge_predictions
from runner.judge.verdict import judge_attempt
from runner.note.build import note_markdown
from runner.protocol.freeze import freeze, load_lock
from runner.units import parse_utc, utc_text
from tests.support.small_campaign import (
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


def content(case: str, name: str) -> list[dict[str, object]]:
    text = (CASES / case / name).read_text(encoding="utf-8")
    found = json.loads(text) if name.endswith(".json") else [json.loads(line) for line in text.splitlines()]
    return found if isinstance(found, list) else [found]


def test_qu_07_a_drop_equal_to_the_tolerance_is_judged_reached(tmp_path: Path) -> None:
    """QU-07: reference 46/50; A 45/50 reached, B 44/50 not, C 46/50 reached; the figure shown is the one judged."""
    (protocol,) = content("QU-07", "protocol.json")
    assert (protocol["threshold"], protocol["tolerance"]) == ("0.90", "0.02")
    rows = [(f"q{number:02d}", f"text {number}", "pos" if number % 2 else "neg") for number in range(50)]
    other = {"pos": "neg", "neg": "pos"}

    def answers(correct: int) -> list[tuple[str, str]]:
        return [(row[0], row[2] if number < correct else other[row[2]]) for number, row in enumerate(rows)]

    corpus = write_csv(tmp_path / "corpus.csv", ("id", "text", "label"), rows)
    campaign = case_campaign(tmp_path / "campaign", corpus, protocol=SIMPLE_PROTOCOL, baseline=answers(46))
    freeze(campaign)
    reached, shown = {}, {}
    for row in content("QU-07", "counts.json"):
        assert isinstance(row["correct"], int)
        path = write_predictions(tmp_path / f"{row['config']}.parquet", answers(row["correct"]))
        verdict = judge_predictions(campaign, path)
        reached[row["config"]], shown[row["config"]] = verdict.accepted, verdict.metrics[0].fraction
        if row["config"] == "A":
            assert verdict.drop == "1/50"
            drop = next(check for check in verdict.checks if check.name == "drop")
            assert drop.reason == "accuracy drops by 0.02 from the baseline, within 0.02"
        if row["config"] == "B":
            assert verdict.reasons[0] == "metric: accuracy 44/50 = 0.88 is below 0.90"
    assert reached == {"A": True, "B": False, "C": True}
    assert shown == {"A": "45/50", "B": "44/50", "C": "46/50"}


def test_re_08_a_row_with_nan_is_refused_before_anything_is_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """RE-08: the bare words of the case's line 2, in a row of ours: exit 2, the word, the file; no verdict."""
    good, bad = (CASES / "RE-08" / "records.jsonl").read_text(encoding="utf-8").splitlines()
    json.loads(good, parse_constant=lambda word: pytest.fail(word))
    assert '"duration_s":NaN' in bad and '"score":Infinity' in bad
    campaign = make_campaign(tmp_path)
    lock = freeze(campaign)
    path = write_predictions(campaign.predictions / "a000.parquet", [(row[0], row[2]) for row in ROWS])
    store_attempt(campaign, make_attempt(campaign, lock, path))
    row = campaign.attempts / "a000.json"
    for word in ("NaN", "Infinity"):
        data = row.read_bytes()
        row.write_bytes(data.replace(b'"pass_seconds": 1.5', f'"pass_seconds": {word}'.encode()))
        assert run(["--campaign", str(tmp_path), "validate"]) == 2
        shown = capsys.readouterr().err
        line = data[: data.index(b'"pass_seconds": 1.5')].count(b"\n") + 1
        assert f"{word} is not allowed in JSON" in shown and f"a000.json:{line}" in shown
        assert not campaign.verdicts.exists()
        row.write_bytes(data)
    judge_campaign(campaign)
    for file in [*campaign.verdicts.rglob("*.json"), *campaign.attempts.glob("*.json")]:
        json.loads(file.read_text(encoding="utf-8"), parse_constant=lambda word: pytest.fail(word))


def test_re_08_an_undefined_metric_is_null_with_a_reason(tmp_path: Path) -> None:
    """RE-08, point 2: Matthews' coefficient of predictions of one class is null, and says why."""
    protocol = SIMPLE_PROTOCOL.replace('"accuracy"', '"mcc"').replace('"0.90"', '"0"').replace('"0.02"', '"2"')
    campaign = case_campaign(tmp_path, CASES / "QU-03" / "corpus.csv", protocol=protocol)
    freeze(campaign)
    ids = [line.split(",")[0] for line in (CASES / "QU-03" / "corpus.csv").read_text().splitlines()[1:]]
    path = write_predictions(tmp_path / "one-class.parquet", [(name, "pos") for name in ids])
    verdict = judge_predictions(campaign, path)
    value = json.loads(verdict.dump(), parse_constant=lambda word: pytest.fail(word))["metrics"][0]
    assert value["value"] is None and value["met"] is None
    assert value["reason"] == "Matthews' coefficient is undefined: all predictions are of one class"
    assert not verdict.accepted


def test_ti_03_exit_status_and_warning_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """TI-03: the case's own instants: 0, the warning, and 120 s of the monotonic clock in the row; never -3480."""
    (record,) = content("TI-03", "record.json")
    seconds = float(str(record["mono_end"])) - float(str(record["mono_start"]))
    wall = (parse_utc(str(record["wall_end"])) - parse_utc(str(record["wall_start"]))).total_seconds()
    campaign = make_campaign(tmp_path)
    lock = freeze(campaign)
    path = write_predictions(campaign.predictions / "a000.parquet", [(row[0], row[2]) for row in ROWS])
    clocks: dict[str, Any] = {"started_at_utc": record["wall_start"], "ended_at_utc": record["wall_end"]}
    clocks |= {"pass_seconds": seconds, "wall_clock_moved_seconds": wall - seconds}
    store_attempt(campaign, make_attempt(campaign, lock, path, **clocks))
    capsys.readouterr()
    assert run(["--campaign", str(tmp_path), "validate"]) == 0
    shown = capsys.readouterr().out
    assert "wall clock moved by -3600 s during the pass" in shown and "1 of 1 attempts accepted" in shown
    assert "3480" not in shown
    (row,) = read_attempts(campaign)
    assert row.pass_seconds == 120.0


@pytest.mark.parametrize(("name", "accepted"), [("with_nonce.jsonl", True), ("without_nonce.jsonl", False)])
def test_ti_11_the_value_of_the_freeze_proves_the_order(tmp_path: Path, name: str, accepted: bool) -> None:
    """TI-11: freeze and record with the case's own instants and machines; the words are the case's too."""
    (frozen,), (record,) = content("TI-11", "freeze.json"), content("TI-11", name)
    campaign = make_campaign(tmp_path)
    lock = freeze(campaign).model_copy(update={"frozen_at_utc": frozen["frozen_at"], "frozen_on": frozen["machine"]})
    path = write_predictions(campaign.predictions / "a000.parquet", [(row[0], row[2]) for row in ROWS])
    chain = make_attempt(campaign, lock, path).chain.model_copy(update={"machine_id": record["machine"]})
    attempt = make_attempt(
        campaign,
        lock,
        path,
        attempt_id=record["run_id"],
        chain=chain,
        started_at_utc=record["wall_start"],
        ended_at_utc="2026-05-04T11:53:00Z",
        nonce=lock.nonce if "freeze_nonce" in record else "",
    )
    verdict: Verdict = judge_attempt(campaign, lock, attempt)
    assert verdict.accepted is accepted
    if accepted:
        assert verdict.warnings[0].startswith("clock of M2 is at least 480 s behind M1")
    else:
        assert "run x1 starts 480 s before the freeze" in verdict.reasons[0]


@pytest.mark.parametrize(("knows_the_nonce", "status"), [(True, 0), (False, 3)])
def test_ti_11_exit_status_of_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], knows_the_nonce: bool, status: int
) -> None:
    """TI-11: a row of M2, 480 s before the freeze: `validate` gives 0 with a warning, 3 without the nonce."""
    (frozen,), (record,) = content("TI-11", "freeze.json"), content("TI-11", "with_nonce.jsonl")
    early = parse_utc(str(frozen["frozen_at"])) - parse_utc(str(record["wall_start"]))
    campaign = make_campaign(tmp_path)
    lock = freeze(campaign)
    path = write_predictions(campaign.predictions / "a000.parquet", [(row[0], row[2]) for row in ROWS])
    start = parse_utc(lock.frozen_at_utc).replace(microsecond=0) - early
    attempt = make_attempt(
        campaign,
        lock,
        path,
        started_at_utc=utc_text(start),
        nonce=lock.nonce if knows_the_nonce else "",
        ended_at_utc=utc_text(start + dt.timedelta(minutes=1)),
    )
    store_attempt(campaign, attempt)
    capsys.readouterr()
    assert run(["--campaign", str(tmp_path), "validate"]) == status
    shown = capsys.readouterr().out
    assert ("warning: clock of m1 is at least 480 s behind" in shown) is knows_the_nonce
    assert ("starts 480 s before the freeze" in shown) is not knows_the_nonce


def test_qu_08_a_new_freeze_has_a_new_number_and_both_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """QU-08, point 2: the earlier rows are never judged under the new freeze, and both locks are kept."""
    campaign: Campaign = make_campaign(tmp_path)
    first = freeze(campaign)
    path = write_predictions(campaign.predictions / "a000.parquet", [(row[0], row[2]) for row in ROWS])
    store_attempt(campaign, make_attempt(campaign, first, path))
    assert run(["--campaign", str(tmp_path), "validate"]) == 0
    before = (campaign.verdicts / "a000.json").read_bytes()
    fresh = [(f"n{row[0]}", f"quite another {row[1]}", row[2], row[3]) for row in ROWS]
    write_csv(campaign.protocol_dir / "corpus" / "second.csv", ("id", "text", "label", "stratum"), fresh)
    write_predictions(campaign.baseline_dir / "small-final-r2.parquet", [(row[0], row[2]) for row in fresh])
    assert run(["--campaign", str(tmp_path), "protocol", "revise", "--corpus", "corpus/second.csv"]) == 0
    text = campaign.protocol.read_text(encoding="utf-8").replace("small-final.parquet", "small-final-r2.parquet")
    campaign.protocol.write_text(text, encoding="utf-8")
    assert run(["--campaign", str(tmp_path), "freeze"]) == 0
    capsys.readouterr()
    second = load_lock(campaign)
    assert second.protocol.question.revision == 2 and second.lock_sha256 != first.lock_sha256
    assert [file.name for file in (campaign.protocol_dir / "locks").glob("*.lock.json")] == [
        f"r1-{first.lock_sha256[:12]}.lock.json"
    ]
    assert run(["--campaign", str(tmp_path), "validate"]) == 0
    assert "no attempt to judge yet" in capsys.readouterr().out
    assert (campaign.verdicts / "a000.json").read_bytes() == before
    assert recompute_verdicts(campaign).status == "passed", "verify judges each row under its own freeze"
    shutil.copyfile(Path(__file__).parents[2] / "tariffs.csv", campaign.tariffs)
    store_attempt(campaign, make_attempt(campaign, second, None, number=1, status=Status.FAILED, pass_seconds=None))
    assert run(["--campaign", str(tmp_path), "validate"]) == 3
    assert run(["--campaign", str(tmp_path), "decide"]) == 0
    note = note_markdown(campaign)
    assert f"[{second.lock_sha256}]" in note and "Decision note small, revision 2" in note
    (left,) = [line for line in note.splitlines() if line.startswith("| a000 | ")]
    assert f"small revision 1, lock {first.lock_sha256[:12]}; other protocol" in left, "both freezes"
