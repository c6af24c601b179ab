"""Broken bytes never give a traceback: a corpus is read, or refused with its file (exit 2)."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.corpus.read import read_corpus
from runner.errors import InputRefused

CSV = 'id,text,label\r\n001,"a ""b""\r\nc",x\r\n002,é,NA\r\n'.encode()
JSONL = '{"id":"001","text":"a \\"b\\"","label":1.0}\n{"id":2,"text":"é\\u2028","label":"NA"}\n'.encode()


def parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": ["001", "002"], "text": ["a", "é"], "label": ["x", "NA"]}), sink)
    return sink.getvalue()


VALID: dict[str, bytes] = {"c.csv": CSV, "c.tsv": CSV.replace(b",", b"\t"), "c.jsonl": JSONL, "c.parquet": parquet()}


@pytest.mark.parametrize("name", VALID)
@given(data=st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_changed_bytes_are_read_or_refused(name: str, data: st.DataObject, tmp_path: Path) -> None:
    """A few bytes replaced, cut out or put in at random places of a valid file."""
    content = bytearray(VALID[name])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content)))
        length = data.draw(st.integers(0, 3))
        content[place : place + length] = data.draw(st.binary(max_size=3))
    path = tmp_path / name
    path.write_bytes(bytes(content))
    try:
        corpus = read_corpus(path)
    except InputRefused as error:
        assert name in str(error)
    else:
        assert len({item.id for item in corpus.documents}) == len(corpus.documents)


@given(content=st.binary(max_size=200), name=st.sampled_from(sorted(VALID)))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_read_or_refused(content: bytes, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with contextlib.suppress(InputRefused):
        read_corpus(path)


UNUSUAL: dict[str, Callable[[], pa.Table]] = {
    "dictionary": lambda: pa.table(
        {"id": ["1", "2"], "text": ["a", "b"], "label": pa.array(["x", "y"]).dictionary_encode()}
    ),
    "large": lambda: pa.table(
        {"id": pa.array([1, 2], pa.uint64()), "text": pa.array(["a", "b"], pa.large_string()), "label": ["x", "y"]}
    ),
    "view": lambda: pa.table({"id": ["1", "2"], "text": pa.array(["a", "b"], pa.string_view()), "label": ["x", "y"]}),
    "boolean": lambda: pa.table({"id": ["1", "2"], "text": ["a", "b"], "label": [True, False]}),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_parquet_types_are_text(name: str, tmp_path: Path) -> None:
    """M7"""
    pq.write_table(UNUSUAL[name](), tmp_path / "c.parquet")
    documents = read_corpus(tmp_path / "c.parquet").documents
    assert [(item.id, item.text) for item in documents] == [("1", "a"), ("2", "b")]
    assert [item.label for item in documents] == (["true", "false"] if name == "boolean" else ["x", "y"])


@pytest.mark.parametrize(
    ("column", "message"),
    [("text", "cannot be read as text"), ("label", "the label is empty"), ("id", "the id is empty")],
)
def test_parquet_nulls_and_times_are_refused(column: str, message: str, tmp_path: Path) -> None:
    """M7: a null is not the text `None`."""
    table = {"id": ["1", "2"], "text": ["a", "b"], "label": ["x", "y"]}
    changed: dict[str, object] = {**table, column: [None, "z"]}
    if column == "text":
        changed[column] = pa.array([1, 2], pa.timestamp("s"))
    pq.write_table(pa.table(changed), tmp_path / "c.parquet")
    with pytest.raises(InputRefused, match=message):
        read_corpus(tmp_path / "c.parquet")


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    """Here a folder's entry that leads nowhere."""
    (tmp_path / "c.csv").symlink_to(tmp_path / "nowhere.csv")
    with pytest.raises(InputRefused, match="does not exist"):
        read_corpus(tmp_path / "c.csv")


def test_a_field_that_is_never_closed_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text('id,text,label\n1,a,x\n2,"b,y\n' + "3,c,z\n" * 1000, encoding="utf-8")
    with pytest.raises(InputRefused) as caught:
        read_corpus(path)
    assert caught.value.line == 3
