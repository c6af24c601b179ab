"""Which files come with this note, what each is and whom it serves."""

from __future__ import annotations

from typing import Any

from runner.note.words import Speaker


def delivered_files(speaker: Speaker) -> list[dict[str, Any]]:
    """Rows (file, what it is, for whom): all that `runner report` leaves in `note/`, the reader's files first."""
    t = speaker.catalogue
    rows = (
        (
            "note/decision-note.pdf",
            t.gettext("this note, signed, with the evidence attached"),
            t.gettext("to keep and to hand on"),
        ),
        (
            "note/decision-note.html",
            t.gettext("the same note as one page that needs no network and no script"),
            t.gettext("reading on a screen, screen readers"),
        ),
        (
            "note/calculator.html",
            t.gettext("packages and totals for other windows and lots, from the prices of this note"),
            t.gettext("whoever buys"),
        ),
        (
            "note/attempts-spreadsheet.csv",
            t.gettext(
                "every attempt, for a spreadsheet in the language of this note: its decimal mark and separator, "
                "nothing that would run as a formula, a reason in every empty cell"
            ),
            t.gettext("people with Excel or LibreOffice"),
        ),
        (
            "note/plan.ics",
            t.gettext("the plan as it was before anything was measured"),
            t.gettext("a calendar program"),
        ),
        (
            "note/attempts.csv, note/balance.csv",
            t.gettext("attempts and balance, exact: decimal point, cells parted by commas"),
            t.gettext("programs"),
        ),
        (
            "note/decision.json, note/balance.json",
            t.gettext("the decision with its reasons, and all it rests on"),
            t.gettext("programs, auditors"),
        ),
        (
            "note/decision-note.qmd, note/figures/",
            t.gettext("the text and the figures that PDF and HTML were made from"),
            t.gettext("whoever makes or compares notes"),
        ),
        (
            "note/signer.json",
            t.gettext("who signed: public key, and the certificate of the PDF"),
            t.gettext("whoever checks the signatures"),
        ),
        (
            "note/SHA256SUMS, note/SHA256SUMS.sig",
            t.gettext("the hashes of all files that the signature covers, and the signature"),
            t.gettext("whoever checks the files"),
        ),
    )
    return [{"files": names.split(", "), "what": what, "for": whom} for names, what, whom in rows]
