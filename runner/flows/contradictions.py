"""Rows against what else was written while they were measured: journal, clock, names, files of rows that are gone.

A row can be edited or dropped, and its chain, hashes and signature made anew. Whoever does that has to
think of all of this as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from runner.catalogue.devices import matches
from runner.errors import InputRefused, show_value
from runner.evidence.attempt import Attempt, PhaseName, Status
from runner.evidence.campaign import Campaign
from runner.evidence.store import Rows
from runner.units import parse_utc

_MEASURED = re.compile(r"(\d{4,})-(.+)-[0-9a-f]{8}")  # ids as `measure` gives them; others are left alone
_OF_ONE_ATTEMPT = ("journals", "predictions", "memory")
_PAID_ONCE = (PhaseName.PROCESS_START, PhaseName.IMPORTS)
_CLOCK_SECONDS = 2.0  # times of day are whole seconds, and wall clocks are corrected
# Between the journal's marks and the clock of the pass samplers start and end and texts are fingerprinted: 0.6 s at
# most in 928 passes on two machines; cards take longer, and so do millions of texts.
_BESIDE_SECONDS, _BESIDE_SHARE = 5.0, 0.25


def contradictions(campaign: Campaign, rows: Rows) -> tuple[tuple[str, str], ...]:
    """(file, what does not fit) for every row and file that the others contradict."""
    known = {attempt.attempt_id for attempt in rows.attempts}
    found = [
        (f"records/attempts/{attempt.attempt_id}.json", words)
        for attempt in rows.attempts
        for words in (*_of_row(attempt, known), *_of_journal(campaign, attempt))
    ]
    found += [(f"records/attempts/{name}.json", words) for name, words in _of_processes(rows.attempts)]
    found += [(f"records/attempts/{name}.json", words) for name, words in _of_devices(campaign, rows.attempts)]
    named = {path for attempt in rows.attempts for path in _named(attempt)}
    return (*found, *_of_no_row(campaign, known | {torn.path.stem for torn in rows.torn}, named))


def _named(attempt: Attempt) -> Iterator[str]:
    for reference in (attempt.predictions, attempt.memory_timeline, attempt.journal):
        if reference is not None:
            yield reference.path


def _of_row(attempt: Attempt, known: set[str]) -> Iterator[str]:
    measured = _MEASURED.fullmatch(attempt.attempt_id)
    if measured is not None:
        index, what = int(measured.group(1)), f"{attempt.gpu_declared}-{attempt.variant_id}"
        if index != attempt.chain.index:
            yield f"its name says that it was number {index} on its machine, its chain says {attempt.chain.index}"
        if not f"{what}-p{attempt.slot.pass_index + 1}".startswith(measured.group(2)):
            yield "its name is of another variant or pass"
    if attempt.retry_of is not None and attempt.retry_of not in known:
        yield f"it runs {show_value(attempt.retry_of)} again, which is not among the rows"
    if attempt.pass_seconds is not None and attempt.ended_at_utc is not None and not attempt.wall_clock_moved:
        between = (parse_utc(attempt.ended_at_utc) - parse_utc(attempt.started_at_utc)).total_seconds()
        if attempt.pass_seconds > between + _CLOCK_SECONDS:
            yield f"a pass of {attempt.pass_seconds} s, between a start and an end that are {between:.0f} s apart"


def _of_devices(campaign: Campaign, attempts: Sequence[Attempt]) -> Iterator[tuple[str, str]]:
    """`measure` writes no completed row of a card that is not the declared one (M11); hardware without tariff is
    left alone, as is a PDF alone, whose tariffs may not be there."""
    if not campaign.tariffs.is_file():
        return
    fits = cache(lambda gpu, name: matches(gpu, name, campaign.tariffs) is not False)
    for attempt in attempts:
        gpu, names = attempt.gpu_declared, attempt.devices_found
        if gpu == "cpu" or attempt.status is not Status.COMPLETED or (names and all(fits(gpu, name) for name in names)):
            continue
        yield attempt.attempt_id, f"declared {gpu}, measured on {', '.join(map(show_value, names)) or 'no card'}"


def _of_processes(attempts: Sequence[Attempt]) -> Iterator[tuple[str, str]]:
    """A process that serves several attempts: counted without a gap, never used again after a failure (M21)."""
    last: dict[tuple[str, str], Attempt] = {}
    for attempt in sorted(attempts, key=lambda item: (item.chain.machine_id, item.chain.index)):
        process = attempt.process
        if process is None:
            continue
        key = (attempt.chain.machine_id, process.first_attempt)
        before = last.get(key)
        last[key] = attempt
        served = 0 if before is None or before.process is None else before.process.served_before + 1
        if process.served_before != served:
            yield attempt.attempt_id, f"its process had served {process.served_before} attempts, the rows show {served}"
        if before is None and process.first_attempt != attempt.attempt_id:
            yield (
                attempt.attempt_id,
                f"its process was started for {show_value(process.first_attempt)}, no row before it",
            )
        if before is not None and before.status is not Status.COMPLETED:
            yield attempt.attempt_id, f"its process goes on after {before.attempt_id}, which was not completed"
        if served and any(phase.name in _PAID_ONCE and phase.seconds is not None for phase in attempt.phases):
            yield attempt.attempt_id, "its process was started for an earlier attempt, yet it says how long that took"


def _of_journal(campaign: Campaign, attempt: Attempt) -> Iterator[str]:
    """What the worker wrote down as it went. A journal that ends early is that of a lost attempt."""
    from runner.measure.journal import read_journal

    if attempt.journal is None or not campaign.inside(attempt.journal.path).is_file():
        return
    try:
        events = read_journal(campaign.inside(attempt.journal.path)).events
    except InputRefused:
        if attempt.status is Status.COMPLETED:
            yield "its journal cannot be read"
        return
    for start in (event for event in events if event.get("event") == "start"):
        if start.get("attempt_id") != attempt.attempt_id:
            yield f"its journal is of {show_value(str(start.get('attempt_id')))}"
    ends = [event for event in events if event.get("event") == "end"]
    if attempt.status is not Status.COMPLETED or not ends:
        return
    if ends[-1].get("status") != "completed":
        yield f"completed, its journal says {show_value(str(ends[-1].get('status')))}"
    said = ends[-1].get("completed")
    if said is not None and said != attempt.completed_documents:
        yield f"{attempt.completed_documents} documents, its journal says {show_value(str(said))}"
    seconds = _pass_of(events)
    if seconds is None or attempt.pass_seconds is None:
        return
    if not attempt.pass_seconds <= seconds <= attempt.pass_seconds * (1 + _BESIDE_SHARE) + _BESIDE_SECONDS:
        yield f"a pass of {attempt.pass_seconds} s, its journal says {seconds:.3f} s from its beginning to its end"


def _pass_of(events: Sequence[Mapping[str, Any]]) -> float | None:
    """Seconds between the marks before and after the pass; None where several processes wrote (other clocks)."""
    if any(event.get("event") == "rank" for event in events):
        return None
    marks = {event.get("phase"): event.get("mono_ns") for event in events if event.get("event") == "phase"}
    start, end = marks.get("pass"), marks.get("evaluation")
    if not isinstance(start, int) or not isinstance(end, int):
        return None
    return (end - start) / 1e9


def _of_no_row(campaign: Campaign, known: set[str], named: set[str]) -> Iterator[tuple[str, str]]:
    """A row that was dropped leaves its journal, predictions or samples behind."""
    for folder in _OF_ONE_ATTEMPT:
        for path in sorted((campaign.records / folder).glob("[!.]*")):
            relative = f"records/{folder}/{path.name}"
            if path.stem not in known and relative not in named:
                yield relative, "no row of an attempt names it: was its row removed?"
