"""Rental records that several tests fill in."""

from __future__ import annotations

OWN_MACHINE = """\
schema_version = "rental/1"
provider = "own machine"
order = "none"
gpu = "cpu"
lots = 1
days = 7
starts_at = "2027-10-04T09:00+02:00"
ends_at = "2027-10-11T09:00+02:00"
amount = "0.00"
currency = "USD"
"""
