"""A signed note is kept: its language and its key, unless another is asked for (M44, DESIGN 8)."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from runner.cli.main import run
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.checks import read_signer
from runner.flows.archive import make_archive
from runner.flows.note import _report
from runner.flows.report import make_report
from runner.flows.standing import lock_fingerprint, lock_signer, standing_language
from runner.seal.bag import read_bag
from tests.support.rentals import OWN_MACHINE


def ssh_key(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True, timeout=30)
    return path


@pytest.fixture(scope="module")
def german(measured: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A campaign with a German note signed by a key of one's own, and that key."""
    folder = tmp_path_factory.mktemp("german")
    root, key = folder / "campaign", ssh_key(folder / "key")
    shutil.copytree(measured, root)
    make_report(Campaign(root), "de", {"SIGNING_KEY": str(key)})
    return root, key


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("language", [None, "de"])
def test_the_chain_called_again_only_checks(
    german: tuple[Path, Path], language: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M44: `make note` after `SIGNING_KEY=... make report NOTE_LANG=de` leaves every byte of the note."""
    monkeypatch.delenv("SIGNING_KEY", raising=False)
    campaign, said = Campaign(german[0]), list[str]()
    before = content(campaign.note)
    assert _report(campaign, language, said.append).accepted
    assert content(campaign.note) == before
    assert said == ["report: the note that is there (de) still fits its evidence"]


@pytest.mark.parametrize("language", [None, "en"])
def test_a_test_key_never_replaces_a_note_of_ones_own(
    german: tuple[Path, Path], language: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """M44: refused with exit 2, the note as it was; the message names the key and the way on."""
    monkeypatch.delenv("SIGNING_KEY", raising=False)
    campaign = Campaign(german[0])
    before, signer = content(campaign.note), read_signer(campaign)
    arguments = [] if language is None else ["--language", language]
    assert run(["--campaign", str(campaign.root), "report", *arguments]) == 2
    assert content(campaign.note) == before
    error = capsys.readouterr().err
    assert signer is not None and signer.fingerprint in error and "SIGNING_KEY=" in error
    with pytest.raises(InputRefused, match="a local test key would sign"):
        _report(campaign, "en", lambda _: None)


def test_a_report_without_a_language_keeps_the_one_that_is_there(
    german: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And says so; a freeze with the same key signs the lock, whose bytes stay, with it too."""
    root = tmp_path / "campaign"
    shutil.copytree(german[0], root)
    campaign = Campaign(root)
    lock = campaign.lock.read_bytes()
    assert lock_signer(campaign).startswith("local test key")
    monkeypatch.setenv("SIGNING_KEY", str(german[1]))
    assert run(["--campaign", str(root), "report"]) == 0
    said = capsys.readouterr().out
    assert standing_language(campaign) == "de"
    assert "language: de, as the note that was there" in said
    assert "warning: the lock is signed with another key" in said
    assert "warning: the PDF is signed with a local test key: PDF_SIGNING_P12" in said
    signer = read_signer(campaign)
    assert signer is not None and not signer.local_test
    assert run(["--campaign", str(root), "freeze"]) == 0
    assert campaign.lock.read_bytes() == lock
    assert lock_fingerprint(campaign) == signer.fingerprint
    assert f"({signer.fingerprint})" in capsys.readouterr().out


def test_two_languages_of_one_evidence_carry_the_same_figures(
    measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """README, DESIGN 7: a note that replaces one in another language says so; archived, both have the same figures."""
    root = tmp_path / "c"
    shutil.copytree(measured, root)
    (root / "rental.toml").write_text(OWN_MACHINE, encoding="utf-8")
    campaign = Campaign(root)
    bags = {}
    for language in ("de", "tr"):
        assert run(["--campaign", str(root), "report", "--language", language]) == 0
        said = capsys.readouterr().out
        assert ("replaces the note in de: the folder holds one" in said) is (language == "tr")
        made = make_archive(campaign, root / "rental.toml", {})
        assert made.path.stem.endswith(f"-{language}")
        bags[language] = read_bag(made.path)
    assert run(["--campaign", str(root), "report"]) == 0
    assert "replaces" not in capsys.readouterr().out
    german, turkish = bags["de"], bags["tr"]
    assert german.info["External-Identifier"] == turkish.info["External-Identifier"]
    same = ("note/decision.json", "note/balance.json", "note/balance.csv", "note/attempts.csv")
    for name in (*same, *(name for name in german.payload if name.startswith(("records/", "verdicts/", "protocol/")))):
        assert german.payload[name] == turkish.payload[name], name
    pages = [bag.payload["note/decision-note.qmd"].decode() for bag in (german, turkish)]
    assert pages[0] != pages[1]
    rows = json.loads(german.payload["note/balance.json"])["rows"]
    medians = [summary["median_seconds"] for row in rows for summary in row["summaries"]]
    assert len(medians) == 3 and all(median.replace(".", ",") in page for page in pages for median in medians)


def test_many_sentences_without_translation_are_counted(
    measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """DESIGN 7: templates of an earlier version under newer code; every sentence in --json, one line for people."""
    root = tmp_path / "c"
    shutil.copytree(measured, root)
    shutil.copytree(Path(__file__).parents[2] / "templates", root / "templates")
    for count, keep in ((20, False), (2, True)):
        path = root / "templates" / "locale" / "tr.po"
        text = (Path(__file__).parents[2] / "templates" / "locale" / "tr.po").read_text(encoding="utf-8")
        head, *entries = text.split("\n\n")
        short = [entry for entry in entries if entry.count("msgstr") == 1 and "{" not in entry and "%" not in entry]
        gone = set(short if not keep else short[:count])
        path.write_text("\n\n".join([head, *(entry for entry in entries if entry not in gone)]), encoding="utf-8")
        assert run(["--campaign", str(root), "report", "--language", "tr", "--json"]) == 0
        lacking = [text for text in json.loads(capsys.readouterr().out)["warnings"] if "not translated" in text]
        assert run(["--campaign", str(root), "report", "--language", "tr"]) == 0
        said = [line for line in capsys.readouterr().out.splitlines() if "translated into tr" in line]
        if keep:
            assert said == [f"warning: {text}" for text in lacking]
        else:
            assert len(lacking) > count
            assert said == [
                f"warning: {len(lacking)} sentences are not translated into tr and stand there in English "
                "(all: --json): "
                f"{lacking[0].split(': ', 1)[1]}, ..."
            ]
