"""Rules of PDF/A-3a (ISO 19005-3) and PDF/UA-1 (ISO 14289-1) that can be read from a file's structure.

Written from the standards' clauses, not from what our files happen to hold; each finding names its clause.
Here: catalogue, annotations, attachments, and the list of all rules. Beside it: how the file is written
(`pdf_bytes`), letters and fonts' programs (`pdf_glyphs`), colours and images (`pdf_paint`), metadata
(`pdf_xmp`), the tree and its content (`pdf_tree`, `pdf_tables`), the signature (`pdf_signed`). Reading order
and whether words are the right ones is for people to see.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import pikepdf
from pikepdf import Array, Dictionary, Name, Stream

from tests.note import pdf_bytes, pdf_glyphs, pdf_paint, pdf_signed, pdf_tables, pdf_xmp
from tests.note.pdf_tree import content, kids_of, parent_tree, tree


def findings(pdf: pikepdf.Pdf, data: bytes) -> list[str]:
    """What is wrong, each with its clause. `data` are the bytes that `pdf` was opened from."""
    found: list[str] = []
    for rule in RULES:
        found += [f"{rule.__name__.strip('_')}: {finding}" for finding in rule(pdf, data)]
    return found


# ---- streams and catalog --------------------------------------------------------------------------


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


def _action(action: Any) -> Iterator[str]:
    pages = {"/NextPage", "/PrevPage", "/FirstPage", "/LastPage"}
    if str(action.get("/S")) not in {"/GoTo", "/GoToR", "/URI", "/Named"}:
        yield f"A 6.5.1 action {action.get('/S')}"
    if action.get("/S") == Name.Named and str(action.get("/N")) not in pages:
        yield f"A 6.5.1-2 named action {action.get('/N')}"
    following = action.get("/Next", Array())
    for after in following if isinstance(following, Array) else [following]:
        yield from _action(after)


# ---- annotations and attachments -----------------------------------------------------------------


def _annotations(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    parents = parent_tree(pdf)
    named = list(pdf.Root.get("/Names", Dictionary()).get("/Dests", Dictionary()).get("/Names", []))[::2]
    targets = {bytes(name) for name in named}
    for number, page in enumerate(pdf.pages, 1):
        if "/AA" in page.obj or "/PresSteps" in page.obj:
            yield f"A 6.5.2, 6.10 page {number} has actions or steps"
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
            if "/AP" in note and (set(note.AP.keys()) != {"/N"} or not isinstance(note.AP.N, Stream)):
                yield f"A 6.3.3 {kind} on page {number}: its appearance is more than the normal one"
            if isinstance(note.get("/Dest"), pikepdf.String) and bytes(note.Dest) not in targets:
                yield f"ISO 32000 12.3.2.3 a link on page {number} leads nowhere"
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
        if bytes(file.get("/Params", Dictionary()).get("/CheckSum", b"")) not in (b"", _md5(file.read_bytes())):
            yield f"ISO 32000 7.11.4 {name}: checksum"


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


RULES: tuple[Callable[[pikepdf.Pdf, bytes], Iterator[str]], ...] = (
    pdf_bytes.file_structure, pdf_bytes.operators_6_2_2, pdf_bytes.boundaries_6_1_13, pdf_bytes.resources_6_2_2,
    _streams, pdf_xmp.metadata_6_6, _catalog, pdf_glyphs.glyphs, pdf_paint.output_intent_6_2_3,
    pdf_paint.colours_6_2_4, pdf_paint.states_6_2_5, pdf_paint.pictures_6_2_8, pdf_paint.forms_6_2_9, _annotations,
    _attachments, pdf_signed.signatures_6_4_3, tree, pdf_tables.grids_7_2, pdf_tables.headers_7_5,
    pdf_tables.children_7_2, pdf_tables.headings_7_4_2, pdf_tables.roles_7_1, pdf_tables.languages_7_2,
    pdf_tables.parents_14_7_4, pdf_tables.figures_7_3, content,
)  # fmt: skip
