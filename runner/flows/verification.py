"""What a check of a note found: steps in the order of the argument, one bottom line, words for a buyer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from runner.errors import RunnerError, show_value

StepStatus = Literal["passed", "failed", "not checked"]
_MARKS = {"passed": "ok", "failed": "FAILED", "not checked": "--"}
_MOST_DETAILS = 20


@dataclass(frozen=True)
class Step:
    """One check: what it is about, what was found, and how to do it without our code."""

    name: str
    status: StepStatus
    finding: str
    details: tuple[str, ...] = ()
    command: str | None = None

    def lines(self) -> Iterator[str]:
        yield f"  [{_MARKS[self.status]:^6}] {self.name}: {self.finding}"
        yield from (f"           - {detail}" for detail in self.details[:_MOST_DETAILS])
        if len(self.details) > _MOST_DETAILS:
            yield f"           - and {len(self.details) - _MOST_DETAILS} more (--json lists all)"
        if self.command is not None:
            yield f"           without our code: {self.command}"


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
        failed = [step.name for step in self.steps if step.status == "failed"]
        if failed:
            return f"NOT ACCEPTED: {', '.join(failed)}"
        left = sum(step.status == "not checked" for step in self.steps)
        what = "everything that was checked fits" if left else "everything fits"
        if self.trusted:
            who = "and it was signed by somebody you named"
        elif self.key is not None and self.key.startswith("local test key"):
            who = "but it is signed with a local test key, which shows consistency only, not who signed"
        else:
            option = "--certificate FILE" if self.kind == "PDF alone" else "--signers FILE"
            who = f"but who signed was not checked (give {option})"
        return f"{what[0].upper()}{what[1:]}, {who}."

    def lines(self) -> list[str]:
        head = [f"{self.kind}: {self.subject}", f"note: {self.note_id or 'unknown'}"]
        if self.key is not None:
            head.append(f"signed with: {self.key}")
        return [*head, "", *(line for step in self.steps for line in step.lines()), "", self.bottom_line]

    def as_json(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "kind": self.kind,
            "note_id": self.note_id,
            "key": self.key,
            "accepted": self.accepted,
            "trusted": self.trusted,
            "bottom_line": self.bottom_line,
            "steps": [
                {
                    "name": step.name,
                    "status": step.status,
                    "finding": step.finding,
                    "details": list(step.details),
                    "command": step.command,
                }
                for step in self.steps
            ],
        }


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
