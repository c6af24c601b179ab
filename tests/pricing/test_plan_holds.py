"""A plan that cannot hold is refused before anything is paid: deliveries wait, variants exist (M34, M43)."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest

from runner.cli.main import run
from runner.cli.window import _plan_lines
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.pricing.window import access_window
from runner.protocol.schema import Plan, Task
from tests.support.small_campaign import PLAN, make_campaign

HOUR = 3600
PREPARE = {"id": "prepare", "kind": "preparation", "start": "2026-12-01T09:00", "duration": "1:00:00"}
MEASURE = {"id": "measure", "kind": "measurement", "after": ("prepare",), "duration": "10:00:00"}
COLLECT = {"id": "collect", "kind": "collection", "after": ("measure",), "duration": "1:00:00"}
DELIVER = {"id": "deliver", "kind": "export", "start": "2026-12-02T09:00", "duration": "2:00:00", "delivery": True}


def plan_of(*tasks: dict[str, object], **changes: object) -> Plan:
    made = tuple(Task.model_validate({"title": str(task["id"])} | task) for task in tasks)
    fields = {"zone": "Europe/Berlin", "deadline": "2026-12-02T12:00Z", "deliverables": ("c",), "task": made}
    return Plan.model_validate(fields | changes)


def test_m43_a_delivery_at_a_fixed_time_that_waits_for_no_measuring_is_refused() -> None:
    """Else measuring that lasts 250 h would meet a deadline on the day after its start."""
    with pytest.raises(InputRefused) as refused:
        access_window(plan_of(PREPARE, MEASURE, COLLECT, DELIVER))
    assert refused.value.column == "task[2].id" and refused.value.value == "measure"
    assert "no delivery waits" in refused.value.what and refused.value.next_step
    waiting = plan_of(PREPARE, MEASURE, COLLECT, DELIVER | {"after": ("collect",)})
    found = access_window(waiting, pass_seconds={"c": Decimal(250 * HOUR)})
    assert found.deadline_slack_seconds is not None and found.deadline_slack_seconds < 0


def test_m43_a_delivery_before_measuring_is_refused_for_every_deliverable() -> None:
    with pytest.raises(InputRefused, match="no delivery waits"):
        access_window(plan_of(PREPARE | {"delivery": True}, MEASURE, COLLECT))
    two = (MEASURE | {"corpus": "c"}, MEASURE | {"id": "other", "corpus": "d"})
    collect = COLLECT | {"after": ("measure", "other")}
    with pytest.raises(InputRefused, match="other"):
        access_window(plan_of(PREPARE, two[0] | {"delivery": True}, two[1], collect, deliverables=("c", "d")))
    access_window(plan_of(PREPARE, *two, collect | {"delivery": True}, deliverables=("c", "d")))
    # A corpus that is no deliverable may be measured whenever it suits.
    access_window(plan_of(PREPARE, two[0] | {"delivery": True}, two[1], collect, deliverables=("c",)))


def test_m34_an_overrun_is_said_where_measured_durations_are_shown() -> None:
    """50 h from 10:00 on the 1st, a collection at a fixed time on the 3rd at 09:00: the window ends with it."""
    fixed = COLLECT | {"after": (), "start": "2026-12-03T09:00"}
    plan = plan_of(PREPARE, MEASURE | {"delivery": True}, fixed)
    assert access_window(plan).overrun is None
    found = access_window(plan, pass_seconds={"c": Decimal(50 * HOUR)})
    assert found.overrun is not None and found.overrun.id == "measure"
    assert (found.window_seconds, found.waiting_seconds) == (49 * HOUR, 0)
    (line,) = [line for line in _plan_lines(found, "UTC") if "last collection" in line]
    assert line == "  NOT POSSIBLE: task measure ends 2 h after the last collection"


def test_m34_measuring_after_the_last_collection_is_refused() -> None:
    """It needs the rental, which ends with the collection; reading the note at home does not."""
    early = COLLECT | {"after": ("prepare",), "duration": "0:30:00"}
    late = MEASURE | {"start": "2026-12-01T12:00", "after": (), "delivery": True}
    with pytest.raises(InputRefused, match="measures after the last collection") as refused:
        access_window(plan_of(PREPARE, early, late))
    assert refused.value.next_step == "let the collection come after it"
    with pytest.raises(InputRefused, match="measures after the last collection"):
        access_window(plan_of(PREPARE, early, late), pass_seconds={"c": Decimal(HOUR)})


def _campaign(tmp_path: Path, old: str, new: str) -> Campaign:
    campaign = make_campaign(tmp_path)
    assert old in PLAN
    campaign.plan.write_text(PLAN.replace(old, new), encoding="utf-8")
    return campaign


@pytest.mark.parametrize(
    ("new", "what"),
    [
        ('delivery = true\nconfiguration = "B8x"\n', "a variant that is not known"),
        (
            'delivery = false\n[[task]]\nid = "d"\ntitle = "d"\nkind = "export"\nstart = "2026-12-28T12:00"\n'
            'duration = "1:00:00"\ndelivery = true\n',
            "no delivery waits for",
        ),
        (
            'delivery = true\n[[task]]\nid = "d"\ntitle = "d"\nkind = "collection"\nstart = "2026-12-28T08:00"\n'
            'duration = "0:10:00"\n',
            "measures after the last collection",
        ),
    ],
)
def test_a_plan_that_cannot_hold_is_refused_by_window_and_freeze_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], new: str, what: str
) -> None:
    campaign = _campaign(tmp_path, "delivery = true\n", new)
    for command in ("window", "freeze"):
        assert run(["--campaign", str(campaign.root), command]) == 2, command
        error = capsys.readouterr().err
        assert what in error and re.search(r"plan\.toml(:\d+)?", error), error
    assert not campaign.lock.exists()


def test_window_of_an_unknown_configuration_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign = make_campaign(tmp_path)
    assert run(["--campaign", str(campaign.root), "window", "--configuration", "nosuch"]) == 2
    assert "b1, b4" in capsys.readouterr().err
    assert run(["--campaign", str(campaign.root), "window", "--configuration", "b4"]) == 0


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        ("amount", "-5.00", "an expense is not negative"),
        ("currency", "euro", "not an ISO 4217 code"),
        ("currency", "XXX", "not an ISO 4217 code"),
        ("reason", "", "an expense needs a reason"),
        ("reason", " \\t", "an expense needs a reason"),
        ("name", " ", "an expense needs a name"),
    ],
)
def test_m39_an_expense_that_says_nothing_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], field: str, value: str, what: str
) -> None:
    """Listed in the note as it stands, so it needs a name, an amount, a currency and a reason."""
    fields = {"name": "licence", "amount": "5.00", "currency": "EUR", "reason": "needed"} | {field: value}
    text = "\n[[expense]]\n" + "".join(f'{key} = "{found}"\n' for key, found in fields.items())
    campaign = make_campaign(tmp_path)
    campaign.plan.write_text(PLAN + text, encoding="utf-8")
    for command in ("window", "freeze"):
        assert run(["--campaign", str(campaign.root), command]) == 2, command
        error = capsys.readouterr().err
        assert what in error and f"expense[1].{field}" in error and re.search(r"plan\.toml:\d+", error), error
    good = text.replace(f'{field} = "{value}"', f'{field} = "{"7.00" if field == "amount" else "EUR"}"')
    campaign.plan.write_text(PLAN + good, encoding="utf-8")
    assert run(["--campaign", str(campaign.root), "window"]) == 0


@pytest.mark.parametrize("field", ["lots", "extra_periods", "passes", "task lots"])
def test_numbers_of_a_plan_beyond_any_bound_are_refused_with_the_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], field: str
) -> None:
    """Found before measuring, never as an error of ours after it."""
    name = field.removeprefix("task ")
    place = "delivery = true\n" if field in ("passes", "task lots") else 'zone = "Europe/Berlin"\n'
    for value, status in ((2**63 - 1, 2), (1, 0)):
        campaign = _campaign(tmp_path / str(status), place, f"{place}{name} = {value}\n")
        for command in ("window", "freeze") if status else ("window",):
            assert run(["--campaign", str(campaign.root), command]) == status, command
        error = capsys.readouterr().err
        assert not status or (f"{name} must be at most" in error and re.search(r"plan\.toml:\d+", error)), error
