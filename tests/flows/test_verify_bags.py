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
from runner.note.build import OWN_TEMPLATES
from runner.note.howto import how_to_check
from runner.note.i18n import load_catalogue
from runner.seal.pdfkey import pdf_key
from tests.support.keys import another_user


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


@pytest.mark.parametrize("key", ["local-test-key", "local-test-pdf.p12"])
def test_m53_who_signed_is_not_accepted_where_the_key_travels_along(
    campaign: Campaign, tmp_path: Path, key: str
) -> None:
    """With a signers file the answer would be a name; the key of somebody else in the folder changes nothing."""
    signers = tmp_path / "signers"
    signers.write_text(f"seller@example.org {signing_key(campaign, {}).public_key}\n", encoding="utf-8")
    (campaign.protocol_dir / "keys").mkdir()
    with another_user(tmp_path / "stranger"):
        signing_key(campaign, {})
        pdf_key(campaign, {})
        shutil.copyfile(local_keys() / key, campaign.protocol_dir / "keys" / key)
    assert verify(campaign.root, signers).trusted
    shutil.copyfile(local_keys() / key, campaign.protocol_dir / "keys" / key)
    assert list(failed(verify(campaign.root, signers))) == ["other files"]
    assert "other files" not in failed(verify(campaign.root))


@pytest.mark.parametrize("language", ["en", "de", "tr", "fr"])
def test_m45_how_to_check_speaks_the_notes_language_and_its_lines_work(language: str, tmp_path: Path) -> None:
    """Its own words in each language, English below for others, and the fingerprint to expect."""
    title = {
        "de": "Dieses Archiv ohne",
        "tr": "Bu arşiv, yazılımımız",
        "fr": "Vérifier cette archive",
        "en": "How to check",
    }
    catalogue = load_catalogue(OWN_TEMPLATES, language)
    text = how_to_check(
        catalogue, signature="s.sig", signed="s", complete=False, local_test=True, fingerprint="SHA256:abc"
    )
    assert text.startswith(title[language]) and not catalogue.missing
    assert "SHA256:abc" in text and "sha256sum -c --ignore-missing note/SHA256SUMS" in text
    assert max(len(line) for line in text.splitlines() if not line.startswith(" ")) <= 100
    if language != "en":
        assert "This archive" not in text


def test_m45_every_line_of_how_to_check_works(unpacked: Path) -> None:
    """The real file of a real archive, run as it stands, by a shell."""
    text = (unpacked / "HOW-TO-CHECK.txt").read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines() if line.startswith("     ") and "runner" not in line]
    if shutil.which("pdfsig") is None:
        lines = [line for line in lines if not line.startswith("pdfsig")]
    assert len(lines) >= 6
    done = subprocess.run(" && ".join(lines), shell=True, cwd=unpacked, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert signing_key(Campaign(unpacked), {}).fingerprint in text
