"""The decision as lines of text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from runner.decide.model import Balance, BalanceRow, Decision, Reason, Summary
from runner.decide.ordering import ordered
from runner.decide.sentences import english, shown_seconds


def answer_lines(
    balance: Balance, decision: Decision, *, sort: str = "per-corpus", descending: bool = False
) -> list[str]:
    """Answer first, then the table of what was measured, what was not, and what remains open."""
    head = f"chosen: {decision.chosen}" if decision.chosen else "undecided"
    if decision.no_comparison:
        head += " (no comparison)"
    question = decision.question + (" (synthetic data: made up, an example)" if decision.synthetic else "")
    lines = [question, "", head, *_listed(decision.reasons), f"  rule: {decision.rule}"]
    lines += _section("would help", decision.would_help)
    lines += ["", *_table(ordered([row for row in balance.rows if row.measured], sort, descending=descending))]
    lines += _section(
        "not chosen",
        (
            f"{item.configuration_id}: {f'{item.constraint}: ' if item.constraint else ''}{item.reason}"
            for item in decision.excluded
        ),
    )
    lines += _section("uncertain", decision.uncertain)
    lines += _section("what would change the answer", decision.what_if)
    lines += _section("money for the comparison itself", balance.search_costs)
    lines += _section("different stacks: the conclusion is about the complete tested configurations",
                      decision.different_stacks)  # fmt: skip
    lines += _section("left out", (f"{item.attempt_id}: {item.reason}" for item in decision.left_out))
    lines += _section("warnings", decision.warnings)
    return lines + _section("not measured, so never the winner", _unmeasured(balance))


def _listed(items: Iterable[Reason | str]) -> list[str]:
    return [f"  {item}" for item in items]


def _section(title: str, items: Iterable[Reason | str]) -> list[str]:
    listed = _listed(items)
    return ["", f"{title}:", *listed] if listed else []


def _unmeasured(balance: Balance) -> list[str]:
    """One line per GPU: many variants of a GPU that was never there need not fill the screen."""
    gpus: dict[str, list[str]] = {}
    for row in balance.rows:
        if not row.measured:
            gpus.setdefault(f"{row.gpu}: {row.window_reason}", []).append(row.variant_id)
    return [f"{head} ({', '.join(variants)})" for head, variants in gpus.items()]


def _table(measured: Sequence[BalanceRow]) -> list[str]:
    """Measured configurations in this order, one line per corpus and seed."""
    head = [
        "configuration",
        "corpus",
        "accepted",
        "median s",
        "min s",
        "max s",
        "truncated",
        "window",
        "cost",
        "per corpus",
        "admissible",
    ]
    body = [_cells(row, summary) for row in measured for summary in row.summaries]
    if not body:
        return ["nothing was measured"]
    widths = [max(len(line[column]) for line in [head, *body]) for column in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in [head, *body]
    ]


def _no_cost_per_corpus(row: BalanceRow) -> str:
    if row.cost_per_validated_corpus is not None:
        return "none"  # of an inadmissible configuration the corpora cannot be bought at that cost
    if row.own_machine:
        return "not applicable"
    return "undefined" if row.committed_cost is not None else "not calculated"


def _cells(row: BalanceRow, summary: Summary) -> Sequence[str]:
    def money(amount: str | None, otherwise: str) -> str:
        return otherwise if amount is None else english("cost_money", f"{amount} {row.currency or ''}".rstrip())

    return [
        row.configuration_id,
        summary.corpus_id
        if len({one.seed for one in row.summaries}) == 1
        else f"{summary.corpus_id}, seed {summary.seed}",
        f"{summary.accepted} of {summary.attempts}",
        *(
            "none" if value is None else str(shown_seconds(Decimal(value)))
            for value in (summary.median_seconds, summary.minimum_seconds, summary.maximum_seconds)
        ),
        "not known" if summary.truncated_documents is None else str(summary.truncated_documents),
        "not known" if row.window is None else english("window_elapsed_seconds", row.window.window_seconds),
        money(row.committed_cost, "not applicable" if row.own_machine else "no price"),
        money(row.cost_per_validated_corpus if row.admissible else None, _no_cost_per_corpus(row)),
        "yes" if row.admissible else f"no ({row.first_failed})",
    ]
