"""The signature in the PDF: whole file, one form, checked by us and by pdfsig (M44, M45)."""

from __future__ import annotations

import datetime
import io
import random
import shutil
import stat
import subprocess
from pathlib import Path

import pikepdf
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, NoEncryption, pkcs12
from cryptography.x509.oid import NameOID

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.seal.pdf import check_pdf, sign_pdf
from runner.seal.pdfkey import PdfKey, pdf_key

NEEDS_PDFSIG = pytest.mark.skipif(shutil.which("pdfsig") is None, reason="needs pdfsig (package poppler-utils)")


def blank_pdf(pages: int = 1) -> bytes:
    pdf = pikepdf.new()
    for _ in range(pages):
        pdf.add_blank_page()
    out = io.BytesIO()
    pdf.save(out, deterministic_id=True)
    return out.getvalue()


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> PdfKey:
    return pdf_key(Campaign(tmp_path_factory.mktemp("campaign")), {})


@pytest.fixture(scope="module")
def signed(key: PdfKey) -> bytes:
    return sign_pdf(blank_pdf(), key, reason="Decision note n-1")


def pdfsig(data: bytes, folder: Path) -> str:
    path = folder / "signed.pdf"
    path.write_bytes(data)
    return subprocess.run(
        ["pdfsig", "-nocert", str(path)], capture_output=True, text=True, check=False, timeout=60
    ).stdout


def test_the_local_key_is_private_and_called_a_test_key(key: PdfKey) -> None:
    assert key.local_test
    assert "local test key" in key.subject
    assert stat.S_IMODE(key.path.stat().st_mode) == 0o600


def test_the_signed_pdf_begins_with_the_unsigned_one(signed: bytes) -> None:
    assert signed.startswith(blank_pdf())


def test_a_good_signature_says_what_it_signs(signed: bytes, key: PdfKey) -> None:
    check = check_pdf(signed)
    assert check.good, check.findings
    assert check.certificate_sha256 == key.certificate_sha256
    assert check.reason == "Decision note n-1"
    assert check.local_test


@NEEDS_PDFSIG
def test_pdfsig_agrees(signed: bytes, tmp_path: Path) -> None:
    text = pdfsig(signed, tmp_path)
    assert "Signature is Valid" in text
    assert "Total document signed" in text
    assert "ETSI.CAdES.detached" in text


def test_appended_bytes_are_found(signed: bytes) -> None:
    """pyHanko's own bottom line stays true for these: coverage must be the entire file."""
    for appended in (b"\n", b"%", blank_pdf()):
        assert not check_pdf(signed + appended).good


def test_an_incremental_update_after_the_signature_is_found(signed: bytes) -> None:
    from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter

    writer = IncrementalPdfFileWriter(io.BytesIO(signed))
    writer.root["/PageLayout"] = writer.root.get("/PageLayout", writer.root["/Type"])
    writer.update_root()
    out = io.BytesIO()
    writer.write(out)
    check = check_pdf(out.getvalue())
    assert not check.good
    assert "the signature does not cover the entire file" in check.findings


def test_a_pdf_without_signature_is_not_good() -> None:
    assert check_pdf(blank_pdf()).findings == ("the PDF is not signed",)
    assert not check_pdf(b"").good
    assert not check_pdf(b"%PDF-1.7 nonsense").good


def test_two_signatures_are_not_good(signed: bytes, key: PdfKey) -> None:
    from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter
    from pyhanko.sign import signers

    signer = signers.SimpleSigner.load_pkcs12_data(key.path.read_bytes(), other_certs=[], passphrase=None)
    out = io.BytesIO()
    signers.sign_pdf(
        IncrementalPdfFileWriter(io.BytesIO(signed)),
        signers.PdfSignatureMetadata(field_name="Second"),
        signer=signer,
        output=out,
    )
    assert not check_pdf(out.getvalue()).good


def test_changed_bytes_are_found_everywhere(signed: bytes) -> None:
    """A sample over the signed ranges, and the container that no signature covers more densely."""
    start, end = container_range(signed)
    used = signed.find(b"0" * 200, start, end)
    rng = random.Random(20261130)
    positions = [
        *rng.sample(range(start), 30),
        *rng.sample(range(start, used), 150),
        *rng.sample(range(used, end), 10),
        *rng.sample(range(end, len(signed)), 40),
    ]
    for position in positions:
        changed = bytearray(signed)
        changed[position] ^= 0x01
        assert not check_pdf(bytes(changed)).good, position


def container_range(data: bytes) -> tuple[int, int]:
    from pyhanko.pdf_utils.reader import PdfFileReader

    numbers = PdfFileReader(io.BytesIO(data)).embedded_signatures[0].sig_object["/ByteRange"]
    return int(numbers[1]), int(numbers[2])


