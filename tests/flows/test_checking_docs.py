"""docs/checking.md: its commands run as they stand there, on a real note and on spoilt ones."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runner.evidence.campaign import Campaign
from runner.evidence.checks import check_commands, commands_for_a_pdf, read_signer
from runner.evidence.signing import signing_key
from runner.flows.archive import make_archive
from runner.flows.verify import verify
from runner.protocol.freeze import load_lock
from tests.support.keys import another_user

DOCUMENT = (Path(__file__).parents[2] / "docs" / "checking.md").read_text(encoding="utf-8")
NEEDS_POPPLER = pytest.mark.skipif(shutil.which("pdfsig") is None, reason="needs pdfsig (package poppler-utils)")


def commands(section: str) -> list[str]:
    """Shell lines of a section (its number), in order."""
    body = re.split(r"^## ", DOCUMENT, flags=re.MULTILINE)
    (text,) = [part for part in body if part.startswith(section)]
    return [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]


def tell(command: str, folder: Path, signers: Path) -> tuple[int, str]:
    line = command.replace("SIGNERS", str(signers)).replace("NAME", "seller@example.org")
    done = subprocess.run(
        line,
        shell=True,
        cwd=folder,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def signers(campaign: Campaign, tmp_path: Path) -> Path:
    path = tmp_path / "signers"
    path.write_text(f"seller@example.org {signing_key(campaign, {}).public_key}\n", encoding="utf-8")
    return path


@NEEDS_POPPLER
def test_the_commands_for_a_folder_accept_a_good_note(campaign: Campaign, signers: Path) -> None:
    assert len(commands("1. ")) == 5
    for command in commands("1. "):
        status, text = tell(command, campaign.root, signers)
        assert status == 0, (command, text)
        if command.startswith("ssh-keygen"):
            assert text.startswith("Good ")
        if command.startswith("pdfsig"):
            assert "Signature is Valid" in text and "Total document signed" in text


@NEEDS_POPPLER
def test_the_commands_for_a_folder_refuse_a_spoilt_note(campaign: Campaign, signers: Path) -> None:
    for path in (campaign.note / "decision-note.pdf", campaign.lock):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(bytes(data))
    signed_list = campaign.note / "SHA256SUMS"
    signed_list.write_bytes(signed_list.read_bytes().replace(b"# note: ", b"# note: x"))
    for command in commands("1. "):
        status, text = tell(command, campaign.root, signers)
        assert status != 0 or "Signature is Valid" not in text, (command, text)


def test_the_commands_for_an_archive(campaign: Campaign, signers: Path, tmp_path: Path) -> None:
    archive = make_archive(campaign, campaign.root / "rental.toml", {}).path
    shutil.unpack_archive(archive, tmp_path / "out")
    (folder,) = (tmp_path / "out").iterdir()
    for command in commands("2. "):
        assert tell(command, folder, signers)[0] == 0, command
    (folder / "data" / "rental.toml").write_bytes(b"other\n")
    (folder / "bag-info.txt").write_bytes(b"Purpose: other\n")
    (folder / "tagmanifest-sha256.txt").write_bytes(b"\n")
    for command in commands("2. "):
        assert tell(command, folder, signers)[0] != 0, command


@NEEDS_POPPLER
def test_the_commands_for_a_pdf_alone(campaign: Campaign, signers: Path, tmp_path: Path) -> None:
    expected = (
        "Total document signed", "records~attempts~a000.json", "", "records/attempts/a000.json: OK",
        'Good "pdf@gpu-decision-note" signature for seller@example.org', '"pdf_certificate_sha256"',
    )  # fmt: skip
    for command, words in zip(commands("3. "), expected, strict=True):
        status, text = tell(command.replace("/tmp/evidence", str(tmp_path / "evidence")), campaign.note, signers)
        assert status == 0, (command, text)
        assert words in text


def test_a_stranger_in_the_signers_file_is_refused(campaign: Campaign, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger"
    with another_user(tmp_path / "user"):
        stranger.write_text(f"seller@example.org {signing_key(campaign, {}).public_key}\n", "utf-8")
    (command,) = [line for line in commands("1. ") if "-Y verify" in line]
    assert tell(command, campaign.root, stranger)[0] != 0


def test_the_recomputation_without_our_code(campaign: Campaign, signers: Path) -> None:
    """Issue 5: each step also as a command of a tool that is not ours; the report prints the same commands."""
    lines: dict[str, list[tuple[str, str]]] = {line.split(" ", 1)[0]: [] for line in commands("4. ")}
    for line in commands("4. "):
        status, text = tell(line, campaign.root, signers)
        assert status == 0, (line, text)
        lines[line.split(" ", 1)[0]].append((line, text))
    assert lines["find"][0][1] == ""
    chain, files, decision = lines["python3"]
    assert chain[1] == "[]\n"
    assert files[1] and all(line.endswith(": OK") for line in files[1].splitlines())
    assert "('cpu', 'b8', 'small-final') 3 1.01 1.0 1.02" in decision[1]
    steps = {step.name: step.command for step in verify(campaign.root).steps}
    assert all(steps.values()), steps
    for name, (line, _) in (("chain of attempts", chain), ("files of the attempts", files), ("decision", decision)):
        assert str(steps[name]).startswith(line)
    status, text = tell(str(steps["model"]), campaign.root, signers)
    assert (status, "OK" in text) == (0, True)
    python = str(steps["verdicts"]).split("   (")[0].replace("python3", sys.executable, 1)
    assert tell(python, campaign.root, signers) == (0, "10 10 10\n")

    row = campaign.attempts / "a003.json"
    row.write_bytes(row.read_bytes().replace(b"3.01", b"0.01"))
    (campaign.predictions / "a004.parquet").write_bytes(b"other")
    assert tell(chain[0], campaign.root, signers)[1] == "['a004']\n"
    assert tell(files[0], campaign.root, signers)[0] != 0


def test_a_file_of_the_folder_is_never_imported_by_these_commands(campaign: Campaign, signers: Path) -> None:
    for name in ("json", "csv", "statistics", "pandas", "hashlib"):
        (campaign.root / f"{name}.py").write_text("open('proof', 'w')\nraise SystemExit(9)\n", encoding="utf-8")
    for line in commands("4. "):
        assert tell(line, campaign.root, signers)[0] == 0, line
    assert not (campaign.root / "proof").exists()


def test_the_fingerprints_of_the_note_without_our_code(campaign: Campaign, signers: Path) -> None:
    """M8: every hash of contents that the note shows can be computed from the files, and changes with them."""
    lock = load_lock(campaign)
    (corpus,) = lock.judgement.corpora
    wanted = [
        f"{lock.lock_sha256} {lock.judgement.protocol_sha256}\n",
        f"{corpus.id} {corpus.records_sha256} {corpus.labels_sha256}\n",
    ]
    assert [tell(line, campaign.root, signers) for line in commands("5. ")] == [(0, text) for text in wanted]
    place = campaign.root / corpus.final[0].path
    head, _, rest = place.read_bytes().partition(b"\n")
    place.write_bytes(head + b"\n" + rest.replace(b"e", b"x", 1))
    assert tell(commands("5. ")[1], campaign.root, signers)[1] != wanted[1]


@NEEDS_POPPLER
def test_the_lines_of_the_note_for_nothing_but_the_pdf(campaign: Campaign, signers: Path, tmp_path: Path) -> None:
    """DESIGN 7, 8: they stand in the note, work for the PDF alone, and find an attachment that was exchanged."""
    signer = read_signer(campaign)
    assert signer is not None
    text = (campaign.note / "decision-note.qmd").read_text(encoding="utf-8")
    lines = commands_for_a_pdf(signer)
    assert "\n".join(lines) in text
    assert max(len(line) for line in "\n".join(lines).split("\n")) <= 96, "a PDF's line: copied, it stays one"
    assert signer.fingerprint in check_commands(signer)[1].expect
    shutil.copyfile(campaign.note / "decision-note.pdf", tmp_path / "NOTE.pdf")
    status, shown = tell(" && ".join(f"{{ {line}; }}" for line in lines), tmp_path, signers)
    assert status == 0, shown
    assert "Total document signed" in shown and 'Good "pdf@gpu-decision-note" signature' in shown
    assert signer.pdf_certificate_sha256 in shown and signer.fingerprint in shown
    (tmp_path / "evidence" / "tariffs.csv").write_bytes(b"other")
    assert tell(lines[4], tmp_path / "evidence", signers)[0] != 0
