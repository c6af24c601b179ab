"""`runner decide` on a real campaign folder: files, refusals, tables."""

from __future__ import annotations

import csv
import io
import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from runner.cli.main import run
from runner.decide.model import Balance, Decision
from runner.decide.write import other_locks_were_left_out, render_decision, write_decision
from runner.errors import InputRefused
from runner.evidence.attempt import ErrorInfo, Inputs, Status
from runner.evidence.campaign import Campaign
from runner.judge.campaign import judge_campaign
from runner.protocol.freeze import freeze
from runner.protocol.inputs import frozen_corpus_sha256, frozen_model_sha256
from runner.protocol.lockfile import keep_lock
from runner.protocol.schema import Lock
from tests.support.small_campaign import PROTOCOL, ROWS, make_attempt, make_campaign, store_attempt, write_predictions

CASES = Path(__file__).parents[1] / "cases"
NAMES = ("attempts.csv", "attempts-spreadsheet.csv", "balance.csv", "balance.json", "decision.json", "plan.ics")
TARIFFS = (
    "gpu,device_pattern,cards_per_lot,memory_gib_per_card,days,price_per_lot,currency,catalogue_date,source\n"
    "rtx-4090,NVIDIA GeForce RTX 4090,1,24,7,110.00,USD,2026-09-24,test catalogue\n"
)


def _frozen(root: Path) -> tuple[Campaign, Lock]:
    campaign = make_campaign(root)
    campaign.tariffs.write_text(TARIFFS, encoding="utf-8")
    return campaign, freeze(campaign)


def _measured(campaign: Campaign, lock: Lock, seconds: list[str], *, variant: str = "b1", start: int = 0) -> None:
    """Accepted passes with these durations."""
    for number, duration in enumerate(seconds, start):
        path = campaign.predictions / f"a{number:03d}.parquet"
        write_predictions(path, [(row[0], row[2]) for row in ROWS])
        store_attempt(
            campaign, make_attempt(campaign, lock, path, number=number, variant=variant, pass_seconds=float(duration))
        )


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    """b1 slow, b4 fast, on the user's own machine; b8 ran out of memory."""
    made, lock = _frozen(tmp_path / "campaign")
    _measured(made, lock, ["10.5", "11.25", "10.75"])
    _measured(made, lock, ["3.5", "4.25", "3.75"], variant="b4", start=3)
    store_attempt(
        made,
        make_attempt(
            made, lock, None, number=6, variant="b8", status=Status.OUT_OF_MEMORY, pass_seconds=None,
            error=ErrorInfo(kind="out_of_memory", message="=cmd|' /C calc'!A0"), completed_documents=4,
            pass_seconds_reason="the pass did not end", notes=("-5.00", "+plan"),
        ),
    )  # fmt: skip
    judge_campaign(made)
    return made


