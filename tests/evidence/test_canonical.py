"""Strict JSON and fingerprints: RE-08 (no NaN), NO-10 (canonical content), M8 (two fingerprints)."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import InputRefused
from runner.evidence.canonical import (
    canonical_json,
    content_sha256,
    loads_strict,
    pretty_json,
    records_sha256,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": Infinity}', '{"a": -Infinity}'])
def test_re_08_constants_that_are_not_json_are_refused(text: str) -> None:
    with pytest.raises(InputRefused, match="is not allowed in JSON"):
        loads_strict(text, file="records.jsonl", line=2)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_re_08_the_line_of_the_constant_is_named_and_no_word_in_a_text(word: str) -> None:
    """RE-08, DESIGN 4: a file of many lines; the same word inside of a text, after an escaped quote, is no constant."""
    text = '{\n  "note": "a \\" NaN, Infinity",\n  "metric":\n    ' + word + "\n}\n"
    with pytest.raises(InputRefused) as caught:
        loads_strict(text, file="row.json")
    assert (caught.value.line, caught.value.value) == (4, word)


def test_re_08_nothing_writes_nan() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        pretty_json({"value": float("nan")})


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"a": 1, "a": 2}', "stands twice"),
        (b"\xff", "not UTF-8"),
        (b"\xef\xbb\xbf{}", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"[" * 200_000, "nested too deeply"),
    ],
)
def test_malformed_json_is_one_refusal(data: bytes, words: str) -> None:
    with pytest.raises(InputRefused, match=words):
        loads_strict(data)


def test_no_10_key_order_blanks_and_escapes_do_not_change_the_content() -> None:
    a = loads_strict('{"threshold":"0.90","metric":"accuracy","labels":["neg","pos"],"note":"Maß"}')
    b = loads_strict('{ "labels" : ["neg", "pos"],\n "note": "Ma\\u00df", "metric":"accuracy","threshold":"0.90"}')
    c = loads_strict('{"threshold":"0.90","metric":"accuracy","labels":["pos","neg"],"note":"Maß"}')
    expected = "b1f8dbd0f40c98d7ea3b1331db8049bd35eae443d9bb5460f0008098d603ce81"
    assert content_sha256(a) == content_sha256(b) == expected
    assert content_sha256(c) != expected
    assert hashlib.sha256(canonical_json(a)).hexdigest() == expected


@given(json_values)
def test_what_is_written_is_read_back(value: object) -> None:
    assert json.dumps(loads_strict(pretty_json(value))) == json.dumps(json.loads(json.dumps(value, sort_keys=True)))


@given(st.lists(st.lists(st.text(), max_size=3), max_size=4), st.lists(st.lists(st.text(), max_size=3), max_size=4))
def test_m8_record_fingerprints_are_equal_only_for_equal_records(one: list[list[str]], two: list[list[str]]) -> None:
    assert (records_sha256(one) == records_sha256(two)) == (one == two)
