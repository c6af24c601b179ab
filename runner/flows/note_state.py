"""Whether the note of a campaign is that of its records: signed, signed before something changed, or never."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.checks import SIGNED_LIST, note_id
from runner.seal.sums import SignedList, parse_list


@dataclass(frozen=True)
class NoteState:
    """`decision_id`: name of the decision as it stands; `signed_id`: that of the signed note, None without one.

    `later_rows`: attempts that were recorded after the note was signed, judged or not.
    """

    decision_id: str
    signed_id: str | None
    later_rows: int

    @property
    def stale(self) -> bool:
        """The note says something else than the campaign would say now."""
        return self.signed_id is not None and (self.signed_id != self.decision_id or self.later_rows > 0)

    @property
    def why(self) -> str | None:
        """What happened since the note was signed; None if nothing did."""
        if not self.stale:
            return None
        rows = f"{self.later_rows} attempt{'s' * (self.later_rows != 1)} recorded" if self.later_rows else ""
        decided = "decided again" if self.signed_id != self.decision_id else ""
        return " and ".join(word for word in (rows, decided) if word) + " since it was signed"

    @property
    def words(self) -> str:
        """`note X`, `note X, which is stale: ...`, or that there is none; a decision is never called a note."""
        if self.signed_id is None:
            return "decided, no note signed"
        return f"note {self.signed_id}" + (f", which is stale: {self.why}" if self.stale else "")


def note_state(campaign: Campaign) -> NoteState:
    """Names and rows are compared; whether files still fit is the matter of `runner verify`."""
    signed = _signed(campaign)
    listed = set() if signed is None else {name for name in signed.files if name.startswith("records/attempts/")}
    later = 0 if signed is None else sum(campaign.relative(row) not in listed for row in _rows(campaign))
    return NoteState(note_id(campaign), None if signed is None else signed.note_id, later)


def _rows(campaign: Campaign) -> list[Path]:
    return sorted(path for path in campaign.attempts.glob("*.json") if not path.name.startswith("."))


def _signed(campaign: Campaign) -> SignedList | None:
    path = campaign.note / SIGNED_LIST.removeprefix("note/")
    try:
        return parse_list(path.read_bytes(), file=path)
    except (OSError, InputRefused):  # none, or a spoilt one: nobody signed that
        return None
