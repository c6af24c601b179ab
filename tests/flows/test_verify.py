"""`runner verify`: every changed, missing or added file is named (NO-14), decisions are recomputed (M45, M50)."""

from __future__ import annotations

import io
import json
import random
import shutil
import subprocess
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from runner.cli.main import run
from runner.evidence.campaign import Campaign
from runner.evidence.checks import read_signer
from runner.evidence.signing import Purpose, sign, signing_key
from runner.flows import integrity
from runner.flows.archive import make_archive
from runner.flows.verification import Verification
from runner.flows.verify import verify
from runner.note.attachments import attached_files
from runner.seal.sums import make_list, parse_list
from tests.flows.conftest import measured_campaign
from tests.support.keys import another_user

CASE = Path(__file__).parents[1] / "cases" / "NO-14"


def failed(found: Verification) -> dict[str, Any]:
    return {step.name: (step.finding, step.details) for step in found.steps if step.status == "failed"}


def bytes_only(campaign: Campaign) -> tuple[integrity.ListCheck, list[str]]:
    """The two checks that every byte of every listed file depends on, and what they name."""
    listed = integrity.check_list(campaign, None)
    if listed.signed is None or listed.step.status == "failed":
        return listed, [listed.step.finding]
    return listed, list(integrity.check_files(campaign, listed.signed).details)


def sign_again(campaign: Campaign) -> None:
    """What somebody with the key could do: sign other files under the same note's id."""
    key, signer = signing_key(campaign, {}), read_signer(campaign)
    assert signer is not None
    old = parse_list((campaign.note / "SHA256SUMS").read_bytes(), file="list")
    data = make_list(campaign, note_id=old.note_id, key=signer.label).dump()
    (campaign.note / "SHA256SUMS").write_bytes(data)
    (campaign.note / "SHA256SUMS.sig").write_bytes(sign(data, key, Purpose.NOTE))


def test_an_untouched_campaign_fits_and_says_what_a_test_key_proves(campaign: Campaign) -> None:
    found = verify(campaign.root)
    assert found.accepted, failed(found)
    assert not found.trusted
    assert "shows consistency only, not who signed" in found.bottom_line
    assert {step.name: step.status for step in found.steps if step.status != "passed"} == {
        "pages of the PDF": "not checked"
    }
    assert verify(campaign.root, rebuild=True).bottom_line.startswith("Everything fits, but")


def test_the_plan_as_a_calendar_is_signed_attached_and_recomputed(campaign: Campaign, tmp_path: Path) -> None:
    """Issue 4, 2: note/plan.ics is covered by the list, by the PDF, and follows from the plan, whoever signed it."""
    calendar = campaign.note / "plan.ics"
    assert "note/plan.ics" in parse_list((campaign.note / "SHA256SUMS").read_bytes(), file="list").files
    assert attached_files(campaign.note / "decision-note.pdf")["note/plan.ics"] == calendar.read_bytes()
    copy = Campaign(tmp_path / "copy")
    shutil.copytree(campaign.root, copy.root)
    moved = calendar.read_bytes().replace(b"DTSTART:20", b"DTSTART:19", 1)
    (copy.note / "plan.ics").write_bytes(moved)
    assert "note/plan.ics" in str(failed(verify(copy.root)))
    sign_again(copy)
    assert "note/plan.ics: differs" in str(failed(verify(copy.root))["decision"])


def test_a_note_folder_is_enough_to_name_the_campaign(campaign: Campaign) -> None:
    assert verify(campaign.note).note_id == verify(campaign.root).note_id


def test_signers_come_from_outside(campaign: Campaign, tmp_path: Path) -> None:
    key = signing_key(campaign, {})
    signers = tmp_path / "signers"
    signers.write_text(f"seller@example.org {key.public_key}\n", encoding="utf-8")
    found = verify(campaign.root, signers)
    assert found.accepted and found.trusted
    assert "signed by somebody you named" in found.bottom_line

    with another_user(tmp_path / "stranger"):
        signers.write_text(f"seller@example.org {signing_key(campaign, {}).public_key}\n", encoding="utf-8")
    found = verify(campaign.root, signers)
    assert not found.accepted
    assert "not in the signers file" in failed(found)["signed list"][0]


