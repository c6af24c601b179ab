"""The decision in words: why this one, why not the others, what would help."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from runner.decide.fairness import total_expenses
from runner.decide.model import Balance, BalanceRow, Reason, WindowFacts
from runner.decide.options import Option, at_largest, at_smallest, gap_and_spread, times
from runner.decide.pick import Pick
from runner.decide.sentences import say
from runner.decide.summaries import decimal_text
from runner.decide.unpriced import Rival
from runner.units import round_half_up

MOST_NAMES = 8
_SECONDS_PER_DAY = 86400
_SECONDS_PER_HOUR = 3600


def reasons_for_winner(
    best: Pick, options: Sequence[Option], deliverables: Sequence[str], own: Sequence[str] = ()
) -> tuple[Reason, ...]:
    """Cost (or time), the distance to the next one, window and deadline, passes.

    `own`: admissible configurations on own machines that stand beside the rentals and are not ranked with them.
    """
    winner = best.winner
    assert winner is not None
    rivals = [option for option in options if option.admissible and option.id != winner.id]
    reasons = [_why_best(winner, rivals, deliverables)]
    if not rivals and own:
        reasons.append(say("chosen.lone-rental", name=winner.id, names=", ".join(own)))
    elif not rivals:
        reasons.append(say("chosen.lone", name=winner.id))
    elif best.rule == "rule.cost":
        cost, nearest = min((option.cost or Decimal(0), option.id) for option in rivals)
        difference = cost - (winner.cost or Decimal(0))
        reasons.append(
            say(
                "chosen.next",
                name=nearest,
                cost_money=money_text(cost, winner),
                more_money=money_text(difference, winner),
            )
        )
    elif best.rule != "rule.fastest":
        equal = [option.id for option in rivals if option.cost == winner.cost]
        reasons.append(say("chosen.tie", names=", ".join(equal)))
    row = winner.row
    if row.window is not None:
        reasons += [_in_time(row.window, own_machine=row.own_machine), *_waiting(row, row.window)]
    reasons.append(
        say(
            "chosen.passes",
            accepted_count=str(row.accepted),
            attempts_count=str(row.attempts - row.not_counted),
            failures_count=str(row.failures),
            corpora=", ".join(row.deliverables_accepted),
        )
    )
    return tuple(reasons)


def _in_time(window: WindowFacts, *, own_machine: bool) -> Reason:
    """An access window is that of a rental: an own machine has a delivery, and no window (rule 11)."""
    delivered, slack = window.delivered_at_utc, window.deadline_slack_seconds
    if own_machine:
        return say("chosen.in-time-own", delivered_utc=delivered, slack_elapsed_seconds=slack)
    return say(
        "chosen.in-time",
        window_elapsed_seconds=window.window_seconds,
        delivered_utc=delivered,
        slack_elapsed_seconds=slack,
    )


def _waiting(row: BalanceRow, window: WindowFacts) -> list[Reason]:
    """How much of the window is waiting, where without it a shorter package would do: the longest such one (M34)."""
    package = row.package
    if package is None or package.days is None:
        return []
    shorter = [
        option
        for option in row.packages
        if option.days is not None and not option.covers and option.available is not False
        and Decimal(window.busy_seconds) <= Decimal(option.seconds) < Decimal(window.window_seconds)
        and (option.total is None or Decimal(option.total) < Decimal(package.total))
    ]  # fmt: skip
    if not shorter:
        return []
    best = max(shorter, key=lambda option: Decimal(option.seconds))
    periods = int(Decimal(best.seconds) // ((best.days or 1) * _SECONDS_PER_DAY))
    if periods > 1:
        return []
    values = {
        "waiting_elapsed_seconds": _waiting_shown(window),
        "window_elapsed_seconds": window.window_seconds,
        "limit_elapsed_seconds": best.seconds,
        "days_count": str(best.days),
    }
    if best.total is None:
        return [say("chosen.waiting-unpriced", **values)]
    return [say("chosen.waiting", total_money=f"{best.total} {package.currency}", **values)]


def _waiting_shown(window: WindowFacts) -> str:
    """Waiting beside a busy time of whole minutes, as the note shows the two: they add up to the window (M34)."""
    total, busy = Decimal(window.window_seconds), Decimal(window.busy_seconds)
    step = 60 if busy >= _SECONDS_PER_HOUR else 1
    return decimal_text(total - min(round_half_up(busy / step, 0) * step, total))


def _why_best(winner: Option, rivals: Sequence[Option], deliverables: Sequence[str]) -> Reason:
    package = winner.row.package
    if package is not None and winner.cost is not None:
        common = {
            "name": winner.id,
            "cost_money": money_text(winner.cost, winner),
            "gpu": package.gpu,
            "lots_count": str(package.lots),
            "cards_count": str(package.cards),
        }
        if package.days is None:
            return say("chosen.cost-hourly", **common)
        if package.periods > 1:
            return say(
                "chosen.cost-periods", periods_count=str(package.periods), days_count=str(package.days), **common
            )
        return say("chosen.cost", days_count=str(package.days), **common)
    if not rivals:
        return say("chosen.own-machine", name=winner.id)
    own = times(winner.row, deliverables)
    others = [(times(option.row, deliverables), option) for option in rivals]
    nearest, option = min(others, key=lambda item: (item[0].median, item[1].id))
    gap, spread = gap_and_spread(own, nearest)
    return say(
        "chosen.fastest",
        name=winner.id,
        median_seconds=decimal_text(own.median),
        other=option.id,
        other_seconds=decimal_text(nearest.median),
        gap_seconds=decimal_text(gap),
        range_seconds=decimal_text(spread),
    )


def money_text(amount: Decimal, option: Option) -> str:
    return f"{decimal_text(amount)} {option.row.currency or ''}".rstrip()


# ---- undecided -----------------------------------------------------------------------------------


def reasons_for_nothing(balance: Balance, rows: Sequence[BalanceRow]) -> tuple[Reason, ...]:
    """Why no configuration is admissible: one sentence for all, one for each."""
    if rows and all(_bad_baseline(row) for row in rows):
        first = say("undecided.baseline")
    elif not any(row.accepted for row in rows):
        first = say("undecided.no-accepted-pass")
    elif all(row.first_failed == "enough passes" for row in rows if row.accepted):
        first = say("undecided.too-few-passes", least_count=str(balance.min_accepted))
    else:
        first = say("undecided.none-admissible")
    groups: list[list[BalanceRow]] = []
    for row in rows:
        group = next((group for group in groups if _cause(group[0]) == _cause(row)), None)
        if group is None:
            groups.append([row])
        else:
            group.append(row)
    return (first, *(_failing(group) for group in groups))


def _cause(row: BalanceRow) -> tuple[str, Reason | str]:
    found = next((c for c in row.constraints if c.name == row.first_failed), None)
    return row.first_failed or "-", found.reason if found else "-"


def _bad_baseline(row: BalanceRow) -> bool:
    return any(c.name == row.first_failed and c.reason.code == "quality.baseline" for c in row.constraints)


def _failing(rows: Sequence[BalanceRow]) -> Reason:
    """Configurations that fail for the same cause, in one sentence; what is not counted is no attempt here."""
    constraint, why = _cause(rows[0])
    return say(
        "undecided.fails",
        name=", ".join(row.configuration_id for row in rows),
        constraint=constraint,
        why=why,
        accepted_count=str(sum(row.accepted for row in rows)),
        attempts_count=str(sum(row.attempts - row.not_counted for row in rows)),
    )


def _fewest_accepted(row: BalanceRow) -> int:
    """Accepted passes of the deliverable and seed that has fewest, as the constraint counted them."""
    found = next((c.found for c in row.constraints if c.name == "enough passes"), None)
    return int(found) if found else 0


def help_for_nothing(balance: Balance, rows: Sequence[BalanceRow]) -> tuple[Reason, ...]:
    """What each configuration lacks."""
    found = [say("help.baseline")] if any(_bad_baseline(row) for row in rows) else []
    past = any(warning.code == "calendar.past" for warning in balance.warnings)
    for row in rows:
        name = row.configuration_id
        match row.first_failed:
            case "enough passes":
                found.append(_help_passes(balance, row))
            case "quality" if _bad_baseline(row):
                pass  # said once for all of them
            case "quality" if any(c.reason.code == "quality.excluded" for c in row.constraints):
                found.append(_help_passes(balance, row, excluded=True))
            case "memory":
                found.append(say("help.memory", name=name))
            case "deadline" if past:
                found.append(say("help.deadline-past"))
            case "deadline" if row.window is not None:
                late = decimal_text(-Decimal(row.window.deadline_slack_seconds))
                found.append(say("help.deadline", name=name, late_elapsed_seconds=late))
            case "window" if overrun := next((c for c in row.constraints if c.reason.code == "window.overrun"), None):
                found.append(say("help.overrun", name=name, task=overrun.reason.values["task"]))
            case "window":
                found.append(say("help.window", name=name))
            case "availability":
                found.append(say("help.availability", name=name))
            case "price" if row.unpriced_days:
                days = ", ".join(str(days) for days in row.unpriced_days)
                found.append(say("help.unpriced", gpu=row.gpu, days=days))
            case _:
                found.append(say("help.cause", name=name, constraint=row.first_failed or "-"))
    return together(found)


def _help_passes(balance: Balance, row: BalanceRow, *, excluded: bool = False) -> Reason:
    """Further passes and the command for them, as many as are missing if all of them are accepted.

    Slots of excluded passes are not run again, and the balance does not say whose they were: where some were excluded,
    the planned ones count as run.
    """
    missing = max(1, balance.min_accepted - _fewest_accepted(row))
    lacking = [s for s in row.summaries if s.accepted < balance.min_accepted]
    needed = max([missing, *(s.failures + balance.min_accepted for s in lacking)])  # with those that were run
    if any(item.reason.code == "left-out.excluded" for item in balance.left_out):
        needed = max(needed, balance.passes_planned + missing)
    count = str(missing)
    if needed > balance.passes_most:
        return say("help.passes-none", name=row.configuration_id, more_count=count, most_count=str(balance.passes_most))
    if excluded:
        return say("help.excluded", name=row.configuration_id, gpu=row.gpu, passes_count=str(needed))
    if needed <= balance.passes_planned:
        return say("help.passes", name=row.configuration_id, more_count=count, gpu=row.gpu)
    return say("help.passes-more", name=row.configuration_id, more_count=count, gpu=row.gpu, passes_count=str(needed))


def together(said: Sequence[Reason]) -> tuple[Reason, ...]:
    """Sentences that differ only in the configuration's name become one with the names, at most eight of them."""
    names: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = {}
    for reason in said:
        rest = tuple(sorted((key, value) for key, value in reason.values.items() if key != "name"))
        names.setdefault((reason.code, rest), []).extend([reason.values["name"]] if "name" in reason.values else [])
    found = []
    for (code, rest), same in names.items():
        cut = ", ".join(same[:MOST_NAMES]) + (" …" if len(same) > MOST_NAMES else "")
        found.append(say(code, **({"name": cut} if same else {}), **dict(rest)))
    return tuple(found)


