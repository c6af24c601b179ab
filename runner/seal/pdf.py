"""The PAdES signature in the PDF, by pyHanko: invisible, last, without network.

The unsigned PDF stays the exact beginning of the signed one. Checking asks for more than a sound
signature: it must cover the entire file, be the only one, and sit in its container in canonical form,
because the container itself is the one part of the file that no signature covers.
"""

from __future__ import annotations

import io
import logging
from dataclasses import dataclass
from typing import Any

from runner.errors import InputRefused
from runner.seal.offline import without_network_client
from runner.seal.pdfkey import LOCAL_SUBJECT, PdfKey

FIELD_NAME = "Signature"
_RESERVED_BYTES = 16_384
_ACTIONS = frozenset(
    f"/{name}" for name in ("JavaScript", "Launch", "SubmitForm", "ImportData", "GoToR", "GoToE", "Rendition", "Movie")
)
for _name in ("pyhanko", "pyhanko_certvalidator"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class PdfCheck:
    """`good`: the one bottom line. `findings`: what is wrong, in words; empty when good."""

    good: bool
    findings: tuple[str, ...]
    subject: str | None = None
    certificate_sha256: str | None = None
    reason: str | None = None

    @property
    def local_test(self) -> bool:
        return self.subject is not None and LOCAL_SUBJECT in self.subject


def sign_pdf(unsigned: bytes, key: PdfKey, *, reason: str) -> bytes:
    """Signed PDF that begins with the unsigned one. `reason` says in the signature what was signed.

    The certificates of the key's chain come along only when the whole chain is there: of a part of it
    nobody could tell whether it was changed.
    """
    with without_network_client():
        from pyhanko.sign.signers import SimpleSigner

    signer = SimpleSigner.load_pkcs12_data(key.path.read_bytes(), other_certs=[], passphrase=key.passphrase)
    signed = _sign(unsigned, signer, reason)
    check = check_pdf(signed)
    if not check.good:
        alone = SimpleSigner(signer.signing_cert, signer.signing_key, type(signer.cert_registry)())
        signed = _sign(unsigned, alone, reason)
        check = check_pdf(signed)
    if not check.good:
        raise InputRefused(
            "this key makes a PDF signature that does not pass our own check",
            file=key.path,
            details=check.findings,
            next_step="set PDF_SIGNING_P12 to another certificate, or unset it for a local test key (docs/checking.md)",
        )
    return signed


def _sign(unsigned: bytes, signer: Any, reason: str) -> bytes:
    with without_network_client():
        from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter
        from pyhanko.pdf_utils.misc import PdfError
        from pyhanko.sign import fields, signers

    metadata = signers.PdfSignatureMetadata(
        field_name=FIELD_NAME, md_algorithm="sha256", subfilter=fields.SigSeedSubFilter.PADES, reason=reason
    )
    output = io.BytesIO()
    try:
        writer = IncrementalPdfFileWriter(io.BytesIO(unsigned))
        # pyHanko would write the metadata anew, in another form and with itself as the producer: they stay as they are.
        writer._update_meta = _metadata_stay  # type: ignore[method-assign]
        signers.sign_pdf(writer, metadata, signer=signer, output=output, bytes_reserved=_RESERVED_BYTES)
    except (PdfError, ValueError) as error:
        raise InputRefused(
            f"the PDF cannot be signed: {error}",
            next_step="runner report makes it again; if that fails too, try with the shipped templates/",
        ) from None
    signed = output.getvalue()
    assert signed.startswith(unsigned), "an incremental update only appends"
    return signed


def _metadata_stay() -> None:
    """The signature says itself when and by whom it was made."""


def check_pdf(data: bytes) -> PdfCheck:
    """Check a signed PDF: integrity, coverage of the whole file, canonical container. Never raises on bad bytes."""
    from runner.seal.pdfcontainer import container_findings

    try:
        check, byte_range, contents = _check_signature(data)
    except Exception as error:  # a parser fed with damaged bytes may raise anything; all of it means "not good"
        return PdfCheck(False, (f"the PDF or its signature cannot be read ({type(error).__name__}: {error})",))
    if check.findings:
        return check
    try:
        findings = container_findings(data, byte_range, contents)
    except Exception as error:
        findings = (f"the signature's container cannot be read ({type(error).__name__}: {error})",)
    return PdfCheck(not findings, findings, check.subject, check.certificate_sha256, check.reason)


def active_content(data: bytes) -> tuple[str, ...]:
    """What in a PDF does something by itself, or leads elsewhere than to a page or an address; nothing in ours."""
    import pikepdf

    found: set[str] = set()
    try:
        with pikepdf.open(io.BytesIO(data)) as document:
            for item in document.objects:
                if isinstance(item, pikepdf.Dictionary | pikepdf.Stream):
                    found |= {key for key in ("/JS", "/JavaScript", "/AA", "/XFA", "/OpenAction") if key in item}
                    kind = str(item.get("/S", ""))
                    found |= {kind} & _ACTIONS
    except (pikepdf.PdfError, ValueError) as error:
        return (f"the PDF's parts cannot be listed ({error})",)
    return tuple(f"the document holds active content ({name})" for name in sorted(found))


def _check_signature(data: bytes) -> tuple[PdfCheck, list[int], bytes]:
    """pyHanko's findings, the byte range and the raw CMS bytes."""
    with without_network_client():
        from pyhanko.pdf_utils.reader import PdfFileReader
        from pyhanko.sign.validation import validate_pdf_signature
        from pyhanko.sign.validation.status import SignatureCoverageLevel
        from pyhanko_certvalidator import ValidationContext

    reader = PdfFileReader(io.BytesIO(data))
    signatures = reader.embedded_signatures
    if len(signatures) != 1:
        what = "the PDF is not signed" if not signatures else "the PDF holds more than one signature"
        return PdfCheck(False, (what,)), [], b""
    (signature,) = signatures
    status: Any = validate_pdf_signature(
        signature, signer_validation_context=ValidationContext(trust_roots=[], allow_fetching=False)
    )
    findings = []
    if not status.intact:
        findings.append("the document was changed after it was signed")
    if not status.valid:
        findings.append("the signature does not fit its certificate")
    if status.coverage is not SignatureCoverageLevel.ENTIRE_FILE:
        findings.append("the signature does not cover the entire file")
    if not status.docmdp_ok:
        findings.append("the document was modified in a way that its signature does not allow")
    certificate = signature.signer_cert
    reason = signature.sig_object.get("/Reason")
    byte_range = [int(number) for number in signature.sig_object["/ByteRange"]]
    check = PdfCheck(
        not findings,
        tuple(findings),
        certificate.subject.human_friendly,
        certificate.sha256.hex(),
        None if reason is None else str(reason),
    )
    return check, byte_range, bytes(signature.pkcs7_content)
