"""What is wrong with a corpus, collected so that one run shows all of it, in bounded memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from runner.corpus.identity import LISTED, IdentityCheck
from runner.errors import InputRefused, show_value

Kind = Literal["the id is empty", "the label is empty", "no text"]
_COUNTED: dict[Kind, tuple[str, str]] = {
    "the id is empty": ("empty id", "empty ids"),
    "the label is empty": ("empty label", "empty labels"),
    "no text": ("document without text", "documents without text"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault: `place` is `line 3` or, in a folder, `part.csv:3`; `id` if the document has one."""

    place: str
    line: int
    column: str
    value: str
    kind: Kind
    id: str | None = None

    def __str__(self) -> str:
        who = "" if self.id is None else f"id {show_value(self.id)}, "
        return f"{self.place}, {who}column {self.column}: {self.kind}"


@dataclass
class Findings:
    """Faults in the order they were met; the first ones are kept, all are counted."""

    first: list[Finding] = field(default_factory=list)
    counts: Counter[Kind] = field(default_factory=Counter)

    def add(self, finding: Finding) -> None:
        self.counts[finding.kind] += 1
        if len(self.first) < LISTED:
            self.first.append(finding)

    def refuse(self, path: Path, id_column: str, identity: IdentityCheck) -> None:
        """Raise if anything was found: ids first, since nothing can be told apart without them."""
        clashes = identity.clashes
        if not clashes and not self.counts:
            return
        details = tuple([*map(str, clashes), *map(str, self.first)][:LISTED])
        more = identity.duplicates + identity.twins + self.counts.total() - len(details)
        first = self.first[0] if not clashes else None
        raise InputRefused(
            "the corpus was refused: " + ", ".join([*_count_clashes(identity), *self._count()]),
            file=path,
            line=first.line if first else None,
            column=first.column if first else id_column,
            value=first.value if first else clashes[0].second,
            details=(*details, f"and {more} more") if more else details,
            next_step=self._next(bool(clashes)),
        )

    def _next(self, clashes: bool) -> str:
        if not clashes and set(self.counts) == {"no text"}:
            return (
                "leave them out with runner corpus --skip-empty or make corpus SKIP_EMPTY=1 (they are counted), "
                "keep them with --allow-empty-texts, or in the protocol allow_empty_texts = true"
            )
        if self.counts["no text"]:
            return (
                "correct these records (those without text: runner corpus --skip-empty, make corpus SKIP_EMPTY=1); "
                "ids are never trimmed, folded or dropped for you"
            )
        return "correct these records; ids are never trimmed, folded or dropped for you"

    def _count(self) -> list[str]:
        return [f"{count} {_COUNTED[kind][count > 1]}" for kind, count in self.counts.items()]


def _count_clashes(identity: IdentityCheck) -> list[str]:
    doubles, twins = identity.duplicates, identity.twins
    found = [f"{doubles} duplicate id" + "s" * (doubles > 1)] if doubles else []
    return found + ([f"{twins} confusable pair" + "s" * (twins > 1) + " of ids"] if twins else [])
