"""The rental record against the decision (M46); money in it is text (PR-01)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from runner.errors import InputRefused, NotAccepted
from runner.evidence.rental import Rental
from runner.pricing.rental import Expected, match_rental, read_rental
from tests.support.rentals import OWN_MACHINE

ROOT = Path(__file__).resolve().parents[2]
START = datetime(2027, 10, 4, 7, tzinfo=UTC)
EXPECTED = Expected(
    "rtx-4090",
    2,
    7,
    Decimal("220.00"),
    "USD",
    (START, START + timedelta(hours=96)),
    provider="Example Cloud",
    order="00123",
)
RENTAL = Rental(
    provider="Example Cloud",
    order="00123",
    gpu="rtx-4090",
    lots=2,
    days=7,
    starts_at="2027-10-04T09:00+02:00",
    ends_at="2027-10-11T09:00+02:00",
    amount="220.00",
    currency="USD",
)


def test_a_record_that_fits_the_decision() -> None:
    found = match_rental(RENTAL, EXPECTED)
    assert found.mismatches == () and found.not_applicable == ()
    assert found.matched == ("provider", "order", "gpu", "lots", "days", "amount", "currency", "period", "window")
    found.refuse(Path("rental.toml"))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"provider": "Example cloud"}, "provider"),
        ({"order": "123"}, "order"),
        ({"gpu": "b200"}, "gpu"),
        ({"gpu": "RTX-4090"}, "gpu"),
        ({"lots": 1}, "lots"),
        ({"amount": "220.01"}, "amount"),
        ({"currency": "EUR"}, "currency"),
        ({"ends_at": "2027-10-11T08:59:59+02:00"}, "period"),
        ({"starts_at": "2027-10-04T10:00+02:00", "ends_at": "2027-10-11T10:00+02:00"}, "window"),
        ({"starts_at": "2027-09-30T09:00+02:00", "ends_at": "2027-10-07T09:00+02:00"}, "window"),
    ],
)
def test_each_field_that_differs_is_named(change: dict[str, object], field: str) -> None:
    found = match_rental(RENTAL.model_copy(update=change), EXPECTED)
    assert [item.field for item in found.mismatches] == [field]
    with pytest.raises(NotAccepted, match=f"does not match the decision: {field}") as refused:
        found.refuse(Path("rental.toml"))
    assert refused.value.exit_code == 3 and refused.value.file == "rental.toml"


@pytest.mark.parametrize(("days", "end"), [(3, "2027-10-07T09:00+02:00"), (30, "2027-11-03T08:00+01:00")])
def test_m46_another_package_is_named_with_both_numbers(days: int, end: str) -> None:
    """M46: package; its own period is right for it, and is not the one that was decided."""
    found = match_rental(RENTAL.model_copy(update={"days": days, "ends_at": end}), EXPECTED)
    (item,) = [item for item in found.mismatches if item.field == "days"]
    assert (item.expected, item.found) == ("7", str(days))


def test_all_fields_that_differ_are_named_at_once() -> None:
    found = match_rental(RENTAL.model_copy(update={"days": 30, "lots": 9}), EXPECTED)
    assert [item.field for item in found.mismatches] == ["lots", "days", "period"]


def test_further_periods_of_a_package_make_the_rental_longer() -> None:
    twice = replace(EXPECTED, periods=2, amount=Decimal("440.00"))
    record = RENTAL.model_copy(update={"amount": "440.00", "ends_at": "2027-10-18T09:00+02:00"})
    assert match_rental(record, twice).mismatches == ()
    (short,) = match_rental(record.model_copy(update={"ends_at": RENTAL.ends_at}), twice).mismatches
    assert str(short) == "period: the note says 2 x 7 days = 336 h from starts_at to ends_at, the record 168 h"


def test_amounts_are_compared_as_numbers_not_as_text() -> None:
    assert "amount" in match_rental(RENTAL.model_copy(update={"amount": "220"}), EXPECTED).matched


def test_on_a_machine_of_ones_own_nothing_is_rented(tmp_path: Path) -> None:
    """DESIGN section 6, rule 11: cost not applicable; an amount paid would contradict it."""
    file = tmp_path / "rental.toml"
    file.write_text(OWN_MACHINE, encoding="utf-8")
    rental = read_rental(file)
    own = Expected("cpu", None, None, None, None, EXPECTED.window, own_machine=True)
    found = match_rental(rental, own)
    assert found.mismatches == () and found.matched == ("gpu", "period", "window")
    assert [field for field, _ in found.not_applicable] == ["provider", "order", "lots", "days", "amount", "currency"]
    (paid,) = match_rental(rental.model_copy(update={"amount": "5.00"}), own).mismatches
    wanted = "amount: the note says not applicable (own machine, nothing is rented), the record 5.00 USD"
    assert str(paid) == wanted, "never 0.00"


def test_nothing_is_said_to_be_as_decided_where_nothing_is_decided() -> None:
    """M46: an undecided note decides neither GPU nor period; the record is compared with what was measured."""
    assert match_rental(RENTAL, EXPECTED).summary().endswith("window as decided")
    found = match_rental(RENTAL, replace(EXPECTED, decided=False, amount=None))
    assert (
        "as decided" not in found.summary() and "as in what was measured; no configuration is chosen" in found.summary()
    )
    assert ("amount", "nothing is decided") in found.not_applicable


def test_m46_an_undecided_own_machine_is_told_in_plain_words() -> None:
    """M46, DESIGN section 6 rule 11: nothing is rented there, so it is no rental that waits for a decision."""
    own = Expected(RENTAL.gpu, None, None, None, None, own_machine=True, decided=False)
    found = match_rental(RENTAL.model_copy(update={"amount": "0.00"}), own)
    assert found.summary() == (
        "gpu, period as on the own machine that was measured; nothing is rented on it, "
        "so there is no package and no price to compare"
    )


@pytest.mark.parametrize(
    ("old", "new", "column"),
    [
        ('"0.00"', "0.0", "amount"),
        ('"0.00"', '"-1.00"', "amount"),
        ('"0.00"', '"1,00"', "amount"),
        ('order = "none"', "order = 123", "order"),
        ('order = "none"', 'order = " "', "order"),
        ("lots = 1", "lots = 0", "lots"),
        ("lots = 1", "lots = 1\nhours = 5", "hours"),
        ("2027-10-04T09:00+02:00", "2027-10-04T09:00", "starts_at"),
        ("2027-10-11T09:00+02:00", "2027-09-30T09:00+02:00", "ends_at"),
        ('gpu = "cpu"\n', "", "gpu"),
    ],
)
def test_a_record_is_read_strictly(old: str, new: str, column: str, tmp_path: Path) -> None:
    """PR-01: money as text, a TOML float is refused; times need an offset."""
    assert old in OWN_MACHINE
    file = tmp_path / "rental.toml"
    file.write_text(OWN_MACHINE.replace(old, new), encoding="utf-8")
    with pytest.raises(InputRefused) as refused:
        read_rental(file)
    assert refused.value.column == column and refused.value.file == str(file)
