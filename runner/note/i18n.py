"""Translation by gettext PO catalogues in `templates/locale/<language>.po`; English is the source.

Messages name their values: `%(count)s documents`. A value never goes through a catalogue.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.pofile import PoFileError, read_po

from runner.errors import InputRefused

SOURCE_LANGUAGE = "en"
SHIPPED_TEMPLATES = (
    "correct it (docs/templates.md); or move this folder templates/ away: report then takes the shipped one"
)
_MEND_CATALOGUE = (
    "correct the file with an editor for PO catalogues, or choose another language: runner report --language en"
)
_PLACE = re.compile(r"%\((\w+)\)s")
_LANGUAGE = re.compile(r"[a-z]{2,3}(_[A-Z]{2})?")


def N_(message: str) -> str:
    """Marks a literal for the catalogues where it is translated later."""
    return message


def NN_(singular: str, plural: str) -> tuple[str, str]:
    """The same for a pair of forms."""
    return singular, plural


def fill(message: str, values: dict[str, str]) -> str:
    """Put the values into their places; a place without a value is a bug and raises KeyError."""
    return _PLACE.sub(lambda place: values[place.group(1)], message).replace("%%", "%")


@dataclass(frozen=True)
class Catalogue:
    """Messages of one language. What is missing is shown in English and listed in `missing`."""

    language: str
    messages: dict[tuple[str, str | None], tuple[str, ...]] = field(default_factory=dict)
    plural_index: str = "(n != 1)"
    missing: set[str] = field(default_factory=set)

    def gettext(self, message: str, **values: str) -> str:
        return fill(self.template(message), values)

    def ngettext(self, singular: str, plural: str, number: int, **values: str) -> str:
        """Plural form for `number`; `%(count)s` is its plain digits unless a `count` is given."""
        return fill(self.plural_template(singular, plural, number), {"count": str(number), **values})

    def pgettext(self, context: str, message: str, **values: str) -> str:
        """For short words whose translation depends on where they stand."""
        return fill(self.template(message, context), values)

    def template(self, message: str, context: str | None = None) -> str:
        """The translated message with its places still open."""
        if self.language == SOURCE_LANGUAGE and (message, context) not in self.messages:
            return message
        found = self.messages.get((message, context))
        if found is None:
            self.missing.add(message)
            return message
        return found[0]

    def plural_template(self, singular: str, plural: str, count: int) -> str:
        forms = self.messages.get((singular, None))
        if forms is None:
            if self.language != SOURCE_LANGUAGE:
                self.missing.add(singular)
            return singular if count == 1 else plural
        return forms[_plural_form(self.plural_index, count)] if len(forms) > 1 else forms[0]


def language_option(catalogue: Catalogue) -> str:
    """What to add to `runner verify` so that it speaks this language: nothing for English."""
    return "" if catalogue.language == SOURCE_LANGUAGE else f" --lang {catalogue.language}"


def load_catalogue(templates: Path, language: str) -> Catalogue:
    """Catalogue of a language; English needs no file. Unknown or broken: refused with the list there is."""
    folder = templates / "locale"
    if not _LANGUAGE.fullmatch(language):
        raise InputRefused("not a language code", value=language, next_step=f"choose one of {_known(folder)}")
    path = folder / f"{language}.po"
    if not path.exists():
        if language == SOURCE_LANGUAGE:
            return Catalogue(language)
        raise InputRefused(
            "there is no catalogue for this language",
            file=path,
            value=language,
            next_step=f"choose one of {_known(folder)}, or add the file (docs/templates.md)",
        )
    catalog = read_catalogue(path)
    messages = {_key(message): forms for message in catalog if (forms := _forms(message)) is not None}
    return Catalogue(language, messages, str(catalog.plural_expr))


def read_catalogue(path: Path) -> Catalog:
    """The PO file as Babel has it; a syntax error is refused with its line."""
    try:
        with path.open("rb") as stream:
            return read_po(stream, locale=path.stem, abort_invalid=True)
    except OSError as error:
        raise InputRefused(
            f"the catalogue cannot be read: {error.strerror}", file=path, next_step=_MEND_CATALOGUE
        ) from None
    except (PoFileError, ValueError) as error:
        raise InputRefused(f"not a valid PO catalogue: {error}", file=path, next_step=_MEND_CATALOGUE) from None


def _key(message: Message) -> tuple[str, str | None]:
    return (message.id[0] if isinstance(message.id, tuple | list) else message.id, message.context)


def _forms(message: Message) -> tuple[str, ...] | None:
    """Translated forms, or None for the header, a fuzzy or an empty message."""
    if not message.id or message.fuzzy:
        return None
    strings = message.string if isinstance(message.string, tuple | list) else (message.string,)
    return tuple(str(text) for text in strings) if all(strings) else None


def _plural_form(expression: str, count: int) -> int:
    """Index by the catalogue's own rule, a C expression in `n`."""
    from gettext import c2py

    rule = c2py(expression)  # the standard library's safe parser: arithmetic in n only
    return int(rule(count))


def _known(folder: Path) -> str:
    return ", ".join(sorted({SOURCE_LANGUAGE, *(path.stem for path in folder.glob("*.po"))}))
