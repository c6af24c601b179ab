"""What would change the answer: prices, window, deadline, quality, lots; exact, in words (issue: sensitivity)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from runner.decide.model import Balance, BalanceRow, PackageChoice, PackageOption, QualityMargin, Reason
from runner.decide.options import at_largest, at_smallest, gap_and_spread, times
from runner.decide.sentences import say
from runner.decide.summaries import decimal_text
from runner.decide.unpriced import Rival, least_if_priced, rivals
from runner.decide.words import MOST_NAMES, together

SECONDS_PER_DAY = 86400
_PACKAGE_PLACES = 2
_HOURLY_PLACES = 4


_JUMPS = {
    ("longer", False, True): "what-if.longer",
    ("longer", False, False): "what-if.longer-unpriced",
    ("longer", True, True): "what-if.longer-periods",
    ("longer", True, False): "what-if.longer-periods-unpriced",
    ("shorter", False, True): "what-if.shorter",
    ("shorter", False, False): "what-if.shorter-unpriced",
    ("shorter", True, True): "what-if.shorter-periods",
    ("shorter", True, False): "what-if.shorter-periods-unpriced",
}
"""Sentence by (window longer or shorter, several periods, price known)."""


def what_if(
    balance: Balance,
    rows: Sequence[BalanceRow],
    chosen: BalanceRow | None,
    tied: Sequence[BalanceRow],
    *,
    rule: str,
) -> tuple[Reason, ...]:
    """Sentences about the chosen configuration; while it is undecided about eight tied ones, with the others by name.

    `rule`: the rule that decided or stopped. Configurations that did different work are not comparable: then no price
    decides between them; and only where an unknown price alone keeps it open does one price settle it.
    """
    best = chosen or _cheapest(rows)
    found: list[Reason] = []
    if rule != "rule.different-work" and best is not None and best.package is not None:
        found += _prices(rows, best, decided=chosen is not None)
        if rule == "rule.unpriced":
            rentals = [row for row in rows if not row.own_machine]
            possible = rivals(rentals, best.configuration_id, balance.deliverables)
            found += _unpriced(possible, Decimal(best.package.total), best.package.currency)
    subjects = [chosen] if chosen is not None else list(tied)[:MOST_NAMES]
    # A deadline that had passed at the freeze leaves no hours to spare, whatever the calendar says.
    in_time = not any(warning.code == "calendar.past" for warning in balance.warnings)
    for row in subjects:
        found += [*_window(row), *(_deadline(row) if in_time else ()), *_quality(row), *_lots(row)]
    if chosen is not None and chosen.own_machine:
        found += _separation(balance, rows, chosen)
    untold = [] if chosen is not None else [row.configuration_id for row in tied[MOST_NAMES:]]
    return together(found) + ((say("what-if.untold", names=", ".join(untold)),) if untold else ())


def _cheapest(rows: Sequence[BalanceRow]) -> BalanceRow | None:
    priced = [(Decimal(row.committed_cost), row) for row in rows if row.admissible and row.committed_cost is not None]
    return min(priced, key=lambda item: (item[0], item[1].configuration_id))[1] if priced else None


# ---- prices --------------------------------------------------------------------------------------


def _prices(rows: Sequence[BalanceRow], best: BalanceRow, *, decided: bool) -> list[Reason]:
    """At which price per lot the winner flips: of the best one upwards, of each other one downwards."""
    assert best.package is not None
    cost = Decimal(best.package.total)
    others = [row for row in rows if row is not best and not row.own_machine]
    found = _upwards(others, best, best.package, cost) if decided else []
    for row in others:
        package = row.package
        if not row.admissible or package is None or package.days is None or Decimal(package.total) <= cost:
            continue
        if _holds(best, row.gpu, package.days):
            continue  # the best one would rent the same package, and get cheaper with it
        found.append(
            say(
                "what-if.price-down",
                name=row.configuration_id,
                days_count=str(package.days),
                gpu=row.gpu,
                limit_money=_per_lot(cost, package.total, package.price_per_lot, package.currency),
                price_money=f"{package.price_per_lot} {package.currency}",
            )
        )
    return found


def _upwards(others: Sequence[BalanceRow], best: BalanceRow, package: PackageChoice, cost: Decimal) -> list[Reason]:
    """The price of the best one's package from which another configuration costs no more; nothing if that is open.

    What rents the same package gets dearer with it: of such a configuration only its other ways count.
    """
    ways = [(least, row) for row in others if (least := _other_ways(row, package)) is not None]
    own = _other_ways(best, package)
    if not ways:
        return []
    least, rival = min(ways, key=lambda item: (item[0], item[1].configuration_id))
    unknown = [least_if_priced(row, package) for row in others]
    equal_now = rival.committed_cost is not None and Decimal(rival.committed_cost) <= cost
    stays_open = any(price is not None and price < least for price in unknown)
    if least <= cost or equal_now or stays_open or (own is not None and own <= least):
        return []
    return [_price_up(best, package, least, rival)]


def _holds(row: BalanceRow, gpu: str, days: int) -> bool:
    """Whether this package holds the configuration's window, at the largest or at the smallest durations."""
    packages = [*row.packages, *(row.at_smallest.packages if row.at_smallest else ())]
    return row.gpu == gpu and any(option.days == days and option.covers for option in packages)