def test_case_no_14_the_shown_file_is_the_one_that_was_signed(
    campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    """NO-14: exit 3 with the file's name; `signature good` alone is never printed."""

    def outcome() -> tuple[int, str]:
        status = run(["--campaign", str(campaign.root), "verify"])
        return status, capsys.readouterr().out

    shutil.copyfile(CASE / "note.txt", campaign.note / "note.txt")
    status, out = outcome()
    assert status == 3
    assert "note/note.txt: sha256 differs from the signed list" in out
    assert "signature good" not in out.lower()
    assert "NOT ACCEPTED: files" in out

    shutil.copyfile(CASE / "note_original.txt", campaign.note / "note.txt")
    assert outcome()[0] == 0

    (campaign.note / "rental.json").unlink()
    status, out = outcome()
    assert (status, "note/rental.json: missing" in out) == (3, True)
    shutil.copyfile(CASE / "rental.json", campaign.note / "rental.json")

    (campaign.note / "extra.txt").write_bytes(b"not covered")
    status, out = outcome()
    assert (status, "note/extra.txt: not covered by the signature" in out) == (3, True)

    signed = (campaign.note / "SHA256SUMS").read_text(encoding="utf-8")
    assert "  note/decision-note.pdf\n" in signed and "  note/decision-note.html\n" in signed


Whole = dict[str, bytes]
LOCK = "protocol/protocol.lock.json"  # says where the model lies, so it is changed on its own


def contents(campaign: Campaign) -> Whole:
    """Bytes of every signed file."""
    signed = parse_list((campaign.note / "SHA256SUMS").read_bytes(), file="list")
    return {relative: (campaign.root / relative).read_bytes() for relative in sorted(signed.files)}


def findings(campaign: Campaign) -> list[str]:
    """What the comparison with the signed list names; the list itself is not touched here."""
    signed = parse_list((campaign.note / "SHA256SUMS").read_bytes(), file="list")
    return list(integrity.check_files(campaign, signed).details)


def differs(names: list[str]) -> list[str]:
    return [f"{name}: sha256 differs from the signed list" for name in names]


def test_thousands_of_changed_bytes_are_each_named(campaign: Campaign) -> None:
    """Every signed file in every round, each with another bit flipped: none may be missed, none too many."""
    whole = contents(campaign)
    names = [name for name in whole if name != LOCK]
    rng = random.Random(1)
    flips = 0
    while flips < 2_000:
        for name in names:
            changed = bytearray(whole[name])
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
            (campaign.root / name).write_bytes(bytes(changed))
        assert findings(campaign) == differs(names)
        flips += len(names)


def test_cut_lengthened_and_swapped_files_are_each_named(campaign: Campaign) -> None:
    whole = contents(campaign)
    names = [name for name in whole if name != LOCK]
    for change in (lambda data: data[:-1], lambda data: data + b"\n", lambda data: b""):
        for name in names:
            (campaign.root / name).write_bytes(change(whole[name]))
        # A corpus with another line end after its last line still holds the same records, and that is said.
        found = [line.removesuffix(" (same records, bytes differ: line ends)") for line in findings(campaign)]
        assert found == differs(names)
    following = dict(zip(names, [*names[1:], names[0]], strict=True))
    for name in names:
        (campaign.root / name).write_bytes(whole[following[name]])
    same = [name for name in names if whole[name] == whole[following[name]]]
    assert findings(campaign) == differs([name for name in names if name not in same])


def test_missing_added_and_renamed_files_are_each_named(campaign: Campaign) -> None:
    whole = contents(campaign)
    folders = sorted({str(Path(name).parent) for name in whole} - {"."})
    for folder in folders:
        (campaign.root / folder / "added.txt").write_bytes(b"")
    assert findings(campaign) == [f"{folder}/added.txt: not covered by the signature" for folder in folders]
    for folder in folders:
        (campaign.root / folder / "added.txt").unlink()

    renamed = campaign.attempts / "a000-renamed.json"
    (campaign.attempts / "a000.json").rename(renamed)
    assert findings(campaign) == [
        "records/attempts/a000.json: missing",
        "records/attempts/a000-renamed.json: not covered by the signature",
    ]
    renamed.rename(campaign.attempts / "a000.json")

    for name in whole:
        (campaign.root / name).unlink()
    assert findings(campaign)[: len(whole)] == [f"{name}: missing" for name in sorted(whole)]


def test_a_link_in_place_of_a_signed_file_is_named(campaign: Campaign, tmp_path: Path) -> None:
    """Even when it leads to the right bytes: they could be others at the next look."""
    path = campaign.note / "note.txt"
    path.rename(tmp_path / "elsewhere.txt")
    path.symlink_to(tmp_path / "elsewhere.txt")
    assert "note/note.txt: missing" in findings(campaign)


def test_files_of_another_campaign_are_each_named(campaign: Campaign, tmp_path: Path) -> None:
    """The same protocol frozen and measured again: whatever is taken from there is found."""
    other = measured_campaign(tmp_path / "other").root
    mine = contents(campaign)
    taken = [name for name in mine if (other / name).is_file() and (other / name).read_bytes() != mine[name]]
    assert {"records/attempts/a000.json", "verdicts/a000.json", LOCK, LOCK + ".sig"} <= set(taken)
    for name in taken:
        shutil.copyfile(other / name, campaign.root / name)
    assert findings(campaign) == differs(taken)


def test_every_changed_byte_of_list_and_signature_is_found(campaign: Campaign) -> None:
    rng = random.Random(2)
    for name in ("SHA256SUMS", "SHA256SUMS.sig"):
        path = campaign.note / name
        data = path.read_bytes()
        for position in rng.sample(range(len(data)), 150):
            changed = bytearray(data)
            changed[position] ^= 1 << rng.randrange(8)
            path.write_bytes(bytes(changed))
            assert bytes_only(campaign)[1], (name, position)
        path.write_bytes(data)


def test_lists_of_two_notes_cannot_be_swapped(campaign: Campaign, tmp_path: Path) -> None:
    other = Campaign(tmp_path / "other")
    shutil.copytree(campaign.root, other.root)
    (other.note / "note.txt").write_bytes(b"another letter\n")
    sign_again(other)
    assert verify(other.root).accepted
    for name in ("SHA256SUMS", "SHA256SUMS.sig"):
        mine = (campaign.note / name).read_bytes()
        shutil.copyfile(other.note / name, campaign.note / name)
        assert bytes_only(campaign)[1], name
        (campaign.note / name).write_bytes(mine)
    shutil.copyfile(other.note / "SHA256SUMS", campaign.note / "SHA256SUMS")
    shutil.copyfile(other.note / "SHA256SUMS.sig", campaign.note / "SHA256SUMS.sig")
    assert bytes_only(campaign)[1] == ["note/note.txt: sha256 differs from the signed list"]


def test_a_faster_pass_signed_again_is_found_by_the_chain(campaign: Campaign) -> None:
    """Somebody with the key shortens a pass: the chain of rows no longer fits (M50)."""
    path = campaign.attempts / "a003.json"
    path.write_bytes(path.read_bytes().replace(b'"pass_seconds": 3.01', b'"pass_seconds": 0.01'))
    sign_again(campaign)
    found = failed(verify(campaign.root))
    assert "chain of attempts" in found
    assert "signed list" not in found and "files" not in found


def test_a_forged_verdict_signed_again_is_found_by_judging_again(campaign: Campaign) -> None:
    path = campaign.verdicts / "a001.json"
    path.write_bytes(path.read_bytes().replace(b'"accepted": true', b'"accepted": false'))
    sign_again(campaign)
    assert failed(verify(campaign.root))["verdicts"][1] == ("verdicts/a001.json: differs",)


def test_a_forged_decision_signed_again_is_found_by_deciding_again(campaign: Campaign) -> None:
    decision = json.loads(campaign.decision.read_bytes())
    assert decision["chosen"] == "cpu.b8"
    campaign.decision.write_bytes(campaign.decision.read_bytes().replace(b'"chosen": "cpu.b8"', b'"chosen": "cpu.b1"'))
    sign_again(campaign)
    found = failed(verify(campaign.root))
    assert found["decision"][1] == ("note/decision.json: differs",)
    assert "note" in found  # the id is made from the decision


def test_an_older_version_may_write_a_decision_otherwise_but_not_decide_otherwise(campaign: Campaign) -> None:
    """Same content in another form passes only if other code made it; another cost never passes."""
    balance = json.loads(campaign.balance.read_bytes())
    campaign.balance.write_text(json.dumps(balance), encoding="utf-8")
    sign_again(campaign)
    assert failed(verify(campaign.root))["decision"][1] == ("note/balance.json: differs",)

    signer = campaign.note / "signer.json"
    signer.write_bytes(signer.read_bytes().replace(b"gpu-decision-note ", b"gpu-decision-note 0.0."))
    sign_again(campaign)
    found = verify(campaign.root)
    assert "decision" not in failed(found)
    assert any("the same choice, costs and durations" in step.finding for step in found.steps)

    balance["rows"][0]["summaries"][0]["raw_seconds"][0] = 0.5
    campaign.balance.write_text(json.dumps(balance), encoding="utf-8")
    sign_again(campaign)
    assert "decision" in failed(verify(campaign.root))


def test_a_forged_text_signed_again_is_found_by_rendering_again(campaign: Campaign) -> None:
    path = campaign.note / "decision-note.qmd"
    path.write_bytes(path.read_bytes() + b"\nGuaranteed.\n")
    sign_again(campaign)
    found = failed(verify(campaign.root))
    assert set(found) == {"text of the note", "attachments"}


def test_the_shown_files_are_made_again_and_compared(campaign: Campaign) -> None:
    """A forged HTML, figure or calculator, signed again, is found without being asked for (M45)."""
    figure = next((campaign.note / "figures").glob("*.svg"))
    for path in (campaign.note / "decision-note.html", figure, campaign.note / "calculator.html"):
        data = path.read_bytes()
        path.write_bytes(data.replace(b">", b" >", 1))
        sign_again(campaign)
        name = path.relative_to(campaign.root).as_posix()
        assert failed(verify(campaign.root)) == {
            "text of the note": ("not what the evidence gives", (f"{name}: differs",))
        }
        path.write_bytes(data)


def test_templates_of_a_stranger_reach_nothing(campaign: Campaign, tmp_path: Path) -> None:
    """A template of the evidence is filled in a sandbox: it cannot run code here."""
    proof = tmp_path / "proof"
    attack = f"{{{{ lipsum.__globals__['os'].system('touch {proof}') }}}}"
    for text in (attack, "{{ ''.__class__.__mro__[1].__subclasses__() }}", "{{ 1 // 0 }}"):
        (campaign.templates / "decision-note.qmd").write_text(text, encoding="utf-8")
        sign_again(campaign)
        assert set(failed(verify(campaign.root))) == {"text of the note"}
    assert not proof.exists()


def test_a_pdf_of_another_note_is_found(campaign: Campaign) -> None:
    """A good signature, of a document that says it belongs to another note."""
    import pikepdf

    from runner.seal.pdf import sign_pdf
    from runner.seal.pdfkey import pdf_key

    out = io.BytesIO()
    pdf = pikepdf.new()
    pdf.add_blank_page()
    pdf.save(out)
    other = sign_pdf(out.getvalue(), pdf_key(campaign, {}), reason="Decision note other-r1-000000000000")
    (campaign.note / "decision-note.pdf").write_bytes(other)
    sign_again(campaign)
    assert "another note" in failed(verify(campaign.root))["PDF signature"][0]


def test_a_changed_lock_is_found(campaign: Campaign) -> None:
    campaign.lock.write_bytes(campaign.lock.read_bytes().replace(b'"0.80"', b'"0.10"'))
    sign_again(campaign)
    assert "frozen protocol" in failed(verify(campaign.root))


def test_nothing_to_verify_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--campaign", str(tmp_path), "verify"]) == 2
    assert run(["verify", str(tmp_path / "missing.zip")]) == 2
    (tmp_path / "text.txt").write_bytes(b"hello")
    assert run(["verify", str(tmp_path / "text.txt")]) == 2
    assert "neither a campaign folder" in capsys.readouterr().err


def test_malformed_evidence_is_a_finding_never_a_traceback(campaign: Campaign) -> None:
    damaged = {
        "note/signer.json": b"{",
        "note/decision.json": b"[]\n",
        "protocol/protocol.lock.json": b"",
        "note/SHA256SUMS": b"\xff\xfe",
    }
    for relative, broken in damaged.items():
        path = campaign.root / relative
        data = path.read_bytes()
        path.write_bytes(broken)
        assert not verify(campaign.root).accepted, (relative, broken)
        path.write_bytes(data)


# ---- archive and PDF alone ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def archive(reported: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("archive") / "campaign"
    shutil.copytree(reported, root)
    return make_archive(Campaign(root), root / "rental.toml", {}).path


def test_the_archive_is_checked_as_a_whole(archive: Path) -> None:
    found = verify(archive)
    assert found.accepted, failed(found)
    assert found.kind == "archive"
    assert found.steps[0].name == "archive"


def test_a_changed_byte_of_the_archive_ends_with_status_3(archive: Path, tmp_path: Path) -> None:
    data = archive.read_bytes()
    rng = random.Random(3)
    for position in rng.sample(range(len(data)), 12):
        changed = bytearray(data)
        changed[position] ^= 0x01
        path = tmp_path / "changed.zip"
        path.write_bytes(bytes(changed))
        assert run(["verify", str(path)]) in (2, 3), position


def test_the_archive_satisfies_tools_that_are_not_ours(archive: Path, tmp_path: Path) -> None:
    shutil.unpack_archive(archive, tmp_path)
    (folder,) = tmp_path.iterdir()
    text = (folder / "HOW-TO-CHECK.txt").read_text(encoding="utf-8")
    commands = [line.strip() for line in text.splitlines() if line.startswith("     ")]
    runnable = [command for command in commands if "SIGNERS" not in command]
    assert len(runnable) == len(commands) - 1
    for tool in ("sha256sum", "ssh-keygen", "pdfsig"):
        assert any(command.startswith(tool) for command in runnable)
    if shutil.which("pdfsig") is None:
        runnable = [command for command in runnable if not command.startswith("pdfsig")]
    subprocess.run(" && ".join(runnable), shell=True, cwd=folder, check=True, timeout=60, capture_output=True)


def test_a_pdf_alone_is_recomputed_from_its_attachments(reported: Path, tmp_path: Path) -> None:
    path = tmp_path / "note.pdf"
    shutil.copyfile(reported / "note" / "decision-note.pdf", path)
    found = verify(path)
    assert found.accepted, failed(found)
    status = {step.name: step.status for step in found.steps}
    assert status["PDF signature"] == status["verdicts"] == status["decision"] == "passed"
    assert status["signed list"] == "passed"
    assert found.bottom_line.startswith("Everything that was checked fits")
    assert found.note_id == verify(reported).note_id

    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    assert not verify(path).accepted


def test_the_certificate_to_expect_comes_from_outside(reported: Path, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

    from runner.seal.pdfkey import pdf_key

    pdf = reported / "note" / "decision-note.pdf"
    for trusted in (True, False):
        with nullcontext() if trusted else another_user(tmp_path / "another user"):
            key = pdf_key(Campaign(tmp_path), {})
        _, certificate, _ = pkcs12.load_key_and_certificates(key.path.read_bytes(), None)
        assert certificate is not None
        path = tmp_path / "certificate.pem"
        path.write_bytes(certificate.public_bytes(Encoding.PEM))
        found = verify(pdf, certificate=path)
        assert (found.accepted, found.trusted) == (trusted, trusted)


@pytest.mark.parametrize("name", ["a;touch gone.pdf", "-o x.pdf", 'it\'s "mine" $HOME `id`.pdf', "ünï cödé.pdf"])
def test_a_command_for_a_pdf_of_any_name_is_about_that_file_and_nothing_else(
    reported: Path, tmp_path: Path, name: str
) -> None:
    """The name comes from whoever sent the file, and the line is there to be copied into a shell."""
    shutil.copyfile(reported / "note" / "decision-note.pdf", tmp_path / name)
    evidence = tmp_path / "evidence"  # not a folder that others on this machine may have
    steps = {
        step.name: step.command and step.command.replace("/tmp/evidence", str(evidence))
        for step in verify(tmp_path / name).steps
    }
    for check, words in (("PDF signature", "Signature is Valid"), ("text of the note", "small"), ("attachments", "")):
        done = subprocess.run(
            steps.pop(check) or "false", shell=True, cwd=tmp_path, check=True, capture_output=True, timeout=60
        )
        assert words in done.stdout.decode()
    assert {path.name for path in tmp_path.iterdir()} == {name, "evidence"}
    assert set(steps) >= {"chain of attempts", "frozen protocol", "decision"}
    for command in filter(None, steps.values()):
        line, _, _ = command.partition("   (")
        if "pandas" not in line and ".pdf" not in line:
            subprocess.run(line, shell=True, cwd=evidence, check=True, capture_output=True, timeout=60)
