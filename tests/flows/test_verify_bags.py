"""An archive packed again or unpacked, and what lies beside a note: everything is named (NO-12, NO-14, M45, M53)."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from runner.cli.main import run
from runner.evidence.campaign import Campaign
from runner.evidence.signing import local_keys, signing_key
from runner.flows.archive import make_archive
from runner.flows.verification import Verification
from runner.flows.verify import verify


@pytest.fixture(scope="module")
def archive(reported: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("bags") / "campaign"
    shutil.copytree(reported, root)
    return make_archive(Campaign(root), root / "rental.toml", {}).path


@pytest.fixture
def unpacked(archive: Path, tmp_path: Path) -> Path:
    shutil.unpack_archive(archive, tmp_path / "out")
    (folder,) = (tmp_path / "out").iterdir()
    return folder


def zipped(folder: Path, target: Path, *, folders: bool, packed: bool) -> Path:
    """As `zip -r` (entries for folders, packed) or other tools do it."""
    kind = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
    with zipfile.ZipFile(target, "w", kind) as made:
        for path in sorted(folder.rglob("*")):
            if folders or path.is_file():
                made.write(path, path.relative_to(folder.parent).as_posix())
    return target


def failed(found: Verification) -> dict[str, tuple[str, ...]]:
    return {
        step.name: (step.finding, *step.details)
        for step in found.steps
        if step.status == "failed" and step.follows is None
    }


@pytest.mark.parametrize("folders", [True, False])
@pytest.mark.parametrize("packed", [True, False])
def test_m45_an_archive_packed_again_says_that_its_contents_fit(
    unpacked: Path, tmp_path: Path, folders: bool, packed: bool
) -> None:
    """Not accepted, since nothing covers such a container; yet not called worthless either."""
    again = zipped(unpacked, tmp_path / "again.zip", folders=folders, packed=packed)
    found = failed(verify(again))
    assert list(found) == ["archive"]
    text = " ".join(found["archive"])
    assert "packed by another tool" in text and "fit their manifests and the signature" in text
    assert "runner verify" in text


@pytest.mark.parametrize("name", ["records/attempts/a001.json", "tariffs.csv", "protocol/model/config.json"])
@pytest.mark.parametrize("how", ["changed", "missing", "added"])
def test_no_14_a_spoilt_file_is_named_in_an_archive_packed_again_and_in_its_folder(
    unpacked: Path, tmp_path: Path, name: str, how: str
) -> None:
    place = unpacked / "data" / name
    if not place.exists():
        pytest.skip("the model lies elsewhere")
    if how == "changed":
        place.write_bytes(place.read_bytes() + b" ")
    elif how == "missing":
        place.unlink()
    else:
        place = place.with_name("added.json")
        place.write_bytes(b"{}")
    wanted = f"data/{place.relative_to(unpacked / 'data').as_posix()}"
    for path in (zipped(unpacked, tmp_path / "again.zip", folders=True, packed=True), unpacked):
        found = verify(path)
        assert not found.accepted
        assert any(text.startswith(wanted) for text in failed(found)["archive"]), failed(found)


def test_m45_the_folder_of_an_unpacked_archive_is_checked_as_a_whole(
    unpacked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bag's folder, not only its data/: no advice to make a report, and the signer counts."""
    signers = tmp_path / "signers"
    signers.write_text(f"seller@example.org {signing_key(Campaign(unpacked), {}).public_key}\n", encoding="utf-8")
    assert run(["verify", str(unpacked), "--signers", str(signers)]) == 0
    out = capsys.readouterr().out
    assert "made by seller@example.org" in out and "make report" not in out
    assert verify(unpacked / "data").accepted
    (unpacked / "HOW-TO-CHECK.txt").write_text("believe me\n", encoding="utf-8")
    assert run(["verify", str(unpacked)]) == 3
    assert "HOW-TO-CHECK.txt" in capsys.readouterr().out
    (unpacked / "HOW-TO-CHECK.txt").unlink()
    (unpacked / "HOW-TO-CHECK.txt").symlink_to("/etc/passwd")
    assert "no plain file" in " ".join(failed(verify(unpacked))["archive"])


def test_no_12_names_that_leave_the_folder_are_refused_as_ever(unpacked: Path, tmp_path: Path) -> None:
    again = zipped(unpacked, tmp_path / "again.zip", folders=True, packed=True)
    with zipfile.ZipFile(again, "a") as made:
        made.writestr("../../outside/", b"")
    assert run(["verify", str(again)]) == 2
    assert not (tmp_path.parent / "outside").exists()


def test_m53_files_beside_the_evidence_and_private_keys_are_named(campaign: Campaign) -> None:
    """A letter in the folder, a key in protocol/: no signature covers the one, the other makes signatures worthless."""
    (campaign.root / "LIESMICH.txt").write_text("Bitte Zahlung an ...\n", encoding="utf-8")
    (step,) = [step for step in verify(campaign.root).steps if step.name == "other files"]
    assert step.status == "passed"
    assert "LIESMICH.txt" in step.details[0] and "rental.toml" in step.details[0]
    signing_key(campaign, {})
    keys = campaign.protocol_dir / "keys"
    shutil.copytree(local_keys(), keys)
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(campaign.root / "me.pem")], check=True)
    found = verify(campaign.root)
    (step,) = [step for step in found.steps if step.name == "other files"]
    assert step.status == "not checked" and "whoever gets it can sign" in step.finding
    names = {text.split(":")[0] for text in step.details[:-1]}
    assert names == {"protocol/keys/local-test-key", "protocol/keys/local-test-pdf.p12", "me.pem"}
