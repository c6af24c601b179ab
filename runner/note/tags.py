"""The PDF's structure finished to PDF/A-3a and PDF/UA-1, where WeasyPrint leaves something out.

Works on WeasyPrint's own objects before they are written. What is put right: running headers become
artifacts, table headers say of what, names of elements get their tree, list items have a body, a figure
says where on its page it stands and has its caption beside it, a link is one annotation that says where it
leads, images are not interpolated, every attachment has a type that does not depend on the machine, and
the signature field has its place in the structure before it is signed.
"""

from __future__ import annotations

import html as markup
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from threading import RLock
from typing import Any

SIGNATURE_FIELD = "Signature"
_LINK = re.compile(r'<a\b[^>]*\bhref="([^"]+)"[^>]*>(.*?)</a>', re.DOTALL)
_TYPES = {
    ".json": "application/json", ".csv": "text/csv", ".toml": "application/toml", ".qmd": "text/markdown",
    ".zip": "application/zip", ".parquet": "application/vnd.apache.parquet",
}  # fmt: skip
_PRINTED, _LOCKED = 4, 128
_POINTS_PER_PIXEL = 0.75
_one_at_a_time = RLock()


@contextmanager
def spans_keep_their_language() -> Iterator[None]:
    """While a PDF is written: a span with `lang` gives its structure element /Lang (PDF/UA-1, 7.2; WCAG 3.1.2).

    WeasyPrint drops the attribute, and nothing leads from a finished element back to its box; so its own
    maker of elements is listened to. `tests/note/test_language_of_parts.py` sees when it has another name.
    """
    library: Any = import_module("weasyprint.pdf.tags")
    pydyf: Any = import_module("pydyf")
    make = library._build_box_tree

    def made(box: Any, *others: Any) -> Iterator[Any]:
        inner = getattr(box, "_box", box)  # one that is placed absolutely stands in a wrapper
        language = inner.element.get("lang") if inner.element is not None and inner.element_tag == "span" else None
        for element in make(box, *others):
            if language and element["S"] == "/Span":
                element["Lang"] = pydyf.String(language)
            yield element

    with _one_at_a_time:
        library._build_box_tree = made
        try:
            yield
        finally:
            library._build_box_tree = make


def finish_tags(pdf: Any, html: str, field_name: str) -> None:
    """Change the `pydyf.PDF` in place. `html`: the page, for the words of its links; `field_name`: for people."""
    _Finish(pdf, html).all(field_name)


