"""WCAG 3.1.2 (AA, language of parts) and PDF/UA-1, 7.2: the campaign's own texts say in which language they are."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pikepdf
import pytest

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.note.build import NoteFiles, build_note, note_markdown
from runner.note.markdown import escape
from runner.note.pdf import render_pdf
from runner.note.quarto.document import Words, render_document
from runner.protocol.judgement import protocol_content
from runner.protocol.read import read_plan, read_protocol
from runner.units import parse_utc
from tests.note.sample import OWN_MACHINE, make_campaign
from tests.note.test_pdf import tags
from tests.note.test_reader import READER, text, walk

WORDS = Words("Figure", "Table", "Section", "Contents", {})


def state_language(campaign: Campaign, tag: str) -> None:
    said = campaign.protocol.read_text(encoding="utf-8")
    contact = '[contact]\nissued_by = "Labor *A*"\n\n[[corpus]]'
    said = said.replace("[[corpus]]", contact, 1).replace("[question]\n", f'[question]\nlanguage = "{tag}"\n', 1)
    campaign.protocol.write_text(said, encoding="utf-8")


@pytest.fixture(scope="module")
def german(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """The sample with texts that its protocol calls German; the note is English."""
    made = make_campaign(tmp_path_factory.mktemp("parts") / "campaign", OWN_MACHINE)
    state_language(made, "de")
    return made


@pytest.fixture(scope="module")
def english_note(german: Campaign) -> NoteFiles:
    return build_note(german)


def own_texts(campaign: Campaign) -> list[str]:
    """What the note quotes of protocol and plan."""
    protocol, plan = read_protocol(campaign.protocol), read_plan(campaign.plan)
    return [protocol.question.text, protocol.rules.exclusion, "“Labor *A*”", *(task.title for task in plan.task)]


def test_every_text_of_the_campaign_has_its_language_in_markdown_and_html(
    german: Campaign, english_note: NoteFiles
) -> None:
    """WCAG 3.1.2: question, exclusion rule, contact and titles of tasks; nothing of ours."""
    markdown, page = english_note.qmd.read_text(encoding="utf-8"), english_note.html.read_text(encoding="utf-8")
    for own in own_texts(german):
        assert f"[{escape(own)}]{{lang=de}}" in markdown, own
    marked = set(re.findall(r'<span lang="de">(.*?)</span>', page))
    assert marked == {own.replace("&", "&amp;") for own in own_texts(german)}
    assert '<html lang="en">' in page


def test_an_independent_reader_sees_the_same_spans(german: Campaign, english_note: NoteFiles) -> None:
    """Issue 5, 2: pandoc finds the attribute, and the text without it."""
    import pypandoc

    tree: Any = json.loads(pypandoc.convert_text(english_note.qmd.read_text(encoding="utf-8"), "json", READER))
    spans = [node for node in walk(tree["blocks"]) if node["t"] == "Span" and ["lang", "de"] in node["c"][0][2]]
    # Pandoc writes typographic quotation marks and apostrophes as nodes of their own.
    plain = re.compile(r"\W")
    assert {plain.sub("", text(node["c"][1])) for node in spans} == {plain.sub("", own) for own in own_texts(german)}


def test_the_pdf_has_the_language_at_the_elements(german: Campaign, english_note: NoteFiles) -> None:
    """PDF/UA-1, 7.2: the document is English, each part of a German text a Span with /Lang de, and nothing else."""
    with pikepdf.open(english_note.pdf) as pdf:
        assert str(pdf.Root.Lang) == "en"
        elements = [element for element in tags(pdf.Root.StructTreeRoot.K, []) if "/Lang" in element]
        assert {(str(element.S), str(element.Lang)) for element in elements} == {("/Span", "de")}
        assert len(elements) >= len(own_texts(german))


@pytest.mark.parametrize("tag", ["de", "de-AT", "zh-Hant-TW", "sl-rozaj", "es-419"])
def test_the_language_of_the_texts_is_no_frozen_decision(tmp_path: Path, tag: str) -> None:
    """M3: a statement for screen readers changes nothing that is judged; absent it is in no content at all."""
    made = make_campaign(tmp_path, OWN_MACHINE)
    before = read_protocol(made.protocol)
    state_language(made, tag)
    after = read_protocol(made.protocol)
    assert after.question.language == tag and "language" not in before.as_json()["question"]
    assert protocol_content(after) == protocol_content(before)


@pytest.mark.parametrize("tag", ["deutsch", "DE", "de_AT", "", "de-", "x", 'd\\"e', "de}", "de-at", "german language"])
def test_what_is_no_language_tag_is_refused_with_its_place(tmp_path: Path, tag: str) -> None:
    made = make_campaign(tmp_path, OWN_MACHINE)
    state_language(made, tag)
    with pytest.raises(InputRefused, match=r"question\.language must be a language tag such as de, pt-BR") as refused:
        read_protocol(made.protocol)
    assert refused.value.line


def test_a_note_in_that_language_and_one_without_a_statement_mark_nothing(german: Campaign, campaign: Campaign) -> None:
    assert "{lang=" not in note_markdown(german, "de")
    assert "{lang=" not in note_markdown(campaign, "fr"), "not stated is not guessed"


def test_a_span_of_a_template_may_have_a_language_and_a_class() -> None:
    """docs/templates.md: `[text]{.class lang=de}`; what is no tag is refused."""
    page = "---\ntitle: x\n---\n\n[ja]{.code lang=de} [oui]{lang=fr-CA}\n"
    found = render_document(page, WORDS, lambda _: "").html
    assert '<span class="code" lang="de">ja</span> <span lang="fr-CA">oui</span>' in found
    for bad in ("d", '"de fr"', "1", "de_AT"):
        with pytest.raises(InputRefused, match="lang is a language tag"):
            render_document(page.replace("lang=de", f"lang={bad}"), WORDS, lambda _: "")


def test_text_over_two_lines_keeps_its_language_in_every_piece() -> None:
    """A span that is broken over lines is several elements: each says it, and what follows does not."""
    page = (
        '<html lang="en"><title>x</title><body><p>before <span lang="de">' + "Wort " * 60 + "</span> after</p></body>"
    )
    data = render_pdf(page, "", {}, [], dated=parse_utc("2026-10-05T08:00:00Z"), identifier=b"x")

    with pikepdf.open(io.BytesIO(data)) as pdf:
        spans = [element for element in tags(pdf.Root.StructTreeRoot.K, []) if "/Lang" in element]
        assert len(spans) >= 2 and {str(element.Lang) for element in spans} == {"de"}
