"""Random small worlds at the boundaries: packages hit to the second, changes of the clocks, ties, gaps, sold out."""

from __future__ import annotations

import random

from tests.oracle.choosing import Case, Job, Price, Row

STARTS = (
    ("Europe/Berlin", "2026-10-23T09:00"),  # summer time ends on the 25th
    ("Europe/Berlin", "2027-03-26T22:00"),  # and begins on the 28th
    ("America/New_York", "2026-10-31T12:00"),  # ends on 1 November
    ("America/New_York", "2027-03-13T00:30"),  # begins on 14 March
    ("Australia/Lord_Howe", "2026-10-03T10:00"),  # by half an hour, on the 4th
    ("UTC", "2026-12-01T09:00"),
)
AMOUNTS = ("100.00", "200.00", "200.00", "300.00", "300.01", "450.00")


def _later(start: str, days: int, clock: str) -> str:
    from datetime import date, timedelta

    return f"{date.fromisoformat(start[:10]) + timedelta(days=days)}T{clock}"


def _jobs(rng: random.Random, corpora: tuple[str, ...], variants: list[str], start: str) -> tuple[Job, ...]:
    jobs = [Job("prepare", "preparation", start=start, seconds=rng.choice((3600, 7200)))]
    last: tuple[str, ...] = ("prepare",)
    if rng.random() < 0.3:
        jobs.append(Job("own", "check", seconds=3600, after=last, variant=rng.choice(variants)))
        last = ("own",)
    measures: list[str] = []
    for corpus in corpora:
        after = last if rng.random() < 0.5 or not measures else (measures[-1],)
        jobs.append(
            Job(f"m-{corpus}", "measurement", seconds=36000, after=after, corpus=corpus, passes=rng.choice((1, 1, 2)))
        )
        measures.append(f"m-{corpus}")
    last = tuple(measures)
    if rng.random() < 0.3:
        jobs.append(Job("repeat", "retry", seconds=3600, after=last, variant=rng.choice((None, variants[-1]))))
        last = ("repeat",)
    if rng.random() < 0.3:
        jobs.append(Job("read", "wait", seconds=rng.choice((3600, 70000)), after=last))
        last = ("read",)
    away = rng.random() < 0.5
    if rng.random() < 0.4:
        days = rng.choice((3, 3, 7))
        jobs.append(
            Job(
                "collect",
                "collection",
                start=_later(start, days, "08:00"),
                end=_later(start, days, "09:00"),
                after=last,
            )
        )
    else:
        jobs.append(Job("collect", "collection", seconds=3600, after=last, delivery=not away))
    if away or jobs[-1].start is not None:
        jobs.append(Job("deliver", "export", seconds=1800, after=("collect",), delivery=True))
    return tuple(jobs)


def _prices(rng: random.Random, gpu: str, hourly: bool) -> list[Price]:
    cards = rng.choice((1, 1, 2))
    lines = []
    amounts = sorted(rng.choice(AMOUNTS) for _ in range(3))
    if rng.random() < 0.1:
        amounts.reverse()  # longer ones may be cheaper: then nothing is taken for granted
    for days, amount in zip((3, 7, 30), amounts, strict=True):
        if rng.random() < 0.6:
            lines.append(Price(gpu, days, amount, cards, rng.choice((None, None, None, 0, 1, 2))))
    if hourly and rng.random() < 0.6:
        lines.append(Price(gpu, None, rng.choice(("2.00", "4.1700", "2.8000")), cards, rng.choice((None, None, 1))))
    return lines or [Price(gpu, None, None, cards)]


def _seconds(rng: random.Random, kind: str) -> list[str]:
    """Durations of one configuration: narrow, wide, around a package, around the deadline."""
    base = {
        "short": rng.choice((100, 101, 103, 80, 97, 110)),
        "package": rng.choice((250_200, 251_999, 252_000, 252_001, 244_800, 248_400, 255_600, 126_000)),
        "week": rng.choice((597_600, 590_400, 601_200, 604_800)),
    }[kind]
    steps = rng.choice(((0,), (0, 1), (0, 1, 2, 3), (0, 0.5, 2.25), (0, 3600), (-3600, 0, 3600), (0.1, 0.2, 0.7)))
    return [str(max(base, 3600) + rng.choice(steps) if min(steps) < 0 else base + rng.choice(steps)) for _ in range(6)]


def case(seed: int) -> Case:
    rng = random.Random(seed)
    zone, start = rng.choice(STARTS)
    corpora = ("final",) if rng.random() < 0.7 else ("final", "second")
    seeds = (0,) if rng.random() < 0.85 else (0, 7)
    variants = ["b1", "b4", "b8"][: rng.randint(1, 3)]
    gpus = rng.choice((("A",), ("A", "B"), ("A", "B"), ("A", "B", "C"), ("cpu",), ("A", "cpu")))
    hourly = rng.random() < 0.25
    least, planned = rng.choice(((2, 2), (2, 3), (3, 3)))
    kind = rng.choice(("short", "package", "package", "week"))
    rows: list[Row] = []
    odd = rng.random() < 0.15
    for gpu in gpus:
        for variant in variants:
            if rng.random() < 0.12:
                continue
            stack, cut = rng.choice(("one", "one", "two")), rng.choice((0, 3))
            for corpus in corpora:
                for number in seeds:
                    times = _seconds(rng, kind)
                    passes = planned if rng.random() < 0.92 else rng.randint(0, planned + 1)
                    for index in range(passes):
                        rows += _slot(rng, Row(gpu, variant, seconds=times[index], corpus=corpus, seed=number,
                                               pass_index=index, stack=stack,
                                               cut=cut if odd else 0))  # fmt: skip
    if not rows:
        rows.append(Row(gpus[0], "b1", "failed"))
    return Case(
        zone=zone,
        deadline=_deadline(rng, start),
        jobs=_jobs(rng, corpora, variants, start),
        prices=tuple(line for gpu in (*gpus, "Z") if gpu != "cpu" for line in _prices(rng, gpu, hourly)),
        rows=tuple(rows),
        devices={name: rng.choice((1, 1, 1, 2, 3)) for name in variants},
        added_later=tuple(name for name in variants if rng.random() < 0.1),
        corpora=corpora,
        seeds=seeds,
        planned=planned,
        least=least,
        lots=rng.choice((None, None, None, 2)),
        extra_periods=rng.choice((0, 0, 0, 0, 1)),
        hourly=hourly,
    )


def _deadline(rng: random.Random, start: str) -> str:
    """Mostly far away; sometimes between the smallest and the largest durations."""
    if rng.random() < 0.7:
        return _later(start, 40, "09:00")
    return _later(start, *rng.choice(((3, "09:00"), (3, "10:00"), (7, "12:00"), (2, "08:30"))))


def _slot(rng: random.Random, row: Row) -> list[Row]:
    """The row, or what became of it: failed, rejected, excluded, run again after Ctrl-C."""
    from dataclasses import replace

    kind = rng.random()
    if kind < 0.93:
        return [row]
    if kind < 0.95:
        status = rng.choice(("failed", "out_of_memory", "killed", "timed_out", "lost", "started"))
        return [replace(row, status=status, accepted=False, seconds=None)]
    if kind < 0.96:
        return [replace(row, accepted=False)]
    if kind < 0.97:
        return [replace(row, excluded=True)]
    if kind < 0.99:
        status = rng.choice(("interrupted", "unavailable", "unsupported"))
        return [replace(row, status=status, accepted=False, seconds=None), row]
    return [replace(row, status="failed", accepted=False, seconds=None), row]
