"""Read a corpus: documents in order, identity rules enforced (M7), both fingerprints taken (M8)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.corpus.findings import Finding, Findings
from runner.corpus.identity import IdentityCheck, trimmed
from runner.corpus.remarks import Remarks
from runner.corpus.table import KINDS, iter_rows, iter_table, table_files
from runner.errors import InputRefused
from runner.evidence.canonical import records_sha256, sha256_file

__all__ = ["Corpus", "Document", "corpus_records", "iter_table", "read_corpus"]


@dataclass(frozen=True, slots=True)
class Document:
    """One text with its right answer. `line`: where it begins in its file (Parquet: row from 1)."""

    id: str
    text: str
    label: str | None
    groups: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents in file order. `bytes_sha256` changes with every byte, `records_sha256` with content only."""

    path: Path
    documents: tuple[Document, ...]
    group_columns: tuple[str, ...]
    warnings: tuple[str, ...]
    bytes_sha256: str
    records_sha256: str


def read_corpus(
    path: Path,
    *,
    id_column: str = "id",
    text_column: str = "text",
    label_column: str | None = "label",
    group_columns: Sequence[str] = (),
    allow_case_twins: bool = False,
    allow_empty_texts: bool = False,
) -> Corpus:
    """Read CSV, TSV, JSON Lines or Parquet, one file or a folder of files (in order of their names).

    Refused with every line named: duplicate, empty or twin ids, empty labels, texts without a
    visible character other than allowed ones. `label_column=None`: labels are not read.
    """
    columns = [id_column, text_column, *([label_column] if label_column else []), *group_columns]
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise InputRefused(
            "one column is named for two purposes",
            file=path,
            value=twice[0],
            next_step="name another column for one of them",
        )
    _refuse_float_ids(path, id_column)
    warnings: list[str] = []
    several = path.is_dir()
    identity = IdentityCheck(allow_case_twins)
    findings, remarks = Findings(), Remarks()
    documents: list[Document] = []
    # A million documents share few labels and groups: one object each.
    labels: dict[str, str] = {}
    every_groups: dict[tuple[str, ...], tuple[str, ...]] = {}
    groups_start = 3 if label_column else 2
    for row in iter_rows(path, columns, note=warnings.append):
        place = f"{row.file.name}:{row.line}" if several else f"line {row.line}"
        identifier, text = row.values[0], row.values[1]
        if identifier is None or not trimmed(identifier):
            findings.add(Finding(place, row.line, id_column, identifier or "", "the id is empty"))
            continue
        identity.add(identifier, place if several else row.line)
        label = row.values[2] if label_column else None
        if label_column and (label is None or not label.strip()):
            findings.add(Finding(place, row.line, label_column, label or "", "the label is empty", identifier))
        if text is None or (not text.strip() and not allow_empty_texts):
            findings.add(Finding(place, row.line, text_column, text or "", "no text", identifier))
            continue
        groups = tuple(value or "" for value in row.values[groups_start:])
        groups = every_groups.setdefault(groups, groups)
        label = None if label is None else labels.setdefault(label, label)
        remarks.add(place, identifier, text, label)
        documents.append(Document(identifier, text, label, groups, row.line))
    findings.refuse(path, id_column, identity)
    if not documents:
        raise InputRefused(
            "the corpus holds no document",
            file=path,
            next_step="put at least one record below the header",
        )
    warnings.extend(remarks.lines())
    return Corpus(
        path=path,
        documents=tuple(documents),
        group_columns=tuple(group_columns),
        warnings=tuple(warnings),
        bytes_sha256=bytes_fingerprint(path),
        records_sha256=records_sha256(corpus_records(documents, group_columns, labelled=label_column is not None)),
    )


def corpus_records(
    documents: Iterable[Document], group_columns: Sequence[str], *, labelled: bool
) -> Iterator[tuple[str, ...]]:
    """What the record fingerprint covers: the roles of the columns, then every document in order."""
    yield ("id", "text", *(["label"] if labelled else []), *group_columns)
    for document in documents:
        label = (document.label or "",) if labelled else ()
        yield (document.id, document.text, *label, *document.groups)


def bytes_fingerprint(path: Path) -> str:
    """SHA-256 of the file; of a folder, over its tables' names and SHA-256."""
    if not path.is_dir():
        return sha256_file(path)
    return records_sha256((file.relative_to(path).as_posix(), sha256_file(file)) for file in table_files(path))


def _refuse_float_ids(path: Path, id_column: str) -> None:
    for file in table_files(path):
        if KINDS[file.suffix.lower()][0] == "parquet":
            from runner.corpus.parquet import refuse_float_column

            refuse_float_column(file, id_column)
