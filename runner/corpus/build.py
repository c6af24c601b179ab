"""Build a corpus from the user's own data: both splits, right answers, fingerprints, data sheet (M13).

The source is read twice and never held in memory; only the chosen documents are. Everything is
written into a folder of its own that appears whole or not at all.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from runner.corpus import sheet
from runner.corpus.overlap import find_overlap, refuse_overlap
from runner.corpus.read import Document
from runner.corpus.sample import Indices, choose
from runner.corpus.scan import OUTSIDE, Rules, Scan, rank_of, scan
from runner.corpus.similar import MOST_DOCUMENTS, similarity_facts
from runner.corpus.source import Item, Source
from runner.corpus.strata import OUTSIDE_NAME, Band, TokenCounter, check_bands
from runner.corpus.table import iter_rows
from runner.corpus.write import csv_line
from runner.errors import InputRefused
from runner.evidence.canonical import content_sha256, pretty_json, records_sha256, sha256_file
from runner.evidence.files import write_atomic

_OWN_FILES = {"README.md", "corpus.json", "final.csv", "tuning.csv", "labels.csv", "lengths.svg"}


@dataclass(frozen=True, slots=True)
class Order:
    """What to build. `everything`: the whole source becomes the final split, nothing is sampled.

    The tuning split is either the whole of `tuning_source`, or `tuning_wanted` documents of the source.
    """

    name: str
    out: Path
    source: Source
    counter: TokenCounter
    bands: tuple[Band, ...]
    seed: int = 0
    everything: bool = False
    tuning_wanted: int = 0
    tuning_source: Source | None = None
    rules: Rules = field(default_factory=Rules)
    licence: str = ""
    permission: str = ""
    replace: bool = False
    progress: Callable[[int], None] = lambda documents: None


@dataclass(frozen=True, slots=True)
class Split:
    """Documents of one split: which of a source's scan, in which order."""

    source: Source
    scan: Scan
    places: Indices


@dataclass(frozen=True, slots=True)
class Built:
    """What was written, and what `corpus.json` says about it."""

    folder: Path
    facts: dict[str, Any]


def build(order: Order) -> Built:
    """Refused with exit 2 and nothing written: M5, M7, too few texts, an existing folder."""
    check_bands(order.bands)
    _refuse_existing(order)
    final, tuning = _splits(order)
    with _staged(order.out) as folder:
        facts = _write(order, final, tuning, folder)
    return Built(order.out, facts)


@contextmanager
def _staged(out: Path) -> Iterator[Path]:
    """A hidden folder beside `out` that takes its place at the end; after a failure nothing is left."""
    staging = out.parent / f".{out.name}.{os.getpid()}.tmp"
    new_parents = [parent for parent in staging.parents if not parent.exists()]
    try:
        staging.mkdir(parents=True)
        yield staging
        if out.exists():
            shutil.rmtree(out)
        staging.rename(out)
    except BaseException as error:
        shutil.rmtree(staging, ignore_errors=True)
        for parent in new_parents:
            with suppress(OSError):
                parent.rmdir()
        if isinstance(error, OSError):
            raise InputRefused(f"cannot be written: {error.strerror}", file=out) from None
        raise


def _refuse_existing(order: Order) -> None:
    """A folder is only replaced if asked for, and only one that the builder wrote."""
    if not order.out.exists():
        return
    if not order.replace:
        raise InputRefused("the folder is there already", file=order.out,
                           next_step="name another one (--out), or say --replace")
    if not order.out.is_dir() or not {item.name for item in order.out.iterdir()} <= _OWN_FILES:
        raise InputRefused("the folder holds more than a built corpus and is not replaced", file=order.out)


def _splits(order: Order) -> tuple[Split, Split | None]:
    found = scan(order.source, order.counter, order.bands, order.seed, order.rules, order.progress)
    if order.everything:
        chosen, rest = np.arange(len(found)), np.arange(0)
    else:
        picked = choose(found, order.bands, order.tuning_wanted, file=order.source.path)
        chosen, rest = picked.final, picked.tuning
    final = Split(order.source, found, chosen)
    if order.tuning_source is None:
        return final, Split(order.source, found, rest) if len(rest) else None
    other = scan(order.tuning_source, order.counter, order.bands, order.seed, order.rules, order.progress)
    tuning = Split(order.tuning_source, other, np.arange(len(other)))
    _refuse_shared(final, tuning)
    return final, tuning


def _refuse_shared(final: Split, tuning: Split) -> None:
    """Exact comparison (M5) of the documents whose id or text keys stand in both splits."""
    ids = np.intersect1d(final.scan.id_key[final.places], tuning.scan.id_key[tuning.places])
    texts = np.intersect1d(final.scan.text_key[final.places], tuning.scan.text_key[tuning.places])
    if not len(ids) and not len(texts):
        return

    def suspects(split: Split) -> Iterator[Document]:
        keep = np.isin(split.scan.id_key, ids) | np.isin(split.scan.text_key, texts)
        for _, item in _items(Split(split.source, split.scan, split.places[keep[split.places]])):
            yield Document(item.id or "", item.text or "", item.label, (), item.line)

    refuse_overlap(find_overlap(suspects(tuning), tuple(suspects(final))), file=final.source.path)


def _items(split: Split) -> Iterator[tuple[int, Item]]:
    """(place in the scan, record) of the split's documents, in the order of the source."""
    wanted = np.sort(split.places)
    numbers = split.scan.number[wanted]
    at = 0
    for number, item in enumerate(split.source.items(lambda text: None)):
        if at == len(numbers):
            return
        if number == numbers[at]:
            yield int(wanted[at]), item
            at += 1
    if at < len(numbers):
        raise _changed(split.source)


