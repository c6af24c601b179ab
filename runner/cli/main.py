"""Entry point: the command table, and the one place where errors become messages and exit codes.

Commands are imported when they are called, so that `runner --help` stays fast: the table below
holds their one-line helps, and a test compares it with the commands themselves.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import re
import shlex
import sys
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path

import click

from runner import __version__
from runner.cli.output import Session, write_line
from runner.errors import InputRefused, NotAccepted, RunnerError

# name: (module below runner.cli, attribute, one-line help)
COMMANDS: dict[str, tuple[str, str, str]] = {
    "note": ("chain", "note", "The whole chain: baseline, freeze, measure, validate, decide, report, verify."),
    "protocol": ("protocol", "protocol", "Start, compare and revise the quality protocol."),
    "corpus": ("corpus", "corpus", "Build a corpus from your own data: sampled by length, with a data sheet."),
    "demo-model": ("corpus", "demo_model", "Make the embedded synthetic corpus and model again (about three minutes)."),
    "baseline": ("measure", "baseline", "Reference predictions of every corpus, untimed, before the freeze."),
    "freeze": ("protocol", "freeze", "Fix protocol, corpora, baseline and model before times are seen."),
    "plan": ("measure", "plan", "Blank sheet of the planned attempts; nothing is measured."),
    "measure": ("measure", "measure", "Run the attempts that are still missing, in the frozen order."),
    "validate": ("judge", "validate", "Judge every attempt, or a prediction file of another engine."),
    "exclude": ("judge", "exclude", "Leave an attempt out for an external reason, by a rule for all."),
    "decide": ("decide", "decide", "Choose the admissible configuration of smallest committed cost, or say why not."),
    "report": ("seal", "report", "Write and sign the decision note."),
    "verify": ("seal", "verify", "Check hashes, signatures and chain, and recompute the decision."),
    "archive": ("seal", "archive", "Keep note, evidence and rental record in one signed archive."),
    "again": ("campaigns", "again", "Set up the same experiment in a new folder, for a new model or version."),
    "compare": ("campaigns", "compare", "Two campaigns side by side: what changed, and may they be compared?"),
    "collect": ("campaigns", "collect", "Merge the records of several rentals under one lock."),
    "reprice": ("reprice", "reprice", "New prices for a note: nothing is measured again, a new linked note."),
    "window": ("window", "window", "Elapsed hours of a rental's calendar, and which packages cover."),
    "calculator": ("pricing", "calculator", "Write the price calculator as one page without network."),
    "forecast": ("rental", "forecast", "How long more documents would take: a planning assumption."),
    "rental": ("rental", "rental", "Match a rental record with the decision; export a ledger line."),
    "memory": ("memory", "memory", "Memory exercise: weights and activations, estimated and observed."),
    "lab": ("lab", "lab", "Everything for working by hand, in one folder without texts."),
    "doctor": ("doctor", "doctor", "What can be measured on this machine, what cannot, and why."),
    "rehearse": ("doctor", "rehearse", "Longest texts, largest batch, disk, key, clock, end: a try, nothing counted."),
    "price": ("pricing", "price", "Committed cost of a package; which packages cover a window."),
}
# What `runner --help` shows together, in the order of the work.
SECTIONS: dict[str, tuple[str, ...]] = {
    "Start": ("note", "corpus", "protocol", "doctor", "rehearse"),
    "The chain, step by step": (
        "baseline", "freeze", "plan", "measure", "collect", "validate", "exclude", "decide", "report", "verify",
        "archive",
    ),
    "Prices and time": ("price", "window", "calculator", "forecast", "rental"),
    "Asking again": ("again", "compare", "reprice"),
    "Exercises and the embedded example": ("lab", "memory", "demo-model"),
}  # fmt: skip

# Modules that only a part of the installation brings (extras of pyproject.toml).
PARTS = {
    "measure": ("torch", "transformers", "safetensors", "huggingface_hub", "pynvml", "psutil"),
    "report": (
        "jinja2", "markdown_it", "mdit_py_plugins", "yaml", "babel", "matplotlib", "weasyprint", "pydyf", "fontTools",
        "pikepdf", "pyhanko", "cryptography", "pypdfium2",
    ),
}  # fmt: skip

_PARTS_OF_A_CAMPAIGN = {"protocol", "records", "verdicts", "note", "archive", "templates"}
_HALF_WRITTEN = re.compile(r"\.(.+)\.\d+\.tmp")
_PREPARED = re.compile(r"\.(?:note|freeze|again|reprice)-\w+")
# What helps where the system refused, by its error number.
_WHAT_HELPS = {
    errno.EACCES: "take the right to it (ls -l shows whose it is), or use a folder of your own: --campaign FOLDER",
    errno.EPERM: "take the right to it (ls -l shows whose it is), or use a folder of your own: --campaign FOLDER",
    errno.EROFS: "copy the campaign to a disk that can be written",
    errno.ENOSPC: "make room on this disk, then run the same command again",
    errno.EDQUOT: "make room on this disk, then run the same command again",
    errno.ENOENT: "check the path, then run the same command again",
    errno.ENOTDIR: "check the path: a part of it is a file where a folder must be",
    errno.EISDIR: "name a file, not a folder",
    errno.ENAMETOOLONG: "use a shorter name",
    errno.EMFILE: "allow more open files (ulimit -n 4096), then run the same command again",
}

_NAME_WIDTH = max(map(len, COMMANDS))


class _NoCampaign(InputRefused):
    """Refused before a command that could print it as JSON was reached."""


class LazyGroup(click.Group):
    """Group whose commands live in modules that are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for names in SECTIONS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command = getattr(importlib.import_module(f"runner.cli.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(_NAME_WIDTH), COMMANDS[name][2]) for name in names])


@click.group("runner", cls=LazyGroup)
@click.option(
    "--campaign",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Campaign folder with protocol/, records/ and note/ (default: here).",
)
@click.version_option(__version__, prog_name="runner")
@click.pass_context
def cli(context: click.Context, campaign: Path) -> None:
    """Which GPU rental processes all documents, well enough and in time, for the smallest budget?"""
    if campaign != Path():
        _check_place(campaign, context.invoked_subcommand)
    context.obj = Session(root=campaign)


def _check_place(campaign: Path, command: str | None) -> None:
    """Refuse a folder that is not there, and a part of a campaign named in place of the whole."""
    if not campaign.is_dir() and command != "protocol":
        where = shlex.quote(str(campaign))
        raise _NoCampaign(
            "there is no such folder",
            column="--campaign",
            value=campaign,
            next_step=f"check the path; a new campaign begins with runner --campaign {where} protocol new, or with "
            f"runner again NOTE_OR_ARCHIVE {where}",
        )
    above = campaign.resolve().parent
    if campaign.resolve().name in _PARTS_OF_A_CAMPAIGN and _is_campaign(above) and not _is_campaign(campaign):
        raise _NoCampaign(
            f"this is the folder {campaign.resolve().name}/ of a campaign, not the campaign",
            column="--campaign",
            value=campaign,
            next_step=f"name the folder above it: --campaign {shlex.quote(str(above))} (make: CAMPAIGN=...)",
        )


def _is_campaign(folder: Path) -> bool:
    return (folder / "protocol" / "quality-protocol.toml").is_file()


def main() -> None:
    """Run the command line; exit 0, 2, 3 as documented, 1 only for a bug of ours."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Exit status of one call. Every refusal is one message on standard error."""
    try:
        result = cli.main(args=arguments, prog_name="runner", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        return _refuse_usage(error, arguments)
    except (click.Abort, KeyboardInterrupt) as stop:
        if isinstance(stop.__cause__ or stop.__context__, EOFError):
            write_line("", error=True)
            ended = "the input ended before every question was answered"
            return _refuse(InputRefused(ended, next_step="give the answers as options; --help lists them"), arguments)
        stopped = NotAccepted("interrupted", next_step="run the same command again: what was recorded stays")
        return _refuse(stopped, arguments)
    except _NoCampaign as error:
        return _refuse(error, arguments)
    except RunnerError as error:
        write_line(f"error: {error}", error=True)
        return error.exit_code
    except Exception as error:
        refused = _nobodys_bug(error)
        return _report_bug(error, arguments) if refused is None else _refuse(refused, arguments)
    return result if isinstance(result, int) else 0


def _nobodys_bug(error: Exception) -> InputRefused | None:
    """What this machine or its installation cannot do, as a refusal; None for a bug of ours."""
    if isinstance(error, OSError):  # name too long, no permission, disk full
        return InputRefused(
            f"the system refused: {error.strerror or error}",
            file=_real_name(error.filename),
            next_step=_WHAT_HELPS.get(error.errno or 0, "look at this file or folder, then run the same command again"),
        )
    if isinstance(error, ValueError) and "embedded null" in str(error):
        return InputRefused("a path holds a NUL, which no file name can", next_step="write the path again")
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        module = error.name.split(".")[0]
        part = next((part for part, modules in PARTS.items() if module in modules), None)
        if part is not None:
            return InputRefused(
                f"this command needs the part `{part}`, which is not installed here ({module} is missing)",
                next_step=f'make setup EXTRAS="{part}"',
            )
    return None


def _real_name(name: object) -> str | None:
    """The file that a person knows: not the temporary one beside it or the folder in which it was prepared."""
    if not isinstance(name, str):
        return None
    path = Path(name)
    half_written = _HALF_WRITTEN.fullmatch(path.name)
    if half_written is not None:
        return str(path.with_name(half_written[1]))
    return str(path.parent) if _PREPARED.fullmatch(path.name) else name


def _refuse(refused: RunnerError, arguments: list[str]) -> int:
    if "--json" in arguments:
        with suppress(RunnerError):  # of an output that cannot be written, the same is said below
            write_line(json.dumps(refused.as_json(), ensure_ascii=False, sort_keys=True), for_people=False)
    write_line(f"error: {refused}", error=True)
    return refused.exit_code


def _refuse_usage(error: click.ClickException, arguments: list[str]) -> int:
    """A wrong call in the form of every other refusal; what it said alone is click's."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return 2
    context = error.ctx if isinstance(error, click.UsageError) else None
    help_of = context.command_path if context is not None else _command_of(arguments)
    what = error.format_message().rstrip(".")
    for words, ours in (
        ("is not a valid integer range", "is no whole number"),
        ("is not a valid integer", "is no whole number"),
    ):
        what = what.replace(words, ours)
    if isinstance(error, click.MissingParameter) and isinstance(error.param, click.Option) and error.param.help:
        what += f". {error.param.help.rstrip('.')}"
    refused = InputRefused(what, next_step=f"{help_of} --help")
    return _refuse(refused, arguments)


def _command_of(arguments: list[str]) -> str:
    """`runner note`, where click did not get as far as to know it."""
    return next((f"runner {word}" for word in arguments if word in COMMANDS), "runner")


def _report_bug(error: Exception, arguments: list[str]) -> int:
    """Say that it is our fault; the traceback goes to a file that can be sent to us."""
    with tempfile.NamedTemporaryFile("w", prefix="runner-bug-", suffix=".txt", delete=False, encoding="utf-8") as file:
        traceback.print_exception(error, file=file)
    what = f"internal error: {type(error).__name__}: {error}"
    if "--json" in arguments:
        bug = RunnerError(what, next_step=f"report it with {file.name}")
        with suppress(RunnerError):
            write_line(json.dumps(bug.as_json(), ensure_ascii=False, sort_keys=True), for_people=False)
    write_line(what, error=True)
    write_line(f"  This is a bug in runner {__version__}; please report it with {file.name}", error=True)
    if os.environ.get("RUNNER_DEBUG"):
        traceback.print_exception(error)
    return 1
