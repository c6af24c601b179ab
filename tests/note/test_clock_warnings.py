"""TI-03 and TI-11 in the note: wall clocks that moved or are behind are said, shown, and never subtracted (M20)."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from runner.cli.main import run
from runner.decide.model import Balance, Decision, TaskHappened
from runner.evidence.attempt import Attempt
from runner.evidence.campaign import Campaign
from runner.evidence.verdict import Verdict
from runner.judge.record import clock_warnings
from runner.note.build import note_markdown
from runner.note.evidence import read_evidence
from runner.protocol.schema import Lock
from runner.units import parse_utc, utc_text
from tests.note.sample import decide_again, make_campaign, rewrite_attempts
from tests.note.test_recorded import speaker

CASES = Path(__file__).parents[1] / "cases"
LANGUAGES = ("en", "de", "tr", "fr")
UNKNOWN = {"en": "unknown", "de": "unbekannt", "tr": "bilinmiyor", "fr": "inconnu"}
RECORD = json.loads((CASES / "TI-03" / "record.json").read_text())
MONOTONIC = Decimal(RECORD["mono_end"]) - Decimal(RECORD["mono_start"])
WALL = Decimal((parse_utc(RECORD["wall_end"]) - parse_utc(RECORD["wall_start"])) / timedelta(seconds=1))


def changed(root: Path, **changes: Any) -> Campaign:
    """A decided campaign whose first attempt of b1 is changed; its verdict has the warnings of the real judge."""
    campaign = make_campaign(root)
    lock = Lock.load(campaign.lock)
    name = "cpu-b1-p01"

    def change(attempt: Attempt) -> Attempt:
        return attempt.model_copy(update=changes) if attempt.attempt_id == name else attempt

    rewrite_attempts(campaign, change)
    path = campaign.verdicts / f"{name}.json"
    warnings = clock_warnings(Attempt.load(campaign.attempts / f"{name}.json"), lock)
    assert len(warnings) == 1
    path.write_bytes(Verdict.load(path).model_copy(update={"warnings": warnings}).dump())
    decide_again(campaign)
    return campaign


@pytest.fixture(scope="module")
def set_back(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """TI-03: the case's own times: wall clock -3480 s, monotonic clock +120 s."""
    return changed(
        tmp_path_factory.mktemp("ti03") / "c", started_at_utc=RECORD["wall_start"].replace("2026-05-04", "2026-10-05"),
        ended_at_utc=RECORD["wall_end"].replace("2026-05-04", "2026-10-05"), pass_seconds=float(MONOTONIC),
        wall_clock_moved_seconds=float(WALL - MONOTONIC),
    )  # fmt: skip


def section(text: str, mark: str) -> str:
    """From the table before a mark to the mark."""
    before = text[: text.index(mark)]
    return before[before.rindex("\n|:--") :]


@pytest.mark.parametrize("language", LANGUAGES)
def test_ti_03_both_wall_times_and_the_warning_are_in_the_note(set_back: Campaign, language: str) -> None:
    """TI-03 [3]: both wall times, the end marked; the warning near the attempts and where uncertainty is told."""
    text = note_markdown(set_back, language)
    (warning,) = Verdict.load(set_back.verdicts / "cpu-b1-p01.json").warnings
    said = speaker(language).recorded(warning)
    assert said[0] not in "“„«" and (language == "en") == (said.startswith("wall clock moved by"))
    warned = section(text, "{#tbl-warnings").replace("\\", "")
    assert f"| {said} | 1 | [cpu-b1-p01]{{.code}} |" in warned
    assert "\u22123" in said and "600 s" in said
    clocks = section(text, "{#tbl-clocks")
    assert "10:00:00" in clocks and "09:02:00" in clocks and "cpu-b1-p01" in clocks
    decision = Decision.load(set_back.decision)
    assert [reason.code for reason in decision.uncertain if reason.code.startswith("clock.")] == ["clock.moved"]
    assert speaker(language).sentence(decision.uncertain[0])[:20] in text


@pytest.mark.parametrize("language", LANGUAGES)
def test_ti_03_the_note_does_not_compute_minus_3480_seconds(set_back: Campaign, language: str) -> None:
    """TI-03 [3]: how long measuring took is unknown, with the reason and what is known by the monotonic clock."""
    rows = section(note_markdown(set_back, language), "{#tbl-happened").splitlines()
    (row,) = [line for line in rows if line.startswith("| cpu.b1 |")]
    assert UNKNOWN[language] in row and "\u2212" not in row and "58\u00a0min\u00a000" not in row
    balance = Balance.load(set_back.balance)
    for found in balance.rows:
        for task in found.happened:
            assert task.actual_seconds is None or Decimal(task.actual_seconds) >= 0
    (task,) = _measuring(balance, "b1")
    assert task.actual_start_utc is None and task.actual_reason is not None
    least = Decimal(task.actual_reason.values["least_elapsed_seconds"])
    assert least > MONOTONIC, "120 s and the other attempts' seconds"


