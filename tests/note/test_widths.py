"""Columns hold what stands in them: no word broken inside, nothing printed over its neighbour (issue 5.1)."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from runner.evidence.signing import signing_key
from runner.note.build import build_note
from tests.note.sample import OWN_MACHINE, make_campaign

WORD = re.compile(r'<word xMin="([\d.]+)" yMin="([\d.]+)" xMax="([\d.]+)" yMax="([\d.]+)">(.*?)</word>')
PLAN = """schema_version = "plan/1"
zone = "Europe/Berlin"
deadline = "{deadline}"
deliverables = ["messages"]

[[task]]
id = "measure"
title = "Measuring"
kind = "measurement"
start = "2026-10-05T09:00"
corpus = "messages"
passes = 1
duration = "3:00:00"
delivery = true
{expenses}"""
NEARLY_WHOLE = replace(OWN_MACHINE, plan=PLAN)
"""Passes of about a second: time to spare is hours, minutes and seconds, as on a real own machine."""


def words_over_words(pdf: Path) -> list[tuple[int, str, str]]:
    """Pairs of words of a page whose boxes cover each other."""
    done = subprocess.run(["pdftotext", "-bbox", str(pdf), "-"], capture_output=True, check=True, encoding="utf-8")
    found = []
    for number, page in enumerate(done.stdout.split("<page ")[1:], 1):
        boxes = [(*map(float, word.groups()[:4]), word[5]) for word in WORD.finditer(page)]
        for place, (left, top, right, foot, text) in enumerate(boxes):
            for other_left, other_top, other_right, other_foot, other in boxes[place + 1 :]:
                wide = min(right, other_right) - max(left, other_left)
                high = min(foot, other_foot) - max(top, other_top)
                if wide > 1 and high > 0.6 * min(foot - top, other_foot - other_top):
                    found.append((number, text, other))
    return found


@pytest.mark.parametrize("language", ["en", "de", "tr", "fr"])
def test_nothing_is_printed_over_its_neighbour(language: str, tmp_path: Path) -> None:
    """Issue 5.1 and 5.4: long durations and long words of every language stand in their own column, in one piece."""
    campaign = make_campaign(tmp_path / "campaign", NEARLY_WHOLE)
    signing_key(campaign, {})
    pdf = build_note(campaign, language).pdf
    assert words_over_words(pdf) == []
    text = subprocess.run(["pdftotext", "-layout", str(pdf), "-"], capture_output=True, check=True, encoding="utf-8")
    rows = [line for line in text.stdout.splitlines() if re.search(r"cpu-b[148]-p0\d$", line)]
    word = {"en": "accepted", "de": "angenommen", "tr": "kabul edildi", "fr": "acceptée"}[language]
    assert sum(word in row for row in rows) >= 14, "the word of the verdict is in one piece"
    assert re.search(r"\d+\sh\s59\smin\s5\d\ss", text.stdout), "a long time to spare is among them"
