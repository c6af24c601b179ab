"""A PDF alone against a signers file (DESIGN 8, M45, M53): never accepted unless it says who made the PDF."""

from __future__ import annotations

import io
import shutil
import subprocess
from pathlib import Path

import pikepdf
import pytest

from runner.cli.main import run
from runner.evidence.campaign import Campaign
from runner.evidence.checks import note_id
from runner.evidence.signing import Purpose, sign, signing_key
from runner.flows.verify import verify
from runner.seal.pdf import sign_pdf
from runner.seal.pdfkey import pdf_key
from runner.seal.sums import make_attached_list
from tests.support.keys import another_user


def signers_file(folder: Path, campaign: Campaign, options: str = "") -> Path:
    path = folder / "signers"
    path.write_text(f"seller@example.org {options}{signing_key(campaign, {}).public_key}\n", encoding="utf-8")
    return path


def made_again(campaign: Campaign, target: Path, *, drop: tuple[str, ...] = (), **attached: bytes) -> Path:
    """The PDF with other attachments, signed anew by the user of this moment."""
    out = io.BytesIO()
    with pikepdf.open(campaign.note / "decision-note.pdf") as document:
        del document.Root.AcroForm
        for name in drop:
            del document.attachments[name]
        for name, data in attached.items():
            key = f"note~{name.replace('_', '.')}"
            spec = pikepdf.AttachedFileSpec(document, data, filename=key, description=key.replace("~", "/"))
            document.attachments[key] = spec
        for page in document.pages:
            if "/Annots" in page:
                page.Annots = pikepdf.Array([item for item in page.Annots if item.get("/FT") != "/Sig"])
        document.save(out)
    target.write_bytes(sign_pdf(out.getvalue(), pdf_key(campaign, {}), reason=f"Decision note {note_id(campaign)}"))
    return target


def why(pdf: Path, signers: Path | None) -> dict[str, str]:
    found = verify(pdf, signers)
    assert not found.accepted and not found.trusted
    return {step.name: step.finding for step in found.steps if step.status == "failed"}


def test_m53_a_signers_file_names_who_made_a_pdf_alone(
    campaign: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The key that signed the attached list, and no other: exit 0 and 3 through the command."""
    pdf = tmp_path / "renamed by somebody.pdf"
    shutil.copyfile(campaign.note / "decision-note.pdf", pdf)
    found = verify(pdf, signers_file(tmp_path, campaign))
    assert found.accepted and found.trusted, found.lines()
    assert "signed by somebody you named" in found.bottom_line
    assert "made by seller@example.org" in found.steps[1].finding
    with another_user(tmp_path / "stranger"):
        strangers = signers_file(tmp_path, campaign)
    assert run(["verify", str(pdf), "--signers", str(strangers)]) == 3
    assert "the signer is not in the signers file" in capsys.readouterr().out
    strangers = signers_file(tmp_path, campaign, 'namespaces="note@gpu-decision-note" ')
    assert "does not allow this" in why(pdf, strangers)["signed list"]


def test_m53_a_pdf_without_a_signed_list_cannot_be_confirmed(campaign: Campaign, tmp_path: Path) -> None:
    """Made before such lists, or stripped: without signers not checked, with them exit 3, never a silent 0."""
    drop = ("note~SHA256SUMS.attached", "note~SHA256SUMS.attached.sig")
    pdf = made_again(campaign, tmp_path / "old.pdf", drop=drop)
    found = verify(pdf)
    assert found.accepted, found.lines()
    assert {step.name: step.status for step in found.steps}["signed list"] == "not checked"
    assert "cannot say who made this PDF" in why(pdf, signers_file(tmp_path, campaign))["signed list"]


def test_m53_pages_signed_by_another_certificate_are_not_those_of_the_signer(
    campaign: Campaign, tmp_path: Path
) -> None:
    """Evidence and its list are the seller's, the PDF around them is somebody else's."""
    signers = signers_file(tmp_path, campaign)
    with another_user(tmp_path / "stranger"):
        pdf = made_again(campaign, tmp_path / "forged.pdf")
    assert "not the expected one" in why(pdf, signers)["PDF signature"]


@pytest.mark.parametrize("kind", ["another list", "another note's", "another purpose", "without signer.json"])
def test_m53_a_list_that_is_not_of_these_attachments_is_found(campaign: Campaign, tmp_path: Path, kind: str) -> None:
    """Whoever holds the key signs a list, yet not the one of what the PDF carries."""
    key, signers = signing_key(campaign, {}), signers_file(tmp_path, campaign)
    identity = note_id(campaign) if kind != "another note's" else "other-r1-000000000000"
    data = make_attached_list(campaign, note_id=identity, key=key.label).dump()
    if kind == "another list":
        data = data.replace(b"  tariffs.csv", b"  tarifs.csv")
    if kind == "without signer.json":
        data = b"".join(line for line in data.splitlines(True) if b"note/signer.json" not in line)
    if kind == "another purpose":
        data = data.replace(b"evidence attached to the PDF of a decision note", b"decision note and its evidence")
    signature = sign(data, key, Purpose.PDF)
    drop = ("note~SHA256SUMS.attached", "note~SHA256SUMS.attached.sig")
    pdf = made_again(
        campaign, tmp_path / "x.pdf", drop=drop, SHA256SUMS_attached=data, SHA256SUMS_attached_sig=signature
    )
    found = why(pdf, signers)["signed list"]
    words = {
        "another list": "carries other files", "another note's": "is of the note other",
        "another purpose": "another purpose", "without signer.json": "does not cover note/signer.json",
    }  # fmt: skip
    assert words[kind] in found


def test_the_pdf_is_checked_against_the_signers_without_our_code(campaign: Campaign, tmp_path: Path) -> None:
    """DESIGN 8: the lines that verify prints for a PDF alone, with pdfdetach, sha256sum and ssh-keygen."""
    if shutil.which("pdfdetach") is None:
        pytest.skip("Poppler is not installed")
    signers = signers_file(tmp_path, campaign)
    pdf = tmp_path / "x y.pdf"
    shutil.copyfile(campaign.note / "decision-note.pdf", pdf)
    lines = {step.name: step.command or "" for step in verify(pdf, signers).steps}
    folder = tmp_path / "evidence"
    unpack = lines["attachments"].replace("/tmp/evidence", str(folder))
    subprocess.run(unpack, shell=True, cwd=tmp_path, check=True, timeout=60)
    subprocess.run(["sha256sum", "-c", "--quiet", "note/SHA256SUMS.attached"], cwd=folder, check=True, timeout=60)
    check = lines["signed list"].replace("SIGNERS", str(signers)).replace("NAME", "seller@example.org")
    done = subprocess.run(check, shell=True, cwd=folder, check=True, capture_output=True, timeout=60)
    assert b'Good "pdf@gpu-decision-note" signature for seller@example.org' in done.stdout
