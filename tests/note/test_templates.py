"""docs/templates.md, tried: a section and a language of the user's own, without Python; mistakes are refused."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runner.cli.main import run
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.note.build import note_markdown
from runner.note.i18n import read_catalogue
from tests.note.sample import UNDECIDED, make_campaign

SECTION = """# {% trans %}Approval{% endtrans %} {#sec-approval}

{% trans headline=decision.headline %}The board read: {{ headline }} (@tbl-approval, @sec-limits).{% endtrans %}

| {% trans %}Role{% endtrans %} | {% trans %}Name{% endtrans %} |
|:---|:---|
| {% trans %}Buyer{% endtrans %} | {{ note.name }} |

: {% trans %}Who signs the order.{% endtrans %} {#tbl-approval .row-heads}
"""


@pytest.fixture
def own(tmp_path: Path, templates: Path) -> Campaign:
    """A campaign with templates of its own, and one section more."""
    campaign = make_campaign(tmp_path / "campaign", UNDECIDED)
    shutil.copytree(templates, campaign.templates)
    (campaign.templates / "sections" / "approval.qmd").write_text(SECTION, encoding="utf-8")
    note = campaign.templates / "decision-note.qmd"
    last = "{{< include sections/limits.qmd >}}"
    text = note.read_text(encoding="utf-8")
    assert last in text
    note.write_text(text.replace(last, f"{last}\n\n{{{{< include sections/approval.qmd >}}}}"), encoding="utf-8")
    return campaign


def edit(campaign: Campaign, before: str, after: str) -> None:
    path = campaign.templates / "sections" / "approval.qmd"
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, after), encoding="utf-8")


def test_a_section_of_ones_own(own: Campaign) -> None:
    text = note_markdown(own)
    assert "# Approval {#sec-approval}" in text
    assert "The board read: Undecided between cpu.b1 and cpu.b4 (@tbl-approval, @sec-limits)." in text
    assert "| Buyer | messages |" in text


def test_a_language_of_ones_own_is_one_file(own: Campaign) -> None:
    """An empty file, one command, translated words; the rest is English, and what is missing is named."""
    path = own.templates / "locale" / "it.po"
    path.write_text("", encoding="utf-8")
    command = [sys.executable, "-m", "runner.note.messages", str(own.templates)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"it.po: {len(read_catalogue(path))} messages" in said
    text = path.read_text(encoding="utf-8")
    assert 'msgid "Approval"\nmsgstr ""' in text, "the new section's words are in it"
    path.write_text(
        text.replace('msgid "Approval"\nmsgstr ""', 'msgid "Approval"\nmsgstr "Benestare"'), encoding="utf-8"
    )
    note = note_markdown(own, "it")
    assert "# Benestare {#sec-approval}" in note and "lang: it" in note
    assert "5\u00a0ottobre 2026" in note.replace("\\", "")


def test_the_command_takes_a_language_of_the_campaigns_own(own: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    """`--language it`: the list of languages is the folder, not the program; said before anything is measured."""
    assert run(["--campaign", str(own.root), "note", "--language", "it"]) == 2
    assert "choose one of de, en, fr, tr, or add the file" in capsys.readouterr().err
    assert run(["--campaign", str(own.root), "note", "--language", "../x"]) == 2
    assert "not a language code" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("decision.headline", "decision.slogan", "has no attribute 'slogan'"),
        ("{{ note.name }}", "{{ note.p95 }}", "has no attribute 'p95'"),
        ("{{ note.name }}", "{{ missing }}", "'missing' is undefined"),
        ("{{ note.name }}", "{{ note.name", "syntax error"),
    ],
)
def test_a_value_that_does_not_exist_is_refused(own: Campaign, before: str, after: str, words: str) -> None:
    """M30 among others: inside of a translated sentence too."""
    edit(own, before, after)
    with pytest.raises(InputRefused, match=words):
        note_markdown(own)


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("{{ note.name }}", "{{ note.title_of_old }}", 7),
        ("decision.headline", "decision.title_of_old", 3),
        (": {% trans %}Who", "{% if note.title_of_old %}\n{% endif %}\n: {% trans %}Who", 9),
        ("{{ note.name }}", "{% endif %}", 7),
    ],
)
def test_templates_of_another_version_are_named_with_file_and_line(
    own: Campaign, before: str, after: str, line: int
) -> None:
    """Issue 5: a folder keeps the templates it was made with; if they do not fit, report says what to do, exit 2."""
    edit(own, before, after)
    with pytest.raises(InputRefused) as caught:
        note_markdown(own)
    refused = caught.value
    assert (Path(str(refused.file)).name, refused.line) == ("approval.qmd", line), refused
    if "old" in after:
        assert "does not fit this version of the tool" in refused.what
        assert "move this folder templates/ away" in str(refused.next_step)
    assert refused.exit_code == 2
