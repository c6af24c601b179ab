"""Test files need names of their own: pytest imports them without packages."""

from __future__ import annotations

from collections import Counter
from pathlib import Path


def test_no_two_test_files_share_a_name() -> None:
    names = Counter(path.name for path in Path(__file__).resolve().parents[1].rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
