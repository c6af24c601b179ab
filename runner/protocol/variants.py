"""Series and single variants as the list of variants to be measured (M14, M15, M16)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from pydantic import ValidationError

from runner.errors import InputRefused, show_value
from runner.evidence.attempt import Settings
from runner.evidence.model import Scalar
from runner.protocol.schema import LockedVariant, Protocol, Series

BATCH = "batch_size"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


def expand(protocol: Protocol, *, max_length: int | None = None) -> tuple[LockedVariant, ...]:
    """All variants in the order of the protocol: series first, then single ones.

    Batch series give `b1`, `b4`, `b8`; another series `<series>-<value>`. `max_length` is the frozen
    effective length (tokens), filled in where a variant asks for none. A setting that a second series
    names again is not measured twice: `also_in` holds that series' name.
    """
    found: list[LockedVariant] = []
    for variant in _wanted(protocol, max_length):
        found = _with(found, variant)
    return tuple(found)


def batch_series(
    batches: Sequence[int], protocol: Protocol, *, max_length: int | None = None
) -> tuple[LockedVariant, ...]:
    """`BATCHES="1 4 8"`: the variants `b1`, `b4`, `b8`, on the base of the protocol's batch series."""
    if not batches or len(set(batches)) != len(batches) or min(batches) < 1:
        shown = " ".join(map(str, batches))
        raise InputRefused(
            "batches must be different whole numbers from 1 on",
            column="--batches",
            value=shown,
            next_step="write them such as 1,4,8",
        )
    series = next((series for series in protocol.series if series.variable == BATCH), None)
    name, base = ("batch", Settings()) if series is None else (series.name, series.base)
    wanted = Series(name=name, variable=BATCH, values=tuple(batches), base=base)
    return tuple(_of_series(wanted, protocol, max_length))


def _wanted(protocol: Protocol, max_length: int | None) -> Iterator[LockedVariant]:
    for series in protocol.series:
        yield from _of_series(series, protocol, max_length)
    for variant in protocol.variant:
        yield LockedVariant(id=variant.id, series=None, settings=_filled(variant.settings, protocol, max_length))


def _of_series(series: Series, protocol: Protocol, max_length: int | None) -> Iterator[LockedVariant]:
    for value in series.values:
        settings = _filled(_changed(series, value), protocol, max_length)
        yield LockedVariant(id=_name(series, value), series=series.name, settings=settings)


def _changed(series: Series, value: Scalar) -> Settings:
    """The base with one variable changed; the value must fit that setting's type."""
    content = series.base.as_json()
    if series.variable.startswith("extra."):
        content["extra"] = {**content["extra"], series.variable.removeprefix("extra."): value}
    else:
        content[series.variable] = value
    try:
        return Settings.model_validate(content, strict=True)
    except ValidationError as error:
        message = error.errors(include_url=False)[0]["msg"].lower()
        raise InputRefused(
            f"{show_value(value)} is no value for {series.variable} in series '{series.name}': {message}",
            next_step="correct this value of the series in the protocol",
        ) from None


def _filled(settings: Settings, protocol: Protocol, max_length: int | None) -> Settings:
    """The protocol's maximum length and truncation where the variant names none: frozen for all alike."""
    length = settings.max_length or max_length or protocol.model.max_length
    truncation = settings.truncation and protocol.model.truncation
    return settings.model_copy(update={"max_length": length, "truncation": truncation})


def _name(series: Series, value: Scalar) -> str:
    if series.variable == BATCH:
        return f"b{value}"
    shown = str(value).lower() if isinstance(value, bool) else "none" if value is None else str(value)
    return f"{series.name}-{_NOT_IN_NAMES.sub('-', shown).strip('-') or 'empty'}"


def _with(found: list[LockedVariant], variant: LockedVariant) -> list[LockedVariant]:
    """Add a variant; equal settings in another series are the same work, a taken id gets its series' name."""
    for index, earlier in enumerate(found):
        if earlier.settings == variant.settings:
            if variant.series is None or variant.series in (earlier.series, *earlier.also_in):
                raise InputRefused(
                    f"the variants '{earlier.id}' and '{variant.id}' have the same settings",
                    next_step="delete one of the two, or change what it sets",
                )
            merged = earlier.model_copy(update={"also_in": (*earlier.also_in, variant.series)})
            return [*found[:index], merged, *found[index + 1 :]]
    taken = {earlier.id for earlier in found}
    if variant.id in taken and variant.series is not None:
        variant = variant.model_copy(update={"id": f"{variant.series}-{variant.id}"})
    if variant.id in taken:
        raise InputRefused(f"the variant id '{variant.id}' stands twice", next_step="give every variant its own id")
    return [*found, variant]


def variant_of(variants: Iterable[LockedVariant], variant_id: str) -> LockedVariant | None:
    """The variant with that id, or None."""
    return next((variant for variant in variants if variant.id == variant_id), None)
