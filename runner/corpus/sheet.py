"""The data sheet of a built corpus: counts, lengths, classes, and a plot of the lengths. Pure text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from runner.corpus.sample import Indices
from runner.corpus.scan import OUTSIDE, Scan
from runner.corpus.strata import OUTSIDE_NAME, Band
from runner.errors import show_value

_MARKS = re.compile(r"[|`*_\[\]#]")
_BINS = 40
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 640, 232, 48, 36
_COLOURS = ("#3b6ea5", "#d08c2b", "#7a4f9a", "#4d8f5b", "#a3473f")


def split_facts(scan: Scan, places: Indices, bands: Sequence[Band]) -> dict[str, Any]:
    """Counts, token lengths and classes of one split, per stratum."""
    strata = {}
    for number, name in [*enumerate(band.name for band in bands), (OUTSIDE, OUTSIDE_NAME)]:
        members = places[scan.band[places] == number]
        if len(members):
            strata[name] = _lengths(scan, members) | {"classes": _classes(scan, members)}
    return _lengths(scan, places) | {
        "classes": _classes(scan, places),
        "strata": strata,
        "histogram": _histogram(scan.tokens[places]),
    }


def _lengths(scan: Scan, members: Indices) -> dict[str, int]:
    tokens = np.sort(scan.tokens[members])
    return {
        "documents": len(tokens),
        "tokens": int(tokens.sum()),
        "least_tokens": int(tokens[0]),
        "median_tokens": int(tokens[(len(tokens) - 1) // 2]),
        "most_tokens": int(tokens[-1]),
    }


def _classes(scan: Scan, members: Indices) -> dict[str, int]:
    counts = np.bincount(scan.label[members], minlength=len(scan.labels)).tolist()
    return {label: count for label, count in zip(scan.labels, counts, strict=True) if count}


def _histogram(tokens: Any) -> dict[str, Any]:
    """Equal bins from 0 to the longest text; `bin_tokens` is their width."""
    width = max(1, -(-int(tokens.max() + 1) // _BINS))
    counts = np.bincount(tokens // width, minlength=_BINS).tolist()
    return {"bin_tokens": width, "counts": counts}


def data_sheet(facts: Mapping[str, Any]) -> str:
    """`README.md` beside the corpus."""
    special = "counted" if facts["tokenizer"]["count_special_tokens"] else "not counted"
    lines = [
        f"# Data sheet: {facts['name']}",
        "",
        f"- Licence of the texts: {_stated(facts['licence'])}",
        f"- Permission to use them here: {_stated(facts['permission'])}",
        *_source_lines("Source", facts["source"]),
        *(_source_lines("Source of the tuning split", facts["tuning_source"]) if "tuning_source" in facts else ()),
        f"- Choice: {'every document' if facts['everything'] else 'sampled'}, seed {facts['seed']}",
        f"- Lengths: tokens of the tokenizer `{facts['tokenizer']['tokenizer_sha256'][:16]}`, special ones {special}",
        f"- Fingerprint of the build: `{facts['build_sha256']}`",
        *_contradiction_lines(facts),
        *(f"- Note: {_text(note)}" for note in facts["notes"]),
        "",
    ]
    for name, split in facts["splits"].items():
        lines += _split_lines(name, split, facts["bands"])
    lines += ["![Lengths of the texts](lengths.svg)", "", *_similar_lines(facts["near_duplicates"])]
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    """A user's text on one Markdown line, without effect on the lines and cells around it."""
    shown = show_value(value, len(value))[1:-1].replace("\\'", "'")
    return _MARKS.sub(r"\\\g<0>", shown).replace("<", "&lt;")


def _stated(value: str) -> str:
    return _text(value) if value else "**not stated**"


def _source_lines(title: str, source: Mapping[str, Any]) -> list[str]:
    lines = [
        f"- {title}: {_text(source['file'])}, {source['documents']} documents, SHA-256 `{source['sha256']}`",
        f"- {source['repeated_texts']} documents repeat the text of another one (blanks and case apart), "
        f"{source['repeated_texts_with_other_labels']} of them with another label; "
        f"{source['outside_all_bands']} have a length outside all bands",
    ]
    if source["left_out_empty"]:
        lines.append(f"- {source['left_out_empty']} documents without text were left out, as asked for")
    for label, count in source["left_out_labels"].items():
        lines.append(f"- {count} documents with the label {_text(label)} were left out, as asked for")
    return lines


def _contradiction_lines(facts: Mapping[str, Any]) -> list[str]:
    if "contradictions" not in facts:
        return []
    found = facts["contradictions"]
    return [f"- {found['documents']} documents stand with one text and several labels: listed in `{found['file']}`"]


