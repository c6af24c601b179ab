"""The certificate that signs the PDF: the user's PKCS#12 file, or a local self-signed one for tests."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.signing import local_keys, new_key_file

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

P12_VARIABLE = "PDF_SIGNING_P12"
PASSPHRASE_VARIABLE = "PDF_SIGNING_PASSPHRASE_FILE"
LOCAL_P12_NAME = "local-test-pdf.p12"
LOCAL_SUBJECT = "local test key (shows consistency, not who signed)"
_LOCAL_NOT_AFTER = datetime(2100, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class PdfKey:
    """A PKCS#12 file that was opened once. `certificate_sha256` is over the certificate's DER bytes."""

    path: Path
    passphrase: bytes | None
    certificate_sha256: str
    subject: str
    local_test: bool


def pdf_key(campaign: Campaign, environ: Mapping[str, str] = os.environ) -> PdfKey:
    """The key for the PDF: PDF_SIGNING_P12 (passphrase in a file), else a local one, made on first use."""
    named = environ.get(P12_VARIABLE, "")
    if named:
        return _open(Path(named).expanduser(), _passphrase(environ), local_test=False)
    path = local_keys() / LOCAL_P12_NAME
    if not path.exists():
        _make_local(path)
    return _open(path, None, local_test=True)


def _passphrase(environ: Mapping[str, str]) -> bytes | None:
    named = environ.get(PASSPHRASE_VARIABLE, "")
    if not named:
        return None
    path = Path(named).expanduser()
    try:
        return path.read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise InputRefused(
            f"the passphrase file cannot be read: {error.strerror}",
            file=path,
            next_step="check that the file is there and may be read",
        ) from None


def _open(path: Path, passphrase: bytes | None, *, local_test: bool) -> PdfKey:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        key, certificate, _ = pkcs12.load_key_and_certificates(path.read_bytes(), passphrase)
    except OSError as error:
        raise InputRefused(
            f"the PDF signing key cannot be read: {error.strerror}",
            file=path,
            next_step=f"set {P12_VARIABLE} to a PKCS#12 file, or unset it to use a local test key",
        ) from None
    except ValueError:
        raise InputRefused(
            "the PDF signing key cannot be opened: not a PKCS#12 file, or another passphrase",
            file=path,
            next_step=f"set {PASSPHRASE_VARIABLE} to a file that holds the passphrase",
        ) from None
    if certificate is None or not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise InputRefused(
            "the PDF signing key must be an EC or RSA key with its certificate (viewers know no other)",
            file=path,
            next_step="give a key file of one of the two kinds",
        )
    now = datetime.now(UTC)
    if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
        raise InputRefused(
            "the certificate of the PDF signing key is not valid today",
            file=path,
            value=f"{certificate.not_valid_before_utc.date()} to {certificate.not_valid_after_utc.date()}",
            next_step="renew the certificate, or check the clock of this machine",
        )
    digest = certificate.fingerprint(hashes.SHA256()).hex()
    return PdfKey(path, passphrase, digest, certificate.subject.rfc4514_string(), local_test)


def certificate_in(data: bytes) -> str | None:
    """SHA-256 of the certificate in a PKCS#12 file without passphrase; None for anything else."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        _, certificate, _ = pkcs12.load_key_and_certificates(data, None)
    except ValueError:
        return None
    return None if certificate is None else certificate.fingerprint(hashes.SHA256()).hex()


def _make_local(path: Path) -> None:
    """ECDSA P-256, which every viewer knows (Ed25519 is not understood by pdfsig); owner-only file."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import pkcs12

    key = ec.generate_private_key(ec.SECP256R1())
    data = pkcs12.serialize_key_and_certificates(
        b"local test key", key, _self_signed(key), None, serialization.NoEncryption()
    )
    with new_key_file(path) as made:
        made.write_bytes(data)


def _self_signed(key: object) -> Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    assert isinstance(key, ec.EllipticCurvePrivateKey)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, LOCAL_SUBJECT)])
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=True,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC))
        .not_valid_after(_LOCAL_NOT_AFTER)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
