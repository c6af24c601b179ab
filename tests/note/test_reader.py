"""An independent reader (pandoc) finds in `decision-note.qmd` what we rendered from it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from runner.note.build import NoteFiles
from tests.note.test_case_texts import elements, squeezed

READER = "markdown-smart-tex_math_dollars-raw_html-raw_tex-implicit_figures-citations+bracketed_spans+fenced_divs"


@pytest.fixture(scope="module")
def tree(note: NoteFiles) -> dict[str, Any]:
    import pypandoc

    found: dict[str, Any] = json.loads(pypandoc.convert_text(note.qmd.read_text(encoding="utf-8"), "json", READER))
    return found


def walk(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if "t" in node:
            yield node
        for value in node.values():
            yield from walk(value)
    elif isinstance(node, list):
        for value in node:
            yield from walk(value)


def text(node: Any) -> str:
    parts = []
    for item in walk(node):
        if item["t"] in ("Str", "Code"):
            parts.append(item["c"] if item["t"] == "Str" else item["c"][1])
        elif item["t"] in ("Space", "SoftBreak"):
            parts.append(" ")
    return "".join(parts)


def test_the_same_headings(tree: dict[str, Any], note: NoteFiles) -> None:
    theirs = [text(item["c"][2]) for item in walk(tree["blocks"]) if item["t"] == "Header"]
    html = note.html.read_text(encoding="utf-8")
    ours = [re.sub(r"<[^>]+>", "", re.sub(r'<span class="section-number">.*?</span>', "", found))
            for found in re.findall(r"<h[1-4][^>]*>(.*?)</h[1-4]>", html, re.DOTALL)]  # fmt: skip
    assert [squeezed(item) for item in theirs] == [squeezed(item) for item in ours]
    assert len(theirs) > 15


def test_the_same_tables_with_the_same_cells(tree: dict[str, Any], note: NoteFiles) -> None:
    theirs = [item["c"] for item in walk(tree["blocks"]) if item["t"] == "Table"]
    html = note.html.read_text(encoding="utf-8")
    ours = re.findall(r"<table.*?</table>", html, re.DOTALL)
    assert len(theirs) == len(ours) > 10
    for their, our in zip(theirs, ours, strict=True):
        cells = [squeezed(elements(cell).text) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", our, re.DOTALL)]
        head, bodies = their[3], their[4]
        rows = [*head[1], *(row for body in bodies for row in body[3])]
        assert [squeezed(text(cell[4])) for row in rows for cell in row[1]] == cells


def test_the_same_callouts_figures_and_code(tree: dict[str, Any], note: NoteFiles) -> None:
    html = note.html.read_text(encoding="utf-8")
    nodes = list(walk(tree["blocks"]))
    callouts = [item for item in nodes if item["t"] == "Div" and any("callout" in c for c in item["c"][0][1])]
    figures = [item for item in nodes if item["t"] == "Image"]
    blocks = [item["c"][1] for item in nodes if item["t"] == "CodeBlock"]
    assert len(callouts) == html.count('class="callout ') > 0
    assert len(figures) == html.count("<figure ") > 2
    assert all(figure["c"][0][0].startswith("fig-") for figure in figures)
    assert blocks == [elements(found).text for found in re.findall(r"<pre><code>(.*?)</code></pre>", html, re.DOTALL)]


def test_nothing_of_the_markup_is_left_as_text(tree: dict[str, Any]) -> None:
    whole = text(tree["blocks"])
    assert ":::" not in whole and "{#" not in whole and "{." not in whole and "{{" not in whole
