"""Tasks from a plain table: `task,start,end[,tz][,kind][,lots][,title]`, one line per task."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import get_args

from runner.errors import InputRefused, show_value
from runner.pricing.core import parse_count
from runner.pricing.tariffs import refusals
from runner.pricing.times import parse_instant
from runner.pricing.window import TaskTime
from runner.protocol.schema import Task

REQUIRED = ("task", "start", "end")
OPTIONAL = ("tz", "kind", "lots", "title")
KINDS: tuple[str, ...] = get_args(Task.model_fields["kind"].annotation)


def read_tasks(path: Path) -> tuple[TaskTime, ...]:
    """Tasks of a CSV file; every time that is not one instant is named with its line and column."""
    findings: list[InputRefused] = []
    tasks = [_task(row, line, path, findings) for line, row in _rows(path)]
    if findings:
        first = findings[0]
        raise InputRefused(
            first.what if len(findings) == 1 else f"{len(findings)} entries of the task table cannot be used",
            file=path,
            line=first.line,
            column=first.column,
            value=first.value,
            next_step=first.next_step,
            details=()
            if len(findings) == 1
            else tuple(
                f"line {one.line}, column {one.column}: {one.what} ({show_value(one.value)})" for one in findings
            ),
        )
    read = tuple(task for task in tasks if task is not None)
    names = [task.id for task in read]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputRefused(
            "two tasks have the same name",
            file=path,
            column="task",
            value=twice,
            next_step="give every task its own name",
        )
    return read


def _task(row: dict[str, str], line: int, path: Path, findings: list[InputRefused]) -> TaskTime | None:
    before = len(findings)

    def add(error: InputRefused, column: str) -> None:
        findings.append(
            InputRefused(
                error.what,
                file=path,
                line=line,
                column=column,
                value=error.value or row.get(column),
                next_step=error.next_step,
            )
        )

    times = {}
    for column in ("start", "end"):
        try:
            times[column] = parse_instant(row[column], row.get("tz") or None, name=column)
        except InputRefused as error:
            if error.column is not None:
                add(error, column)
            elif "tz" not in [finding.column for finding in findings[before:]]:
                add(error, "tz")
    kind = row.get("kind") or "check"
    if kind not in KINDS:
        add(InputRefused("not a kind of task", next_step=f"one of: {', '.join(KINDS)}"), "kind")
    if not row["task"].strip() or not row["task"].isprintable():
        add(InputRefused("a task needs a name", next_step="fill in the column task"), "task")
    try:
        with refusals():
            lots = parse_count(row.get("lots") or "1", "lots", 1)
    except InputRefused as error:
        add(error, "lots")
    if len(findings) > before:
        return None
    if times["end"] < times["start"]:
        add(InputRefused("the task ends before it starts", next_step="put the end after the start"), "end")
        return None
    return TaskTime(
        id=row["task"],
        title=row.get("title") or row["task"],
        kind=kind,
        start=times["start"],
        end=times["end"],
        lots=lots,
    )


def _rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputRefused(
            f"the task table cannot be read: {error.strerror}",
            file=path,
            next_step="check that the file is there and may be read",
        ) from None
    except UnicodeDecodeError as error:
        raise InputRefused(
            f"the task table is not UTF-8: byte {error.start} cannot be read",
            file=path,
            next_step="save the file as UTF-8",
        ) from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows, header, start = [], None, 1
    try:
        for fields in reader:
            if header is None:
                header = _checked_header(fields, path)
            elif fields and len(fields) != len(header):
                raise InputRefused(
                    f"{len(fields)} fields, the header has {len(header)}",
                    file=path,
                    line=start,
                    next_step="quote fields that hold the separator",
                )
            elif fields:
                rows.append((start, dict(zip(header, fields, strict=True))))
            start = reader.line_num + 1
    except csv.Error as error:
        raise InputRefused(
            f"not a readable CSV file: {error}",
            file=path,
            line=start,
            next_step="double every quotation mark inside a quoted field and close each",
        ) from None
    return rows


def _checked_header(header: list[str], path: Path) -> list[str]:
    missing = [column for column in REQUIRED if column not in header]
    unknown = [column for column in header if column not in REQUIRED + OPTIONAL]
    if missing or unknown or len(set(header)) != len(header):
        raise InputRefused(
            "the columns of the task table are not the expected ones",
            file=path,
            line=1,
            value=", ".join(header),
            next_step=f"header: {','.join(REQUIRED)}, optional {','.join(OPTIONAL)}",
        )
    return header
