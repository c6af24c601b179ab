"""A campaign whose note is made in another folder first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runner.evidence.campaign import Campaign


@dataclass(frozen=True)
class StagedCampaign(Campaign):
    """A campaign whose note lies in another folder for now, yet is named as it will be."""

    staged_note: Path

    @property
    def note(self) -> Path:
        return self.staged_note

    def relative(self, path: Path) -> str:
        staged = self.staged_note.resolve()
        if path.resolve().is_relative_to(staged):
            return Path("note", path.resolve().relative_to(staged)).as_posix()
        return super().relative(path)
