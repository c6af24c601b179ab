"""Rules 3 to 14 of judgement, written again from their text alone: slow, obvious, in plain Python.

Nothing here imports the rooms that it checks. Times are exact seconds (Fraction) since 1970 in UTC, money is Fraction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from math import ceil
from zoneinfo import ZoneInfo

DAYS = (3, 7, 30)
HOUR = 3600
FAILURES = ("failed", "out_of_memory", "killed", "timed_out", "lost", "started")


@dataclass(frozen=True)
class Job:
    """A task of the plan. `start` and `end` as written; `seconds` is a planned duration."""

    id: str
    kind: str
    start: str | None = None
    end: str | None = None
    seconds: int | None = None
    after: tuple[str, ...] = ()
    delivery: bool = False
    variant: str | None = None
    corpus: str | None = None
    passes: int = 1


@dataclass(frozen=True)
class Price:
    """One line of the tariffs: `days` None is an hourly offer, `amount` None a line without a price."""

    gpu: str
    days: int | None
    amount: str | None
    cards: int = 1
    available: int | None = None


@dataclass(frozen=True)
class Row:
    """One attempted pass and whether its verdict accepts it."""

    gpu: str
    variant: str
    status: str = "completed"
    accepted: bool = True
    seconds: str | None = None
    corpus: str = "final"
    seed: int = 0
    pass_index: int = 0
    stack: str = "one"
    cut: int = 0
    excluded: bool = False
    shared: bool = False


@dataclass(frozen=True)
class Case:
    """A small world: everything that the decision rests on."""

    zone: str
    deadline: str
    jobs: tuple[Job, ...]
    prices: tuple[Price, ...]
    rows: tuple[Row, ...]
    devices: dict[str, int] = field(default_factory=dict)
    added_later: tuple[str, ...] = ()
    corpora: tuple[str, ...] = ("final",)
    seeds: tuple[int, ...] = (0,)
    planned: int = 3
    least: int = 3
    most: int = 10
    lots: int | None = None
    extra_periods: int = 0
    hourly: bool = False
    interval_below: tuple[str, ...] = ()


Key = tuple[str, str, str]


@dataclass(frozen=True)
class Found:
    """One configuration under one assumption about its durations."""

    key: Key
    failing: tuple[str, ...]
    window: Fraction
    delivered: Fraction
    cost: Fraction | None
    unpriced: Fraction | None
    own: bool
    price_open: bool = False


@dataclass(frozen=True)
class Answer:
    """`why`: lone, cost, tie, time, none accepted, too few, none admissible, noise, unpriced, other work."""

    chosen: Key | None
    why: str
    may_be_cheaper: bool = False


def instant(text: str, zone: str) -> Fraction:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=ZoneInfo(zone))
    return Fraction(moment.timestamp()).limit_denominator(1_000_000)


def exact(seconds: str) -> Fraction:
    return Fraction(seconds)


def keys(case: Case) -> list[Key]:
    return sorted({(row.gpu, row.variant, row.stack) for row in case.rows})


def of(case: Case, key: Key) -> list[Row]:
    return [row for row in case.rows if (row.gpu, row.variant, row.stack) == key]


def waits(case: Case, row: Row) -> bool:
    """A pass beyond the planned ones counts once every variant that is measured on this GPU has it too (M3)."""
    if row.pass_index < case.planned:
        return False
    here = {
        (r.variant, r.pass_index) for r in case.rows if (r.gpu, r.corpus, r.seed) == (row.gpu, row.corpus, row.seed)
    }
    variants = {r.variant for r in case.rows if r.gpu == row.gpu}
    return any((variant, row.pass_index) not in here for variant in variants)


def counted(case: Case, key: Key) -> list[Row]:
    """What is an accepted pass or a failure (rule 4), without what was excluded (M31) or waits (M3)."""
    return [
        row
        for row in of(case, key)
        if not row.excluded and not waits(case, row) and (row.status == "completed" or row.status in FAILURES)
    ]


def accepted(case: Case, key: Key, corpus: str, seed: int | None = None) -> list[Row]:
    return [
        row
        for row in counted(case, key)
        if row.status == "completed" and row.accepted and row.corpus == corpus and seed in (None, row.seed)
    ]


def failures(case: Case, key: Key) -> int:
    return sum(not (row.status == "completed" and row.accepted) for row in counted(case, key))


# ---- rule 8: the window ---------------------------------------------------------------------------


def calendar(case: Case, variant: str, measured: dict[str, Fraction]) -> dict[str, tuple[Job, Fraction, Fraction]]:
    """Every task of this variant with its start and end."""
    jobs = {job.id: job for job in case.jobs}
    done: dict[str, tuple[Job, Fraction, Fraction]] = {}

    def free_from(ids: Sequence[str]) -> list[Fraction]:
        """When all these have ended; one of another variant stands for what it waits for."""
        ends: list[Fraction] = []
        for name in ids:
            job = jobs[name]
            if job.variant not in (None, variant):
                ends += free_from(job.after)
            else:
                ends.append(place(job)[2])
        return ends

    def place(job: Job) -> tuple[Job, Fraction, Fraction]:
        if job.id not in done:
            begins = free_from(job.after)
            if job.start is not None:
                begins.append(instant(job.start, case.zone))
            start = max(begins)
            if job.kind == "measurement" and job.corpus in measured:
                lasts = measured[job.corpus] * job.passes
                lasts = Fraction(ceil(lasts * 1_000_000), 1_000_000)
            elif job.seconds is not None:
                lasts = Fraction(job.seconds)
            else:
                assert job.start is not None and job.end is not None
                lasts = instant(job.end, case.zone) - instant(job.start, case.zone)
            done[job.id] = (job, start, start + lasts)
        return done[job.id]

    for job in case.jobs:
        if job.variant in (None, variant):
            place(job)
    return done


def window(case: Case, variant: str, measured: dict[str, Fraction]) -> tuple[Fraction, Fraction, bool]:
    """Seconds of the access window, instant of the last delivery, whether something overruns the last collection."""
    placed = list(calendar(case, variant, measured).values())
    begin = min(start for _, start, _ in placed)
    collections = [end for job, _, end in placed if job.kind == "collection"]
    end = max(collections) if collections else max(end for _, _, end in placed)
    late = any(start < end < stop for _, start, stop in placed)
    late = late or any(job.kind == "measurement" and stop > end for job, _, stop in placed)
    delivered = max(stop for job, _, stop in placed if job.delivery)
    return end - begin, delivered, late


# ---- rules 9, 10, 13: what it costs ---------------------------------------------------------------


def lots_needed(case: Case, key: Key) -> int:
    cards = next(price.cards for price in case.prices if price.gpu == key[0])
    return ceil(Fraction(case.devices.get(key[1], 1), cards))


def lots_rented(case: Case, key: Key) -> int:
    """More than needed where the plan says so; a plan with fewer is not available to this configuration (rule 9)."""
    return max(lots_needed(case, key), case.lots or 0)


def spans(case: Case, days: int, seconds: Fraction) -> int | None:
    """Periods of this package that are paid for, if they cover: those that the plan asks for, never more (M35)."""
    periods = 1 + case.extra_periods
    return periods if seconds <= days * 24 * HOUR * periods else None


def offers(case: Case, key: Key, seconds: Fraction) -> tuple[list[tuple[Fraction, int]], bool, bool]:
    """Offers that cover and can be had (cost, days; 0: hours); whether anything covers; whether it is priced."""
    lines = [price for price in case.prices if price.gpu == key[0] and price.amount is not None]
    lots = lots_rented(case, key)
    usable: list[tuple[Fraction, int]] = []
    covering = any(spans(case, days, seconds) for days in DAYS)
    priced = False
    for line in lines:
        if line.days is None:
            if not case.hourly:
                continue
            covering, periods = True, ceil(seconds / HOUR)
        else:
            found = spans(case, line.days, seconds)
            if found is None:
                continue
            periods = found
        priced = True
        if line.available is None or line.available >= lots:
            usable.append((Fraction(line.amount or "0") * lots * periods, line.days or 0))
    return usable, covering, priced


def unknown_lines(case: Case, gpu: str) -> dict[int, Fraction]:
    """Packages without a price and the least price of a lot (rule 10): no less than a shorter one with a price."""
    prices = {
        price.days: Fraction(price.amount)
        for price in case.prices
        if price.gpu == gpu and price.days is not None and price.amount is not None
    }
    return {
        days: max(
            (amount for shorter, amount in prices.items() if shorter < days and rising(case, gpu)),
            default=Fraction(1, 100),
        )
        for days in DAYS
        if days not in prices
    }


def rising(case: Case, gpu: str) -> bool:
    """Whether the known prices bear out that longer packages cost no less."""
    lines = sorted((p.days, Fraction(p.amount)) for p in case.prices if p.gpu == gpu and p.days and p.amount)
    amounts = [amount for _, amount in lines]
    return amounts == sorted(amounts)


def unpriced_cost(case: Case, key: Key, seconds: Fraction, prices: dict[int, Fraction]) -> Fraction | None:
    """Least cost with these prices in place of unknown ones."""
    found = [
        price * periods * lots_rented(case, key)
        for days, price in prices.items()
        if (periods := spans(case, days, seconds)) is not None
    ]
    return min(found, default=None)


# ---- rule 3: admissible ---------------------------------------------------------------------------


def look(case: Case, key: Key, pick: Callable[[list[Fraction]], Fraction]) -> Found:
    """The configuration where every measured duration is the one that `pick` takes of the accepted ones."""
    failing: list[str] = []
    gpu, variant, _ = key
    measured: dict[str, Fraction] = {}
    for corpus in case.corpora:
        times = [exact(row.seconds) for row in accepted(case, key, corpus) if row.seconds is not None]
        if times:
            measured[corpus] = pick(times)
    if any(not accepted(case, key, corpus) for corpus in case.corpora):
        failing.append("quality")
    if any(len(accepted(case, key, corpus, seed)) < case.least for corpus in case.corpora for seed in case.seeds):
        failing.append("enough passes")
    if any(
        not any(row.status == "completed" and row.corpus == corpus for row in counted(case, key))
        for corpus in case.corpora
    ):
        failing.append("completeness")
    seconds, delivered, late = window(case, variant, measured)
    own = not any(price.gpu == gpu for price in case.prices)
    cost: Fraction | None = None
    unpriced: Fraction | None = None
    if late:
        failing.append("window")
    if delivered > instant(case.deadline, case.zone):
        failing.append("deadline")
    if not own:
        usable, covering, priced = offers(case, key, seconds)
        unpriced = unpriced_cost(case, key, seconds, unknown_lines(case, gpu))
        if not covering and "window" not in failing:
            failing.append("window")
        elif covering and not usable:
            failing.append("availability" if priced and unpriced is None else "price")
        if case.lots is not None and case.lots < lots_needed(case, key):
            failing.append("too few lots planned")
        elif usable and not late:
            cost = min(usable)[0]
    price_open = cost is not None and unpriced is not None and unpriced < cost
    return Found(key, tuple(failing), seconds, delivered, cost, unpriced, own, price_open)


# ---- rules 5, 6, 7, 10, 11, 12: the choice -----------------------------------------------------------


def median(times: list[Fraction]) -> Fraction:
    ordered, half = sorted(times), len(times) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def time_taken(case: Case, key: Key) -> tuple[Fraction, Fraction]:
    """Median and range for all the work: every deliverable with every seed, each apart (M27), one after the other."""
    middle = spread = Fraction(0)
    for corpus in case.corpora:
        for seed in case.seeds:
            times = [exact(row.seconds or "0") for row in accepted(case, key, corpus, seed)]
            middle += median(times)
            spread += max(times) - min(times)
    return middle, spread


def separated_faster(case: Case, one: Key, other: Key) -> bool:
    """The gap of the medians exceeds the larger range of the two (rule 6); equal does not."""
    mine, its = time_taken(case, one), time_taken(case, other)
    return its[0] - mine[0] > max(mine[1], its[1])


def open_questions(case: Case, found: Found) -> set[str]:
    """What remains uncertain about one configuration."""
    key = found.key
    questions = set()
    if found.price_open:
        questions.add("price")
    if key[1] in case.added_later:
        questions.add("added later")
    passes = [row for corpus in case.corpora for row in accepted(case, key, corpus)]
    if any(row.shared for row in passes):
        questions.add("shared")
    for corpus in case.corpora:
        for seed in case.seeds:
            if len(accepted(case, key, corpus, seed)) < case.planned:
                questions.add("fewer than planned")
    if key[1] in case.interval_below:
        questions.add("interval")
    return questions


def break_tie(case: Case, tied: list[Found]) -> Found | None:
    if len({len(counted(case, found.key)) for found in tied}) == 1:
        fewest = min(failures(case, found.key) for found in tied)
        tied = [found for found in tied if failures(case, found.key) == fewest]
    if len(tied) == 1:
        return tied[0]
    for found in tied:
        if all(separated_faster(case, found.key, other.key) for other in tied if other is not found):
            return found
    for found in tied:
        mine = open_questions(case, found)
        if all(mine < open_questions(case, other) for other in tied if other is not found):
            return found
    return None


def cut(case: Case, key: Key) -> list[tuple[str, set[int]]]:
    return [(corpus, {row.cut for row in accepted(case, key, corpus)}) for corpus in case.corpora]


def ranked(case: Case, fit: list[Found]) -> tuple[Found | None, str]:
    """Rule 5 among admissible rentals, rule 11 among own machines."""
    if len(fit) == 1:
        return fit[0], "lone"
    if all(found.own for found in fit):
        for found in fit:
            if all(separated_faster(case, found.key, other.key) for other in fit if other is not found):
                return found, "time"
        return None, "time"
    least = min(found.cost for found in fit if found.cost is not None)
    tied = [found for found in fit if found.cost == least]
    return (tied[0], "cost") if len(tied) == 1 else (break_tie(case, tied), "tie")


def with_price(case: Case, found: Found, gpu: str, days: int) -> Found:
    """The same where this unknown package has the least price that it can have, shorter unknown ones no more than that.

    One price counts for all configurations on the GPU.
    """
    failing = tuple(name for name in found.failing if name != "price")
    if found.own or found.key[0] != gpu or failing:
        return found
    least = unknown_lines(case, gpu)[days]
    also = rising(case, gpu)
    prices = {other: least for other in unknown_lines(case, gpu) if other == days or (also and other < days)}
    cost = unpriced_cost(case, found.key, found.window, prices)
    if cost is None or (found.cost is not None and found.cost <= cost):
        return found
    return replace(found, failing=(), cost=cost, price_open=False)


def pick(case: Case, all_found: list[Found]) -> Answer:
    """The choice at one assumption about the durations, without rule 7. Rentals and own machines are never mixed."""
    unknown = [
        (gpu, days) for gpu in sorted({f.key[0] for f in all_found if not f.own}) for days in unknown_lines(case, gpu)
    ]
    worlds = [[with_price(case, found, gpu, days) for found in all_found] for gpu, days in unknown]
    could = [found for world in worlds for found in world if not found.failing and not found.own]
    fit = [found for found in all_found if not found.failing and not found.own]
    rentals = bool(fit or could)
    if not rentals:
        fit = [found for found in all_found if not found.failing]
    if not fit and not could:
        if not any(accepted(case, found.key, corpus) for found in all_found for corpus in case.corpora):
            return Answer(None, "none accepted")
        short = [found for found in all_found if "enough passes" in found.failing and "quality" not in found.failing]
        return Answer(None, "too few" if short else "none admissible")
    if any(cut(case, found.key) != cut(case, fit[0].key) for found in fit):
        return Answer(None, "other work")
    if not fit:
        return Answer(None, "unpriced")
    winner, why = ranked(case, fit)
    if winner is None:
        return Answer(None, why)
    for world in worlds if rentals else []:
        best, _ = ranked(case, [found for found in world if not found.failing and not found.own])
        if best is None or best.key != winner.key:
            return Answer(None, "unpriced")
    cheaper = winner.unpriced is not None and winner.unpriced < (winner.cost or 0)
    return Answer(winner.key, why, cheaper)


def decide(case: Case) -> Answer:
    """The choice at the largest durations; it must hold at the smallest of all, and of any single one (rule 7)."""
    large = [look(case, key, max) for key in keys(case)]
    small = [
        replace(look(case, found.key, min), price_open=found.price_open)  # a question of the balance, whatever the end
        for found in large
    ]
    answer = pick(case, large)
    if answer.chosen is None:
        return answer
    worlds = [small] + [[*large[:n], small[n], *large[n + 1 :]] for n in range(len(large))]
    if any(pick(case, world).chosen != answer.chosen for world in worlds):
        return Answer(None, "noise")
    return answer
