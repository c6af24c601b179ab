"""A campaign whose note is made in another folder first, and takes the old one's place in one step."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.files import sync_folder

_PREFIX, _OLD = ".note-", "-old"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


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


@contextmanager
def staged_note(campaign: Campaign) -> Iterator[StagedCampaign]:
    """A folder beside `note/` that takes its place if the block ends well.

    One at a time: a second one for the same campaign is refused. Whatever a killed one left behind is
    removed, or put back if it is the only note there is.
    """
    if campaign.note.is_symlink():
        raise InputRefused(
            "note/ is a link, which cannot be replaced by a new note",
            file=campaign.note,
            next_step="move the link away and run the same command again: note/ becomes a folder",
        )
    with _alone(campaign):
        _clear(campaign)
        place = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=campaign.root))
        try:
            place.chmod(0o755)
            yield StagedCampaign(campaign.root, place)
            _swap(place, campaign.note)
            sync_folder(campaign.root)
        finally:
            shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _alone(campaign: Campaign) -> Iterator[None]:
    """A lock on the campaign folder itself: no file is left, and a killed process leaves no lock."""
    if not campaign.root.is_dir():
        raise InputRefused(
            "there is no such campaign folder",
            file=campaign.root,
            next_step="name the folder that holds protocol/ (--campaign FOLDER)",
        )
    descriptor = os.open(campaign.root, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputRefused(
                "another report is being written in this campaign",
                file=campaign.root,
                next_step="wait until it has ended, then run the same command again",
            ) from None
        yield
    finally:
        os.close(descriptor)


def _clear(campaign: Campaign) -> None:
    for left in sorted(campaign.root.glob(f"{_PREFIX}*{_OLD}")):
        if not campaign.note.exists():
            left.rename(campaign.note)
    for left in campaign.root.glob(f"{_PREFIX}*"):
        shutil.rmtree(left, ignore_errors=True)


def _swap(place: Path, note: Path) -> None:
    """The new note is there and the old one is not, in one step where the system can do that."""
    if not note.exists():
        place.rename(note)
        return
    if _exchange(place, note):
        return  # the old note now lies in `place`, which the caller removes
    old = place.with_name(place.name + _OLD)
    note.rename(old)
    try:
        place.rename(note)
    except BaseException:
        old.rename(note)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _exchange(first: Path, second: Path) -> bool:
    """Swap two folders atomically (Linux); False where system or file system cannot."""
    try:
        swap = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    done = swap(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE)
    return bool(done == 0)
