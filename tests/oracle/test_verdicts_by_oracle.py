"""Random prediction files through the real judge, against rules 1 and 2 written again (M2, M28, M29, QU-*)."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from runner.judge.campaign import judge_rows
from runner.protocol.freeze import freeze
from tests.oracle.judging import Document, Group, Rules, Surd, judge, value
from tests.support.small_campaign import make_attempt, make_campaign, write_predictions

METRICS = ("accuracy", "balanced_accuracy", "macro_f1", "weighted_f1", "mcc", "quadratic_kappa")
ATTEMPTS = 24
PROTOCOL = """\
schema_version = "protocol/1"

[question]
name = "oracle"
revision = 1
text = "Which batch size costs least?"
scenario = "offline"

[[corpus]]
id = "small-final"
final = "corpus/final.csv"
group_columns = ["stratum"]

[model]
source = "model"
max_length = 128

[quality]
metric = "{metric}"
threshold = "{threshold}"
max_drop = "{max_drop}"
min_agreement = "{min_agreement}"
{flips}
{groups}
[[series]]
name = "batch"
variable = "batch_size"
values = [1, 4]
"""


def _decimal(found: Fraction) -> str | None:
    """As a decimal in quotes, where it is one of at most 12 places."""
    scaled = found * 10**12
    if scaled.denominator != 1:
        return None
    text = f"{abs(scaled.numerator):013d}"
    return ("-" if found < 0 else "") + text[:-12] + "." + text[-12:]


def _spoil(rng: random.Random, labels: list[str], table: tuple[str, ...], most: int) -> list[str]:
    said = list(labels)
    for place in rng.sample(range(len(said)), rng.randint(0, min(most, len(said)))):
        said[place] = rng.choice(table)
    return said


def _documents(rng: random.Random, table: tuple[str, ...]) -> list[Document]:
    """Ten to twenty documents; sometimes a class is in no label, sometimes the baseline never says one."""
    count = rng.choice((10, 20))
    present = table if rng.random() < 0.8 else table[:-1]
    labels = [rng.choice(present) for _ in range(count)]
    baseline = _spoil(rng, labels, table, 4)
    groups = [rng.choice(("short", "long")) for _ in range(count)]
    groups[0], groups[1] = "short", "long"
    return [Document(f"d{n:02d}", labels[n], groups[n], baseline[n]) for n in range(count)]


def _boundary(rng: random.Random, metric: str, documents: list[Document], table: tuple[str, ...]) -> list[str]:
    """Limits at which random predictions of this world lie exactly, where these are decimals."""
    limits = []
    for _ in range(60):
        said = _spoil(rng, [document.label for document in documents], table, 5)
        found = value(metric, [(d.label, s) for d, s in zip(documents, said, strict=True)], table)
        if isinstance(found, Surd):
            continue
        text = None if found is None else _decimal(found)
        if text is not None and 0 < Fraction(text) < 1:
            limits.append(text)
    return limits or ["0.5"]


def _rules(rng: random.Random, documents: list[Document], table: tuple[str, ...]) -> Rules:
    metric = rng.choice(METRICS)
    base = value(metric, [(d.label, d.baseline) for d in documents], table)
    limits = _boundary(rng, metric, documents, table)
    drops = ["0.1", "0.05", "0"]
    if isinstance(base, Fraction):
        drops += [text for limit in limits if (text := _decimal(base - Fraction(limit))) and 0 <= Fraction(text) < 1]
    groups = tuple(
        Group(name, rng.choice((*limits, "0.5", "0.25")), rng.choice((None, "accuracy", "balanced_accuracy")))
        for name in ("short", "long")
        if rng.random() < 0.6
    )
    return Rules(
        metric,
        rng.choice((rng.choice(limits), "0.2", "0.4")),
        rng.choice(drops),
        rng.choice(("0.8", "0.75", "0.7", "0.9", "0.5", "0")),
        rng.choice((None, None, 2, 4)),
        groups,
    )


def _rows(rng: random.Random, documents: list[Document], table: tuple[str, ...]) -> list[tuple[str, str, float | None]]:
    said = _spoil(rng, [rng.choice((d.label, d.baseline)) for d in documents], table, rng.choice((0, 1, 2, 3, 6)))
    rows: list[tuple[str, str, float | None]] = [
        (d.id, label, rng.choice((0.0, 0.5, 1.0, 0.9))) for d, label in zip(documents, said, strict=True)
    ]
    rng.shuffle(rows)
    for damage in rng.choices(("", "drop", "twice", "swap", "extra", "label", "score"), (9, 1, 1, 1, 1, 1, 1), k=1):
        place = rng.randrange(len(rows))
        if damage == "drop":
            del rows[place]
        elif damage == "twice":
            rows.append(rows[place])
        elif damage == "swap":
            rows[place] = (rows[place - 1][0], *rows[place][1:])
        elif damage == "extra":
            rows[place] = (rng.choice((" d00", "D00", "x", "d0")), *rows[place][1:])
        elif damage == "label":
            rows[place] = (rows[place][0], rng.choice((" a", "A", "", "z")), rows[place][2])
        elif damage == "score":
            wrong = rng.choice((1.0000001, -0.1, float("nan"), float("inf"), -1e-300, None))
            rows[place] = (rows[place][0], rows[place][1], wrong)
    return rows


def _protocol(rules: Rules) -> str:
    groups = "".join(
        f'[[quality.subgroup]]\ncolumn = "stratum"\nvalue = "{group.value}"\nminimum = "{group.minimum}"\n'
        + (f'metric = "{group.metric}"\n' if group.metric else "")
        for group in rules.groups
    )
    flips = "" if rules.max_flips is None else f"max_flips = {rules.max_flips}"
    return PROTOCOL.format(
        metric=rules.metric,
        threshold=rules.threshold,
        max_drop=rules.max_drop,
        min_agreement=rules.min_agreement,
        flips=flips,
        groups=groups,
    )


def compare(seed: int, root: Path) -> tuple[Counter[str], list[str]]:
    """One frozen world with its random prediction files: what refused them, and every difference."""
    rng = random.Random(seed)
    table = ("a", "b", "c")[: rng.choice((2, 3, 3))]
    documents = _documents(rng, table)
    rules = _rules(rng, documents, table)
    campaign = make_campaign(
        root,
        rows=[(d.id, f"text of {d.id}", d.label, d.group) for d in documents],
        labels={str(index): name for index, name in enumerate(table)},
        protocol=_protocol(rules),
        baseline=[(d.id, d.baseline) for d in documents],
    )
    lock = freeze(campaign)
    files, attempts = [], []
    for number in range(ATTEMPTS):
        rows = _rows(rng, documents, table)
        path = write_predictions(campaign.predictions / f"a{number:03d}.parquet", rows)
        attempts.append(make_attempt(campaign, lock, path, number=number))
        files.append(rows)
    counts: Counter[str] = Counter()
    differences = []
    for rows, verdict in zip(files, judge_rows(campaign, lock, attempts).verdicts, strict=True):
        expected = judge(documents, rows, table, rules)
        refusing = (check.name for check in verdict.checks if check.status in ("failed", "not assessable"))
        first = next((name.split()[0] for name in refusing), None)
        counts[str(expected)] += 1
        if (first, verdict.accepted) != (expected, expected is None):
            differences.append(f"seed {seed}, {verdict.attempt_id}: {expected} expected, {first} found; {rules}")
    return counts, differences


@pytest.mark.parametrize("block", range(4))
def test_rules_1_and_2_the_judge_agrees_with_the_text_on_random_predictions(block: int, tmp_path: Path) -> None:
    """Rules 1, 2, 14, M28, M29, QU-01, QU-03, QU-04, QU-07: verdict and first reason, limits hit exactly."""
    total: Counter[str] = Counter()
    for seed in range(block * 12, block * 12 + 12):
        counts, differences = compare(seed, tmp_path / str(seed))
        assert not differences, "\n".join(differences)
        total += counts
    assert min(total[name] for name in ("None", "ids", "labels", "scores", "metric")) > 0, "every kind was met"
