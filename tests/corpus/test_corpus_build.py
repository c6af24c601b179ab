"""The corpus builder (M13, M5, M7, M8) through its command, on the CO cases and on published layouts."""

from __future__ import annotations

import csv
import json
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.cli.main import run
from runner.corpus.overlap import normalised_text
from runner.corpus.read import read_corpus
from runner.corpus.sample import shares
from runner.corpus.similar import near_duplicates
from runner.corpus.source import read_label_names
from runner.corpus.strata import Band, WhitespaceWords, check_bands
from runner.corpus.write import csv_bytes
from runner.errors import InputRefused

CASES = Path(__file__).parent.parent / "cases"
PUBLISHED = Path(__file__).parent / "published"
MODEL = Path(__file__).parents[2] / "protocol" / "model"
WORDS = ("--tokenizer", "words")


class Shop:
    """A campaign folder in which `runner corpus` is called."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root, self.capsys = root, capsys

    def _call(self, source: Path, *options: str) -> int:
        return run(["--campaign", str(self.root), "corpus", "--from", str(source), *options])

    def build(self, source: Path, *options: str, name: str = "mine") -> dict[str, Any]:
        status = self._call(source, "--name", name, "--json", *options)
        out, error = self.capsys.readouterr()
        assert status == 0, error
        facts: dict[str, Any] = json.loads(out)
        return facts

    def refuse(self, source: Path, *options: str) -> str:
        """The message of a refusal; nothing may have been written."""
        before = sorted(self.root.rglob("*"))
        status = self._call(source, "--name", "mine", *options)
        out, error = self.capsys.readouterr()
        assert (status, out) == (2, ""), error
        assert sorted(self.root.rglob("*")) == before
        return error

    def folder(self, name: str = "mine") -> Path:
        return self.root / "protocol" / "corpus" / name


@pytest.fixture
def shop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shop:
    (tmp_path / "campaign").mkdir()
    return Shop(tmp_path / "campaign", capsys)


def make(path: Path, rows: list[tuple[str, ...]], header: tuple[str, ...] = ("id", "text", "label")) -> Path:
    path.write_bytes(csv_bytes(header, rows))
    return path


def texts(count: int, label: str, words: int, start: int = 0) -> list[tuple[str, ...]]:
    """Different texts of so many words."""
    numbers = range(start, start + count)
    return [(f"{label}-{words}-{n}", " ".join(f"w{n}x{k}" for k in range(words)), label) for n in numbers]


# ---- the cases -----------------------------------------------------------------------------------


def test_co_01_the_mark_is_noted_once_and_the_records_are_equal(shop: Shop) -> None:
    """CO-01, M8"""
    marked = shop.build(CASES / "CO-01" / "corpus_bom.csv", "--all", *WORDS, name="marked")
    plain = shop.build(CASES / "CO-01" / "corpus_plain.csv", "--all", *WORDS, name="plain")
    assert [note for note in marked["notes"] if "byte-order mark" in note] == marked["notes"]
    assert len(marked["notes"]) == 1 and plain["notes"] == []
    assert marked["splits"]["final"]["records_sha256"] == plain["splits"]["final"]["records_sha256"]
    assert marked["source"]["sha256"].startswith("279d9912712ae7d2")
    assert plain["source"]["sha256"].startswith("65321b94198dbfda")
    assert marked["build_sha256"] == plain["build_sha256"]


def test_co_02_multi_line_texts_come_out_as_they_went_in(shop: Shop) -> None:
    """CO-02"""
    source = CASES / "CO-02" / "corpus.csv"
    facts = shop.build(source, "--all", *WORDS)
    built = read_corpus(shop.folder() / "final.csv")
    with_strata = read_corpus(shop.folder() / "final.csv", group_columns=("stratum",))
    assert facts["splits"]["final"]["records_sha256"] == with_strata.records_sha256
    assert facts["splits"]["final"]["bytes_sha256"] == with_strata.bytes_sha256
    assert [(item.id, item.text) for item in built.documents] == [
        (item.id, item.text) for item in read_corpus(source).documents
    ]
    assert [len(item.text) for item in built.documents] == [17, 8, 4]
    assert built.records_sha256 == read_corpus(source).records_sha256


@pytest.mark.parametrize(
    ("case", "file", "said"),
    [
        (
            "CO-04",
            "corpus.csv",
            ["2 confusable pairs", "line 2 and line 3: 'r1' and ' r1'", "line 4 and line 5: 'r2' and 'r2\\t'"],
        ),
        ("CO-06", "corpus.csv", ["line 2 and line 3", "U+00E9 against U+0065 U+0301"]),
        ("CO-10", "labels_missing.csv", ["line 3, id 'y2', column label: the label is empty"]),
        ("CO-13", "corpus.csv", ["line 2, id 'e1'", "line 3, id 'e2'", "line 4, id 'e3'", "no text"]),
    ],
)
def test_identity_is_refused_with_every_line(case: str, file: str, said: list[str], shop: Shop) -> None:
    """CO-04, CO-06, CO-10, CO-13, M7: exit 2 and nothing written."""
    message = shop.refuse(CASES / case / file, "--all", *WORDS)
    for part in said:
        assert part in message
    assert "next:" in message and "line 2," not in message.replace("line 2, id 'e1'", "")


@pytest.mark.parametrize(
    ("case", "file"), [("CO-07", "corpus.csv"), ("CO-09", "corpus.csv"), ("CO-10", "labels_ok.csv")]
)
def test_what_looks_like_numbers_or_missing_stays_text(case: str, file: str, shop: Shop) -> None:
    """CO-07, CO-09, CO-10"""
    shop.build(CASES / case / file, "--all", *WORDS)
    before, after = read_corpus(CASES / case / file).documents, read_corpus(shop.folder() / "final.csv").documents
    assert [(item.id, item.label) for item in after] == [(item.id, item.label) for item in before]


def test_co_13_an_invisible_text_is_one_warning(shop: Shop) -> None:
    """CO-13"""
    facts = shop.build(CASES / "CO-13" / "corpus_ok.csv", "--all", *WORDS)
    assert len(facts["notes"]) == 1 and "'e4'" in facts["notes"][0] and "U+200B" in facts["notes"][0]
    kept = shop.build(CASES / "CO-13" / "corpus.csv", "--all", "--allow-empty-texts", *WORDS, name="allowed")
    assert kept["splits"]["final"]["documents"] == 5
    left = shop.build(CASES / "CO-13" / "corpus.csv", "--all", "--skip-empty", *WORDS, name="left")
    assert left["splits"]["final"]["documents"] == 2 and left["source"]["left_out_empty"] == 3


def test_co_14_splits_that_share_texts_are_refused(shop: Shop) -> None:
    """CO-14, M5: ids disjoint, texts not; only short extracts are shown."""
    message = shop.refuse(
        CASES / "CO-14" / "final.csv", "--tuning-from", str(CASES / "CO-14" / "tuning.csv"), "--all", *WORDS
    )
    assert "ids disjoint: true" in message and "0 ids and 2 texts" in message
    assert "tuning 't2' and final 'f2': texts equal after blank collapsing" in message
    assert "tuning 't1' and final 'f3': texts equal after case folding" in message


CO_15 = ("--band", "short:1-4:3", "--band", "medium:5-8:2", "--band", "long:9+:1", *WORDS)


def test_co_15_limits_are_inclusive_and_counted_by_the_tokenizer(shop: Shop) -> None:
    """CO-15, M13"""
    bands = json.loads((CASES / "CO-15" / "bands.json").read_text(encoding="utf-8"))["bands"]
    assert [f"{band['name']}:{band['min']}" for band in bands] == ["short:1", "medium:5", "long:9"]
    facts = shop.build(CASES / "CO-15" / "corpus.csv", *CO_15)
    strata = facts["splits"]["final"]["strata"]
    assert {name: part["documents"] for name, part in strata.items()} == {"short": 3, "medium": 2, "long": 1}
    rows = {
        item.id: item.groups[0]
        for item in read_corpus(shop.folder() / "final.csv", group_columns=("stratum",)).documents
    }
    assert rows == {"w1": "short", "w2": "short", "w3": "short", "w4": "medium", "w5": "medium", "w6": "long"}


def test_co_15_special_tokens_change_lengths_and_fingerprint(shop: Shop) -> None:
    """CO-15: nothing is topped up from a neighbour."""
    message = shop.refuse(CASES / "CO-15" / "corpus.csv", *CO_15, "--count-special-tokens")
    assert "short (1 to 4 tokens): 0 of 3, 3 missing" in message
    assert "medium (5 to 8 tokens): 4 of 2" in message and "long (9 or more tokens): 2 of 1" in message
    wide = ("--band", "any:1+:6", *WORDS)
    plain = shop.build(CASES / "CO-15" / "corpus.csv", *wide, name="plain")
    special = shop.build(CASES / "CO-15" / "corpus.csv", *wide, "--count-special-tokens", name="special")
    assert plain["splits"]["final"]["records_sha256"] == special["splits"]["final"]["records_sha256"]
    assert plain["build_sha256"] != special["build_sha256"]
    assert (plain["tokenizer"]["count_special_tokens"], special["tokenizer"]["count_special_tokens"]) == (False, True)


def test_co_15_another_tokenizer_is_another_build(shop: Shop, tmp_path: Path) -> None:
    """CO-15, point 3: same lengths, same documents, yet the fingerprint names the tokenizer that counted."""
    other = tmp_path / "other" / "tokenizer.json"
    other.parent.mkdir()
    content = json.loads((MODEL / "tokenizer.json").read_text(encoding="utf-8"))
    content["model"]["max_input_chars_per_word"] = 101
    other.write_text(json.dumps(content), encoding="utf-8")
    wide = ("--band", "any:1+:6")
    made = [
        shop.build(CASES / "CO-15" / "corpus.csv", *wide, "--tokenizer", str(path), name=name)
        for name, path in (("one", MODEL / "tokenizer.json"), ("again", MODEL / "tokenizer.json"), ("two", other))
    ]
    records = {facts["splits"]["final"]["records_sha256"] for facts in made}
    assert len(records) == 1, "the documents are the same"
    assert made[0]["build_sha256"] == made[1]["build_sha256"] != made[2]["build_sha256"]
    assert made[0]["tokenizer"]["tokenizer_sha256"] != made[2]["tokenizer"]["tokenizer_sha256"]


# ---- sampling ------------------------------------------------------------------------------------


def test_strata_are_exact_classes_keep_their_proportions_and_the_choice_repeats(shop: Shop, tmp_path: Path) -> None:
    """M13: also when the source is in another order; another seed chooses otherwise."""
    rows = texts(60, "a", 3) + texts(30, "b", 3) + texts(10, "c", 3)
    rows += texts(10, "a", 8) + texts(30, "b", 8) + texts(5, "c", 20)
    bands = ("--band", "short:1-4:50", "--band", "medium:5-10:20", "--band", "long:11+:5", *WORDS)
    facts = shop.build(make(tmp_path / "x.csv", rows), *bands)
    strata = facts["splits"]["final"]["strata"]
    assert strata["short"]["classes"] == {"a": 30, "b": 15, "c": 5}
    assert strata["medium"]["classes"] == {"a": 5, "b": 15}
    assert strata["long"]["classes"] == {"c": 5}
    shop.build(make(tmp_path / "y.csv", rows[::-1]), *bands, name="reversed")
    assert (shop.folder() / "final.csv").read_bytes() == (shop.folder("reversed") / "final.csv").read_bytes()
    other = shop.build(tmp_path / "x.csv", *bands, "--seed", "1", name="other")
    assert other["splits"]["final"]["records_sha256"] != facts["splits"]["final"]["records_sha256"]


def test_tuning_and_final_share_no_text_even_if_the_source_repeats_itself(shop: Shop, tmp_path: Path) -> None:
    """M5: every text stands twice in the source, once in capitals."""
    rows = texts(40, "a", 3)
    rows += [(name + "-again", text.upper() + " ", label) for name, text, label in rows]
    facts = shop.build(make(tmp_path / "x.csv", rows), "--band", "any:1+:30", "--tuning", "20", *WORDS)
    assert facts["source"]["repeated_texts"] == 40
    final, tuning = (read_corpus(shop.folder() / f"{split}.csv").documents for split in ("final", "tuning"))
    assert (len(final), len(tuning)) == (30, 20)
    assert not {normalised_text(item.text) for item in final} & {normalised_text(item.text) for item in tuning}
    wanted = ("--band", "any:1+:78", "--tuning", "3", "--out", str(tmp_path / "z"))
    message = shop.refuse(tmp_path / "x.csv", *wanted, *WORDS)
    assert "too few tuning texts" in message and not (tmp_path / "z").exists()


def test_contradicting_labels_are_counted(shop: Shop, tmp_path: Path) -> None:
    rows: list[tuple[str, ...]] = [("1", "same", "a"), ("2", "Same", "b"), ("3", "same ", "a"), ("4", "other", "a")]
    source = make(tmp_path / "x.csv", rows)
    facts = shop.build(source, "--all", *WORDS)
    assert (facts["source"]["repeated_texts"], facts["source"]["repeated_texts_with_other_labels"]) == (2, 1)


def test_contradicting_labels_are_said_and_listed(shop: Shop, tmp_path: Path) -> None:
    """M7, M13: on the terminal with their number and where the list lies; the list has every one of them, no text."""
    rows: list[tuple[str, ...]] = [
        ("1", "once", "a"), ("2", "zwei", "b"), ("3", "same text", "a"), ("4", "ZWEI", "b"),
        ("5", "Same  text", "b"), ("6", "third", "c"), ("7", "third", "a"), ("8", "same text", "a"),
    ]  # fmt: skip
    source = make(tmp_path / "x.csv", rows)
    assert shop._call(source, "--name", "mine", "--all", *WORDS) == 0
    said = shop.capsys.readouterr().out
    listed = shop.folder() / "contradictions.csv"
    assert "4 documents repeat the text of another one, 2 of them with another label" in said
    assert f"the 5 documents with contradicting labels: {listed}" in said
    assert listed.read_text(encoding="utf-8").splitlines() == [
        "group,id,label,place,source,split",
        "1,3,a,line 4,x.csv,final",
        "1,5,b,line 6,x.csv,final",
        "1,8,a,line 9,x.csv,final",
        "2,6,c,line 7,x.csv,final",
        "2,7,a,line 8,x.csv,final",
    ]
    assert "5 documents stand with one text and several labels" in (shop.folder() / "README.md").read_text("utf-8")
    # Built again from corrected data, the old list is gone with the old folder.
    make(source, [row for row in rows if row[0] not in ("5", "7")])
    assert shop._call(source, "--name", "mine", "--all", "--replace", *WORDS) == 0
    said = shop.capsys.readouterr().out
    assert "note: 2 documents repeat the text of another one (blanks and case apart)" in said
    assert "label" not in said.split("written:")[0].replace("labels", "") and not listed.exists()


def test_contradictions_of_a_sample_name_the_split(shop: Shop, tmp_path: Path) -> None:
    """M13: of a sample the list says which of them were taken, and it names both sources of two."""
    rows = [*texts(9, "a", 3), ("x1", "alpha alpha alpha 0", "b")]
    twin = (rows[0][0], rows[0][1])
    source = make(tmp_path / "x.csv", [*rows[:-1], ("x1", twin[1], "b")])
    other = make(tmp_path / "y.csv", [("t1", "tune me", "a"), ("t2", "tune me", "b")])
    shop.build(source, "--band", "short:1-20:4", "--tuning-from", str(other), *WORDS)
    found, chosen = (
        list(csv.DictReader((shop.folder() / name).read_text(encoding="utf-8").splitlines()))
        for name in ("contradictions.csv", "final.csv")
    )
    final = {row["id"] for row in chosen}
    assert [(row["group"], row["id"], row["source"]) for row in found] == [
        ("1", twin[0], "x.csv"), ("1", "x1", "x.csv"), ("2", "t1", "y.csv"), ("2", "t2", "y.csv"),
    ]  # fmt: skip
    assert [row["split"] for row in found] == [
        *("final" if name in final else "" for name in (twin[0], "x1")), "tuning", "tuning",
    ]  # fmt: skip


def test_the_models_tokenizer_counts_and_its_fingerprint_is_kept(shop: Shop, tmp_path: Path) -> None:
    """M13, M8: the demo's own corpus is rebuilt into the strata it was made with."""
    facts = shop.build(
        MODEL.parent / "corpus" / "final.csv",
        "--tokenizer",
        str(MODEL),
        "--band",
        "short:1-32:60",
        "--band",
        "medium:33-128:30",
        "--band",
        "long:129+:10",
        "--tuning",
        "50",
    )
    rows = read_corpus(shop.folder() / "final.csv", group_columns=("stratum",)).documents
    assert Counter(item.groups[0] for item in rows) == {"short": 60, "medium": 30, "long": 10}
    known = read_corpus(MODEL.parent / "corpus" / "final.csv", group_columns=("stratum",)).documents
    strata = {item.id: item.groups[0] for item in known}
    assert all(strata[item.id] == item.groups[0] for item in rows)
    assert facts["tokenizer"]["tokenizer_sha256"] != WhitespaceWords().fingerprint["tokenizer_sha256"]
    assert facts["splits"]["tuning"]["documents"] == 50


