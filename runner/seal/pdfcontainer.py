"""The signature's own bytes inside a PDF, which no signature covers, in canonical form.

Between the two signed ranges stands `<hexadecimal CMS, then zeros>`. Viewers ignore letter case, what
follows the CMS object, and parts of it that are not signed. Here each of them has one allowed form.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from typing import Any

# asn1crypto has no annotations: as plain modules its classes are `Any`, checked by the tests instead.
_algos = importlib.import_module("asn1crypto.algos")
_cms = importlib.import_module("asn1crypto.cms")
_core = importlib.import_module("asn1crypto.core")
_HEX = re.compile(rb"<([0-9A-F]+)>")


def container_findings(data: bytes, byte_range: Sequence[int], contents: bytes) -> tuple[str, ...]:
    """What in the container is not as this tool writes it; empty when canonical.

    `byte_range` is the four numbers of /ByteRange, `contents` the decoded /Contents with its padding.
    """
    if len(byte_range) != 4 or byte_range[0] != 0 or byte_range[2] + byte_range[3] != len(data):
        return ("the signed ranges are not the beginning and the rest of the file",)
    match = _HEX.fullmatch(data[byte_range[1] : byte_range[2]])
    if match is None or bytes.fromhex(match.group(1).decode("ascii")) != contents:
        return ("the signature's container was changed: not plain upper-case hexadecimal digits",)
    content_info = _cms.ContentInfo.load(contents)
    encoded = content_info.dump()
    if contents[len(encoded) :].strip(b"\0"):
        return ("the signature's container was changed: bytes follow the signature",)
    certificates = [choice.chosen for choice in content_info["content"]["certificates"]]
    (info,) = content_info["content"]["signer_infos"]
    if not vouched_for(certificates, next(one for one in certificates if _names(info, one))):
        return ("the signature's container holds a certificate that nothing vouches for",)
    if _rebuilt(content_info) != encoded:
        return ("the signature's container was changed: not the one form that its content has",)
    return ()


def vouched_for(certificates: Sequence[Any], signer: Any) -> bool:
    """Is every certificate beside the signer's part of a whole chain up to a self-signed one?

    The signature vouches for the signer's certificate only; each other one must be vouched for by the
    certificate that issued it, the last one by itself. Arguments are asn1crypto certificates.
    """
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    left = {one.dump(): x509.load_der_x509_certificate(one.dump()) for one in certificates}
    if len(left) != len(certificates):
        return False
    current = left.pop(signer.dump())
    while left:
        issuers = [(der, one) for der, one in left.items() if one.subject == current.issuer]
        if len(issuers) != 1:
            return False
        ((der, issuer),) = issuers
        try:
            current.verify_directly_issued_by(issuer)
            if len(left) == 1:
                issuer.verify_directly_issued_by(issuer)
        except (ValueError, TypeError, InvalidSignature):
            return False
        current = left.pop(der)
    return True


def _rebuilt(content_info: Any) -> bytes:
    """The CMS object built anew from the parts that the signature and the certificates vouch for."""
    signed = content_info["content"]
    (info,) = signed["signer_infos"]
    certificates = [choice.chosen for choice in signed["certificates"]]
    signer = next(one for one in certificates if _names(info, one))
    signer_info = _cms.SignerInfo(
        {
            "version": "v1",
            "sid": {"issuer_and_serial_number": {"issuer": signer.issuer, "serial_number": signer.serial_number}},
            "digest_algorithm": _algorithm(info["digest_algorithm"]),
            "signed_attrs": info["signed_attrs"].copy(),
            "signature_algorithm": _algorithm(info["signature_algorithm"]),
            "signature": _signature_value(info),
        }
    )
    rebuilt = _cms.ContentInfo(
        {
            "content_type": "signed_data",
            "content": _cms.SignedData(
                {
                    "version": "v1",
                    "digest_algorithms": [_algorithm(info["digest_algorithm"])],
                    "encap_content_info": {"content_type": "data"},
                    "certificates": [one.copy() for one in certificates],
                    "signer_infos": [signer_info],
                }
            ),
        }
    )
    encoded: bytes = rebuilt.dump(force=True)
    return encoded


def _names(info: Any, certificate: Any) -> bool:
    sid = info["sid"].chosen
    return bool(sid["issuer"] == certificate.issuer and sid["serial_number"].native == certificate.serial_number)


def _algorithm(identifier: Any) -> dict[str, Any]:
    """Name and parameters; where there are none, absent and NULL are both usual and kept apart."""
    parameters = identifier["parameters"]
    named = {"algorithm": identifier["algorithm"].native}
    if isinstance(parameters, _core.Void):
        return named
    return {**named, "parameters": _core.Null() if parameters.native is None else parameters.copy()}


def _signature_value(info: Any) -> bytes:
    """An ECDSA signature is a DER sequence of two numbers: encoded anew; RSA has a fixed length."""
    value: bytes = info["signature"].native
    if info["signature_algorithm"].signature_algo != "ecdsa":
        return value
    numbers = _algos.DSASignature.load(value, strict=True)
    encoded: bytes = _algos.DSASignature({"r": numbers["r"].native, "s": numbers["s"].native}).dump()
    return encoded
