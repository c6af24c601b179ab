"""From filled Markdown to numbered, cross-referenced HTML. One parse, then three passes over tokens.

1. attach: heading ids, table captions and figures get their attributes;
2. number: sections, figures and tables are counted, labels collected;
3. render: HTML with references resolved. An unknown or doubled label is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from html import escape as html_escape

import yaml
from markdown_it.token import Token

from runner.note.quarto.check import check_tokens, split_references, walk
from runner.note.quarto.syntax import CALLOUTS, Attributes, keep_zone, make_parser, parse_attributes, refuse

CONTENTS_ANCHOR = "contents"
_TRAILING = re.compile(r"\s*\{([^{}]*)\}\s*$")
_META = {"title", "subtitle", "lang", "date", "number-sections", "note-id", "note-mark", "note-watermark"}


@dataclass(frozen=True)
class Words:
    """Words that the renderer adds, in the language of the note."""

    figure: str
    table: str
    section: str
    contents: str
    callouts: dict[str, str]


@dataclass(frozen=True)
class Picture:
    """A figure of the document: where it comes from and what it says to those who cannot see it."""

    label: str
    source: str
    alternative: str


@dataclass(frozen=True)
class Heading:
    """An entry of the table of contents."""

    level: int
    label: str
    number: str
    text: str
    classes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rendered:
    """Front matter, HTML of the body, headings in order."""

    meta: dict[str, str]
    html: str
    headings: tuple[Heading, ...]


def render_document(text: str, words: Words, draw: Callable[[Picture], str]) -> Rendered:
    """HTML of the document; `draw` gives the markup of a picture (inline SVG, or an image element)."""
    tokens = make_parser().parse(text)
    _attach(tokens)
    check_tokens(tokens)
    labels, headings = _number(tokens, words)
    html = _Renderer(words, labels, headings, draw).render(tokens)
    return Rendered(_front_matter(tokens), html, headings)


def plain_text(token: Token) -> str:
    """Text of an inline token without its markup."""
    parts = (child.content if child.type != "softbreak" else " " for child in token.children or [])
    return "".join(parts)


def _front_matter(tokens: list[Token]) -> dict[str, str]:
    if not tokens or tokens[0].type != "front_matter":
        refuse("the front matter (--- at the top) is missing", 1)
    try:
        found = yaml.safe_load(tokens[0].content)
    except yaml.YAMLError as error:
        refuse(f"the front matter is not valid YAML: {error}", 1)
    if not isinstance(found, dict) or "title" not in found or set(found) - _META:
        refuse(f"the front matter needs a title, and may hold {', '.join(sorted(_META))}", 1)
    return {key: str(value) for key, value in found.items()}


# ---- pass 1: attributes ------------------------------------------------------------------------------


def _attach(tokens: list[Token]) -> None:
    for index, token in enumerate(tokens):
        if token.type == "heading_open":
            token.meta["attributes"] = _take_attributes(tokens[index + 1])
        elif token.type == "inline" and token.content.startswith(": "):
            _attach_caption(tokens, index)


def _take_attributes(inline: Token) -> Attributes:
    """Cut `{#id ...}` off the end of an inline token. Escaped braces are no attributes."""
    children = inline.children or []
    if not children or children[-1].type != "text":
        return Attributes()
    found = _TRAILING.search(children[-1].content)
    if found is None:
        return Attributes()
    children[-1].content = children[-1].content[: found.start()]
    return parse_attributes(found.group(1), inline.map[0] + 1 if inline.map else None)


def _attach_caption(tokens: list[Token], index: int) -> None:
    """`: caption {#tbl-x}` belongs to the table right before it."""
    inline = tokens[index]
    line = inline.map[0] + 1 if inline.map else None
    if index < 2 or tokens[index - 2].type != "table_close":
        refuse("a caption (: text) that follows no table", line, inline.content)
    attributes = _take_attributes(inline)
    inline.children = [child for child in inline.children or [] if child.content or child.nesting]
    first = inline.children[0]
    first.content = first.content.removeprefix(":").lstrip()
    start = max(number for number in range(index) if tokens[number].type == "table_open")
    tokens[start].meta.update(attributes=attributes, caption=inline)
    for number in (index - 1, index + 1):
        tokens[number].hidden = True
    inline.meta["moved"] = True


# ---- pass 2: numbers ---------------------------------------------------------------------------------


def _number(tokens: list[Token], words: Words) -> tuple[dict[str, str], tuple[Heading, ...]]:
    """Text of every label (`Figure 2`), and the headings."""
    labels: dict[str, str] = {}
    headings: list[Heading] = []
    counts = {"fig": 0, "tbl": 0}
    sections = [0] * 6

    def add(label: str, kind: str, text: str, line: int | None) -> None:
        if not label.startswith(kind + "-"):
            refuse(f"the label must begin with {kind}-", line, label)
        if label in labels:
            refuse("a label stands twice", line, label)
        labels[label] = text

    in_order = list(walk(tokens))
    for position, (token, line) in enumerate(in_order):
        attributes: Attributes = token.meta.get("attributes", Attributes())
        if token.type == "heading_open":
            heading = _heading(token, plain_text(in_order[position + 1][0]), attributes, sections, len(headings))
            headings.append(heading)
            if attributes.id:
                add(attributes.id, "sec", f"{words.section} {heading.number or heading.text}".strip(), line)
        elif token.type == "table_open" and attributes.id:
            counts["tbl"] += 1
            add(attributes.id, "tbl", f"{words.table} {counts['tbl']}", line)
        elif token.type == "image":
            counts["fig"] += 1
            add(str(token.attrs.get("id", "")), "fig", f"{words.figure} {counts['fig']}", line)
    return labels, tuple(headings)


def _heading(token: Token, text: str, attributes: Attributes, sections: list[int], count: int) -> Heading:
    level = int(token.tag[1])
    number = ""
    if "unnumbered" not in attributes.classes:
        sections[level - 1] += 1
        sections[level:] = [0] * (len(sections) - level)
        number = ".".join(str(part) for part in sections[:level])
    classes = tuple(name for name in attributes.classes if name != "unnumbered")
    heading = Heading(level, attributes.id or f"part-{count + 1}", number, text, classes)
    token.meta["heading"] = heading
    return heading


# ---- pass 3: HTML ------------------------------------------------------------------------------------


class _Renderer:
    """Tokens to HTML. Everything is escaped here; nothing of the input is markup any more."""

    def __init__(
        self, words: Words, labels: dict[str, str], headings: tuple[Heading, ...], draw: Callable[[Picture], str]
    ) -> None:
        self.words, self.labels, self.headings, self.draw = words, labels, headings, draw
        self.row_heads, self.column, self.heading = False, 0, ""
        self.heads: list[str] = []

    def render(self, tokens: list[Token]) -> str:
        out: list[str] = []
        index = 0
        while index < len(tokens):
            token = tokens[index]
            if self._is_figure(tokens, index):
                out.append(self._figure((tokens[index + 1].children or [])[0], tokens[index + 1]))
                index += 3
                continue
            out.append(self._token(token, tokens, index))
            index += 1
        return "".join(out)

    def inline(self, token: Token) -> str:
        children = token.children or []
        return "".join(self._inline(child, token) for child in children)

    @staticmethod
    def _is_figure(tokens: list[Token], index: int) -> bool:
        if tokens[index].type != "paragraph_open":
            return False
        children = tokens[index + 1].children or []
        return len(children) == 1 and children[0].type == "image"

    def _token(self, token: Token, tokens: list[Token], index: int) -> str:
        if token.hidden or token.meta.get("moved") or token.type == "front_matter":
            return ""
        match token.type:
            case "inline":
                return self.inline(token)
            case "heading_open":
                return self._heading(token.meta["heading"])
            case "heading_close":
                return f"</{self.heading}>\n"
            case "div_open":
                return self._open_div(token)
            case "div_close":
                return "" if _is_contents(token) else "</div></div>\n" if _callout(token) else "</div>\n"
            case "table_open":
                return self._open_table(token)
            case "table_close":
                return "</table></div>\n"
            case "tr_open":
                self.column = 0
                return "<tr>"
            case "th_open" | "td_open":
                return self._open_cell(token, tokens[index + 1])
            case "td_close":
                return "</th>" if self.row_heads and self.column == 1 else "</td>"
            case "fence":
                return f"<pre><code>{html_escape(token.content.rstrip(chr(10)))}</code></pre>\n"
            case "hr":
                return "<hr>\n"
            case _:
                return self._plain_tag(token)

    @staticmethod
    def _plain_tag(token: Token) -> str:
        if token.nesting == 1:
            start = f' start="{token.attrs["start"]}"' if "start" in token.attrs else ""
            return f"<{token.tag}{start}>"
        return f"</{token.tag}>\n"

    def _heading(self, heading: Heading) -> str:
        """`# text {.headline}` is the document's own heading (h1); sections begin with h2."""
        self.heading = "h1" if "headline" in heading.classes else f"h{heading.level + 1}"
        number = f'<span class="section-number">{heading.number}</span> ' if heading.number else ""
        classes = f' class="{" ".join(heading.classes)}"' if heading.classes else ""
        return f'<{self.heading} id="{heading.label}"{classes}>{number}'

    def _open_div(self, token: Token) -> str:
        attributes: Attributes = token.meta["attributes"]
        kind = _callout(token)
        if _is_contents(token):
            return self._contents()
        if kind is None:
            if attributes.values:
                refuse("unknown attribute of a block", _line(token), ", ".join(attributes.values))
            label = f' id="{attributes.id}"' if attributes.id else ""
            return f'<div{label} class="{" ".join(attributes.classes)}">\n'
        if kind not in CALLOUTS or set(attributes.values) - {"title"}:
            refuse(f"callouts are {', '.join(CALLOUTS)}, with a title at most", _line(token), kind)
        title = html_escape(attributes.values.get("title", self.words.callouts[kind]))
        return (
            f'<div class="callout callout-{kind}" role="note"><p class="callout-title">{title}</p>'
            f'<div class="callout-body">\n'
        )

    def _contents(self) -> str:
        """`::: {.contents}` is filled with the numbered sections of the first level."""
        entries = "".join(
            f'<li><a href="#{heading.label}"><span class="section-number">{heading.number}</span> '
            f"<span>{html_escape(heading.text)}</span></a></li>"
            for heading in self.headings
            if heading.level == 1 and heading.number
        )
        label = html_escape(self.words.contents)
        return f'<nav class="contents" id="{CONTENTS_ANCHOR}" aria-label="{label}"><ul>{entries}</ul></nav>\n'

    def _open_table(self, token: Token) -> str:
        attributes: Attributes = token.meta.get("attributes", Attributes())
        caption: Token | None = token.meta.get("caption")
        self.row_heads, self.heads = "row-heads" in attributes.classes, []
        widths = _widths(attributes, _line(token))
        classes = f' class="{" ".join(attributes.classes)}"' if attributes.classes else ""
        label = f' id="{attributes.id}"' if attributes.id else ""
        region = ""
        shown = ""
        if caption is not None:
            number = f'<span class="label">{self.labels[attributes.id]}</span> ' if attributes.id else ""
            shown = f'<caption><span class="caption">{number}{self.inline(caption)}</span></caption>'
            region = f' role="region" tabindex="0" aria-label="{html_escape(plain_text(caption))}"'
        columns = "".join(f'<col style="width:{width}%">' for width in widths)
        group = f"<colgroup>{columns}</colgroup>" if columns else ""
        return f'<div class="scroll"{region}><table{label}{classes}>{shown}{group}'

    def _open_cell(self, token: Token, content: Token) -> str:
        self.column += 1
        style = str(token.attrs.get("style", ""))
        align = ' class="number"' if style.endswith("right") else ' class="middle"' if style.endswith("center") else ""
        if token.type == "th_open":
            self.heads.append(plain_text(content))
            return f'<th scope="col"{align}>'
        # On phones a row is a card: every value stands beside the head of its column.
        label = f' data-label="{html_escape(self.heads[self.column - 1])}"'
        return f'<th scope="row"{align}>' if self.row_heads and self.column == 1 else f"<td{align}{label}>"

    def _figure(self, image: Token, inline: Token) -> str:
        label = str(image.attrs["id"])
        alternative = str(image.attrs.get("fig-alt", "")).strip()
        if not alternative:
            refuse("a figure needs fig-alt: the words for those who cannot see it", _line(inline), label)
        alternative = re.sub(r"\\(.)", r"\1", alternative)
        caption = "".join(self._inline(child, inline) for child in image.children or [])
        picture = self.draw(Picture(label, str(image.attrs["src"]), alternative))
        # A wide drawing scrolls on a narrow screen: its frame must be reachable with the keyboard.
        frame = f'<div class="picture" role="group" tabindex="0" aria-label="{self.labels[label]}">{picture}</div>'
        return (
            f'<figure id="{label}">{frame}<figcaption><span class="label">{self.labels[label]}</span> '
            f"{caption}</figcaption></figure>\n"
        )

    def _inline(self, token: Token, parent: Token) -> str:
        match token.type:
            case "text":
                return "".join(
                    self._reference(part, parent) if is_label else keep_zone(html_escape(part, quote=False))
                    for is_label, part in split_references(token.content)
                )
            case "text_special":
                return html_escape(token.content, quote=False)
            case "softbreak":
                return "\n"
            case "hardbreak":
                return "<br>\n"
            case "code_inline":
                return f"<code>{html_escape(token.content, quote=False)}</code>"
            case "span_open":
                found = ((name, html_escape(str(value))) for name, value in sorted(token.attrs.items()))
                return "<span" + "".join(f' {name}="{value}"' for name, value in found) + ">"
            case "span_close":
                return "</span>"
            case "link_open":
                return self._link(str(token.attrs["href"]), parent)
            case "image":
                refuse("a picture must stand alone in its paragraph", _line(parent))
            case _:
                return f"<{token.tag}>" if token.nesting == 1 else f"</{token.tag}>"

    def _reference(self, label: str, parent: Token) -> str:
        if label not in self.labels:
            refuse("a reference to a label that does not exist", _line(parent), "@" + label)
        return f'<a class="reference" href="#{label}">{html_escape(self.labels[label])}</a>'

    def _link(self, target: str, parent: Token) -> str:
        if target.startswith("#") and target[1:] not in self.labels:
            refuse("a link to a label that does not exist", _line(parent), target)
        if not target.startswith(("#", "https://", "http://", "mailto:")):
            refuse("links go to a label, a web address or a mail address", _line(parent), target)
        return f'<a href="{html_escape(target)}">'


def _callout(token: Token) -> str | None:
    classes = token.meta["attributes"].classes
    return next((name.removeprefix("callout-") for name in classes if name.startswith("callout-")), None)


def _is_contents(token: Token) -> bool:
    return "contents" in token.meta["attributes"].classes


def _widths(attributes: Attributes, line: int | None) -> list[str]:
    """`tbl-colwidths="[20,80]"`, in percent."""
    if set(attributes.values) - {"tbl-colwidths"}:
        refuse("unknown attribute of a table", line, ", ".join(attributes.values))
    text = attributes.values.get("tbl-colwidths", "[]")
    if not re.fullmatch(r"\[(\d{1,3}(\s*,\s*\d{1,3})*)?\]", text):
        refuse("tbl-colwidths is a list of percentages such as [20,80]", line, text)
    return re.findall(r"\d+", text)


def _line(token: Token) -> int | None:
    return token.map[0] + 1 if token.map else None
