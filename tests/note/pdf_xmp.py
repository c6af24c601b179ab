"""Rules on the XMP packet of a PDF/A-3 that is PDF/UA-1 too: ISO 19005-3, 6.6; ISO 14289-1, 5 and 7.1; XMP 2005."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pikepdf
from lxml import etree
from pikepdf import Name, Stream

RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
DC, PDF = "{http://purl.org/dc/elements/1.1/}", "{http://ns.adobe.com/pdf/1.3/}"
XMP = "{http://ns.adobe.com/xap/1.0/}"
A_ID, UA_ID = "{http://www.aiim.org/pdfa/ns/id/}", "{http://www.aiim.org/pdfua/ns/id/}"
EXTENSION, SCHEMA = "{http://www.aiim.org/pdfa/ns/extension/}", "{http://www.aiim.org/pdfa/ns/schema#}"
PROPERTY = "{http://www.aiim.org/pdfa/ns/property#}"
_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_DATE = re.compile(r"\d{4}(-\d\d(-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?)?)?")
_PREFIXES = {
    A_ID: "pdfaid", UA_ID: "pdfuaid", EXTENSION: "pdfaExtension", SCHEMA: "pdfaSchema", PROPERTY: "pdfaProperty",
}  # fmt: skip
_KINDS = {
    f"{DC}title": "Alt", f"{DC}description": "Alt", f"{DC}rights": "Alt", f"{DC}creator": "Seq", f"{DC}date": "Seq",
    f"{DC}subject": "Bag", f"{DC}language": "Bag", f"{DC}format": "text", f"{PDF}Producer": "text",
    f"{PDF}Keywords": "text", f"{PDF}PDFVersion": "text", f"{XMP}CreatorTool": "text", f"{XMP}CreateDate": "date",
    f"{XMP}ModifyDate": "date", f"{XMP}MetadataDate": "date", f"{A_ID}part": "integer", f"{A_ID}conformance": "text",
}  # fmt: skip


def metadata_6_6(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    stream = pdf.Root.get("/Metadata")
    if not isinstance(stream, Stream) or (stream.get("/Type"), stream.get("/Subtype")) != (Name.Metadata, Name.XML):
        yield "A 6.6.2.1 no metadata stream with its type"
        return
    packet = stream.read_bytes()
    yield from packet_6_6_2_1(packet)
    try:
        root = etree.fromstring(packet)
    except etree.XMLSyntaxError as error:
        yield f"A 6.6.2.1 the metadata is not well-formed: {error}"
        return
    whole = root if root.tag == f"{RDF}RDF" else root.find(f"{RDF}RDF")
    if whole is None or any(child.tag != f"{RDF}Description" for child in whole.iterchildren("*")):
        yield "A 6.6.2.1 the metadata is no list of descriptions"
        return
    found = list(_properties(whole))
    yield from extension_6_6_2_3(root)
    yield from properties_6_6_2_3_1(found, _described(root))
    yield from identification_6_6_4(found)
    yield from information_6_6_3(pdf, found)


def packet_6_6_2_1(packet: bytes) -> Iterator[str]:
    head = re.match(rb"<\?xpacket ([^?]*)\?>", packet)
    if head is None or not re.search(rb"""begin=(["'])(\xef\xbb\xbf)?\1""", head[1]):
        yield "A 6.6.2.1 the packet has no header"
    elif b"W5M0MpCehiHzreSzNTczkc9d" not in head[1] or b"bytes=" in head[1] or b"encoding=" in head[1]:
        yield "A 6.6.2.1 the packet's header has bytes or encoding, or not its id"
    if not re.search(rb"""<\?xpacket end=(["'])[rw]\1\?>\s*$""", packet):
        yield "A 6.6.2.1 the packet has no end"
    try:
        packet.decode("utf-8")
    except UnicodeDecodeError:
        yield "A 6.6.2.1-5 the packet is not UTF-8"


def _properties(whole: Any) -> Iterator[tuple[str, str | None, Any]]:
    """Name, prefix, and text or element of every property."""
    for description in whole.iterchildren(f"{RDF}Description"):
        prefixes = {uri: prefix for prefix, uri in description.nsmap.items()}
        for name, value in description.attrib.items():
            if name != f"{RDF}about":
                yield name, prefixes.get(name[1:].split("}")[0]), value
        for child in description.iterchildren("*"):
            yield child.tag, child.prefix, child


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "".join(value.itertext()).strip()


def properties_6_6_2_3_1(found: list[tuple[str, str | None, Any]], described: set[tuple[str, str]]) -> Iterator[str]:
    """Each property stands once, is known or described, and has the form of its type."""
    names = [name for name, _prefix, _value in found]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"A 6.6.2.1 {name} stands twice"
    for name, prefix, value in found:
        space = name.split("}")[0] + "}"
        if _PREFIXES.get(space, prefix) != prefix:
            yield f"A 6.6.4, UA 5 the prefix of {name} is {prefix}"
        if name == f"{EXTENSION}schemas":
            continue
        kind = _KINDS.get(name)
        if kind is None and (space[1:-1], name.split("}")[1]) not in described:
            yield f"A 6.6.2.3.1 {name} is neither known nor described"
        if kind == "date" and not _DATE.fullmatch(_text(value)):
            yield f"A 6.6.2.3.1 {name} is no date: {_text(value)}"
        if kind == "integer" and not _text(value).isdigit():
            yield f"A 6.6.2.3.1 {name} is no number"
        if kind in ("Alt", "Seq", "Bag"):
            items = [] if isinstance(value, str) else value.findall(f"{RDF}{kind}/{RDF}li")
            if not items or (kind == "Alt" and items[0].get(_LANG) != "x-default"):
                yield f"A 6.6.2.3.1 {name} has not the form of its type"


def _described(root: Any) -> set[tuple[str, str]]:
    return {
        (schema.findtext(f"{SCHEMA}namespaceURI"), item.findtext(f"{PROPERTY}name"))
        for schema in root.iter(f"{RDF}li")
        for item in schema.iterfind(f"{SCHEMA}property/{RDF}Seq/{RDF}li")
    }


def extension_6_6_2_3(root: Any) -> Iterator[str]:
    if (UA_ID[1:-1], "part") not in _described(root):
        yield "A 6.6.2.3 the property pdfuaid:part is not described by an extension schema"
    for container in root.iter(f"{EXTENSION}schemas"):
        schemas = container.findall(f"{RDF}Bag/{RDF}li")
        if container.prefix != "pdfaExtension" or not schemas:
            yield "A 6.6.2.3.3 the container of schemas is no bag, or has another prefix"
        for schema in schemas:
            yield from _described_by(schema, SCHEMA, {"schema", "namespaceURI", "prefix", "property", "valueType"})
            for item in schema.iterfind(f"{SCHEMA}property/{RDF}Seq/{RDF}li"):
                yield from _described_by(item, PROPERTY, {"name", "valueType", "category", "description"})
                for part in ("name", "valueType", "category", "description"):
                    if not item.findtext(f"{PROPERTY}{part}"):
                        yield f"A 6.6.2.3.3 a described property has no {part}"
                if item.findtext(f"{PROPERTY}category") not in ("internal", "external"):
                    yield "A 6.6.2.3.3 a described property is neither internal nor external"


def _described_by(item: Any, space: str, allowed: set[str]) -> Iterator[str]:
    for child in item.iterchildren("*"):
        if not child.tag.startswith(space) or child.tag.split("}")[1] not in allowed:
            yield f"A 6.6.2.3.3 a field that the standard does not have: {child.tag}"
        elif child.prefix != _PREFIXES[space]:
            yield f"A 6.6.2.3.3 the prefix of {child.tag} is {child.prefix}"


def identification_6_6_4(found: list[tuple[str, str | None, Any]]) -> Iterator[str]:
    values = {name: _text(value) for name, _prefix, value in found}
    if (values.get(f"{A_ID}part"), values.get(f"{A_ID}conformance")) != ("3", "A"):
        yield "A 6.6.4 the file does not name itself PDF/A-3a"
    if values.get(f"{UA_ID}part") != "1":
        yield "UA 5 the file does not name itself PDF/UA-1"
    if not values.get(f"{DC}title"):
        yield "UA 7.1 no title"


def information_6_6_3(pdf: pikepdf.Pdf, found: list[tuple[str, str | None, Any]]) -> Iterator[str]:
    """What the information dictionary says, the packet says too."""
    values = {name: _text(value) for name, _prefix, value in found}
    pairs = {
        "/Title": f"{DC}title", "/Author": f"{DC}creator", "/Subject": f"{DC}description",
        "/Keywords": f"{PDF}Keywords", "/Creator": f"{XMP}CreatorTool", "/Producer": f"{PDF}Producer",
    }  # fmt: skip
    for key, name in pairs.items():
        if key in pdf.docinfo and str(pdf.docinfo[key]) != values.get(name):
            yield f"A 6.6.3 {key} is told in two ways"
    for key, name in {"/CreationDate": f"{XMP}CreateDate", "/ModDate": f"{XMP}ModifyDate"}.items():
        if (key in pdf.docinfo) != (name in values):
            yield f"A 6.6.3 {key} is told in one place only"
        elif (
            key in pdf.docinfo and re.sub(r"\D", "", str(pdf.docinfo[key]))[:14] != re.sub(r"\D", "", values[name])[:14]
        ):
            yield f"A 6.6.3 {key} is told in two ways"
