"""Tables as text: CSV, TSV, JSON Lines and Parquet, one file or a folder, streamed row by row.

Cells are handed on exactly as they stand in the file: nothing is trimmed, parsed as a number or
taken for missing. `None` only stands for a JSON or Parquet null. A byte-order mark is ignored and
noted. Line breaks inside quoted CSV fields are kept, and line numbers are those of the file.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from runner.corpus.columns import column_places, other_delimiter
from runner.errors import InputRefused, show_value
from runner.evidence.canonical import strict_hooks

Kind = Literal["csv", "jsonl", "parquet"]
KINDS: dict[str, tuple[Kind, str]] = {
    ".csv": ("csv", ","),
    ".tsv": ("csv", "\t"),
    ".jsonl": ("jsonl", ""),
    ".ndjson": ("jsonl", ""),
    ".parquet": ("parquet", ""),
}
MARK_NOTE = "a byte-order mark was found at the start of the file and ignored"
_SHOWN_BYTES = 1000
_LARGEST_FIELD_CHARACTERS = 1 << 27  # an unclosed quote must not swallow the memory


class Row(NamedTuple):
    """Wanted cells of one record, and where it begins: file, line (Parquet: row, counted from 1)."""

    file: Path
    line: int
    values: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class CsvStyle:
    """How a file is written, where its name and header line do not say it.

    `header`: the column names of a file without a header line. `kind`: read it as this, whatever its
    name. `quoted=False`: quotation marks are ordinary characters.
    """

    kind: Kind | None = None
    delimiter: str | None = None
    quoted: bool = True
    header: tuple[str, ...] | None = None
    encoding: str = "utf-8"


def plain_files(folder: Path) -> tuple[Path, ...]:
    """All files below a folder in the order of their relative names; hidden ones are left out."""
    found = (item for item in folder.rglob("*") if item.is_file())
    names = {item.relative_to(folder).as_posix(): item for item in found}
    return tuple(names[name] for name in sorted(names) if not any(part[0] == "." for part in name.split("/")))


def table_files(path: Path, kind: Kind | None = None) -> tuple[Path, ...]:
    """The file itself, or the folder's tables by name; hidden files and other kinds are left out.

    With a `kind`, names need not tell it: every plain file counts.
    """
    if path.is_dir():
        files = tuple(file for file in plain_files(path) if kind or file.suffix.lower() in KINDS)
        if not files:
            raise InputRefused(
                "the folder holds no table", file=path, next_step=f"put files ending in {', '.join(KINDS)} there"
            )
        if not kind and len({KINDS[item.suffix.lower()][0] for item in files}) > 1:
            names = ", ".join(show_value(item.name) for item in files[:5])
            raise InputRefused(
                f"the folder mixes several kinds of tables: {names}",
                file=path,
                next_step="keep one kind of table in the folder, or name one file",
            )
        return files
    if not path.exists():
        raise InputRefused("the file does not exist", file=path, next_step="check the path in the protocol or command")
    if not path.is_file():
        raise InputRefused("not a regular file", file=path, next_step="name a file or a folder of tables")
    if not kind and path.suffix.lower() not in KINDS:
        raise InputRefused(
            "the kind of table cannot be told from the file's name",
            file=path,
            next_step=f"use a name ending in {', '.join(KINDS)}",
        )
    return (path,)


def iter_table(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, tuple[str | None, ...]]]:
    """Stream `(line, cells)` of a file or folder, cells in the order of `columns`."""
    for row in iter_rows(path, columns):
        yield row.line, row.values


def iter_rows(
    path: Path,
    columns: Sequence[str],
    *,
    style: CsvStyle | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> Iterator[Row]:
    """Stream the wanted columns; `note` gets each remark, such as an ignored byte-order mark, once."""
    style = style or CsvStyle()
    said: set[str] = set()

    def note_once(text: str) -> None:
        if text not in said:
            said.add(text)
            note(text)

    for file in table_files(path, style.kind):
        kind, delimiter = KINDS.get(file.suffix.lower(), (None, ","))
        kind = style.kind or kind
        with _readable(file):
            if kind == "csv":
                yield from _csv_rows(file, columns, delimiter or ",", style, note_once)
            elif kind == "jsonl":
                yield from _jsonl_rows(file, columns, note_once)
            else:
                from runner.corpus.parquet import parquet_rows

                for line, values in parquet_rows(file, columns):
                    yield Row(file, line, values)


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputRefused(
            f"cannot be read: {error.strerror or error}", file=file, next_step="check that the file may be read"
        ) from None


# ---- CSV and TSV -----------------------------------------------------------------------------------


def _csv_rows(
    file: Path, columns: Sequence[str], delimiter: str, style: CsvStyle, note: Callable[[str], None]
) -> Iterator[Row]:
    csv.field_size_limit(_LARGEST_FIELD_CHARACTERS)
    with file.open("rb") as raw:
        _skip_mark(raw, file, style.encoding, note)
        text = io.TextIOWrapper(raw, encoding=style.encoding, errors="strict", newline="")
        reader = csv.reader(
            text,
            delimiter=style.delimiter or delimiter,
            quoting=csv.QUOTE_MINIMAL if style.quoted else csv.QUOTE_NONE,
            quotechar='"' if style.quoted else None,
            strict=True,
        )
        records = _csv_records(reader, file, style)
        header = style.header
        if header is None:
            first = next(records, None)
            if first is None:
                raise InputRefused("the file is empty", file=file, next_step="the first line must name the columns")
            header = tuple(first[1])
        places = column_places(header, columns, file)
        width = len(header)
        for line, cells in records:
            if len(cells) != width:
                raise InputRefused(
                    f"the record has {len(cells)} fields, the header has {width}",
                    file=file,
                    line=line,
                    value=(style.delimiter or delimiter).join(cells),
                    next_step="quote fields that hold the separator, a quotation mark or a line break",
                )
            yield Row(file, line, tuple(cells[place] for place in places))


def _csv_records(reader: Any, file: Path, style: CsvStyle) -> Iterator[tuple[int, list[str]]]:
    """Records with the line they begin on. Empty lines may only stand at the end."""
    empty_line: int | None = None
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            text = _text_of_line(file, line, style.encoding)
            other = other_delimiter([text], ()) if line == 1 and style.delimiter is None else None
            raise InputRefused(
                f"not valid CSV: {error}",
                file=file,
                line=line,
                value=text,
                next_step=other
                or "close the quotation marks of each field, and double every one inside a quoted field",
            ) from None
        except UnicodeError:
            raise _undecodable(file, style.encoding) from None
        if cells is None:
            return
        if not cells:
            empty_line = empty_line or line
            continue
        _refuse_empty_line(file, empty_line)
        yield line, cells


def _refuse_empty_line(file: Path, line: int | None) -> None:
    """One at the end is none: it is known only when a record comes after it."""
    if line is not None:
        raise InputRefused(
            "an empty line stands between records", file=file, line=line, next_step="delete the empty line"
        )


def _text_of_line(file: Path, number: int, encoding: str) -> str:
    """The beginning of a line, for a message; bytes that are no text stay visible as escapes."""
    with file.open("rb") as stream:
        data = next(islice(stream, number - 1, None), b"")
    return data[:_SHOWN_BYTES].decode(encoding, "backslashreplace").rstrip("\r\n")


def _skip_mark(raw: Any, file: Path, encoding: str, note: Callable[[str], None]) -> None:
    start = raw.read(4)
    if start.startswith(codecs.BOM_UTF8):
        note(MARK_NOTE)
        raw.seek(len(codecs.BOM_UTF8))
        return
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and encoding == "utf-8":
        raise InputRefused("the file is UTF-16, not UTF-8", file=file, next_step=_name_the_encoding("utf-16"))
    raw.seek(0)


def _undecodable(file: Path, encoding: str) -> InputRefused:
    """Find the line of the first byte that cannot be read (only called after it was met)."""
    with file.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                line.decode(encoding)
            except UnicodeError as error:
                byte = line[error.start] if isinstance(error, UnicodeDecodeError) else 0
                column = error.start + 1 if isinstance(error, UnicodeDecodeError) else None
                return InputRefused(
                    f"not {encoding.upper()}: byte 0x{byte:02x} cannot be read",
                    file=file,
                    line=number,
                    column=column,
                    next_step=_name_the_encoding("cp1252"),
                )
    return InputRefused(f"not {encoding.upper()}", file=file, next_step=_name_the_encoding("cp1252"))


def _name_the_encoding(likely: str) -> str:
    windows = ", as Windows writes (or latin-1, iso-8859-9, ...)" if likely == "cp1252" else ""
    return (
        f"save the file as UTF-8, or say how it is written: runner corpus --encoding {likely}{windows}; "
        f"make corpus ... ENCODING={likely}"
    )


# ---- JSON Lines ------------------------------------------------------------------------------------


_SAME_KEYS = "write one JSON object with the same keys on every line"
_STRICT_JSON = "write the file again with a JSON library: UTF-8, one complete object on every line"


class _Literal(str):
    """A JSON number exactly as written: `9007199254740993` and `1.0` stay what they are."""


def _jsonl_rows(file: Path, columns: Sequence[str], note: Callable[[str], None]) -> Iterator[Row]:
    empty_line: int | None = None
    with file.open("rb") as raw:
        _skip_mark(raw, file, "utf-8", note)
        for line, data in enumerate(raw, start=1):
            if not data.strip():
                empty_line = empty_line or line
                continue
            _refuse_empty_line(file, empty_line)
            record = _json_object(data, file, line)
            for name in columns:
                if name not in record:
                    found = ", ".join(show_value(key) for key in list(record)[:20])
                    raise InputRefused(
                        f"the key is missing: {show_value(name)}; there are: {found}",
                        file=file,
                        line=line,
                        column=name,
                        next_step=_SAME_KEYS,
                    )
            yield Row(file, line, tuple(_json_cell(record[name], file, line, name) for name in columns))


def _json_object(data: bytes, file: Path, line: int) -> dict[str, Any]:
    try:
        value = json.loads(
            data.decode("utf-8").rstrip("\r\n"),
            parse_int=_Literal,
            parse_float=_Literal,
            **strict_hooks(file, line),
        )
    except UnicodeDecodeError as error:
        raise InputRefused(
            f"not UTF-8: byte 0x{data[error.start]:02x} cannot be read",
            file=file,
            line=line,
            column=error.start + 1,
            next_step="save the file as UTF-8",
        ) from None
    except json.JSONDecodeError as error:
        raise InputRefused(
            f"not valid JSON: {error.msg}",
            file=file,
            line=line,
            column=error.colno,
            value=error.doc,
            next_step=_STRICT_JSON,
        ) from None
    except RecursionError:
        raise InputRefused("JSON nested too deeply", file=file, line=line, next_step=_STRICT_JSON) from None
    if not isinstance(value, dict):
        raise InputRefused("each line must hold one JSON object", file=file, line=line, next_step=_SAME_KEYS)
    return value


def _json_cell(value: Any, file: Path, line: int, column: str) -> str | None:
    if value is None:
        return None
    text = str(value) if isinstance(value, str) else _json_text(value)
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise InputRefused(
            "half of a surrogate pair is no character",
            file=file,
            line=line,
            column=column,
            value=text,
            next_step=_STRICT_JSON,
        )
    return text


def _json_text(value: Any) -> str:
    """A nested value as JSON again, numbers as they were written."""
    if isinstance(value, _Literal):
        return str(value)
    if isinstance(value, list):
        return "[" + ",".join(_json_text(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{_json_text(item)}" for key, item in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)