def _other_ways(row: BalanceRow, package: PackageChoice) -> Decimal | None:
    """Smallest known cost at an end of the range where the row is admissible, without this package."""
    ends = [(at_largest(row), row.packages)]
    if row.at_smallest is not None:
        ends.append((at_smallest(row), row.at_smallest.packages))
    same = (package.gpu, package.billing, package.days)
    return min(
        (
            Decimal(option.total)
            for end, packages in ends
            if end.admissible
            for option in packages
            if option.covers and option.available is not False and option.total is not None
            if (row.gpu, option.billing, option.days) != same
        ),
        default=None,
    )


def _price_up(best: BalanceRow, package: PackageChoice, least: Decimal, rival: BalanceRow) -> Reason:
    values = {
        "name": best.configuration_id,
        "gpu": best.gpu,
        "limit_money": _per_lot(
            least,
            package.total,
            package.price_per_lot,
            package.currency,
            places=_HOURLY_PLACES if package.days is None else _PACKAGE_PLACES,
        ),
        "price_money": f"{package.price_per_lot} {package.currency}",
        "other": rival.configuration_id,
    }
    if package.days is None:
        return say("what-if.price-up-hourly", **values)
    return say("what-if.price-up", days_count=str(package.days), **values)


def _unpriced(possible: Sequence[Rival], cost: Decimal, currency: str) -> list[Reason]:
    """The price below which an unpriced package makes a configuration the cheapest: the one that needs fewest lots."""
    needed = {
        (rival.row.gpu, days, rival.row.configuration_id): rival.row.lots * _periods(rival.row, days)
        for rival in possible
        if rival.cheaper and rival.row.lots is not None
        for days in rival.days
        if any(option.days == days and option.covers for option in rival.row.packages)
    }
    fewest = {
        (gpu, days): min(n for (g, d, _), n in needed.items() if (g, d) == (gpu, days)) for gpu, days, _ in needed
    }
    return [
        say(
            "what-if.unpriced",
            name=name,
            days_count=str(days),
            gpu=gpu,
            limit_money=f"{_flip(Fraction(cost) / lots, _PACKAGE_PLACES)} {currency}",
        )
        for (gpu, days, name), lots in needed.items()
        if lots == fewest[gpu, days]
    ]


