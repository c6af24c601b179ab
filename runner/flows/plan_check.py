"""The plan against the variants of the campaign: every calendar computed before anything is frozen or paid."""

from __future__ import annotations

from pathlib import Path

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.pricing.planfile import check_configurations, check_plan_file
from runner.protocol.lockfile import read_lock
from runner.protocol.read import read_plan, read_protocol
from runner.protocol.variants import expand


def known_variants(campaign: Campaign) -> tuple[str, ...]:
    """Ids of the variants of the protocol and of the lock; empty where there is neither yet."""
    names = [variant.id for variant in expand(read_protocol(campaign.protocol))] if campaign.protocol.is_file() else []
    if campaign.lock.is_file():
        names += [variant.id for variant in read_lock(campaign).variants]
    return tuple(dict.fromkeys(names))


def check_plan(campaign: Campaign) -> None:
    """Refuse a plan whose calendar cannot be kept for one of the variants, or that names an unknown one (M34)."""
    check_plan_file(campaign.plan, known_variants(campaign))


def check_asked(campaign: Campaign, plan: Path, configuration: str | None) -> None:
    """Refuse `--configuration` of a variant that neither campaign nor plan knows, and a plan with unknown ones.

    A plan of another place is read on its own: the campaign's variants say nothing about it.
    """
    own = plan.resolve() == campaign.plan.resolve()
    names = known_variants(campaign) if own else ()
    read = read_plan(plan)
    if own:
        check_configurations(read, names, plan)
    known = dict.fromkeys([*names, *(task.configuration for task in read.task if task.configuration is not None)])
    if configuration is not None and known and configuration not in known:
        raise InputRefused(
            "no variant of this name",
            column="--configuration",
            value=configuration,
            next_step=f"one of: {', '.join(known)}",
        )