def _split_lines(name: str, split: Mapping[str, Any], bands: Sequence[Mapping[str, Any]]) -> list[str]:
    limits = {
        band["name"]: f"{band['least_tokens']} to {band['most_tokens']}"
        if band["most_tokens"] is not None
        else f"{band['least_tokens']} or more"
        for band in bands
    }
    classes = list(split["classes"])
    header = "".join(f" {_text(label)} |" for label in classes)
    lines = [
        f"## {name}: {split['documents']} documents (`{split['file']}`)",
        "",
        f"Fingerprints: bytes `{split['bytes_sha256']}`, records `{split['records_sha256']}`",
        "",
        f"| stratum | tokens | documents | least | median | most |{header}",
        "|---|---|---:|---:|---:|---:|" + "---:|" * len(classes),
    ]
    for stratum, facts in [*split["strata"].items(), ("all", split)]:
        numbers = "".join(f" {facts['classes'].get(label, 0)} |" for label in classes)
        lines.append(
            f"| {_text(stratum)} | {limits.get(stratum, '')} | {facts['documents']} | {facts['least_tokens']} "
            f"| {facts['median_tokens']} | {facts['most_tokens']} |{numbers}"
        )
    return [*lines, ""]


def _similar_lines(similar: Mapping[str, Any]) -> list[str]:
    if not similar["searched"]:
        return [f"Near-duplicates were not searched for: {similar['reason']}."]
    kinds = {"inside_final": "inside final", "final_like_tuning": "final documents like a tuning one"}
    found = {kind: similar[kind] for kind in kinds if kind in similar}
    counts = ", ".join(f"{facts['documents']} {kinds[kind]}" for kind, facts in found.items())
    lines = [
        f"Near-duplicates (at least {similar['least_similarity']} of the word triples in common; none was removed): "
        f"{counts}.",
        "",
    ]
    for facts in found.values():
        for pair in facts["most_similar"][:5]:
            lines.append(f"- {_text(pair['ids'][0])} and {_text(pair['ids'][1])}: {pair['similarity']}")
    return lines


def lengths_svg(facts: Mapping[str, Any]) -> str:
    """Histogram of the final split's lengths, with the limits of the bands."""
    histogram = facts["splits"]["final"]["histogram"]
    counts, width = histogram["counts"], histogram["bin_tokens"]
    most, span = max(counts), len(counts) * width
    across, up = _WIDTH - _LEFT - 12, _HEIGHT - _BOTTOM - 36
    title = f"{facts['name']}: lengths of {facts['splits']['final']['documents']} texts in tokens"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'font-family="sans-serif" font-size="11"><title>{escape(title)}</title>',
        f'<text x="{_LEFT}" y="14">{escape(title)}</text>',
    ]
    base = _HEIGHT - _BOTTOM
    for number, count in enumerate(counts):
        if count:
            height = up * count / most
            left = _LEFT + across * number / len(counts)
            colour = _COLOURS[_band_number(number * width, facts["bands"]) % len(_COLOURS)]
            parts.append(
                f'<rect x="{left:.2f}" y="{base - height:.2f}" width="{across / len(counts) - 1:.2f}" '
                f'height="{height:.2f}" fill="{colour}"/>'
            )
    parts.append(f'<line x1="{_LEFT}" y1="{base}" x2="{_WIDTH - 12}" y2="{base}" stroke="#333"/>')
    for share in (0, 0.25, 0.5, 0.75, 1):
        left = _LEFT + across * share
        parts.append(f'<text x="{left:.2f}" y="{base + 15}" text-anchor="middle">{span * share:.0f}</text>')
    parts.append(f'<text x="{_LEFT - 6}" y="{base - up + 4}" text-anchor="end">{most}</text>')
    parts += _limit_lines(facts["bands"], _LEFT, across / span, base, up)
    names = ", ".join(f"{band['name']} from {band['least_tokens']}" for band in facts["bands"])
    legend = escape(f"{names} tokens; bars are {width} tokens wide")
    parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - 6}">{legend}</text></svg>')
    return "\n".join(parts) + "\n"


def _limit_lines(
    bands: Sequence[Mapping[str, Any]], left: int, pixels_per_token: float, base: int, up: int
) -> list[str]:
    """A dashed line where each band begins, with its name where there is room for it."""
    parts, free_from = [], 0.0
    for band in bands:
        x = left + band["least_tokens"] * pixels_per_token
        if x > _WIDTH - 12:
            break
        parts.append(
            f'<line x1="{x:.2f}" y1="{base}" x2="{x:.2f}" y2="{base - up}" stroke="#777" stroke-dasharray="2 3"/>'
        )
        if x >= free_from:
            parts.append(f'<text x="{x + 3:.2f}" y="{base - up - 2}">{escape(band["name"])}</text>')
            free_from = x + 3 + 7 * len(band["name"])
    return parts


def _band_number(tokens: int, bands: Sequence[Mapping[str, Any]]) -> int:
    """Band of a bar, by its left edge."""
    return max((number for number, band in enumerate(bands) if tokens >= band["least_tokens"] - 1), default=0)