class _Finish:
    def __init__(self, pdf: Any, html: str) -> None:
        self._pydyf: Any = import_module("pydyf")
        self._pdf = pdf
        self._root = self._at(pdf.catalog["StructTreeRoot"])
        numbers = self._at(self._root["ParentTree"])["Nums"]
        self._parents: dict[int, Any] = dict(zip(numbers[::2], numbers[1::2], strict=True))
        self._words = _words_of_links(html)
        self._ids: dict[str, bytes] = {}
        self._in_tree: set[tuple[bytes, int]] = set()
        self._doubled: set[int] = set()

    def all(self, field_name: str) -> None:
        (document,) = self._root["K"]
        self._walk(self._at(document), document, ())
        self._make_artifacts()
        self._links()
        self._no_interpolation()
        self._types_of_attachments()
        self._signature_field(self._at(document), document, field_name)
        self._root["IDTree"] = self._pydyf.Dictionary({"Names": self._sorted_ids()})
        self._at(self._root["ParentTree"])["Nums"] = self._pydyf.Array(
            part for number in sorted(self._parents) for part in (number, self._parents[number])
        )
        self._root["ParentTreeNextKey"] = max(self._parents) + 1

    def _at(self, reference: bytes) -> Any:
        return self._pdf.objects[int(reference.split()[0])]

    def _element(self, **entries: Any) -> Any:
        made = self._pydyf.Dictionary({"Type": "/StructElem", **entries})
        self._pdf.add_object(made)
        return made

    # ---- elements --------------------------------------------------------------------------------

    def _walk(self, element: Any, reference: bytes, above: tuple[str, ...]) -> None:
        kind = element["S"]
        inside = above.count("/Link")
        if kind == "/LI":
            self._give_body(element, reference)
        elif kind == "/TH":
            element["A"]["Scope"] = "/Column" if "/THead" in above else "/Row"
        elif kind == "/TD" and not element["A"].get("Headers"):
            element["A"].pop("Headers", None)
        elif kind == "/Figure":
            self._place(element)
        elif kind == "/NonStruct":
            self._unwrap_figures(element, reference)
        elif kind == "/Link" and inside:
            element["S"] = "/Span"  # what the style adds to a link, such as the page's number
        if "ID" in element:
            self._ids[element["ID"].string] = reference
        for kid in list(element["K"]):
            if isinstance(kid, int):
                self._in_tree.add((element["Pg"], kid))
                continue
            child = self._at(kid)
            if child.get("Type") == "/OBJR":
                if inside:  # WeasyPrint repeats a link for every part of its words
                    element["K"].remove(kid)
                    self._doubled.add(int(child["Obj"].split()[0]))
            elif child["S"] == "/Link" and kind == "/Link" and inside:
                element["K"].remove(kid)  # the row of dots before the number: no content
                self._drop_links(child)
            else:
                self._walk(child, kid, (*above, kind))

    def _drop_links(self, element: Any) -> None:
        for kid in element["K"]:
            if not isinstance(kid, int):
                child = self._at(kid)
                if child.get("Type") == "/OBJR":
                    self._doubled.add(int(child["Obj"].split()[0]))
                else:
                    self._drop_links(child)

    def _give_body(self, item: Any, reference: bytes) -> None:
        """What stands loose in a list item becomes its body."""
        kinds = [self._kind(kid) for kid in item["K"]]
        loose = [kid for kid, kind in zip(item["K"], kinds, strict=True) if kind not in ("/Lbl", "/LBody")]
        if not loose:
            return
        bodies = [kid for kid, kind in zip(item["K"], kinds, strict=True) if kind == "/LBody"]
        if bodies:
            body, place = self._at(bodies[0]), bodies[0]
        else:
            body = self._element(S="/LBody", K=self._pydyf.Array(), Pg=item["Pg"], P=reference)
            place = body.reference
        body["K"].extend(loose)
        for kid in loose:
            if not isinstance(kid, int):
                self._at(kid)["P"] = place
        item["K"] = self._pydyf.Array([*(kid for kid in item["K"] if kid not in loose), *([] if bodies else [place])])

    def _place(self, figure: Any) -> None:
        """WeasyPrint gives the box in CSS pixels from the top of the page; PDF wants points from its foot."""
        left, top, right, bottom = (value * _POINTS_PER_PIXEL for value in figure["A"]["BBox"])
        height = self._at(figure["Pg"])["MediaBox"][3]
        figure["A"]["BBox"] = self._pydyf.Array((left, height - bottom, right, height - top))

    def _unwrap_figures(self, group: Any, reference: bytes) -> None:
        """A figure stands beside its caption, not in a box of its own."""
        kids = group["K"]
        if not any(self._kind(kid) == "/Caption" for kid in kids):
            return
        group["S"] = "/Div"
        for place, kid in enumerate(kids):
            if self._kind(kid) == "/Div" and [self._kind(inner) for inner in self._at(kid)["K"]] == ["/Figure"]:
                (figure,) = self._at(kid)["K"]
                self._at(figure)["P"] = reference
                kids[place] = figure

    def _kind(self, kid: Any) -> str | None:
        return None if isinstance(kid, int) else self._at(kid).get("S")

    def _sorted_ids(self) -> Any:
        names = self._pydyf.Array()
        for key in sorted(self._ids):
            names.extend((self._pydyf.String(key), self._ids[key]))
        return names

    # ---- pages -----------------------------------------------------------------------------------

    def _make_artifacts(self) -> None:
        """Marked content that is in no element (headers and footers of the page) is no content of the note."""
        for number, reference in enumerate(self._pdf.page_references):
            owners = self._parents[number]
            orphans = {mcid for mcid in range(len(owners)) if (reference, mcid) not in self._in_tree}
            for mcid in orphans:
                owners[mcid] = "null"
            content = self._at(self._at(reference)["Contents"]).stream
            for place in range(len(content) - 2):
                properties = content[place + 1]
                if content[place + 2] == b"BDC" and isinstance(properties, dict) and properties["MCID"] in orphans:
                    content[place : place + 3] = "/Artifact", b"BMC", b""

    def _links(self) -> None:
        for gone in self._doubled:
            del self._parents[self._pdf.objects[gone]["StructParent"]]
        for reference in self._pdf.page_references:
            page = self._at(reference)
            if "Annots" in page:
                kept = [note for note in page["Annots"] if int(note.split()[0]) not in self._doubled]
                page["Annots"] = self._pydyf.Array(kept)
        for item in self._pdf.objects:
            if isinstance(item, dict) and item.get("Subtype") == "/Link":
                target = item["Contents"].string
                item["Contents"] = self._pydyf.String(self._words.get(f"#{target}", target))

    def _no_interpolation(self) -> None:
        """PDF/A forbids to smooth pixels (ISO 19005-3, 6.2.8); WeasyPrint asks for it unless the style does not."""
        for item in self._pdf.objects:
            extra = getattr(item, "extra", {})
            if extra.get("Subtype") == "/Image":
                extra.pop("Interpolate", None)

    # ---- attachments and signature ---------------------------------------------------------------

    def _types_of_attachments(self) -> None:
        seen = []
        for reference in self._pdf.catalog.get("AF", ()):
            if reference not in seen:
                seen.append(reference)  # WeasyPrint names each one twice
        for reference in seen:
            spec = self._at(reference)
            name = spec["UF"].string
            kind = _TYPES.get(name[name.rfind(".") :], "application/octet-stream")
            self._at(spec["EF"]["F"]).extra["Subtype"] = "/" + kind.replace("/", "#2f")
        if seen:
            self._pdf.catalog["AF"] = self._pydyf.Array(seen)

    def _signature_field(self, document: Any, reference: bytes, field_name: str) -> None:
        """An invisible field on page 1, still without a signature, as a form element of the structure."""
        first, number = self._pdf.page_references[0], max(self._parents) + 1
        field = self._pydyf.Dictionary(
            {
                "Type": "/Annot", "Subtype": "/Widget", "FT": "/Sig", "F": _PRINTED | _LOCKED, "P": first,
                "T": self._pydyf.String(SIGNATURE_FIELD), "TU": self._pydyf.String(field_name),
                "Rect": self._pydyf.Array([0, 0, 0, 0]), "StructParent": number,
            }
        )  # fmt: skip
        self._pdf.add_object(field)
        named = self._pydyf.Dictionary({"Type": "/OBJR", "Obj": field.reference, "Pg": first})
        self._pdf.add_object(named)
        form = self._element(S="/Form", K=self._pydyf.Array([named.reference]), Pg=first, P=reference)
        document["K"].append(form.reference)
        self._parents[number] = form.reference
        page = self._at(first)
        page.setdefault("Annots", self._pydyf.Array()).append(field.reference)
        self._pdf.catalog["AcroForm"] = self._pydyf.Dictionary({"Fields": self._pydyf.Array([field.reference])})


