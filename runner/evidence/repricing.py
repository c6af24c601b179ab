"""The link from a repriced note to the note whose measurements it uses: nothing was measured again."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from runner.evidence.campaign import Campaign
from runner.evidence.model import DecimalText, Record, SafeName, Sha256


class Repricing(Record):
    """`protocol/repriced-from.json`, newest first note last: what was decided before, under which tariffs."""

    schema_version: Literal["repricing/1"] = "repricing/1"
    note_id: SafeName
    earlier_note_ids: tuple[SafeName, ...] = Field(default=(), description="if that one was repriced itself")
    tariffs_sha256: Sha256 = Field(description="of the tariffs that this note replaces")
    outcome: Literal["chosen", "undecided"]
    chosen: str | None
    committed_cost: DecimalText | None
    currency: str | None


def read_repricing(campaign: Campaign) -> Repricing | None:
    """The link, or None for a note of its own measurements."""
    return Repricing.load(campaign.repricing) if campaign.repricing.is_file() else None
