"""Where the files of a campaign are. One place for names, so that every stage finds them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from runner.errors import InputRefused, show_value


@dataclass(frozen=True)
class Campaign:
    """A campaign folder (`CAMPAIGN=dir`); all paths below it."""

    root: Path

    @property
    def protocol_dir(self) -> Path:
        return self.root / "protocol"

    @property
    def protocol(self) -> Path:
        return self.protocol_dir / "quality-protocol.toml"

    @property
    def lock(self) -> Path:
        return self.protocol_dir / "protocol.lock.json"

    @property
    def lock_signature(self) -> Path:
        return self.protocol_dir / "protocol.lock.json.sig"

    @property
    def plan(self) -> Path:
        return self.protocol_dir / "plan.toml"

    @property
    def repricing(self) -> Path:
        return self.protocol_dir / "repriced-from.json"

    @property
    def baseline_dir(self) -> Path:
        return self.protocol_dir / "baseline"

    @property
    def tariffs(self) -> Path:
        return self.root / "tariffs.csv"

    @property
    def templates(self) -> Path:
        return self.root / "templates"

    @property
    def records(self) -> Path:
        return self.root / "records"

    @property
    def attempts(self) -> Path:
        return self.records / "attempts"

    @property
    def journals(self) -> Path:
        return self.records / "journals"

    @property
    def manifests(self) -> Path:
        return self.records / "manifests"

    @property
    def predictions(self) -> Path:
        return self.records / "predictions"

    @property
    def memory(self) -> Path:
        return self.records / "memory"

    @property
    def verdicts(self) -> Path:
        return self.root / "verdicts"

    @property
    def paired(self) -> Path:
        return self.verdicts / "paired"

    @property
    def note(self) -> Path:
        return self.root / "note"

    @property
    def decision(self) -> Path:
        return self.note / "decision.json"

    @property
    def balance(self) -> Path:
        return self.note / "balance.json"

    @property
    def archive(self) -> Path:
        return self.root / "archive"

    def relative(self, path: Path) -> str:
        """Path of a campaign file as records hold it: relative, with `/`."""
        return path.resolve().relative_to(self.root.resolve()).as_posix()

    def inside(self, relative: str) -> Path:
        """Path for a recorded name; one that would leave the campaign folder is refused."""
        pure = PurePosixPath(relative)
        if pure.is_absolute() or ".." in pure.parts or "\\" in relative or not pure.parts:
            raise InputRefused(
                "a recorded path leaves the campaign folder",
                value=relative,
                next_step="restore the record from its copy; paths in records stay inside the campaign",
            )
        path = self.root / pure
        if not path.resolve().is_relative_to(self.root.resolve()):
            raise InputRefused(
                f"{show_value(relative)} is a link out of the campaign folder",
                next_step="put the file itself in the place of the link",
            )
        return path
