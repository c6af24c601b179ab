"""DESIGN 3 and 4: what users read is in words; numbers of our rules (M31) and cases (MO-04) stay in code and tests."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.errors import without_rule_numbers
from runner.protocol.describe import field_reference, schema_json

ROOT = Path(__file__).resolve().parents[2]
NUMBER = re.compile(r"(?<![\w-])(?:M[1-9]\d?|(?:CO|EX|ME|MO|NO|PR|QU|RE|TI)-\d\d)\b")
MODULES = sorted((ROOT / "runner").rglob("*.py"))
TEXTS = [
    # hardware.md names the tests that ran on each card, by their cases.
    *(path for path in (ROOT / "docs").glob("*.md") if path.name != "hardware.md"),
    ROOT / "README.md", ROOT / "tariffs.csv", *(ROOT / "protocol").glob("*.*"),
    *(ROOT / "templates").glob("*.*"), *(ROOT / "templates").glob("*/*.qmd"), *(ROOT / "templates").glob("*/*.po"),
]  # fmt: skip


def literals(source: str) -> Iterator[ast.Constant]:
    """Texts that the code can show: all but docstrings and the sentences under constants."""
    tree = ast.parse(source)
    silent = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            yield node


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT / "runner").as_posix())
def test_no_text_in_the_code_shows_a_rule_number(path: Path) -> None:
    shown = [
        (node.lineno, node.value) for node in literals(path.read_text(encoding="utf-8")) if NUMBER.search(node.value)
    ]
    assert shown == []


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_no_document_shows_a_rule_number(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    shown = [line for line in lines if NUMBER.search(line) and not line.startswith(("#:", "#."))]
    assert shown == []


def test_reference_and_schema_are_in_words() -> None:
    """They are made from docstrings, which do name the rules."""
    assert not NUMBER.search(field_reference()) and not NUMBER.search(schema_json().decode("utf-8"))


@pytest.mark.parametrize(
    ("docstring", "shown"),
    [("A rule (M14): more.", "A rule: more."), ("A rule (M1, M2 to M5).", "A rule."), ("A cut (MO-04).", "A cut."),
     ("On a B200 (M is a unit).", "On a B200 (M is a unit).")],
)  # fmt: skip
def test_rule_numbers_are_taken_out(docstring: str, shown: str) -> None:
    assert without_rule_numbers(docstring) == shown


def test_the_check_finds_a_number_in_a_text_and_lets_docstrings_be() -> None:
    source = '"""Rule (M1)."""\nTEXT = "see (M2)"\n"""Why (M3)."""\n'
    assert [node.value for node in literals(source) if NUMBER.search(node.value)] == ["see (M2)"]
