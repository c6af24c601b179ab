"""Every rule of the method and every recorded case is named by a test that proves it."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
RULES = 53


def functions(text: str) -> list[tuple[str, str]]:
    """Name and docstring of each test: the head of a file proves nothing."""
    return [
        (node.name, ast.get_docstring(node) or "")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


@cache
def named() -> frozenset[str]:
    """Rules that a test names (`M12`, also `test_m12_...`) and cases (`CO-01`, also `test_co_01_...`) of test files."""
    found: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        if path != Path(__file__).resolve():
            text = path.read_text(encoding="utf-8")
            for name, words in functions(text):
                found |= {
                    f"M{number}" for number in re.findall(r"(?<![A-Za-z0-9])M([1-9][0-9]?)(?![A-Za-z0-9])", words)
                }
                found |= {f"M{number}" for number in re.findall(r"_m([1-9][0-9]?)(?=_|\b)", name)}
            found |= {f"{area.upper()}-{number}" for area, number in re.findall(r"([A-Za-z]{2})[-_](\d\d)", text)}
    return frozenset(found)


def test_every_rule_of_the_method_has_a_test() -> None:
    lost = [f"M{number}" for number in range(1, RULES + 1) if f"M{number}" not in named()]
    assert not lost, "no test names these rules of the method"


def test_every_case_has_a_test() -> None:
    lost = [path.name for path in sorted((TESTS / "cases").iterdir()) if path.is_dir() and path.name not in named()]
    assert not lost, "no test names these cases"


def test_the_search_itself_finds_and_misses() -> None:
    assert {"M11", "CO-01"} <= named()
    assert not {f"M{RULES + 1}", "XX-99"} & named()
    assert functions('"""M7"""\ndef helper():\n    """M8"""\ndef test_x():\n    """M9"""\n') == [("test_x", "M9")]
