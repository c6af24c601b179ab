"""Production forecast: a planning assumption, apart from results and never an accepted one.

The assumption, said wherever the figures are shown: later documents have the same mix of lengths, are
processed by the same configuration on the same hardware, and take the same time per document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from runner.errors import InputRefused
from runner.pricing.core import Catalogue, PackageLine
from runner.pricing.packages import PackageAnswer, choose_package

ASSUMPTION = (
    "planning assumption, not a result: same mix of lengths, same configuration, same time per document as measured"
)


@dataclass(frozen=True, slots=True)
class Forecast:
    """Seconds for `documents` at the fastest and at the slowest accepted pass, and the packages that they need.

    Seconds are exact fractions of the measured ones, rounded up to the next millisecond. `package_changes`:
    the range lies across a package limit, so that the measured spread decides what has to be rented.
    """

    documents: int
    fastest_seconds: Decimal
    slowest_seconds: Decimal
    fastest: PackageAnswer | None
    slowest: PackageAnswer | None

    @property
    def package_changes(self) -> bool:
        return _line_name(self.fastest) != _line_name(self.slowest)


def forecast(
    documents: int,
    *,
    measured_documents: int,
    fastest: Decimal,
    slowest: Decimal,
    other_seconds: Decimal = Decimal(0),
    catalogue: Catalogue | None = None,
    gpu: str = "",
    devices: int = 1,
    lots: int | None = None,
    billing: Sequence[str] = ("package",),
    extra_periods: int = 0,
) -> Forecast:
    """Scale a measured range to `documents`; `other_seconds` (installation, export, ...) are added as they are.

    `lots`, `billing` and `extra_periods` are the plan's terms, as in the decision. Without a catalogue (own machine)
    only the durations are given: cost not applicable.
    """
    if documents < 1 or measured_documents < 1:
        raise InputRefused(
            "a forecast needs at least one document",
            value=min(documents, measured_documents),
            next_step="--documents 1000000 (for example)",
        )
    if not Decimal(0) < fastest <= slowest:
        raise InputRefused(
            "a forecast needs measured durations",
            value=f"{fastest} to {slowest}",
            next_step="runner validate and runner decide, once passes were accepted",
        )
    low, high = (_scaled(one, documents, measured_documents) + other_seconds for one in (fastest, slowest))

    def package(seconds: Decimal) -> PackageAnswer | None:
        if catalogue is None:
            return None
        return choose_package(
            catalogue,
            gpu,
            devices=devices,
            window_seconds=seconds,
            lots=lots,
            billing=billing,
            extra_periods=extra_periods,
        )

    return Forecast(documents, low, high, package(low), package(high))


def _scaled(seconds: Decimal, documents: int, measured_documents: int) -> Decimal:
    milliseconds = Fraction(seconds) * documents * 1000 / measured_documents
    return Decimal(-(-milliseconds.numerator // milliseconds.denominator)) / 1000


def _line_name(answer: PackageAnswer | None) -> str | None:
    line: PackageLine | None = None if answer is None else answer.best
    return None if line is None else line.name
