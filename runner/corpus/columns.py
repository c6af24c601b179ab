"""Where the wanted columns stand in a table's header."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from runner.errors import InputRefused, show_value

NAME_THE_COLUMNS = "name the right columns (id_column, text_column, label_column, group_columns)"


def column_places(header: Sequence[str], columns: Sequence[str], file: Path) -> tuple[int, ...]:
    """Index of each wanted column; a repeated one is refused, missing ones all together; near misses are named."""
    missing = [show_value(name) for name in dict.fromkeys(columns) if name not in header]
    what = f"{'the column is' if len(missing) == 1 else 'columns are'} missing: {', '.join(missing)}"
    for name in columns:
        if header.count(name) > 1:
            raise InputRefused(
                "a column name stands twice in the header",
                file=file,
                line=1,
                column=name,
                value=name,
                next_step="rename one of the two columns",
            )
        if name not in header:
            near = [other for other in header if other.strip().casefold() == name.strip().casefold()]
            found = ", ".join(show_value(other) for other in header[:20])
            hint = f"is {show_value(near[0])} meant? Column names are compared exactly" if near else NAME_THE_COLUMNS
            hint = other_delimiter(header, columns) or hint
            raise InputRefused(
                f"{what}; there are: {found}",
                file=file,
                line=1,
                column=name,
                next_step=hint,
            )
    return tuple(list(header).index(name) for name in columns)


def other_delimiter(header: Sequence[str], columns: Sequence[str]) -> str | None:
    """What to type where the header would hold the columns, or more than one, with another mark between them."""
    line = ",".join(header)
    for mark, shown in ((";", "';'"), ("\t", "tab"), ("|", "'|'")):
        parts = {part.strip(' "') for part in line.split(mark)}
        if len(parts) > 1 and (len(header) == 1 or parts >= set(columns)):
            make = shown.replace("'", '"')
            return (
                f"the fields seem to be separated by {shown}: runner corpus --delimiter {shown} reads such a file "
                f"(make corpus ... DELIMITER={make})"
            )
    return None
