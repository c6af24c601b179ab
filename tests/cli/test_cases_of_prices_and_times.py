"""Every stated right answer of PR-01 to PR-14, TI-05 to TI-09 and MO-17, one statement after the other.

Numbers in brackets are those of the case's own list of right results. What a case prices or computes goes through the
command line; what it decides goes through real records (`tests.decide.worlds`).
"""

from __future__ import annotations

import csv
import json
import time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from runner.cli.main import run
from runner.decide.answer import answer_lines
from runner.decide.model import Balance, Decision
from runner.decide.tables import BALANCE_COLUMNS, balance_rows
from runner.errors import InputRefused
from runner.evidence.attempt import Settings, Status
from runner.note.parts.options import options
from runner.pricing import core
from runner.protocol.read import read_protocol
from tests.decide.worlds import World, tariffs
from tests.note.sample import PRICED, make_campaign

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "cases"


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = run(["--campaign", str(ROOT), *arguments])
    out, err = capsys.readouterr()
    return status, out, err


def lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def table(balance: Balance, decision: Decision, name: str) -> list[str]:
    """Cells of a configuration in the terminal's table."""
    (line,) = [line for line in answer_lines(balance, decision) if line.startswith(name + " ")]
    return line.split()


# ---- prices --------------------------------------------------------------------------------------


def test_pr_01_exactly_72_hours_and_a_second_more(capsys: pytest.CaptureFixture[str]) -> None:
    """PR-01 [1, 2]: 72:00:00 is one package of 3 days, 300.00; 72:00:01 is 7 days, 550.00, not twice 3 days."""
    price = ("price", "--gpu", "H-type", "--tariffs", str(CASES / "PR-01" / "tariff.csv"), "--tasks")
    status, out, _ = call(capsys, *price, str(CASES / "PR-01" / "tasks_exact.csv"))
    assert status == 0 and out.startswith("H-type, 3 days, 1 lot: 300.00 EUR") and "  window: 72 h\n" in out
    status, out, _ = call(capsys, *price, str(CASES / "PR-01" / "tasks_over.csv"))
    assert status == 0 and out.startswith("H-type, 7 days, 1 lot: 550.00 EUR") and "  window: 72 h 1 s\n" in out
    assert "600.00" not in out


