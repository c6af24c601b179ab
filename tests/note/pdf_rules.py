"""Rules of PDF/A-3a (ISO 19005-3) and PDF/UA-1 (ISO 14289-1) that can be read from a file's structure.

Written from the standards' clauses, not from what our files happen to hold; each finding names its clause.
Not a validator: fonts' programs, colour profiles and reading order are not looked into.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

import pikepdf
from pikepdf import Array, Dictionary, Name, Stream

from tests.note.pdf_tree import content, kids_of, parent_tree, tree

RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
A_ID, UA_ID = "{http://www.aiim.org/pdfa/ns/id/}", "{http://www.aiim.org/pdfua/ns/id/}"
EXTENSION, SCHEMA = "{http://www.aiim.org/pdfa/ns/extension/}", "{http://www.aiim.org/pdfa/ns/schema#}"
PROPERTY = "{http://www.aiim.org/pdfa/ns/property#}"


def findings(pdf: pikepdf.Pdf, data: bytes) -> list[str]:
    """What is wrong, each with its clause. `data` are the bytes that `pdf` was opened from."""
    found: list[str] = []
    for rule in (_file, _streams, _metadata, _catalog, _fonts, _graphics, _annotations, _attachments, tree, content):
        found += [f"{rule.__name__.strip('_')}: {finding}" for finding in rule(pdf, data)]
    return found


# ---- file ----------------------------------------------------------------------------------------


def _file(pdf: pikepdf.Pdf, data: bytes) -> Iterator[str]:
    if not re.match(rb"%PDF-1\.[0-7]\n%[\x80-\xff]{4}", data):
        yield "A 6.1.2 header, or its line of binary signs"
    if not re.search(rb"%%EOF\r?\n?$", data):
        yield "A 6.1.3 data after the end of the file"
    if "/Encrypt" in pdf.trailer:
        yield "A 6.1.3 encrypted"
    identifier = pdf.trailer.get("/ID")
    if identifier is None or len(identifier) != 2 or not all(bytes(part) for part in identifier):
        yield "A 6.1.3 no identifier in the trailer"
    if len(pdf.objects) > 8_388_607:
        yield "A 6.1.13 too many objects"
    for item in pdf.objects:
        yield from _limits(item)


def _limits(item: Any) -> Iterator[str]:
    if isinstance(item, pikepdf.String) and len(bytes(item)) > 32_767:
        yield "A 6.1.13 a string is too long"
    elif isinstance(item, Name) and len(str(item).encode()) > 128:
        yield f"A 6.1.13 a name is too long: {item}"
    elif isinstance(item, Array):
        for part in item:
            if not getattr(part, "is_indirect", False):
                yield from _limits(part)
    elif isinstance(item, Dictionary | Stream):
        for key, part in item.items():
            if len(key.encode()) > 128:
                yield f"A 6.1.13 a key is too long: {key}"
            if key != "/Contents" and not getattr(part, "is_indirect", False):
                yield from _limits(part)


def _streams(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    for item in pdf.objects:
        if not isinstance(item, Stream):
            continue
        filters = item.get("/Filter", Array())
        for name in [filters] if isinstance(filters, Name) else list(filters):
            if str(name) not in {"/FlateDecode", "/DCTDecode", "/ASCII85Decode", "/ASCIIHexDecode"}:
                yield f"A 6.1.7.2 filter {name}"
        if any(key in item for key in ("/F", "/FFilter", "/FDecodeParms")):
            yield "A 6.1.7.1 a stream lies outside of the file"
        if item.get("/Type") == Name.Metadata and "/Filter" in item:
            yield "A 6.6.2.1 (advice) metadata that plain programs cannot find"


# ---- metadata and catalog ------------------------------------------------------------------------


def _properties(root: ET.Element) -> dict[str, str]:
    found: dict[str, str] = {}
    for description in root.iter(f"{RDF}Description"):
        found |= dict(description.attrib)
        for child in description:
            found[child.tag] = "".join(child.itertext()).strip()
    return found


def _metadata(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    packet = bytes(pdf.Root.Metadata.read_bytes())
    if pdf.Root.Metadata.get("/Type") != Name.Metadata or pdf.Root.Metadata.get("/Subtype") != Name.XML:
        yield "A 6.6.2.1 the metadata stream has no type"
    head = packet.split(b"?>", 1)[0]
    if b"bytes=" in head or b"encoding=" in head:
        yield "A 6.6.2.1 the packet's header has bytes or encoding"
    root = ET.fromstring(packet)
    found = _properties(root)
    if (found.get(f"{A_ID}part"), found.get(f"{A_ID}conformance")) != ("3", "A"):
        yield "A 6.6.4 the file does not name itself PDF/A-3a"
    if found.get(f"{UA_ID}part") != "1":
        yield "UA 5 the file does not name itself PDF/UA-1"
    if not found.get("{http://purl.org/dc/elements/1.1/}title"):
        yield "UA 7.1 no title"
    described = {
        (schema.findtext(f"{SCHEMA}namespaceURI"), item.findtext(f"{PROPERTY}name"))
        for schema in root.iter()
        for item in schema.iterfind(f"{SCHEMA}property/{RDF}Seq/{RDF}li")
    }
    if (UA_ID[1:-1], "part") not in described:
        yield "A 6.6.2.3 the property pdfuaid:part is not described by an extension schema"
    for schema in root.iter(f"{EXTENSION}schemas"):
        for item in schema.iter(f"{RDF}li"):
            if item.find(f"{PROPERTY}name") is not None:
                for part in ("valueType", "category", "description"):
                    if not item.findtext(f"{PROPERTY}{part}"):
                        yield f"A 6.6.2.3.3 a described property has no {part}"
    title = pdf.docinfo.get("/Title")
    if title is not None and str(title) != found.get("{http://purl.org/dc/elements/1.1/}title"):
        yield "the title is told in two ways"


def _catalog(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    root = pdf.Root
    for key in ("/AA", "/OCProperties", "/Requirements", "/Collection", "/Perms", "/NeedsRendering"):
        if key in root:
            yield f"A 6.5.2/6.9/6.11 the catalog has {key}"
    names = root.get("/Names", Dictionary())
    for key in ("/JavaScript", "/AlternatePresentations"):
        if key in names:
            yield f"A 6.5.1/6.10 names hold {key}"
    if "/OpenAction" in root and isinstance(root.OpenAction, Dictionary):
        yield from _action(root.OpenAction)
    if not root.get("/MarkInfo", Dictionary()).get("/Marked", False):
        yield "A 6.7.2.2 not marked"
    if root.get("/MarkInfo", Dictionary()).get("/Suspects", False):
        yield "UA 7.1 suspects"
    if not re.fullmatch(r"[a-z]{2}(-[A-Za-z0-9]+)*", str(root.get("/Lang", ""))):
        yield "A 6.7.4, UA 7.2 no language"
    if not root.get("/ViewerPreferences", Dictionary()).get("/DisplayDocTitle", False):
        yield "UA 7.1 the title is not shown"
    if len(pdf.pages) > 1 and "/Outlines" not in root:
        yield "UA 7.17 no bookmarks"
    intents = [intent for intent in root.get("/OutputIntents", []) if intent.get("/S") == Name.GTS_PDFA1]
    if len(intents) != 1 or not isinstance(intents[0].get("/DestOutputProfile"), Stream):
        yield "A 6.2.3 no output intent with a profile"
    else:
        profile = intents[0].DestOutputProfile
        if profile.get("/N") != 3 or profile.read_bytes()[16:20] != b"RGB " or profile.read_bytes()[36:40] != b"acsp":
            yield "A 6.2.3 the profile is not for RGB"
        if not intents[0].get("/OutputConditionIdentifier"):
            yield "A 6.2.3 the output intent has no identifier"


def _action(action: Any) -> Iterator[str]:
    if str(action.get("/S")) not in {"/GoTo", "/GoToR", "/URI", "/Named"}:
        yield f"A 6.5.1 action {action.get('/S')}"


# ---- fonts and graphics --------------------------------------------------------------------------


def _fonts(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    for item in pdf.objects:
        if not isinstance(item, Dictionary) or item.get("/Type") != Name.Font:
            continue
        name = str(item.get("/BaseFont", "?"))
        if item.get("/Subtype") in (Name.CIDFontType0, Name.CIDFontType2):
            descriptor = item.get("/FontDescriptor", Dictionary())
            if not any(key in descriptor for key in ("/FontFile", "/FontFile2", "/FontFile3")):
                yield f"A 6.2.11.4.1 {name} is not embedded"
            if item.get("/Subtype") == Name.CIDFontType2 and "/CIDToGIDMap" not in item:
                yield f"A 6.2.11.3.2 {name} has no map to its letters"
            if "/CIDSet" in descriptor:
                yield f"A 6.2.11.4.2 {name} lists its letters, which must be complete then"
            if not re.match(r"/[A-Z]{6}\+", name):
                yield f"ISO 32000 9.6.4 {name} is a part of a font without a tag"
        elif item.get("/Subtype") == Name.Type0:
            if item.get("/Encoding") not in (Name("/Identity-H"), Name("/Identity-V")):
                yield f"A 6.2.11.3.3 {name}: encoding"
            if "/ToUnicode" not in item:
                yield f"A 6.2.11.7.2 {name} has no ToUnicode"
            else:
                cmap = item.ToUnicode.read_bytes()
                targets = re.findall(rb"<[0-9A-Fa-f]+>\s*<([0-9A-Fa-f]+)>", cmap)
                if any(target.lower() in (b"0000", b"feff", b"fffe") for target in targets):
                    yield f"A 6.2.11.7.2 {name} maps to a forbidden code"
        else:
            yield f"a font of an unexpected kind: {item.get('/Subtype')}"


def _graphics(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    blends = {"/Normal", "/Multiply", "/Compatible"}
    for item in pdf.objects:
        if isinstance(item, Stream):
            if item.get("/Subtype") == Name.Form and any(key in item for key in ("/OPI", "/PS", "/Ref")):
                yield "A 6.2.9, UA 7.20 a form holds what it must not"
            if item.get("/Subtype") == Name.Image and (item.get("/Interpolate") or "/Alternates" in item):
                yield "A 6.2.8 an image is interpolated or has alternates"
            if item.get("/Subtype") == Name.PS:
                yield "A 6.2.9 PostScript"
        for holder in _holders(item):
            for state in holder.get("/ExtGState", Dictionary()).values():
                if any(key in state for key in ("/TR", "/HTP")) or state.get("/TR2", Name.Default) != Name.Default:
                    yield "A 6.2.5 a transfer function"
                if str(state.get("/BM", "/Normal")) not in blends:
                    yield f"A 6.2.10 blend mode {state.BM}"
            spaces = holder.get("/ColorSpace", Dictionary())
            for space in spaces.values() if isinstance(spaces, Dictionary) else []:
                if "CMYK" in str(space):
                    yield "A 6.2.4.3 colours for which there is no profile"


def _holders(item: Any) -> Iterator[Any]:
    if isinstance(item, Dictionary | Stream):
        if "/ExtGState" in item or "/ColorSpace" in item:
            yield item
        own = item.get("/Resources")
        if isinstance(own, Dictionary) and not own.is_indirect:
            yield own


# ---- annotations and attachments -----------------------------------------------------------------


def _outside(rectangle: list[float], page: pikepdf.Page) -> bool:
    x0, y0, x1, y1 = (float(value) for value in page.cropbox)
    return y0 >= rectangle[3] or x0 >= rectangle[2] or y1 <= rectangle[1] or x1 <= rectangle[0]


def _annotations(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    parents = parent_tree(pdf)
    for number, page in enumerate(pdf.pages, 1):
        if "/AA" in page.obj:
            yield f"A 6.5.2 page {number} has actions"
        notes = page.obj.get("/Annots", Array())
        if len(notes) and page.obj.get("/Tabs") != Name.S:
            yield f"UA 7.18.3 page {number}: order of the tabulator"
        for note in notes:
            kind, rectangle = str(note.Subtype), [float(value) for value in note.Rect]
            flags = int(note.get("/F", 0))
            if kind not in {"/Link", "/Widget"}:
                yield f"A 6.3.1 annotation {kind}"
            if not flags & 4 or flags & (1 | 2 | 32 | 256):
                yield f"A 6.3.2 {kind} on page {number} is not printed or is hidden: {flags}"
            empty = rectangle[0] == rectangle[2] and rectangle[1] == rectangle[3]
            if kind != "/Link" and not empty and "/AP" not in note:
                yield f"A 6.3.3 {kind} on page {number} has no appearance"
            if kind == "/Link" and not str(note.get("/Contents", "")):
                yield f"UA 7.18.5 a link on page {number} says nothing"
            if "/A" in note:
                yield from _action(note.A)
            if kind == "/Widget" and ("/A" in note or "/AA" in note):
                yield "A 6.4.1 a field with an action"
            if kind == "/Widget" and not str(note.get("/TU", "")):
                yield "UA 7.18.1 a field that has no name for people"
            wanted = {"/Link": "Link", "/Widget": "Form"}.get(kind)
            holder = parents.get(int(note.get("/StructParent", -1)))
            if not isinstance(holder, Dictionary) or str(holder.get("/S")) != f"/{wanted}":
                yield f"UA 7.18.4/7.18.5 {kind} on page {number} does not stand in the structure"
            elif not any(_objr(kid) == note.objgen for kid in kids_of(holder)):
                yield f"UA 7.18.1 {kind} on page {number}: its element does not name it"
    form = pdf.Root.get("/AcroForm", Dictionary())
    if form.get("/NeedAppearances", False) or "/XFA" in form:
        yield "A 6.4.1/6.4.2 a form that must be drawn by the viewer"


def _objr(kid: Any) -> Any:
    return kid.Obj.objgen if isinstance(kid, Dictionary) and kid.get("/Type") == Name.OBJR else None


def _attachments(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    associated = {spec.objgen for spec in pdf.Root.get("/AF", [])}
    specs = [item for item in pdf.objects if isinstance(item, Dictionary) and item.get("/Type") == Name.Filespec]
    if len(pdf.Root.get("/AF", [])) != len(associated):
        yield "a file is associated twice"
    named = {spec.obj.objgen for spec in pdf.attachments.values()}
    if named != {spec.objgen for spec in specs}:
        yield "A 6.8 a file is not in the list of attachments"
    files = pdf.Root.get("/Names", Dictionary()).get("/EmbeddedFiles", Dictionary())
    keys = [str(key) for key in files.get("/Names", [])[::2]]
    if keys != sorted(keys):
        yield "ISO 32000 7.9.6 names of attachments are not sorted"
    for spec in specs:
        name = str(spec.get("/UF", "?"))
        if not spec.get("/F") or str(spec.get("/F")) != name:
            yield f"A 6.8, UA 7.11 {name}: F and UF"
        if not str(spec.get("/Desc", "")):
            yield f"A 6.8 (advice) {name} has no description"
        if str(spec.get("/AFRelationship")) not in {"/Source", "/Data", "/Alternative", "/Supplement", "/Unspecified"}:
            yield f"A 6.8 {name}: relationship"
        if spec.objgen not in associated:
            yield f"A 6.8 {name} is associated with nothing"
        file = spec.EF.F
        kind = str(file.get("/Subtype"))
        if file.get("/Type") != Name.EmbeddedFile or not re.fullmatch(r"/[a-z]+/[a-z0-9.+-]+", kind):
            yield f"A 6.8 {name}: kind {kind}"
        if not str(file.get("/Params", Dictionary()).get("/ModDate", "")).startswith("D:"):
            yield f"A 6.8 {name} has no date"
        if file.get("/Params", Dictionary()).get("/Size") != len(file.read_bytes()):
            yield f"ISO 32000 7.11.4 {name}: size"
