"""The tests for real cards, looked at without one: on a sound card none of them may be red (issue 6)."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests" / "gpu" / "test_real_card.py"

# On a sound card too torch warns, which `filterwarnings = ["error"]` would make an error of: its check of waits
# when it is set (THCPModule_cudaSetSyncDebugMode: after that took effect), the compiler when it is imported.
SOUND_CARD = """
import warnings, pytest, tests.gpu.test_real_card as real

pytestmark = [mark for mark in real.pytestmark if mark.name == "filterwarnings"]

def test_what_torch_warns_of_on_a_sound_card():
    warnings.warn("Synchronization debug mode is a prototype feature and does not yet detect all", UserWarning)
    warnings.warn("`torch.jit.script_method` is deprecated.", DeprecationWarning)
    warnings.warn("TensorFloat32 tensor cores for float32 matrix multiplication available", UserWarning)
"""


def test_warnings_of_a_sound_card_fail_no_test(tmp_path: Path) -> None:
    probe = tmp_path / "test_sound_card.py"
    probe.write_text(SOUND_CARD, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    done = subprocess.run(
        [*command, "--rootdir", str(ROOT), str(probe)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_m20_the_check_of_waits_is_always_taken_back() -> None:
    """Setting it may raise with its effect done: every later test in the process would fail at its first wait."""
    tree = ast.parse(FILE.read_text(encoding="utf-8"))
    set_inside = {
        node.lineno
        for attempt in ast.walk(tree)
        if isinstance(attempt, ast.Try) and "default" in "".join(map(ast.unparse, attempt.finalbody))
        for statement in attempt.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and "set_sync_debug_mode" in ast.unparse(node.func)
    }
    every = {
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and "set_sync_debug_mode" in ast.unparse(node.func)
        and "default" not in ast.unparse(node)
    }
    assert every and every == set_inside