@pytest.mark.parametrize(("amount", "status"), [('"5.00"', 0), ("5.00", 2), ("5", 2)])
def test_pr_01_money_in_toml_is_text(
    amount: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """PR-01 [3]: a string is read, a TOML float or integer is refused."""
    plan = (ROOT / "protocol" / "plan.toml").read_text(encoding="utf-8")
    expense = f'\n[[expense]]\nname = "x"\namount = {amount}\ncurrency = "USD"\nreason = "y"\n'
    file = tmp_path / "plan.toml"
    file.write_text(plan + expense, encoding="utf-8")
    found, _, err = call(capsys, "window", "--plan", str(file))
    assert found == status and ("amount" in err) is (status == 2)


@pytest.mark.parametrize("file", ["tasks.csv", "window.ics"])
def test_pr_03_noon_to_noon_over_the_end_of_summer_time(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """PR-03 [1]: 25 hours, from 2026-10-24T10:00Z to 2026-10-25T11:00Z, as a table and as a calendar."""
    status, out, _ = call(capsys, "window", "--tasks", str(CASES / "PR-03" / file), "--json")
    found = json.loads(out)
    assert (status, found["window_hours"]) == (0, 25)
    assert (found["starts_at_utc"], found["ends_at_utc"]) == ("2026-10-24T10:00:00Z", "2026-10-25T11:00:00Z")


@pytest.mark.parametrize("machine", ["UTC", "Asia/Tokyo", "America/St_Johns"])
def test_pr_03_offsets_say_the_same_on_any_machine(
    machine: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """PR-03 [2]: the same value with +02:00 and +01:00, and on a machine set to any zone."""
    monkeypatch.setenv("TZ", machine)
    time.tzset()
    asked = ("window", "--start", "2026-10-24T12:00+02:00", "--end", "2026-10-25T12:00+01:00", "--json")
    status, out, _ = call(capsys, *asked)
    monkeypatch.undo()
    time.tzset()
    assert status == 0 and json.loads(out)["window_hours"] == 25


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("tasks.csv", ("line 2, column start: no zone or offset", "line 2, column end: no zone or offset")),
        ("tasks_mixed.csv", ("tasks_mixed.csv:2, column end", "no zone or offset")),
        ("tasks_badzone.csv", ("tasks_badzone.csv:2", "'CEST' is not an IANA zone name", "Europe/Berlin", "offset")),
    ],
)
def test_pr_06_times_without_a_zone(
    file: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """PR-06 [1, 2]: exit 2 and the same message whatever the machine's zone; line and columns named."""
    messages = set()
    for machine in ("UTC", "Asia/Tokyo"):
        monkeypatch.setenv("TZ", machine)
        time.tzset()
        status, out, err = call(capsys, "window", "--tasks", str(CASES / "PR-06" / file))
        assert (status, out) == (2, "")
        messages.add(err)
    monkeypatch.undo()
    time.tzset()
    (message,) = messages
    assert all(word in message for word in words), message


def test_pr_07_the_end_of_the_day(capsys: pytest.CaptureFixture[str]) -> None:
    """PR-07 [1, 2]: 4 hours, the end shown as 2026-05-05T00:00:00+02:00; 24:30 is refused with its line."""
    status, out, _ = call(capsys, "window", "--tasks", str(CASES / "PR-07" / "tasks.csv"), "--zone", "Europe/Berlin")
    assert status == 0 and out.startswith("window: 4 h\n") and "to 2026-05-05T00:00:00+02:00" in out
    status, out, err = call(capsys, "window", "--tasks", str(CASES / "PR-07" / "tasks_bad.csv"))
    assert (status, out) == (2, "") and "tasks_bad.csv:2, column end" in err and "24:30:00 is not a time of day" in err


def test_pr_08_overlaps_are_united(capsys: pytest.CaptureFixture[str]) -> None:
    """PR-08 [1, 2]: 6 hours in one block, the sum of 8 h 30 min shown and not priced, at most 2 lots at once."""
    file = str(CASES / "PR-08" / "tasks.csv")
    status, out, _ = call(capsys, "window", "--tasks", file)
    assert status == 0 and out.startswith("window: 6 h\n")
    assert "from 2026-05-04T08:00:00+00:00 to 2026-05-04T14:00:00+00:00" in out
    assert "busy 6 h, waiting 0 h; most lots at once: 2" in out
    assert "tasks added up, planned waiting and overlaps in full: 8 h 30 min (not priced)" in out
    _, out, _ = call(capsys, "window", "--tasks", file, "--json")
    assert [task["lots"] for task in json.loads(out)["tasks"]] == [1, 1, 1], "stated per task"
    prices = ("--tariffs", str(CASES / "PR-08" / "tariff.csv"))
    _, out, _ = call(capsys, "price", "--gpu", "H-type", "--tasks", file, *prices)
    assert out.startswith("H-type, 3 days, 1 lot: 300.00 EUR") and "  window: 6 h\n" in out


def case_tariffs(path: Path, rows: dict[str, dict[str, str]]) -> Path:
    """Each row of PR-10 as a GPU with a package of 3 days."""
    head = ",".join(core.REQUIRED_COLUMNS)
    body = [f"{name},Made-up {name},1,24,3,{row['price_per_lot']},EUR,2026-05-01,case" for name, row in rows.items()]
    path.write_text("\n".join([head, *body, ""]), encoding="utf-8")
    return path


def test_pr_10_money_is_exact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """PR-10 [1]: 3.30; 0.125 exactly, shown as 0.13 with the rule; 3.3333... shown as 3.33."""
    with (CASES / "PR-10" / "cases.csv").open(encoding="utf-8", newline="") as stream:
        rows = {row["case"]: row for row in csv.DictReader(stream)}
    file = case_tariffs(tmp_path / "t.csv", rows)
    found = {}
    for name, row in rows.items():
        asked = ("price", "--gpu", name, "--days", "3", "--lots", row["lots"], "--accepted-results", row["accepted"])
        status, out, _ = call(capsys, *asked, "--tariffs", str(file), "--json")
        assert status == 0
        found[name] = json.loads(out)
    assert found["a"]["committed_cost"] == "3.30"
    per = {name: one["cost_per_validated_corpus"] for name, one in found.items()}
    assert (per["b"]["exact"], per["b"]["rounded_half_up"]) == ("1/8", "0.13")
    assert (per["d"]["exact"], per["d"]["rounded_half_up"]) == ("10/3", "3.33")
    _, out, _ = call(capsys, "price", "--gpu", "b", "--days", "3", "--accepted-results", "8", "--tariffs", str(file))
    assert "0.13 EUR (rounded half up from 0.125000)" in out
    assert Fraction(per["c2"]["exact"]) < Fraction(per["c1"]["exact"])
    assert per["c1"]["rounded_half_up"] == per["c2"]["rounded_half_up"] == "3.33"


def test_pr_10_the_note_shows_enough_digits_and_names_the_rule(tmp_path: Path) -> None:
    """PR-10 [1, 2]: 3.334 against 3.333 in the note's balance; the caption says `rounded half up`."""
    from dataclasses import replace

    from runner.note.evidence import read_evidence
    from runner.note.format import Formatter
    from runner.note.i18n import Catalogue
    from runner.note.words import Speaker

    evidence = read_evidence(make_campaign(tmp_path / "c", PRICED))
    costs = iter(("3.334", "3.333"))
    rows = [row.model_copy(update={"cost_per_validated_corpus": next(costs, None)}) for row in evidence.balance.rows
            if row.measured]  # fmt: skip
    changed = replace(evidence, balance=evidence.balance.model_copy(update={"rows": tuple(rows)}))
    shown = [row["per_corpus"] for row in options(changed, Speaker(Catalogue("en"), Formatter("en")))["balance"]]
    assert [text.split("\u00a0")[0] for text in shown[:2]] == ["3.334", "3.333"]
    caption = (ROOT / "templates" / "sections" / "choice.qmd").read_text(encoding="utf-8")
    assert "compared exactly and rounded half up for display" in caption


def test_pr_11_separators(capsys: pytest.CaptureFixture[str]) -> None:
    """PR-11 [1, 2, 3]: 1234.56 in both declared formats; undeclared ones are listed by line; never 1.23."""
    folder = CASES / "PR-11"
    asked = ("price", "--gpu", "H-type", "--days", "30", "--json", "--tariffs")
    for name in ("eu", "us"):
        declared = ("--number-format", str(folder / f"format_{name}.json"))
        status, out, _ = call(capsys, *asked, str(folder / f"tariff_{name}.csv"), *declared)
        assert status == 0 and json.loads(out)["committed_cost"] == "1234.56"
    status, _, err = call(capsys, *asked, str(folder / "tariff_unclear.csv"))
    assert status == 2 and all(f"line {number}, column price_per_lot" in err for number in (2, 3, 4))
    wrong = ("--number-format", str(folder / "format_us.json"))
    status, out, err = call(capsys, *asked, str(folder / "tariff_eu.csv"), *wrong)
    assert status == 2 and "1.23 " not in out + err


@pytest.mark.parametrize(
    ("file", "words"),
    [("tariff.csv", ("line 2, column currency", "'EUR'", "line 3, column currency", "'USD'", "nothing is converted")),
     ("tariff_case.csv", ("tariff_case.csv:3, column currency", "'eur'", "upper-case currency code"))],
)  # fmt: skip
def test_pr_12_currencies(file: str, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """PR-12 [1, 2]: exit 2, both currencies with their lines, no total and no comparison; `eur` is no code."""
    asked = ("price", "--gpu", "H-type", "--days", "3", "--tariffs", str(CASES / "PR-12" / file))
    status, out, err = call(capsys, *asked)
    assert (status, out) == (2, "") and all(word in err for word in words), err
    assert "300" not in err and "310" not in err


@pytest.mark.parametrize(("case", "lots", "total", "unused"), [("a", 2, "1800.00", 0), ("b", 2, "1800.00", 1),
                                                               ("c", 1, "900.00", 1)])  # fmt: skip
def test_pr_13_lots_of_two_cards(
    case: str, lots: int, total: str, unused: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """PR-13 [1, 2]: cards are not counted twice; no price per card is shown, memory is never added up."""
    with (CASES / "PR-13" / "need.csv").open(encoding="utf-8", newline="") as stream:
        needed = {row["case"]: row["cards_needed"] for row in csv.DictReader(stream)}[case]
    asked = ("price", "--gpu", "B200-type", "--days", "3", "--cards", needed, "--tariffs",
             str(CASES / "PR-13" / "tariff.csv"))  # fmt: skip
    found = json.loads(call(capsys, *asked, "--json")[1])
    assert (found["lots"], found["committed_cost"], found["unused_cards"]) == (lots, total, unused)
    _, out, _ = call(capsys, *asked)
    assert "450" not in out and "never added up over cards" in out
    if unused:
        assert "1 of the cards stay unused" in out


def test_pr_14_zero_accepted_results() -> None:
    """PR-14 [1]: `undefined` beside the 300.00 that were spent; never 0.00, never `inf`. The decision: test_choice."""
    results = {one["config"]: one for one in json.loads((CASES / "PR-14" / "result.json").read_text(encoding="utf-8"))}
    world = World(prices=tariffs(*(f"{name} 3 {one['cost']}" for name, one in results.items())))
    world.add("A", "b1", 10, accepted=False)
    world.passes("B", "b1", 10, 11, 12)
    balance, decision = world.balance(), world.decision()
    cells = {row["configuration_id"]: row for row in balance_rows(balance)}
    assert str(cells["A.b1"]["committed_cost"]) == "300.00"
    assert str(cells["A.b1"]["cost_per_validated_corpus"]).startswith("undefined")
    assert (decision.chosen, cells["B.b1"]["cost_per_validated_corpus"]) == ("B.b1", Decimal("550.00"))
    assert decision.rule.code == "rule.lone"
    assert f"  rule: {decision.rule.text}" in answer_lines(balance, decision), "the rule is quoted"


# ---- times ---------------------------------------------------------------------------------------


def test_ti_05_medians_of_even_numbers_stand_beside_n() -> None:
    """TI-05 [1, 2]: 13.0 and 12.0, with 4 and 2 beside them in the terminal and in the table."""
    world = World()
    for record in lines(CASES / "TI-05" / "records.jsonl"):
        world.add(record["config"], "b1", record["duration_s"])
    balance, decision = world.balance(), world.decision()
    for name, n, median in (("A.b1", "4", "13.0"), ("B.b1", "2", "12.0")):
        assert table(balance, decision, name)[2:6] == [n, "of", n, median]
        row = next(row for row in balance_rows(balance) if row["configuration_id"] == name)
        assert (row["accepted"], row["median_seconds"]) == (int(n), Decimal(median))


def test_ti_06_one_pass_each(tmp_path: Path) -> None:
    """TI-06 [1, 2]: n = 1 has no range, stored as null; `undecided`; a minimum below 2 is refused at the freeze."""
    world = World()
    for record in lines(CASES / "TI-06" / "records.jsonl"):
        world.add(record["config"], "b1", record["duration_s"])
    for name, seconds in (("A.b1", "10.0"), ("B.b1", "12.0")):
        (summary,) = world.row(name).summaries
        assert (summary.median_seconds, summary.accepted, summary.range_seconds) == (seconds, 1, None)
        assert str(summary.range_reason) == "not defined (n = 1)"
        (cells,) = [row for row in balance_rows(world.balance()) if row["configuration_id"] == name]
        assert cells["range_seconds"] == "not defined (n = 1)"
    decision = world.decision()
    assert decision.outcome == "undecided" and "Fewer passes than the protocol's minimum" in str(decision.reasons[0])
    text = (ROOT / "protocol" / "quality-protocol.toml").read_text(encoding="utf-8")
    assert "min_accepted = 3" in text
    file = tmp_path / "quality-protocol.toml"
    file.write_text(text.replace("min_accepted = 3", "min_accepted = 1"), encoding="utf-8")
    with pytest.raises(InputRefused, match="min_accepted"):
        read_protocol(file)


def test_ti_07_nothing_was_accepted() -> None:
    """TI-07 [1, 2, 3]: `no accepted pass`; spent 300.00 and 280.00; only the word stands for `undefined`."""
    world = World(prices=tariffs("A 3 300.00", "B 3 280.00"))
    kinds = {"oom": Status.OUT_OF_MEMORY, "killed": Status.KILLED, "aborted": Status.FAILED}
    for record in lines(CASES / "TI-07" / "records.jsonl"):
        world.add(record["config"], "b1", None, status=kinds[record["status"]], completed=int(record["completed"]))
    balance, decision = world.balance(), world.decision()
    assert decision.outcome == "undecided" and str(decision.reasons[0]) == "No accepted pass."
    for name, attempts, cost in (("A.b1", "2", "300.00"), ("B.b1", "1", "280.00")):
        cells = table(balance, decision, name)
        assert cells[2:5] == ["0", "of", attempts] and cost in cells and "undefined" in cells
    for row in balance_rows(balance):
        for column in BALANCE_COLUMNS:
            assert str(row[column]).strip() not in ("", "0.00", "inf", "nan", "null", "None"), (row, column)


@pytest.mark.parametrize("name", ["close", "clear"])
def test_ti_09_gap_against_spread(name: str) -> None:
    """TI-09 [1, 2]: medians 100 and 101, gap 1, spread 6: undecided; 81 and 101, gap 20: A is faster."""
    world = World(prices=tariffs("rental 3 300.00"))
    for record in lines(CASES / "TI-09" / f"{name}.jsonl"):
        world.add(record["config"], "b1", record["duration_s"])
    first, second = (world.row(row).summaries[0] for row in ("A.b1", "B.b1"))
    decision = world.decision()
    said = "\n".join(map(str, decision.reasons))
    if name == "close":
        assert (first.median_seconds, second.median_seconds) == ("100.0", "101.0")
        assert (first.range_seconds, second.range_seconds) == ("6.0", "6.0")
        assert decision.outcome == "undecided" and "gap 1.0 s ≤ range 6.0 s" in said
    else:
        assert (first.median_seconds, second.median_seconds) == ("81.0", "101.0")
        assert (first.range_seconds, second.range_seconds) == ("2.0", "6.0")
        assert decision.chosen == "A.b1" and "gap of 20.0 s exceeds the larger range of 6.0 s" in said


def test_ti_09_a_gap_equal_to_the_spread_is_undecided() -> None:
    """TI-09 [3]."""
    world = World(prices=tariffs("rental 3 300.00"))
    world.passes("A", "b1", 94, 97, 100)
    world.passes("B", "b1", 100, 103, 106)
    assert world.decision().outcome == "undecided"


def test_mo_17_cut_at_different_lengths() -> None:
    """MO-17 [1, 2]: `not comparable`, 512 against 256, 0 against 41; the number of cut texts beside every time."""
    records = {f"b{place + 1}": record for place, record in enumerate(lines(CASES / "MO-17" / "records.jsonl"))}
    world = World(
        prices=tariffs("A 3 300.00"),
        variants=tuple(records),
        settings={name: Settings(max_length=int(one["max_length"])) for name, one in records.items()},
    )
    for name, one in records.items():
        world.passes("A", name, *[one["duration_s"]] * 3, truncated=int(one["truncated_entries"]))
    balance, decision = world.balance(), world.decision()
    said = "\n".join(map(str, decision.reasons))
    assert decision.outcome == "undecided" and "not comparable" in said
    assert "max_length 512 (A.b1) against 256 (A.b2)" in said and "0 (A.b1) against 41 (A.b2)" in said
    assert [table(balance, decision, name)[8] for name in ("A.b1", "A.b2")] == ["0", "41"]
    assert [row["truncated_documents"] for row in balance_rows(balance)][:2] == [0, 41]
