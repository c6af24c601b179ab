"""Commands `report`, `verify`, `archive`: write and sign the note, check it, keep it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from runner.cli.output import Output, Session, runner_command
from runner.errors import RunnerError
from runner.evidence.campaign import Campaign
from runner.flows.collector import collector_paused

LANGUAGE_METAVAR = "[en|de|tr|fr|...]"
"""The catalogues that come with it; any other in `templates/locale/` is as good, and only reading them tells."""
LANGUAGE_HELP = "Language of the note (default: that of the note that is there, else en)."
_REPLACED = (
    "  replaces the note in {before}: the folder holds one. To have both, archive each (archives are named by their "
    "language): make report NOTE_LANG={before}, make archive, then make report NOTE_LANG={language}"
)
UNTRANSLATED = "not translated into {language}: "
"""How `runner.note.build` begins such a warning; a test holds it."""
_UNTRANSLATED_SHOWN = 3
_FILE = click.Path(dir_okay=False, path_type=Path)


@runner_command("report", short_help="Write and sign the decision note.")
@click.option("--language", metavar=LANGUAGE_METAVAR, default=None, help=LANGUAGE_HELP)
def report(session: Session, language: str | None) -> Output:
    """Decide, write the note as HTML and PDF, and sign it with every file of its evidence.

    The key: SIGNING_KEY (an SSH key), and PDF_SIGNING_P12 with PDF_SIGNING_PASSPHRASE_FILE for the PDF;
    without them local test keys of this user (never kept in the campaign), which show consistency only. A note
    that a key of yours signed is not replaced by one that a local test key signs.
    """
    with collector_paused():
        from runner.flows.report import make_report
        from runner.flows.standing import standing_language

        before = standing_language(Campaign(session.root))
        made = make_report(Campaign(session.root), language)
    replaced = before if before != made.language else None
    choice = made.decision.chosen or "undecided"
    lines = [
        f"note {made.note_id}: {choice}",
        *(f"  {reason}" for reason in made.decision.reasons),
        *(f"  {session.root / name}" for name in made.files),
        f"language: {made.language}"
        + (", as the note that was there (make report NOTE_LANG=... for another)" if made.kept else ""),
        *([_REPLACED.format(before=replaced, language=made.language)] if replaced else []),
        f"signed with: {made.signer.label}",
        *(f"warning: {warning}" for warning in _counted(made.warnings, made.language)),
        "next: make verify, or with other tools: sha256sum -c note/SHA256SUMS",
    ]
    data = {
        "note_id": made.note_id,
        "chosen": made.decision.chosen,
        "files": list(made.files),
        "language": made.language,
        "replaced": replaced,
        "key": made.signer.label,
        "local_test_key": made.signer.local_test,
        "warnings": list(made.warnings),
    }
    return Output(lines, data)


def _counted(warnings: Sequence[str], language: str) -> list[str]:
    """Templates of an earlier version lack many sentences: they are counted, and the first shown."""
    lacking = [text for text in warnings if text.startswith(UNTRANSLATED.format(language=language))]
    if len(lacking) <= _UNTRANSLATED_SHOWN:
        return list(warnings)
    first = lacking[0].removeprefix(UNTRANSLATED.format(language=language))
    return [
        *(text for text in warnings if text not in lacking),
        f"{len(lacking)} sentences are not translated into {language} and stand there in English (all: --json): "
        f"{first}, ...",
    ]


@runner_command("verify", short_help="Check hashes, signatures and chain, and recompute the decision.")
@click.argument("path", type=click.Path(path_type=Path), required=False)
@click.option(
    "--signers", type=_FILE, help="Your own OpenSSH allowed_signers file: whom you trust to sign. Also for a PDF alone."
)
@click.option("--certificate", type=_FILE, help="For a PDF alone: the certificate that must have signed it.")
@click.option("--lang", metavar=LANGUAGE_METAVAR, default="en", help="Language of this report (default: en).")
@click.option("--line-ends", is_flag=True, help="Accept a corpus whose line ends changed, if its records did not.")
@click.option("--rebuild", is_flag=True, help="Also make figures, HTML and PDF again and compare them (slow).")
@click.option("--run-evaluation", is_flag=True, help="Run the metric of its own that the protocol names: foreign code.")
def verify(
    session: Session,
    path: Path | None,
    signers: Path | None,
    certificate: Path | None,
    lang: str,
    line_ends: bool,
    rebuild: bool,
    run_evaluation: bool,
) -> Output:
    """Check PATH: a campaign folder (default: this one), its note folder, an archive, or the PDF alone.

    Exit 0 when everything fits, 3 when anything does not, with the name of the file.
    """
    from runner.protocol.procedure import foreign_code_allowed

    foreign_code_allowed.set(run_evaluation)
    with collector_paused():
        from runner.flows.verify import verify as check
        from runner.note.speech import voice_of

        voice = voice_of(lang)  # a language that is not there is refused before anything is read
        found = check(path or session.root, signers, certificate, line_ends=line_ends, rebuild=rebuild)
        stale = _stale(Campaign(path or session.root)) if found.kind == "folder" and not found.accepted else []
    return Output([*found.lines(lang), *map(voice.say, stale)], found.as_json(), 0 if found.accepted else 3)


def _stale(campaign: Campaign) -> list[str]:
    """What to do where rows came or a decision was made after the note was signed: nothing but that is mended by it."""
    from runner.flows.note_state import note_state

    try:
        state = note_state(campaign)
    except RunnerError:  # the decision itself cannot be read, which was said above
        return []
    if not state.stale:
        return []
    return [f"The note is stale: {state.why}. If that was you, next: make report"]


@runner_command("archive", short_help="Keep note, evidence and rental record in one signed archive.")
@click.option("--rental", type=_FILE, required=True, help="The rental record, such as rental.toml.")
@click.option("--without-texts", is_flag=True, help="An archive to show to others: no corpora, no model.")
def archive(session: Session, rental: Path, without_texts: bool) -> Output:
    """Match the rental record with the decision, field by field, and write archive/NOTE.zip (a BagIt bag)."""
    from runner.flows.archive import make_archive
    from runner.flows.foreign import shell_word

    made = make_archive(Campaign(session.root), rental, texts=not without_texts)
    lines = [
        f"{made.path}: {made.files} files, {made.bytes} bytes, signed with {made.key}",
        f"rental record: {made.match.summary()}",
        *(f"  {', '.join(fields)}: {reason}" for reason, fields in made.match.by_reason().items()),
        *(f"left out: {what}" for what in made.left_out),
        *(f"warning: {warning}" for warning in made.warnings),
        f"next: runner verify {shell_word(str(made.path))}",
    ]
    data = {
        "archive": str(made.path),
        "files": made.files,
        "bytes": made.bytes,
        "key": made.key,
        "matched": list(made.match.matched),
        "not_applicable": [list(pair) for pair in made.match.not_applicable],
        "left_out": list(made.left_out),
        "warnings": list(made.warnings),
    }
    return Output(lines, data)
