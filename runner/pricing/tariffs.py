"""The catalogue for the rest of the house: the reader of `core`, its refusals as ours, patterns checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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


def check_patterns(catalogue: core.Catalogue, path: Path) -> core.Catalogue:
    """The same catalogue, once each of its device patterns is known to be safe."""
    for gpu in catalogue.gpus:
        check_pattern(gpu.device_pattern, file=path)
    return catalogue
