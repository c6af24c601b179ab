"""docs/pricing.md: every example is run, and shows exactly what the command prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from runner.cli.main import run
from runner.pricing.core import OPTIONAL_COLUMNS, REQUIRED_COLUMNS
from runner.pricing.tasks import KINDS
from runner.protocol.schema import Plan, Task

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "pricing.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```sh\nrunner (.*)\n```\n\n```text\n((?:.*\n)*?)```$", TEXT, re.MULTILINE)


@pytest.mark.parametrize(("command", "shown"), EXAMPLES, ids=[command for command, _ in EXAMPLES])
def test_examples_show_what_is_printed(
    command: str, shown: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    status = run(shlex.split(command))
    out, err = capsys.readouterr()
    assert out + err == shown
    assert status == (2 if shown.startswith("error:") else 0)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 5


def test_every_column_and_key_is_explained() -> None:
    for name in (*REQUIRED_COLUMNS, *OPTIONAL_COLUMNS, *KINDS, *Task.model_fields, *Plan.model_fields):
        if name not in ("schema_version", "task", "expense"):
            assert f"`{name}`" in TEXT or f"`{name} =" in TEXT, name
