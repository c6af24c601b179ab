"""Headers of tables in the PDF: a word is whole or hyphenated, never cut without a mark (issue 5)."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from runner.note.build import NoteFiles, build_note
from tests.note.sample import OWN_MACHINE, make_campaign

_WORD = re.compile(r'<word xMin="([\d.]+)" yMin="([\d.]+)" xMax="([\d.]+)" yMax="([\d.]+)">(.*?)</word>')


def cut_words(note: NoteFiles) -> list[str]:
    """Words of column headers whose end stands on the next line, at the same edge, without a hyphen."""
    heads = re.findall(r'<th scope="col"[^>]*>(.*?)</th>', note.html.read_text(encoding="utf-8"), re.DOTALL)
    texts = [html.unescape(re.sub(r"<[^>]+>", "", head)) for head in heads]
    wanted = {word for text in texts for word in re.split(r"[\s/]+", text) if len(word) > 3}
    assert len(wanted) > 40
    done = subprocess.run(["pdftotext", "-bbox", str(note.pdf), "-"], capture_output=True, check=True, timeout=60)
    found = []
    for page in done.stdout.decode("utf-8").split("<page ")[1:]:
        words = [(html.unescape(text), *map(float, box)) for *box, text in _WORD.findall(page)]
        for text, left, top, right, bottom in words:
            rests = {word[len(text) :] for word in wanted if word != text and word.startswith(text)}
            found += [
                text + other
                for other, x, y, x_end, _ in words
                if other in rests
                and 0 < y - top < 1.7 * (bottom - top)
                and (abs(x - left) < 2 or abs(x_end - right) < 4)
            ]
    return found


@pytest.mark.parametrize("language", ["en", "de", "tr", "fr"])
def test_issue_5_no_header_is_cut_inside_a_word(tmp_path: Path, language: str) -> None:
    assert cut_words(build_note(make_campaign(tmp_path / "campaign", OWN_MACHINE), language)) == []


def test_issue_5_a_column_too_narrow_for_its_word_is_seen(tmp_path: Path, templates: Path) -> None:
    """The check above can fail: Turkish has no hyphenation, so a long word in a narrow column is cut."""
    campaign = make_campaign(tmp_path / "campaign", OWN_MACHINE)
    shutil.copytree(templates, campaign.templates)
    path = campaign.templates / "sections" / "durations.qmd"
    text, changed = re.subn(r'colwidths="\[[\d,]+\]"', 'colwidths="[12,23,9,9,9,8,8,6,7,9]"', path.read_text("utf-8"))
    assert changed == 1
    path.write_text(text, encoding="utf-8")
    style = campaign.templates / "style.css"  # which lets no word break, and test_widths.py sees words over others
    style.write_text(style.read_text("utf-8") + "\nth { overflow-wrap: anywhere !important; }\n", encoding="utf-8")
    assert "Başarısızlık" in cut_words(build_note(campaign, "tr"))
