"""`runner compare A B`: two campaigns side by side, what changed, and whether they may be compared (M47)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from runner.decide.model import Balance, BalanceRow, Decision, Summary
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.manifest import Manifest
from runner.evidence.repricing import read_repricing
from runner.flows.note_state import NoteState, note_state
from runner.flows.source import open_campaign
from runner.pricing.core import Catalogue
from runner.pricing.tariffs import load_catalogue
from runner.protocol.changes import content_changes
from runner.protocol.schema import Judgement, Lock
from runner.units import parse_decimal, round_half_up

_DURATION_FIELDS = ("measurement", "warm_up")
_QUALITY_FIELDS = ("quality", "reproduction")


@dataclass(frozen=True)
class Side:
    """One campaign, as its files say."""

    name: str
    note: NoteState
    lock: Lock
    decision: Decision
    balance: Balance
    manifests: Mapping[str, Manifest]
    catalogue: Catalogue
    repriced_from: str | None
    """Id of the note whose measurements this one prices again, if it does."""


@dataclass(frozen=True)
class Pair:
    """One configuration measured on one corpus with one seed on both sides. Seconds are medians."""

    configuration: str
    corpus_id: str
    seed: int
    a_seconds: Decimal | None
    b_seconds: Decimal | None
    separated: bool | None
    a_cost: str | None
    b_cost: str | None

    @property
    def ratio(self) -> Decimal | None:
        """Median of B over median of A."""
        if not self.a_seconds or self.b_seconds is None:
            return None
        return self.b_seconds / self.a_seconds


@dataclass(frozen=True)
class Comparison:
    """`obstacles`: why durations or quality must not be compared; empty when they may."""

    a: Side
    b: Side
    obstacles: tuple[str, ...]
    changes: Mapping[str, tuple[str, ...]]
    pairs: tuple[Pair, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]

    @property
    def verdict(self) -> str:
        if self.obstacles:
            return "These campaigns must not be compared: " + "; ".join(self.obstacles) + "."
        return (
            "Same texts, same judgement, same way of measuring: the two may be compared. Their passes are never pooled."
        )

    def lines(self) -> Iterator[str]:
        for letter, side in (("A", self.a), ("B", self.b)):
            yield f"{letter}: {side.name}, {side.note.words}: {side.decision.chosen or 'undecided'}"
            if side.repriced_from is not None:
                yield f"   {_repriced(letter, side, self)}"
        yield ""
        yield self.verdict
        for what, changes in self.changes.items():
            yield f"{what}: " + ("the same" if not changes else f"{len(changes)} difference{'s' * (len(changes) > 1)}")
            yield from (f"  {change}" for change in changes)
        if self.pairs and not self.obstacles:
            shown = _names([(pair.configuration, pair.corpus_id, pair.seed) for pair in self.pairs])
            width = max(map(len, ("configuration", *shown)))
            yield f"{'configuration':<{width}} {'A':>12} {'B':>12} {'B/A':>8}"
            for name, pair in zip(shown, self.pairs, strict=True):
                yield _row(f"{name:<{width}}", pair)
        for letter, names in (("A", self.only_a), ("B", self.only_b)):
            if names:
                yield f"measured only in {letter}: {', '.join(names)}"

    def as_json(self) -> dict[str, Any]:
        def text(value: Any) -> Any:
            return str(value) if isinstance(value, Decimal) else value

        return {
            "a": _side_json(self.a),
            "b": _side_json(self.b),
            "may_be_compared": not self.obstacles,
            "obstacles": list(self.obstacles),
            "changes": {what: list(changes) for what, changes in self.changes.items()},
            "pairs": [
                {**{key: text(value) for key, value in asdict(pair).items()}, "ratio": text(pair.ratio)}
                for pair in self.pairs
            ],
            "only_a": list(self.only_a),
            "only_b": list(self.only_b),
        }


def _side_json(side: Side) -> dict[str, str | None]:
    """`note_id`: that of the signed note (null: none); `stale`: why it is not that of `decision_id` any more."""
    return {
        "name": side.name,
        "note_id": side.note.signed_id,
        "decision_id": side.note.decision_id,
        "stale": side.note.why,
        "chosen": side.decision.chosen,
        "repriced_from": side.repriced_from,
    }


def _repriced(letter: str, side: Side, both: Comparison) -> str:
    """Two notes of the same measurements are no second measurement: that is said before any figure."""
    other, name = (both.b, "B") if letter == "A" else (both.a, "A")
    same = side.repriced_from in (other.note.signed_id, other.note.decision_id)
    which = f"{name}, note {side.repriced_from}" if same else f"note {side.repriced_from}"
    return f"{letter} prices the measurements of {which} again: nothing was measured for it"


def compare(path_a: Path, path_b: Path) -> Comparison:
    """Read both sides (folders or archives) and put them side by side."""
    with open_campaign(path_a) as campaign_a, open_campaign(path_b) as campaign_b:
        a, b = _side(campaign_a, path_a), _side(campaign_b, path_b)
    rows_a, rows_b = _measured(a), _measured(b)
    both = [name for name in rows_a if name in rows_b]
    obstacles = tuple(_obstacles(a.lock.judgement, b.lock.judgement))
    return Comparison(
        a=a,
        b=b,
        obstacles=obstacles,
        changes=_changes(a, b),
        pairs=tuple(_pair(*rows_a[name], *rows_b[name], countable=not obstacles) for name in both),
        only_a=tuple(_names([name for name in rows_a if name not in rows_b])),
        only_b=tuple(_names([name for name in rows_b if name not in rows_a])),
    )


def _side(campaign: Campaign, path: Path) -> Side:
    for file, command in ((campaign.lock, "runner freeze"), (campaign.decision, "runner decide")):
        if not file.is_file():
            raise InputRefused("this campaign is not decided yet", file=file, next_step=command)
    return Side(
        name=str(path),
        note=note_state(campaign),
        lock=Lock.load(campaign.lock),
        decision=Decision.load(campaign.decision),
        balance=Balance.load(campaign.balance),
        manifests={file.stem: Manifest.load(file) for file in sorted(campaign.manifests.glob("*.json"))},
        catalogue=load_catalogue(campaign.tariffs),
        repriced_from=None if (link := read_repricing(campaign)) is None else link.note_id,
    )


def _measured(side: Side) -> dict[tuple[str, str, int], tuple[BalanceRow, Summary]]:
    return {
        (row.configuration_id, summary.corpus_id, summary.seed): (row, summary)
        for row in side.balance.rows
        if row.measured
        for summary in row.summaries
    }


def _obstacles(a: Judgement, b: Judgement) -> Iterator[str]:
    """What makes durations or quality of two campaigns answers to different questions."""
    if [corpus.records_sha256 for corpus in a.corpora] != [corpus.records_sha256 for corpus in b.corpora]:
        yield "the corpora hold other texts or labels"
    if a.max_length != b.max_length or _model(a)["truncation"] != _model(b)["truncation"]:
        yield f"texts are cut elsewhere ({a.max_length} and {b.max_length} tokens)"
    for what, fields in (("measured in another way", _DURATION_FIELDS), ("judged by other rules", _QUALITY_FIELDS)):
        for field in fields:
            changes = content_changes(a.protocol[field], b.protocol[field])
            if changes:
                yield f"{what} ({field}: {'; '.join(str(change) for change in changes)})"


def _model(judgement: Judgement) -> dict[str, Any]:
    model = judgement.protocol["model"]
    assert isinstance(model, dict)
    return model


def _changes(a: Side, b: Side) -> dict[str, tuple[str, ...]]:
    first, second = a.lock.judgement, b.lock.judgement
    files = [{file.path: file.sha256 for file in judgement.model_files} for judgement in (first, second)]
    return {
        "model": _said(content_changes(_model(first), _model(second)), content_changes(*files)),
        "question and rules": _said(
            content_changes(_without_model(first), _without_model(second)),
            content_changes(_asked(first), _asked(second)),
        ),
        "software and hardware": _said(content_changes(_stacks(a), _stacks(b))),
        "prices": _said(content_changes(_prices(a.catalogue), _prices(b.catalogue))),
    }


def _without_model(judgement: Judgement) -> dict[str, Any]:
    return {key: value for key, value in judgement.protocol.items() if key != "model"}


def _asked(judgement: Judgement) -> dict[str, Any]:
    return {"deadline": judgement.deadline, "deliverables": list(judgement.deliverables)}


def _said(*changes: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(str(change) for group in changes for change in group)


def _stacks(side: Side) -> dict[str, Any]:
    """Values of every stack entry over all machines, so that the order of machines does not matter."""
    found: dict[str, set[str]] = {}
    for manifest in side.manifests.values():
        for section, content in manifest.stack.items():
            entries = content.items() if isinstance(content, dict) else [("", content)]
            for key, value in entries:
                found.setdefault(f"{section} {key}".strip(), set()).add(str(value))
    return {key: " / ".join(sorted(values)) for key, values in found.items()}


def _prices(catalogue: Catalogue) -> dict[str, str]:
    return {
        " ".join((offer.gpu, offer.billing, str(offer.days or ""))).strip(): (
            f"{offer.price_per_lot} {offer.currency} ({offer.catalogue_date})"
        )
        for offer in catalogue.offers
    }


def _pair(row_a: BalanceRow, a: Summary, row_b: BalanceRow, b: Summary, *, countable: bool) -> Pair:
    """Medians differ for good only when their gap is larger than the larger of the two ranges (M32)."""
    first, second = _decimal(a.median_seconds), _decimal(b.median_seconds)
    ranges = [_decimal(a.range_seconds), _decimal(b.range_seconds)]
    separated = None
    if countable and first is not None and second is not None and ranges[0] is not None and ranges[1] is not None:
        separated = abs(first - second) > max(ranges[0], ranges[1])
    return Pair(row_a.configuration_id, a.corpus_id, a.seed, first, second, separated, _cost(row_a), _cost(row_b))


def _decimal(text: str | None) -> Decimal | None:
    return None if text is None else parse_decimal(text, name="seconds")


def _cost(row: BalanceRow) -> str | None:
    return None if row.committed_cost is None else f"{row.committed_cost} {row.currency or ''}".strip()


def _names(measured: Sequence[tuple[str, str, int]]) -> list[str]:
    """(configuration, corpus, seed) in words, as far as they are needed to tell the lines apart (M27, M38)."""
    corpora, seeds = ({key[place] for key in measured} for place in (1, 2))
    return [
        configuration
        + (f" on {corpus}" if len(corpora) > 1 or len(seeds) > 1 else "")
        + (f", seed {seed}" if len(seeds) > 1 else "")
        for configuration, corpus, seed in measured
    ]


def _row(name: str, pair: Pair) -> str:
    def seconds(value: Decimal | None) -> str:
        return "no median" if value is None else f"{round_half_up(value, 3)} s"

    ratio = "" if pair.ratio is None else str(round_half_up(pair.ratio, 3))
    words = {True: "separated", False: "not separated: no difference shown", None: ""}[pair.separated]
    costs = "" if pair.a_cost == pair.b_cost else f"  cost {pair.a_cost or 'none'} -> {pair.b_cost or 'none'}"
    both = f"{seconds(pair.a_seconds):>12} {seconds(pair.b_seconds):>12}"
    return f"{name} {both} {ratio:>8}  {words}{costs}".rstrip()
