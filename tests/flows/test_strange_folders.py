"""What a stranger's folder or PDF can hold besides files: it is named, never followed, read or unpacked without end."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from runner.cli.main import run
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.signing import signing_key
from runner.flows.again import set_up_again
from runner.flows.staging import staged_note
from runner.flows.verify import verify
from runner.note import attachments
from runner.note.attachments import attached_files
from runner.seal.pdf import active_content
from tests.flows.conftest import pages_left_alone
from tests.support.rentals import OWN_MACHINE
from tests.support.small_campaign import PROTOCOL, make_campaign


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Reading a pipe never ends: the test does."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt("took too long")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


STRANGE: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "link": lambda path: path.symlink_to("/dev/zero"),
}
PLACES = (
    "records/attempts/z.json", "verdicts/z.json", "note/SHA256SUMS", "note/decision-note.pdf", "note/figures/z.svg",
    "templates/decision-note.qmd", "tariffs.csv", "protocol/plan.toml", "protocol/protocol.lock.json",
    "records/chain/z.json",
)  # fmt: skip


@pytest.mark.parametrize("kind", STRANGE)
def test_pipes_and_links_are_named_and_not_read(campaign: Campaign, kind: str) -> None:
    """Wherever they lie: a pipe would wait for ever, a link to /dev/zero fill the memory."""
    for place in PLACES:
        path = campaign.root / place
        data = path.read_bytes() if path.exists() else None
        path.unlink(missing_ok=True)
        STRANGE[kind](path)
        with at_most(30):
            found = verify(campaign.root)
            assert not found.accepted
            assert found.steps[0].details == (f"{place}: a {kind}, no plain file",)
            with pytest.raises(InputRefused):
                set_up_again(campaign.root, campaign.root.parent / "again")
        path.unlink()
        if data is not None:
            path.write_bytes(data)
    assert verify(campaign.root).accepted


def test_hidden_files_are_named_as_not_covered(campaign: Campaign) -> None:
    (campaign.note / ".read-me.pdf").write_bytes(b"another decision")
    found = verify(campaign.root)
    (step,) = (step for step in found.steps if step.name == "files")
    assert found.accepted and step.details == ("note/.read-me.pdf: hidden, not covered by the signature, not read",)


# ---- PDF -------------------------------------------------------------------------------------------------------------


def with_attachments(path: Path, files: list[tuple[str, str, bytes]]) -> Path:
    """A PDF that carries (name, description, content)."""
    import pikepdf

    document = pikepdf.new()
    document.add_blank_page()
    names: list[Any] = []
    for name, description, data in files:
        spec = pikepdf.AttachedFileSpec(document, data, filename=name, description=description)
        names += [pikepdf.String(name), spec.obj]
    document.Root.Names = pikepdf.Dictionary(EmbeddedFiles=pikepdf.Dictionary(Names=pikepdf.Array(names)))
    document.save(path)
    return path


@pytest.mark.parametrize(
    "files",
    [
        [("note~a.json", "note/a.json", b"1"), ("zz", "note/a.json", b"2")],
        [("harmless.pdf", "note/decision.json", b"1")],
        [("..~..~x", "../../x", b"1")],
        [("~etc~x", "/etc/x", b"1")],
    ],
)
def test_attachments_that_viewers_show_otherwise_are_refused(tmp_path: Path, files: list[Any]) -> None:
    """What a viewer saves under a name is what is checked under it; nothing leads out of a folder."""
    with pytest.raises(InputRefused, match="attachment"):
        attached_files(with_attachments(tmp_path / "a.pdf", files))


def test_an_attachment_that_unpacks_without_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pikepdf

    monkeypatch.setattr(attachments, "MOST_BYTES", 1_000_000)
    path = with_attachments(tmp_path / "a.pdf", [("records~a.json", "records/a.json", b"x")])
    with pikepdf.open(path, allow_overwriting_input=True) as document:
        (spec,) = (item for item in document.objects if isinstance(item, pikepdf.Dictionary) and "/EF" in item)
        spec.EF.F.write(zlib.compress(b"\0" * 50_000_000), filter=pikepdf.Name.FlateDecode)
        document.save(path)
    with pytest.raises(InputRefused, match="more than"):
        attached_files(path)


def test_a_document_that_does_something_by_itself_is_not_a_note(reported: Path) -> None:
    import pikepdf

    good = (reported / "note" / "decision-note.pdf").read_bytes()
    assert active_content(good) == ()
    for action in ("JavaScript", "Launch", "SubmitForm"):
        out = io.BytesIO()
        with pikepdf.open(io.BytesIO(good)) as document:
            document.Root.Extra = document.make_indirect(pikepdf.Dictionary(S=pikepdf.Name(f"/{action}")))
            document.save(out)
        assert active_content(out.getvalue()) == (f"the document holds active content (/{action})",)


# ---- writing the note ------------------------------------------------------------------------------------------------


def test_a_second_report_is_refused_while_one_is_written(campaign: Campaign) -> None:
    with staged_note(campaign) as staged:
        (staged.note / "a").write_bytes(b"")
        with pytest.raises(InputRefused, match="another report"), staged_note(campaign):
            raise AssertionError("two at once")
    assert [path.name for path in campaign.note.iterdir()] == ["a"]
    assert not list(campaign.root.glob(".note-*"))


def test_a_report_that_fails_leaves_the_old_note_and_nothing_else(campaign: Campaign) -> None:
    before = {path.name: path.read_bytes() for path in campaign.note.iterdir() if path.is_file()}
    for problem in (OSError("disk full"), KeyboardInterrupt()):
        with pytest.raises(type(problem)), staged_note(campaign) as staged:
            (staged.note / "half").write_bytes(b"half")
            raise problem
    assert {path.name: path.read_bytes() for path in campaign.note.iterdir() if path.is_file()} == before
    assert not list(campaign.root.glob(".note-*"))


@pytest.mark.parametrize("atomic", [True, False])
def test_the_new_note_takes_the_old_ones_place(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch, *, atomic: bool
) -> None:
    """With and without a system that swaps folders in one step; what a killed report left is cleared away."""
    if not atomic:
        monkeypatch.setattr("runner.flows.staging._exchange", lambda *_: False)
    (campaign.root / ".note-left").mkdir()
    with staged_note(campaign) as staged:
        (staged.note / "new").write_bytes(b"")
    assert [path.name for path in campaign.note.iterdir()] == ["new"]
    campaign.note.rename(campaign.root / ".note-x-old")  # killed between two renames
    with pytest.raises(OSError, match="full"), staged_note(campaign):
        raise OSError("full")
    assert [path.name for path in campaign.note.iterdir()] == ["new"]
    assert not list(campaign.root.glob(".note-*"))


def test_interrupted_and_killed_reports_never_leave_half_a_note(campaign: Campaign) -> None:
    """Ctrl-C and SIGKILL at several moments: the note that is there is always a whole one."""
    for number, moment in ((signal.SIGINT, 1.0), (signal.SIGKILL, 1.0), (signal.SIGINT, 2.5), (signal.SIGKILL, 2.5)):
        process = subprocess.Popen(
            [sys.executable, "-m", "runner", "--campaign", str(campaign.root), "report"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(moment)
        process.send_signal(number)
        process.wait(timeout=60)
        assert verify(campaign.root).accepted


# ---- signers ---------------------------------------------------------------------------------------------------------


def test_lines_of_the_signers_file_that_do_not_hold_now(campaign: Campaign, tmp_path: Path) -> None:
    """M53: expired, not yet valid, other purpose, authority for certificates; a second name of the key may sign."""
    key = signing_key(campaign, {}).public_key
    path = tmp_path / "my signers"

    def trusted(*lines: str) -> tuple[bool, str]:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        with pages_left_alone():
            found = verify(campaign.root, path)
        assert found.accepted == found.trusted
        return found.trusted, next(step.finding for step in found.steps if step.name == "signed list")

    for line in (f'a valid-before="20200101" {key}', f'a valid-after="20990101" {key}', f"a cert-authority {key}"):
        ok, text = trusted(line)
        assert not ok and "does not hold now" in text
    assert not trusted(f'a namespaces="git" {key}')[0]
    ok, text = trusted(f'a namespaces="git" {key}', f'b namespaces="note@gpu-decision-note" {key}')
    assert ok and text.endswith("made by b")
    ok, text = trusted(f'"sel\x1b[31mler" {key}')
    assert ok and "\x1b" not in text


def test_a_pdf_is_read_from_a_folder_whose_name_is_not_utf_8(reported: Path, tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/not-\xff-utf-8"))
    folder.mkdir()
    (folder / "note.pdf").write_bytes((reported / "note" / "decision-note.pdf").read_bytes())
    assert "note/decision.json" in attached_files(folder / "note.pdf")
    assert verify(folder / "note.pdf").accepted


def test_the_whole_chain_works_in_a_folder_whose_name_is_not_utf_8(
    measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 5: folders have the names they have; from corpus to archive nothing takes them for UTF-8."""
    place = Path(os.fsdecode(os.fsencode(tmp_path) + b"/not-\xff-utf-8"))
    place.mkdir()

    def command(root: Path, *arguments: str) -> None:
        status = run(["--campaign", str(root), *arguments])
        assert status == 0, (arguments, capsys.readouterr().err)

    fresh = make_campaign(tmp_path / "fresh", protocol=PROTOCOL).root
    shutil.copyfile(measured / "tariffs.csv", fresh / "tariffs.csv")
    fresh = fresh.rename(place / "fresh")
    data = place / "data.parquet"
    shutil.copyfile(measured / "records" / "predictions" / "a000.parquet", data)
    columns = ("--text-column", "id", "--tokenizer", "words", "--all", "--licence", "own", "--permission", "own")
    command(fresh, "corpus", "--from", str(data), *columns)
    command(fresh, "freeze")
    command(fresh, "plan")

    root = place / "measured"
    shutil.copytree(measured, root)
    (root / "rental.toml").write_text(OWN_MACHINE, encoding="utf-8")
    for words in (["validate"], ["decide"], ["report"], ["verify"], ["archive", "--rental", str(root / "rental.toml")]):
        command(root, *words)
    (archive,) = (root / "archive").glob("*.zip")
    command(root, "verify", str(archive))
    command(root, "compare", str(root), str(archive))
    command(root, "again", str(archive), str(place / "again"))
