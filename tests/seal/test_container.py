"""The ZIP container: canonical, deterministic, read without writing (NO-12)."""

from __future__ import annotations

import io
import os
import shutil
import stat
import subprocess
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.errors import InputRefused, NotAccepted
from runner.seal.container import read_container, write_container

CASE = Path(__file__).parent.parent / "cases" / "NO-12"
FILES = {"bag/b.txt": b"second\n", "bag/a.txt": b"first\n", "bag/\u00e4/c.bin": bytes(range(256))}


def write(path: Path, files: dict[str, bytes]) -> Path:
    with path.open("wb") as stream:
        write_container(stream, files)
    return path


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write(tmp_path / "a.zip", FILES)


def test_reading_gives_back_what_was_written(archive: Path) -> None:
    assert read_container(archive) == FILES


def test_the_order_of_writing_does_not_matter(archive: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "b.zip", dict(reversed(FILES.items())))
    assert other.read_bytes() == archive.read_bytes()


def test_other_tools_read_it(archive: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        assert opened.testzip() is None
        assert opened.namelist() == sorted(FILES)
    shutil.unpack_archive(archive, tmp_path / "out")
    assert (tmp_path / "out" / "bag" / "a.txt").read_bytes() == b"first\n"
    if shutil.which("unzip"):
        subprocess.run(["unzip", "-qt", str(archive)], check=True, timeout=30)


def test_every_changed_byte_of_the_container_is_found(archive: Path) -> None:
    whole = archive.read_bytes()
    for position in range(len(whole)):
        for mask in (0x01, 0x80):
            changed = bytearray(whole)
            changed[position] ^= mask
            archive.write_bytes(bytes(changed))
            with pytest.raises((InputRefused, NotAccepted)):
                read_container(archive)


@pytest.mark.parametrize("change", [lambda d: d + b"x", lambda d: b"x" + d, lambda d: d[:-1], lambda d: b""])
def test_cut_or_lengthened_containers_are_found(archive: Path, change: object) -> None:
    assert callable(change)
    archive.write_bytes(change(archive.read_bytes()))
    with pytest.raises(NotAccepted):
        read_container(archive)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.from_regex(r"[a-z]{1,3}", fullmatch=True), st.binary(max_size=40), max_size=5))
def test_any_files_survive(tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]) -> None:
    path = write(tmp_path_factory.mktemp("zip") / "a.zip", files)
    assert read_container(path) == files


def test_case_no_12_bad_names_are_listed_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NO-12: exit 2, the three bad names are listed, the folder and its parent stay empty."""
    target = tmp_path / "inner"
    target.mkdir()
    monkeypatch.chdir(target)
    with pytest.raises(InputRefused) as caught:
        read_container(CASE / "archive.zip")
    assert caught.value.exit_code == 2
    assert len(caught.value.details) == 3
    for name in ("../outside.txt", "/abs.txt", "win.txt"):
        assert any(name in line for line in caught.value.details)
    assert [path.name for path in tmp_path.rglob("*")] == ["inner"]


def test_links_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "link.zip"
    with zipfile.ZipFile(path, "w") as archive:
        entry = zipfile.ZipInfo("bag/link")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, "/etc/passwd")
    with pytest.raises(InputRefused) as caught:
        read_container(path)
    assert caught.value.details == ("'bag/link' is a link or a device",)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_duplicate_and_case_clashing_names_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("bag/a", "bag/a", "bag/A"):
            archive.writestr(name, name)
    with pytest.raises(InputRefused) as caught:
        read_container(path)
    assert len(caught.value.details) == 2


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bag/zeros", b"\0" * 10_000_000)
    with pytest.raises(NotAccepted, match="compressed"):
        read_container(path)


def test_bad_names_are_never_written(tmp_path: Path) -> None:
    with pytest.raises(InputRefused):
        write_container(io.BytesIO(), {"../a": b""})


def test_a_path_is_streamed_like_its_bytes(tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    (tmp_path / "big").write_bytes(content)
    from_path, from_bytes = io.BytesIO(), io.BytesIO()
    write_container(from_path, {"big": tmp_path / "big"})
    write_container(from_bytes, {"big": content})
    assert from_path.getvalue() == from_bytes.getvalue()
