"""Documents with one text and several labels: nobody can be right about all of them. Listed, never removed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from runner.corpus.splits import Split
from runner.corpus.write import csv_line

FILE = "contradictions.csv"
_COLUMNS = ("group", "id", "label", "place", "source", "split")


def write_contradictions(splits: Sequence[Split], folder: Path) -> int:
    """Write `contradictions.csv` if there is anything to list, and say how many documents it lists.

    One line per document, those of one text together under one group number. `place`: where it stands in the source;
    `split`: where it was taken to, empty if it was not. Texts are not in it. Splits of one source share its lines.
    """
    lines: list[tuple[str, ...]] = []
    groups = 0
    for first in {id(split.scan): split for split in splits}.values():
        places, numbers = first.scan.contradicting()
        group_of = dict(zip(places.tolist(), numbers.tolist(), strict=True))
        taken = {
            place: split.name for split in splits if split.scan is first.scan for place in split.places.tolist()
        }  # fmt: skip
        found = [
            (group_of[place], place, item.id or "", item.label or "", item.place)
            for place, item in (first.items(places) if group_of else ())
        ]
        lines += [
            (str(groups + group + 1), name, label, where, first.source.path.name, taken.get(place, ""))
            for group, place, name, label, where in sorted(found)
        ]
        groups += len(set(group_of.values()))
    if lines:
        with (folder / FILE).open("w", encoding="utf-8", newline="") as stream:
            stream.writelines(map(csv_line, (_COLUMNS, *lines)))
    return len(lines)