def test_lengths_are_counted_by_the_model_of_the_protocol(shop: Shop, tmp_path: Path) -> None:
    """M13: without --tokenizer the frozen model's own; a model of the hub has none at hand."""
    protocol = (MODEL.parent / "quality-protocol.toml").read_text(encoding="utf-8")
    (shop.root / "protocol").mkdir()
    file = shop.root / "protocol" / "quality-protocol.toml"
    file.write_text(protocol.replace('source = "model"', f'source = "{MODEL}"'), encoding="utf-8")
    source = make(tmp_path / "x.csv", [("1", "unbelievable", "a")])
    facts = shop.build(source, "--all")
    assert facts["splits"]["final"]["tokens"] > 1
    file.write_text(protocol.replace('source = "model"', 'source = "some-team/some-model"'), encoding="utf-8")
    assert "no local folder" in shop.refuse(source, "--all", "--out", str(tmp_path / "other"))


def test_folder_data_sheet_plot_and_labels(shop: Shop, tmp_path: Path) -> None:
    """What is written: and a hostile name or label stays on its line."""
    rows = [*texts(8, "a", 3), ("x|y", "one two", "b|<b>\n# x")]
    source = make(tmp_path / "x.csv", rows)
    facts = shop.build(source, "--all", *WORDS, "--licence", "CC0 | ok\n# no", "--permission", "own")
    names = {path.name for path in shop.folder().iterdir()}
    assert names == {"README.md", "corpus.json", "final.csv", "labels.csv", "lengths.svg"}
    sheet = (shop.folder() / "README.md").read_text(encoding="utf-8")
    assert facts["build_sha256"] in sheet and "\n# no" not in sheet and "\n# x" not in sheet
    assert len({line.count("|") - line.count("\\|") for line in sheet.splitlines() if line.startswith("|")}) == 1
    ElementTree.parse(shop.folder() / "lengths.svg")
    labels = (shop.folder() / "labels.csv").read_text(encoding="utf-8")
    assert labels.startswith("id,label,stratum\na-3-0,a,short\n") and "w0x0" not in labels
    stored = json.loads((shop.folder() / "corpus.json").read_text(encoding="utf-8"))
    assert {key: value for key, value in facts.items() if key != "folder"} == stored


