"""The bag: every byte covered, accepted by sha256sum, ssh-keygen and the bagit library (M45)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runner.errors import InputRefused, NotAccepted
from runner.evidence.campaign import Campaign
from runner.evidence.signing import Purpose, check_signature, sign, signing_key
from runner.note.howto import how_to_check
from runner.note.i18n import load_catalogue
from runner.seal.bag import Bag, build_bag, left_out_files, read_bag
from runner.seal.container import Source, read_container, write_container

NAME = "messages-r1-0123456789ab"
PAYLOAD: dict[str, Source] = {"note/decision.json": b"{}\n", "tariffs.csv": b"gpu\n", "rental.toml": b"lots = 1\n"}
INFO = {"External-Identifier": NAME, "Purpose": "archive of a decision note"}


HOW = how_to_check(
    load_catalogue(Path(__file__).parents[2] / "templates", "de"),
    signature="tagmanifest-sha256.txt.sig",
    signed="tagmanifest-sha256.txt",
    complete=True,
    local_test=True,
    fingerprint="SHA256:x",
)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bag")
    key = signing_key(Campaign(folder), {})
    path = folder / f"{NAME}.zip"
    with path.open("wb") as stream:
        write_container(stream, build_bag(NAME, PAYLOAD, INFO, lambda data: sign(data, key, Purpose.BAG), HOW))
    return path


@pytest.fixture
def unpacked(archive: Path, tmp_path: Path) -> Path:
    shutil.unpack_archive(archive, tmp_path)
    return tmp_path / NAME


def rezip(archive: Path, target: Path, changes: dict[str, bytes | None]) -> Path:
    """The same archive with other files, in a container that is itself canonical."""
    files: dict[str, Source] = dict(read_container(archive))
    for name, data in changes.items():
        if data is None:
            del files[f"{NAME}/{name}"]
        else:
            files[f"{NAME}/{name}"] = data
    with target.open("wb") as stream:
        write_container(stream, files)
    return target


def test_reading_gives_back_payload_and_signature(archive: Path) -> None:
    bag = read_bag(archive)
    assert isinstance(bag, Bag)
    assert bag.payload == PAYLOAD
    assert bag.info["External-Identifier"] == NAME
    assert check_signature(bag.signed, bag.signature, Purpose.BAG).valid


def test_sha256sum_accepts_both_manifests(unpacked: Path) -> None:
    for manifest in ("manifest-sha256.txt", "tagmanifest-sha256.txt"):
        subprocess.run(["sha256sum", "--strict", "-c", manifest], cwd=unpacked, check=True, timeout=30)


def test_ssh_keygen_accepts_the_signature_as_the_archive_prints_it(unpacked: Path) -> None:
    text = (unpacked / "HOW-TO-CHECK.txt").read_text(encoding="utf-8")
    (command,) = [line.strip() for line in text.splitlines() if "check-novalidate" in line and "bag@" in line]
    subprocess.run(command, shell=True, cwd=unpacked, check=True, timeout=30)


def test_the_bagit_library_accepts_it(unpacked: Path) -> None:
    """Another reader of BagIt; in a process of its own, since its import warns on newer Pythons."""
    code = "import bagit, sys; bagit.Bag(sys.argv[1]).validate()"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(unpacked)], check=True, timeout=60)


def test_the_same_files_give_the_same_bytes(archive: Path, tmp_path: Path) -> None:
    """Ed25519 signatures are deterministic, so the whole archive is."""
    key = signing_key(Campaign(archive.parent), {})
    again = tmp_path / "again.zip"
    with again.open("wb") as stream:
        write_container(stream, build_bag(NAME, PAYLOAD, INFO, lambda data: sign(data, key, Purpose.BAG), HOW))
    assert again.read_bytes() == archive.read_bytes()


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({"data/note/decision.json": b"{ }\n"}, "data/note/decision.json: sha256 differs from the manifest"),
        ({"data/tariffs.csv": None}, "data/tariffs.csv: missing"),
        ({"data/extra.txt": b"x"}, "data/extra.txt: not covered by the signature"),
        ({"extra.txt": b"x"}, "extra.txt: not covered by the signature"),
        ({"bagit.txt": None}, "bagit.txt: missing"),
        ({"bag-info.txt": b"Purpose: another\n"}, "bag-info.txt: sha256 differs"),
        ({"HOW-TO-CHECK.txt": b"call us\n"}, "HOW-TO-CHECK.txt: sha256 differs"),
        ({"manifest-sha256.txt": b"\n"}, "manifest"),
        ({"tagmanifest-sha256.txt": b"x  y\n"}, "not a manifest line"),
    ],
)
def test_changed_missing_and_added_files_are_named(
    archive: Path, tmp_path: Path, changes: dict[str, bytes | None], finding: str
) -> None:
    with pytest.raises(NotAccepted) as caught:
        read_bag(rezip(archive, tmp_path / "changed.zip", changes))
    assert any(finding in line for line in caught.value.details)


def test_swapped_files_are_found(archive: Path, tmp_path: Path) -> None:
    swapped = {"data/tariffs.csv": b"{}\n", "data/note/decision.json": b"gpu\n"}
    with pytest.raises(NotAccepted):
        read_bag(rezip(archive, tmp_path / "changed.zip", swapped))


def test_another_archives_signature_is_found(archive: Path, tmp_path: Path) -> None:
    key = signing_key(Campaign(tmp_path), {})
    other = build_bag(
        NAME, {**PAYLOAD, "tariffs.csv": b"other\n"}, INFO, lambda data: sign(data, key, Purpose.BAG), HOW
    )
    signature = other[f"{NAME}/tagmanifest-sha256.txt.sig"]
    assert isinstance(signature, bytes)
    bag = read_bag(rezip(archive, tmp_path / "changed.zip", {"tagmanifest-sha256.txt.sig": signature}))
    assert not check_signature(bag.signed, bag.signature, Purpose.BAG).valid


def test_every_changed_byte_of_the_archive_is_found(archive: Path, tmp_path: Path) -> None:
    whole = archive.read_bytes()
    path = tmp_path / "changed.zip"
    for position in range(0, len(whole), 7):
        changed = bytearray(whole)
        changed[position] ^= 0x10
        path.write_bytes(bytes(changed))
        try:
            bag = read_bag(path)
        except (InputRefused, NotAccepted):
            continue
        assert not check_signature(bag.signed, bag.signature, Purpose.BAG).valid, position


def test_two_folders_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "two.zip"
    with path.open("wb") as stream:
        write_container(stream, {"a/x": b"", "b/x": b""})
    with pytest.raises(NotAccepted, match="one folder"):
        read_bag(path)


def test_m45_a_name_with_a_line_separator_of_unicode_stays_one_name(tmp_path: Path) -> None:
    """M45: U+2028 ends no line of a manifest; what this tool archives it also reads."""
    key = signing_key(Campaign(tmp_path), {})
    payload: dict[str, Source] = {"protocol/corpus/a\u2028b.csv": b"id,text\n", "left-out.txt": "x\u2029y\n".encode()}
    path = tmp_path / f"{NAME}.zip"
    with path.open("wb") as stream:
        write_container(stream, build_bag(NAME, payload, INFO, lambda data: sign(data, key, Purpose.BAG), HOW))
    assert read_bag(path).payload == payload


def test_m53_names_of_left_out_files_are_lines_as_they_were_written() -> None:
    """M53: a form feed or U+2028 in the name of a file that stays at home makes no second name."""
    bag = Bag(NAME, {}, {"left-out.txt": "protocol/a\u2028b.csv\nprotocol/c.csv\n".encode()}, b"", b"")
    assert left_out_files(bag) == {"protocol/a\u2028b.csv", "protocol/c.csv"}