def help_for_noise(winner: Option | None, rows: Sequence[BalanceRow]) -> tuple[tuple[Reason, ...], tuple[Reason, ...]]:
    """(reasons, what would help) when a package or deadline boundary lies inside a measured range."""
    reasons, would_help = [], []
    for row in rows:
        end = row.at_smallest
        if row.window is None or end is None:
            continue
        reasons += [
            _boundary(row.configuration_id, end.window, row.window, own_machine=row.own_machine),
            _standing("small", at_smallest(row)),
            _standing("large", at_largest(row)),
        ]
        would_help.append(say("help.boundary-own" if row.own_machine else "help.boundary", name=row.configuration_id))
    if winner is not None:
        reasons.append(say("undecided.would-be", name=winner.id))
    return tuple(reasons), tuple(would_help)


def _boundary(name: str, small: WindowFacts, large: WindowFacts, *, own_machine: bool) -> Reason:
    if own_machine:
        utc = {"small_utc": small.delivered_at_utc, "large_utc": large.delivered_at_utc}
        return say("undecided.boundary-own", name=name, **utc)
    hours = {"small_elapsed_seconds": small.window_seconds, "large_elapsed_seconds": large.window_seconds}
    return say("undecided.boundary", name=name, **hours)


def _standing(end: str, option: Option) -> Reason:
    """Whether a configuration is admissible at one end of its range, and what it costs there."""
    if not option.admissible:
        return say(f"undecided.{end}-out", name=option.id)
    if option.cost is None:
        return say(f"undecided.{end}-free", name=option.id)
    package = option.row.package or (option.row.at_smallest.package if option.row.at_smallest else None)
    currency = "" if package is None else package.currency
    return say(f"undecided.{end}-priced", name=option.id, cost_money=f"{decimal_text(option.cost)} {currency}".rstrip())


