"""Build a corpus from the user's own data: both splits, right answers, fingerprints, data sheet (M13).

The source is read twice and never held in memory; only the chosen documents are. Everything is
written into a folder of its own that appears whole or not at all.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from runner.corpus import sheet
from runner.corpus.contradictions import FILE as CONTRADICTIONS
from runner.corpus.contradictions import write_contradictions
from runner.corpus.overlap import find_overlap, refuse_overlap
from runner.corpus.read import Document
from runner.corpus.sample import choose
from runner.corpus.scan import OUTSIDE, Rules, scan
from runner.corpus.similar import MOST_DOCUMENTS, similarity_facts
from runner.corpus.source import Source
from runner.corpus.splits import Split, source_changed, texts_of, write_labels, write_split
from runner.corpus.strata import Band, TokenCounter, check_bands
from runner.errors import InputRefused
from runner.evidence.canonical import content_sha256, pretty_json
from runner.evidence.files import write_atomic

_OWN_FILES = {"README.md", "corpus.json", "final.csv", "tuning.csv", "labels.csv", "lengths.svg", CONTRADICTIONS}


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
class Built:
    """What was written, and what `corpus.json` says about it."""

    folder: Path
    facts: dict[str, Any]


def build(order: Order) -> Built:
    """Refused with exit 2 and nothing written: M5, M7, too few texts, an existing folder."""
    check_bands(order.bands)
    _refuse_existing(order)
    sources = [order.source, *([order.tuning_source] if order.tuning_source else [])]
    fingerprints = [source.fingerprint() for source in sources]
    final, tuning = _splits(order)
    with _staged(order.out) as folder:
        facts = _write(order, final, tuning, fingerprints, folder)
        for source, fingerprint in zip(sources, fingerprints, strict=True):
            if source.fingerprint() != fingerprint:
                raise source_changed(source)
    return Built(order.out, facts)


@contextmanager
def _staged(out: Path) -> Iterator[Path]:
    """A hidden folder beside `out` that takes its place at the end; after a failure nothing is left."""
    staging = out.parent / f".{out.name}.{os.getpid()}.tmp"
    new_parents = [parent for parent in staging.parents if not parent.exists()]
    try:
        staging.mkdir(parents=True)
        yield staging
        _put_in_place(staging, out)
    except BaseException as error:
        shutil.rmtree(staging, ignore_errors=True)
        for parent in new_parents:
            with suppress(OSError):
                parent.rmdir()
        if isinstance(error, OSError):
            raise InputRefused(
                f"cannot be written: {error.strerror}",
                file=out,
                next_step="name a folder that can be written, with --out, and make room on the disk",
            ) from None
        raise


def _put_in_place(made: Path, out: Path) -> None:
    """The old folder, if there is one, goes last: if the new one cannot take its place, it comes back."""
    if not out.exists():
        made.rename(out)
        return
    old = made.with_name(f"{made.name}.old")
    out.rename(old)
    try:
        made.rename(out)
    except BaseException:
        old.rename(out)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _refuse_existing(order: Order) -> None:
    """A folder is only replaced if asked for, and only one that the builder wrote."""
    if not order.out.exists():
        return
    if not order.replace:
        raise InputRefused(
            "the folder is there already",
            file=order.out,
            next_step="name another one (--out), or say --replace (make: REPLACE=1)",
        )
    if not order.out.is_dir() or not {item.name for item in order.out.iterdir()} <= _OWN_FILES:
        raise InputRefused(
            "the folder holds more than a built corpus and is not replaced",
            file=order.out,
            next_step="name another folder with --out; nothing of yours is deleted",
        )


def _splits(order: Order) -> tuple[Split, Split | None]:
    found = scan(order.source, order.counter, order.bands, order.seed, order.rules, order.progress)
    if order.everything:
        chosen, rest = np.arange(len(found)), np.arange(0)
    else:
        picked = choose(found, order.bands, order.tuning_wanted, file=order.source.path)
        chosen, rest = picked.final, picked.tuning
    final = Split("final", order.source, found, chosen)
    if order.tuning_source is None:
        return final, Split("tuning", order.source, found, rest) if len(rest) else None
    other = scan(order.tuning_source, order.counter, order.bands, order.seed, order.rules, order.progress)
    tuning = Split("tuning", order.tuning_source, other, np.arange(len(other)))
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
        for _, item in split.items(split.places[keep[split.places]]):
            yield Document(item.id or "", item.text or "", item.label, (), item.line)

    refuse_overlap(find_overlap(suspects(tuning), tuple(suspects(final))), file=final.source.path)


def _write(order: Order, final: Split, tuning: Split | None, fingerprints: list[str], folder: Path) -> dict[str, Any]:
    splits = [final, *([tuning] if tuning else [])]
    written = {
        split.name: write_split(split, order.bands, folder) | sheet.split_facts(split.scan, split.places, order.bands)
        for split in splits
    }
    write_labels(folder)
    facts: dict[str, Any] = {
        "schema_version": "corpus-build/1",
        "name": order.name,
        "licence": order.licence,
        "permission": order.permission,
        "seed": order.seed,
        "everything": order.everything,
        "group_columns": list(order.source.group_columns),
        "bands": [_band_facts(band) for band in order.bands],
        "tokenizer": dict(order.counter.fingerprint),
        "source": _source_facts(final, fingerprints[0], order.bands),
        "splits": written,
        "near_duplicates": _similarity(splits, folder),
        "notes": list(final.scan.notes),
    }
    contradicting = write_contradictions(splits, folder)
    if contradicting:
        facts["contradictions"] = {"file": CONTRADICTIONS, "documents": contradicting}
    if tuning is not None and order.tuning_source is not None:
        facts["tuning_source"] = _source_facts(tuning, fingerprints[1], order.bands)
    facts["build_sha256"] = content_sha256(
        {key: facts[key] for key in ("bands", "tokenizer", "seed", "everything")}
        | {name: split["records_sha256"] for name, split in written.items()}
    )
    write_atomic(folder / "corpus.json", pretty_json(facts))
    write_atomic(folder / "lengths.svg", sheet.lengths_svg(facts).encode("utf-8"))
    write_atomic(folder / "README.md", sheet.data_sheet(facts).encode("utf-8"))
    return facts


def _band_facts(band: Band) -> dict[str, Any]:
    return {"name": band.name, "least_tokens": band.least, "most_tokens": band.most, "wanted": band.wanted}


def _source_facts(split: Split, sha256: str, bands: tuple[Band, ...]) -> dict[str, Any]:
    found = split.scan
    repeated, contradicting = found.repeated_texts()
    return {
        "file": split.source.path.name,
        "sha256": sha256,
        "documents": len(found),
        "available": {name: int(count) for name, count in split.available(bands).items()},
        "repeated_texts": repeated,
        "repeated_texts_with_other_labels": contradicting,
        "outside_all_bands": int(np.count_nonzero(found.band == OUTSIDE)),
        "left_out_empty": found.empty_texts,
        "left_out_labels": dict(sorted(found.skipped_labels.items())),
    }


def _similarity(splits: list[Split], folder: Path) -> dict[str, Any]:
    if sum(map(len, splits)) > MOST_DOCUMENTS:
        return {"searched": False, "reason": f"more than {MOST_DOCUMENTS} documents"}
    return similarity_facts(*(texts_of(split, folder) for split in splits))
