"""`runner verify` as a buyer meets it: in four languages, on page 1 of the PDF, and for notes of other versions."""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.cli.main import run
from runner.evidence.campaign import Campaign
from runner.evidence.checks import THIS_CODE, note_id
from runner.flows.report import make_report
from runner.flows.verification import Verification
from runner.flows.verify import verify
from runner.judge.campaign import judge_campaign
from runner.note import build
from runner.note.checked import FRAME, STEP_NAMES
from runner.note.speech import FORMS, recognise, voice_of
from runner.protocol.freeze import load_lock
from runner.protocol.schema import Lock
from runner.seal.pdf import sign_pdf
from runner.seal.pdfkey import pdf_key
from tests.flows.test_verify import sign_again
from tests.support.small_campaign import ROWS, make_attempt, store_attempt, write_predictions

GOLDEN = Path(__file__).parent / "golden"
LANGUAGES = ("en", "de", "fr", "tr")
OLDER = "gpu-decision-note 0.1.0"
HASHES = re.compile(r"SHA256:[A-Za-z0-9+/]+|\b[0-9a-f]{64}\b|(?<=-r1-)[0-9a-f]{12}\b")
# The same in another language: names, numbers and signs.
ALIKE = {"decision.priced", "file.sha256", "model.file", "frame.ok", "frame.note", "frame.unknown"}


def changed(found: Verification) -> dict[str, str]:
    return {step.name: step.finding for step in found.steps if step.status == "failed" and step.follows is None}


@pytest.fixture(scope="session")
def good(reported: Path) -> Verification:
    return verify(reported)


