"""Are the corpora of a protocol distinct works (M37, M38), and is tuning apart from all of them (M5)?

One corpus under two ids would count as two deliverables and halve the cost of each. Texts are compared as
a reader sees them; ids are not: two data sets may both be numbered from 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

from runner.corpus.overlap import find_overlap, shared_documents
from runner.corpus.read import Corpus
from runner.errors import InputRefused, show_value
from runner.evidence.campaign import Campaign

_NAMED = 3


def check_distinct(campaign: Campaign, corpora: Mapping[str, Corpus], deliverables: Sequence[str]) -> Iterator[str]:
    """What two corpora share, as warnings. Refused: the same texts twice, and two deliverables that mostly are.

    Mostly: more than half of the documents of one of them stand in the other, too.
    """
    for (one, first), (other, second) in combinations(corpora.items(), 2):
        if len(first.documents) == len(second.documents):
            _refuse_the_same(campaign, one, first, other, second)
        shared = shared_documents(first.documents, second.documents)
        counts = (
            f"{shared.first} of the {len(first.documents)} texts of '{one}' are {shared.second} of the "
            f"{len(second.documents)} of '{other}'"
        )
        mostly = 2 * shared.first > len(first.documents) or 2 * shared.second > len(second.documents)
        if mostly and one in deliverables and other in deliverables:
            raise InputRefused(
                f"the corpora '{one}' and '{other}' are mostly the same work: {counts}",
                file=campaign.protocol,
                column="corpus",
                value=other,
                details=shared.details(one, other),
                next_step="take the shared texts out of one of them, or name only one as a deliverable in "
                "protocol/plan.toml: each deliverable is counted once",
            )
        if shared.first:
            pairs = ", ".join(f"{show_value(pair[0])} = {show_value(pair[1])}" for pair in shared.pairs[:_NAMED])
            more = ", ..." if max(shared.first, shared.second) > _NAMED else ""
            yield (
                f"corpora {one} and {other} share texts: {counts} ({pairs}{more}); each is processed and counted whole"
            )
        if shared.same_ids:
            yield (
                f"corpora {one} and {other}: {shared.same_ids} ids stand for different texts in the two, such as "
                f"{show_value(shared.example_id)}; ids do not tell their predictions apart, --corpus does"
            )


def _refuse_the_same(campaign: Campaign, one: str, first: Corpus, other: str, second: Corpus) -> None:
    if sorted(item.text for item in first.documents) != sorted(item.text for item in second.documents):
        return
    same = first.records_sha256 == second.records_sha256
    raise InputRefused(
        f"the corpora '{one}' and '{other}' are one: "
        + ("the same records" if same else "the same texts under other ids or labels"),
        file=campaign.protocol,
        column="corpus",
        value=other,
        details=(f"{one}: {first.path}", f"{other}: {second.path}"),
        next_step="leave one of them out: every deliverable is a corpus of its own",
    )


def refuse_tuned_on(tuning: Corpus, corpus_id: str, final: Corpus, final_id: str, *, file: Path) -> None:
    """Tuning texts of one corpus must not stand in the final split of another one: the configuration saw them (M5)."""
    shared = find_overlap(tuning.documents, final.documents).shared_texts
    if shared:
        pairs = tuple(
            f"tuning {show_value(pair.tuning_id)} and final {show_value(pair.final_id)}: texts equal {pair.by}"
            for pair in shared[:20]
        )
        more = (f"and {len(shared) - 20} more",) if len(shared) > 20 else ()
        count = len({pair.final_id for pair in shared})
        raise InputRefused(
            f"tuning of corpus '{corpus_id}' and the final corpus '{final_id}' share {count} texts",
            file=file,
            details=(*pairs, *more),
            next_step="take these documents out of one of the two splits",
        )
