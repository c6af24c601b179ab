"""verify, page 1 of a priced note: blanks that hold an amount together are blanks (issue 5.6)."""

from __future__ import annotations

import pytest

from runner.flows.page_one import NAME, settled
from runner.flows.verification import Step


@pytest.mark.parametrize(
    ("decided", "status"),
    [
        ("Rent 1 lot of cpu for 3 days: 58.00\u00a0USD", "passed"),
        ("Rent 1 lot of cpu for 3 days: 59.00\u00a0USD", "not checked"),
    ],
)
def test_issue_5_6_page_one_is_held_against_the_decision_whatever_blanks_an_amount_has(
    decided: str, status: str
) -> None:
    steps = (
        Step("decision", "passed", "follows", says=(decided,)),
        Step("text of the note", "passed", "equal"),
        Step(NAME, "passed", "equal", says=("Rent 1 lot of cpu for 3 days: 58.00 USD",)),
    )
    assert [step.status for step in settled(steps) if step.name == NAME] == [status]
