"""`runner price` and `runner window` as a user calls them (M34, M36, M41; issue examples)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner.cli.main import run

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "cases"
CAMPAIGN = ["--campaign", str(ROOT)]


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = run([*CAMPAIGN, *arguments])
    out, err = capsys.readouterr()
    return status, out, err


def test_price_of_the_examples(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(capsys, "price", "--gpu", "rtx-4090", "--days", "7", "--lots", "2")
    assert status == 0 and out.startswith("rtx-4090, 7 days, 2 lots: 220.00 USD, 2 GPUs\n")
    status, out, _ = call(capsys, "price", "--gpu", "b200", "--days", "7", "--lots", "1", "--accepted-results", "0")
    assert status == 0 and "2,071.00 USD, 2 GPUs" in out and "undefined" in out


def test_price_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(
        capsys, "price", "--gpu", "b200", "--cards", "3", "--window-hours", "96", "--accepted-results", "3", "--json"
    )
    found = json.loads(out)
    assert status == 0
    assert (found["committed_cost"], found["currency"]) == ("4142.00", "USD")
    assert (found["gpus"], found["unused_cards"]) == (4, 1)
    assert found["cost_per_validated_corpus"] == {
        "status": "calculated",
        "reason": None,
        "exact": "4142/3",
        "rounded_half_up": "1380.67",
    }
    assert [(line["days"], line["covers"], line["total"]) for line in found["packages"]] == [
        (3, False, None),
        (7, True, "4142.00"),
        (30, True, None),
    ]


def test_a_shorter_unpriced_package_is_pointed_out(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, "price", "--gpu", "b200", "--window-hours", "72")
    assert "It may be cheaper: 3 days would also cover" in out


@pytest.mark.parametrize(
    "arguments",
    [
        ("--gpu", "rtx-4090", "--days", "3"),
        ("--gpu", "h100", "--days", "7"),
        ("--gpu", "b200"),
        ("--gpu", "b200", "--days", "seven"),
        ("--gpu", "b200", "--days", "7", "--lots", "0"),
        ("--gpu", "b200", "--days", "7", "--lots", "1", "--cards", "2"),
        ("--gpu", "b200", "--start", "2027-10-04T09:00"),
        ("--gpu", "b200", "--days", "7", "--accepted-results", "-1"),
        ("--gpu", "b200", "--window-hours", "1e3"),
        ("--gpu", "b200", "--days", "7", "--tariffs", "/nonexistent.csv"),
    ],
)
def test_price_refuses(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = call(capsys, "price", *arguments)
    assert (status, out) == (2, "") and err.startswith("error: ") and "Traceback" not in err


def test_a_task_table_is_priced(capsys: pytest.CaptureFixture[str]) -> None:
    """PR-01 and PR-08 by the command: 72 h are 3 days, one second more 7 days, an overlap is paid once."""
    tariffs = ("--tariffs", str(CASES / "PR-01" / "tariff.csv"))
    for file, first in (
        ("PR-01/tasks_exact.csv", "H-type, 3 days, 1 lot: 300.00 EUR"),
        ("PR-01/tasks_over.csv", "H-type, 7 days, 1 lot: 550.00 EUR"),
        ("PR-08/tasks.csv", "H-type, 3 days, 1 lot: 300.00 EUR"),
    ):
        status, out, _ = call(capsys, "price", "--gpu", "H-type", "--tasks", str(CASES / file), *tariffs)
        assert status == 0 and out.startswith(first)


@pytest.mark.parametrize("option", ["--lots", "--cards", "--accepted-results", "--extra-periods"])
def test_a_number_beyond_every_rental_names_the_limit(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """DESIGN 4: what, the value, and what would be right; 10**30 lots are no price."""
    status, out, err = call(capsys, "price", "--gpu", "b200", "--days", "7", option, str(10**30))
    assert (status, out) == (2, "") and f"{option} must be a whole number from" in err and "to 999,999,999" in err


def test_further_periods_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """M35: priced only because asked for, and said in the answer."""
    status, out, _ = call(capsys, "price", "--gpu", "b200", "--window-hours", "300", "--extra-periods", "1")
    assert status == 0 and out.startswith("b200, 2 x 7 days, 1 lot: 4,142.00 USD, 2 GPUs")
    assert "336 h" in out and "covers, 36 h to spare" in out


def test_the_window_of_a_plan_is_priced(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(capsys, "price", "--gpu", "b200", "--tasks", str(ROOT / "protocol" / "plan.toml"))
    assert status == 0 and "window: 96 h" in out and out.startswith("b200, 7 days, 1 lot: 2,071.00 USD, 2 GPUs")


def test_a_declared_number_format(capsys: pytest.CaptureFixture[str]) -> None:
    """PR-11 by the command."""
    folder = CASES / "PR-11"
    asked = ("price", "--gpu", "H-type", "--days", "30", "--tariffs")
    status, out, _ = call(
        capsys, *asked, str(folder / "tariff_eu.csv"), "--number-format", str(folder / "format_eu.json")
    )
    assert status == 0 and "1,234.56 EUR" in out
    assert call(capsys, *asked, str(folder / "tariff_unclear.csv"))[0] == 2


def test_window_of_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(
        capsys,
        "window",
        "--start",
        "2027-10-04T09:00",
        "--end",
        "2027-10-08T09:00",
        "--zone",
        "Europe/Berlin",
        "--json",
    )
    found = json.loads(out)
    assert status == 0 and found["window_hours"] == 96 and found["covering_days"] == [7, 30]
    assert found["packages"][0] == {"days": 3, "hours": 72, "covers": False, "slack_seconds": "-86400"}


def test_m34_the_question_of_the_issue_in_its_own_words(capsys: pytest.CaptureFixture[str]) -> None:
    """M34, issue 4, 2: Monday 09:00 to Friday 09:00, no clock change, without a plan: 96 hours, 7 and 30 days cover."""
    status, out, _ = call(
        capsys,
        "window",
        "--start",
        "2026-10-05T09:00",
        "--end",
        "2026-10-09T09:00",
        "--zone",
        "Europe/Berlin",
        "--json",
    )
    found = json.loads(out)
    assert status == 0 and found["window_hours"] == 96 and isinstance(found["window_hours"], int)
    assert {line["days"]: line["covers"] for line in found["packages"]} == {3: False, 7: True, 30: True}
    assert found["covering_days"] == [7, 30]


def test_window_of_the_plan_and_its_calendar(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "plan.ics"
    status, out, _ = call(capsys, "window", "--calendar", str(file))
    assert status == 0 and out.startswith("window: 96 h\n") and "1 h before the deadline" in out
    again = call(capsys, "window", "--tasks", str(file), "--zone", "Europe/Berlin", "--json")
    assert again[0] == 0 and json.loads(again[1])["window_hours"] == 96


@pytest.mark.parametrize(
    "arguments",
    [
        ("--start", "2027-10-04T09:00", "--end", "2027-10-08T09:00"),
        ("--start", "2027-10-04T09:00", "--zone", "UTC"),
        ("--start", "2027-10-04T09:00", "--end", "2027-10-08T09:00", "--zone", "CEST"),
        ("--start", "2027-10-08T09:00Z", "--end", "2027-10-04T09:00Z"),
        ("--plan", "/nonexistent/plan.toml"),
        ("--tasks", "tasks.txt"),
        ("--zone", "CEST"),
    ],
)
def test_window_refuses(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = call(capsys, "window", *arguments)
    assert (status, out) == (2, "") and err.startswith("error: ")


def test_beyond_the_longest_package(capsys: pytest.CaptureFixture[str]) -> None:
    """M35: no automatic extension; the next step is said."""
    _, out, _ = call(capsys, "window", "--start", "2026-10-01T00:00Z", "--end", "2026-11-01T00:00Z")
    assert "No package covers: change the plan, or price further periods explicitly" in out


def test_several_catalogues_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    """Each price with its date and source; currencies are not compared."""
    files = ("--tariffs", str(ROOT / "tariffs.csv"), "--tariffs", str(CASES / "PR-13" / "tariff.csv"))
    status, out, _ = call(capsys, "price", "--gpu", "B200-type", "--days", "3", "--cards", "3", *files)
    assert status == 0 and "2 lots, 1,800.00 EUR (2026-05-01; made up for a test)" in out
    assert "tariffs.csv: not in this catalogue" in out and "smallest in EUR" in out
    status, out, _ = call(capsys, "price", "--gpu", "b200", "--days", "7", "--json", *files)
    found = json.loads(out)
    assert status == 0 and found["catalogues"][0]["answer"]["total"] == "2071.00"
    assert found["catalogues"][1] == found["catalogues"][1] | {"answer": None, "reason": "not in this catalogue"}
    assert call(capsys, "price", "--gpu", "b200", "--days", "3", *files)[0] == 2


def test_the_plan_against_what_happened(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    table = tmp_path / "happened.csv"
    table.write_text(
        "task,start,end\nprepare,2027-10-04T09:30+02:00,2027-10-04T10:15+02:00\n"
        "driver-update,2027-10-04T10:15+02:00,2027-10-04T11:00+02:00\n",
        encoding="utf-8",
    )
    status, out, _ = call(capsys, "window", "--against", str(table))
    assert status == 0 and "30 min later and 15 min shorter than planned" in out
    assert "driver-update: 2027-10-04T10:15:00+02:00 to 2027-10-04T11:00:00+02:00, not in the plan" in out
    assert "collect: not recorded" in out
    found = json.loads(call(capsys, "window", "--against", str(table), "--json")[1])["happened"]
    assert found[0]["later_seconds"] == "1800" and found[0]["longer_seconds"] == "-900"


def test_times_for_people_have_no_microseconds(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """M34: a delivery of 08:00:09.1 is shown to the second; the data keep the exact instant."""
    table = tmp_path / "tasks.csv"
    table.write_text("task,start,end,tz\na,2026-10-05T07:00,2026-10-05T08:00:09.100000,UTC\n")
    status, out, _ = call(capsys, "window", "--tasks", str(table))
    assert status == 0 and "to 2026-10-05T08:00:09+00:00" in out
    assert "busy 1 h 9.1 s" in out
    data = json.loads(call(capsys, "window", "--tasks", str(table), "--json")[1])
    assert data["ends_at_utc"] == "2026-10-05T08:00:09.100000Z"


@pytest.mark.parametrize(
    "option",
    [
        ("--calendar", "x.ics"), ("--tasks", "x.csv"), ("--plan", "x.toml"), ("--configuration", "b1"), ("--measured",),
        ("--happened",), ("--against", "x.csv"), ("--write-plan", "x.toml"),
    ],
)  # fmt: skip
def test_m34_what_a_span_cannot_answer_is_not_left_out_in_silence(
    option: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """M34: --start and --end are a calendar without tasks; an option that needs some is refused, by name."""
    span = ("--start", "2027-10-04T09:00Z", "--end", "2027-10-08T09:00Z")
    status, out, err = call(capsys, "window", *span, *option)
    assert (status, out) == (2, "") and option[0] in err


@pytest.mark.parametrize("option", [("--configuration", "b1"), ("--happened",), ("--plan", "protocol/plan.toml")])
def test_m34_what_a_table_of_tasks_cannot_answer_is_refused(
    option: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """M34: a table knows neither variants nor records; a plan beside it is of use for --write-plan only."""
    table = tmp_path / "tasks.csv"
    table.write_text("task,start,end\na,2027-10-04T09:00Z,2027-10-04T10:00Z\n", encoding="utf-8")
    status, out, err = call(capsys, "window", "--tasks", str(table), *option)
    assert (status, out) == (2, "") and option[0] in err


def test_a_refused_window_has_written_no_plan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """M34, exit 2: all is read and checked before the first file is written."""
    file, target = tmp_path / "plan.ics", tmp_path / "new.toml"
    assert call(capsys, "window", "--calendar", str(file))[0] == 0
    status, _, _ = call(
        capsys, "window", "--tasks", str(file), "--write-plan", str(target), "--against", str(tmp_path / "none.csv")
    )
    assert status == 2 and not target.exists()


@pytest.mark.parametrize("command", [("window", "--calendar"), ("calculator", "--out")], ids=["calendar", "page"])
def test_a_file_of_another_kind_is_never_written_over(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """M34, M41: `--calendar protocol/plan.toml` would have put a calendar in the place of the plan that it shows."""
    file = tmp_path / "plan.toml"
    file.write_text("a plan\n", encoding="utf-8")
    status, out, err = call(capsys, *command, str(file))
    assert (status, out) == (2, "") and command[1] in err
    assert file.read_text(encoding="utf-8") == "a plan\n"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--tasks", "TABLE", "--window-hours", "500"), "--tasks"),
        (("--tasks", "TABLE", "--start", "2027-10-04T09:00Z", "--end", "2027-10-24T09:00Z"), "--tasks"),
        (("--days", "7", "--accepted-results", "2", "--tariffs", "A", "--tariffs", "A"), "--accepted-results"),
    ],
)
def test_m41_what_price_would_leave_out_is_refused(
    options: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """M41: two windows for one rental, and results whose cost no table of catalogues shows, are refused by name."""
    table = tmp_path / "tasks.csv"
    table.write_text("task,start,end\na,2027-10-04T09:00Z,2027-10-04T10:00Z\n", encoding="utf-8")
    known = {"TABLE": str(table), "A": str(ROOT / "tariffs.csv")}
    status, out, err = call(capsys, "price", "--gpu", "rtx-4090", *(known.get(one, one) for one in options))
    assert (status, out) == (2, "") and named in err
