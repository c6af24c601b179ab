"""Identity rules (M7) and fingerprints (M8) of corpora, on the files of the CO cases and beyond."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.corpus.read import Corpus, iter_table, read_corpus
from runner.corpus.write import csv_bytes
from runner.errors import InputRefused
from runner.evidence.canonical import sha256_file

CASES = Path(__file__).parent.parent / "cases"


def written(path: Path, corpus: Corpus) -> Corpus:
    """The corpus written by us and read again."""
    rows = [(item.id, item.text, item.label or "") for item in corpus.documents]
    path.write_bytes(csv_bytes(("id", "text", "label"), rows))
    return read_corpus(path)


def refused(path: Path, **options: object) -> InputRefused:
    with pytest.raises(InputRefused) as caught:
        read_corpus(path, **options)  # type: ignore[arg-type]
    return caught.value


def make(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_co_01_a_byte_order_mark_is_noted_once_and_ignored() -> None:
    """CO-01, M8"""
    marked, plain = (read_corpus(CASES / "CO-01" / name) for name in ("corpus_bom.csv", "corpus_plain.csv"))
    assert [item.id for item in marked.documents] == ["a1", "a2"]
    assert marked.documents == plain.documents
    assert marked.records_sha256 == plain.records_sha256
    assert marked.bytes_sha256.startswith("279d9912712ae7d2") and plain.bytes_sha256.startswith("65321b94198dbfda")
    assert [text for text in marked.warnings if "byte-order mark" in text] == list(marked.warnings)
    assert len(marked.warnings) == 1 and not plain.warnings


def test_co_02_line_breaks_in_fields_are_kept(tmp_path: Path) -> None:
    """CO-02, M8"""
    corpus = read_corpus(CASES / "CO-02" / "corpus.csv")
    found = [(item.id, len(item.text), item.line) for item in corpus.documents]
    assert found == [("b1", 17, 2), ("b2", 8, 4), ("b3", 4, 5)]
    assert corpus.documents[1].text == 'say "hi"' and corpus.documents[2].text == "a\r\nb"
    again = written(tmp_path / "again.csv", corpus)
    assert [item.text for item in again.documents] == [item.text for item in corpus.documents]
    assert again.records_sha256 == corpus.records_sha256


def test_co_04_ids_that_differ_by_blanks_are_refused_and_shown() -> None:
    """CO-04, M7"""
    error = refused(CASES / "CO-04" / "corpus.csv")
    assert error.exit_code == 2 and "2 confusable pairs" in error.what
    assert "line 2 and line 3: 'r1' and ' r1'" in str(error)
    assert "line 4 and line 5: 'r2' and 'r2\\t'" in str(error)


def test_co_06_composed_and_decomposed_twins_are_refused() -> None:
    """CO-06, M7: and texts are left as they are."""
    error = refused(CASES / "CO-06" / "corpus.csv")
    assert "line 2 and line 3" in str(error)
    assert "U+00E9 against U+0065 U+0301" in str(error)
    assert read_corpus(CASES / "CO-06" / "corpus_ok.csv").documents[0].id == "café-1"


def test_co_06_texts_are_not_normalised(tmp_path: Path) -> None:
    """CO-06, M8"""
    composed = read_corpus(make(tmp_path / "a.csv", "id,text,label\n1,caf\u00e9,x\n"))
    decomposed = read_corpus(make(tmp_path / "b.csv", "id,text,label\n1,cafe\u0301,x\n"))
    assert composed.records_sha256 != decomposed.records_sha256


@pytest.mark.parametrize(
    ("case", "ids"),
    [
        ("CO-07", ["001", "002", "010"]),
        ("CO-09", ["9007199254740992", "9007199254740993", "7"]),
    ],
)
def test_ids_that_look_like_numbers_stay_text(case: str, ids: list[str], tmp_path: Path) -> None:
    """CO-07, CO-09, M7"""
    corpus = read_corpus(CASES / case / "corpus.csv")
    assert [item.id for item in corpus.documents] == ids
    assert [item.id for item in written(tmp_path / "again.csv", corpus).documents] == ids


def test_co_10_labels_spelled_like_missing_values_are_labels() -> None:
    """CO-10, M7"""
    corpus = read_corpus(CASES / "CO-10" / "labels_ok.csv")
    assert sorted(item.label or "" for item in corpus.documents) == ["NA", "None", "TRUE", "n/a", "nan", "null"]


def test_co_10_an_empty_label_is_refused_with_its_line() -> None:
    """CO-10"""
    error = refused(CASES / "CO-10" / "labels_missing.csv")
    assert (error.line, error.column, error.value) == (3, "label", "")
    assert "line 3, id 'y2', column label: the label is empty" in str(error)
    assert "line 2" not in str(error)


def test_co_13_texts_without_any_character_are_refused() -> None:
    """CO-13"""
    error = refused(CASES / "CO-13" / "corpus.csv")
    for line, identifier in ((2, "e1"), (3, "e2"), (4, "e3")):
        assert f"line {line}, id '{identifier}', column text: no text" in str(error)
    assert "e4" not in str(error) and "e5" not in str(error)
    allowed = read_corpus(CASES / "CO-13" / "corpus.csv", allow_empty_texts=True)
    assert [item.id for item in allowed.documents] == ["e1", "e2", "e3", "e4", "e5"]


def test_co_13_an_invisible_text_is_kept_with_a_warning() -> None:
    """CO-13"""
    corpus = read_corpus(CASES / "CO-13" / "corpus_ok.csv")
    assert len(corpus.documents) == 2
    (warning,) = corpus.warnings
    assert "'e4'" in warning and "no visible character (U+200B)" in warning


CASE_TWINS = [("Doc", "doc"), ("STRASSE", "straße"), ("ΣΑΣ", "σας"), ("\u01c4", "\u01c6")]


@pytest.mark.parametrize(("one", "other"), CASE_TWINS)
def test_case_twins_are_refused_unless_allowed(one: str, other: str, tmp_path: Path) -> None:
    """M7: full case folding."""
    path = make(tmp_path / "c.csv", f"id,text,label\n{one},x,y\n{other},x,y\n")
    assert "differ only by letter case" in str(refused(path))
    assert [item.id for item in read_corpus(path, allow_case_twins=True).documents] == [one, other]


def test_allowed_case_twins_do_not_hide_other_clashes(tmp_path: Path) -> None:
    """M7"""
    path = make(tmp_path / "c.csv", "id,text,label\na,x,y\nA,x,y\na ,x,y\nA,x,y\n")
    error = refused(path, allow_case_twins=True)
    assert "1 duplicate id, 1 confusable pair" in error.what
    assert "line 2 and line 4" in str(error) and "line 3 and line 5: the id 'A' stands twice" in str(error)


def test_duplicates_and_empty_ids_name_every_line(tmp_path: Path) -> None:
    """M7: lines are those of the file, multi-line fields included."""
    path = make(tmp_path / "c.csv", 'id,text,label\na,"1\n2",y\na,x,y\n"  ",x,y\n')
    error = refused(path)
    assert "line 2 and line 4: the id 'a' stands twice" in str(error)
    assert "line 5, column id: the id is empty" in str(error)


def test_nul_and_line_separator_are_characters(tmp_path: Path) -> None:
    """M7: neither ends a text or a record."""
    for name, text in (
        ("c.csv", "id,text,label\n1,a\0b,x\n2,a\u2028b\u0085c,y\n"),
        ("c.jsonl", '{"id":"1","text":"a\\u0000b","label":"x"}\n{"id":"2","text":"a\u2028b\u0085c","label":"y"}\n'),
    ):
        corpus = read_corpus(make(tmp_path / name, text))
        assert [(item.text, item.line) for item in corpus.documents] == [
            ("a\0b", corpus.documents[0].line),
            ("a\u2028b\u0085c", corpus.documents[0].line + 1),
        ]
        assert any("NUL" in warning for warning in corpus.warnings)


def test_the_three_kinds_give_the_same_records(tmp_path: Path) -> None:
    """M8: CSV, JSON Lines, Parquet and a folder have one record fingerprint."""
    rows = [("001", 'a "b"\r\nc', "NA"), ("9007199254740993", "ü\u2028", "TRUE")]
    make(tmp_path / "c.csv", csv_bytes(("id", "text", "label"), rows))
    lines = [json.dumps(dict(zip(("id", "text", "label"), row, strict=True))) for row in rows]
    make(tmp_path / "c.jsonl", "\ufeff" + "\r\n".join(lines) + "\r\n\r\n")
    columns = [list(column) for column in zip(*rows, strict=True)]
    pq.write_table(pa.table(columns, names=["id", "text", "label"]), tmp_path / "c.parquet")
    folder = tmp_path / "folder"
    folder.mkdir()
    make(folder / "part-1.csv", csv_bytes(("label", "id", "text"), [("NA", "001", rows[0][1])]))
    make(folder / "part-2.csv", csv_bytes(("id", "text", "label"), rows[1:]))
    corpora = [read_corpus(tmp_path / name) for name in ("c.csv", "c.jsonl", "c.parquet", "folder")]
    assert len({corpus.records_sha256 for corpus in corpora}) == 1
    assert len({corpus.bytes_sha256 for corpus in corpora}) == 4
    assert corpora[0].bytes_sha256 == sha256_file(tmp_path / "c.csv")


def test_numbers_in_json_and_parquet_keep_their_digits(tmp_path: Path) -> None:
    """M7, CO-09: never through a float."""
    path = make(tmp_path / "c.jsonl", '{"id":9007199254740993,"text":"x","label":1.0}\n')
    assert next(iter_table(path, ["id", "label"])) == (1, ("9007199254740993", "1.0"))
    pq.write_table(pa.table({"id": [9007199254740993], "text": ["x"], "label": [1]}), tmp_path / "c.parquet")
    document = read_corpus(tmp_path / "c.parquet").documents[0]
    assert (document.id, document.label, document.line) == ("9007199254740993", "1", 1)
    pq.write_table(pa.table({"id": [1.0], "text": ["x"], "label": ["y"]}), tmp_path / "f.parquet")
    assert "floating-point" in str(refused(tmp_path / "f.parquet"))


def test_nested_values_come_as_json(tmp_path: Path) -> None:
    """Scores of predictions: numbers exactly as written."""
    path = make(tmp_path / "p.jsonl", '{"scores":[0.10,1e-3],"more":{"a":[true,null]},"no":null}\n')
    assert next(iter_table(path, ["scores", "more", "no"])) == (1, ("[0.10,1e-3]", '{"a":[true,null]}', None))


BROKEN = {
    "empty.csv": ("", "the file is empty"),
    "header.csv": ("id,text,label\n", "holds no document"),
    "column.csv": ("ID,text,label\n1,x,y\n", "is 'ID' meant?"),
    "semicolon.csv": ("id;text;label\n1;x;y\n", "fields seem to be separated by ';'"),
    "twice.csv": ("id,id,text,label\n1,1,x,y\n", "stands twice in the header"),
    "wide.csv": ("id,text,label\n1,a,b,c\n", "has 4 fields, the header has 3"),
    "quote.csv": ('id,text,label\n1,"a"b,c\n', "not valid CSV"),
    "open.csv": ('id,text,label\n1,"a,c\n', "not valid CSV"),
    "gap.csv": ("id,text,label\n1,x,y\n\n2,x,y\n", "empty line stands between"),
    "bytes.csv": (b"id,text,label\n1,caf\xe9,y\n", "byte 0xe9"),
    "wide16.csv": ("id,text,label\n1,x,y\n".encode("utf-16"), "UTF-16"),
    "nan.jsonl": ('{"id":NaN,"text":"x","label":"y"}', "NaN is not allowed"),
    "key.jsonl": ('{"id":"1","id":"2","text":"x","label":"y"}', "stands twice"),
    "missing.jsonl": ('{"id":"1","text":"x"}', "the key is missing"),
    "list.jsonl": ("[1]", "one JSON object"),
    "half.jsonl": ('{"id":"1","text":"\\ud800","label":"y"}', "surrogate"),
    "bytes.jsonl": (b'{"id":"\xff"}', "byte 0xff"),
    "deep.jsonl": ("[" * 100_000, "JSON"),
    "not.parquet": ("PAR1 no", "not a readable Parquet"),
    "table.xlsx": ("x", "kind of table"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_with_their_place(name: str, tmp_path: Path) -> None:
    """Exit 2, one message, the file named; never a traceback."""
    content, message = BROKEN[name]
    error = refused(make(tmp_path / name, content))
    assert message in str(error) and name in str(error)
    if name == "bytes.csv":
        assert (error.line, error.column) == (2, 6)


def test_a_missing_file_and_an_empty_or_mixed_folder_are_refused(tmp_path: Path) -> None:
    assert "does not exist" in str(refused(tmp_path / "no.csv"))
    assert "holds no table" in str(refused(tmp_path))
    make(tmp_path / "a.csv", "id,text,label\n1,x,y\n")
    make(tmp_path / "b.jsonl", '{"id":"2","text":"x","label":"y"}\n')
    assert "mixes several kinds" in str(refused(tmp_path))


def test_twins_across_files_of_a_folder_name_both_files(tmp_path: Path) -> None:
    """M7"""
    for name in ("a.csv", "b.csv"):
        make(tmp_path / name, "id,text,label\n1,x,y\n")
    assert "a.csv:2 and b.csv:2: the id '1' stands twice" in str(refused(tmp_path))


def test_groups_and_unlabelled_corpora(tmp_path: Path) -> None:
    path = make(tmp_path / "c.csv", "id,text,stratum,note\n1,x,short,\n")
    corpus = read_corpus(path, label_column=None, group_columns=("stratum", "note"))
    assert corpus.documents[0].label is None and corpus.documents[0].groups == ("short", "")
    assert "two purposes" in str(refused(path, label_column="stratum", group_columns=("stratum",)))


def test_labels_that_look_alike_are_only_a_warning(tmp_path: Path) -> None:
    path = make(tmp_path / "c.csv", "id,text,label\n1,x,pos\n2,x,Pos\n")
    assert read_corpus(path).warnings == ("labels that look alike are kept as different: 'Pos', 'pos'",)


def test_reading_needs_no_locale() -> None:
    """Same fingerprint under LC_ALL=C in another process."""
    path = CASES / "CO-06" / "corpus_ok.csv"
    script = f"""
from pathlib import Path
from runner.corpus.read import read_corpus
print(read_corpus(Path({str(path)!r})).records_sha256)
"""
    found = subprocess.run(
        [sys.executable, "-c", script],
        env={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == read_corpus(path).records_sha256


visible = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: bool(text.strip()))


@given(texts=st.lists(visible, min_size=1, max_size=5), labels=st.lists(visible, min_size=5, max_size=5))
@settings(max_examples=60, deadline=None)
def test_any_text_survives_writing_and_reading(
    texts: list[str], labels: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """M7, M8: code point by code point; another order is another fingerprint."""
    path = tmp_path_factory.mktemp("round") / "c.csv"
    rows = [(f"{number:03}", text, label) for number, (text, label) in enumerate(zip(texts, labels, strict=False))]
    path.write_bytes(csv_bytes(("id", "text", "label"), rows))
    corpus = read_corpus(path)
    assert [(item.id, item.text, item.label) for item in corpus.documents] == rows
    path.write_bytes(csv_bytes(("id", "text", "label"), rows[::-1]))
    assert (read_corpus(path).records_sha256 == corpus.records_sha256) == (len(rows) == 1)
