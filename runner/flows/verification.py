"""What a check of a note found: steps in the order of the argument, one bottom line, words for a buyer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from runner.errors import RunnerError, show_value
from runner.note.checked import FRAME
from runner.note.speech import Voice, recognise, voice_of

StepStatus = Literal["passed", "failed", "not checked"]
_MARKS = {"passed": "frame.ok", "failed": "frame.failed"}
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
    "page 1 of the PDF": ("note/decision-note",),
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
    "page 1 of the PDF": ("decision", "text of the note"),
    "pages of the PDF": (
        "frozen protocol",
        "chain of attempts",
        "verdicts",
        "decision",
        "text of the note",
        "page 1 of the PDF",
    ),
    "rental record": ("decision",),
}
LIMITS = (str(FRAME["limits"]),)


@dataclass(frozen=True)
class Step:
    """One check: what it is about, what was found, and how to do it without our code.

    `files`: paths that were found to be other ones. `follows`: the earlier failed check that explains this one.
    `says`: what page 1 must say by the evidence, in the language of the note (of page 1 itself: its headline).
    `other_version`: what made the note, where its text could not be compared for that reason.
    """

    name: str
    status: StepStatus
    finding: str
    details: tuple[str, ...] = ()
    command: str | None = None
    files: tuple[str, ...] = ()
    follows: str | None = None
    says: tuple[str, ...] = ()
    other_version: str | None = None

    def lines(self, voice: Voice) -> Iterator[str]:
        """For people, in the language of `voice`."""
        name = voice.step(self.name)
        if self.follows is not None:
            mark, rest = voice.form("frame.failed").lower(), voice.form("frame.follows", cause_step=self.follows)
            yield f"  [{mark}] {voice.labelled(name, rest)}"
            return
        mark = voice.form(_MARKS[self.status]) if self.status in _MARKS else "--"
        yield f"  [{mark:^6}] {voice.labelled(name, voice.say(self.finding))}"
        yield from (f"           - {voice.say(detail)}" for detail in self.details[:_MOST_DETAILS])
        if len(self.details) > _MOST_DETAILS:
            yield f"           - {voice.form('frame.more', n_count=str(len(self.details) - _MOST_DETAILS))}"

    def as_json(self) -> dict[str, Any]:
        """Stable codes, values and the English sentences, whatever the language of the report."""
        found = recognise(self.finding)
        codes = [recognise(detail) for detail in self.details]
        return {
            "name": self.name,
            "status": self.status,
            "finding": self.finding,
            "code": None if found is None else found.code,
            "values": {} if found is None else dict(found.values),
            "details": list(self.details),
            "detail_codes": [None if one is None else one.code for one in codes],
            "command": self.command,
            "files": list(self.files),
            "follows": self.follows,
            "page_one_must_say": list(self.says),
        }


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
        """What a buyer may quote; it never says more than was checked."""
        return self.ending(voice_of("en"))

    def ending(self, voice: Voice) -> str:
        """The bottom line in the language of `voice`."""
        failed = [step.name for step in self.steps if step.status == "failed" and step.follows is None]
        if failed:
            following = [step.name for step in self.steps if step.follows is not None]
            names = {"failed_steps": ", ".join(failed)}
            if following:
                return voice.form("end.refused-also", **names, following_steps=", ".join(following))
            return voice.form("end.refused", **names)
        if self.trusted:
            who = "end.trusted"
        elif self.key is not None and self.key.startswith("local test key"):
            who = "end.test-key"
        else:
            who = "end.nobody-pdf" if self.kind == "PDF alone" else "end.nobody"
        left = any(step.status == "not checked" for step in self.steps)
        sentences = [voice.form("end.checked" if left else "end.all", signer_why=str(FRAME[who]))]
        other = next((step.other_version for step in self.steps if step.other_version), None)
        if other is not None:
            sentences.append(voice.form("end.other-version", made_by=other))
        pages = self._pages()
        return " ".join([*sentences, *([voice.form(pages)] if pages else [])])

    def _pages(self) -> str | None:
        """Code of the sentence about the PDF's pages; None where all of them were made again."""
        found = {step.name: step.status for step in self.steps}
        if found.get("pages of the PDF", "passed") == "passed":
            return None
        if not found.get("page 1 of the PDF") == found.get("text of the note") == "passed":
            return "end.unread"
        return "end.page-one-alone" if self.kind == "PDF alone" else "end.page-one"

    def lines(self, language: str = "en") -> list[str]:
        """The report for people. Raises: InputRefused for a language without a catalogue."""
        voice = voice_of(language)
        head = [
            voice.subject(self.kind, self.subject),
            voice.form("frame.unknown") if self.note_id is None else voice.form("frame.note", note=self.note_id),
        ]
        if self.key is not None:
            head.append(voice.form("frame.key", signer_key=self.key))
        body = [line for step in self.steps for line in step.lines(voice)]
        limits = ["", *map(voice.say, LIMITS)] if self.accepted else []
        return [*head, "", *body, *self._must_say(voice), *self._commands(voice), *limits, "", self.ending(voice)]

    def _must_say(self, voice: Voice) -> list[str]:
        """Headline and facts by the evidence, for an eye that compares them with page 1."""
        says = next((step.says for step in self.steps if step.name == "decision"), ())
        other = any(step.other_version for step in self.steps)
        title = voice.form("frame.own-words" if other else "frame.must")
        return ["", title, *(f"  {line}" for line in says)] if says else []

    def _commands(self, voice: Voice) -> list[str]:
        named = [(voice.step(step.name), step.command) for step in self.steps if step.command]
        lines = [f"  {voice.labelled(name, voice.command(text))}" for name, text in named if len(text) < _LONG]
        long = [step.name for step in self.steps if step.command and len(step.command) >= _LONG]
        if lines:
            lines = ["", voice.form("frame.commands-pdf" if self.kind == "PDF alone" else "frame.commands"), *lines]
        return lines + ([f"  {voice.form('frame.long', long_steps=', '.join(long))}"] if long else [])

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
            "steps": [step.as_json() for step in self.steps],
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
