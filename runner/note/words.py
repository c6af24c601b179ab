"""What the parts of the note say it with: translated words and formatted values in one hand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from runner.decide.model import Reason
from runner.decide.sentences import SENTENCES, kind_of, shown_seconds
from runner.evidence.attempt import Settings, Status
from runner.evidence.model import Record
from runner.note.format import Formatter, exact_fraction
from runner.note.i18n import N_, Catalogue
from runner.note.markdown import Markdown, escape, shortened
from runner.note.recorded import CHECK_NAMES, STATUS_NAMES, translated
from runner.note.recorded import kind as error_kind
from runner.units import round_half_up

NOTHING = "–"
_NOTE_MOST = 400
_MOST_NAMES = 6
_DECIMAL = re.compile(r"\d+\.\d+")


@dataclass(frozen=True)
class Speaker:
    """One language: `t.gettext("literal")` for words, `fmt` for values, `sentence` for reasons of the decision."""

    catalogue: Catalogue
    fmt: Formatter
    known: Mapping[str, Reason] = field(default_factory=dict)
    """Reasons by their English text: one may stand inside of another as a value."""
    zone: str = "UTC"
    """Of the plan: instants of the decision are told in it, as the deadline beside them is."""
    texts_language: str | None = None
    """Of the campaign's own texts, as far as the protocol states it (BCP 47)."""

    def say(self, message: str, **values: str) -> str:
        """Only for messages that are literals elsewhere (tables of words below)."""
        return message if message == NOTHING else self.catalogue.gettext(message, **values)

    def sentence(self, reason: Reason) -> str:
        """A reason of the decision, translated by its code; an unknown code keeps its English text."""
        template = SENTENCES.get(reason.code)
        if template is None:
            return reason.text
        translated = self.catalogue.template(template)
        inside = {name: self.sentence(part) for name, part in reason.parts.items()}
        return translated.format(
            **{name: inside.get(name) or self._value(name, value) for name, value in reason.values.items()}
        )

    def _value(self, name: str, value: str) -> str:
        match kind_of(name):
            case "money":
                amount, _, currency = value.partition(" ")
                return self.fmt.money(amount, currency)
            case "seconds":
                shown = shown_seconds(Decimal(value))
                return self.fmt.seconds(shown, max(0, -int(shown.as_tuple().exponent)))
            case "elapsed":
                return self.fmt.elapsed(value)
            case "utc":
                return self.fmt.local_instant(value, self.zone)
            case "count":
                return self.fmt.integer(value)
            case "minimum" | "threshold" if _DECIMAL.fullmatch(value):
                return self.fmt.plain(value)
            case "metric" if value in CHECK_NAMES:
                return self.say(CHECK_NAMES[value])
            case "group":
                return value.replace("=", " = ", 1)
            case "value" if _DECIMAL.fullmatch(value):
                return self.fmt.plain(f"{round_half_up(Decimal(value), 3).normalize():f}")
            case "constraint" if value in CONSTRAINT_NAMES:
                return self.say(CONSTRAINT_NAMES[value])
            case "names" | "name" | "corpora":
                return self.long_text(self.joined(value.split(", ")))
            case "days":
                return self.fmt.listed(value.split(", "), "or")
            case "offer":
                return self._offer(value)
            case _ if value in self.known:
                return self.sentence(self.known[value])
            case "why" | "text":
                return self.recorded(value)
            case "done" | "found" if value in NAMELESS:
                return self.say(NAMELESS[value])
            case "found":
                return self.long_text(self.parted(value.split("; ")))
            case _:
                return self.long_text(value)

    def recorded(self, text: str) -> str:
        """A sentence of the records in this language; other people's text as it is, between quotation marks."""
        if text == "-":
            return NOTHING
        return translated(text, self.say, self._recorded_value, self.quoted)

    def _recorded_value(self, name: str, value: str) -> str:
        match name.rpartition("_")[2]:
            case "count":
                return self.fmt.integer(value)
            case "value" | "minimum":
                return self.fmt.plain(value)
            case "shift":
                return "+" * value.startswith("+") + self.fmt.plain(value)
            case _:
                return value

    def quoted(self, text: str) -> str:
        """Text that is not ours: shortened by rule, between the quotation marks of the language."""
        return self.catalogue.gettext("“%(text)s”", text=self.long_text(text))

    def campaign_text(self, text: str) -> str:
        """A text of the campaign's own, with its language where that is stated and is not the note's (WCAG 3.1.2)."""
        if not text or self.texts_language in (None, self.catalogue.language):
            return text
        return Markdown(f"[{escape(text)}]{{lang={self.texts_language}}}")

    def error(self, kind: str, message: str) -> str:
        """`crash: the worker ended by SIGSEGV`; the name of an exception stays as it is."""
        return self.labelled(error_kind(kind, self.say), self.recorded(message))

    def labelled(self, name: str, value: str) -> str:
        """`name: value`, with the blank before the colon that some languages want."""
        return self.catalogue.gettext("%(name)s: %(value)s", name=name, value=value)

    def _offer(self, text: str) -> str:
        """`7 days` or `hourly`, as the decision names an offer."""
        found = re.fullmatch(r"(\d+) days", text)
        if found:
            return self.catalogue.ngettext("%(count)s day", "%(count)s days", int(found.group(1)))
        return self.catalogue.gettext("by the hour") if text == "hourly" else text

    def share(self, fraction: str) -> str:
        """`886/1000` as `88.6%`."""
        return self.fmt.percent(exact_fraction(fraction))

    def listed(self, names: Sequence[str], most: int = _MOST_NAMES) -> str:
        """`a, b, c`; of many names the first ones, and how many more there are."""
        more = len(names) - most
        if more <= 1:  # one name is not longer than the words that stand for it
            return ", ".join(names)
        first = ", ".join(names[:most])
        return self.catalogue.ngettext(
            "%(names)s and %(count)s more", "%(names)s and %(count)s more", more, names=first
        )

    def joined(self, names: Sequence[str], most: int = _MOST_NAMES) -> str:
        """`a, b and c`, for a sentence; of many names the first ones, and how many more there are."""
        if len(names) > most + 1 or names[-1].endswith("…"):
            return self.listed(names, most)
        return self.fmt.listed(names)

    def parted(self, parts: Sequence[str]) -> str:
        """`a; b`: parts of a sentence, with the blank before the semicolon that some languages want."""
        return self.catalogue.gettext("; ").join(parts)

    def long_text(self, text: str, most: int = _NOTE_MOST) -> str:
        """Free text of a record, shortened by rule; the whole is in the records."""
        if isinstance(text, Markdown):  # finished before
            return text
        whole = self.catalogue.gettext("%(count)s characters", count=str(len(text)))
        return shortened(text, most, whole)

    def status(self, status: Status) -> str:
        return self.say(STATUS_NAMES[status.value])

    def settings(self, settings: Settings) -> str:
        """What differs from plain settings, in words: `engine packed, batch size 4, bf16, grouping length-sorted`."""
        t = self.catalogue
        parts = []
        if settings.engine not in (None, "transformers"):
            parts.append(t.gettext("engine %(name)s", name=settings.engine))
        parts.append(t.gettext("batch size %(size)s", size=str(settings.batch_size)))
        parts += [str(value) for value in (settings.precision,) if value]
        plain = {"quantization": "none", "compile": "none", "grouping": "none", "padding_side": "right"}
        found = settings.as_json()
        shown = [name for name, usual in plain.items() if found[name] not in (usual, None)]
        shown += [name for name in ("attention", "padding") if found[name] is not None]
        parts += [f"{self.say(SETTING_NAMES[name])} {found[name]}" for name in shown]
        if settings.max_length is not None:
            parts.append(t.gettext("at most %(count)s tokens", count=self.fmt.integer(settings.max_length)))
        if settings.devices not in (None, 0, 1):
            parts.append(t.gettext("%(count)s devices", count=str(settings.devices)))
        if settings.workers not in (None, 1):
            parts.append(t.gettext("%(count)s processes per device", count=str(settings.workers)))
        if settings.threads is not None:
            parts.append(t.ngettext("%(count)s thread", "%(count)s threads", settings.threads))
        parts += [f"{name} {value}" for name, value in sorted(settings.extra.items())]
        return ", ".join(parts)


