"""Rules of PDF/UA-1 on tables, lists, captions, forms and figures of the structure: ISO 14289-1, 7.1 to 7.5, 7.18.4."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pikepdf
from pikepdf import Array, Dictionary, Name, Stream

from tests.note.pdf_tree import PAINTS, STANDARD, elements, kids_of

_LANGUAGE = re.compile(r"[a-zA-Z]{1,8}(-[a-zA-Z0-9]{1,8})*")
Matrix = tuple[float, float, float, float, float, float]


def _kind(element: Any) -> str:
    return str(element.get("/S", "/"))[1:] if isinstance(element, Dictionary) else ""


def _below(element: Any, kind: str) -> list[Any]:
    """Elements of this kind inside, but not inside of a table in the table."""
    found: list[Any] = []
    for kid in kids_of(element):
        if _kind(kid) == kind:
            found.append(kid)
        if _kind(kid) and _kind(kid) != "Table":
            found += _below(kid, kind)
    return found


def grids_7_2(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    """7.2-15, 41 to 43: cells do not meet, and every row has every column, spans counted."""
    for table in (element for element, _parent in elements(pdf) if _kind(element) == "Table"):
        rows = _below(table, "TR")
        taken: set[tuple[int, int]] = set()
        for number, row in enumerate(rows):
            column = 0
            for cell in kids_of(row):
                attributes = _attributes(cell)
                across, down = int(attributes.get("/ColSpan", 1)), int(attributes.get("/RowSpan", 1))
                while (number, column) in taken:
                    column += 1
                places = {(number + y, column + x) for y in range(down) for x in range(across)}
                if places & taken:
                    yield f"UA 7.2-15 cells of row {number + 1} meet"
                if number + down > len(rows):
                    yield f"UA 7.2-41 a cell of row {number + 1} reaches below the table"
                taken |= places
                column += across
        widths = {max((x for y, x in taken if y == number), default=-1) + 1 for number in range(len(rows))}
        if len(widths) > 1 or len(taken) != len(rows) * max(widths, default=0):
            yield f"UA 7.2-43 rows of a table have {sorted(widths)} columns"


def _attributes(element: Any) -> Any:
    own = element.get("/A", Dictionary()) if isinstance(element, Dictionary) else Dictionary()
    if isinstance(own, Array):
        merged = Dictionary()
        for part in own:
            if isinstance(part, Dictionary):
                for key, value in part.items():
                    merged[key] = value
        return merged
    return own


def headers_7_5(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    """7.5-1 and 2: a header says of what, or every cell names its own; names lead to headers of the same table."""
    for table in (element for element, _parent in elements(pdf) if _kind(element) == "Table"):
        heads, cells = _below(table, "TH"), _below(table, "TD")
        names = {bytes(head.ID) for head in heads if "/ID" in head}
        scoped = all(_attributes(head).get("/Scope") in (Name.Row, Name.Column, Name.Both) for head in heads)
        named = all("/Headers" in _attributes(cell) for cell in cells)
        if cells and not heads:
            yield "UA 7.5-1 a table without headers"
        if not (scoped or named):
            yield "UA 7.5 a header does not say whether it is of a row or of a column"
        for cell in cells:
            listed = _attributes(cell).get("/Headers")
            if listed is not None and (not len(listed) or any(bytes(name) not in names for name in listed)):
                yield "UA 7.5 a cell names headers that do not exist in its table"


def children_7_2(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    """Parts of tables and lists stand in order: one head, captions first or last, bodies where there is a head."""
    for element, parent in elements(pdf):
        kind, kids = _kind(element), [_kind(kid) for kid in kids_of(element)]
        if kind == "Table":
            if kids.count("THead") > 1 or kids.count("TFoot") > 1:
                yield "UA 7.2-11/12 a table with two heads or feet"
            if ("THead" in kids or "TFoot" in kids) and "TBody" not in kids:
                yield "UA 7.2-13/14 a table with a head or a foot and no body"
            if kids.count("Caption") > 1 or "Caption" in kids[1:-1]:
                yield "UA 7.2-16/39 the caption of a table"
        if kind in ("L", "TOC") and "Caption" in kids[1:]:
            yield "UA 7.2-28/40 the caption of a list"
        if kind == "Caption" and _kind(parent) not in ("Table", "L", "TOC", "Figure", "Formula"):
            siblings = [_kind(kid) for kid in kids_of(parent)]
            if not {"Figure", "Formula", "Table"} & set(siblings):
                yield f"ISO 32000 14.8.4.3 a caption of nothing, in {_kind(parent)}"
        if kind == "Form" and "/Role" not in _attributes(element) and len(kids_of(element)) != 1:
            yield "UA 7.18.4-2 a form element with more than its one field"
        if kind in ("Link", "Annot") and not _objects_below(element):
            yield f"UA 7.18.5 a {kind} without its annotation"
        if kind == "H":
            yield "UA 7.4.4 strong and weak headings"


def _objects_below(element: Any) -> bool:
    return any(
        isinstance(kid, Dictionary) and (kid.get("/Type") == Name.OBJR or _objects_below(kid))
        for kid in kids_of(element)
    )


def headings_7_4_2(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    levels = [int(_kind(e)[1]) for e, _parent in elements(pdf) if re.fullmatch(r"H[1-6]", _kind(e))]
    if levels and levels[0] != 1:
        yield f"UA 7.4.2 the first heading is H{levels[0]}"
    yield from (
        f"UA 7.4.2 heading H{after} after H{before}" for before, after in pairwise(levels) if after > before + 1
    )


def roles_7_1(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    """7.1-5 to 7: types that are not of the standard lead to one, without a circle, and none of it is renamed."""
    roles = {str(key)[1:]: str(value)[1:] for key, value in pdf.Root.StructTreeRoot.get("/RoleMap", {}).items()}
    for role in roles:
        if role in STANDARD:
            yield f"UA 7.1-7 {role} of the standard is given another meaning"
        seen, now = {role}, roles[role]
        while now in roles and now not in seen:
            seen.add(now)
            now = roles[now]
        if now in seen:
            yield f"UA 7.1-6 {role} leads to itself"
        elif now not in STANDARD:
            yield f"UA 7.1-5 {role} leads to {now}, which is no standard type"


def languages_7_2(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    """6.7.4, 7.2-29: every `Lang`, of the catalogue, of elements and of marks, is a tag of a language."""
    marked = [item for item in pdf.objects if isinstance(item, Dictionary) and "/Lang" in item]
    for item in marked:
        if not _LANGUAGE.fullmatch(str(item.Lang)):
            yield f"A 6.7.4, UA 7.2-29 {str(item.Lang)!r} is no language"


def parents_14_7_4(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    """Keys into the tree of parents are used once each, sorted, and below the next free one."""
    root = pdf.Root.StructTreeRoot
    numbers = [int(number) for number in list(root.ParentTree.get("/Nums", []))[::2]]
    if numbers != sorted(set(numbers)):
        yield "ISO 32000 7.9.7 the tree of parents is not sorted"
    if numbers and int(root.get("/ParentTreeNextKey", 0)) <= max(numbers):
        yield "ISO 32000 14.7.2 ParentTreeNextKey is taken"
    keys = [
        int(item[key]) for item in pdf.objects if isinstance(item, Dictionary | Stream)
        for key in ("/StructParents", "/StructParent") if key in item
    ]  # fmt: skip
    if len(keys) != len(set(keys)):
        yield "ISO 32000 14.7.4.4 two objects with one place in the tree of parents"
    if set(numbers) != set(keys):
        yield f"ISO 32000 14.7.4.4 keys without an object, or objects without a key: {sorted(set(numbers) ^ set(keys))}"


def figures_7_3(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    """A figure says where it stands: its box lies on the page and around what is drawn (ISO 32000 14.8.5.4.3)."""
    drawn = {page.obj.objgen: _drawn(page.obj) for page in pdf.pages}
    for element, _parent in elements(pdf):
        if _kind(element) != "Figure":
            continue
        box = _attributes(element).get("/BBox")
        if box is None:
            yield "ISO 32000 14.8.5.4.3 a figure without a box"
            continue
        x0, y0, x1, y1 = (float(value) for value in box)
        left, bottom, right, top = (float(value) for value in element.Pg.MediaBox)
        if not (left <= x0 < x1 <= right and bottom <= y0 < y1 <= top):
            yield f"ISO 32000 14.8.5.4.3 a figure's box lies outside of its page: {[x0, y0, x1, y1]}"
        for mcid in (int(kid) for kid in kids_of(element) if isinstance(kid, int)):
            a0, b0, a1, b1 = drawn[element.Pg.objgen].get(mcid, (x0, y0, x1, y1))
            if a0 < x0 - 1 or b0 < y0 - 1 or a1 > x1 + 1 or b1 > y1 + 1:
                yield f"ISO 32000 14.8.5.4.3 a figure is drawn at {[a0, b0, a1, b1]}, its box is {[x0, y0, x1, y1]}"


def _drawn(page: Any) -> dict[int, tuple[float, float, float, float]]:
    """MCID to the box around forms, images and corners of paths that are drawn inside of it, in points of the page."""
    points: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    path: list[tuple[float, float]] = []
    now: Matrix = (1, 0, 0, 1, 0, 0)
    states: list[Matrix] = []
    marks: list[int | None] = []
    for operands, operator in pikepdf.parse_content_stream(page):
        word = str(operator)
        if word == "q":
            states.append(now)
        elif word == "Q":
            now = states.pop()
        elif word == "cm":
            a, b, c, d, e, f = (float(value) for value in operands)
            now = _times((a, b, c, d, e, f), now)
        elif word in ("BDC", "BMC"):
            properties = operands[1] if word == "BDC" else Dictionary()
            marks.append(int(properties.MCID) if "/MCID" in properties else None)
        elif word == "EMC":
            marks.pop()
        elif word == "Do" and marks and marks[-1] is not None:
            shape = page.Resources.XObject[str(operands[0])]
            box = [float(v) for v in shape.BBox] if shape.get("/Subtype") == Name.Form else [0.0, 0.0, 1.0, 1.0]
            a, b, c, d, e, f = (float(v) for v in shape.get("/Matrix", [1, 0, 0, 1, 0, 0]))
            whole = _times((a, b, c, d, e, f), now)
            points[marks[-1]] += [_point(whole, x, y) for x in (box[0], box[2]) for y in (box[1], box[3])]
        elif word in ("m", "l"):
            path.append(_point(now, float(operands[0]), float(operands[1])))
        elif word == "re":
            x, y, width, height = (float(value) for value in operands)
            path += [_point(now, x, y), _point(now, x + width, y + height)]
        elif word in PAINTS | {"n"}:
            if marks and marks[-1] is not None and word != "n":
                points[marks[-1]] += path
            path = []
    return {
        mcid: (
            min(x for x, _y in corners),
            min(y for _x, y in corners),
            max(x for x, _y in corners),
            max(y for _x, y in corners),
        )
        for mcid, corners in points.items()
        if corners
    }


def _times(one: Matrix, two: Matrix) -> Matrix:
    a, b, c, d, e, f = one
    p, q, r, s, t, u = two
    return (a * p + b * r, a * q + b * s, c * p + d * r, c * q + d * s, e * p + f * r + t, e * q + f * s + u)


def _point(matrix: Matrix, x: float, y: float) -> tuple[float, float]:
    a, b, c, d, e, f = matrix
    return a * x + c * y + e, b * x + d * y + f
