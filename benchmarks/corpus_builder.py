"""The corpus builder on a million texts: peak memory of the whole process, sampled and with every text."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from itertools import cycle, islice
from pathlib import Path

from benchmarks.harness import ROOT, Figure, figure, measures, output_and_peak
from runner.corpus.read import read_corpus
from runner.corpus.write import csv_line

TEXTS = 1_000_000
_GOAL = f"<= {1 << 30}"


@measures("corpus_1m_peak_bytes", "corpus_1m_all_peak_bytes")
def corpus_peaks() -> Iterable[Figure]:
    """Peak resident memory (the kernel's high-water mark of the child) of two runs of `runner corpus`."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "texts.csv"
        write_source(source, TEXTS)
        sampled = peak_bytes(source, Path(folder) / "sampled", "--tuning", "5000")
        everything = peak_bytes(source, Path(folder) / "everything", "--all")
    note = f"{TEXTS} texts, CSV, tokenizer of the embedded model"
    yield figure("corpus_1m_peak_bytes", [sampled], unit="B", goal=_GOAL, note=note)
    yield figure("corpus_1m_all_peak_bytes", [everything], unit="B", goal=_GOAL, note=note + ", every text kept")


def write_source(path: Path, count: int) -> None:
    """Different texts of the embedded tuning split, mostly short ones, each with a number of its own."""
    documents = read_corpus(ROOT / "protocol/corpus/tuning.csv", group_columns=("stratum",)).documents
    by_stratum = {
        name: cycle([item for item in documents if item.groups[0] == name]) for name in ("short", "medium", "long")
    }
    with path.open("w", encoding="utf-8", newline="") as stream:
        stream.write(csv_line(("id", "text", "label")))
        for number in range(count):
            stratum = "long" if number % 200 == 0 else "medium" if number % 40 == 1 else "short"
            (item,) = islice(by_stratum[stratum], 1)
            stream.write(csv_line((f"doc-{number:07}", f"{item.text} {number}", item.label or "")))


def peak_bytes(source: Path, out: Path, *options: str) -> int:
    """High-water mark of the resident memory of one `runner corpus`."""
    command = ("-m", "runner", "corpus", "--from", str(source), "--out", str(out), *options)
    return output_and_peak(command)[1]
