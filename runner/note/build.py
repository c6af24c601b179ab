"""From a decided campaign to the note: Markdown, HTML and the unsigned PDF. Same evidence, same bytes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from runner.evidence.campaign import Campaign
from runner.evidence.canonical import sha256_bytes
from runner.evidence.files import write_atomic
from runner.evidence.signing import SigningKey, known_key
from runner.note.attachments import Attached, evidence_files
from runner.note.context import build_context
from runner.note.evidence import read_evidence
from runner.note.figures import Figure, make_figures
from runner.note.fonts import covered_characters, font_faces, linked_font_faces, show_uncovered
from runner.note.format import Formatter
from runner.note.html import Parsed, parse_document, print_page, print_style, screen_page
from runner.note.i18n import Catalogue, load_catalogue
from runner.note.markdown import render_markdown
from runner.note.pdf import render_pdf
from runner.note.svg import as_image, compact
from runner.note.words import Speaker, reasons_in
from runner.protocol.schema import Lock
from runner.units import parse_utc

TEMPLATE = "decision-note.qmd"
OWN_TEMPLATES = Path(__file__).resolve().parents[2] / "templates"


@dataclass(frozen=True)
class NoteFiles:
    """The files of a note. `pdf` is not signed yet; `warnings` are for the person who makes the note."""

    qmd: Path
    html: Path
    pdf: Path
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class _Draft:
    markdown: str
    lock: Lock
    dated_utc: str
    catalogue: Catalogue
    figures: tuple[Figure, ...]
    narrow: tuple[Figure, ...]
    """The same figures for a phone; none where only words are made."""
    warnings: tuple[str, ...]


def templates_of(campaign: Campaign) -> Path:
    """The campaign's own templates, else those of the installation."""
    return campaign.templates if (campaign.templates / TEMPLATE).exists() else OWN_TEMPLATES


def note_markdown(campaign: Campaign, language: str = "en", *, key: SigningKey | None = None) -> str:
    """`decision-note.qmd` as it must be for this evidence; nothing is written. `key` as in `build_note`."""
    return _draft(campaign, language, key, None).markdown


def build_note(
    campaign: Campaign,
    language: str = "en",
    *,
    key: SigningKey | None = None,
    example: bool = False,
    seal: Callable[[], None] | None = None,
) -> NoteFiles:
    """Write figures, `decision-note.qmd`, `.html` and the unsigned `.pdf` into the campaign's note folder.

    `key` will sign the note (default: the key that is known now, else a local test key is announced).
    `example` marks every page: made-up records that show the design. `seal` is called when all that the PDF will
    carry is written: it may add a list of that, with a signature, which the PDF then carries too.
    """
    folder, templates = campaign.note, templates_of(campaign)
    draft, drawn, narrow = _drawn(campaign, language, key, example=example)
    document, figures, html = _screen(templates, draft, drawn, narrow)
    write_atomic(folder / "decision-note.qmd", draft.markdown.encode("utf-8"))
    for name, data in drawn.items():
        write_atomic(folder / name, data)
    if seal is not None:
        seal()
    page = print_page(document, templates, draft.catalogue, figures)
    pdf, left_out = _pdf(campaign, templates, draft, page, figures)
    write_atomic(folder / "decision-note.html", html.encode("utf-8"))
    write_atomic(folder / "decision-note.pdf", pdf)
    warnings = draft.warnings
    if left_out:
        warnings += (f"{len(left_out)} files with labels and predictions are too large to be attached to the PDF",)
    return NoteFiles(
        folder / "decision-note.qmd", folder / "decision-note.html", folder / "decision-note.pdf", warnings
    )


def note_pages(campaign: Campaign, language: str = "en", *, key: SigningKey | None = None) -> dict[str, bytes]:
    """Text, HTML and figures as `build_note` would write them, by name in the note folder; nothing is written."""
    templates = templates_of(campaign)
    draft, drawn, narrow = _drawn(campaign, language, key)
    _, _, html = _screen(templates, draft, drawn, narrow)
    return {"decision-note.qmd": draft.markdown.encode("utf-8"), "decision-note.html": html.encode("utf-8"), **drawn}


