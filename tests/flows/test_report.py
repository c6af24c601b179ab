"""`runner report`: whole or not at all, signed by the user's key or a flagged test key (M44, M45)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from runner.cli.main import run
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.checks import read_signer
from runner.flows import report
from runner.flows.report import make_report
from runner.flows.staging import StagedCampaign
from runner.seal.sums import parse_list


@pytest.fixture
def unsigned(measured: Path, tmp_path: Path) -> Campaign:
    campaign = Campaign(tmp_path / "campaign")
    shutil.copytree(measured, campaign.root)
    return campaign


def listing(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_the_note_says_which_key_signed(reported: Path) -> None:
    campaign = Campaign(reported)
    signer = read_signer(campaign)
    assert signer is not None and signer.local_test and signer.pdf_local_test
    signed = parse_list((campaign.note / "SHA256SUMS").read_bytes(), file="list")
    assert signed.key == signer.label
    assert signed.key.startswith("local test key SHA256:")
    assert signed.purpose == "decision note and its evidence"
    text = (campaign.note / "decision-note.qmd").read_text(encoding="utf-8")
    assert signed.note_id in text
    assert "local test key" in text


def test_the_users_keys_sign(unsigned: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True, timeout=30)
    monkeypatch.setenv("SIGNING_KEY", str(key))
    assert run(["--campaign", str(unsigned.root), "report"]) == 0
    signer = read_signer(unsigned)
    assert signer is not None and not signer.local_test
    shown = subprocess.run(
        ["ssh-keygen", "-l", "-f", str(key)], check=True, capture_output=True, text=True, timeout=30
    ).stdout
    assert signer.fingerprint in shown


@pytest.mark.parametrize("variable", ["SIGNING_KEY", "PDF_SIGNING_P12"])
def test_a_missing_key_is_refused_before_anything_is_written(unsigned: Campaign, variable: str) -> None:
    before = listing(unsigned.root / "protocol" / "corpus") | listing(unsigned.records)
    with pytest.raises(InputRefused):
        make_report(unsigned, environ={variable: "/nowhere/key"})
    assert not unsigned.note.exists()
    assert listing(unsigned.root / "protocol" / "corpus") | listing(unsigned.records) == before


def test_a_report_that_fails_leaves_the_note_as_it_was(campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    before = listing(campaign.root)

    def broken(*arguments: object, **options: object) -> None:
        raise InputRefused("the template is broken", next_step="mend it")

    monkeypatch.setattr(report, "build_note", broken)
    with pytest.raises(InputRefused):
        make_report(campaign, environ={})
    assert listing(campaign.root) == before


def test_a_link_in_place_of_the_note_is_refused(unsigned: Campaign, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    unsigned.note.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputRefused, match="is a link"):
        make_report(unsigned, environ={})
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_staged_note_is_named_as_it_will_be(tmp_path: Path) -> None:
    staged = StagedCampaign(tmp_path, tmp_path / ".note-x")
    assert staged.relative(staged.decision) == "note/decision.json"
    assert staged.relative(staged.tariffs) == "tariffs.csv"


def test_m2_a_lock_without_signature_is_refused_before_a_note_is_made(unsigned: Campaign) -> None:
    """Freeze killed, or out of space, after the lock: no check would accept a note on it; nothing is written."""
    unsigned.lock_signature.unlink()
    before = listing(unsigned.root)
    with pytest.raises(InputRefused, match="the lock is not signed") as caught:
        make_report(unsigned, environ={})
    assert "runner freeze" in (caught.value.next_step or "")
    assert listing(unsigned.root) == before
    assert run(["--campaign", str(unsigned.root), "freeze"]) == 0
    assert unsigned.lock_signature.is_file()
