"""`runner rental`, its ledger line, and `runner forecast` on a decided campaign (M37, M46)."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from runner.cli.main import run
from runner.evidence.campaign import Campaign
from tests.decide.worlds import TARIFF_HEADER, World, tariffs

ROOT = Path(__file__).resolve().parents[2]
RENTAL = """\
schema_version = "rental/1"
provider = "=Example Cloud"
order = "00123"
gpu = "A"
lots = 1
days = 3
starts_at = "2026-12-01T08:00:00Z"
ends_at = "2026-12-04T08:00:00Z"
amount = "300.00"
currency = "EUR"
"""


PLAN = """\
schema_version = "plan/1"
zone = "Europe/Berlin"
deadline = "2026-12-31T09:00:00Z"
deliverables = ["final"]

[[task]]
id = "measure"
title = "Measure"
kind = "measurement"
start = "2026-12-01T09:00"
duration = "24:00:00"
delivery = true
"""


@pytest.fixture
def decided(tmp_path: Path) -> Campaign:
    """A chosen at 300.00 EUR, B one attempt only."""
    world = World()
    world.passes("A", "b1", 100, 101, 102)
    world.passes("B", "b1", 10)
    campaign = Campaign(tmp_path / "campaign")
    campaign.note.mkdir(parents=True)
    campaign.decision.write_bytes(world.decision().dump())
    campaign.balance.write_bytes(world.balance().dump())
    rows = [f"{gpu},{gpu} card,1,24,3,{cost},EUR,2026-09-24,test," for gpu, cost in (("A", "300.00"), ("B", "310.00"))]
    campaign.tariffs.write_text("\n".join([TARIFF_HEADER, *rows, ""]), encoding="utf-8")
    campaign.plan.parent.mkdir(parents=True)
    campaign.plan.write_text(PLAN, encoding="utf-8")
    start = next(row.window for row in world.balance().rows if row.window is not None).starts_at_utc
    (campaign.root / "rental.toml").write_text(
        RENTAL.replace("2026-12-01T08:00:00Z", start).replace("2026-12-04T08:00:00Z", later(start)), encoding="utf-8"
    )
    return campaign


def later(start: str) -> str:
    """Three days after an instant of the same month."""
    day = int(start[8:10]) + 3
    return f"{start[:8]}{day:02}{start[10:]}"


def call(campaign: Campaign, *arguments: str) -> int:
    return run(["--campaign", str(campaign.root), *arguments])


def test_a_rental_is_matched_and_written_into_a_ledger_once(
    decided: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record, ledger = str(decided.root / "rental.toml"), tmp_path / "ledger.csv"
    assert call(decided, "rental", record, "--ledger", str(ledger)) == 0
    assert "order 00123: matches the decision" in capsys.readouterr().out
    before = ledger.read_bytes()
    assert call(decided, "rental", record, "--ledger", str(ledger), "--json") == 0
    assert json.loads(capsys.readouterr().out)["ledger_line_added"] is False
    assert ledger.read_bytes() == before
    with ledger.open(encoding="utf-8", newline="") as stream:
        (line,) = list(csv.DictReader(stream))
    assert (line["order"], line["amount"], line["currency"]) == ("00123", "300.00", "EUR")
    assert (line["configuration"], line["accepted_results"]) == ("A.b1", "1")
    assert line["provider"] == "'=Example Cloud", "a spreadsheet must not read a formula"


def test_m46_a_plan_with_further_periods_expects_a_rental_of_all_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """M35, M46: 2 periods of 3 days are one rental of 144 hours for twice the price, not one of 72."""
    world = World(extra={"extra_periods": 1})
    world.passes("A", "b1", 80 * 3600, 80 * 3600, 80 * 3600)
    campaign, record = Campaign(tmp_path), tmp_path / "rental.toml"
    campaign.note.mkdir()
    campaign.decision.write_bytes(world.decision().dump())
    campaign.balance.write_bytes(world.balance().dump())
    start = world.row("A.b1").window
    assert start is not None

    def written(days: int, amount: str) -> str:
        end = later(later(start.starts_at_utc)) if days == 6 else later(start.starts_at_utc)
        text = RENTAL.replace("2026-12-01T08:00:00Z", start.starts_at_utc).replace("2026-12-04T08:00:00Z", end)
        return text.replace('"300.00"', f'"{amount}"')

    record.write_text(written(6, "600.00"), encoding="utf-8")
    assert call(campaign, "rental", str(record), "--json") == 0
    assert {"days", "amount", "period", "window"} <= set(json.loads(capsys.readouterr().out)["matched"])
    record.write_text(written(3, "300.00"), encoding="utf-8")
    assert call(campaign, "rental", str(record)) == 3
    shown = capsys.readouterr().err
    assert "period: the note says 2 x 3 days = 144 h from starts_at to ends_at, the record 72 h" in shown
    assert "amount: the note says 600.00 EUR, the record 300.00 EUR" in shown


def test_m46_provider_and_order_are_matched_with_the_plan(
    decided: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    """M46: every field of the record is matched; where the plan does not say, that is said."""
    record = str(decided.root / "rental.toml")
    assert call(decided, "rental", record) == 0
    assert "provider: not compared" in capsys.readouterr().out
    plan = (ROOT / "protocol" / "plan.toml").read_text(encoding="utf-8")
    decided.plan.parent.mkdir(exist_ok=True)
    named = 'provider = "=Example Cloud"\norder = "00123"\ndeadline ='
    decided.plan.write_text(plan.replace("deadline =", named), "utf-8")
    assert call(decided, "rental", record, "--json") == 0
    assert {"provider", "order"} <= set(json.loads(capsys.readouterr().out)["matched"])
    decided.plan.write_text(plan.replace("deadline =", 'order = "00124"\ndeadline ='), "utf-8")
    assert call(decided, "rental", record) == 3
    assert "order: the note says '00124', the record '00123'" in capsys.readouterr().err


def test_another_line_for_the_same_order_is_refused(decided: Campaign, tmp_path: Path) -> None:
    record, ledger = decided.root / "rental.toml", tmp_path / "ledger.csv"
    assert call(decided, "rental", str(record), "--ledger", str(ledger)) == 0
    before = ledger.read_bytes()
    record.write_text(record.read_text(encoding="utf-8") + 'notes = "corrected"\n', encoding="utf-8")
    assert call(decided, "rental", str(record), "--ledger", str(ledger)) == 2
    assert ledger.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"\xff", b'"open'])
def test_a_file_that_is_no_ledger_is_left_alone(decided: Campaign, tmp_path: Path, content: bytes) -> None:
    ledger = tmp_path / "ledger.csv"
    ledger.write_bytes(content)
    assert call(decided, "rental", str(decided.root / "rental.toml"), "--ledger", str(ledger)) == 2
    assert ledger.read_bytes() == content


def test_a_rental_that_contradicts_the_decision_exits_3(
    decided: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record, ledger = decided.root / "rental.toml", tmp_path / "ledger.csv"
    record.write_text(record.read_text(encoding="utf-8").replace('"300.00"', '"310.00"'), encoding="utf-8")
    assert call(decided, "rental", str(record), "--ledger", str(ledger)) == 3
    assert "amount: the note says 300.00 EUR, the record 310.00 EUR" in capsys.readouterr().err
    assert not ledger.exists()


def test_a_forecast_is_called_a_planning_assumption(decided: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    """Only from enough accepted passes; marked on every output."""
    assert call(decided, "forecast", "--documents", "100000", "--other-hours", "2") == 0
    out = capsys.readouterr().out
    assert "planning assumption, not a result" in out
    assert "A.b1 on final: 29 h 47 min to 30 h 20 min" in out and "package: 3 days, 300.00 EUR" in out
    assert "B.b1 on final: no forecast (1 accepted passes, 3 needed)" in out
    assert call(decided, "forecast", "--documents", "40000000") == 0
    out = capsys.readouterr().out
    assert "forecast for 40,000,000 documents: planning assumption" in out
    assert "package: none, even if every document is as fast as in the fastest pass" in out
    assert "30 days are 10,391 h 7 min too short" in out
    assert call(decided, "forecast", "--documents", "100000", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert "planning assumption" in found["assumption"]
    assert found["configurations"][0]["forecast"]["slowest_seconds"] == "102000"


def test_rule_9_and_13_a_forecast_has_the_terms_of_plan_and_decision(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two lots and hourly offers of the plan; 28 h 20 min at 0.50 for 2 lots are 29.00, not 1,100.00 for one lot."""
    terms = 'billing = ["package", "hourly"]\nlots = 2\n'
    for lines, expected in (
        (("A 3 1100.00", "A hourly 0.50"), "hourly, lots: 2, 29.00 EUR at the slowest"),
        (("A 3 1100.00",), "package: 3 days, lots: 2, 2,200.00 EUR"),
        (("A 3 1100.00 lots=1", "A 7 1200.00 lots=1", "A 30 1300.00 lots=1"), "too few lots available"),
    ):
        world = World(prices=tariffs(*lines), lots=2, extra={"billing": ("package", "hourly")})
        world.passes("A", "b1", 100, 101, 102)
        campaign = Campaign(tmp_path / str(len(lines)) / lines[0].replace(" ", "-"))
        campaign.note.mkdir(parents=True)
        campaign.balance.write_bytes(world.balance().dump())
        campaign.plan.parent.mkdir(parents=True)
        campaign.plan.write_text(PLAN.replace("\n[[task]]", terms + "\n[[task]]"), encoding="utf-8")
        rows = [TARIFF_HEADER + ",billing"]
        for line in lines:
            _, days, price, *more = line.split()
            billing, days = ("hourly", "") if days == "hourly" else ("package", days)
            rows.append(f"A,A card,1,24,{days},{price},EUR,2026-09-24,test,{''.join(more)[5:]},{billing}")
        campaign.tariffs.write_text("\n".join([*rows, ""]), encoding="utf-8")
        assert call(campaign, "forecast", "--documents", "100000") == 0
        assert expected in capsys.readouterr().out
    campaign.plan.write_text(campaign.plan.read_text(encoding="utf-8").replace("lots = 2", "extra_periods = 1"),
                             encoding="utf-8")  # fmt: skip
    assert call(campaign, "forecast", "--documents", "1") == 0
    out = capsys.readouterr().out
    assert "forecast for 1 document: " in out
    assert "1 s to 1.02 s" in out, "short times are not rounded until both ends read alike"


