"""Jinja2 into Quarto-style Markdown: values are escaped, undefined ones refused, nothing is computed.

A value of the campaign (an id, a note, an error message) becomes text that Markdown shows literally.
Only the templates and the catalogues may contain markup.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import FunctionLoader, StrictUndefined, TemplateError, TemplateSyntaxError, Undefined, UndefinedError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from runner.errors import InputRefused
from runner.note.i18n import SHIPPED_TEMPLATES, Catalogue, fill

_MARKUP = re.compile(r"([\\`*_{}\[\]<>|~&@$^]|--|:::|\.\.\.)")
_LINE_START = re.compile(r"^([-+=:#!]|\d+(?=[.)](?:\s|$)))")
_INCLUDE = re.compile(r"^\{\{< include (\S+) >\}\}[ \t]*$", re.MULTILINE)
_CONTROL_LINE = re.compile(r"^[ \t]*(\{%-?\s*(?:for|endfor|if|elif|else|endif)\b[^\n{}]*%\})[ \t]*\n", re.MULTILINE)
_INCLUDE_LEVELS = 5


class Markdown(str):
    """Text that already is Markdown: from a template, a catalogue, or escaped before."""

    __slots__ = ()


def visible(text: str) -> str:
    """Control, format and unassigned characters written as `U+XXXX`; a line end as `\\n`."""
    out = []
    for character in text.replace("\r\n", "\n"):
        if character == "\n":
            out.append("\\n")
        elif character == "\t":
            out.append("\\t")
        elif unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
            out.append(f"U+{ord(character):04X}")
        else:
            out.append(character)
    return "".join(out)


def escape(value: object) -> Markdown:
    """Markdown that shows this text literally, wherever in a line it stands."""
    if isinstance(value, Markdown):
        return value
    if isinstance(value, Undefined):
        return Markdown(value)  # a strict one says its name when it is used
    if not isinstance(value, str):
        raise TypeError(f"a template may only show text, not {type(value).__name__}: {value!r}")
    text = _MARKUP.sub(lambda found: "".join("\\" + mark for mark in found.group(1)), visible(value))
    if start := _LINE_START.match(text):
        first = start.group(1)
        text = first + "\\" + text[len(first) :] if first.isdigit() else "\\" + text
    return Markdown(text)


def code(value: str) -> Markdown:
    """An identifier in the fixed-width face. A span, because backslashes mean nothing between backticks."""
    return Markdown(f"[{escape(value)}]{{.code}}") if value else Markdown("")


def shortened(text: str, most: int, note: str) -> str:
    """The beginning of a long text and a note of its whole length, such as `… (5000 characters)`."""
    return text if len(text) <= most else f"{text[:most]}… ({note})"


def attribute(value: str) -> Markdown:
    """Text between the double quotes of an attribute; a brace would end the attributes."""
    return Markdown(re.sub(r'(["\\{}])', r"\\\1", visible(value)))


def verbatim(value: str) -> Markdown:
    """A line of a code block, where nothing is markup. A line that would close the block is refused."""
    text = visible(value)
    if text.lstrip().startswith(("```", "~~~")):
        raise InputRefused(
            "a code block cannot show this line",
            value=value,
            next_step="leave the filter out in the template, or take the value out of the protocol",
        )
    return Markdown(text)


def yaml_text(value: str) -> Markdown:
    """A string of the front matter, quoted."""
    return Markdown(json.dumps(visible(value), ensure_ascii=False))


def render_markdown(
    templates: Path, name: str, context: Mapping[str, Any], catalogue: Catalogue, integer: Callable[[int], str] = str
) -> str:
    """Fill the template `name`; the result is plain Quarto-style Markdown with one final line feed.

    `integer` formats the counts that templates show. Refuses a missing file, a syntax error and an
    undefined variable, which any percentile is (M30).
    """
    lines = _lines(templates, name)
    # `runner verify` fills templates of archives from strangers: they must reach nothing but their values.
    environment = ImmutableSandboxedEnvironment(
        loader=FunctionLoader(lambda wanted: _filled(lines if wanted == name else _lines(templates, wanted))),
        undefined=StrictUndefined,
        finalize=escape,
        extensions=["jinja2.ext.i18n"],
        keep_trailing_newline=True,
        comment_start_string="{##",  # {#sec-x} is an attribute of Quarto
        comment_end_string="##}",
        autoescape=False,
    )
    environment.newstyle_gettext = True  # type: ignore[attr-defined]
    environment.policies["ext.i18n.trimmed"] = True
    environment.globals.update(_translators(catalogue, integer))
    environment.filters.update(
        code=code, attribute=attribute, verbatim=verbatim, yaml=yaml_text, number=lambda n: Markdown(integer(n))
    )
    try:
        text = environment.get_template(name).render(context)
    except TemplateSyntaxError as error:
        raise InputRefused(
            f"the template has a syntax error: {error.message}",
            **_place(lines, error.lineno, error.message or ""),
            next_step=SHIPPED_TEMPLATES,
        ) from None
    except UndefinedError as error:
        raise InputRefused(
            f"the template does not fit this version of the tool: it asks for something that the note does not have: "
            f"{error.message}",
            **_place(lines, _template_line(error), error.message or ""),
            next_step="templates of another version: move this folder templates/ away, report then takes its own and "
            "keeps a copy (docs/templates.md); a value of your own making: percentiles are never there",
        ) from None
    except TemplateError as error:
        raise InputRefused(
            f"the template cannot be filled: {error}", file=templates / name, next_step=SHIPPED_TEMPLATES
        ) from None
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"


def _translators(catalogue: Catalogue, integer: Callable[[int], str]) -> dict[str, Callable[..., Markdown]]:
    """`{% trans %}` in templates: the message is Markdown, the values in it are escaped."""

    def gettext(message: str, **values: str) -> Markdown:
        return _fill(catalogue.template(message), values)

    def ngettext(singular: str, plural: str, num: int, **values: Any) -> Markdown:
        shown = {name: integer(value) if isinstance(value, int) else value for name, value in values.items()}
        return _fill(catalogue.plural_template(singular, plural, num), shown)

    return {"gettext": gettext, "ngettext": ngettext, "_": gettext}


def _fill(message: str, values: Mapping[str, Any]) -> Markdown:
    return Markdown(fill(message, {name: escape(value) for name, value in values.items()}))


@dataclass(frozen=True)
class _Line:
    """A line of the template that is filled, and where it stands in its file (from 1)."""

    text: str
    file: Path
    number: int


def _lines(templates: Path, name: str, level: int = 0) -> list[_Line]:
    """A template with its Quarto includes put in, before Jinja sees it."""
    path = (templates / name).resolve()
    if not path.is_relative_to(templates.resolve()):
        raise InputRefused(
            "an include leaves the folder of the templates",
            file=templates,
            value=name,
            next_step="put the included file below templates/",
        )
    if level > _INCLUDE_LEVELS:
        raise InputRefused(
            "includes are nested too deeply",
            file=path,
            next_step="include fewer levels: a file that includes itself never ends",
        )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputRefused(f"the template cannot be read: {error}", file=path, next_step=SHIPPED_TEMPLATES) from None
    out: list[_Line] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if (found := _INCLUDE.fullmatch(line)) is None:
            out.append(_Line(line, templates / name, number))
            continue
        included = _lines(templates, found.group(1), level + 1)
        while len(included) > 1 and not included[-1].text:
            included.pop()
        out += included
    return out


def _filled(lines: list[_Line]) -> str:
    """What Jinja is given: a line that only controls leaves no line behind."""
    return _CONTROL_LINE.sub(r"\1", "\n".join(line.text for line in lines))


def _place(lines: list[_Line], number: int | None, message: str) -> dict[str, Any]:
    """File and line for line `number` (from 1) of what Jinja was given, as keywords of an error.

    Several lines of the file may have become one: then the one with a name of the message counts.
    """
    joined: list[list[_Line]] = [[]]
    for line in lines:
        joined[-1].append(line)
        if not _CONTROL_LINE.match(line.text + "\n"):
            joined.append([])
    if number is None or not 0 < number <= len(joined) or not joined[number - 1]:
        return {"file": lines[0].file}
    names = re.findall(r"'(\w+)'", message)
    candidates = joined[number - 1]
    found = next((line for line in candidates if any(name in line.text for name in names)), candidates[-1])
    return {"file": found.file, "line": found.number, "value": found.text.strip()}


def _template_line(error: BaseException) -> int | None:
    """Line of the filled template at which Jinja stopped; it puts template frames into the traceback."""
    number, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            number = trace.tb_lineno
        trace = trace.tb_next
    return number