def help_for_unpriced(winner: Option | None, rivals: Sequence[Rival]) -> tuple[tuple[Reason, ...], tuple[Reason, ...]]:
    """(reasons, what would help) when a package without a price could win."""
    reasons, would_help = [], []
    for rival in rivals:
        row, days = rival.row, ", ".join(str(days) for days in rival.days)
        code = "undecided.unpriced-equal" if not rival.cheaper else "undecided.unpriced"
        if winner is None:
            code = "undecided.unpriced-only"
        reasons.append(say(code, name=row.configuration_id, gpu=row.gpu, days=days))
        would_help.append(say("help.unpriced", gpu=row.gpu, days=days))
    if winner is not None:
        reasons.append(say("undecided.would-be", name=winner.id))
    return tuple(reasons), _unique(would_help)


def _unique(reasons: Sequence[Reason]) -> tuple[Reason, ...]:
    return tuple({reason.text: reason for reason in reasons}.values())


# ---- everybody else ------------------------------------------------------------------------------


def uncertain_about(
    rows: Sequence[BalanceRow], chosen: BalanceRow | None, rule: str, tied: Sequence[BalanceRow] = ()
) -> tuple[Reason, ...]:
    """What remains uncertain, whatever the outcome. `tied`: those between which nothing is decided."""
    found = [] if chosen is None else list(chosen.open_questions)
    if chosen is not None and rule == "rule.failures":
        equal = [row for row in rows if row.admissible and row.committed_cost == chosen.committed_cost]
        beaten = [row.configuration_id for row in equal if row.failures > chosen.failures]
        found.append(say("uncertain.failures", names=", ".join(beaten)))
    shown = [chosen] if chosen is not None else (tied or rows)
    passes = [summary.accepted for row in shown for summary in row.summaries if summary.accepted]
    if passes:
        least = min(passes)
        found.append(say("uncertain.passes", n_count=str(least)) if least > 1 else say("uncertain.one-pass"))
    found.extend(
        say("uncertain.too-few", name=row.configuration_id, accepted_count=str(_fewest_accepted(row)))
        for row in rows
        if chosen is not None and row.first_failed == "enough passes" and row.accepted
    )
    if chosen is not None and chosen.committed_cost is not None:
        found.extend(_expense_flips(rows, chosen))
    return tuple(found)


def _expense_flips(rows: Sequence[BalanceRow], chosen: BalanceRow) -> list[Reason]:
    """Expenses never rank; where they would change the order, it is said (rule 13)."""

    def with_expenses(row: BalanceRow) -> Decimal:
        return Decimal(row.committed_cost or "0") + total_expenses(row.expenses, row.currency or "")

    own = with_expenses(chosen)
    return [
        say(
            "uncertain.expenses",
            name=row.configuration_id,
            chosen=chosen.configuration_id,
            total_money=f"{decimal_text(with_expenses(row))} {row.currency}",
            chosen_money=f"{decimal_text(own)} {row.currency}",
        )
        for row in rows
        if row.admissible and row.committed_cost is not None and row is not chosen and with_expenses(row) < own
    ]
