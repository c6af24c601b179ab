"""The plan's window with measured durations in place of planned ones (M34), for one configuration."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from runner.decide.calendar import phases_of
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.manifest import Manifest
from runner.evidence.store import read_attempts
from runner.judge.campaign import read_verdicts
from runner.pricing.happened import replaced_seconds
from runner.pricing.planfile import read_window
from runner.pricing.window import Window
from runner.protocol.schema import Plan
from runner.units import exact_seconds


def measured_window(campaign: Campaign, plan: Path, variant_id: str) -> tuple[Plan, Window]:
    """Largest accepted duration of each corpus, and the recorded phases of the tasks that name them.

    Refused where nothing of the variant is accepted: a planned duration is no measured one.
    """
    accepted = {verdict.attempt_id for verdict in read_verdicts(campaign) if verdict.accepted}
    mine = [attempt for attempt in read_attempts(campaign) if attempt.variant_id == variant_id]
    largest: dict[str, Decimal] = {}
    for attempt in mine:
        if attempt.attempt_id in accepted and attempt.pass_seconds is not None:
            seconds = exact_seconds(attempt.pass_seconds)
            largest[attempt.corpus_id] = max(seconds, largest.get(attempt.corpus_id, seconds))
    if not largest:
        raise InputRefused(
            "no pass of this configuration is accepted",
            value=variant_id,
            next_step="runner validate, or leave --measured out",
        )
    manifests = {path.stem: Manifest.load(path) for path in sorted(campaign.manifests.glob("*.json"))}
    planned, _ = read_window(plan, configuration=variant_id)
    replaced = replaced_seconds(planned, phases_of(mine, manifests), variant_id)
    return read_window(plan, configuration=variant_id, pass_seconds=largest, task_seconds=replaced)
