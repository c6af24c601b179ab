"""The frozen order of attempts: rotated, so that no variant is always first (M21)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from runner.errors import InputRefused
from runner.evidence.attempt import Attempt, Slot, Status
from runner.protocol.schema import LockedVariant

# Such a row stays, and its slot is still to be done: it says nothing about the variant.
_SLOT_STILL_OPEN = frozenset({Status.INTERRUPTED, Status.UNAVAILABLE})


@dataclass(frozen=True)
class Planned:
    """One attempt to come. `retry_of` names the interrupted attempt whose slot is run again."""

    variant: LockedVariant
    corpus_id: str
    seed: int
    slot: Slot
    retry_of: str | None = None


def schedule(
    variants: Sequence[LockedVariant], corpora: Sequence[str], seeds: Sequence[int], passes: int
) -> Iterator[Planned]:
    """All attempts in order: pass by pass, inside a pass each corpus and seed, variants rotated by the pass.

    Three variants and five passes give 1-4-8, 4-8-1, 8-1-4, 1-4-8, 4-8-1.
    """
    for pass_index in range(passes):
        turn = pass_index % len(variants) if variants else 0
        rotated = [*variants[turn:], *variants[:turn]]
        for corpus_id in corpora:
            for seed in seeds:
                for position, variant in enumerate(rotated):
                    yield Planned(variant, corpus_id, seed, Slot(pass_index=pass_index, position=position))


def missing(planned: Iterable[Planned], attempts: Iterable[Attempt], gpu: str) -> list[Planned]:
    """What is left to do on this kind of device, in order. A failed slot is done: its row stays (M23)."""
    done: set[tuple[str, str, int, int]] = set()
    interrupted: dict[tuple[str, str, int, int], str] = {}
    for attempt in attempts:
        if attempt.gpu_declared != gpu:
            continue
        key = (attempt.variant_id, attempt.corpus_id, attempt.seed, attempt.slot.pass_index)
        if attempt.status is Status.INTERRUPTED:
            interrupted[key] = attempt.attempt_id
        elif attempt.status not in _SLOT_STILL_OPEN:
            done.add(key)
    left = []
    for item in planned:
        key = (item.variant.id, item.corpus_id, item.seed, item.slot.pass_index)
        if key not in done:
            left.append(Planned(item.variant, item.corpus_id, item.seed, item.slot, interrupted.get(key)))
    return left


def refuse_unequal(others: Iterable[Planned], attempts: Iterable[Attempt], gpu: str, passes: int) -> None:
    """More passes than planned for some variants only are refused (M3); completing what the others have is not.

    `others`: the slots, up to `passes`, of the lock's variants that were not asked for.
    """
    behind = sorted({item.variant.id for item in missing(others, attempts, gpu)})
    if behind:
        raise InputRefused(
            f"more passes than planned for some variants only: {', '.join(behind)} would have fewer "
            "(more passes count for all variants alike)",
            column="--passes",
            value=passes,
            next_step=f"runner measure --gpu {gpu} --passes {passes}",
        )
