"""How every command speaks: text for people, one JSON object for machines, one exit status."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from runner.errors import NotAccepted, RunnerError, show_lines, without_rule_numbers


@dataclass(frozen=True)
class Output:
    """What a command found: lines for people, data for `--json`, exit status 0 or 3."""

    lines: Sequence[str]
    data: Mapping[str, Any] = field(default_factory=dict)
    exit_code: int = 0
    document: bool = False
    """The lines are a document that is printed as it is: no command in it is about this campaign."""


@dataclass
class Session:
    """Options given before the command's name."""

    root: Path


# The folder of the command that runs: what is said meanwhile is about this campaign too.
_root: ContextVar[Path] = ContextVar("root", default=Path())


def write_line(text: str, *, error: bool = False, for_people: bool = True) -> None:
    """Print; what the terminal's encoding cannot show is written as an escape, never a traceback.

    For people, control characters in names and records are escaped: they would act on the terminal.
    What goes to standard error names the campaign in its commands, as results and refusals do.
    A reader that went away (`runner ... | head`) or a closed stream loses the text, not the work. A disk that is full
    is said: NotAccepted.
    """
    stream = sys.stderr if error else sys.stdout
    if stream is None:
        return
    encoding = stream.encoding or "ascii"
    text = _for_campaign(text, _root.get()) if error and for_people else text
    text = show_lines(text) if for_people else text
    try:
        click.echo(text.encode(encoding, "backslashreplace").decode(encoding), err=error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except OSError as problem:  # a full disk behind `> file`
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if not error:
            raise NotAccepted(
                f"the result cannot be written to standard output: {problem.strerror}",
                next_step="make room there, then run the same command again: what was recorded stays",
            ) from None


def _sentence(text: str) -> str:
    """One form for the explanations of all options: a capital letter first, a full stop last."""
    return text[0].upper() + text[1:] + ("" if text.endswith((".", "?")) else ".")


# What is to be written where click would say TEXT.
_METAVARS = {
    **dict.fromkeys(("--gpu", "--name", "--series", "--configuration"), "NAME"),
    **dict.fromkeys(("--start", "--end", "--deadline", "--rental-end"), "TIME"),
    **dict.fromkeys(("--id-column", "--text-column", "--label-column", "--group-column"), "COLUMN"),
    **dict.fromkeys(("--lots", "--cards", "--documents", "--accepted-results", "--extra-periods"), "NUMBER"),
    **dict.fromkeys(("--window-hours", "--other-hours"), "HOURS"),
    **dict.fromkeys(("--threshold", "--max-drop", "--min-agreement"), "DECIMAL"),
    "--days": "DAYS", "--zone": "ZONE", "--batches": '"1 4 8"', "--rdzv-endpoint": "HOST:PORT",
    "--model-revision": "COMMIT", "--revision": "COMMIT",
}  # fmt: skip


def _for_campaign(text: str, root: Path) -> str:
    """With the folder in every command that is named, if one was given: pasted elsewhere, they mean the same."""
    if root == Path():
        return text
    from runner.cli.hints import name_campaign
    from runner.cli.main import COMMANDS

    return name_campaign(text, root, COMMANDS)


def runner_command(name: str, **attributes: Any) -> Callable[[Callable[..., Output]], click.Command]:
    """A click command with `--json` that prints the `Output` it returns.

    The function gets the `Session` first, then its own options. Refusals are raised, not printed.
    """

    def wrap(function: Callable[..., Output]) -> click.Command:
        @click.option("--json", "as_json", is_flag=True, help="Print one JSON object for machines.")
        @click.pass_context
        @functools.wraps(function)
        def call(context: click.Context, /, *, as_json: bool, **options: Any) -> None:
            session = context.find_object(Session)
            root = Path() if session is None else session.root
            token = _root.set(root)
            try:
                output = function(session, **options)
            except RunnerError as error:
                error.next_step = _for_campaign(error.next_step, root)
                error.details = tuple(_for_campaign(detail, root) for detail in error.details)
                if as_json:
                    write_line(json.dumps(error.as_json(), ensure_ascii=False, sort_keys=True), for_people=False)
                raise
            finally:
                _root.reset(token)
            if as_json:
                text = json.dumps(output.data, ensure_ascii=False, sort_keys=True, allow_nan=False)
                write_line(text, for_people=False)
            else:
                for line in output.lines:
                    write_line(line if output.document else _for_campaign(line, root))
            context.exit(output.exit_code)

        command: click.Command = click.command(name, **attributes)(call)  # type: ignore[no-untyped-call]
        if command.help:
            command.help = without_rule_numbers(command.help)
        command.params.append(command.params.pop(0))  # --json, which all have, stands last
        for parameter in command.params:
            if isinstance(parameter, click.Option) and parameter.metavar is None:
                whole = isinstance(parameter.type, click.IntRange | type(click.INT)) and not parameter.is_flag
                parameter.metavar = _METAVARS.get(parameter.opts[0], "NUMBER" if whole else None)
            if isinstance(parameter, click.Option) and parameter.help:
                parameter.help = _sentence(parameter.help)
        return command

    return wrap
