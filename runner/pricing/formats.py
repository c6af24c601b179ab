"""Catalogues in a declared number format (`1.234,56`), rewritten into the one form that is read.

The format is a JSON file: {"delimiter": ";", "decimal": ",", "thousands": "."}. Nothing is guessed:
an amount that is not in the declared format is refused with its line.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import re
from pathlib import Path
from typing import Literal

from runner.errors import InputRefused
from runner.evidence.canonical import sha256_bytes
from runner.evidence.model import Record
from runner.pricing import core
from runner.pricing.tariffs import check_patterns, refusals

_AMOUNTS = ("price_per_lot", "memory_gib_per_card")


class NumberFormat(Record):
    """Delimiter of the fields, decimal sign, and sign between thousands (empty: none)."""

    delimiter: Literal[",", ";", "\t", "|"] = ","
    decimal: Literal[".", ","]
    thousands: Literal["", ".", ",", " ", "'", "\u00a0", "\u202f"] = ""

    def plain(self, text: str) -> str | None:
        """`1234.56` for an amount in this format, else None."""
        whole = "[0-9]+"
        if self.thousands:
            whole = f"[0-9]{{1,3}}(?:{re.escape(self.thousands)}[0-9]{{3}})+|[0-9]+"
        found = re.fullmatch(f"({whole})(?:{re.escape(self.decimal)}([0-9]+))?", text)
        if found is None:
            return None
        digits = found[1].replace(self.thousands, "") if self.thousands else found[1]
        return digits if found[2] is None else f"{digits}.{found[2]}"


def read_number_format(path: Path) -> NumberFormat:
    """Declared format of a JSON file."""
    declared = NumberFormat.load(path)
    if declared.decimal == declared.thousands:
        raise InputRefused(
            "decimal sign and thousands sign are the same",
            file=path,
            value=declared.decimal,
            next_step="declare two different signs",
        )
    return declared


def load_formatted_catalogue(path: Path, declared: NumberFormat) -> core.Catalogue:
    """Catalogue of a file in the declared format; its fingerprint is that of the file as it is."""
    try:
        data = path.read_bytes()
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise InputRefused(
            f"the tariffs cannot be read: {error.strerror}",
            file=path,
            next_step="write a tariffs.csv with dated prices; the embedded example has one",
        ) from None
    except UnicodeDecodeError as error:
        raise InputRefused(
            f"the tariffs are not UTF-8: byte {error.start} cannot be read",
            file=path,
            next_step="save the file as UTF-8",
        ) from None
    with refusals():
        catalogue = core.parse_catalogue(_rewritten(text, declared, path).encode("utf-8"), str(path))
    return check_patterns(dataclasses.replace(catalogue, sha256=sha256_bytes(data)), path)


def _rewritten(text: str, declared: NumberFormat, path: Path) -> str:
    """The same lines with plain amounts and commas between the fields."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=declared.delimiter, strict=True)
    header: list[str] = []
    try:
        for fields in reader:
            if header:
                names = [*header, *[""] * (len(fields) - len(header))]
                cells = zip(names, fields, strict=False)
                fields = [_plain(name, field, declared, path, reader.line_num) for name, field in cells]
            header = header or fields
            writer.writerow(fields)
    except csv.Error as error:
        raise InputRefused(
            f"not a readable CSV file: {error}",
            file=path,
            line=reader.line_num,
            next_step="double every quotation mark inside a quoted field and close each",
        ) from None
    return out.getvalue()


def _plain(name: str, field: str, declared: NumberFormat, path: Path, line: int) -> str:
    if name not in _AMOUNTS or not field:
        return field
    plain = declared.plain(field)
    if plain is None:
        raise InputRefused(
            "the amount is not in the declared number format",
            file=path,
            line=line,
            column=name,
            value=field,
            next_step=f"declared: thousands {declared.thousands!r}, decimal {declared.decimal!r}",
        )
    return plain
