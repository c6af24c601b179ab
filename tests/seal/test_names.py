"""Names in lists and archives (NO-12): nothing is cleaned silently."""

from __future__ import annotations

import pytest

from runner.seal.names import bad_name, name_findings


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../outside.txt", "leads out"),
        ("ok/../../x", "leads out"),
        ("/abs.txt", "absolute"),
        ("C:/abs.txt", "absolute"),
        ("ok/..\\win.txt", "backslash"),
        ("a//b", "shortest"),
        ("./a", "shortest"),
        ("a/", "shortest"),
        ("", "empty"),
        ("a\nb", "control"),
        ("a\u202eb", "control"),
        ("a" * 256, "too long"),
        ("a/" * 600 + "b", "too long"),
    ],
)
def test_bad_names_are_named_with_their_reason(name: str, reason: str) -> None:
    assert reason in str(bad_name(name))


def test_good_names_pass() -> None:
    names = ("note/decision-note.pdf", "records/attempts/b1-0.json", "protocol/corpus/straße ğ.csv", "..a/b")
    assert name_findings(names) == ()


@pytest.mark.parametrize(
    ("names", "finding"),
    [
        (("a", "a"), "'a' stands twice"),
        (("Note/a", "note/b"), "the folder 'note' is the same as 'Note'"),
        (("A.txt", "a.txt"), "'a.txt' is the same as 'A.txt'"),
        (("stra\u00dfe", "STRASSE"), "is the same as"),
        (("\u00e9", "e\u0301"), "is the same as"),
        (("a", "a/b"), "'a' is a file and a folder at once"),
    ],
)
def test_clashing_names_are_found(names: tuple[str, ...], finding: str) -> None:
    assert any(finding in line for line in name_findings(names))
