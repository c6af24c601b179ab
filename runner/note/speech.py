"""`runner verify` in a language: a text of the checks is recognised by its form and said by the catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from runner.note.build import OWN_TEMPLATES
from runner.note.checked import CHECKS, FRAME, KINDS, STEP_NAMES, SUBJECTS, Form
from runner.note.checked_readers import READERS
from runner.note.format import Formatter
from runner.note.i18n import SOURCE_LANGUAGE, Catalogue, load_catalogue

FORMS: Mapping[str, Form] = {**FRAME, **CHECKS, **READERS}
_PLACE = re.compile(r"\{(\w+)\}")
_SHAPES = {
    "count": r"\d+",
    "utc": r"\d{4}-\d\d-\d\dT[0-9:.]+Z",
    "money": r"\d+(?:\.\d+)? [A-Z]{3}",
    "kind": "|".join(map(re.escape, KINDS)),
    "sha256": r"[0-9a-f]+",
}
_MOST = 4000  # characters; a longer text is none of ours, and matching it would take long


@dataclass(frozen=True)
class Found:
    """A sentence in a text: its code, its values; `before`, `after`: what stands around it, such as `note/x: `."""

    code: str
    values: Mapping[str, str]
    before: str = ""
    after: str = ""


def recognise(text: str) -> Found | None:
    """The sentence in `text`: the whole of it, or behind the name of a file, or before a file in brackets."""
    if len(text) > _MOST:
        return None
    whole = _match(text)
    if whole is not None:
        return whole
    for colon in re.finditer(": ", text):
        rest = _match(text[colon.end() :])
        if rest is not None:
            return Found(rest.code, rest.values, text[: colon.start()])
    bracket = text.rfind(" (")
    if bracket > 0 and text.endswith(")"):
        head = recognise(text[:bracket])
        if head is not None and not head.after:
            return Found(head.code, head.values, head.before, text[bracket:])
    return None


def _match(text: str) -> Found | None:
    for pattern, code in _patterns():
        match = pattern.fullmatch(text)
        if match is None:
            continue
        values = match.groupdict()
        if all(recognise(value) for name, value in values.items() if name.endswith("_why")):
            return Found(code, values)
    return None


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    """The most specific form first: the one with the most letters of its own."""
    forms = [(form, code) for code, both in FORMS.items() for form in ((both,) if isinstance(both, str) else both)]
    ordered = sorted(forms, key=lambda pair: -len(_PLACE.sub("", pair[0])))
    return tuple((_pattern(form), code) for form, code in ordered)


def _pattern(form: str) -> re.Pattern[str]:
    parts = _PLACE.split(form)
    named = (
        f"(?P<{part}>{_SHAPES.get(_kind(part), '.+?')})" if n % 2 else re.escape(part) for n, part in enumerate(parts)
    )
    return re.compile("".join(named), re.DOTALL)


def _kind(name: str) -> str:
    return name.rpartition("_")[2]


@dataclass(frozen=True)
class Voice:
    """One language of the report. The catalogue is the installation's own: a campaign's could say anything."""

    catalogue: Catalogue
    fmt: Formatter

    def say(self, text: str) -> str:
        """A text of the checks in this language; what is not ours stays as it is, between quotation marks."""
        found = recognise(text)
        if found is None:
            plain = self.catalogue.language == SOURCE_LANGUAGE or not re.search(r"[^\W\d_]{2,} ", text)
            return text if plain else self.catalogue.gettext("“%(text)s”", text=text)
        said = self.form(found.code, **found.values)
        if found.before:
            said = self.catalogue.template("{name}: {rest}").format(name=found.before, rest=said)
        return said + found.after

    def form(self, code: str, **values: str) -> str:
        """The sentence of `code` with these values, each said as its name asks for."""
        form = FORMS[code]
        if isinstance(form, str):
            template = self.catalogue.template(form)
        else:
            template = self.catalogue.plural_template(*form, int(values["n_count"]))
        return template.format(**{name: self._value(name, value) for name, value in values.items()})

    def step(self, name: str) -> str:
        return self.catalogue.template(STEP_NAMES[name]) if name in STEP_NAMES else name

    def steps(self, names: Iterable[str]) -> str:
        return ", ".join(self.step(name) for name in names)

    def command(self, command: str) -> str:
        """A command as it is; what is said of it behind, in brackets, in this language."""
        line, gap, remark = command.partition("   (")
        return f"{line}{gap}{self.say(remark.removesuffix(')'))})" if gap else command

    def subject(self, kind: str, subject: str) -> str:
        return self.labelled(self.catalogue.template(SUBJECTS[kind]), subject)

    def labelled(self, name: str, rest: str) -> str:
        """`name: rest`, with the blank before the colon that some languages want."""
        return self.catalogue.template("{name}: {rest}").format(name=name, rest=rest)

    def _value(self, name: str, value: str) -> str:
        match _kind(name):
            case "count":
                return self.fmt.integer(value)
            case "utc":
                return self.fmt.instant(value)
            case "money":
                amount, _, currency = value.partition(" ")
                return self.fmt.money(amount, currency)
            case "why":
                return self.say(value)
            case "key":
                return self.say(value) if recognise(value) else value
            case "kind":
                return self.catalogue.template(KINDS[value])
            case "step":
                return self.step(value)
            case "steps":
                return self.steps(value.split(", "))
            case _:
                return value


def voice_of(language: str) -> Voice:
    """Raises: InputRefused for a language that this installation has no catalogue of."""
    return Voice(load_catalogue(OWN_TEMPLATES, language), Formatter(language))
