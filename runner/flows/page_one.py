"""Page 1 of the PDF: what it must say by the evidence, and whether its text is that of the note's own page 1."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from runner.decide.model import Balance, Decision
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.flows.verification import Step
from runner.note.build import OWN_TEMPLATES, templates_of
from runner.note.evidence import Evidence
from runner.note.format import Formatter
from runner.note.html import parse_document
from runner.note.i18n import SOURCE_LANGUAGE, load_catalogue
from runner.note.parts.page_one import page_one
from runner.note.words import Speaker, reasons_in
from runner.pricing.tariffs import load_catalogue as load_tariffs
from runner.protocol.read import read_plan, read_protocol
from runner.protocol.schema import Lock
from runner.seal.pdftext import page_texts

NAME = "page 1 of the PDF"
COMMAND = "pdftotext -layout -l 1 note/decision-note.pdf -   (read it beside note/decision-note.qmd)"
_PAGES = 2  # a first page with long texts runs over to the second
_SHOWN = 120
_LANGUAGE = re.compile(rb"^lang: *\"?([a-z]{2,3})\"? *$", re.MULTILINE)
_NUMBER = re.compile(r"\d+/\d+")
# What is said together: a fact with its label, a row of a table. Cells alone could change places unseen.
_BLOCKS = frozenset({"p", "li", "tr", "h1", "h2", "h3", "caption", "figcaption", "pre", "div", "ul", "table"})
_ALIKE = frozenset("-\u2010\u2011\u2022")  # hyphens where a line was broken, bullets


def note_language(text: bytes) -> str:
    """Language that the note's Markdown names. Raises: InputRefused where it names none."""
    language = _LANGUAGE.search(text)
    if language is None:
        raise InputRefused(
            "the note does not say its language",
            file="note/decision-note.qmd",
            next_step="runner report writes the note again",
        )
    return language.group(1).decode("ascii")


def decided_words(campaign: Campaign, balance: Balance, decision: Decision) -> tuple[str, ...]:
    """Headline and key facts of a decision that was made again, in the note's language where we speak it.

    By the templates of this installation: those in the campaign are their maker's.
    """
    try:
        language = note_language((campaign.note / "decision-note.qmd").read_bytes())
        catalogue = load_catalogue(OWN_TEMPLATES, language)
        fmt = Formatter(language)
    except (OSError, InputRefused):
        catalogue, fmt = load_catalogue(OWN_TEMPLATES, SOURCE_LANGUAGE), Formatter(SOURCE_LANGUAGE)
    evidence = Evidence(
        campaign, read_protocol(campaign.protocol), read_plan(campaign.plan), Lock.load(campaign.lock),
        load_tariffs(campaign.tariffs), attempts=(), verdicts={}, manifests={}, balance=balance, decision=decision,
    )  # fmt: skip
    known = {reason.text: reason for reason in reasons_in((balance, decision))}
    speaker = Speaker(catalogue, fmt, known, evidence.plan.zone)
    page = page_one(evidence, speaker)
    facts = (
        speaker.labelled(fact["label"], fact["value"] + (f" ({fact['below']})" if fact["below"] else ""))
        for fact in page["facts"]
    )
    return (page["headline"], *facts)


def check_page_one(campaign: Campaign, pdf: Path | None = None, command: str = COMMAND) -> Step:
    """The text of page 1 of the PDF is that of page 1 in `decision-note.qmd`, which "text of the note" compared.

    `pdf`: the file, where it does not lie in the note folder.
    """
    markdown = (campaign.note / "decision-note.qmd").read_bytes().decode("utf-8")
    catalogue = load_catalogue(templates_of(campaign), note_language(markdown.encode("utf-8")))
    document = parse_document(markdown, catalogue)
    blocks = page_blocks(document.html)
    if not blocks:
        return Step(
            NAME, "not checked", "the note's own templates give it no first page of the usual form: compare it by eye",
            command=command,
        )  # fmt: skip
    texts = page_texts((pdf or campaign.note / "decision-note.pdf").read_bytes(), _PAGES)
    furniture = [str(document.meta.get(name, "")) for name in ("note-mark", "note-id", "title")]
    own_style = templates_of(campaign) != OWN_TEMPLATES and _changed_style(campaign)
    findings = differences(blocks, texts, furniture, more=not own_style)
    if findings:
        return Step(NAME, "failed", "its text is not that of note/decision-note.qmd", findings, command)
    finding = "its text is that of page 1 in note/decision-note.qmd; pictures and overlays were not looked at"
    return Step(NAME, "passed", finding, command=command, says=(blocks[0],))