@pytest.fixture(scope="session")
def spoilt(reported: Path, tmp_path_factory: pytest.TempPathFactory) -> Verification:
    """A row changed, a verdict gone, a file added, a private key beside, a byte of the PDF's text flipped."""
    root = tmp_path_factory.mktemp("spoilt") / "campaign"
    shutil.copytree(reported, root)
    campaign = Campaign(root)
    row = campaign.attempts / "a004.json"
    row.write_bytes(row.read_bytes().replace(b'"pass_seconds": "2.01', b'"pass_seconds": "1.01', 1) + b" ")
    (campaign.verdicts / "a005.json").unlink()
    (campaign.records / "extra.txt").write_text("more\n", encoding="utf-8")
    (root / "READ-ME-FIRST.txt").write_text("pay to another account\n", encoding="utf-8")
    (campaign.note / "key.p12").write_bytes(b"not really")
    pdf = campaign.note / "decision-note.pdf"
    data = bytearray(pdf.read_bytes())
    data[len(data) // 2] ^= 1
    pdf.write_bytes(bytes(data))
    return verify(root)


def shown(found: Verification, language: str) -> str:
    """The report with what differs from run to run left open."""
    lock = Lock.load(Campaign(Path(found.subject)).lock)
    text = "\n".join(found.lines(language)).replace(found.subject, "CAMPAIGN")
    text = text.replace(voice_of(language).fmt.instant(lock.frozen_at_utc), "DATE").replace(THIS_CODE, "THIS VERSION")
    return HASHES.sub("...", text) + "\n"


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", ["good", "spoilt"])
def test_golden_report(name: str, language: str, request: pytest.FixtureRequest) -> None:
    """Issue 5, 4 and 6: the whole report, word by word. `UPDATE_GOLDEN=1` writes it again."""
    found: Verification = request.getfixturevalue(name)
    text, path = shown(found, language), GOLDEN / f"verify-{name}.{language}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    expected = path.read_text(encoding="utf-8")
    assert text == expected, "\n".join(difflib.unified_diff(expected.split("\n"), text.split("\n"), lineterm="", n=0))


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_every_form_is_said_in_every_language(language: str) -> None:
    """Issue 5, 4: no sentence, name of a check or mark of the report is left in English."""
    voice = voice_of(language)
    same = []
    for code, form in FORMS.items():
        values = dict.fromkeys(re.findall(r"\{(\w+)\}", str(form)), "7")
        values |= {name: "2026-11-30T12:00:00Z" for name in values if name.endswith("utc")}
        values |= {name: "link" for name in values if name.endswith("kind")}
        values |= {name: "2071.00 USD" for name in values if name.endswith("money")}
        if voice.form(code, **values) == voice_of("en").form(code, **values):
            same.append(code)
    assert set(same) <= ALIKE, same
    assert not voice.catalogue.missing
    assert all(voice.step(name) != name for name in STEP_NAMES if name not in ("archive", "note", "model", "verdicts"))


def test_whatever_a_spoilt_campaign_is_told_is_recognised(good: Verification, spoilt: Verification) -> None:
    """Issue 5, 4: nothing in these two reports is quoted as text that is not ours."""
    for found in (good, spoilt):
        for step in found.steps:
            for text in (step.finding, *step.details):
                assert recognise(text) is not None, text


def test_json_is_the_same_in_every_language_and_has_codes(
    campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 5, 6: machines get stable codes and the English sentences, people their language; make takes NOTE_LANG."""
    said = []
    for language in ("en", "de"):
        assert run(["--campaign", str(campaign.root), "verify", "--lang", language, "--json"]) == 0
        said.append(json.loads(capsys.readouterr().out))
    assert said[0] == said[1]
    codes = {step["name"]: step["code"] for step in said[0]["steps"]}
    assert codes["files"] == "files.fit" and codes["page 1 of the PDF"] == "page-one.says"
    assert all(code in FORMS for code in codes.values())
    assert run(["--campaign", str(campaign.root), "verify", "--lang", "de"]) == 0
    assert "Alles, was geprüft wurde, passt" in capsys.readouterr().out
    assert run(["--campaign", str(campaign.root), "verify", "--lang", "xx"]) == 2
    assert "choose one of de, en, fr, tr" in capsys.readouterr().err


def test_a_stale_note_is_called_so_in_the_reader_s_language(
    campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 5, 4: what the command adds below the report has a form as well."""
    right = write_predictions(campaign.predictions / "a009.parquet", [(row[0], row[2]) for row in ROWS])
    store_attempt(campaign, make_attempt(campaign, load_lock(campaign), right, number=9))
    judge_campaign(campaign)
    assert run(["--campaign", str(campaign.root), "verify", "--lang", "de"]) == 3
    assert "Der Bericht ist überholt: seit der Signatur wurde 1 Versuch aufgezeichnet. " in capsys.readouterr().out


def test_a_catalogue_of_the_campaign_says_nothing_in_the_report(campaign: Campaign) -> None:
    """M45: a stranger's templates/locale/de.po could call everything good: only the installation's words are used."""
    path = campaign.templates / "locale" / "de.po"
    path.write_text(path.read_text(encoding="utf-8").replace("NICHT ANGENOMMEN", "ANGENOMMEN"), encoding="utf-8")
    (campaign.note / "decision.json").write_bytes(b"{}")
    assert any(line.startswith("NICHT ANGENOMMEN: ") for line in verify(campaign.root).lines("de"))


# ---- page 1 of the PDF -----------------------------------------------------------------------------------------------


def forge_pages(campaign: Campaign, change: Callable[[str], str]) -> None:
    """What the owner of the key can do: other pages, with the genuine text and evidence attached, signed again."""
    kept = {name: (campaign.note / name).read_bytes() for name in ("decision-note.qmd", "decision-note.html")}
    real = build.render_markdown

    def genuine_again() -> None:
        (campaign.note / "decision-note.qmd").write_bytes(kept["decision-note.qmd"])

    from runner.evidence.checks import read_signer

    signer = read_signer(campaign)
    assert signer is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "render_markdown", lambda *given: change(real(*given)))
        made = build.build_note(campaign, "en", key=signer.as_key(), seal=genuine_again)
    signed = sign_pdf(made.pdf.read_bytes(), pdf_key(campaign, {}), reason=f"Decision note {note_id(campaign)}")
    made.pdf.write_bytes(signed)
    for name, data in kept.items():
        (campaign.note / name).write_bytes(data)
    sign_again(campaign)


HEADLINE = "Use cpu.b8 on the own machine"


@pytest.mark.parametrize(
    ("old", "new", "detail"),
    [
        (f"# {HEADLINE} ", "# Use cpu.b1 on the own machine ", f"page 1 does not say “{HEADLINE}”"),
        (
            "[cpu.b8]{.fact-value}",
            "[cpu.b1]{.fact-value}",
            "page 1 does not say “Configuration cpu.b8 batch size 8",
        ),
        ("| cpu.b8 | [chosen]{.badge}", "| cpu.b1 | [chosen]{.badge}", "page 1 does not say “cpu.b8 chosen 3 of 3"),
        ("::: {.recheck}", "Guaranteed by the maker.\n\n::: {.recheck}", "page 1 says more: “Guaranteedbythemaker.”"),
    ],
)
def test_a_forged_page_1_is_found_without_rebuild(campaign: Campaign, old: str, new: str, detail: str) -> None:
    """M45: other words on page 1, signed again with the real key and the genuine evidence: exit 3, and the words."""

    def change(text: str) -> str:
        assert old in text, text[:3000]
        return text.replace(old, new, 1)

    forge_pages(campaign, change)
    found = verify(campaign.root)
    assert set(changed(found)) == {"page 1 of the PDF"}, found.lines()
    (step,) = (step for step in found.steps if step.name == "page 1 of the PDF")
    assert any(one.startswith(detail) for one in step.details), step.details
    lines = found.lines()
    assert lines[lines.index("page 1 must say:") + 1] == f"  {HEADLINE}"
    assert run(["--campaign", str(campaign.root), "verify"]) == 3
    alone = verify(campaign.note / "decision-note.pdf")
    assert "page 1 of the PDF" in changed(alone), alone.lines()


def test_another_page_is_not_compared_and_the_report_says_so(campaign: Campaign) -> None:
    """M45, honesty: what the default run does not compare is named; `--rebuild` finds it."""
    forge_pages(campaign, lambda text: text + "\n\nGuaranteed by the maker.\n")
    found = verify(campaign.root)
    assert found.accepted
    assert "the other pages were not (--rebuild compares all)" in found.bottom_line
    assert "pages of the PDF" in changed(verify(campaign.root, rebuild=True))


def test_what_page_1_must_say_comes_from_the_records_not_from_the_note(campaign: Campaign) -> None:
    """M45: a forged decision.json, signed again, does not change the headline that is printed."""
    path = campaign.note / "decision.json"
    path.write_bytes(path.read_bytes().replace(b'"chosen": "cpu.b8"', b'"chosen": "cpu.b1"'))
    sign_again(campaign)
    lines = verify(campaign.root).lines()
    assert lines[lines.index("page 1 must say:") + 1] == f"  {HEADLINE}"


def test_a_headline_of_the_maker_s_own_templates_is_not_taken_for_the_decision(campaign: Campaign) -> None:
    """M45: text that follows from changed templates, byte by byte, is the maker's: not checked, and what is decided."""
    page = campaign.templates / "sections" / "page-one.qmd"
    page.write_text(page.read_text(encoding="utf-8").replace("# {{ decision.headline }}", "# Use cpu.b1"), "utf-8")
    make_report(campaign, environ={})
    (step,) = (step for step in verify(campaign.root).steps if step.name == "page 1 of the PDF")
    assert (step.status, step.finding) == ("not checked", f"page 1 does not say what was decided: “{HEADLINE}”")


# ---- notes of another version ----------------------------------------------------------------------------------------


def of_older_version(campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    """A note as another version would have made it: other words in its text, its name in note/signer.json."""
    real: Any = build.render_markdown
    with monkeypatch.context() as patch:
        patch.setattr("runner.flows.report.THIS_CODE", OLDER)
        patch.setattr(
            build, "render_markdown", lambda *given: real(*given).replace("Why this one", "Why it is this one")
        )
        make_report(campaign, environ={})


def test_a_note_of_an_older_version_is_judged_but_its_text_is_not(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """M45, issue 5, 6: other words of another version are no forgery; figures are recomputed, exit 0, and said."""
    of_older_version(campaign, monkeypatch)
    assert run(["--campaign", str(campaign.root), "verify"]) == 0
    out = capsys.readouterr().out
    assert f"text of the note: made by another version ({OLDER}): text not compared; use that version" in out
    assert "[  ok  ] decision" in out and "[  ok  ] verdicts" in out and "FAILED" not in out
    assert out.rstrip().endswith(
        f"The note was made by another version ({OLDER}): its text was not compared; use that version for it. "
        "What the pages of the PDF say was not compared with the evidence."
    )
    assert str(FRAME["frame.own-words"]) in out


def test_an_older_version_s_name_does_not_cover_other_figures(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M45: whoever names an older version to be left alone is still judged by the records."""
    of_older_version(campaign, monkeypatch)
    balance = json.loads(campaign.balance.read_bytes())
    balance["rows"][0]["summaries"][0]["raw_seconds"][0] = "0.5"
    campaign.balance.write_text(json.dumps(balance), encoding="utf-8")
    sign_again(campaign)
    found = verify(campaign.root)
    assert not found.accepted
    assert {step.name: step.status for step in found.steps}["decision"] == "failed"

    of_older_version(campaign, monkeypatch)
    verdict = campaign.verdicts / "a004.json"
    verdict.write_bytes(verdict.read_bytes().replace(b'"accepted": true', b'"accepted": false'))
    sign_again(campaign)
    assert {step.name: step.status for step in verify(campaign.root).steps}["verdicts"] == "failed"


# ---- who issues the note ---------------------------------------------------------------------------------------------


def test_the_note_says_who_issues_it_escaped_and_without_a_new_freeze(campaign: Campaign) -> None:
    """Issue 5, 1: `[contact]` is shown as other people's text, is no part of what is frozen; absent: not stated."""
    before = campaign.note / "decision-note.qmd"
    assert "Issued by: not stated. For: not stated. Questions to: not stated." in before.read_text(encoding="utf-8")
    frozen = Lock.load(campaign.lock).lock_sha256
    text = campaign.protocol.read_text(encoding="utf-8")
    contact = (
        '[contact]\nissued_by = "Lab <b>A</b> {{ 1 }}"\nissued_for = "Buyer *GmbH*"\nreach = "lab@example.org"\n\n'
    )
    campaign.protocol.write_text(text.replace("[[corpus]]", contact + "[[corpus]]", 1), encoding="utf-8")
    assert load_lock(campaign).lock_sha256 == frozen
    make_report(campaign, "de", environ={})
    html = (campaign.note / "decision-note.html").read_text(encoding="utf-8")
    assert "Ausgestellt von: „Lab &lt;b&gt;A&lt;/b&gt; {{ 1 }}“" in html
    assert "<b>A</b>" not in html and "<em>GmbH</em>" not in html
    assert "runner verify NOTE.pdf --lang de" in html, "the command speaks the note's language"
    assert verify(campaign.root).accepted
