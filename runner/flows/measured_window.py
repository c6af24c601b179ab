"""The plan's window with measured durations in place of planned ones (M34), for one configuration."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from runner.decide.calendar import replaced_in
from runner.decide.model import BalanceRow
from runner.decide.read import read_evidence
from runner.decide.write import decide_evidence, other_locks_were_left_out
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.pricing.planfile import read_window
from runner.pricing.window import Window
from runner.protocol.schema import Plan
from runner.units import exact_seconds


def measured_window(campaign: Campaign, plan: Path, configuration: str) -> tuple[Plan, Window]:
    """Largest accepted duration of each corpus, and the recorded phases of the tasks that name them, as the balance
    has them: rows of other locks, excluded passes and other hardware do not count.

    `configuration`: an id of the balance (`b200.b1`), or of a variant that was measured as one configuration only.
    Refused where nothing of it is accepted: a planned duration is no measured one.
    """
    left_out = campaign.decision.is_file() and other_locks_were_left_out(campaign.decision)
    balance = decide_evidence(read_evidence(campaign, leave_out_other_locks=left_out)).balance
    row = _row([row for row in balance.rows if row.accepted], configuration)
    largest: dict[str, Decimal] = {}
    for summary in row.summaries:
        for seconds in summary.raw_seconds:
            largest[summary.corpus_id] = max(exact_seconds(seconds), largest.get(summary.corpus_id, Decimal(0)))
    planned, _ = read_window(plan, configuration=row.variant_id)
    replaced = replaced_in(planned, row)
    return read_window(plan, configuration=row.variant_id, pass_seconds=largest, task_seconds=replaced)


def _row(rows: Sequence[BalanceRow], asked: str) -> BalanceRow:
    """The one row that is meant, of those with an accepted pass."""
    found = [row for row in rows if row.configuration_id == asked] or [row for row in rows if row.variant_id == asked]
    if len(found) == 1:
        return found[0]
    names = ", ".join(row.configuration_id for row in found or rows)
    raise InputRefused(
        "this variant was measured as several configurations" if found else "no pass of this configuration is accepted",
        column="--configuration",
        value=asked,
        next_step=f"--configuration with one of: {names}" if names else "runner validate, or leave --measured out",
    )
