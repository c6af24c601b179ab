"""Recomputation: raw records -> verdicts -> balance and decision -> text of the note, compared byte by byte."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from runner.decide.write import other_locks_were_left_out, render_decision
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import loads_strict
from runner.evidence.checks import ATTACHED_LIST, ATTACHED_LIST_SIGNATURE, SIGNER_NAME, THIS_CODE, read_signer
from runner.evidence.signing import SigningKey
from runner.evidence.store import AttemptStore
from runner.flows import foreign
from runner.flows.foreign import verdict_command
from runner.flows.page_one import decided_words, note_language
from runner.flows.staging import StagedCampaign
from runner.flows.standing import other_code
from runner.flows.verification import Step
from runner.judge.again import judge_again
from runner.note.build import build_note, note_markdown, note_pages
from runner.note.calculator import calculator_of
from runner.protocol.freeze import load_lock
from runner.protocol.procedure import foreign_code_allowed

_DECISION_FILES = (
    "attempts.csv", "attempts-spreadsheet.csv", "balance.csv", "balance.json", "decision.json", "plan.ics",
)  # fmt: skip
_SEALED = tuple(Path(name).name for name in (ATTACHED_LIST, ATTACHED_LIST_SIGNATURE))
TEXT, PAGES = "text of the note", "pages of the PDF"


def recompute_verdicts(campaign: Campaign) -> Step:
    """Judge every attempt again from its row and its predictions; compare configurations in pairs again."""
    lock = load_lock(campaign)
    if lock.protocol.evaluation is not None and not foreign_code_allowed.get():
        code = tuple(f"{file.path}: sha256 {file.sha256}" for file in lock.judgement.evaluation_files)
        reason = "the protocol names a metric of its own: read its code, then runner verify --run-evaluation"
        return Step("verdicts", "not checked", reason, code)
    attempts = AttemptStore(campaign).scan().attempts
    judged = judge_again(campaign, lock, attempts)
    if not campaign.paired.is_dir():  # judged before paired comparisons were made: nothing says what they were
        judged = replace(judged, paired=())
    found = [*sorted(campaign.verdicts.glob("*.json")), *sorted(campaign.paired.glob("*.json"))]
    findings = _differences(
        {f"verdicts/{name}": data for name, data in judged.files().items()},
        {f"verdicts/{path.relative_to(campaign.verdicts).as_posix()}": path.read_bytes() for path in found},
    )
    accepted = sum(verdict.accepted for verdict in judged.verdicts)
    if findings and (made_by := other_code(campaign)) is not None and _same_verdicts(campaign, judged.files()):
        reason = f"the same verdicts; made by {made_by}, which words them otherwise than this version ({THIS_CODE})"
        return Step("verdicts", "passed", reason, findings, command=verdict_command(campaign))
    if findings:
        return Step("verdicts", "failed", "judged again from the raw records, they differ", findings,
                    command=verdict_command(campaign), files=_of(findings))  # fmt: skip
    rows = len(judged.verdicts)
    finding = f"{rows} attempts judged again from the raw records, {accepted} accepted, as the files in verdicts/ say"
    return Step("verdicts", "passed", finding, command=verdict_command(campaign))


def recompute_decision(campaign: Campaign) -> Step:
    """Decide again from records, verdicts, plan and tariffs."""
    left_out = other_locks_were_left_out(campaign.decision)
    decided = render_decision(campaign, leave_out_other_locks=left_out)
    made, says = decided.files, decided_words(campaign, decided.balance, decided.decision)
    there = {name: (campaign.note / name).read_bytes() for name in made if (campaign.note / name).is_file()}
    findings, made_by = _differences(_in_note(made), _in_note(there)), other_code(campaign)
    step = Step("decision", "passed", "", findings, command=foreign.DECISION, says=says)
    if findings and made_by is not None and _facts(made) == _facts(there):
        reason = (
            f"the same choice, costs and durations; made by {made_by}, which writes them otherwise than this version "
            f"({THIS_CODE})"
        )
        return replace(step, finding=reason)
    again = f"decided again from records, plan and tariffs: {_said(made)}"
    if findings:
        finding = f"{again}; the note's decision files are other ones"
        return replace(step, status="failed", finding=finding, files=_of(findings))
    return replace(step, finding=f"{again}, as note/decision.json and note/balance.json say")


def recompute_text(campaign: Campaign) -> Step:
    """Render the note's text again and compare it with `decision-note.qmd`: what a PDF's attachments allow."""
    data = (campaign.note / "decision-note.qmd").read_bytes()
    if note_markdown(campaign, note_language(data), key=_key(campaign)).encode("utf-8") != data:
        return _differs(campaign, TEXT, ("note/decision-note.qmd: differs",))
    finding = "note/decision-note.qmd follows from the evidence, byte by byte"
    return Step(TEXT, "passed", finding, command=foreign.PAGES)


def recompute_pages(campaign: Campaign) -> Step:
    """Text, figures, HTML and calculator made again and compared byte by byte; only the PDF is left."""
    language = note_language((campaign.note / "decision-note.qmd").read_bytes())
    wanted = note_pages(campaign, language, key=_key(campaign))
    wanted["calculator.html"] = calculator_of(campaign, language).encode("utf-8")
    found = {name: (campaign.note / name).read_bytes() for name in wanted if (campaign.note / name).is_file()}
    found |= {f"figures/{path.name}": path.read_bytes() for path in sorted((campaign.note / "figures").glob("*"))}
    findings = _differences(_in_note(wanted), _in_note(found))
    if findings:
        return _differs(campaign, TEXT, findings)
    figures = sum(name.startswith("figures/") for name in wanted)
    finding = f"text, HTML, {figures} figures and the calculator follow from the evidence, byte by byte"
    return Step(TEXT, "passed", finding, command=foreign.PAGES)


def rebuild_pdf(campaign: Campaign) -> Step:
    """Make the unsigned PDF again in a folder of our own: the signed one must begin with it, byte by byte.

    Slower than all other checks together.
    """
    language = note_language((campaign.note / "decision-note.qmd").read_bytes())
    with tempfile.TemporaryDirectory(prefix="runner-rebuild-") as folder:
        staged = StagedCampaign(campaign.root, Path(folder))
        for name in (*_DECISION_FILES, SIGNER_NAME, *_SEALED):
            if (campaign.note / name).is_file():
                shutil.copyfile(campaign.note / name, staged.note / name)
        unsigned = build_note(staged, language, key=_key(campaign)).pdf.read_bytes()
    if not (campaign.note / "decision-note.pdf").read_bytes().startswith(unsigned):
        finding = "note/decision-note.pdf: does not begin with the PDF that the evidence gives"
        return _differs(campaign, PAGES, (finding,))
    return Step(PAGES, "passed", "made again from the evidence, byte by byte the same", command=foreign.PAGES)


def pages_not_made_again() -> Step:
    """What is said of the PDF's pages when nobody asked for `--rebuild`."""
    return Step(PAGES, "not checked", "not made again and compared (--rebuild does it)", command=foreign.PAGES)


