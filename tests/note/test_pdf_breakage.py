"""Each rule of `pdf_rules` finds what breaks it: a note is harmed in one place, and it says so (issue 5 point 3)."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from typing import Any

import pikepdf
import pytest
from pikepdf import Array, Dictionary, Name, Stream, String

from runner.evidence.campaign import Campaign
from runner.note.build import NoteFiles
from runner.seal.pdf import sign_pdf
from runner.seal.pdfkey import pdf_key
from tests.note import pdf_bytes, pdf_glyphs, pdf_rules, pdf_signed
from tests.note.pdf_tree import elements, kids_of

Rule = Callable[[pikepdf.Pdf, bytes], Iterator[str]]
Harm = Callable[[Any], Any]
BY_NAME: dict[str, Rule] = {rule.__name__.strip("_"): rule for rule in pdf_rules.RULES}


def change(item: Any, key: str, value: Any = None) -> None:
    if value is None:
        del item[key]
    else:
        item[key] = value


def first(pdf: Any, kind: str) -> Any:
    return next(element for element, _ in elements(pdf) if str(element.S) == kind)


def table(pdf: Any) -> Any:
    """A table of at least three rows and two columns, with a caption."""
    for element, _ in elements(pdf):
        kinds = [str(kid.S) for kid in kids_of(element) if isinstance(kid, Dictionary) and "/S" in kid]
        if str(element.S) == "/Table" and "/Caption" in kinds and "/THead" in kinds and len(rows(element)) > 2:
            return element
    raise AssertionError("no table")


def rows(element: Any) -> list[Any]:
    return [row for part in kids_of(element) if str(part.S) in ("/THead", "/TBody") for row in kids_of(part)]


def link(pdf: Any) -> Any:
    return next(a for page in pdf.pages for a in page.obj.get("/Annots", []) if a.Subtype == Name.Link)


def font(pdf: Any) -> Any:
    """The font of most letters."""
    return max(pdf_glyphs.used_codes(pdf), key=lambda used: len(used.codes)).font


def descriptor(pdf: Any) -> Any:
    return font(pdf).DescendantFonts[0].FontDescriptor


def spec(pdf: Any) -> Any:
    return pdf.Root.AF[0]


def rewritten(stream: Any, old: bytes, new: bytes) -> None:
    data = stream.read_bytes()
    assert re.search(old, data), old
    stream.write(re.sub(old, new, data, count=1))


def metadata(pdf: Any, old: bytes, new: bytes) -> None:
    rewritten(pdf.Root.Metadata, old, new)


def a_code(pdf: Any) -> int:
    used = max(pdf_glyphs.used_codes(pdf), key=lambda used: len(used.codes))
    return max(used.codes)


def to_unicode(pdf: Any, target: bytes) -> None:
    rewritten(font(pdf).ToUnicode, rb"<%04x> <[0-9a-f]+>" % a_code(pdf), rb"<%04x> <%s>" % (a_code(pdf), target))


def wider(pdf: Any) -> None:
    cid = font(pdf).DescendantFonts[0]
    cid.W = Array([0, 65535, 1234])


def mapped(pdf: Any, glyph: int) -> None:
    font(pdf).DescendantFonts[0].CIDToGIDMap = pdf.make_stream(glyph.to_bytes(2) * 65536)


def cut_program(pdf: Any) -> None:
    descriptor(pdf).FontFile2.write(descriptor(pdf).FontFile2.read_bytes()[:200])


def profile(pdf: Any, place: int, new: bytes) -> None:
    stream = pdf.Root.OutputIntents[0].DestOutputProfile
    data = bytearray(stream.read_bytes())
    data[place : place + len(new)] = new
    stream.write(bytes(data))


def paint(pdf: Any, operators: bytes) -> None:
    pdf.pages[0].contents_add(b"/Artifact BMC " + operators + b" EMC")


def state(pdf: Any, key: str, value: Any) -> None:
    pdf.pages[0].obj.Resources.ExtGState[Name.harmed] = Dictionary({key: value})


def image(pdf: Any, **keys: Any) -> None:
    made = Stream(pdf, b"\0\0\0")
    for key, value in (
        {"Type": Name.XObject, "Subtype": Name.Image, "Width": 1, "Height": 1, "BitsPerComponent": 8,
         "ColorSpace": Name.DeviceRGB} | keys
    ).items():  # fmt: skip
        made[f"/{key}"] = value
    pdf.pages[0].obj.Resources.XObject[Name.harmed] = pdf.make_indirect(made)


def form(pdf: Any, key: str, value: Any) -> None:
    made = Stream(pdf, b"")
    made["/Subtype"], made["/BBox"], made[key] = Name.Form, Array([0, 0, 1, 1]), value
    pdf.pages[0].obj.Resources.XObject[Name.harmed] = pdf.make_indirect(made)


def meeting(pdf: Any) -> None:
    one, two = rows(table(pdf))[1:3]
    kids_of(one)[1].A = Dictionary(O=Name.Table, RowSpan=2)
    kids_of(two)[0].A = Dictionary(O=Name.Table, ColSpan=2)


def below(pdf: Any) -> None:
    kids_of(rows(table(pdf))[-1])[0].A = Dictionary(O=Name.Table, RowSpan=2)


def reordered(pdf: Any, kind: str, place: int) -> None:
    found = table(pdf)
    kids = kids_of(found)
    moved = next(kid for kid in kids if str(kid.S) == kind)
    others = [kid for kid in kids if kid.objgen != moved.objgen]
    found.K = Array([*others[:place], moved, *others[place:]])


def without(pdf: Any, kind: str) -> None:
    found = table(pdf)
    found.K = Array([kid for kid in kids_of(found) if str(kid.S) != kind])


def unlinked(pdf: Any) -> None:
    element = first(pdf, "/Link")
    element.K = Array([kid for kid in kids_of(element) if isinstance(kid, int)])


def alone(pdf: Any) -> None:
    figure = first(pdf, "/Figure")
    figure.P.K = Array([kid for kid in kids_of(figure.P) if kid.objgen != figure.objgen])


def moved(pdf: Any) -> None:
    box = [float(value) for value in first(pdf, "/Figure").A.BBox]
    first(pdf, "/Figure").A.BBox = Array([box[0], box[1] + 20, box[2], box[3] + 20])


def headless(pdf: Any) -> None:
    for row in rows(table(pdf)):
        for cell in kids_of(row):
            cell.S = Name.TD


def described(pdf: Any) -> Any:
    return next(e.A for e, _ in elements(pdf) if str(e.S) == "/TD" and "/Headers" in e.A)


def twice(pdf: Any) -> None:
    pdf.pages[1].obj.StructParents = int(pdf.pages[0].obj.StructParents)


HARMS: list[tuple[str, str, Harm]] = [
    # how it is written
    ("file_structure", "A 6.1.13 a name is too long", lambda p: change(p.Root, "/" + "n" * 128, 1)),
    ("file_structure", "A 6.1.13 a string is too long", lambda p: change(p.Root, "/X", String("x" * 32_768))),
    ("file_structure", "A 6.1.13 an integer is too large", lambda p: change(p.Root, "/X", 1 << 31)),
    ("operators_6_2_2", "is no operator", lambda p: paint(p, b"1 foo")),
    ("operators_6_2_2", "is no operator", lambda p: paint(p, b"1e-5 w")),
    ("operators_6_2_2", "A 6.1.13 more than 28", lambda p: paint(p, b"q " * 29 + b"Q " * 29)),
    ("operators_6_2_2", "A 6.1.13 an integer is too large", lambda p: paint(p, b"2147483648 w")),
    ("operators_6_2_2", "A 6.1.6 a hexadecimal string with an odd", lambda p: paint(p, b"BT <00a> Tj ET")),
    ("operators_6_2_2", "A 6.1.6 a hexadecimal string with other", lambda p: paint(p, b"BT <0g> Tj ET")),
    ("operators_6_2_2", "A 6.1.10", lambda p: paint(p, b"BI /W 1 /H 1 ID x EI")),
    ("boundaries_6_1_13", "A 6.1.13 /MediaBox", lambda p: change(p.pages[0].obj, "/MediaBox", Array([0, 0, 2, 9]))),
    ("resources_6_2_2", "A 6.2.2 page 1 names", lambda p: change(p.pages[0].obj.Resources, "/Font")),
    ("streams", "A 6.1.7.1 a stream lies outside", lambda p: change(spec(p).EF.F, "/FFilter", Name.FlateDecode)),
    # metadata
    ("metadata_6_6", "A 6.6.2.1 no metadata", lambda p: change(p.Root, "/Metadata")),
    ("metadata_6_6", "A 6.6.2.1 the packet has no header", lambda p: metadata(p, rb"<\?xpacket begin.*?\?>", b"")),
    ("metadata_6_6", "A 6.6.2.1 the packet has no end", lambda p: metadata(p, rb"<\?xpacket end.*?\?>", b"")),
    ("metadata_6_6", "bytes or encoding", lambda p: metadata(p, rb'd"\?>', b'd" encoding="UTF-8"?>')),
    ("metadata_6_6", "is not well-formed", lambda p: metadata(p, b"</rdf:RDF>", b"</rdf:RD>")),
    ("metadata_6_6", "A 6.6.4 the file", lambda p: metadata(p, b'conformance="A"', b'conformance="B"')),
    ("metadata_6_6", "UA 5 the file", lambda p: metadata(p, b"<pdfuaid:part>1<", b"<pdfuaid:part>2<")),
    ("metadata_6_6", "UA 5 the prefix", lambda p: metadata(
        p, b"<pdfuaid:part>1</pdfuaid:part>", b'<u:part xmlns:u="http://www.aiim.org/pdfua/ns/id/">1</u:part>')),
    ("metadata_6_6", "A 6.6.2.3 ", lambda p: metadata(p, b"Property:name>part<", b"Property:name>art<")),
    ("metadata_6_6", "has no category", lambda p: metadata(p, b"internal", b"")),
    ("metadata_6_6", "neither internal nor", lambda p: metadata(p, b"internal", b"inner")),
    ("metadata_6_6", "does not have", lambda p: metadata(p, b"<pdfaSchema:schema>.*?</pdfaSchema:schema>", b"<x/>")),
    ("metadata_6_6", "has not the form", lambda p: metadata(p, b' xml:lang="x-default"', b"")),
    ("metadata_6_6", "neither known nor", lambda p: metadata(p, b"pdf:Producer", b"pdf:Maker")),
    ("metadata_6_6", "stands twice", lambda p: metadata(p, b'pdfaid:part="3"', b'pdfaid:part="3" pdf:Producer="x"')),
    ("metadata_6_6", "A 6.6.3 /Title", lambda p: change(p.docinfo, "/Title", String("other"))),
    ("metadata_6_6", "A 6.6.3 /ModDate", lambda p: change(p.docinfo, "/ModDate", String("D:20260101000000Z"))),
    # catalogue
    ("catalog", "A 6.7.2.2", lambda p: change(p.Root, "/MarkInfo")),
    ("catalog", "UA 7.1 suspects", lambda p: change(p.Root.MarkInfo, "/Suspects", True)),
    ("catalog", "UA 7.2 no language", lambda p: change(p.Root, "/Lang")),
    ("catalog", "the title is not shown", lambda p: change(p.Root, "/ViewerPreferences")),
    ("catalog", "UA 7.17", lambda p: change(p.Root, "/Outlines")),
    ("catalog", "A 6.5.2", lambda p: change(p.Root, "/AA", Dictionary())),
    ("catalog", "A 6.5.1 action", lambda p: change(p.Root, "/OpenAction", Dictionary(S=Name.JavaScript))),
    ("catalog", "A 6.5.1-2", lambda p: change(p.Root, "/OpenAction", Dictionary(S=Name.Named, N=Name.Print))),
    ("catalog", "names hold", lambda p: change(p.Root.Names, "/AlternatePresentations", Dictionary())),
    # letters
    ("glyphs", "is not embedded", lambda p: change(descriptor(p), "/FontFile2")),
    ("glyphs", "cannot be read", cut_program),
    ("glyphs", "Length1", lambda p: change(descriptor(p).FontFile2, "/Length1", 1)),
    ("glyphs", "the descriptor has no /StemV", lambda p: change(descriptor(p), "/StemV")),
    ("glyphs", "Type, Subtype", lambda p: change(font(p).DescendantFonts[0], "/Type", Name.Fount)),
    ("glyphs", "several names", lambda p: change(descriptor(p), "/FontName", Name("/ABCDEF+Other"))),
    ("glyphs", "encoding", lambda p: change(font(p), "/Encoding", Name("/UniGB-UCS2-H"))),
    ("glyphs", "no map to its letters", lambda p: change(font(p).DescendantFonts[0], "/CIDToGIDMap")),
    ("glyphs", "CIDSystemInfo", lambda p: change(font(p).DescendantFonts[0], "/CIDSystemInfo")),
    ("glyphs", "lists its letters", lambda p: change(descriptor(p), "/CIDSet", p.make_stream(b"\0"))),
    ("glyphs", "A 6.2.11.5", wider),
    ("glyphs", "is .notdef", lambda p: mapped(p, 0)),
    ("glyphs", "has no glyph 65535", lambda p: mapped(p, 65_535)),
    ("glyphs", "has no ToUnicode", lambda p: change(font(p), "/ToUnicode")),
    ("glyphs", "no letter for code", lambda p: to_unicode(p, b"")),
    ("glyphs", "a forbidden letter", lambda p: to_unicode(p, b"feff")),
    ("glyphs", "a forbidden letter", lambda p: to_unicode(p, b"0000")),
    ("glyphs", "a private letter", lambda p: to_unicode(p, b"e000")),
    ("glyphs", "promised", lambda p: rewritten(font(p).ToUnicode, rb"\d+ beginbfchar", b"7 beginbfchar")),
    # paint
    ("output_intent_6_2_3", "no output intent", lambda p: change(p.Root, "/OutputIntents")),
    ("output_intent_6_2_3", "no identifier", lambda p: change(
        p.Root.OutputIntents[0], "/OutputConditionIdentifier")),
    ("output_intent_6_2_3", "class or version", lambda p: profile(p, 12, b"link")),
    ("output_intent_6_2_3", "not for RGB", lambda p: profile(p, 16, b"CMYK")),
    ("output_intent_6_2_3", "no ICC profile", lambda p: profile(p, 36, b"none")),
    ("output_intent_6_2_3", "lacks", lambda p: profile(p, 132, b"none")),
    ("output_intent_6_2_3", "N is not", lambda p: change(p.Root.OutputIntents[0].DestOutputProfile, "/N", 1)),
    ("colours_6_2_4", "A 6.2.4.3 CMYK", lambda p: paint(p, b"0 0 0 1 k")),
    ("colours_6_2_4", "A 6.2.4.3 CMYK", lambda p: paint(p, b"/DeviceCMYK cs")),
    ("colours_6_2_4", "A 6.2.4.3 CMYK", lambda p: image(p, ColorSpace=Name.DeviceCMYK)),
    ("colours_6_2_4", "A 6.2.4.3 CMYK", lambda p: form(p, "/Group", Dictionary(CS=Name.DeviceCMYK))),
    ("colours_6_2_4", "A 6.2.6", lambda p: paint(p, b"/Vivid ri")),
    ("states_6_2_5", "A 6.2.10 blend", lambda p: state(p, "/BM", Name.Fancy)),
    ("states_6_2_5", "A 6.2.5 a transfer", lambda p: state(p, "/TR", Name.Identity)),
    ("states_6_2_5", "A 6.2.5 a halftone", lambda p: state(p, "/HT", Dictionary(HalftoneType=6))),
    ("pictures_6_2_8", "is interpolated", lambda p: image(p, Interpolate=True)),
    ("pictures_6_2_8", "alternates", lambda p: image(p, Alternates=Array())),
    ("forms_6_2_9", "A 6.2.9, UA 7.20", lambda p: form(p, "/Ref", Dictionary())),
    # annotations and attachments
    ("annotations", "A 6.3.1", lambda p: change(link(p), "/Subtype", Name.Movie)),
    ("annotations", "A 6.3.2", lambda p: change(link(p), "/F", 2)),
    ("annotations", "A 6.3.3 /Widget on page 1 has no", lambda p: change(
        p.Root.AcroForm.Fields[0], "/Rect", Array([0, 0, 9, 9]))),
    ("annotations", "more than the normal", lambda p: change(link(p), "/AP", Dictionary(D=Dictionary()))),
    ("annotations", "leads nowhere", lambda p: change(link(p), "/Dest", String("nowhere"))),
    ("annotations", "A 6.4.1 a field", lambda p: change(p.Root.AcroForm.Fields[0], "/AA", Dictionary())),
    ("annotations", "A 6.4.1/6.4.2", lambda p: change(p.Root.AcroForm, "/XFA", Array())),
    ("annotations", "A 6.5.2, 6.10", lambda p: change(p.pages[0].obj, "/PresSteps", Dictionary())),
    ("annotations", "UA 7.18.5 a link", lambda p: change(link(p), "/Contents")),
    ("annotations", "does not stand in the structure", lambda p: change(link(p), "/StructParent")),
    ("annotations", "UA 7.18.3", lambda p: change(p.pages[0].obj, "/Tabs")),
    ("annotations", "UA 7.18.1 a field", lambda p: change(p.Root.AcroForm.Fields[0], "/TU")),
    ("annotations", "/Widget on page 1 does not stand", lambda p: change(first(p, "/Form"), "/S", Name.Div)),
    ("attachments", "associated with nothing", lambda p: change(p.Root, "/AF", Array(list(p.Root.AF)[1:]))),
    ("attachments", "F and UF", lambda p: change(spec(p), "/UF")),
    ("attachments", "(advice) ", lambda p: change(spec(p), "/Desc")),
    ("attachments", ": kind", lambda p: change(spec(p).EF.F, "/Subtype")),
    ("attachments", "has no date", lambda p: change(spec(p).EF.F, "/Params")),
    ("attachments", ": relationship", lambda p: change(spec(p), "/AFRelationship")),
    ("attachments", ": checksum", lambda p: change(spec(p).EF.F.Params, "/CheckSum", String(b"x" * 16))),
    ("attachments", ": size", lambda p: change(spec(p).EF.F.Params, "/Size", 0)),
    # structure
    ("tree", "UA 7.3", lambda p: change(first(p, "/Figure"), "/Alt")),
    ("tree", "the tree of names", lambda p: change(p.Root.StructTreeRoot, "/IDTree")),
    ("tree", "A 6.7.3.4", lambda p: change(first(p, "/P"), "/S", Name.Paragraph)),
    ("tree", "UA 7.2 /P in LI", lambda p: change(first(p, "/LBody"), "/S", Name.P)),
    ("tree", "UA 7.9 a note", lambda p: change(first(p, "/P"), "/S", Name.Note)),
    ("tree", "another parent", lambda p: change(first(p, "/TD"), "/P", first(p, "/Document"))),
    ("grids_7_2", "UA 7.2-15", meeting),
    ("grids_7_2", "UA 7.2-41", below),
    ("grids_7_2", "columns", lambda p: change(first(p, "/TH").A, "/ColSpan", 7)),
    ("headers_7_5", "UA 7.5 a header", lambda p: (
        change(kids_of(rows(table(p))[0])[0].A, "/Scope"), change(kids_of(rows(table(p))[1])[-1].A, "/Headers"))),
    ("headers_7_5", "names headers that do not exist", lambda p: change(described(p), "/Headers", Array(["no"]))),
    ("headers_7_5", "UA 7.5-1", headless),
    ("children_7_2", "the caption of a table", lambda p: reordered(p, "/Caption", 1)),
    ("children_7_2", "no body", lambda p: without(p, "/TBody")),
    ("children_7_2", "two heads", lambda p: change(table(p), "/K", Array([*kids_of(table(p)), first(p, "/THead")]))),
    ("children_7_2", "a caption of nothing", alone),
    ("children_7_2", "its one field", lambda p: change(first(p, "/Form"), "/K", Array([]))),
    ("children_7_2", "without its annotation", unlinked),
    ("children_7_2", "strong and weak", lambda p: change(first(p, "/H2"), "/S", Name.H)),
    ("headings_7_4_2", "UA 7.4.2 heading H4", lambda p: change(first(p, "/H2"), "/S", Name.H4)),
    ("headings_7_4_2", "the first heading", lambda p: change(first(p, "/H1"), "/S", Name.H2)),
    ("roles_7_1", "UA 7.1-5", lambda p: change(p.Root.StructTreeRoot, "/RoleMap", Dictionary(X=Name.Y))),
    ("roles_7_1", "UA 7.1-6", lambda p: change(p.Root.StructTreeRoot, "/RoleMap", Dictionary(X=Name.Y, Y=Name.X))),
    ("roles_7_1", "UA 7.1-7", lambda p: change(p.Root.StructTreeRoot, "/RoleMap", Dictionary(P=Name.H1))),
    ("languages_7_2", "is no language", lambda p: change(first(p, "/P"), "/Lang", String("deutsch, glaube ich"))),
    ("parents_14_7_4", "is taken", lambda p: change(p.Root.StructTreeRoot, "/ParentTreeNextKey", 1)),
    ("parents_14_7_4", "two objects with one place", twice),
    ("figures_7_3", "without a box", lambda p: change(first(p, "/Figure").A, "/BBox")),
    ("figures_7_3", "outside of its page", lambda p: change(first(p, "/Figure").A, "/BBox", Array([0, 0, 9, 900]))),
    ("figures_7_3", "a figure is drawn at", moved),
    ("content", "is in no element", lambda p: change(first(p, "/P"), "/K", Array())),
    ("content", "neither tagged nor an artifact", lambda p: p.pages[0].contents_add(b"0 0 m 9 9 l S")),
    ("content", "tagged content in an artifact", lambda p: paint(p, b"/P << /MCID 900 >> BDC EMC")),
    ("content", "content 0 twice", lambda p: p.pages[0].contents_add(b"/P << /MCID 0 >> BDC EMC")),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "finding", "harm"), HARMS, ids=[f"{rule}: {what}" for rule, what, _ in HARMS])
def test_every_rule_finds_what_breaks_it(note: NoteFiles, rule: str, finding: str, harm: Harm) -> None:
    with pikepdf.open(note.pdf) as pdf:
        harm(pdf)
        out = io.BytesIO()
        pdf.save(out, fix_metadata_version=False)
    with pikepdf.open(out) as harmed:
        found = list(BY_NAME[rule](harmed, out.getvalue()))
    assert any(finding in item for item in found), found[:5]


def test_every_rule_is_broken_once() -> None:
    assert {rule for rule, _, _ in HARMS} | {"signatures_6_4_3"} == set(BY_NAME)


def replaced(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    """A change of the bytes themselves: the first place where `old` stands."""

    def harm(data: bytes) -> bytes:
        assert re.search(old, data), old
        return re.sub(old, new, data, count=1)

    return harm


BYTES: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("A 6.1.2 header", replaced(rb"%PDF-1.7", b"%PDF-2.0")),
    ("A 6.1.2 header", replaced(rb"\n%[\x80-\xff]{4}", b"\n%abcd")),
    ("A 6.1.2 header", lambda data: b" " + data),
    ("A 6.1.3 data after the end", lambda data: data + b"\n\n"),
    ("A 6.1.3 data after the end", lambda data: data + b"x"),
    ("A 6.1.4 the keyword xref", replaced(rb"xref\n0", b"xref 0")),
    ("A 6.1.4 entry of object 1", replaced(rb"(\d{10} 65535 f) \n(\d{10})", rb"\1 \n \2")),
    ("leads elsewhere", replaced(rb"(65535 f \n)\d{10}", rb"\g<1>0000000099")),
    ("A 6.1.6 a hexadecimal string with an odd", replaced(rb"/ID \[<..", b"/ID [<0")),
    ("A 6.1.7.1 the length", replaced(rb"/Length (\d+)", rb"/Length 1\1")),
    ("A 6.1.7.1 the length", replaced(rb"\nendstream", b"  endstream")),
    ("A 6.1.7.1 the keyword", replaced(rb"stream\n", b"stream  ")),
    ("A 6.1.8", replaced(rb"/MarkInfo", b"/Mark#ff#fe")),
    ("A 6.1.9 object 1: blanks", replaced(rb"\n1 0 obj\n", b"\n1 0  obj\n")),
    ("A 6.1.9 object 1: blanks", replaced(rb"\n1 0 obj\n", b"\n1 0 obj ")),
    ("A 6.1.9 object 2 does not begin", replaced(rb"endobj\n2 0", b"endobj 2 0")),
    ("A 6.1.9 endobj", replaced(rb" >>\nendobj", b" >> endobj")),
]


@pytest.mark.parametrize(("finding", "harm"), BYTES, ids=[f"{n}: {what}" for n, (what, _) in enumerate(BYTES)])
def test_how_a_file_is_written(note: NoteFiles, finding: str, harm: Callable[[bytes], bytes]) -> None:
    """ISO 19005-3, 6.1: seen in the bytes, which every library repairs silently."""
    data = note.pdf.read_bytes()
    with pikepdf.open(io.BytesIO(data)) as pdf:
        found = list(pdf_bytes.file_structure(pdf, harm(data)))
    assert any(finding in item for item in found), found[:5]


def test_an_encrypted_file(note: NoteFiles) -> None:
    out = io.BytesIO()
    with pikepdf.open(note.pdf) as pdf:
        pdf.save(out, encryption=pikepdf.Encryption(owner="x", user=""))
    with pikepdf.open(out) as pdf:
        assert "A 6.1.3 encrypted" in list(pdf_bytes.trailer_6_1_3(pdf, out.getvalue()))


@pytest.fixture(scope="module")
def signed(campaign: Campaign, note: NoteFiles) -> bytes:
    return sign_pdf(note.pdf.read_bytes(), pdf_key(campaign, {}), reason="Decision note n-1")


SIGNED: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("A 6.4.3-1 the signature is not of the entire file", lambda data: data + b"\n"),
    ("A 6.4.3-1 what the digest leaves out", replaced(rb"(/Contents <..)..", rb"\1 0")),
    ("A 6.4.3-2", replaced(rb"/Contents <3082....06", b"/Contents <3082000004")),
    ("that there are signatures", replaced(rb"/SigFlags 3", b"/SigFlags 1")),
    ("the signature's form", replaced(rb"/ETSI.CAdES.detached", b"/ETSI.CAdES.attached")),
    ("the signature's type or filter", replaced(rb"/Adobe.PPKLite", b"/Adobe.PPKHeavy")),
    ("the time of the signature", replaced(rb"/M \(D(\\072|:)20", b"/M (D:xx")),
]


@pytest.mark.parametrize(("finding", "harm"), SIGNED, ids=[what for what, _ in SIGNED])
def test_a_signature_that_is_none(signed: bytes, finding: str, harm: Callable[[bytes], bytes]) -> None:
    data = harm(signed)
    with pikepdf.open(io.BytesIO(data)) as pdf:
        found = list(pdf_signed.signatures_6_4_3(pdf, data))
    assert any(finding in item for item in found), found[:5]