def _periods(row: BalanceRow, days: int) -> int:
    """Periods of the package that the plan asks for: its length over that of one."""
    seconds = next(Decimal(option.seconds) for option in row.packages if option.days == days)
    return int(seconds // (days * SECONDS_PER_DAY))


def _per_lot(limit: Decimal, total: str, price: str, currency: str, *, places: int = _PACKAGE_PLACES) -> str:
    """The smallest price per lot in a catalogue at which the total is no longer below `limit`."""
    return f"{_flip(Fraction(limit) * Fraction(price) / Fraction(total), places)} {currency}"


def _flip(value: Fraction, places: int) -> str:
    """Up to the next price that a catalogue can hold: every lower one is below `value`, this one is not."""
    steps = -(-value.numerator * 10**places // value.denominator)
    text = decimal_text(Decimal(steps).scaleb(-places)).rstrip("0")
    whole, _, decimals = text.partition(".")
    return f"{whole}.{decimals.ljust(2, '0')}"


# ---- window, deadline, quality, lots -------------------------------------------------------------


def _window(row: BalanceRow) -> list[Reason]:
    """Where the package jumps if the window grows, and what a shorter window would open."""
    package = row.package
    if package is None or package.days is None:
        return []
    name = row.configuration_id
    packages = sorted((p for p in row.packages if p.days is not None), key=lambda p: p.days or 0)
    hourly = any(p.days is None and p.available is not False for p in row.packages)
    longer = [p for p in packages if (p.days or 0) > package.days]
    left = [p for p in longer if p.available is not False]
    found = []
    # Hours that the plan lists hold any window, and a length that is sold out is no way on.
    if not hourly and (left or not longer):
        found.append(_longer(name, package.slack_seconds, left, package.currency))
    shorter = [p for p in packages if not p.covers and p.available is not False]
    if shorter:
        found.append(_shorter(name, shorter[-1], package.currency))
    return found


def _longer(name: str, spare: str, longer: Sequence[PackageOption], currency: str) -> Reason:
    if not longer:
        return say("what-if.longer-none", name=name, spare_elapsed_seconds=spare)
    return _jump("longer", longer[0], currency, name=name, spare_elapsed_seconds=spare)


def _shorter(name: str, option: PackageOption, currency: str) -> Reason:
    return _jump(
        "shorter", option, currency, name=name, gain_elapsed_seconds=decimal_text(-Decimal(option.slack_seconds))
    )


def _jump(side: str, option: PackageOption, currency: str, **values: str) -> Reason:
    """The package on the other side of a limit of the window: with its periods, its cost if that is known."""
    periods = int(Decimal(option.seconds) // ((option.days or 1) * SECONDS_PER_DAY))
    values["days_count"] = str(option.days)
    if periods > 1:
        values["periods_count"] = str(periods)
    if option.total is not None:
        values["total_money"] = f"{option.total} {currency}"
    return say(_JUMPS[side, periods > 1, option.total is not None], **values)


def _deadline(row: BalanceRow) -> list[Reason]:
    if row.window is None or Decimal(row.window.deadline_slack_seconds) < 0:
        return []
    code = "what-if.deadline-own" if row.own_machine else "what-if.deadline"
    return [say(code, name=row.configuration_id, slack_elapsed_seconds=row.window.deadline_slack_seconds)]


def _quality(row: BalanceRow) -> list[Reason]:
    """The check that fewest further wrong documents would fail; where they cannot be counted, the smallest distance."""
    if not row.quality:
        return []
    tightest = min(row.quality, key=_tightness)
    values = {
        "name": row.configuration_id,
        "corpus": tightest.corpus_id,
        "metric": tightest.metric,
        "value": _short(tightest.value),
        "minimum": tightest.minimum,
    }
    code = "what-if.quality-all" if tightest.group == "all" else "what-if.quality"
    if tightest.group != "all":
        values["group"] = tightest.group
    # A check whose documents cannot be counted could fail before this one: then no number is promised.
    if any(margin.spare_documents is None for margin in row.quality):
        return [say(code, **values)]
    return [say(f"{code}-count", spare_count=str(tightest.spare_documents), **values)]


def _tightness(margin: QualityMargin) -> tuple[Decimal, Decimal, str, str]:
    """Fewest spare documents first; those of a metric that has no such number by its distance times its documents."""
    distance = Decimal(margin.margin)
    spare = margin.spare_documents
    wrong = distance * margin.documents if spare is None else Decimal(spare)
    return (wrong, distance, margin.corpus_id, margin.group)


def _short(value: str) -> str:
    """The judged value without the zeros at its end."""
    return value.rstrip("0").rstrip(".") if "." in value else value


def _lots(row: BalanceRow) -> list[Reason]:
    package = row.package
    option = next((o for o in row.packages if package and (o.billing, o.days) == (package.billing, package.days)), None)
    if package is None or option is None or option.one_more_lot is False:
        return []
    total = Decimal(package.total) / package.lots * (package.lots + 1)
    money = f"{decimal_text(total)} {package.currency}"
    return [say("what-if.lots", name=row.configuration_id, lots_count=str(package.lots + 1), total_money=money)]


def _separation(balance: Balance, rows: Sequence[BalanceRow], chosen: BalanceRow) -> list[Reason]:
    """How much the ranges may grow before the fastest is no longer separated: from the one where least is left."""
    own = times(chosen, balance.deliverables)
    others = []
    for row in rows:
        if row is not chosen and row.own_machine and row.admissible:
            gap, spread = gap_and_spread(own, times(row, balance.deliverables))
            others.append((gap - spread, row.configuration_id, gap, spread))
    if not others:
        return []
    _, name, gap, spread = min(others)
    return [
        say(
            "what-if.separated",
            name=chosen.configuration_id,
            other=name,
            gap_seconds=decimal_text(gap),
            range_seconds=decimal_text(spread),
        )
    ]