def _key(campaign: Campaign) -> SigningKey | None:
    signer = read_signer(campaign)
    return None if signer is None else signer.as_key()


def _differs(campaign: Campaign, name: str, findings: tuple[str, ...]) -> Step:
    """Another version of our code may word or draw things otherwise: then a difference proves nothing."""
    made_by = other_code(campaign)
    if made_by is not None:
        reason = f"made by another version ({made_by}): text not compared; use that version"
        return Step(name, "not checked", reason, findings, other_version=made_by)
    return Step(name, "failed", "not what the evidence gives", findings, command=foreign.PAGES)


def _said(files: Mapping[str, bytes]) -> str:
    """The decision in a word or two, for a reader who holds the note beside it."""
    decision = loads_strict(files["decision.json"], file="note/decision.json")
    balance = loads_strict(files["balance.json"], file="note/balance.json")
    for row in balance["rows"]:
        if row["configuration_id"] == decision["chosen"]:
            priced = row["committed_cost"] is not None
            cost = f"{row['committed_cost']} {row['currency']}" if priced else "cost not applicable"
            return f"{decision['chosen']}, {cost}"
    return str(decision["outcome"])


def _of(findings: tuple[str, ...]) -> tuple[str, ...]:
    """Paths of the files that findings name."""
    return tuple(finding.split(": ", 1)[0] for finding in findings)


def _facts(files: Mapping[str, bytes]) -> object:
    """What a decision rests on and says, without its words: every version must come to the same."""
    decision, balance = (loads_strict(files[name], file=f"note/{name}") for name in ("decision.json", "balance.json"))
    rows = {
        row["configuration_id"]: [row["admissible"], row["accepted"], row["failures"], row["committed_cost"]]
        + [[summary["corpus_id"], summary["seed"], summary["raw_seconds"]] for summary in row["summaries"]]
        for row in balance["rows"]
    }
    return decision["outcome"], decision["chosen"], rows


def _same_verdicts(campaign: Campaign, judged: Mapping[str, bytes]) -> bool:
    """Whether the files in `verdicts/` say the same of every attempt, in whatever words: accepted, by which checks."""

    def said(data: bytes, name: str) -> object:
        verdict = loads_strict(data, file=f"verdicts/{name}")
        checks = verdict.get("checks", ())
        return verdict.get("accepted"), [(check.get("name"), check.get("passed")) for check in checks]

    attempts = [name for name in judged if "/" not in name]
    there = {path.name: path.read_bytes() for path in campaign.verdicts.glob("*.json")}
    return sorted(attempts) == sorted(there) and all(
        said(judged[name], name) == said(there[name], name) for name in attempts
    )


def _in_note(files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"note/{name}": data for name, data in files.items()}


def _differences(wanted: Mapping[str, bytes], found: Mapping[str, bytes]) -> tuple[str, ...]:
    findings = [f"{name}: missing" for name in sorted(wanted.keys() - found.keys())]
    findings += [f"{name}: nothing gives this file" for name in sorted(found.keys() - wanted.keys())]
    both = sorted(wanted.keys() & found.keys())
    return (*findings, *(f"{name}: differs" for name in both if wanted[name] != found[name]))
