"""What must not be left over: every mark that was meant as markup and was not understood is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from markdown_it.token import Token

from runner.note.quarto.syntax import refuse

_SUPPORTED = {
    "inline", "front_matter", "heading_open", "heading_close", "paragraph_open", "paragraph_close", "fence",
    "bullet_list_open", "bullet_list_close", "ordered_list_open", "ordered_list_close", "list_item_open",
    "list_item_close", "blockquote_open", "blockquote_close", "table_open", "table_close", "thead_open", "thead_close",
    "tbody_open", "tbody_close", "tr_open", "tr_close", "th_open", "th_close", "td_open", "td_close", "div_open",
    "div_close", "hr",
    "text", "text_special", "softbreak", "hardbreak", "code_inline", "em_open", "em_close", "strong_open",
    "strong_close", "link_open", "link_close", "image", "span_open", "span_close",
}  # fmt: skip
_INLINE_ATTRIBUTES = {
    "image": {"src", "alt", "id", "fig-alt"},
    "span_open": {"class", "lang"},
    "link_open": {"href"},
    "code_inline": set(),
    "ordered_list_open": {"start"},
    "th_open": {"style"},
    "td_open": {"style"},
}
_LEFTOVERS = (
    (re.compile(r"\{\{<.*"), "a shortcode that is not supported"),
    (re.compile(r"<[A-Za-z/!?][^>]*>?"), "raw HTML is not supported"),
    (re.compile(r"[{}].*"), "attributes that belong to nothing"),
    (re.compile(r":::.*"), "a ::: in the middle of a text"),
    (re.compile(r"\$.*"), "mathematics is not supported; write \\$ for the sign"),
    (re.compile(r"\|.*"), "a | outside of a table: the table before it is not well formed"),
    (re.compile(r"[\[\]].*"), "a [ or ] that is part of no link, span or picture"),
    (re.compile(r"[*`].*"), "emphasis or code that is not closed"),
    (re.compile(r"(?<!\w)_|_(?!\w)"), "emphasis that is not closed"),
    (re.compile(r"[~^]"), "subscript, superscript and strikethrough are not supported"),
    (re.compile(r"\\."), "a backslash before a letter"),
)
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_REFERENCE = re.compile(r"@((?:fig|tbl|sec)-[A-Za-z0-9-]*[A-Za-z0-9])")


def check_tokens(tokens: Sequence[Token]) -> None:
    """Refuse unsupported elements, unknown attributes and leftovers, with their line."""
    in_cell = False
    for token, line in walk(tokens):
        in_cell = token.type in ("th_open", "td_open") or (in_cell and token.type not in ("th_close", "td_close"))
        if token.type not in _SUPPORTED:
            refuse(f"{token.type.replace('_', ' ')} is not supported", line)
        if token.meta.get("insecure_attrs"):
            refuse("attributes that are not allowed", line, ", ".join(token.meta["insecure_attrs"]))
        unknown = set(token.attrs) - _INLINE_ATTRIBUTES.get(token.type, set())
        if unknown:
            refuse(f"unknown attribute of {token.type.removesuffix('_open')}", line, ", ".join(sorted(unknown)))
        language = token.attrs.get("lang") if token.type == "span_open" else None
        if language is not None and not _LANGUAGE.fullmatch(str(language)):
            refuse("lang is a language tag such as de or pt-BR", line, str(language))
        if token.type == "fence" and token.info.strip() not in ("", "bash", "text", "json", "toml"):
            refuse("code cells and this code language are not supported", line, token.info.strip())
        if token.type == "text":
            check_text(token.content, line, in_cell=in_cell)


def check_text(text: str, line: int | None, *, in_cell: bool) -> None:
    """Refuse marks without meaning; references are taken out first. In a cell a | was escaped before."""
    without = _REFERENCE.sub("", text)
    if "@" in without:
        refuse("an @ that is no reference to fig-, tbl- or sec-; citations are not supported", line, text)
    for pattern, what in _LEFTOVERS:
        found = pattern.search(without.replace("|", "") if in_cell else without)
        if found:
            refuse(what, line, found.group())


def split_references(text: str) -> Iterator[tuple[bool, str]]:
    """Parts of a text: (is a reference, label or plain text)."""
    for index, part in enumerate(_REFERENCE.split(text)):
        if part or index % 2:
            yield bool(index % 2), part


def walk(tokens: Sequence[Token], line: int | None = None) -> Iterator[tuple[Token, int | None]]:
    """Every token with the line (from 1) of its block, children included."""
    for token in tokens:
        here = token.map[0] + 1 if token.map else line
        yield token, here
        if token.children:
            yield from walk(token.children, here)