def reasons_in(records: Iterable[Record]) -> Iterator[Reason]:
    """Every reason anywhere inside of these records."""
    for record in records:
        if isinstance(record, Reason):
            yield record
        for name in type(record).model_fields:
            value = getattr(record, name)
            inside = value if isinstance(value, tuple) else (value,)
            yield from reasons_in(item for item in inside if isinstance(item, Record))


CONSTRAINT_WORDS = {
    "quality": N_("Quality"),
    "completeness": N_("Complete"),
    "enough passes": N_("Passes"),
    "memory": N_("Memory"),
    "settings": N_("Settings"),
    "window": N_("Window"),
    "deadline": N_("Deadline"),
    "price": N_("Price"),
    "availability": N_("Lots"),
}
SETTING_NAMES = {
    "quantization": N_("quantisation"),
    "compile": N_("compilation"),
    "grouping": N_("grouping"),
    "padding_side": N_("padding side"),
    "attention": N_("attention"),
    "padding": N_("padding"),
}
NAMELESS = {"unknown": N_("unknown"), "no device": N_("no device")}
CONSTRAINT_NAMES = {
    "quality": N_("quality"),
    "completeness": N_("completeness"),
    "settings": N_("settings in effect"),
    "enough passes": N_("enough passes"),
    "memory": N_("memory"),
    "window": N_("window"),
    "deadline": N_("deadline"),
    "price": N_("price"),
    "availability": N_("available lots"),
}
MET_WORDS = {
    "met": N_("met"),
    "not met": N_("not met"),
    "not assessable": N_("open"),
    "not applicable": NOTHING,
}
