"""Configurations compared in pairs on the same documents (McNemar): information, no criterion (M29)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from runner.note.evidence import Evidence
from runner.note.words import Speaker

MOST_ROWS = 12
_PLACES = 3
_SMALLEST = Decimal("0.001")


def paired(evidence: Evidence, speaker: Speaker) -> dict[str, Any]:
    """Pairs that are right on different documents, those that differ most first; `compared`: there are pairs at all."""
    fmt = speaker.fmt
    mine = [item for item in evidence.paired if item.lock_sha256 == evidence.lock.lock_sha256]
    tests = [(item.corpus_id, test) for item in mine for test in item.tests]
    different = [(name, test) for name, test in tests if test.only_first_right or test.only_second_right]
    different.sort(key=lambda entry: -(entry[1].only_first_right + entry[1].only_second_right))
    rows = [
        {
            "first": test.first,
            "second": test.second,
            "corpus": name,
            "seed": str(test.seed),
            "only_first": fmt.integer(test.only_first_right),
            "only_second": fmt.integer(test.only_second_right),
            "p": f"< {fmt.plain(_SMALLEST)}"
            if Decimal(test.p_value) < _SMALLEST
            else fmt.decimal(test.p_value, _PLACES),
        }
        for name, test in different[:MOST_ROWS]
    ]
    return {"rows": rows, "compared": bool(tests)}
