"""NO-09 (line ends) and NO-10 (key order): two fingerprints, both named, and what verification says."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from runner.cli.main import run
from runner.corpus.read import read_corpus
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import canonical_json, content_sha256, load_json_file

CASES = Path(__file__).parents[1] / "cases"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_case_no_09_the_fingerprint_of_records_survives_line_ends(tmp_path: Path) -> None:
    """NO-09, 1 and 3: equal records, byte fingerprints as given; line ends inside a text are never touched."""
    lf, crlf, inside = (
        read_corpus(CASES / "NO-09" / name, label_column=None)
        for name in ("corpus_lf.csv", "corpus_crlf.csv", "text_inside.csv")
    )
    assert lf.records_sha256 == crlf.records_sha256
    assert lf.bytes_sha256 == "6665c24c3dd7a3b4134900dbf2cb8aca3a94e9f3d104b84ebdaf3b8181fb931d"
    assert crlf.bytes_sha256 == "8fd8aa7e9e29c865c42cfa299bcdb60887883db15de49f53e3d6b014b02b0ba4"
    assert any("\r\n" in document.text for document in inside.documents)
    other = tmp_path / "inside_lf.csv"
    data = (CASES / "NO-09" / "text_inside.csv").read_bytes()
    other.write_bytes(data.replace(b"\r\n", b"\n"))
    assert read_corpus(other, label_column=None).records_sha256 != inside.records_sha256


def test_case_no_09_verification_names_the_reason(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    """NO-09, 2: identical bytes are demanded by default (every changed byte is found), with that reason."""
    final = campaign.protocol_dir / "corpus" / "final.csv"
    final.write_bytes(final.read_bytes().replace(b"\n", b"\r\n"))
    assert run(["--campaign", str(campaign.root), "verify"]) == 3
    assert "final.csv: sha256 differs from the signed list (same records, bytes differ: line ends)" in (
        capsys.readouterr().out
    )
    assert run(["--campaign", str(campaign.root), "verify", "--line-ends"]) == 0
    assert "final.csv: same records, bytes differ (line ends)" in capsys.readouterr().out

    final.write_bytes(final.read_bytes().replace(b"text number 3", b"text number 9"))
    assert run(["--campaign", str(campaign.root), "verify", "--line-ends"]) == 3
    assert "same records" not in capsys.readouterr().out


def test_case_no_10_key_order_blanks_and_escapes_do_not_matter_but_list_order_does() -> None:
    a, b, c = (load_json_file(CASES / "NO-10" / f"protocol_{name}.json") for name in "abc")
    canonical = '{"labels":["neg","pos"],"metric":"accuracy","note":"Maß","threshold":"0.90"}'.encode()
    assert canonical_json(a) == canonical_json(b) == canonical
    expected = "b1f8dbd0f40c98d7ea3b1331db8049bd35eae443d9bb5460f0008098d603ce81"
    assert content_sha256(a) == content_sha256(b) == expected == sha256(canonical)
    assert content_sha256(c) != expected
