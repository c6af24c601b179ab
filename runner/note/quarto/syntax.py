"""Blocks and attributes that Quarto adds to CommonMark: fenced divs, attributes, front matter."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NoReturn

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from mdit_py_plugins.attrs import attrs_plugin
from mdit_py_plugins.front_matter import front_matter_plugin

from runner.errors import InputRefused

QMD_NAME = "decision-note.qmd"
CALLOUTS = ("note", "tip", "important", "warning", "caution")
_FENCE = re.compile(r"(:{3,})[ \t]*(.*?)[ \t]*:*$")
_ZONED_TIME = re.compile(r"\d\d:\d\d\u00a0[A-Z]\w+/[A-Z]\w+\b(?!/)")
_LONGEST_ZONED = 22  # characters: a longer one must be free to break in a narrow box
_CODE_FENCE = re.compile(r"(`{3,}|~{3,})")
_ATTRIBUTE = re.compile(
    r"""\s*(?:\#(?P<id>[A-Za-z][\w-]*)|\.(?P<class>[A-Za-z][\w-]*)
    |(?P<key>[a-z][a-z-]*)=(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s"'{}]+)))""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Attributes:
    """`{#id .class key="value"}` in parts."""

    id: str | None = None
    classes: tuple[str, ...] = ()
    values: dict[str, str] = field(default_factory=dict)


def refuse(what: str, line: int | None, value: object = None) -> NoReturn:
    """Outside the supported syntax. `line` counts from 1 in the filled Markdown."""
    raise InputRefused(
        what, file=QMD_NAME, line=line, value=value, next_step="docs/templates.md lists what templates may contain"
    )


def keep_zone(html: str) -> str:
    """`12:00 Europe/Berlin` in one line: browsers and printers would break it after the slash."""

    def kept(found: re.Match[str]) -> str:
        return f'<span class="keep">{found[0]}</span>' if len(found[0]) <= _LONGEST_ZONED else found[0]

    return _ZONED_TIME.sub(kept, html)


def parse_attributes(text: str, line: int | None) -> Attributes:
    """Content between the braces; anything not understood is refused."""
    identifier: str | None = None
    classes: list[str] = []
    values: dict[str, str] = {}
    position = 0
    while text[position:].strip():
        found = _ATTRIBUTE.match(text, position)
        if found is None:
            refuse("attributes that are not understood", line, text)
        position = found.end()
        if found["id"]:
            identifier = found["id"]
        elif found["class"]:
            classes.append(found["class"])
        else:
            quoted = found["quoted"]
            values[found["key"]] = found["bare"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
    return Attributes(identifier, tuple(classes), values)


def make_parser() -> MarkdownIt:
    """CommonMark with pipe tables, front matter, spans, attributes and fenced divs."""
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "typographer": False})
    parser.enable("table")
    parser.disable("text_join")  # keeps escaped characters apart, so that leftovers can be told from them
    parser.use(front_matter_plugin)
    parser.use(attrs_plugin, spans=True)
    parser.block.ruler.before(
        "fence", "div", _div_rule, {"alt": ["paragraph", "reference", "blockquote", "list", "table"]}
    )
    return parser


def _line(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]]


def _div_rule(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """`::: {.class}` to its own `:::`; inner divs are counted, code blocks skipped."""
    opening = _FENCE.fullmatch(_line(state, start))
    if opening is None:
        return False
    if silent:
        return True
    if not opening.group(2):
        refuse("a closing ::: without its opening", start + 1)
    close = _closing_line(state, start, end)
    text = opening.group(2)
    attributes = (
        parse_attributes(text[1:-1], start + 1)
        if text.startswith("{") and text.endswith("}")
        else parse_attributes("." + text, start + 1)
    )
    token = state.push("div_open", "div", 1)
    token.block, token.map, token.meta = True, [start, close + 1], {"attributes": attributes}
    parent, before = state.parentType, state.lineMax
    state.parentType, state.lineMax = "div", close
    state.md.block.tokenize(state, start + 1, close)
    state.parentType, state.lineMax = parent, before
    state.push("div_close", "div", -1).meta = {"attributes": attributes}
    state.line = close + 1
    return True


def _closing_line(state: StateBlock, start: int, end: int) -> int:
    """Line of the ::: that closes the div opened at `start`."""
    depth, code = 1, ""
    for number in range(start + 1, end):
        line = _line(state, number)
        if code:
            code = "" if line.startswith(code) and not line.strip(code[0]).strip() else code
        elif fence := _CODE_FENCE.match(line):
            code = fence.group(1)
        elif found := _FENCE.fullmatch(line):
            depth += 1 if found.group(2) else -1
            if depth == 0:
                return number
    refuse("a ::: block is never closed", start + 1, _line(state, start))
