"""The user's own data as published: tables, folders of text files, or lines that begin with a label.

Nothing has to be edited by hand: columns are named, joined and numbered here, and class numbers get
their names. Memory: one record at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from runner.corpus.read import bytes_fingerprint
from runner.corpus.table import MARK_NOTE, CsvStyle, iter_rows, plain_files
from runner.errors import InputRefused, show_value
from runner.evidence.canonical import records_sha256, sha256_file

_MARK = "\ufeff"
Layout = Literal["table", "folders", "lines"]


class Item(NamedTuple):
    """One record of the source. `None`: the cell is a null. `place` and `line` say where it begins."""

    id: str | None
    text: str | None
    label: str | None
    groups: tuple[str, ...]
    place: str
    line: int


@dataclass(frozen=True, slots=True)
class Source:
    """Where documents come from and how they are laid out.

    `table`: CSV, TSV, JSON Lines, Parquet, one file or a folder; several text columns are joined by
    a blank, empty ones left out. `id_column=None`: documents are numbered in the order of the source.
    `folders`: one folder per label, one file per text; the id is the path. `lines`: each line is a
    label, a blank and the text; documents are numbered. Ids made here begin with `id_prefix`.

    `label_names` gives every label of the source its name; one that it lacks is an error.
    `label_until`: only the part of the label before this mark counts (`DESC:manner`).
    """

    path: Path
    layout: Layout = "table"
    id_column: str | None = "id"
    text_columns: tuple[str, ...] = ("text",)
    label_column: str = "label"
    group_columns: tuple[str, ...] = ()
    style: CsvStyle = field(default_factory=CsvStyle)
    label_names: Mapping[str, str] | None = None
    label_until: str | None = None
    skip_labels: frozenset[str] = frozenset()
    id_prefix: str = ""

    def items(self, note: Callable[[str], None], skipped: Counter[str] | None = None) -> Iterator[Item]:
        """All records in order; `skipped` counts those left out by `skip_labels`."""
        layouts = {"table": self._table, "folders": self._folders, "lines": self._lines}
        for item in layouts[self.layout](note):
            label = item.label
            if label is not None and self.label_until:
                label = label.split(self.label_until, 1)[0]
            if label is not None and label in self.skip_labels:
                if skipped is not None:
                    skipped[label] += 1
                continue
            if label is not None and self.label_names is not None:
                if label not in self.label_names:
                    raise InputRefused(
                        f"the label has no name; there are names for {_some(self.label_names)}",
                        file=self.path,
                        line=item.line,
                        column=self.label_column,
                        value=label,
                        next_step="name it (--label-name, --label-names) or leave it out (--skip-label)",
                    )
                label = self.label_names[label]
            yield item._replace(label=label)

    def fingerprint(self) -> str:
        """SHA-256 of the file, or of the folder's names and files."""
        if self.layout == "folders" or (self.path.is_dir() and self.style.kind):
            files = plain_files(self.path)
            return records_sha256((file.relative_to(self.path).as_posix(), sha256_file(file)) for file in files)
        return bytes_fingerprint(self.path) if self.path.is_dir() else sha256_file(self.path)

    def _table(self, note: Callable[[str], None]) -> Iterator[Item]:
        first = 0 if self.id_column is None else 1
        texts = first + len(self.text_columns)
        ids = () if self.id_column is None else (self.id_column,)
        columns = (*ids, *self.text_columns, self.label_column, *self.group_columns)
        several = self.path.is_dir()
        for number, row in enumerate(iter_rows(self.path, columns, style=self.style, note=note), start=1):
            cells = row.values
            yield Item(
                self._numbered(number) if self.id_column is None else cells[0],
                _joined(cells[first:texts]),
                cells[texts],
                tuple(cell or "" for cell in cells[texts + 1 :]),
                f"{row.file.name}:{row.line}" if several else f"line {row.line}",
                row.line,
            )

    def _folders(self, note: Callable[[str], None]) -> Iterator[Item]:
        if not self.path.is_dir():
            raise InputRefused(
                "the layout 'folders' needs a folder with one folder per label",
                file=self.path,
                next_step="name the folder that holds one folder per label, or choose another --layout",
            )
        outside = marked = 0
        for file in plain_files(self.path):
            name = file.relative_to(self.path).as_posix()
            label, _, rest = name.partition("/")
            if not rest:
                outside += 1
                continue
            text = self._text_of(file)
            marked += text.startswith(_MARK)
            identifier = f"{self.id_prefix or self.path.name}/{name}"
            yield Item(identifier, text.removeprefix(_MARK), label, (), name, 1)
        if marked:
            note(f"{marked} files begin with a byte-order mark, which was ignored")
        if outside:
            note(f"{outside} files are in no label folder and were left out")

    def _lines(self, note: Callable[[str], None]) -> Iterator[Item]:
        try:
            with self.path.open(encoding=self.style.encoding, newline="\n") as stream:
                for number, line in enumerate(stream, start=1):
                    if number == 1 and line.startswith(_MARK):
                        note(MARK_NOTE)
                    label, blank, text = line.removeprefix(_MARK if number == 1 else "").rstrip("\r\n").partition(" ")
                    if not blank:
                        raise InputRefused(
                            "the line has no label and text",
                            file=self.path,
                            line=number,
                            value=label,
                            next_step="write each line as label, one blank, text; or choose another --layout",
                        )
                    yield Item(self._numbered(number), text, label, (), f"line {number}", number)
        except OSError as error:
            raise InputRefused(
                f"cannot be read: {error.strerror}",
                file=self.path,
                next_step="check the path and the right to read it, then run the same command again",
            ) from None
        except UnicodeError as error:
            raise self._undecodable(self.path, error) from None

    def _text_of(self, file: Path) -> str:
        try:
            return file.read_bytes().decode(self.style.encoding)
        except OSError as error:
            raise InputRefused(
                f"cannot be read: {error.strerror}",
                file=file,
                next_step="check the path and the right to read it, then run the same command again",
            ) from None
        except UnicodeError as error:
            raise self._undecodable(file, error) from None

    def _undecodable(self, file: Path, error: UnicodeError) -> InputRefused:
        return InputRefused(
            f"not {self.style.encoding.upper()}: {error}",
            file=file,
            next_step="name the encoding of the files, such as --encoding latin-1",
        )

    def _numbered(self, number: int) -> str:
        return f"{self.id_prefix or self.path.stem}-{number:07}"