@pytest.mark.parametrize("language", LANGUAGES)
def test_ti_11_a_clock_behind_the_freeze_is_in_the_note(tmp_path: Path, language: str) -> None:
    """TI-11 [2, 3]: 480 s before the freeze with its nonce: accepted, and the note says whose clock is behind."""
    case = json.loads((CASES / "TI-11" / "freeze.json").read_text())
    (record,) = [json.loads(line) for line in (CASES / "TI-11" / "with_nonce.jsonl").read_text().splitlines()]
    behind = parse_utc(case["frozen_at"]) - parse_utc(record["wall_start"])
    frozen = Lock.load(make_campaign(tmp_path / "first").lock).frozen_at_utc
    campaign = changed(tmp_path / "c", started_at_utc=utc_text(parse_utc(frozen) - behind))
    (warning,) = Verdict.load(campaign.verdicts / "cpu-b1-p01.json").warnings
    assert "at least 480 s behind" in warning
    said = speaker(language).recorded(warning)
    assert "480" in said and (language == "en") == (said == warning)
    text = note_markdown(campaign, language)
    assert "480" in section(text, "{#tbl-warnings") and "06:22:00" in section(text, "{#tbl-clocks")
    decision = Decision.load(campaign.decision)
    assert [reason.code for reason in decision.uncertain if reason.code.startswith("clock.")] == ["clock.behind"]


def test_an_undisturbed_campaign_has_no_clock_table(tmp_path: Path) -> None:
    """TI-03: nothing is warned of where nothing moved."""
    text = note_markdown(make_campaign(tmp_path / "c"), "en")
    assert "{#tbl-clocks" not in text and "wall clock moved" not in text


def test_ti_03_the_terminal_says_unknown_with_the_bound(set_back: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    """TI-03 [3]: `runner window --happened` computes no difference from a moved clock either, and says why."""
    arguments = ["--campaign", str(set_back.root), "window", "--happened", "--configuration", "b1"]
    assert run(arguments) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "a wall clock moved" in line]
    assert len(lines) == 1 and "unknown" in lines[0] and "at least" in lines[0] and "than planned" not in lines[0]
    assert run([*arguments, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["happened"]
    (row,) = [row for row in rows if row["reason"] and "a wall clock moved" in row["reason"]]
    assert (row["actual_utc"], row["longer_seconds"], row["later_seconds"]) == (None, None, None)


def _measuring(balance: Balance, variant: str) -> list[TaskHappened]:
    return [t for r in balance.rows if r.variant_id == variant for t in r.happened if t.kind == "measurement"]


def test_ti_03_a_jump_during_another_configurations_attempt_spoils_the_spans_around_it(tmp_path: Path) -> None:
    """TI-03 [3]: the clock moves in the middle of the campaign: the spans of all others cross the jump too."""
    (first,) = _measuring(Balance.load(make_campaign(tmp_path / "before").balance), "b4")
    assert first.actual_seconds is not None
    campaign = make_campaign(tmp_path / "c")

    def change(attempt: Attempt) -> Attempt:
        moved = 3600.0 if attempt.attempt_id == "cpu-b1-p03" else attempt.wall_clock_moved_seconds
        return attempt.model_copy(update={"wall_clock_moved_seconds": moved})

    rewrite_attempts(campaign, change)
    balance = Balance.load(campaign.balance)
    for variant in ("b1", "b4", "b8"):
        (task,) = _measuring(balance, variant)
        assert task.actual_seconds is None and task.actual_reason is not None, variant
        assert task.actual_reason.code == "happened.clock"


def test_ti_03_the_note_is_dated_by_no_clock_that_was_set(campaign: Campaign) -> None:
    """TI-03: the end of the last attempt dates the note, to the fraction; one whose wall clock moved does not."""
    evidence = read_evidence(campaign)
    whole, half, moved = (
        evidence.attempts[0].model_copy(update={"ended_at_utc": end, "wall_clock_moved_seconds": shift})
        for end, shift in (
            ("2098-01-01T00:00:00Z", 0.0),
            ("2098-01-01T00:00:00.5Z", 0.0),
            ("2099-01-01T00:00:00Z", 86400.0),
        )
    )
    assert replace(evidence, attempts=[whole, half, moved]).dated_utc == half.ended_at_utc
    assert replace(evidence, attempts=[moved]).dated_utc == evidence.lock.frozen_at_utc