def test_an_existing_folder_is_only_replaced_if_asked_and_built_by_us(shop: Shop, tmp_path: Path) -> None:
    source = make(tmp_path / "x.csv", texts(5, "a", 3))
    shop.build(source, "--all", *WORDS)
    assert "is there already" in shop.refuse(source, "--all", *WORDS)
    shop.build(source, "--all", *WORDS, "--replace")
    (shop.folder() / "thesis.docx").write_text("mine", encoding="utf-8")
    assert "not replaced" in shop.refuse(source, "--all", *WORDS, "--replace")
    (shop.folder() / "thesis.docx").unlink()
    (shop.root / "protocol" / "protocol.lock.json").write_text("{}", encoding="utf-8")
    assert "frozen" in shop.refuse(source, "--all", *WORDS, "--replace")


def test_kept_groups_and_the_lines_for_the_protocol(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[tuple[str, ...]] = [("1", "a b", "p", "de"), ("2", "c d", "q", "fr")]
    source = make(tmp_path / "x.csv", rows, ("id", "text", "label", "lang"))
    options = ["--from", str(source), "--all", *WORDS, "--group-column", "lang"]
    status = run(["--campaign", str(tmp_path), "corpus", *options])
    out = capsys.readouterr().out
    assert status == 0
    command = "protocol new --corpus corpus/x/final.csv --group-column stratum --group-column lang"
    assert f"runner --campaign {tmp_path} {command}" in out
    built = read_corpus(tmp_path / "protocol" / "corpus" / "x" / "final.csv", group_columns=("stratum", "lang"))
    assert [item.groups for item in built.documents] == [("short", "de"), ("short", "fr")]


BAD_OPTIONS = {
    "band": (("--band", "short:5"), "NAME:FROM-TO:COUNT"),
    "overlap": (("--band", "a:1-5:1", "--band", "b:5+:1"), "rise without overlapping"),
    "range": (("--band", "a:5-1:1"), "not a range"),
    "twice": (("--band", "a:1-5:1", "--band", "a:6+:1"), "one name"),
    "reserved": (("--band", "outside:1+:1"), "not a name"),
    "delimiter": (("--delimiter", ";;"), "one character"),
    "encoding": (("--encoding", "utf-99"), "not a text encoding"),
    "name": (("--name", "../x"), "not a name"),
    "label": (("--label-name", "a"), "LABEL=NAME"),
    "tokenizer": (("--tokenizer", "nowhere"), "no tokenizer.json"),
    "both": (("--tuning", "1", "--tuning-from", "x.csv"), "exclude each other"),
    "column": (("--text-column", "body"), "the column is missing"),
    "names": (("--label-names", "nowhere.txt"), "cannot be read"),
    "unnamed": (("--label-name", "z=Zebra"), "the label has no name"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_bad_options_are_refused(name: str, shop: Shop, tmp_path: Path) -> None:
    options, message = BAD_OPTIONS[name]
    tokenizer = () if name == "tokenizer" else WORDS
    assert message in shop.refuse(make(tmp_path / "x.csv", texts(5, "a", 3)), *tokenizer, *options)


def test_other_column_names_are_met_with_the_whole_command(shop: Shop, tmp_path: Path) -> None:
    """M53: all missing columns at once, and options of this command, not names of the protocol."""
    said = shop.refuse(make(tmp_path / "x.csv", texts(5, "a", 3), ("no", "body", "class")), *WORDS)
    assert "columns are missing: 'id', 'text', 'label'; there are: 'no', 'body', 'class'" in said
    assert f" corpus --from {tmp_path / 'x.csv'} --id-column NAME --text-column NAME --label-column NAME" in said
    assert "id_column" not in said and "ID_COLUMN=NAME" in said


def test_an_unwritable_place_is_a_refusal_not_a_traceback(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    source = make(tmp_path / "x.csv", texts(5, "a", 3))
    assert "cannot be written" in shop.refuse(source, "--all", *WORDS, "--out", str(tmp_path / "file" / "below"))


def test_a_source_that_changes_while_it_is_read_is_noticed(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M8: the second reading must find the documents of the first."""
    from runner.corpus import build as builder
    from runner.corpus.scan import scan

    source = make(tmp_path / "x.csv", texts(5, "a", 3))

    def scan_then_change(*arguments: Any) -> Any:
        found = scan(*arguments)
        make(source, texts(5, "a", 3, start=1))
        return found

    monkeypatch.setattr(builder, "scan", scan_then_change)
    assert "changed while it was read" in shop.refuse(source, "--all", *WORDS)


# ---- published layouts ---------------------------------------------------------------------------

AG_NEWS = (
    "--header",
    "class,title,description",
    "--label-column",
    "class",
    "--text-column",
    "title",
    "--text-column",
    "description",
    "--make-ids",
    "--label-names",
    str(PUBLISHED / "ag_news_csv" / "classes.txt"),
)
DBPEDIA = (
    "--header",
    "class,title,content",
    "--label-column",
    "class",
    "--text-column",
    "title",
    "--text-column",
    "content",
    "--make-ids",
    "--label-names",
    str(PUBLISHED / "dbpedia_csv" / "classes.txt"),
)
SST_2 = (
    "--text-column",
    "sentence",
    "--no-quotes",
    "--make-ids",
    "--label-name",
    "0=negative",
    "--label-name",
    "1=positive",
)
LAYOUTS: dict[str, tuple[str, tuple[str, ...], int, set[str], str, str]] = {
    "AG News": (
        "ag_news_csv/test.csv",
        AG_NEWS,
        8,
        {"World", "Sports", "Business", "Sci/Tech"},
        "test-0000001",
        "Harbour firm \\doubles\\ its ferries The island line (HLF.L) said on Tuesday that two more boats sail "
        "from May.",
    ),
    "DBpedia": (
        "dbpedia_csv/test.csv",
        DBPEDIA,
        6,
        {"Company", "EducationalInstitution", "Artist", "WrittenWork"},
        "test-0000003",
        'Ida Brandt  Ida Brandt (born 1950) paints harbours and "empty" rooms.',
    ),
    "IMDB": (
        "aclImdb/test",
        ("--layout", "folders"),
        6,
        {"pos", "neg"},
        "test/pos/0_10.txt",
        "A quiet film.<br /><br />The last half hour is wonderful, and so is the light.",
    ),
    "SST-2": (
        "SST-2/dev.tsv",
        SST_2,
        6,
        {"negative", "positive"},
        "dev-0000003",
        '" one opening mark and no closing one ',
    ),
    "20 Newsgroups": (
        "20news-bydate-test",
        ("--layout", "folders", "--encoding", "latin-1"),
        9,
        {"rec.boats", "sci.weather", "misc.forsale"},
        "20news-bydate-test/sci.weather/53000",
        "From: reader0@example.invalid\nSubject: Zürich fog\nLines: 1\n\n"
        "Why does the fog over Zürich stay until noon in November?\n",
    ),
    "TREC": (
        "trec/TREC_10.label",
        ("--layout", "lines", "--encoding", "latin-1", "--label-until", ":"),
        8,
        {"DESC", "LOC", "NUM", "HUM"},
        "TREC_10-0000004",
        "Who painted the café by the canal ?",
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_published_layouts_are_read_without_editing(name: str, shop: Shop) -> None:
    """M13: columns, quoting, encodings and label codes as published."""
    source, options, count, labels, identifier, text = LAYOUTS[name]
    shop.build(PUBLISHED / source, *options, "--all", "--tokenizer", str(MODEL))
    documents = {item.id: item for item in read_corpus(shop.folder() / "final.csv").documents}
    assert len(documents) == count
    assert {item.label for item in documents.values()} == labels
    assert documents[identifier].text == text


def test_published_train_and_test_become_tuning_and_final(shop: Shop) -> None:
    """M5: ids made for two files of one name stay apart; unrated reviews are left out and counted."""
    facts = shop.build(
        PUBLISHED / "aclImdb" / "test",
        "--layout",
        "folders",
        "--tuning-from",
        str(PUBLISHED / "aclImdb" / "train"),
        "--skip-label",
        "unsup",
        "--all",
        *WORDS,
    )
    assert facts["tuning_source"]["left_out_labels"] == {"unsup": 1}
    assert facts["splits"]["tuning"]["documents"] == 6
    assert any("no label folder" in note for note in facts["notes"])
    assert facts["near_duplicates"]["searched"]
    final, tuning = (read_corpus(shop.folder() / f"{split}.csv").documents for split in ("final", "tuning"))
    assert not {item.id for item in final} & {item.id for item in tuning}


def test_parquet_of_the_datasets_library_names_its_classes(shop: Shop, tmp_path: Path) -> None:
    """M13: class numbers from 0 with the names in the metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    features = {"label": {"names": ["World", "Sports"], "_type": "ClassLabel"}, "text": {"dtype": "string"}}
    table = pa.table({"text": ["one two", "three four"], "label": pa.array([1, 0])})
    named = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(named, tmp_path / "x.parquet")
    options = ("--make-ids", "--all", *WORDS)
    shop.build(tmp_path / "x.parquet", *options, "--label-names-in-file")
    assert [item.label for item in read_corpus(shop.folder() / "final.csv").documents] == ["Sports", "World"]
    pq.write_table(table, tmp_path / "plain.parquet")
    out = ("--out", str(tmp_path / "out"))
    assert "does not name its classes" in shop.refuse(
        tmp_path / "plain.parquet", *options, "--label-names-in-file", *out
    )
    source = make(tmp_path / "x.csv", texts(3, "a", 2))
    assert "not a readable Parquet file" in shop.refuse(source, *options, "--label-names-in-file", *out)


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "folder"])
def test_other_kinds_of_tables_give_the_same_corpus(kind: str, shop: Shop, tmp_path: Path) -> None:
    """M8"""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = texts(12, "a", 3) + texts(6, "b", 6)
    bands = ("--band", "short:1-4:6", "--band", "long:5+:3", *WORDS)
    plain = shop.build(make(tmp_path / "x.csv", rows), *bands, name="csv")
    if kind == "folder":
        source = tmp_path / "parts"
        source.mkdir()
        make(source / "1.csv", rows[:9])
        make(source / "2.csv", rows[9:])
    elif kind == "jsonl":
        source = tmp_path / "x.jsonl"
        lines = [json.dumps(dict(zip(("id", "text", "label"), row, strict=True))) for row in rows]
        source.write_text("\n".join(lines), encoding="utf-8")
    else:
        source = tmp_path / "x.parquet"
        columns = [list(column) for column in zip(*rows, strict=True)]
        pq.write_table(pa.table(columns, names=["id", "text", "label"]), source)
    assert shop.build(source, *bands)["splits"]["final"] == plain["splits"]["final"]


@pytest.mark.parametrize(
    ("file", "content", "options", "message"),
    [
        ("x.label", "DESC:a\n", ("--layout", "lines"), "no label and text"),
        ("x.label", b"DESC caf\xe9\n", ("--layout", "lines"), "--encoding"),
        ("x.csv", "id,text,label\n", ("--layout", "folders"), "needs a folder"),
        ("x.data", "1;a b;c\n", (), "kind of table"),
        ("x.csv", "", (), "the file is empty"),
    ],
)
def test_sources_of_another_layout_are_refused(
    file: str, content: str | bytes, options: tuple[str, ...], message: str, shop: Shop, tmp_path: Path
) -> None:
    source = tmp_path / file
    source.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert message in shop.refuse(source, *options, "--all", *WORDS)


def test_marks_at_the_start_of_lines_and_files_are_ignored_and_said(shop: Shop, tmp_path: Path) -> None:
    """CO-01 for the other layouts."""
    (tmp_path / "x.txt").write_text("\ufeffDESC How ?\nDESC Why ?\n", encoding="utf-8")
    facts = shop.build(tmp_path / "x.txt", "--layout", "lines", "--all", *WORDS, name="lines")
    assert facts["splits"]["final"]["classes"] == {"DESC": 2} and "byte-order mark" in facts["notes"][0]
    for name in ("a/1.txt", "b/1.txt"):
        (tmp_path / "f" / name).parent.mkdir(parents=True)
        (tmp_path / "f" / name).write_text(f"\ufeffText {name}", encoding="utf-8")
    facts = shop.build(tmp_path / "f", "--layout", "folders", "--all", *WORDS, name="folders")
    assert facts["notes"] == ["2 files begin with a byte-order mark, which was ignored"]
    documents = read_corpus(shop.folder("folders") / "final.csv").documents
    assert [item.text for item in documents] == ["Text a/1.txt", "Text b/1.txt"]


def test_the_wrong_id_column_is_refused_in_bounded_memory(shop: Shop, tmp_path: Path) -> None:
    """M7: a thousand duplicates are counted, twenty are named."""
    source = make(tmp_path / "x.csv", texts(1000, "a", 2))
    message = shop.refuse(source, "--id-column", "label", "--label-column", "id", "--all", *WORDS)
    assert "999 duplicate ids" in message and "and 979 more" in message and message.count("stands twice") == 20


def test_a_semicolon_file_of_any_name(shop: Shop, tmp_path: Path) -> None:
    source = tmp_path / "export.txt"
    source.write_text("7;a b;c\n8;d e;f\n", encoding="utf-8")
    shop.build(source, "--kind", "csv", "--delimiter", ";", "--header", "id,text,label", "--all", *WORDS)
    assert [item.id for item in read_corpus(shop.folder() / "final.csv").documents] == ["7", "8"]


@pytest.mark.parametrize(
    ("header", "named"),
    [
        ("id;text;label", "--delimiter ';'"),
        ("id\ttext\tlabel", "--delimiter tab"),
        ('"id"|"text"|"label"', "--delimiter '|'"),
        ("id;text;label;price,tax", "--delimiter ';'"),
    ],
)
def test_m7_another_delimiter_is_named_with_its_option(header: str, named: str, shop: Shop, tmp_path: Path) -> None:
    """M7, M53: the option and the variable of make; what is named works, as it was copied."""
    source = tmp_path / "x.csv"
    mark = next(mark for mark in ";\t|" if mark in header)
    rows = [mark.join((str(number), f"text {number}", "a", "1")[: header.count(mark) + 1]) for number in range(3)]
    source.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    message = shop.refuse(source, "--all", *WORDS)
    assert named in message and "corpus ... DELIMITER=" in message
    shop.build(source, *shlex.split(named), "--all", *WORDS)


@pytest.mark.parametrize(("written", "named"), [("cp1252", "cp1252"), ("utf-16", "utf-16")])
def test_m7_another_encoding_is_named_with_its_option(written: str, named: str, shop: Shop, tmp_path: Path) -> None:
    """M7, M53: a file as Excel on Windows writes it."""
    source = tmp_path / "x.csv"
    source.write_bytes("id,text,label\n1,Grüße,ü\n2,größer – €,ä\n".encode(written))
    message = shop.refuse(source, "--all", *WORDS)
    assert f"--encoding {named}" in message and f"ENCODING={named}" in message
    shop.build(source, "--encoding", named, "--all", *WORDS)
    assert read_corpus(shop.folder() / "final.csv").documents[1].text == "größer – €"


# ---- parts ---------------------------------------------------------------------------------------


@given(total=st.integers(0, 500), counts=st.lists(st.integers(0, 400), min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_shares_add_up_and_never_exceed_what_is_there(total: int, counts: list[int]) -> None:
    """M13: largest remainder."""
    total = min(total, sum(counts))
    parts = shares(total, counts)
    assert sum(parts) == total
    assert all(0 <= part <= count for part, count in zip(parts, counts, strict=True))
    assert all(abs(part - total * count / sum(counts)) < 1 for part, count in zip(parts, counts, strict=True) if count)


def test_near_duplicates_are_found_and_others_are_not() -> None:
    base = [" ".join(f"word{n}-{k}" for k in range(30)) for n in range(50)]
    changed = base[7].rsplit(" ", 2)[0] + " other end"
    (pair,) = near_duplicates([*base, changed])
    assert (pair.first, pair.second) == (7, 50) and 0.8 <= pair.similarity < 1
    (pair,) = near_duplicates([changed], base)
    assert (pair.first, pair.second) == (7, 0)
    assert near_duplicates(["A  short one", "a short ONE", "another"])[0].similarity == 1.0
    assert near_duplicates(base) == []


def test_bands_must_rise() -> None:
    check_bands((Band("a", 1, 4, 1), Band("b", 6, None, 1)))
    with pytest.raises(InputRefused):
        check_bands(())
    with pytest.raises(InputRefused):
        check_bands((Band("a", 1, None, 1), Band("b", 6, None, 1)))


def test_equal_keys_without_equal_ids_are_no_clash(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """M7: 64-bit keys only point at suspects; ids are compared exactly."""
    from runner.corpus import scan as scanner

    monkeypatch.setattr(scanner, "key_of", lambda text, salt=b"": np.uint64(len(text)) if not salt else np.uint64(7))
    source = make(tmp_path / "x.csv", texts(5, "a", 3))
    assert shop.build(source, "--all", *WORDS)["splits"]["final"]["documents"] == 5


def test_every_option_in_the_documentation_exists() -> None:
    from runner.cli.corpus import corpus

    text = (Path(__file__).parents[2] / "docs" / "corpus.md").read_text(encoding="utf-8")
    known = {option for parameter in corpus.params for option in parameter.opts}
    named = set(re.findall(r"--[a-z][a-z-]*", text))
    assert named <= known, named - known


@pytest.mark.parametrize(("names", "line"), [("World\n\nSports\n", 2), ("\nWorld\nSports\n", 1)])
def test_m2_an_empty_line_among_label_names_is_refused(names: str, line: int, shop: Shop, tmp_path: Path) -> None:
    """M2: every name behind it would belong to the class before, and all right answers would be wrong in silence."""
    source = make(tmp_path / "x.csv", texts(4, "1", 3) + texts(4, "2", 3, start=4))
    classes = tmp_path / "classes.txt"
    classes.write_text(names, encoding="utf-8")
    assert f"classes.txt:{line}" in shop.refuse(source, *WORDS, "--label-names", str(classes))


def test_m2_a_label_name_may_hold_what_other_programs_take_for_a_line_end(shop: Shop, tmp_path: Path) -> None:
    """M2: only a line feed ends a name; blank lines at the end of the file name no class."""
    classes = tmp_path / "classes.txt"
    classes.write_bytes("World\u2028News\r\nSports\r\n\r\n".encode())
    assert read_label_names(classes) == {"1": "World\u2028News", "2": "Sports"}


def test_m13_a_corpus_that_cannot_be_replaced_stays(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M13: the old folder goes only when the new one is in its place: a failure in between brings it back."""
    source = make(tmp_path / "x.csv", texts(4, "1", 3))
    shop.build(source, *WORDS, "--all")
    before = {path.name: path.read_bytes() for path in shop.folder().iterdir()}
    rename = Path.rename

    def refused(self: Path, target: Path) -> Path:
        if Path(target) == shop.folder() and (self / "README.md").read_bytes() != before["README.md"]:
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refused)
    assert "cannot be written" in shop.refuse(source, *WORDS, "--all", "--replace", "--seed", "1")
    assert {path.name: path.read_bytes() for path in shop.folder().iterdir()} == before
