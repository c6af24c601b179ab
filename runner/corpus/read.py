"""Read a corpus: documents in order, identity rules enforced (M7), both fingerprints taken (M8)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runner.corpus.identity import IdentityCheck, code_points, trimmed, twin_key
from runner.corpus.table import KINDS, Row, iter_rows, iter_table, table_files
from runner.errors import InputRefused, show_value
from runner.evidence.canonical import records_sha256, sha256_file

__all__ = ["Corpus", "Document", "corpus_records", "iter_table", "read_corpus"]

_LISTED = 20


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


@dataclass(frozen=True, slots=True)
class _Finding:
    place: str
    line: int
    column: str
    value: str
    what: str

    def __str__(self) -> str:
        return f"{self.place}, {self.what}"


@dataclass
class _Findings:
    """Everything wrong with a corpus, so that one run shows all of it."""

    items: list[_Finding] = field(default_factory=list)

    def add(self, row: Row, place: str, column: str, value: str | None, what: str) -> None:
        self.items.append(_Finding(place, row.line, column, value or "", what))


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
        raise InputRefused("one column is named for two purposes", file=path, value=twice[0])
    _refuse_float_ids(path, id_column)
    warnings: list[str] = []
    several = path.is_dir()
    identity = IdentityCheck(allow_case_twins)
    findings = _Findings()
    documents: list[Document] = []
    groups_start = 3 if label_column else 2
    for row in iter_rows(path, columns, note=warnings.append):
        place = f"{row.file.name}:{row.line}" if several else f"line {row.line}"
        identifier, text = row.values[0], row.values[1]
        if identifier is None or not trimmed(identifier):
            findings.add(row, place, id_column, identifier, f"column {id_column}: the id is empty")
            continue
        identity.add(identifier, place)
        label = row.values[2] if label_column else None
        if label_column and (label is None or not label.strip()):
            findings.add(row, place, label_column, label,
                         f"id {show_value(identifier)}, column {label_column}: the label is empty")
        if text is None or (not text.strip() and not allow_empty_texts):
            findings.add(row, place, text_column, text, f"id {show_value(identifier)}, column {text_column}: no text")
            continue
        groups = tuple(value or "" for value in row.values[groups_start:])
        documents.append(Document(identifier, text, label, groups, row.line))
    _refuse(findings, identity, path, id_column)
    if not documents:
        raise InputRefused("the corpus holds no document", file=path)
    warnings.extend(_remarks(documents))
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


def _refuse(findings: _Findings, identity: IdentityCheck, path: Path, id_column: str) -> None:
    clashes = identity.clashes
    problems = [str(clash) for clash in clashes] + [str(item) for item in findings.items]
    if not problems:
        return
    details = tuple(problems[:_LISTED])
    if len(problems) > _LISTED:
        details += (f"and {len(problems) - _LISTED} more",)
    parts = []
    if clashes:
        doubles = sum(clash.by == "nothing" for clash in clashes)
        twins = len(clashes) - doubles
        if doubles:
            parts.append(f"{doubles} duplicate id{'s' * (doubles > 1)}")
        if twins:
            parts.append(f"{twins} confusable pair{'s' * (twins > 1)} of ids")
    for ending, name in (("the id is empty", "empty id"), ("the label is empty", "empty label"), ("no text", "text")):
        count = sum(item.what.endswith(ending) for item in findings.items)
        if count:
            parts.append(f"{count} {name}{'s' * (count > 1)}" + (" without any character to read" * (name == "text")))
    first = findings.items[0] if findings.items and not clashes else None
    raise InputRefused(
        "the corpus was refused: " + ", ".join(parts),
        file=path,
        line=first.line if first else None,
        column=first.column if first else id_column,
        value=first.value if first else clashes[0].second,
        details=details,
        next_step="correct these records; ids are never trimmed, folded or dropped for you",
    )


def _remarks(documents: Sequence[Document]) -> Iterator[str]:
    """Warnings: kept as given, but worth knowing."""
    hidden = [item for item in documents if not any(_visible(character) for character in item.text)]
    for item in hidden[:_LISTED]:
        points = code_points("".join(sorted(set(item.text)))) or "empty"
        yield f"line {item.line}, id {show_value(item.id)}: the text has no visible character ({points})"
    if len(hidden) > _LISTED:
        yield f"and {len(hidden) - _LISTED} more texts without a visible character"
    blanks = [item for item in documents if item.id != trimmed(item.id)]
    if blanks:
        yield (f"{len(blanks)} ids begin or end with blanks and are kept so, first {show_value(blanks[0].id)} "
               f"on line {blanks[0].line}")
    nul = [item for item in documents if "\0" in item.text or "\0" in item.id]
    if nul:
        yield f"{len(nul)} documents hold a NUL character, which is kept; first on line {nul[0].line}"
    spellings: dict[str, set[str]] = {}
    for label in {item.label for item in documents if item.label is not None}:
        spellings.setdefault(twin_key(label), set()).add(label)
    for family in sorted(sorted(names) for names in spellings.values() if len(names) > 1):
        yield "labels that look alike are kept as different: " + ", ".join(show_value(name) for name in family)


def _visible(character: str) -> bool:
    return unicodedata.category(character)[0] not in "CZ"