def settled(steps: Iterable[Step]) -> tuple[Step, ...]:
    """The same steps; that of page 1 says what it rests on: a text that is not proved, or a maker's own words."""
    done = tuple(steps)
    found = {step.name: step for step in done}
    page = found.get(NAME)
    if page is None or page.status != "passed":
        return done
    must = tuple(" ".join(text.split()) for text in found["decision"].says)  # as `page_blocks` joins them
    if found["text of the note"].status != "passed":
        finding = "its text is that of page 1 in note/decision-note.qmd, which the evidence does not prove here"
        page = replace(page, status="not checked", finding=finding)
    elif must and page.says != must[:1]:
        page = replace(page, status="not checked", finding=f"page 1 does not say what was decided: “{must[0]}”")
    return tuple(page if step.name == NAME else step for step in done)


def _changed_style(campaign: Campaign) -> bool:
    """Styles of the maker's own may print more on a page than the text has."""
    names = ("style.css", "page.html")
    return any((campaign.templates / name).read_bytes() != (OWN_TEMPLATES / name).read_bytes() for name in names)


def differences(
    blocks: Sequence[str], texts: Sequence[str], furniture: Sequence[str], *, more: bool = True
) -> tuple[str, ...]:
    """What the text of the first page lacks of these blocks, and (with `more`) what it says beside them.

    `texts`: of page 1 and the next, where a long first page ends. `furniture`: what stands in its margins.
    """
    left, after = (_plain(text) for text in (*texts, "", "")[:2])
    findings = []
    for block in sorted(blocks, key=len, reverse=True):
        wanted = _plain(block)
        if not wanted:
            continue
        if wanted in left:
            left = left.replace(wanted, "\0", 1)
        elif wanted not in after or block == blocks[0]:
            findings.append(f"page 1 does not say “{_short(block)}”")
    for text in furniture:
        left = left.replace(_plain(text), "\0", 1) if _plain(text) else left
    beside = _NUMBER.sub("\0", left, count=1).replace("\0", " ").split()
    if more and beside:
        findings.append(f"page 1 says more: “{_short(' '.join(beside))}”")
    return tuple(findings)


def _plain(text: str) -> str:
    """Letters, digits and signs alone: lines are broken and blanks set otherwise on paper."""
    folded = unicodedata.normalize("NFKC", text)
    return "".join(one for one in folded if unicodedata.category(one)[0] not in "ZC" and one not in _ALIKE)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def page_blocks(html: str) -> tuple[str, ...]:
    """Texts of the headline, facts, rows and items of the note's first page, the headline first; none without one."""
    reader = _Blocks()
    reader.feed(html)
    found = [" ".join(text.split()) for text in reader.found]
    headline = " ".join(reader.headline.split())
    return tuple(sorted((text for text in found if text), key=lambda text: text != headline))


class _Blocks(HTMLParser):
    """Collects the texts inside of `<div class="page-one">`."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self.headline = ""
        self._depth = 0
        self._text: list[str] = []
        self._in_headline = False

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        classes = (dict(attrs).get("class") or "").split()
        if tag == "div" and (self._depth or "page-one" in classes):
            self._depth += 1
        if self._depth and tag in _BLOCKS:
            self._end()
        self._in_headline = self._in_headline or (tag == "h1" and "headline" in classes)

    def handle_endtag(self, tag: str) -> None:
        if not self._depth:
            return
        if tag in ("td", "th"):
            self._text.append(" ")
        if tag in _BLOCKS:
            if self._in_headline and tag == "h1":
                self.headline, self._in_headline = "".join(self._text), False
            self._end()
        self._depth -= tag == "div"

    def handle_data(self, data: str) -> None:
        if self._depth:
            self._text.append(data)

    def _end(self) -> None:
        self.found.append("".join(self._text))
        self._text = []
