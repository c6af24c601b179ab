"""Rules of PDF/A-3 on the one signature: ISO 19005-3, 6.1.12 and 6.4.3; ISO 32000-1, 12.7.4.5 and 12.8.1."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pikepdf
from asn1crypto import cms
from pikepdf import Dictionary, Name


def signatures_6_4_3(pdf: pikepdf.Pdf, data: bytes) -> Iterator[str]:
    """An unsigned file has a field without a value; a signed one keeps every rule on its value."""
    form = pdf.Root.get("/AcroForm", Dictionary())
    signed = [field for field in form.get("/Fields", []) if field.get("/FT") == Name.Sig and "/V" in field]
    if signed and int(form.get("/SigFlags", 0)) & 3 != 3:
        yield "ISO 32000 12.7.2 the form does not say that there are signatures, to which may only be appended"
    if "/Perms" in pdf.Root and set(pdf.Root.Perms.keys()) - {"/UR3", "/DocMDP"}:
        yield "A 6.1.12-1 permissions of another kind"
    for field in signed:
        value = field.V
        yield from _dictionary(value)
        yield from _covered(value, data)
        yield from _container(bytes(value.get("/Contents", b"")))


def _dictionary(value: Any) -> Iterator[str]:
    if value.get("/Type", Name.Sig) != Name.Sig or str(value.get("/Filter")) != "/Adobe.PPKLite":
        yield "ISO 32000 12.8.1 the signature's type or filter"
    if str(value.get("/SubFilter")) not in ("/ETSI.CAdES.detached", "/adbe.pkcs7.detached"):
        yield f"ISO 32000 12.8.1 the signature's form {value.get('/SubFilter')}"
    for reference in value.get("/Reference", []):
        if any(key in reference for key in ("/DigestLocation", "/DigestMethod", "/DigestValue")):
            yield "A 6.1.12-2 a reference of the signature with a digest of its own"
    if not re.fullmatch(r"D:\d{14}(Z|[+-]\d\d'\d\d'?)", str(value.get("/M", ""))):
        yield f"ISO 32000 7.9.4 the time of the signature: {value.get('/M')}"


def _covered(value: Any, data: bytes) -> Iterator[str]:
    """6.4.3-1: the digest is of all bytes but the signature itself, with its angle brackets."""
    numbers = [int(number) for number in value.get("/ByteRange", [])]
    if len(numbers) != 4 or numbers[0] != 0 or numbers[2] + numbers[3] != len(data):
        yield f"A 6.4.3-1 the signature is not of the entire file: {numbers}"
        return
    gap = data[numbers[1] : numbers[2]]
    if not re.fullmatch(rb"<[0-9A-Fa-f]+>", gap) or bytes.fromhex(gap[1:-1].decode()) != bytes(value.Contents):
        yield "A 6.4.3-1 what the digest leaves out is not the signature alone"


def _container(contents: bytes) -> Iterator[str]:
    """6.4.3-2: one signer, whose certificate comes along."""
    try:
        content = cms.ContentInfo.load(contents)
        if content["content_type"].native != "signed_data":
            yield "A 6.4.3-2 the signature is no signed data"
            return
        signed = content["content"]
        signers = signed["signer_infos"]
        numbers = {item.chosen.serial_number for item in signed["certificates"]}
        if len(signers) != 1 or signers[0]["sid"].chosen["serial_number"].native not in numbers:
            yield "A 6.4.3-2 not one signer with a certificate"
    except (ValueError, TypeError, KeyError) as error:
        yield f"A 6.4.3-2 the signature cannot be read: {error}"
