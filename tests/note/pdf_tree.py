"""Structure and content of a tagged PDF: the rules that `pdf_rules` takes from here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pikepdf
from pikepdf import Array, Dictionary, Name, Stream

STANDARD = {
    "Document", "Part", "Art", "Sect", "Div", "BlockQuote", "Caption", "TOC", "TOCI", "Index", "NonStruct",
    "Private", "H", "H1", "H2", "H3", "H4", "H5", "H6", "P", "L", "LI", "Lbl", "LBody", "Table", "TR", "TH", "TD",
    "THead", "TBody", "TFoot", "Span", "Quote", "Note", "Reference", "BibEntry", "Code", "Link", "Annot", "Ruby",
    "RB", "RT", "RP", "Warichu", "WT", "WP", "Figure", "Formula", "Form",
}  # fmt: skip
CHILDREN = {
    "Table": {"TR", "THead", "TBody", "TFoot", "Caption"},
    "THead": {"TR"}, "TBody": {"TR"}, "TFoot": {"TR"}, "TR": {"TH", "TD"},
    "L": {"LI", "L", "Caption"}, "LI": {"Lbl", "LBody"},
}  # fmt: skip
PARENTS = {
    "TR": {"Table", "THead", "TBody", "TFoot"}, "TH": {"TR"}, "TD": {"TR"}, "THead": {"Table"}, "TBody": {"Table"},
    "TFoot": {"Table"}, "LI": {"L"}, "LBody": {"LI"},
}  # fmt: skip
PAINTS = {"f", "F", "f*", "B", "B*", "b", "b*", "S", "s", "sh", "Do", "EI", "Tj", "TJ", "'", '"'}


def parent_tree(pdf: pikepdf.Pdf) -> dict[int, Any]:
    tree = pdf.Root.StructTreeRoot.ParentTree
    found: dict[int, Any] = {}

    def walk(node: Any) -> None:
        for kid in node.get("/Kids", []):
            walk(kid)
        numbers = list(node.get("/Nums", []))
        found.update(zip(map(int, numbers[::2]), numbers[1::2], strict=True))

    walk(tree)
    return found


def kids_of(element: Any) -> list[Any]:
    kids = element.get("/K")
    if kids is None:
        return []
    return list(kids) if isinstance(kids, Array) else [kids]


def elements(pdf: pikepdf.Pdf) -> list[tuple[Any, Any]]:
    """Every structure element with its parent, in reading order."""
    found: list[tuple[Any, Any]] = []

    def walk(element: Any, parent: Any) -> None:
        found.append((element, parent))
        for kid in kids_of(element):
            if isinstance(kid, Dictionary) and "/S" in kid:
                walk(kid, element)

    for kid in kids_of(pdf.Root.StructTreeRoot):
        walk(kid, pdf.Root.StructTreeRoot)
    return found


def tree(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    all_elements = elements(pdf)
    if [str(kid.S) for kid in kids_of(pdf.Root.StructTreeRoot)] != ["/Document"]:
        yield "UA 7.1 the structure does not begin with one Document"
    ids: dict[bytes, Any] = {}
    for element, parent in all_elements:
        kind, over = str(element.S)[1:], str(parent.get("/S", "/StructTreeRoot"))[1:]
        if element.P.objgen != parent.objgen:
            yield f"ISO 32000 14.7.2 {kind}: another parent"
        if kind not in STANDARD:
            yield f"A 6.7.3.4 {kind} is no standard type"
        if kind in PARENTS and over not in PARENTS[kind]:
            yield f"UA 7.2 {kind} in {over}"
        for kid in kids_of(element):
            if kind in CHILDREN and not (isinstance(kid, Dictionary) and str(kid.get("/S", "/"))[1:] in CHILDREN[kind]):
                yield f"UA 7.2 {kid.get('/S') if isinstance(kid, Dictionary) else 'content'} in {kind}"
        if kind in ("Figure", "Formula") and not (str(element.get("/Alt", "")) or str(element.get("/ActualText", ""))):
            yield f"UA 7.3 {kind} without a description"
        if kind == "Note" and "/ID" not in element:
            yield "UA 7.9 a note without a name"
        if (kind in ("Table", "L", "P", "Link") or re.fullmatch(r"H[1-6]", kind)) and not kids_of(element):
            yield f"an empty {kind}"
        if "/ID" in element:
            key = bytes(element.ID)
            if key in ids:
                yield f"UA 7.9 two elements are called {key!r}"
            ids[key] = element
    names = list(pdf.Root.StructTreeRoot.get("/IDTree", Dictionary()).get("/Names", []))
    keys = [bytes(key) for key in names[::2]]
    if keys != sorted(ids) or [ids[key].objgen for key in keys] != [element.objgen for element in names[1::2]]:
        yield "ISO 32000 14.7.2 names of elements are not in the tree of names, in order"


def content(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    parents = parent_tree(pdf)
    claimed: dict[tuple[Any, int], Any] = {}
    for element, _parent in elements(pdf):
        for kid in kids_of(element):
            if isinstance(kid, int):
                key = (element.Pg.objgen, int(kid))
                if key in claimed:
                    yield "A 6.7.3.2 content that stands in two elements"
                claimed[key] = element.objgen
    for number, page in enumerate(pdf.pages, 1):
        listed = parents.get(int(page.obj.get("/StructParents", -1)), Array())
        seen: set[int] = set()
        for finding, mcid in _walk(page.obj, page.obj.get("/Resources", Dictionary()), inside=False):
            if finding:
                yield f"UA 7.1 page {number}: {finding}"
            if mcid is not None:
                if mcid in seen:
                    yield f"UA 7.20 page {number}: content {mcid} twice"
                seen.add(mcid)
                owner = claimed.get((page.obj.objgen, mcid))
                if owner is None:
                    yield f"UA 7.1 page {number}: content {mcid} is in no element of the structure"
                elif mcid >= len(listed) or listed[mcid].objgen != owner:
                    yield f"ISO 32000 14.7.4.4 page {number}: content {mcid} has another parent"
        for key, _owner in claimed.items():
            if key[0] == page.obj.objgen and key[1] not in seen:
                yield f"ISO 32000 14.7.4 page {number}: element of content {key[1]}, which is not there"


def _walk(holder: Any, resources: Any, *, inside: bool) -> Iterator[tuple[str, int | None]]:
    stack: list[str] = ["form"] if inside else []
    nested = 0
    for operands, operator in pikepdf.parse_content_stream(holder):
        name = str(operator)
        if name == "q":
            nested += 1
        elif name == "Q":
            nested -= 1
        elif name in ("BMC", "BDC"):
            kind, mcid = str(operands[0]), None
            if name == "BDC" and isinstance(operands[1], Dictionary) and "/MCID" in operands[1]:
                mcid = int(operands[1].MCID)
            state = "artifact" if kind == "/Artifact" else ("tagged" if mcid is not None else "plain")
            if state == "artifact" and "tagged" in stack:
                yield "an artifact in tagged content", None
            if state == "tagged" and "artifact" in stack:
                yield "tagged content in an artifact", None
            if state == "tagged" and "tagged" in stack:
                yield "tagged content in tagged content", None
            stack.append(state)
            yield "", mcid
        elif name == "EMC":
            stack.pop()
        elif name in PAINTS:
            if not set(stack) & {"tagged", "artifact", "form"}:
                yield f"{name} draws what is neither tagged nor an artifact", None
            if name == "Do":
                drawn = resources.get("/XObject", Dictionary()).get(str(operands[0]))
                if isinstance(drawn, Stream) and drawn.get("/Subtype") == Name.Form:
                    yield from _walk(drawn, drawn.get("/Resources", resources), inside=True)
    if nested or (stack and stack != ["form"]):
        yield "states or marks that are not closed", None