@pytest.mark.parametrize("field", ["days", "lots"])
def test_a_rental_beyond_any_bound_is_refused(
    decided: Campaign, field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    record = decided.root / "rental.toml"
    text = RENTAL.replace(f"{field} = ", f"{field} = 300000000")
    record.write_text(text, encoding="utf-8")
    assert call(decided, "rental", str(record)) == 2
    error = capsys.readouterr().err
    assert f"field {field}" in error and "at most" in error


@pytest.mark.parametrize("documents", ["0", "-1", "1e6", "many"])
def test_a_forecast_needs_a_number_of_documents(decided: Campaign, documents: str) -> None:
    assert call(decided, "forecast", "--documents", documents) == 2


def test_without_a_balance_there_is_nothing_to_forecast_from(tmp_path: Path) -> None:
    assert run(["--campaign", str(tmp_path), "forecast", "--documents", "5"]) == 2


def test_m27_a_forecast_says_of_which_seed_its_durations_are(
    decided: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    """M27: two seeds are two lines that can be told apart; with one seed the line stays short."""
    assert call(decided, "forecast", "--documents", "1000") == 0
    assert "seed" not in capsys.readouterr().out
    world = World(seeds=(0, 7))
    for seed in (0, 7):
        world.passes("A", "b1", 100, 101, 102, seed=seed)
    decided.balance.write_bytes(world.balance().dump())
    assert call(decided, "forecast", "--documents", "1000") == 0
    shown = capsys.readouterr().out
    assert "A.b1 on final, seed 0: " in shown and "A.b1 on final, seed 7: " in shown
    assert call(decided, "forecast", "--documents", "1000", "--json") == 0
    assert [one["seed"] for one in json.loads(capsys.readouterr().out)["configurations"]] == [0, 7]


_ADD_MANY = """
import sys
from pathlib import Path
from runner.flows.ledger import COLUMNS, add_to_ledger
ledger, who = Path(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
for number in range(40):
    add_to_ledger(ledger, {**dict.fromkeys(COLUMNS, "1"), "provider": who, "order": f"{who}-{number}"})
"""


def test_two_processes_that_add_to_one_ledger_lose_no_line(tmp_path: Path) -> None:
    """M37: the file is read and written as a whole; each of two real writers' lines is there at the end."""
    ledger = tmp_path / "ledger.csv"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _ADD_MANY, str(ledger), who],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        )
        for who in ("one", "two")
    ]  # fmt: skip
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=60)
        assert writer.returncode == 0
    with ledger.open(encoding="utf-8", newline="") as stream:
        orders = [line["order"] for line in csv.DictReader(stream)]
    assert sorted(orders) == sorted(f"{who}-{number}" for who in ("one", "two") for number in range(40))
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.csv"], "no lock is left behind"
