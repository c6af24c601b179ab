"""The lock file goes with its holder, and still nobody ever holds it beside another (issue 2, "Bad input")."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import pytest

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.files import campaign_lock

ROOT = Path(__file__).parents[2]
CONTEST = """
import os, pathlib, sys, time
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.files import campaign_lock
root = pathlib.Path(sys.argv[1])
held = 0
end = time.monotonic() + 60
while held < 100 and time.monotonic() < end:
    try:
        with campaign_lock(Campaign(root)):
            os.close(os.open(root / "inside", os.O_CREAT | os.O_EXCL))
            os.unlink(root / "inside")
            held += 1
    except InputRefused:
        pass
print(held)
"""


def test_many_that_come_and_go_never_hold_the_lock_together_and_leave_nothing(tmp_path: Path) -> None:
    """`inside` is made exclusively: two holders at once would end one of them with an error."""
    contestants = [
        subprocess.Popen(
            [sys.executable, "-c", CONTEST, str(tmp_path)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for contestant in contestants:
        out, error = contestant.communicate(timeout=120)
        assert contestant.returncode == 0, error
        assert int(out) == 100
    assert list(tmp_path.iterdir()) == []


def test_a_lock_on_a_file_that_its_holder_has_removed_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between opening and locking the last holder may remove the file: the new one in the folder is what counts."""
    campaign = Campaign(tmp_path)
    path = campaign.records / ".lock"
    flock, calls = fcntl.flock, []

    def late(stream: TextIO, operation: int) -> None:
        if not calls:
            path.unlink()
        calls.append(operation)
        flock(stream, operation)

    monkeypatch.setattr("runner.evidence.files.fcntl.flock", late)
    with campaign_lock(campaign):
        assert len(calls) == 2, "the first one was given back"
        monkeypatch.undo()
        with pytest.raises(InputRefused, match="another measurement"), campaign_lock(campaign):
            pass
    assert list(tmp_path.iterdir()) == []


def test_records_that_are_no_folder_are_one_message(tmp_path: Path) -> None:
    makers: list[Callable[[Path], object]] = [lambda path: path.write_text("x"), lambda path: path.symlink_to("no")]
    for make in makers:
        make(tmp_path / "records")
        with pytest.raises(InputRefused, match="cannot be made"), campaign_lock(Campaign(tmp_path)):
            pass
        (tmp_path / "records").unlink()
