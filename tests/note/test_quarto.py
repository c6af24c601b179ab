"""The Markdown of the templates: what is supported is rendered, everything else is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.errors import InputRefused
from runner.note.html import quarto_words
from runner.note.i18n import Catalogue
from runner.note.markdown import escape, visible
from runner.note.quarto.document import Picture, Rendered, render_document
from tests.note.test_case_texts import elements

FRONT = "---\ntitle: T\n---\n\n"
TABLE = "| a | b |\n|:--|--:|\n| 1 | 2 |\n\n"


def render(body: str) -> Rendered:
    def draw(picture: Picture) -> str:
        return f"[{picture.source}|{picture.alternative}]"

    return render_document(FRONT + body, quarto_words(Catalogue("en")), draw)


def test_sections_figures_and_tables_are_numbered_and_referenced() -> None:
    html = render(
        "# One {#sec-one}\n\nSee @fig-a, @tbl-b and @sec-two.\n\n"
        '![cap *x*](f.svg){#fig-a fig-alt="alt \\"q\\""}\n\n'
        f'{TABLE}: caption {{#tbl-b .row-heads tbl-colwidths="[30,70]"}}\n\n# Two {{#sec-two}}\n\n## Sub\n'
    ).html
    assert '<a class="reference" href="#fig-a">Figure 1</a>' in html
    assert 'href="#tbl-b">Table 1</a>' in html and 'href="#sec-two">Section 2</a>' in html
    assert '<h2 id="sec-one"><span class="section-number">1</span> One' in html
    assert '<span class="section-number">2.1</span> Sub' in html
    assert '[f.svg|alt "q"]' in html and "cap <em>x</em>" in html
    assert (
        '<col style="width:30%">' in html
        and '<th scope="row">1</th>' in html
        and '<td class="number" data-label="b">2</td>' in html
    )
    assert '<span class="label">Table 1</span> caption' in html


def test_callouts_and_nested_blocks() -> None:
    html = render(
        '::: {.outer}\n\n::: {.callout-warning title="Mind < this"}\nText\n:::\n\n::: inner\nx\n:::\n:::\n'
    ).html
    assert '<p class="callout-title">Mind &lt; this</p>' in html
    assert html.count("<div") == html.count("</div>") == 4


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("See @fig-none.", "does not exist"),
        ("[x](#sec-none)", "does not exist"),
        ("# A {#sec-a}\n\n# B {#sec-a}\n", "stands twice"),
        ("# A {#fig-a}\n", "must begin with sec-"),
        ("As @smith2020 says", "citations"),
        ("a <b>tag</b>", "raw HTML"),
        ("<div>\n\nx\n\n</div>", "raw HTML"),
        ("::: {.callout-note}\nnever closed\n", "never closed"),
        (":::\n", "without its opening"),
        ("::: {.callout-danger}\nx\n:::\n", "callouts are"),
        ("{{< video x.mp4 >}}", "shortcode"),
        ("```{python}\n1\n```\n", "code cells"),
        ("$x^2$", "mathematics"),
        ("text {.orphan}", "attributes that belong to nothing"),
        (": caption without a table {#tbl-x}", "follows no table"),
        ("| a | b |\n", "outside of a table"),
        ("*not closed", "not closed"),
        ("![cap](f.svg){#fig-a}", "fig-alt"),
        ('![cap](f.svg){#fig-a fig-alt="x" onclick="y"}', "attribute"),
        ('text ![cap](f.svg){#fig-a fig-alt="x"} text', "alone"),
        ("[x](javascript:alert)", "part of no link"),
        ("[x](file:///etc/passwd)", "part of no link"),
        ("H~2~O", "subscript"),
        (TABLE + ': c {#tbl-a tbl-colwidths="wide"}', "list of percentages"),
    ],
)
def test_what_is_not_supported_is_refused_with_its_line(body: str, what: str) -> None:
    with pytest.raises(InputRefused) as refused:
        render(body)
    assert what in str(refused.value)
    assert "docs/templates.md" in str(refused.value)


@pytest.mark.parametrize("front", ["", "---\nother: 1\n---\n", "---\ntitle: [\n---\n", "---\ntitle: T\ncss: x\n---\n"])
def test_front_matter_is_checked(front: str) -> None:
    with pytest.raises(InputRefused, match="front matter"):
        render_document(front + "text\n", quarto_words(Catalogue("en")), lambda _: "")


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=60))
def test_escaped_text_is_shown_literally_wherever_it_stands(text: str) -> None:
    """NO-01 for any text: in a paragraph, at a line's start, in a cell, in a heading, in a span."""
    value = "x" + text + "x"
    for start, end in (("", ""), ("- ", ""), ("# ", ""), ("| a |\n|---|\n| ", " |"), ("[", "]{.code}")):
        html = render(f"{start}{escape(value)}{end}\n").html
        assert visible(value) in elements(html).text.replace("\n", " "), html
    at_start = render(f"{escape(text + 'x')}\n").html
    assert " ".join(visible(text + "x").split()) in " ".join(elements(at_start).text.split())
