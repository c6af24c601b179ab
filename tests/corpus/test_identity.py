"""Properties of identity (M7) and overlap (M5): what counts as the same id or text."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.corpus.identity import IdentityCheck, difference, differing_parts, trimmed, twin_key
from runner.corpus.overlap import find_overlap, normalised_text, refuse_overlap, sameness
from runner.corpus.read import Document
from runner.errors import InputRefused

ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(lambda text: bool(trimmed(text)))
changes = st.sampled_from(
    [
        lambda text: " " + text,
        lambda text: text + "\t",
        lambda text: text + "\u00a0",
        lambda text: "\u200b" + text,
        lambda text: unicodedata.normalize("NFD", text),
        lambda text: unicodedata.normalize("NFC", text),
        str.casefold,
    ]
)


@given(ids, changes)
@settings(max_examples=100, deadline=None)
def test_a_changed_spelling_is_a_twin_and_never_the_same(identifier: str, change) -> None:  # type: ignore[no-untyped-def]
    """M7: either the very same id, or a clash; the ids themselves stay as they are."""
    other = change(identifier)
    assert twin_key(other) == twin_key(identifier)
    check = IdentityCheck()
    check.add(identifier, "line 2")
    check.add(other, "line 3")
    (clash,) = check.clashes
    assert (clash.first, clash.second) == (identifier, other)
    assert (clash.by == "nothing") == (identifier == other)


@given(st.lists(ids, unique=True, max_size=12))
@settings(max_examples=60, deadline=None)
def test_clashes_are_found_exactly_where_keys_are_equal(names: list[str]) -> None:
    """M7: no id is a twin of one with another key, in any order."""
    check = IdentityCheck()
    for number, name in enumerate(names, start=2):
        check.add(name, f"line {number}")
    assert check.twins == len(names) - len({twin_key(name) for name in names})
    assert check.duplicates == 0


@given(ids, ids)
@settings(max_examples=100, deadline=None)
def test_case_twins_are_allowed_only_if_case_explains_all(one: str, other: str) -> None:
    """M7"""
    if one == other or twin_key(one) != twin_key(other):
        return
    check = IdentityCheck(allow_case_twins=True)
    check.add(one, "a")
    check.add(other, "b")
    only_case = trimmed(one) != trimmed(other) and (
        unicodedata.normalize("NFC", trimmed(one)) != unicodedata.normalize("NFC", trimmed(other))
    )
    assert (check.twins == 0) == only_case


@pytest.mark.parametrize(
    ("one", "other", "by"),
    [
        ("a", "a", "nothing"),
        ("a", "a ", "surrounding blanks"),
        ("é", "e\u0301", "Unicode normalisation"),
        ("ß", "SS", "letter case"),
        ("İ", "i\u0307", "letter case"),
        ("K", "\u212a", "Unicode normalisation"),
    ],
)
def test_the_difference_is_named(one: str, other: str, by: str) -> None:
    """CO-04, CO-06"""
    assert twin_key(one) == twin_key(other)
    assert difference(one, other) == by


def test_look_alikes_of_other_letters_stay_different() -> None:
    """Latin a and Cyrillic а are different letters; so are 1 and l."""
    assert twin_key("a") != twin_key("\u0430") and twin_key("1") != twin_key("l")
    assert twin_key("001") != twin_key("1")


def test_only_the_differing_part_is_shown() -> None:
    """CO-06"""
    assert differing_parts("caf\u00e9-1", "cafe\u0301-1") == ("\u00e9", "e\u0301")
    assert differing_parts("aa", "aaa") == ("", "a")


def document(identifier: str, text: str) -> Document:
    return Document(identifier, text, "x", (), 2)


@pytest.mark.parametrize(
    ("one", "other", "by"),
    [
        ("a b", "a b", "exactly"),
        ("a b", " a\n b ", "after blank collapsing"),
        ("\ufb01sh", "fish", "after Unicode normalisation"),
        ("A b", "a  B", "after case folding"),
    ],
)
def test_texts_are_the_same_to_a_reader(one: str, other: str, by: str) -> None:
    """CO-14, M5"""
    assert normalised_text(one) == normalised_text(other)
    assert sameness(one, other) == by
    overlap = find_overlap([document("t", one)], [document("f", other)])
    assert [pair.by for pair in overlap.shared_texts] == [by] and overlap.ids_disjoint


def test_shared_ids_and_their_twins_are_overlap_too() -> None:
    """M5"""
    overlap = find_overlap([document("A1", "x")], [document("a1", "y"), document("b", "z")])
    assert overlap.shared_ids == ("a1",) and not overlap.ids_disjoint
    with pytest.raises(InputRefused, match="share 1 ids and 0 texts"):
        refuse_overlap(overlap)
    refuse_overlap(find_overlap([document("c", "x")], [document("a1", "y")]))


def test_long_lists_and_texts_are_shortened() -> None:
    """CO-14: texts are never printed in full."""
    texts = [f"{number} " + "word " * 100 for number in range(40)]
    overlap = find_overlap(
        [document(f"t{number}", text) for number, text in enumerate(texts)],
        [document(f"f{number}", text) for number, text in enumerate(texts)],
    )
    details = overlap.details()
    assert len(details) == 22 and details[-1] == "and 20 more pairs of texts"
    assert all(len(line) < 200 for line in details)
