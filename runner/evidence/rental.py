"""The rental record: what was ordered, to be matched field by field with the note (M46)."""

from __future__ import annotations

from typing import Literal

from runner.evidence.model import DecimalText, Record


class Rental(Record):
    """Read from `rental.toml`. Money and times are text; the order number is never a number."""

    schema_version: Literal["rental/1"] = "rental/1"
    provider: str
    order: str
    gpu: str
    lots: int
    days: int
    starts_at: str
    ends_at: str
    amount: DecimalText
    currency: str
    notes: str = ""
