"""A plan that cannot win is said at the freeze and at the rehearsal, before paid hours (M34, M52)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from runner.cli.main import run
from runner.errors import InputRefused
from runner.evidence.model import DecimalText
from runner.flows.plan_check import past_deadline, plan_warnings
from runner.flows.rehearse import rehearse
from runner.pricing.planfile import read_window
from runner.pricing.tariffs import future_dates, load_catalogue
from runner.protocol.read import read_protocol
from tests.measure.light import WORKER, light_campaign
from tests.support.small_campaign import PLAN, make_campaign

FAR = PLAN.replace("2026-12", "2096-12")


DEADLINE, END = 'deadline = "2096-12-31T09:00"', 'end = "2096-12-28T12:00"'


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((DEADLINE, 'deadline = "2026-11-20T12:00"'), "has passed"),
        ((DEADLINE, 'deadline = "2096-12-28T11:00"'), "planned delivery is 1 h AFTER the deadline"),
        ((END, 'end = "2097-12-28T12:00"'), "no single package covers it"),
    ],
)
def test_m34_the_freeze_says_which_line_of_the_window_is_bad(
    change: tuple[str, str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """M34: the lock is written (before the first attempt a change is free), with the warning beside it."""
    assert change[0] in FAR
    campaign = make_campaign(tmp_path, plan=FAR.replace(*change))
    assert run(["--campaign", str(tmp_path), "freeze"]) == 0
    warnings = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  warning: ")]
    assert any(said in line and "make " in line for line in warnings), warnings
    assert campaign.lock.is_file()


def test_m34_a_plan_in_time_is_not_warned_of(tmp_path: Path) -> None:
    campaign = make_campaign(tmp_path, plan=FAR)
    assert plan_warnings(campaign) == ()
    window = read_window(campaign.plan)[1]
    assert window.deadline is not None and past_deadline(window, window.deadline) is None
    late = past_deadline(window, window.deadline + timedelta(hours=49))
    assert late is not None and "(49 h ago)" in late
    assert len(plan_warnings(campaign, datetime(2097, 1, 1, tzinfo=UTC))) == 1


def test_m34_a_variant_with_a_calendar_of_its_own_is_named(tmp_path: Path) -> None:
    own = 'kind = "measurement"\nconfiguration = "b8"\nstart = "2097-01-02T09:00"\nend = "2097-01-02T12:00"\n'
    plan = f'{FAR}\n[[task]]\nid = "again"\ntitle = "Again"\n{own}delivery = true\n'
    (late,) = plan_warnings(make_campaign(tmp_path, plan=plan))
    assert "planned delivery (b8) is 51 h AFTER the deadline" in late


def test_m52_a_rehearsal_says_no_to_a_deadline_that_has_passed(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path)
    text = campaign.plan.read_text(encoding="utf-8")
    old = datetime.now(UTC) - timedelta(hours=5)
    for name, moment in {"96-12-31T09:00": old, "96-12-28T09:00": old - timedelta(hours=9)}.items():
        text = text.replace(f'"20{name}"', f'"{moment:%Y-%m-%dT%H:%MZ}"')
    text = text.replace('"2096-12-28T12:00"', f'"{old - timedelta(hours=6):%Y-%m-%dT%H:%MZ}"')
    campaign.plan.write_text(text, encoding="utf-8")
    assert run(["--campaign", str(tmp_path), "freeze"]) == 0
    checks = {check.name: check for check in rehearse(campaign, "cpu", None, lambda _: None, WORKER).checks}
    assert not checks["deadline"].passed and "has passed (5 h" in checks["deadline"].found


def test_m40_a_price_from_the_future_is_said_at_the_freeze_and_with_the_price(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """M40: a catalogue date that is not yet anywhere on Earth is a slip of the pen: said with its line, not refused."""
    campaign = make_campaign(tmp_path, plan=FAR)
    text = (Path(__file__).parents[2] / "tariffs.csv").read_text(encoding="utf-8")
    assert text.count("110.00,USD,2026-09-24") == 1
    campaign.tariffs.write_text(text.replace("110.00,USD,2026-09-24", "110.00,USD,2096-09-24"), encoding="utf-8")
    assert run(["--campaign", str(tmp_path), "freeze", "--json"]) == 0
    (warning,) = json.loads(capsys.readouterr().out)["warnings"]
    assert "the price of rtx-4090 in line" in warning and "2096-09-24, which is in the future" in warning
    assert run(["--campaign", str(tmp_path), "price", "--gpu", "rtx-4090", "--days", "7"]) == 0
    shown = capsys.readouterr()
    assert "2096-09-24, which is in the future" in shown.err and "110.00" in shown.out
    assert run(["--campaign", str(tmp_path), "price", "--gpu", "b200", "--days", "7"]) == 0
    assert capsys.readouterr().err == "", "the prices of others are not asked for"
    catalogue = load_catalogue(campaign.tariffs)
    assert len(future_dates(catalogue, datetime(2096, 9, 23, 9, tzinfo=UTC))) == 1
    assert future_dates(catalogue, datetime(2096, 9, 23, 10, tzinfo=UTC)) == (), "already the 24th on Kiritimati"


def test_m3_zero_has_no_sign(tmp_path: Path) -> None:
    """M3: "-0" and "0" are one minimum, so they are one fingerprint; other negative values stay what they are."""
    campaign = make_campaign(tmp_path, plan=FAR)
    text = campaign.protocol.read_text(encoding="utf-8")
    campaign.protocol.write_text(text.replace('max_drop = "0.10"', 'max_drop = "-0.00"'), encoding="utf-8")
    assert read_protocol(campaign.protocol).quality.max_drop == "0.00"
    campaign.protocol.write_text(text.replace('max_drop = "0.10"', 'max_drop = "-0.10"'), encoding="utf-8")
    with pytest.raises(InputRefused):
        read_protocol(campaign.protocol)
    checked = TypeAdapter(DecimalText).validate_python
    assert [checked(one) for one in ("-0", "0", "-0.0", "-0.01", "10", "-10")] == [
        "0",
        "0",
        "0.0",
        "-0.01",
        "10",
        "-10",
    ]
