"""One split of a built corpus: its documents read from the source again, written, and read back."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from runner.corpus.sample import Indices
from runner.corpus.scan import OUTSIDE, Scan
from runner.corpus.source import Item, Source
from runner.corpus.strata import OUTSIDE_NAME, Band
from runner.corpus.table import iter_rows
from runner.corpus.write import csv_line
from runner.errors import InputRefused
from runner.evidence.canonical import records_sha256, sha256_file


@dataclass(frozen=True, slots=True)
class Split:
    """Documents of one split: which of a source's scan, in which order they are written."""

    name: str
    source: Source
    scan: Scan
    places: Indices

    def __len__(self) -> int:
        return len(self.places)

    @property
    def columns(self) -> tuple[str, ...]:
        return ("id", "text", "label", "stratum", *self.source.group_columns)

    def available(self, bands: Sequence[Band]) -> dict[str, int]:
        """Documents of the source by length band, chosen or not; those in no band under `OUTSIDE_NAME`."""
        names = [(number, band.name) for number, band in enumerate(bands)] + [(OUTSIDE, OUTSIDE_NAME)]
        return {name: int(np.count_nonzero(self.scan.band == number)) for number, name in names}

    def items(self, places: Indices | None = None) -> Iterator[tuple[int, Item]]:
        """(place in the scan, record) of all or some documents, in the order of the source."""
        wanted = np.sort(self.places if places is None else places)
        numbers = self.scan.number[wanted]
        at = 0
        for number, item in enumerate(self.source.items(lambda text: None)):
            if at == len(numbers):
                return
            if number == numbers[at]:
                yield int(wanted[at]), item
                at += 1
        if at < len(numbers):
            raise source_changed(self.source)

    def rows(self, bands: Sequence[Band]) -> Iterator[tuple[str, ...]]:
        """Cells of `columns`. Rows of a sample are held in memory, those of a whole source are not."""
        if np.array_equal(self.places, np.sort(self.places)):
            yield from (self._row(place, item, bands) for place, item in self.items())
            return
        by_place = {place: self._row(place, item, bands) for place, item in self.items()}
        yield from (by_place[place] for place in self.places.tolist())

    def _row(self, place: int, item: Item, bands: Sequence[Band]) -> tuple[str, ...]:
        band = int(self.scan.band[place])
        stratum = OUTSIDE_NAME if band == OUTSIDE else bands[band].name
        return (item.id or "", item.text or "", item.label or "", stratum, *item.groups)


def source_changed(source: Source) -> InputRefused:
    """The second reading found something else than the first."""
    return InputRefused("the source changed while it was read", file=source.path, next_step="run the command again")


def write_split(split: Split, bands: Sequence[Band], folder: Path) -> dict[str, Any]:
    """Write `<name>.csv`, read it back, and give its fingerprints."""
    file = folder / f"{split.name}.csv"
    with file.open("w", encoding="utf-8", newline="") as stream:
        stream.write(csv_line(split.columns))

        def written() -> Iterator[tuple[str, ...]]:
            for row in split.rows(bands):
                stream.write(csv_line(row))
                yield row

        records = _fingerprint(split.columns, written())
        stream.flush()
        os.fsync(stream.fileno())
    if _fingerprint(split.columns, _read_back(file, split.columns)) != records:
        raise AssertionError(f"{file} does not read back as it was written")
    return {"file": file.name, "bytes_sha256": sha256_file(file), "records_sha256": records}


def write_labels(folder: Path) -> None:
    """The right answers of the final split alone, for whoever may not have the texts."""
    columns = ("id", "label", "stratum")
    with (folder / "labels.csv").open("w", encoding="utf-8", newline="") as stream:
        stream.write(csv_line(columns))
        stream.writelines(map(csv_line, _read_back(folder / "final.csv", columns)))


def texts_of(split: Split, folder: Path) -> list[tuple[str, str]]:
    """(id, text) of a written split."""
    return [(name, text) for name, text in _read_back(folder / f"{split.name}.csv", ("id", "text"))]


def _fingerprint(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """As `read_corpus` takes it: names of the columns, then the records."""

    def records() -> Iterator[tuple[str, ...]]:
        yield columns
        yield from rows

    return records_sha256(records())


def _read_back(file: Path, columns: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for row in iter_rows(file, columns):
        yield tuple(cell or "" for cell in row.values)
