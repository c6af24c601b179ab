"""A run of minutes names a failing test when it fails (issue 2: a newcomer's `make test`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_a_failing_test_is_named_before_the_run_has_ended(workers: list[str], tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import time, pytest\n"
        "def test_fails(): assert 1 == 2, 'this is why'\n"
        "@pytest.fixture\ndef broken(): raise OSError('no disk')\n"
        "def test_cannot_begin(broken): pass\n"
        "def test_lasts():\n    time.sleep(2)\n",
        encoding="utf-8",
    )
    call = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", *workers, "--color=no"]
    with subprocess.Popen(
        [*call, "--rootdir", str(tmp_path), "-c", "/dev/null", str(tmp_path / "test_it.py")],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as running:  # fmt: skip
        assert running.stdout is not None
        lines = list(running.stdout)
    assert running.wait(30) == 1
    said = "".join(lines)
    for name, why in (("test_fails", "this is why"), ("test_cannot_begin", "no disk")):
        (line,) = [line for line in lines if line.startswith("failed just now: ") and name in line]
        assert why in line
        assert said.index(line) < said.index("=== FAILURES") and said.index(line) < said.index("=== ERRORS")
    assert "test_lasts" not in "".join(line for line in lines if line.startswith("failed just now"))
