"""Choose documents: so many of each length band, classes in the proportions of the band (M13).

Of each class the documents with the smallest seeded rank are taken, so the choice is the same again
and does not depend on the order of the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from runner.corpus.scan import Scan
from runner.corpus.strata import Band, TooFewTexts

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Positions in the scan, in the order in which the documents are written."""

    final: Indices
    tuning: Indices


def shares(total: int, counts: Sequence[int]) -> list[int]:
    """Split `total` in the proportions of `counts` by largest remainder; no share exceeds its count."""
    everything = sum(counts)
    if not everything:
        return [0] * len(counts)
    parts = [total * count // everything for count in counts]
    order = sorted(range(len(counts)), key=lambda place: (-(total * counts[place] % everything), place))
    for place in order[: total - sum(parts)]:
        parts[place] += 1
    return parts


def choose(scan: Scan, bands: Sequence[Band], tuning_wanted: int, *, file: Path) -> Chosen:
    """Final split by the bands' numbers, then the tuning split from the rest, in the same proportions.

    A document with the text of a final one never goes into the tuning split (M5).
    """
    free = scan.band < len(bands)
    final = _pick(scan, bands, free, [band.wanted for band in bands], file)
    left = free & ~np.isin(scan.text_key, scan.text_key[final])
    wanted = shares(tuning_wanted, [band.wanted for band in bands])
    return Chosen(final, _pick(scan, bands, left, wanted, file, what="tuning "))


def _pick(
    scan: Scan, bands: Sequence[Band], free: npt.NDArray[np.bool_], wanted: Sequence[int], file: Path, what: str = ""
) -> Indices:
    available = {band.name: int(np.count_nonzero(free & (scan.band == place))) for place, band in enumerate(bands)}
    goals = [Band(band.name, band.least, band.most, number) for band, number in zip(bands, wanted, strict=True)]
    if any(available[band.name] < band.wanted for band in goals):
        raise TooFewTexts(available, goals, file=file, what=what)
    found: list[Indices] = []
    for place, goal in enumerate(goals):
        in_band = np.flatnonzero(free & (scan.band == place))
        counts = np.bincount(scan.label[in_band], minlength=len(scan.labels)).tolist()
        for label, number in enumerate(shares(goal.wanted, counts)):
            members = in_band[scan.label[in_band] == label]
            found.append(_in_rank_order(scan, members)[:number])
    return _in_rank_order(scan, np.concatenate(found))


def _in_rank_order(scan: Scan, places: Indices) -> Indices:
    """By rank; equal ranks (one in 2**64) by place."""
    return places[np.lexsort((places, scan.rank[places]))]