def _changed(source: Source) -> InputRefused:
    return InputRefused("the source changed while it was read", file=source.path, next_step="run the command again")


def _write(order: Order, final: Split, tuning: Split | None, folder: Path) -> dict[str, Any]:
    source_sha256 = order.source.fingerprint()
    written = {"final": _write_split(order, final, folder / "final.csv", in_source_order=order.everything)}
    if tuning is not None:
        in_order = order.tuning_source is not None
        written["tuning"] = _write_split(order, tuning, folder / "tuning.csv", in_source_order=in_order)
    _write_labels(folder)
    facts: dict[str, Any] = {
        "schema_version": "corpus-build/1",
        "name": order.name,
        "licence": order.licence,
        "permission": order.permission,
        "seed": order.seed,
        "everything": order.everything,
        "bands": [
            {"name": band.name, "least_tokens": band.least, "most_tokens": band.most, "wanted": band.wanted}
            for band in order.bands
        ],
        "tokenizer": dict(order.counter.fingerprint),
        "source": _source_facts(order.source, source_sha256, final.scan),
        "splits": {name: split | sheet.split_facts(*parts) for name, split, parts in (
            ("final", written["final"], (final.scan, final.places, order.bands)),
            *((("tuning", written["tuning"], (tuning.scan, tuning.places, order.bands)),) if tuning else ()),
        )},
        "near_duplicates": _similarity(folder, final, tuning),
        "notes": list(final.scan.notes),
    }
    if tuning is not None and order.tuning_source is not None:
        facts["tuning_source"] = _source_facts(order.tuning_source, order.tuning_source.fingerprint(), tuning.scan)
    facts["build_sha256"] = content_sha256(
        {key: facts[key] for key in ("bands", "tokenizer", "seed", "everything")}
        | {name: split["records_sha256"] for name, split in facts["splits"].items()}
    )
    write_atomic(folder / "corpus.json", pretty_json(facts))
    write_atomic(folder / "lengths.svg", sheet.lengths_svg(facts).encode("utf-8"))
    write_atomic(folder / "README.md", sheet.data_sheet(facts).encode("utf-8"))
    return facts


def _source_facts(source: Source, sha256: str, found: Scan) -> dict[str, Any]:
    repeated, contradicting = found.repeated_texts()
    return {
        "file": source.path.name,
        "sha256": sha256,
        "documents": len(found),
        "repeated_texts": repeated,
        "repeated_texts_with_other_labels": contradicting,
        "outside_all_bands": int(np.count_nonzero(found.band == OUTSIDE)),
        "left_out_empty": found.empty_texts,
        "left_out_labels": dict(sorted(found.skipped_labels.items())),
    }


def _write_split(order: Order, split: Split, file: Path, *, in_source_order: bool) -> dict[str, Any]:
    """Write one split, read it again, and give its fingerprints. Columns: id, text, label, stratum, groups."""
    columns = ("id", "text", "label", "stratum", *split.source.group_columns)
    rows: Iterable[tuple[str, ...]] = _rows(order, split)
    if not in_source_order:
        by_place = dict(zip(np.sort(split.places).tolist(), rows, strict=True))
        rows = (by_place[place] for place in split.places.tolist())
    with file.open("w", encoding="utf-8", newline="") as stream:
        stream.write(csv_line(columns))

        def written() -> Iterator[tuple[str, ...]]:
            yield columns
            for row in rows:
                stream.write(csv_line(row))
                yield row

        records = records_sha256(written())
        stream.flush()
        os.fsync(stream.fileno())
    again = records_sha256(_read_again(file, columns))
    if again != records:
        raise AssertionError(f"{file} does not read back as it was written")
    return {"file": file.name, "bytes_sha256": sha256_file(file), "records_sha256": records}


def _read_again(file: Path, columns: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield columns
    for row in iter_rows(file, columns):
        yield tuple(cell or "" for cell in row.values)


def _rows(order: Order, split: Split) -> Iterator[tuple[str, ...]]:
    bands = split.scan.band
    for place, item in _items(split):
        name, label = item.id or "", item.label or ""
        if rank_of(name, order.seed) != int(split.scan.rank[place]):
            raise _changed(split.source)
        stratum = OUTSIDE_NAME if bands[place] == OUTSIDE else order.bands[bands[place]].name
        yield (name, item.text or "", label, stratum, *item.groups)


def _write_labels(folder: Path) -> None:
    """The right answers of the final split alone, for whoever may not have the texts."""
    with (folder / "labels.csv").open("w", encoding="utf-8", newline="") as stream:
        stream.write(csv_line(("id", "label", "stratum")))
        for row in iter_rows(folder / "final.csv", ("id", "label", "stratum")):
            stream.write(csv_line(cell or "" for cell in row.values))


def _similarity(folder: Path, final: Split, tuning: Split | None) -> dict[str, Any]:
    count = len(final.places) + (len(tuning.places) if tuning else 0)
    if count > MOST_DOCUMENTS:
        return {"searched": False, "reason": f"more than {MOST_DOCUMENTS} documents"}
    return similarity_facts(_texts(folder / "final.csv"), _texts(folder / "tuning.csv") if tuning else None)


def _texts(file: Path) -> list[tuple[str, str]]:
    return [(row.values[0] or "", row.values[1] or "") for row in iter_rows(file, ("id", "text"))]