def _drawn(
    campaign: Campaign, language: str, key: SigningKey | None, *, example: bool = False
) -> tuple[_Draft, dict[str, bytes], dict[str, bytes]]:
    """The text, its figures, and the same figures drawn for a phone (these live in the HTML only)."""
    with tempfile.TemporaryDirectory(prefix="runner-figures-") as temporary:
        draft = _draft(campaign, language, key, Path(temporary), example=example)
        found = tuple(
            {f"figures/{one.path.name}": one.path.read_bytes() for one in s} for s in (draft.figures, draft.narrow)
        )
        return draft, found[0], found[1]


def _screen(
    templates: Path, draft: _Draft, drawn: Mapping[str, bytes], narrow: Mapping[str, bytes]
) -> tuple[Parsed, dict[str, ET.Element], str]:
    """The parsed text, the figures as they are set into a page, and the HTML."""
    figures = {name: compact(data, name=name) for name, data in drawn.items()}
    document = parse_document(draft.markdown, draft.catalogue)
    phone = {name: compact(data, name=name) for name, data in narrow.items()}
    html = screen_page(document, templates, draft.catalogue, figures, phone, lambda used: font_faces(templates, used))
    return document, figures, html


def _draft(
    campaign: Campaign, language: str, key: SigningKey | None, folder: Path | None, *, example: bool = False
) -> _Draft:
    """Evidence read, Markdown filled, and figures drawn into `folder`, if there is one."""
    templates = templates_of(campaign)
    evidence = read_evidence(campaign)
    catalogue = load_catalogue(templates, language)
    known = {reason.text: reason for reason in reasons_in((evidence.balance, evidence.decision))}
    speaker = Speaker(catalogue, Formatter(language), known, evidence.plan.zone, evidence.protocol.question.language)
    figures = make_figures(evidence, speaker.fmt, catalogue, folder)
    phone = folder and make_figures(evidence, speaker.fmt, catalogue, folder / "narrow", narrow=True)
    shown = {
        figure.id: {
            "source": f"figures/{figure.path.name}", "caption": figure.caption, "alternative": figure.description,
        }
        for figure in figures
    }  # fmt: skip
    context = build_context(evidence, speaker, key or known_key(campaign), shown, example=example)
    text = render_markdown(templates, TEMPLATE, context, catalogue, speaker.fmt.integer)
    text, uncovered = show_uncovered(text, covered_characters(templates))
    warnings = [f"not in the note's fonts, shown by number: {', '.join(uncovered)}"] if uncovered else []
    warnings += [f"not translated into {language}: {message}" for message in sorted(catalogue.missing)]
    return _Draft(text, evidence.lock, evidence.dated_utc, catalogue, figures, phone or (), tuple(warnings))


def _pdf(
    campaign: Campaign, templates: Path, draft: _Draft, page: str, figures: Mapping[str, ET.Element]
) -> tuple[bytes, tuple[str, ...]]:
    attachments, left_out = evidence_files(campaign, draft.lock)
    faces, files = linked_font_faces(templates)
    files |= {f"note:{name}": as_image(drawing) for name, drawing in figures.items()}
    style = faces + print_style(templates)
    data = render_pdf(
        page, style, files, attachments, dated=parse_utc(draft.dated_utc),
        identifier=_identifier(draft, attachments), tighter=_set_tighter(page),
        field_name=draft.catalogue.gettext("Signature of this decision note"),
    )  # fmt: skip
    return data, left_out


def _set_tighter(page: str) -> tuple[str, ...]:
    """The same page with its first block set tighter in two steps; none for a template without that block."""
    opening = '<div class="page-one">'
    if opening not in page:
        return ()
    return tuple(page.replace(opening, f'<div class="page-one {size}">', 1) for size in ("tight", "tighter"))


def _identifier(draft: _Draft, attachments: tuple[Attached, ...]) -> bytes:
    """Name of the PDF from its content, so that the same note has the same one."""
    whole = draft.markdown + "".join(file.path + sha256_bytes(file.data) for file in attachments)
    return sha256_bytes(whole.encode("utf-8"))[:32].encode("ascii")
