"""One plain context of display strings for the templates. Templates compute nothing."""

from __future__ import annotations

from typing import Any

from runner.evidence.signing import SigningKey
from runner.note.evidence import Evidence
from runner.note.parts.appendix import checking, fingerprints
from runner.note.parts.files import delivered_files
from runner.note.parts.frozen import drivers, frozen
from runner.note.parts.measured import durations, memory, utilisation, waste
from runner.note.parts.options import options
from runner.note.parts.page_one import page_one
from runner.note.parts.quality import quality
from runner.note.parts.records import attempts, failures
from runner.note.parts.rental import rental
from runner.note.parts.stacks import stacks
from runner.note.parts.tables import left_out_of_tables
from runner.note.words import Speaker


def build_context(
    evidence: Evidence,
    speaker: Speaker,
    key: SigningKey | None,
    figures: dict[str, dict[str, str]],
    *,
    example: bool = False,
) -> dict[str, Any]:
    """Everything that a template may show; docs/templates.md lists it. Leaves are text, true or false, or counts."""
    question = evidence.protocol.question
    check = checking(evidence, key, speaker)
    return {
        "note": {
            "language": speaker.catalogue.language,
            "title": speaker.catalogue.gettext(
                "Decision note %(name)s, revision %(revision)s", name=question.name, revision=str(question.revision)
            ),
            "name": question.name,
            "revision": str(question.revision),
            "date": speaker.fmt.date(evidence.dated_utc),
            "id": check["note_id"],
            "synthetic": question.synthetic,
            "example": example,
            "mark": _mark(question.synthetic, example, speaker),
        },
        "decision": page_one(evidence, speaker),
        "drivers": drivers(evidence, speaker),
        "protocol": frozen(evidence, speaker),
        "cut": left_out_of_tables(evidence, speaker),
        "options": options(evidence, speaker),
        "durations": durations(evidence, speaker),
        "quality": quality(evidence, speaker),
        "memory": memory(evidence, speaker),
        "waste": waste(evidence, speaker),
        "utilisation": utilisation(evidence, speaker),
        "rental": rental(evidence, speaker),
        "failures": failures(evidence, speaker),
        "attempts": attempts(evidence, speaker),
        "stacks": stacks(evidence, speaker),
        "fingerprints": fingerprints(evidence, speaker),
        "files": delivered_files(speaker),
        "check": check,
        "figures": figures,
    }


def _mark(synthetic: bool, example: bool, speaker: Speaker) -> str:
    """What stands on every page of a note that is not about real work."""
    if example:
        return speaker.catalogue.gettext("Synthetic example: nothing was measured")
    return speaker.catalogue.gettext("Synthetic data") if synthetic else ""