def test_decide_writes_its_files_and_prints_the_answer(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--campaign", str(campaign.root), "decide"]) == 0
    text = capsys.readouterr().out
    assert "chosen: cpu.b4" in text
    assert "synthetic data" in text.splitlines()[0]
    assert "rtx-4090: not measured (b1, b4, b8)" in text
    assert "not applicable" in text
    assert sorted(path.name for path in campaign.note.iterdir()) == sorted(NAMES)
    decision = Decision.load(campaign.decision)
    assert (decision.chosen, decision.basis) == ("cpu.b4", "time on own machine")
    assert Balance.load(campaign.balance).rows[0].summaries[0].raw_seconds == (10.5, 11.25, 10.75)


def test_same_evidence_same_bytes_and_nothing_is_written_by_rendering(campaign: Campaign) -> None:
    made = render_decision(campaign)
    assert not campaign.note.exists()
    assert render_decision(campaign).files == made.files
    assert run(["--campaign", str(campaign.root), "decide"]) == 0
    assert {name: (campaign.note / name).read_bytes() for name in NAMES} == made.files


def test_json_for_machines(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--campaign", str(campaign.root), "decide", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["decision"]["chosen"] == "cpu.b4"


def test_completed_without_verdict_is_refused_and_nothing_written(
    campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    (campaign.verdicts / "a000.json").unlink()
    assert run(["--campaign", str(campaign.root), "decide"]) == 2
    assert f"runner --campaign {campaign.root} validate" in capsys.readouterr().err
    assert not campaign.note.exists()


def test_a_verdict_about_other_predictions_is_refused(campaign: Campaign) -> None:
    """Break the link on purpose: a verdict that judged another file."""
    path = campaign.verdicts / "a000.json"
    verdict = json.loads(path.read_text(encoding="utf-8"))
    verdict["predictions_sha256"] = "0" * 64
    path.write_text(json.dumps(verdict), encoding="utf-8")
    with pytest.raises(InputRefused, match="other predictions"):
        render_decision(campaign)


def test_re_05_exact_copies_count_once(tmp_path: Path) -> None:
    """RE-05: durations 10, 30, 20, one row copied twice: n = 3, median 20."""
    made, lock = _frozen(tmp_path / "campaign")
    lines = {line["run_id"]: line["duration_s"] for line in _lines(CASES / "RE-05" / "records.jsonl")}
    _measured(made, lock, list(lines.values()))
    judge_campaign(made)
    original = json.loads((made.attempts / "a001.json").read_text(encoding="utf-8"))
    shutil.copy(made.attempts / "a001.json", made.attempts / "a001-copy.json")
    turned = dict(reversed(list(original.items())))
    (made.attempts / "a001-again.json").write_text(json.dumps(turned) + "\n", encoding="utf-8")
    made_files = render_decision(made)
    (summary,) = next(row for row in made_files.balance.rows if row.configuration_id == "cpu.b1").summaries
    assert (summary.accepted, summary.median_seconds) == (3, "20.0")
    (warning,) = made_files.decision.warnings
    assert "a001: 2 exact copies ignored" in warning.text


def test_re_07_attempts_of_another_lock_are_refused_or_left_out_on_demand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """RE-07: nothing is computed from a mixture."""
    made, lock = _frozen(tmp_path / "campaign")
    _measured(made, lock, ["10"])
    foreign = {"g2": {"lock_sha256": "d" * 64}, "g3": {"lock_sha256": "b" * 64}, "g4": {"nonce": "0" * 64}}
    for number, (name, changes) in enumerate(foreign.items(), 1):
        attempt = make_attempt(made, lock, None, number=number, attempt_id=name, pass_seconds=3.0, **changes)
        store_attempt(made, attempt)
    judge_campaign(made)
    assert run(["--campaign", str(made.root), "decide"]) == 2
    text = capsys.readouterr().err
    assert all(name in text for name in foreign) and "--leave-out-other-locks" in text
    assert not made.note.exists()
    assert run(["--campaign", str(made.root), "decide", "--leave-out-other-locks"]) == 0
    decision = Decision.load(made.decision)
    assert [item.attempt_id for item in decision.left_out] == ["g2", "g3", "g4"]
    assert "nonce" in decision.left_out[2].reason.text
    assert other_locks_were_left_out(made.decision)
    (summary,) = Balance.load(made.balance).rows[0].summaries
    assert summary.accepted == 1


def test_mo_15_the_backend_that_ran_is_the_one_that_is_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """MO-15: a1 asked for flash_attention_2 and ran eager: 0 accepted, cost undefined; a2 is accepted; never 9.10 s."""
    lines = _lines(CASES / "MO-15" / "records.jsonl")
    protocol = PROTOCOL.replace('variable = "batch_size"', 'variable = "attention"')
    protocol = protocol.replace("values = [1, 4, 8]", 'values = ["flash_attention_2", "sdpa"]')
    made = make_campaign(tmp_path / "campaign", protocol=protocol)
    made.tariffs.write_text(TARIFFS, encoding="utf-8")
    lock = freeze(made)
    ids = {variant.settings.attention: variant.id for variant in lock.variants}
    for number, line in enumerate(lines):
        path = write_predictions(made.predictions / f"{line['run_id']}.parquet", [(row[0], row[2]) for row in ROWS])
        requested, effective = line["requested"]["attention"], line["effective"]["attention"]
        attempt = make_attempt(
            made,
            lock,
            path,
            number=number,
            attempt_id=line["run_id"],
            variant=ids[requested],
            series="batch",
            pass_seconds=float(line["duration_s"]),
        )
        assert attempt.effective is not None
        ran = attempt.effective.model_copy(update={"attention": effective})
        store_attempt(made, attempt.model_copy(update={"effective": ran}))
    assert run(["--campaign", str(made.root), "validate"]) == 3
    shown = capsys.readouterr().out
    assert "configuration mismatch: attention requested flash_attention_2, used eager" in shown
    assert "1 of 2 attempts accepted" in shown
    assert run(["--campaign", str(made.root), "decide"]) == 0
    table = render_decision(made).files["balance.csv"].decode()
    rows = {row["configuration_id"]: row for row in csv.DictReader(io.StringIO(table, newline=""))}
    flash, sdpa = rows[f"cpu.{ids['flash_attention_2']}"], rows[f"cpu.{ids['sdpa']}"]
    assert (flash["accepted"], flash["median_seconds"]) == ("0", "no accepted pass")
    assert not any(letter.isdigit() for letter in flash["cost_per_validated_corpus"]), "undefined, in words"
    assert (sdpa["accepted"], sdpa["median_seconds"]) == ("1", "5.2")
    assert "9.1" not in table


def test_re_07_another_corpus_and_another_protocol_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """RE-07: g2 was measured under a freeze of another corpus, g3 of another protocol; each says which."""
    made = make_campaign(tmp_path / "campaign")
    made.tariffs.write_text(TARIFFS, encoding="utf-8")
    corpus = made.protocol_dir / "corpus" / "final.csv"
    locks = {}
    for name, path, old, new in (
        ("g2", corpus, "text number 3", "another text"),
        ("g3", made.protocol, 'threshold = "0.80"', 'threshold = "0.81"'),
    ):
        before = path.read_text(encoding="utf-8")
        path.write_text(before.replace(old, new, 1), encoding="utf-8")
        assert path.read_text(encoding="utf-8") != before
        locks[name] = freeze(made)
        keep_lock(made, locks[name])
        path.write_text(before, encoding="utf-8")
    lock = freeze(made)
    locks["g1"] = lock
    assert len({item.lock_sha256 for item in locks.values()}) == 3
    for number, name in enumerate(("g1", "g2", "g3")):
        path = write_predictions(made.predictions / f"{name}.parquet", [(row[0], row[2]) for row in ROWS])
        store_attempt(made, make_attempt(made, locks[name], path, number=number, attempt_id=name))
    assert run(["--campaign", str(made.root), "validate"]) == 0
    capsys.readouterr()
    assert run(["--campaign", str(made.root), "decide"]) == 0
    left = {item.attempt_id: item.reason.text for item in Decision.load(made.decision).left_out}
    assert set(left) == {"g2", "g3"}
    assert "other corpus)" in left["g2"] and "protocol)" not in left["g2"]
    assert "other protocol)" in left["g3"] and "corpus)" not in left["g3"]
    (summary,) = Balance.load(made.balance).rows[0].summaries
    assert summary.accepted == 1


def test_re_07_a_row_of_an_unknown_lock_says_what_it_shows_to_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """RE-07, 1: exit 2 and g2 (corpus), g3 (protocol); what no row shows (g4) is not guessed."""
    made, lock = _frozen(tmp_path / "campaign")
    _measured(made, lock, ["10"])
    right = frozen_corpus_sha256(lock, "small-final")
    assert right is not None
    ours = Inputs(corpus_sha256=right, model_sha256=frozen_model_sha256(lock))
    foreign: dict[str, dict[str, Any]] = {
        "g2": {"lock_sha256": "d" * 64, "inputs": ours.model_copy(update={"corpus_sha256": "c" * 64})},
        "g3": {"lock_sha256": "b" * 64, "inputs": ours, "protocol_revision": 2},
        "g4": {"lock_sha256": "0" * 64},
        "g5": {"lock_sha256": "e" * 64, "inputs": ours.model_copy(update={"model_sha256": "c" * 64})},
    }
    for number, (name, changes) in enumerate(foreign.items(), 1):
        store_attempt(made, make_attempt(made, lock, None, number=number, attempt_id=name, **changes))
    judge_campaign(made)
    assert run(["--campaign", str(made.root), "decide"]) == 2
    shown = {line.strip()[2:4]: line for line in capsys.readouterr().err.splitlines() if "unknown lock" in line}
    assert shown["g2"].endswith("; other corpus)") and shown["g3"].endswith("; other protocol)")
    assert shown["g5"].endswith("; other model)") and "other" not in shown["g4"]
    assert run(["--campaign", str(made.root), "decide", "--leave-out-other-locks"]) == 0
    left = {item.attempt_id: item.reason.text for item in Decision.load(made.decision).left_out}
    assert left["g2"].endswith("; other corpus)") and left["g3"].endswith("; other protocol)")


def test_m22_one_row_per_attempt_with_counts_and_reasons(campaign: Campaign) -> None:
    made = render_decision(campaign)
    rows = list(csv.DictReader(io.StringIO(made.files["attempts.csv"].decode(), newline="")))
    assert len(rows) == 7
    first, last = rows[0], rows[-1]
    assert (first["expected_ids"], first["observed_ids"], first["ids_match"]) == ("10", "10", "true")
    assert (first["corpus_accepted"], first["pass_seconds"], first["counts_as"]) == ("true", "10.5", "accepted")
    assert (last["pass_seconds"], json.loads(last["missing"])["pass_seconds"]) == ("", "unknown: the pass did not end")
    assert (last["counts_as"], last["status"], last["completed_documents"]) == ("failure", "out_of_memory", "4")


def test_no_03_table_for_people_is_formula_safe_and_the_machine_table_exact(campaign: Campaign) -> None:
    made = render_decision(campaign)
    exact = list(csv.DictReader(io.StringIO(made.files["attempts.csv"].decode(), newline="")))[-1]
    shown = list(csv.DictReader(io.StringIO(made.files["attempts-spreadsheet.csv"].decode("utf-8-sig"), newline="")))[
        -1
    ]
    assert exact["error_message"] == "=cmd|' /C calc'!A0"
    assert shown["error_message"] == "'=cmd|' /C calc'!A0"
    assert (exact["notes"], shown["notes"]) == ("-5.00; +plan", "'-5.00; +plan")
    assert (exact["pass_seconds"], shown["pass_seconds"]) == ("", "unknown: the pass did not end")


def test_no_03_the_table_for_people_is_in_the_language_of_the_note(campaign: Campaign) -> None:
    """A report in German makes it so; deciding or verifying again keeps every byte. English without a note."""
    table = "attempts-spreadsheet.csv"
    english = render_decision(campaign).files[table]
    german = write_decision(campaign, language="de").files[table]
    assert b'"10.5"' in english and b'","' in english and b'"10,5"' in german and b'";"' in german
    (campaign.note / "decision-note.qmd").write_text('---\ntitle: "x"\nlang: de\n---\n', encoding="utf-8")
    assert render_decision(campaign).files[table] == german == (campaign.note / table).read_bytes()


def test_undefined_is_a_word_in_the_balance_table(campaign: Campaign) -> None:
    """TI-07, PR-14: no empty cell, no 0, no nan stands for what does not exist."""
    rows = list(csv.DictReader(io.StringIO(render_decision(campaign).files["balance.csv"].decode(), newline="")))
    assert all(value != "" and value.lower() not in ("nan", "null", "inf") for row in rows for value in row.values())
    failed = next(row for row in rows if row["configuration_id"] == "cpu.b8")
    assert failed["median_seconds"] == "no accepted pass"
    assert failed["cost_per_validated_corpus"] == "own machine: a rental price does not apply"
    other = next(row for row in rows if row["gpu"] == "rtx-4090")
    assert (other["measured"], other["median_seconds"]) == ("false", "not measured")
    numbers = [row["median_seconds"] for row in rows if row["admissible"] == "true"]
    assert [Decimal(value) for value in numbers] == [Decimal("10.75"), Decimal("3.75")]
