"""A recorded path never leaves the campaign folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign


def test_a_path_inside_is_found_and_recorded_with_slashes(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    path = campaign.inside("records/predictions/a.parquet")
    assert path == tmp_path / "records" / "predictions" / "a.parquet"
    assert campaign.relative(path) == "records/predictions/a.parquet"


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/../../b", "a\\b", "", "."])
def test_a_path_that_leaves_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputRefused):
        Campaign(tmp_path).inside(name)


def test_a_link_that_leaves_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "campaign"
    root.mkdir()
    (root / "records").symlink_to(tmp_path)
    with pytest.raises(InputRefused, match="link out of the campaign"):
        Campaign(root).inside("records/secret")
