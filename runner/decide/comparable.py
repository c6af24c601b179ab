"""Whether configurations did the same work: same length limit, same texts cut (M29, MO-17)."""

from __future__ import annotations

from collections.abc import Sequence

from runner.decide.model import BalanceRow, Reason
from runner.decide.sentences import say


def different_work(rows: Sequence[BalanceRow], deliverables: Sequence[str]) -> tuple[Reason, ...]:
    """Sentences for every difference in truncation between these configurations; empty when there is none."""
    found = []
    lengths = {row.configuration_id: str(row.settings.max_length) for row in rows}
    if len(set(lengths.values())) > 1:
        found.append(say("work.max-length", found=_shown(lengths)))
    for corpus in deliverables:
        for code, field in (("work.truncated", "truncated_documents"), ("work.cut", "cut_tokens")):
            values = {
                row.configuration_id: getattr(summary, field)
                for row in rows
                for summary in row.summaries
                if summary.corpus_id == corpus and summary.accepted
            }
            if len({value for value in values.values() if value is not None}) > 1:
                known = {name: str(value) for name, value in values.items() if value is not None}
                found.append(say(code, corpus=corpus, found=_shown(known)))
    return tuple(found)


def _shown(values: dict[str, str]) -> str:
    return " against ".join(f"{value} ({name})" for name, value in values.items())
