"""The SSH signature container (`-----BEGIN SSH SIGNATURE-----`) in canonical form.

`ssh-keygen` reads more than it writes: other line lengths, text after the end line, a filled reserved
field. Here only the one form that it writes is accepted, so that every changed byte of a signature
file is found. The format is described in OpenSSH's PROTOCOL.sshsig.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from dataclasses import dataclass

_BEGIN = b"-----BEGIN SSH SIGNATURE-----\n"
_END = b"-----END SSH SIGNATURE-----\n"
_MAGIC = b"SSHSIG"
_VERSION = 1
_LINE_CHARACTERS = 70


@dataclass(frozen=True, slots=True)
class SshSignature:
    """Parts of a signature. `public_key` is the wire form; `value` is checked by ssh-keygen."""

    public_key: bytes
    namespace: str
    hash_name: str
    value: bytes

    @property
    def kind(self) -> str:
        """Type of the key, such as `ssh-ed25519`."""
        return key_kind(self.public_key)

    @property
    def fingerprint(self) -> str:
        return key_fingerprint(self.public_key)


class NotCanonical(ValueError):
    """Not an SSH signature as ssh-keygen writes it; the text says what is wrong."""


def key_fingerprint(public_key: bytes) -> str:
    """`SHA256:...` as `ssh-keygen -l` shows it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(public_key).digest()).decode("ascii").rstrip("=")


def key_kind(public_key: bytes) -> str:
    """Type of a key in wire form."""
    kind, _ = _take_string(public_key)
    try:
        return kind.decode("ascii")
    except UnicodeDecodeError:
        raise NotCanonical("the type of the key is not ASCII") from None


def parse_signature(armored: bytes) -> SshSignature:
    """Read an armored signature; whatever is not byte for byte the canonical form is refused."""
    if not armored.startswith(_BEGIN) or not armored.endswith(_END):
        raise NotCanonical("not an SSH signature: the begin or end line is missing or altered")
    body = armored[len(_BEGIN) : -len(_END)]
    try:
        blob = base64.b64decode(body.replace(b"\n", b""), validate=True)
    except binascii.Error:
        raise NotCanonical("the signature's base64 text is damaged") from None
    signature = _parse_blob(blob)
    if format_signature(signature) != armored:
        raise NotCanonical("the signature file is not in canonical form")
    return signature


def format_signature(signature: SshSignature) -> bytes:
    """The one armored form of a signature."""
    parts = (
        signature.public_key,
        signature.namespace.encode("utf-8"),
        b"",
        signature.hash_name.encode("ascii"),
        signature.value,
    )
    blob = _MAGIC + struct.pack(">I", _VERSION) + b"".join(struct.pack(">I", len(part)) + part for part in parts)
    text = base64.b64encode(blob)
    lines = [text[start : start + _LINE_CHARACTERS] + b"\n" for start in range(0, len(text), _LINE_CHARACTERS)]
    return _BEGIN + b"".join(lines) + _END


def _parse_blob(blob: bytes) -> SshSignature:
    head = _MAGIC + struct.pack(">I", _VERSION)
    if not blob.startswith(head):
        raise NotCanonical("not an SSH signature of version 1")
    rest = blob[len(head) :]
    parts = []
    for _ in range(5):
        part, rest = _take_string(rest)
        parts.append(part)
    if rest:
        raise NotCanonical("bytes follow the signature")
    public_key, namespace, _reserved, hash_name, value = parts
    key_kind(public_key)
    try:
        return SshSignature(public_key, namespace.decode("utf-8"), hash_name.decode("ascii"), value)
    except UnicodeDecodeError:
        raise NotCanonical("namespace or hash name cannot be read") from None


def _take_string(data: bytes) -> tuple[bytes, bytes]:
    """A length-prefixed string and what follows it."""
    if len(data) < 4:
        raise NotCanonical("the signature is cut short")
    (length,) = struct.unpack(">I", data[:4])
    if length > len(data) - 4:
        raise NotCanonical("the signature is cut short")
    return data[4 : 4 + length], data[4 + length :]
