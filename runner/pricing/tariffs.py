"""The catalogue for the rest of the house: the reader of `core`, its refusals as ours, patterns checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from runner.catalogue.devices import check_pattern
from runner.errors import InputRefused
from runner.pricing import core


@contextmanager
def refusals() -> Iterator[None]:
    """Turn a `PriceError` of the dependency-free core into the `InputRefused` that users see."""
    try:
        yield
    except core.PriceError as error:
        raise InputRefused(
            error.what,
            file=error.file,
            line=error.line,
            column=error.column,
            value=error.value,
            next_step=error.next_step,
            details=error.details,
        ) from None


def load_catalogue(path: Path) -> core.Catalogue:
    """Tariffs of a file; refused with every line that cannot be used."""
    with refusals():
        catalogue = core.read_catalogue(path)
    return check_patterns(catalogue, path)


def future_dates(
    catalogue: core.Catalogue, now: datetime | None = None, *, gpu: str | None = None, file: Path | None = None
) -> tuple[str, ...]:
    """A sentence for each price (of one GPU, or of all) whose catalogue date is not yet anywhere on Earth (M40).

    `now` is UTC (default: this moment). A price keeps its meaning, so it is said and not refused: nothing but the
    clock of this machine speaks against it, and a decision never reads a clock.
    """
    latest = ((datetime.now(UTC) if now is None else now) + timedelta(hours=14)).date()
    return tuple(
        f"the price of {offer.gpu} in line {offer.line}{'' if file is None else f' of {file}'} is dated "
        f"{offer.catalogue_date}, which is in the future: no catalogue says so yet"
        for offer in catalogue.offers
        if offer.catalogue_date > latest and gpu in (None, offer.gpu)
    )


def check_patterns(catalogue: core.Catalogue, path: Path) -> core.Catalogue:
    """The same catalogue, once each of its device patterns is known to be safe."""
    for gpu in catalogue.gpus:
        check_pattern(gpu.device_pattern, file=path)
    return catalogue
