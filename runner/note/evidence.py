"""Everything the note is made from, read once from the campaign's files. No figure is taken from anywhere else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path

from runner.decide.model import Balance, BalanceRow, Decision
from runner.errors import InputRefused
from runner.evidence.attempt import Attempt
from runner.evidence.campaign import Campaign
from runner.evidence.manifest import Manifest
from runner.evidence.store import read_attempts
from runner.evidence.verdict import PairedComparisons, Verdict
from runner.pricing.core import Catalogue
from runner.pricing.tariffs import load_catalogue
from runner.protocol.read import read_plan, read_protocol
from runner.protocol.schema import Lock, Plan, Protocol
from runner.units import parse_utc

MOST_CONFIGURATIONS = 20


@dataclass(frozen=True)
class Evidence:
    """Read-only view of a campaign that has been decided. Attempts of other locks are in it too."""

    campaign: Campaign
    protocol: Protocol
    plan: Plan
    lock: Lock
    catalogue: Catalogue
    attempts: tuple[Attempt, ...]
    verdicts: Mapping[str, Verdict]
    manifests: Mapping[str, Manifest]
    balance: Balance
    decision: Decision
    paired: tuple[PairedComparisons, ...] = ()

    @cached_property
    def counted_attempts(self) -> tuple[Attempt, ...]:
        """Attempts under this lock, by hardware, each in schedule order; the others are only listed."""
        mine = [attempt for attempt in self.attempts if attempt.lock_sha256 == self.lock.lock_sha256]
        gpus = list(dict.fromkeys(attempt.gpu_declared for attempt in mine))
        return tuple(
            sorted(
                mine,
                key=lambda a: (
                    gpus.index(a.gpu_declared), a.seed, a.slot.pass_index, a.slot.position, a.started_at_utc,
                ),
            )
        )  # fmt: skip

    def accepted(self, attempt: Attempt) -> bool:
        """Whether figures rest on it: its verdict accepts it, and nothing excludes it."""
        verdict = self.verdicts.get(attempt.attempt_id)
        return verdict is not None and verdict.accepted and attempt.attempt_id not in self.left_out

    @cached_property
    def measured_rows(self) -> tuple[BalanceRow, ...]:
        return tuple(row for row in self.balance.rows if row.measured)

    @cached_property
    def ranked_rows(self) -> tuple[BalanceRow, ...]:
        """Measured configurations: chosen or tied, then admissible ones by cost and median, then the others."""
        named = {self.decision.chosen, *self.decision.tied}

        def place(row: BalanceRow) -> tuple[bool, bool, bool, Decimal, Decimal]:
            median = next((summary.median_seconds for summary in row.summaries if summary.median_seconds), None)
            return (
                row.configuration_id != self.decision.chosen,
                row.configuration_id not in named,
                not row.admissible,
                Decimal(row.committed_cost or 0),
                Decimal(median or "Infinity"),
            )

        return tuple(sorted(self.measured_rows, key=place))

    @cached_property
    def shown_rows(self) -> tuple[BalanceRow, ...]:
        """What tables and figures show, in the order of the balance: the first of `ranked_rows` if there are many."""
        shown = {row.configuration_id for row in self.ranked_rows[:MOST_CONFIGURATIONS]}
        return tuple(row for row in self.measured_rows if row.configuration_id in shown)

    @cached_property
    def timed_rows(self) -> tuple[BalanceRow, ...]:
        """Configurations whose window rests on an accepted pass; that of any other is only the plan's own."""
        return tuple(
            row
            for row in self.measured_rows
            if row.window is not None and any(summary.accepted for summary in row.summaries)
        )

    @cached_property
    def left_out(self) -> frozenset[str]:
        """Ids of attempts that no figure uses."""
        return frozenset(item.attempt_id for item in self.balance.left_out)

    @property
    def chosen_row(self) -> BalanceRow | None:
        return next((row for row in self.balance.rows if row.configuration_id == self.decision.chosen), None)

    @cached_property
    def calendar_row(self) -> BalanceRow | None:
        """Whose durations the calendar shows: the chosen one, else the longest window; None: nothing is accepted."""
        if self.chosen_row is not None:
            return self.chosen_row
        windows = [
            (Decimal(row.window.window_seconds), row.configuration_id, row)
            for row in self.timed_rows
            if row.window is not None
        ]
        return max(windows, key=lambda item: item[:2])[2] if windows else None

    @property
    def dated_utc(self) -> str:
        """The date of the note: the end of the last attempt, else the freeze. Never the clock.

        Attempts during which a wall clock was set date nothing: their times of day are not to be trusted (TI-03).
        """
        ends = [a.ended_at_utc or a.started_at_utc for a in self.attempts if not a.wall_clock_moved]
        return max([*ends, self.lock.frozen_at_utc], key=parse_utc)


def read_evidence(campaign: Campaign) -> Evidence:
    """Read and check all files; a missing one is refused with the command that makes it."""
    _need(campaign.lock, "runner freeze")
    _need(campaign.decision, "runner decide")
    _need(campaign.balance, "runner decide")
    evidence = Evidence(
        campaign=campaign,
        protocol=read_protocol(campaign.protocol),
        plan=read_plan(campaign.plan),
        lock=Lock.load(campaign.lock),
        catalogue=load_catalogue(campaign.tariffs),
        attempts=read_attempts(campaign),
        verdicts={path.stem: Verdict.load(path) for path in _json_files(campaign.verdicts)},
        manifests={path.stem: Manifest.load(path) for path in _json_files(campaign.manifests)},
        balance=Balance.load(campaign.balance),
        decision=Decision.load(campaign.decision),
        paired=tuple(PairedComparisons.load(path) for path in _json_files(campaign.paired)),
    )
    for name, found in (("balance", evidence.balance.lock_sha256), ("decision", evidence.decision.lock_sha256)):
        if found != evidence.lock.lock_sha256:
            raise InputRefused(
                f"the {name} belongs to another lock", value=found, file=campaign.lock, next_step="runner decide"
            )
    return evidence


def _need(path: Path, command: str) -> None:
    if not path.exists():
        raise InputRefused("this file is needed for the note and is missing", file=path, next_step=command)


def _json_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.json") if not path.name.startswith("."))
