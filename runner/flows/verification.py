"""What a check of a note found: steps in the order of the argument, one bottom line, words for a buyer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from runner.errors import RunnerError, show_value

StepStatus = Literal["passed", "failed", "not checked"]
_MARKS = {"passed": "ok", "failed": "FAILED", "not checked": "--"}
_MOST_DETAILS = 20
_LONG = 200  # characters of a command
# What each check reads. A file that an earlier check found to be another one explains why these fail too.
_READS: Mapping[str, tuple[str, ...]] = {
    "note": ("note/",),
    "PDF signature": ("note/decision-note.pdf", "note/signer.json"),
    "attachments": ("",),
    "frozen protocol": ("protocol/",),
    "model": ("protocol/protocol.lock",),
    "chain of attempts": ("records/attempts/", "records/chain/"),
    "files of the attempts": ("records/",),
    "verdicts": ("records/", "verdicts/", "protocol/"),
    "decision": ("records/", "verdicts/", "protocol/", "tariffs.csv", "note/"),
    "text of the note": ("",),
    "pages of the PDF": ("",),
    "rental record": ("note/",),
}
# Checks that rest on the result of an earlier one, whatever its files.
_RESTS_ON: Mapping[str, tuple[str, ...]] = {
    "note": ("signed list",),
    "model": ("frozen protocol",),
    "attachments": ("frozen protocol",),
    "verdicts": ("frozen protocol", "chain of attempts", "files of the attempts"),
    "decision": ("frozen protocol", "chain of attempts", "verdicts"),
    "text of the note": ("frozen protocol", "chain of attempts", "verdicts", "decision"),
    "pages of the PDF": ("frozen protocol", "chain of attempts", "verdicts", "decision", "text of the note"),
    "rental record": ("decision",),
}
_UNREAD = " What the pages of the PDF say was not compared with the evidence."
LIMITS = (
    "No check of files can find: measurements made up from the start and signed; rows of a machine that was left out "
    "whole, or rows that the owner of the key cut off at the end of a chain with all that belongs to them; when the "
    "protocol was frozen (only an outside time stamp of the lock shows that); prices, dates and rentals that were "
    "entered wrongly. Ask for the rental's invoice, or measure again: runner again.",
)


@dataclass(frozen=True)
class Step:
    """One check: what it is about, what was found, and how to do it without our code.

    `files`: paths that were found to be other ones. `follows`: the earlier failed check that explains this one.
    """

    name: str
    status: StepStatus
    finding: str
    details: tuple[str, ...] = ()
    command: str | None = None
    files: tuple[str, ...] = ()
    follows: str | None = None

    def lines(self) -> Iterator[str]:
        if self.follows is not None:
            yield f'  [failed] {self.name}: fails as well, because of "{self.follows}" above'
            return
        yield f"  [{_MARKS[self.status]:^6}] {self.name}: {self.finding}"
        yield from (f"           - {detail}" for detail in self.details[:_MOST_DETAILS])
        if len(self.details) > _MOST_DETAILS:
            yield f"           - and {len(self.details) - _MOST_DETAILS} more (--json lists all)"


@dataclass(frozen=True)
class Verification:
    """The verdict on a note. `trusted`: a signers file was given and names who signed."""

    subject: str
    kind: Literal["folder", "archive", "PDF alone"]
    note_id: str | None
    key: str | None
    trusted: bool
    steps: tuple[Step, ...]

    @property
    def accepted(self) -> bool:
        return all(step.status != "failed" for step in self.steps)

    @property
    def bottom_line(self) -> str:
        """One sentence that a buyer may quote; it never says more than was checked."""
        failed = [step.name for step in self.steps if step.status == "failed" and step.follows is None]
        if failed:
            following = [step.name for step in self.steps if step.follows is not None]
            therefore = f"; therefore also: {', '.join(following)}" if following else ""
            return f"NOT ACCEPTED: {', '.join(failed)}{therefore}"
        left = sum(step.status == "not checked" for step in self.steps)
        what = "everything that was checked fits" if left else "everything fits"
        if self.trusted:
            who = "and it was signed by somebody you named"
        elif self.key is not None and self.key.startswith("local test key"):
            who = "but it is signed with a local test key, which shows consistency only, not who signed"
        else:
            option = " or --certificate FILE" if self.kind == "PDF alone" else ""
            who = f"but who signed was not checked (give --signers FILE{option})"
        pages = next((step for step in self.steps if step.name == "pages of the PDF"), None)
        unread = "" if pages is None or pages.status == "passed" else _UNREAD
        return f"{what[0].upper()}{what[1:]}, {who}.{unread}"

    def lines(self) -> list[str]:
        head = [f"{self.kind}: {self.subject}", f"note: {self.note_id or 'unknown'}"]
        if self.key is not None:
            head.append(f"signed with: {self.key}")
        body = [line for step in self.steps for line in step.lines()]
        short = [f"  {step.name}: {step.command}" for step in self.steps if step.command and len(step.command) < _LONG]
        long = [step.name for step in self.steps if step.command and len(step.command) >= _LONG]
        commands = []
        if short:
            alone = (
                "for the PDF, and for its evidence in /tmp/evidence, where the line of attachments (--json) takes it"
            )
            where = alone if self.kind == "PDF alone" else "in the campaign folder"
            commands = ["", f"the same without our code, {where}:", *short]
        if long:
            commands.append(f"  {', '.join(long)}: one line of Python each, in docs/checking.md and with --json")
        limits = ["", *LIMITS] if self.accepted else []
        return [*head, "", *body, *commands, *limits, "", self.bottom_line]

    def as_json(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "kind": self.kind,
            "note_id": self.note_id,
            "key": self.key,
            "accepted": self.accepted,
            "trusted": self.trusted,
            "bottom_line": self.bottom_line,
            "limits": list(LIMITS),
            "steps": [
                {
                    "name": step.name,
                    "status": step.status,
                    "finding": step.finding,
                    "details": list(step.details),
                    "command": step.command,
                    "files": list(step.files),
                    "follows": step.follows,
                }
                for step in self.steps
            ],
        }


def with_causes(steps: Iterable[Step]) -> tuple[Step, ...]:
    """The same steps; a failed one that an earlier failed one explains says so.

    One changed row breaks its file's hash, the chain, its verdict and the decision: that is one fault
    with consequences. A consequence may hide a fault of its own, which shows when the first is mended.
    """
    done: list[Step] = []
    for step in steps:
        causes = [one for one in done if one.status == "failed" and _explains(one, step)]
        follows = (causes[0].follows or causes[0].name) if step.status == "failed" and causes else None
        done.append(replace(step, follows=follows))
    return tuple(done)


def _explains(cause: Step, step: Step) -> bool:
    if cause.name in _RESTS_ON.get(step.name, ()):
        return True
    return any(file.startswith(_READS.get(step.name, ())) for file in cause.files)


def attempt_step(name: str, check: Callable[[], Step], root: Path) -> Step:
    """Run a check; whatever it stumbles over is its finding, so that the other checks still run.

    Evidence comes from strangers: what makes our own code fail is not accepted either. Paths below
    `root` are shown as the evidence names them.
    """

    def shown(text: str) -> str:
        return text.replace(f"{root.resolve()}/", "").replace(f"{root}/", "")

    try:
        step = check()
    except RunnerError as error:
        place = f" ({error.file})" if error.file else ""
        step = Step(name, "failed", error.what + place, error.details)
    except Exception as error:
        step = Step(name, "failed", f"could not be checked ({type(error).__name__}: {show_value(error)})")
    return replace(step, finding=shown(step.finding), details=tuple(shown(detail) for detail in step.details))