def _words_of_links(html: str) -> Mapping[str, str]:
    """Address -> words of the first link to it."""
    found: dict[str, str] = {}
    for address, words in _LINK.findall(html):
        text = " ".join(markup.unescape(re.sub(r"<[^>]*>", "", words)).split())
        if text:
            found.setdefault(markup.unescape(address), text)
    return found


# ---- metadata ------------------------------------------------------------------------------------

_UA_NAMESPACE = "http://www.aiim.org/pdfua/ns/id/"
_UA = f"""<rdf:Description rdf:about="" xmlns:pdfuaid="{_UA_NAMESPACE}"><pdfuaid:part>1</pdfuaid:part></rdf:Description>
<rdf:Description rdf:about="" xmlns:pdfaExtension="http://www.aiim.org/pdfa/ns/extension/" \
xmlns:pdfaSchema="http://www.aiim.org/pdfa/ns/schema#" xmlns:pdfaProperty="http://www.aiim.org/pdfa/ns/property#">\
<pdfaExtension:schemas><rdf:Bag><rdf:li rdf:parseType="Resource">\
<pdfaSchema:schema>PDF/UA identification schema</pdfaSchema:schema>\
<pdfaSchema:namespaceURI>{_UA_NAMESPACE}</pdfaSchema:namespaceURI><pdfaSchema:prefix>pdfuaid</pdfaSchema:prefix>\
<pdfaSchema:property><rdf:Seq><rdf:li rdf:parseType="Resource"><pdfaProperty:name>part</pdfaProperty:name>\
<pdfaProperty:valueType>Integer</pdfaProperty:valueType><pdfaProperty:category>internal</pdfaProperty:category>\
<pdfaProperty:description>Part of ISO 14289 to which the document conforms</pdfaProperty:description>\
</rdf:li></rdf:Seq></pdfaSchema:property></rdf:li></rdf:Bag></pdfaExtension:schemas></rdf:Description>
"""


def name_pdf_ua(pdf: Any) -> None:
    """Say PDF/UA-1 beside PDF/A-3a in the XMP, with the description that PDF/A asks for of a foreign property."""
    content = pdf.objects[int(pdf.catalog["Metadata"].split()[0])].stream
    (packet,) = content
    end = packet.rindex(b"</rdf:RDF>")
    content[:] = [packet[:end] + _UA.encode("utf-8") + packet[end:]]
