"""`protocol/plan.toml` as models: deliverables and deadline, the calendar of the rental, other expenses (M39)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from runner.evidence.model import DecimalText, Record, SafeName

RecordedPhase = Literal[
    "installation", "process_start", "imports", "download", "load", "compile", "warm_up", "evaluation", "writing"
]
"""Phases outside of the pass that manifests and attempts record (M17)."""


class Task(Record):
    """One entry of the rental's calendar. Either start and end, or duration (and `after`)."""

    id: SafeName
    title: str
    kind: Literal[
        "preparation",
        "installation",
        "check",
        "warm_up",
        "measurement",
        "retry",
        "evaluation",
        "export",
        "wait",
        "collection",
    ]
    start: str | None = Field(default=None, description="2026-10-05T09:00 in the plan's zone, or with an offset")
    end: str | None = None
    duration: str | None = Field(default=None, description="elapsed hours as H:MM:SS")
    after: tuple[str, ...] = ()
    delivery: bool = Field(default=False, description="the deadline applies to the end of this task")
    lots: int = Field(default=1, ge=1)
    configuration: str | None = Field(default=None, description="variant id; only for this configuration")
    corpus: SafeName | None = Field(default=None, description="measurement: whose duration; default: the deliverable")
    passes: int = Field(default=1, ge=1, description="measurement: lasts this many largest accepted durations")
    phases: tuple[RecordedPhase, ...] = Field(
        default=(), description="once recorded, the sum of these phases takes the place of the planned duration"
    )


class Expense(Record):
    """Other expense (M39): listed apart, with its reason, for all variants alike."""

    name: str
    amount: DecimalText
    currency: str
    reason: str
    configuration: str | None = None


class Plan(Record):
    """`protocol/plan.toml`: deliverables and deadline are frozen, the calendar may still move."""

    schema_version: Literal["plan/1"] = "plan/1"
    zone: str = Field(description="IANA zone of the local times, such as Europe/Berlin")
    deadline: str
    deliverables: tuple[SafeName, ...] = Field(description="corpus ids, each counted once", min_length=1)
    billing: tuple[Literal["package", "hourly"], ...] = ("package",)
    extra_periods: int = Field(default=0, ge=0, description="further periods, only if asked for here")
    lots: int | None = Field(default=None, ge=1)
    provider: str | None = Field(default=None, description="who the rental is from; matched with the record")
    order: str | None = Field(default=None, description="the order's number, once it is known; matched with the record")
    task: tuple[Task, ...] = Field(min_length=1)
    expense: tuple[Expense, ...] = ()