@NEEDS_PDFSIG
def test_what_pdfsig_overlooks_in_the_container_is_found(signed: bytes, tmp_path: Path) -> None:
    """Lower-case digits and filled padding leave the signature valid for others; not for us."""
    start, end = container_range(signed)
    lower = signed[:start] + signed[start:end].lower() + signed[end:]
    padded = signed[: end - 3] + b"FF" + signed[end - 1 :]
    for changed in (lower, padded):
        assert len(changed) == len(signed)
        assert changed != signed
        assert "Signature is Valid" in pdfsig(changed, tmp_path)
        assert "container was changed" in check_pdf(changed).findings[0]


PrivateKey = ec.EllipticCurvePrivateKey


def certificate(subject: str, key: PrivateKey, issuer: str, issuer_key: PrivateKey, *, days: int) -> x509.Certificate:
    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=40)
    return (
        x509.CertificateBuilder()
        .subject_name(name(subject))
        .issuer_name(name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=40 + days))
        .add_extension(x509.BasicConstraints(ca=subject != "user", path_length=None), critical=True)
        .sign(issuer_key, hashes.SHA256())
    )


def p12(
    folder: Path, *, chain: tuple[str, ...] = (), passphrase: bytes | None = None, days: int = 30
) -> dict[str, str]:
    """A user's key issued by `middle`, issued by `root`; `chain` says which certificates come along."""
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("user", "middle", "root")}
    made = {
        name: certificate(name, keys[name], issuer, keys[issuer], days=days if name == "user" else 30)
        for name, issuer in (("user", "middle"), ("middle", "root"), ("root", "root"))
    }
    encryption = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    data = pkcs12.serialize_key_and_certificates(
        b"user", keys["user"], made["user"], [made[name] for name in chain], encryption
    )
    (folder / "user.p12").write_bytes(data)
    return {"PDF_SIGNING_P12": str(folder / "user.p12")}


def embedded_certificates(data: bytes) -> int:
    from pyhanko.pdf_utils.reader import PdfFileReader

    signature = PdfFileReader(io.BytesIO(data)).embedded_signatures[0]
    return len(signature.signed_data["certificates"])


@pytest.mark.parametrize(("chain", "embedded"), [((), 1), (("middle", "root"), 3), (("middle",), 1)])
def test_a_chain_comes_along_only_when_it_is_whole(tmp_path: Path, chain: tuple[str, ...], embedded: int) -> None:
    key = pdf_key(Campaign(tmp_path), p12(tmp_path, chain=chain))
    assert not key.local_test
    signed = sign_pdf(blank_pdf(), key, reason="x")
    assert check_pdf(signed).good
    assert embedded_certificates(signed) == embedded


def test_a_changed_chain_certificate_is_found(tmp_path: Path) -> None:
    signed = sign_pdf(blank_pdf(), pdf_key(Campaign(tmp_path), p12(tmp_path, chain=("middle", "root"))), reason="x")
    start, end = container_range(signed)
    rng = random.Random(7)
    used = signed.find(b"0" * 200, start, end)
    for position in rng.sample(range(start, used), 120):
        changed = bytearray(signed)
        changed[position] ^= 0x01
        assert not check_pdf(bytes(changed)).good, position


def test_the_passphrase_comes_from_a_file(tmp_path: Path) -> None:
    environ = p12(tmp_path, passphrase=b"secret")
    (tmp_path / "passphrase").write_bytes(b"secret\n")
    good = {**environ, "PDF_SIGNING_PASSPHRASE_FILE": str(tmp_path / "passphrase")}
    assert check_pdf(sign_pdf(blank_pdf(), pdf_key(Campaign(tmp_path), good), reason="x")).good
    (tmp_path / "passphrase").write_bytes(b"wrong\n")
    for environment in (environ, good):
        with pytest.raises(InputRefused, match="another passphrase"):
            pdf_key(Campaign(tmp_path), environment)


def test_keys_that_cannot_sign_are_refused_with_their_reason(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    with pytest.raises(InputRefused, match="cannot be read"):
        pdf_key(campaign, {"PDF_SIGNING_P12": str(tmp_path / "missing.p12")})
    (tmp_path / "user.p12").write_bytes(b"not a key")
    with pytest.raises(InputRefused, match="cannot be opened"):
        pdf_key(campaign, {"PDF_SIGNING_P12": str(tmp_path / "user.p12")})
    with pytest.raises(InputRefused, match="not valid today"):
        pdf_key(campaign, p12(tmp_path, days=-1))
    key = ed25519.Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ed25519")])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1)).sign(
        key, None
    )
    data = pkcs12.serialize_key_and_certificates(b"ed25519", key, made, None, NoEncryption())
    (tmp_path / "user.p12").write_bytes(data)
    with pytest.raises(InputRefused, match="EC or RSA"):
        pdf_key(campaign, {"PDF_SIGNING_P12": str(tmp_path / "user.p12")})
    assert not (campaign.protocol_dir / "keys").exists()
