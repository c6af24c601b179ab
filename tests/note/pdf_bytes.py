"""Rules of PDF/A-3 on how a file is written: ISO 19005-3, 6.1. Reads the bytes themselves, by a lexer of its own.

A library repairs what it reads, so that nothing of this can be seen through one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

import pikepdf
from pikepdf import Dictionary, Name, Stream

_SPACE = rb"\0\t\n\f\r "
_REGULAR = rb"[^" + _SPACE + rb"()<>\[\]{}/%]"
_TOKEN = re.compile(
    rb"(?P<space>[" + _SPACE + rb"]+)|(?P<comment>%[^\r\n]*)|(?P<mark><<|>>|\[|\])|(?P<hex><[^>]*>)"
    rb"|(?P<open>\()|(?P<name>/" + _REGULAR + rb"*)|(?P<word>" + _REGULAR + rb"+)"
)
_LITERAL = re.compile(rb"\\.|[()]", re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:[0-7]{1,3}|\r\n|.)", re.DOTALL)
_NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)")
_OBJECT = re.compile(rb"(\d+)[" + _SPACE + rb"]+(\d+)[" + _SPACE + rb"]+obj")
_STRICT = re.compile(rb"\d+[" + _SPACE + rb"]\d+[" + _SPACE + rb"]obj[\r\n]")
_LENGTH = re.compile(rb"/Length (\d+)(?: (\d+) R)?(?![\d])")
OPERATORS = frozenset(
    b"b B b* B* BDC BI BMC BT BX c cm CS cs d d0 d1 Do DP EI EMC ET EX f F f* G g gs h i ID j J K k l m M MP n q Q re "
    b"RG rg ri s S SC sc SCN scn sh T* Tc Td TD Tf Tj TJ TL Tm Tr Ts Tw Tz v w W W* y ' \"".split()
)

Token = tuple[str, bytes, int]


def tokens(data: bytes, start: int = 0, end: int | None = None) -> Iterator[Token]:
    """Kind, bytes and place of each token; `broken` where nothing fits. Literal strings come as one token."""
    place, stop = start, len(data) if end is None else end
    while place < stop:
        found = _TOKEN.match(data, place, stop)
        if found is None:
            yield "broken", data[place : place + 20], place
            return
        kind, text = str(found.lastgroup), found.group()
        if kind == "open":
            depth = 1
            for part in _LITERAL.finditer(data, found.end(), stop):
                depth += {b"(": 1, b")": -1}.get(part.group(), 0)
                if not depth:
                    text, kind = data[place : part.end()], "literal"
                    break
        yield kind, text, place
        place += len(text)


def file_structure(pdf: pikepdf.Pdf, data: bytes) -> Iterator[str]:
    """Header, objects, tables and ends, one after the other from the first byte to the last."""
    yield from header_6_1_2(data)
    yield from trailer_6_1_3(pdf, data)
    yield from cross_references_6_1_4(data)
    places: dict[int, int] = {}
    place = 0
    while (found := _OBJECT.search(data, place)) is not None:
        places[int(found[1])] = found.start()
        end, findings = _object(data, found, places)
        yield from findings
        place = max(end, found.end())


def header_6_1_2(data: bytes) -> Iterator[str]:
    if not re.match(rb"%PDF-1\.[0-7](?:\r\n|\r|\n)%[\x80-\xff]{4}", data):
        yield "A 6.1.2 header, or its line of binary signs"


def trailer_6_1_3(pdf: pikepdf.Pdf, data: bytes) -> Iterator[str]:
    if not re.search(rb"%%EOF(?:\r\n|\r|\n)?$(?![\n])", data):
        yield "A 6.1.3 data after the end of the file"
    if "/Encrypt" in pdf.trailer:
        yield "A 6.1.3 encrypted"
    identifier = pdf.trailer.get("/ID")
    if identifier is None or len(identifier) != 2 or not all(bytes(part) for part in identifier):
        yield "A 6.1.3 no identifier in the trailer"
    if len(pdf.objects) > 8_388_607:
        yield "A 6.1.13 too many objects"


def cross_references_6_1_4(data: bytes) -> Iterator[str]:
    """Every table named by `startxref` or `/Prev`: its lines, and that each entry leads to its object."""
    pending = [int(found[1]) for found in re.finditer(rb"startxref\s+(\d+)\s+%%EOF", data)]
    if not pending:
        yield "A 6.1.4 no cross-reference table"
    seen: set[int] = set()
    while pending:
        offset = pending.pop()
        if offset in seen:
            continue
        seen.add(offset)
        begin = re.compile(rb"xref(?:\r\n|\r|\n)").match(data, offset)
        if begin is None:
            yield "A 6.1.4 the keyword xref is not where it should be, or not alone in its line"
            continue
        place = begin.end()
        while (section := re.compile(rb"(\d+) (\d+) ?(?:\r\n|\r|\n)").match(data, place)) is not None:
            place = section.end()
            for number in range(int(section[1]), int(section[1]) + int(section[2])):
                entry = re.compile(rb"(\d{10}) (\d{5}) ([nf])(?: \r| \n|\r\n)").match(data, place)
                if entry is None:
                    yield f"A 6.1.4 entry of object {number}"
                    break
                place = entry.end()
                if entry[3] == b"n" and not re.compile(rb"%d %d obj" % (number, int(entry[2]))).match(
                    data, int(entry[1])
                ):
                    yield f"ISO 32000 7.5.4 the entry of object {number} leads elsewhere"
        if not data.startswith(b"trailer", place):
            yield "A 6.1.4 no trailer after the cross-reference table"
        end = data.find(b"startxref", place)
        for kind, text, _place in tokens(data, place, end):
            yield from (f"{finding} in the trailer" for finding in lexical_6_1(kind, text))
        previous = re.compile(rb"/Prev (\d+)").search(data, place, end)
        if previous:
            pending.append(int(previous[1]))


def _object(data: bytes, begin: re.Match[bytes], places: dict[int, int]) -> tuple[int, list[str]]:
    """Where the object ends, and what is wrong with it."""
    name, found = f"object {begin[1].decode()}", []
    if begin.start() and data[begin.start() - 1 : begin.start()] not in (b"\r", b"\n"):
        found.append(f"A 6.1.9 {name} does not begin its line")
    if not _STRICT.match(data, begin.start()):
        found.append(f"A 6.1.9 {name}: blanks of its first line")
    for kind, text, place in tokens(data, begin.end()):
        found += [f"{finding} in {name}" for finding in lexical_6_1(kind, text)]
        if kind == "broken":
            return place + 1, found
        if kind == "word" and text == b"stream":
            end, findings = _stream_6_1_7(data, begin.end(), place, places)
            return end, found + [f"{finding} of {name}" for finding in findings]
        if kind == "word" and text == b"endobj":
            return place + 6, found + [f"{finding}: {name}" for finding in _end_6_1_9(data, place)]
    return len(data), [*found, f"A 6.1.9 {name} has no end"]


def _stream_6_1_7(data: bytes, begin: int, place: int, places: dict[int, int]) -> tuple[int, list[str]]:
    found = []
    after = re.compile(rb"stream(?:\r\n|\n)").match(data, place)
    length = _length(data, _LENGTH.search(data, begin, place), places)
    if after is None or length is None:
        return place + 6, ["A 6.1.7.1 the keyword stream is not followed by a new line, or there is no length"]
    end = re.compile(rb"(?:\r\n|\r|\n)endstream").match(data, after.end() + length)
    if end is None:
        found.append("A 6.1.7.1 the length is not what stands between the keywords")
        where = data.find(b"endstream", after.end())
        return where + 9, found
    close = re.compile(rb"\s+endobj").match(data, end.end())
    if close is None:
        return end.end(), [*found, "A 6.1.9 no endobj"]
    return close.end(), found + list(_end_6_1_9(data, close.end() - 6))


def _length(data: bytes, found: re.Match[bytes] | None, places: dict[int, int]) -> int | None:
    if found is None:
        return None
    if found[2] is None:
        return int(found[1])
    at = re.search(rb"[\r\n]%d %d obj\s+(\d+)\s" % (int(found[1]), int(found[2])), data)
    return int(at[1]) if at else None


def _end_6_1_9(data: bytes, place: int) -> Iterator[str]:
    if data[place - 1 : place] not in (b"\r", b"\n") or data[place + 6 : place + 7] not in (b"\r", b"\n"):
        yield "A 6.1.9 endobj does not stand alone in its line"


def lexical_6_1(kind: str, text: bytes) -> Iterator[str]:
    """Rules on single tokens, in the file and in content streams alike."""
    if kind == "hex":
        digits = re.sub(rb"[" + _SPACE + rb"]", b"", text[1:-1])
        if len(digits) % 2:
            yield "A 6.1.6 a hexadecimal string with an odd number of digits"
        if not re.fullmatch(rb"[0-9A-Fa-f]*", digits):
            yield "A 6.1.6 a hexadecimal string with other signs"
        if len(digits) > 2 * 32_767:
            yield "A 6.1.13 a string is too long"
    elif kind == "literal" and len(_ESCAPE.sub(b".", text[1:-1])) > 32_767:
        yield "A 6.1.13 a string is too long"
    elif kind == "name":
        name = re.sub(rb"#([0-9A-Fa-f]{2})", lambda code: bytes([int(code[1], 16)]), text[1:])
        try:
            name.decode("utf-8")
        except UnicodeDecodeError:
            yield f"A 6.1.8 a name that is not UTF-8: {text!r}"
        if len(name) > 127:
            yield f"A 6.1.13 a name is too long: {text!r}"
    elif kind == "word" and _NUMBER.fullmatch(text):
        value = Decimal(text.decode())
        if b"." not in text and not -2_147_483_648 <= value <= 2_147_483_647:
            yield f"A 6.1.13 an integer is too large: {text!r}"
        if abs(value) > Decimal("3.403e38") or 0 < abs(value) < Decimal("1.175e-38"):
            yield f"A 6.1.13 a number out of range: {text!r}"
    elif kind in ("broken", "open"):
        yield f"ISO 32000 7.2 no token: {text!r}"


def content_streams(pdf: pikepdf.Pdf) -> Iterator[tuple[str, bytes]]:
    """Every stream of operators with its name: pages, forms, tiling patterns."""
    for number, page in enumerate(pdf.pages, 1):
        contents = page.obj.get("/Contents")
        parts = [contents] if isinstance(contents, Stream) else list(contents or [])
        yield f"page {number}", b"\n".join(part.read_bytes() for part in parts)
    for item in pdf.objects:
        if isinstance(item, Stream) and (item.get("/Subtype") == Name.Form or item.get("/PatternType") == 1):
            yield f"form {item.objgen[0]}", item.read_bytes()


def operators_6_2_2(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    """Only operators of the standard; tokens, numbers and nesting within their limits."""
    for name, data in content_streams(pdf):
        depth = 0
        for kind, text, _place in tokens(data):
            for finding in lexical_6_1(kind, text):
                yield f"{finding} in {name}"
            if kind == "broken":
                break
            if kind != "word" or _NUMBER.fullmatch(text) or text in (b"true", b"false", b"null"):
                continue
            if text == b"BI":
                yield f"A 6.1.10 (advice) an inline image in {name}: this reader does not look into it"
                break
            if text not in OPERATORS:
                yield f"A 6.2.2 {text!r} is no operator, in {name}"
            depth += {b"q": 1, b"Q": -1}.get(text, 0)
            if depth > 28:
                yield f"A 6.1.13 more than 28 states inside of each other, in {name}"
                break


def boundaries_6_1_13(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    for number, page in enumerate(pdf.pages, 1):
        for key in ("/MediaBox", "/CropBox", "/BleedBox", "/TrimBox", "/ArtBox"):
            if key in page.obj:
                x0, y0, x1, y1 = (float(value) for value in page.obj[key])
                if not (3 <= abs(x1 - x0) <= 14_400 and 3 <= abs(y1 - y0) <= 14_400):
                    yield f"A 6.1.13 {key} of page {number}"


def resources_6_2_2(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    """What a stream of operators names stands in resources of its own."""
    holders = [(f"page {number}", page.obj) for number, page in enumerate(pdf.pages, 1)]
    for item in pdf.objects:
        if isinstance(item, Stream) and (item.get("/Subtype") == Name.Form or item.get("/PatternType") == 1):
            holders.append((f"form {item.objgen[0]}", item))
    kinds = {"Do": "/XObject", "gs": "/ExtGState", "Tf": "/Font", "sh": "/Shading", "cs": "/ColorSpace"}
    for name, holder in holders:
        own = holder.get("/Resources", Dictionary())
        for operands, operator in pikepdf.parse_content_stream(holder):
            word = str(operator)
            kind = kinds.get("cs" if word == "CS" else word)
            if word in ("scn", "SCN") and operands and isinstance(operands[-1], Name):
                kind, operands = "/Pattern", [operands[-1]]
            if kind is None or str(operands[0]) in ("/DeviceRGB", "/DeviceGray", "/DeviceCMYK", "/Pattern"):
                continue
            if str(operands[0]) not in own.get(kind, Dictionary()):
                yield f"A 6.2.2 {name} names {operands[0]}, which its own resources do not have"
