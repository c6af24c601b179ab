"""M52: the rehearsal finds out before paid hours whether records can be written, not only whether there is room."""

from __future__ import annotations

import os
from pathlib import Path

from runner.evidence.campaign import Campaign
from runner.flows.rehearse import _disk


def test_m52_a_records_folder_that_takes_no_file_is_said(tmp_path: Path) -> None:
    """A folder of /proc takes no file, whoever asks; a folder that is not there yet is looked at where it will be."""
    assert _disk(Campaign(tmp_path)).passed and os.listdir(tmp_path) == []  # noqa: PTH208
    (tmp_path / "records").symlink_to("/proc/self")
    found = _disk(Campaign(tmp_path))
    assert not found.passed and "records cannot be written: " in found.found
