"""Golden vectors of the price: questions with the answers that command, script and page must all give.

`python -m tests.pricing.golden` writes `golden_prices.json` again; look at the difference before committing it.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

from runner.pricing import core

HERE = Path(__file__).resolve().parent
TARIFFS = HERE / "golden_tariffs.csv"
VECTORS = HERE / "golden_prices.json"
GPUS = ("plain", "pair", "level", "falling", "unpriced")
LOTS = ("1", "2", "7", "999")
ASKED: tuple[tuple[str | None, str | None], ...] = (
    ("3", None),
    ("7", None),
    ("30", None),
    (None, "72"),
    (None, "72:00:01"),
    ("7", "96.5"),
    (None, "168"),
    (None, "719.999999"),
    (None, "721"),
    (None, "0"),
)
ACCEPTED = (None, "0", "1", "3", "8")


def questions() -> list[dict[str, str | None]]:
    """A few hundred combinations: every package, both sides of every limit, none to many accepted results."""
    return [
        {"gpu": gpu, "lots": lots, "days": days, "window_hours": hours, "accepted": accepted}
        for gpu, lots, (days, hours), accepted in product(GPUS, LOTS, ASKED, ACCEPTED)
        if lots == "2" or accepted in (None, "3")
    ]


def answer(question: dict[str, str | None]) -> dict[str, Any]:
    """What the command says to a question."""
    days, hours, accepted = question["days"], question["window_hours"], question["accepted"]
    assert question["gpu"] is not None and question["lots"] is not None
    try:
        found = core.quote(
            core.read_catalogue(TARIFFS),
            question["gpu"],
            core.parse_count(question["lots"], "lots", 1),
            days=None if days is None else int(days),
            window_seconds=None if hours is None else core.parse_hours(hours),
            accepted=None if accepted is None else int(accepted),
        )
    except core.PriceError:
        return {"refused": True}
    lines = core.quote_lines(found)
    return {
        "refused": False,
        "headline": lines[0],
        "per_corpus": core.per_corpus_text(found),
        "cheaper": next((line for line in lines if line.startswith("It may be cheaper")), ""),
        "by_hour": next((line for line in lines if line.startswith("By the hour")), ""),
        "packages": [list(core.line_cells(line)) for line in found.lines],
    }


def vectors() -> list[dict[str, Any]]:
    return [{"question": question, "answer": answer(question)} for question in questions()]


def stored() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(VECTORS.read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    rows = ",\n".join(json.dumps(vector, sort_keys=True) for vector in vectors())
    VECTORS.write_text(f"[\n{rows}\n]\n", encoding="utf-8")
