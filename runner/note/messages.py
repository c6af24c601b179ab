"""Bring the catalogues up to date: every message of the templates, the note's code and the decision's sentences.

`python -m runner.note.messages [TEMPLATES]` adds new messages (empty, to be translated), drops unused ones and
keeps translations, in the installation's templates or in a campaign's own. It never translates.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from babel.messages.pofile import write_po
from jinja2 import Environment

from runner.decide.sentences import SENTENCES
from runner.errors import InputRefused
from runner.evidence.files import write_atomic
from runner.note.i18n import read_catalogue

_KEYWORDS: dict[str, object] = {
    "gettext": None,
    "ngettext": (1, 2),
    "pgettext": ((1, "c"), 2),
    "_": None,
    "N_": None,
    "NN_": (1, 2),
}
_HEADERS_LEFT_OUT = (
    b'"POT-Creation-Date', b'"PO-Revision-Date', b'"Report-Msgid-Bugs-To', b'"Last-Translator', b'"Language-Team',
    b'"Generated-By', b'"Project-Id-Version', b"# Copyright", b"# FIRST AUTHOR", b"#, fuzzy", b"#, python-",
)  # fmt: skip
_OWN = Path(__file__).resolve().parent
_TEMPLATES = _OWN.parents[1] / "templates"

Found = tuple[str, str | tuple[str, str], str | None]


def wanted(templates: Path) -> Catalog:
    """Catalogue of all messages, untranslated, with the places where they stand."""
    catalog = Catalog(project="gpu-decision-note", charset="utf-8")
    for place, message, context in (*_from_templates(templates), *_from_code(), *_from_sentences()):
        catalog.add(message, locations=[(place, 1)], context=context)
    return catalog


def _from_templates(templates: Path) -> Iterator[Found]:
    environment = Environment(extensions=["jinja2.ext.i18n"], comment_start_string="{##", comment_end_string="##}")
    environment.newstyle_gettext = True  # type: ignore[attr-defined]
    environment.policies["ext.i18n.trimmed"] = True
    for path in sorted(templates.rglob("*.qmd")):
        source = "\n".join(line for line in path.read_text(encoding="utf-8").split("\n") if "{{< " not in line)
        for _, _, message in environment.extract_translations(source):  # type: ignore[attr-defined]
            if found := _texts(message):
                yield path.relative_to(templates).as_posix(), found, None


def _from_code() -> Iterator[Found]:
    for path in sorted(_OWN.rglob("*.py")):
        found = extract("python", io.BytesIO(path.read_bytes()), keywords=_KEYWORDS)  # type: ignore[arg-type]
        for _, message, _, context in found:
            if texts := _texts(message):
                yield path.relative_to(_OWN).as_posix(), texts, context


def _texts(message: object) -> str | tuple[str, str] | None:
    """The literals among the arguments: one, or singular and plural."""
    parts = [part for part in ([message] if isinstance(message, str) else message or ()) if isinstance(part, str)]  # type: ignore[attr-defined]
    if not parts or not parts[0]:
        return None
    return parts[0] if len(parts) == 1 else (parts[0], parts[1])


def _from_sentences() -> Iterator[Found]:
    for code, sentence in sorted(SENTENCES.items()):
        yield f"decision: {code}", sentence, None


def update(path: Path, templates: Path) -> tuple[int, int]:
    """Rewrite one catalogue; returns how many messages there are and how many have no translation."""
    old = read_catalogue(path)
    new = wanted(templates)
    out = Catalog(locale=path.stem, project="gpu-decision-note", charset="utf-8", fuzzy=False)
    out.mime_headers  # noqa: B018  (fills in the plural rule of the locale)
    missing = count = 0
    for message in new:
        if not message.id:
            continue
        known = old.get(message.id, context=message.context)
        string = known.string if known is not None and not known.fuzzy else None
        missing += not (string if isinstance(string, str) else string and all(string))
        count += 1
        out.add(message.id, string, locations=message.locations, context=message.context)
    stream = io.BytesIO()
    write_po(stream, out, omit_header=False, sort_output=True, width=0, include_lineno=False)
    write_atomic(path, b"\n".join(line for line in stream.getvalue().split(b"\n") if not _personal(line)))
    return count, missing


def _personal(line: bytes) -> bool:
    return line.startswith(_HEADERS_LEFT_OUT)


def main(templates: Path) -> None:
    """Update every catalogue of these templates and say what is left to translate."""
    catalogues = sorted((templates / "locale").glob("*.po"))
    if not catalogues:
        raise InputRefused(
            "no catalogue is here", file=templates / "locale", next_step="make an empty file such as locale/it.po"
        )
    for path in catalogues:
        count, missing = update(path, templates)
        sys.stdout.write(f"{path.name}: {count} messages, {missing} without translation\n")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else _TEMPLATES)
    except InputRefused as error:
        sys.exit(str(error))