def read_label_names(file: Path, start: int = 1) -> dict[str, str]:
    """One name per line, as `classes.txt` of the published sets has it: line 1 names class `start`.

    Empty lines at the end are passed over. Refused: one among the names, which would move all names behind it.
    """
    try:
        names = [line.strip() for line in file.read_text(encoding="utf-8").rstrip().split("\n")]
    except OSError as error:
        raise InputRefused(
            f"cannot be read: {error.strerror}",
            file=file,
            next_step="check the path and the right to read it, then run the same command again",
        ) from None
    except UnicodeDecodeError:
        raise InputRefused("not UTF-8", file=file, next_step="save the list of label names as UTF-8") from None
    if names == [""]:
        raise InputRefused(
            "the file names no label",
            file=file,
            next_step="write one name per line; the first line names class 1 (--label-names-from says otherwise)",
        )
    if "" in names:
        raise InputRefused(
            "an empty line among the label names: which class does the next line name?",
            file=file,
            line=names.index("") + 1,
            next_step="take the empty line out, or write the name that is missing",
        )
    return {str(number): name for number, name in enumerate(names, start=start)}


def _joined(cells: tuple[str | None, ...]) -> str | None:
    """Several text columns as one text; null only if all of them are."""
    if len(cells) == 1:
        return cells[0]
    filled = [cell for cell in cells if cell]
    return " ".join(filled) if filled or any(cell is not None for cell in cells) else None


def _some(names: Mapping[str, str]) -> str:
    shown = [show_value(name) for name in list(names)[:10]]
    return ", ".join(shown) + (", ..." if len(names) > 10 else "")
