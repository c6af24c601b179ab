"""Every sentence of the balance and the decision, as data: a code, its values, the English text.

The note translates the template of a code and formats the values in the reader's locale; here they
are formatted in English. The last part of a placeholder's name says what the value is:
`_money` (`2071.00 USD`), `_seconds` (exact decimal), `_elapsed_seconds` (the same, shown as `96 h` or `1 h 30 min`),
`_utc` (an instant, to the second), `_count` (a whole number); `name`, `names` and `corpora` are one or more ids, `days`
one or more numbers, both parted by `, ` and read as a list in a sentence; any other value is text and is never changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from string import Formatter

from runner.decide.advice import ADVICE
from runner.decide.model import Reason
from runner.pricing.core import hours_text
from runner.units import round_half_up

_MOST_MONEY_PLACES = 4
_WHOLE_SECONDS = len("09:00:00")

SENTENCES: dict[str, str] = {
    # rules, quoted
    "rule.nothing-measured": "An option that was not measured never wins.",
    "rule.none": (
        "Only an admissible configuration can be chosen: every deliverable accepted, enough accepted passes, "
        "enough memory, a priced package that covers the window, delivery before the deadline."
    ),
    "rule.lone": "A lone admissible configuration is chosen, without a comparison.",
    "rule.cost": "Among the admissible configurations the smallest committed cost wins.",
    "rule.failures": "At equal committed cost and equal numbers of attempts, fewer failures win.",
    "rule.separated": (
        "At equal committed cost, a median that is faster than every other by more than the larger range of the "
        "two wins."
    ),
    "rule.questions": (
        "At equal committed cost and without a separated median, less remaining uncertainty wins: every open "
        "question of the chosen one is open for the others too, and they have more."
    ),
    "rule.fastest": (
        "On own machines nothing is rented, so no committed budget can be the smallest and the time decides: a median "
        "that is faster than every other by more than the larger range of the two wins."
    ),
    "rule.tie": "A gap between medians that does not exceed the larger range of the two decides nothing.",
    "rule.tie-own": (
        "On own machines nothing is rented, so no committed budget can be the smallest and the time decides; a gap "
        "between medians that does not exceed the larger range of the two decides nothing."
    ),
    "rule.noise": "The choice must hold at the smallest and at the largest accepted duration.",
    "rule.unpriced": "While a package without a price could change the choice, nothing is decided.",
    "rule.different-work": "Different truncation is different work and is not compared.",
    # durations
    "range.undefined": "not defined (n = {n_count})",
    # constraints
    "quality.met": "an accepted pass for every deliverable",
    "quality.no-pass": "no complete pass over {corpus} with the settings asked for could be judged",
    "quality.excluded": "the complete passes over {corpus} were all excluded for an external reason: none counts",
    "quality.rejected": "no pass over {corpus} was accepted: {why}",
    "quality.baseline": "the answers on {corpus} are those of the baseline, which itself misses the minimum: {why}",
    "completeness.met": "every deliverable was processed completely",
    "completeness.none": "no complete pass over {corpus}: at most {most_count} of {expected_count} documents",
    "settings.met": "the settings in effect were those asked for",
    "settings.no-pass": "no complete pass over {corpus}",
    "settings.others": "no pass over {corpus} ran as asked for: {why}",
    "settings.cut": "accepted passes over {corpus} are different work (texts cut/tokens cut): {found}",
    "passes.enough": "{accepted_count} accepted passes, at least {least_count} needed",
    "passes.too-few": "fewer passes than the protocol's minimum: {accepted_count} accepted, {least_count} needed",
    "passes.too-few-of": (
        "fewer passes over {corpus} (seed {seed_count}) than the protocol's minimum: {accepted_count} accepted, "
        "{least_count} needed"
    ),
    "memory.met": "memory sufficed for every deliverable, long texts included",
    "memory.out": "out of memory on {corpus}; documents done before: {most_count}",
    "memory.no-pass": "no complete pass over {corpus} shows whether memory suffices",
    "window.covered": "a package holds the window of {window_elapsed_seconds}",
    "window.too-long": (
        "the window of {window_elapsed_seconds} is longer than the longest package of {longest_elapsed_seconds}; "
        "nothing is extended automatically"
    ),
    "window.as-planned": (
        "not every deliverable has an accepted pass; as planned, the window is {window_elapsed_seconds}"
    ),
    "window.overrun": "task {task} ends on {ended_utc}, after the last collection on {collected_utc}",
    "deadline.met": "delivered {slack_elapsed_seconds} before the deadline",
    "deadline.missed": "delivered {late_elapsed_seconds} after the deadline",
    "deadline.as-planned": (
        "not every deliverable has an accepted pass; as planned, delivered {slack_elapsed_seconds} before the deadline"
    ),
    "deadline.as-planned-late": (
        "not every deliverable has an accepted pass; as planned, delivered {late_elapsed_seconds} after the deadline"
    ),
    "price.known": "the cheapest priced package that covers costs {total_money}",
    "price.unknown": "no price for {gpu} for the packages that cover ({days} days)",
    "price.nothing-covers": "no priced package covers the window",
    "availability.enough": "lots needed: {lots_count}; the catalogue has them",
    "availability.unstated": "lots needed: {lots_count}; the catalogue states no limit",
    "availability.short": "lots available: {lots_count}, needed: {needed_count}",
    "availability.unknown": (
        "lots needed: {lots_count}; no priced package that covers has them, of one without a price nothing is known"
    ),
    "availability.plan": "lots in the plan: {lots_count}, needed: {needed_count}",
    "own-machine.free": "own machine: a rental price does not apply",
    "package.covers": "{days_count} days cover the window with {spare_elapsed_seconds} to spare",
    "package.periods": (
        "{periods_count} periods of {days_count} days, asked for in the plan, cover the window with "
        "{spare_elapsed_seconds} to spare"
    ),
    "package.hourly": "hourly offer, started hours: {hours_count}",
    # costs
    "per-corpus.undefined": "undefined: no accepted corpus; the committed cost still stands",
    "per-corpus.not-calculated": "not calculated: no committed cost",
    # not measured, left out, not accepted
    "not-measured": "not measured",
    "not-measured.unavailable": "not measured: {gpu} was declared, found: {found} ({why})",
    "not-measured.other-device": "not measured: {gpu} was declared, found: {found}",
    "left-out.excluded": "excluded for an external reason: {why}",
    "left-out.surplus": (
        "a pass beyond the plan that not every variant has yet: more passes count for all variants alike"
    ),
    "left-out.other-lock": "measured under another lock: {why}",
    "records.warning": "records: {text}",
    "reprice.from": (
        "repriced: nothing was measured again; records and verdicts are those of the note {note}, "
        "whose tariffs (sha256 {tariffs}) were replaced"
    ),
    "attempt.unfinished": "{attempt} has not ended: it still runs, or its process was lost; it counts as a failure",
    "attempt.not-accepted": "{attempt}: {why}; {done} of {expected_count} documents",
    # calendar
    "happened.unrecorded": "no record says when this happened",
    "happened.clock": (
        "unknown: a wall clock moved, so times of day are not subtracted; at least {least_elapsed_seconds} by the "
        "monotonic clock"
    ),
    "clock.moved": (
        "The wall clock moved during attempts ({n_count}): their times of day cannot be trusted; durations are of the "
        "monotonic clock."
    ),
    "clock.behind": (
        "Attempts are dated before the freeze ({n_count}, by up to {behind_elapsed_seconds}): a clock is behind. That "
        "they came after it is shown by the nonce, not by their times."
    ),
    "calendar.past": (
        "The plan's deadline, {deadline_utc}, had passed when the protocol was frozen, {frozen_utc}: the calendar "
        "shows whether the hours fit, not whether a date was met."
    ),
    # fairness
    "order.other": (
        "a pass over {corpus} on {gpu} (seed {seed_count}) was run in another order than the rotation: {found}"
    ),
    "passes.uneven": "unequal numbers of counted attempts over {corpus} on {gpu}: {found}",
    "series.moved": (
        "Series {series} on {gpu} declares {variable}, but {setting} moved too: {found}. What it shows is not about "
        "{variable} alone."
    ),
    "search.gpu": (
        "Measuring on {gpu} ({names}) commits {cost_money} if it is rented once for all of them; this is spent "
        "whatever is chosen, and ranks nothing."
    ),
    "order.not-rotated": "{variant} was first in every pass over {corpus} on {gpu}: the order was not rotated",
    "expense.unfair": "the expense {expense} is given for {given} and missing for {missing}",
    "expense.stranger": "the expense {expense} names {variant}, which is no variant of the lock",
    "stack.differs": "{entry}: {found}",
    "stack.attempt": (
        "{attempt} ended before its software stack was read, which may be one of several: the failure counts for "
        "{names}"
    ),
    "stack.unknown": "no manifest was read for {names}: their stacks are unknown",
    "work.max-length": "not comparable, different length limits: max_length {found}",
    "work.truncated": "not comparable, different numbers of truncated documents in {corpus}: {found}",
    "work.cut": "not comparable, different numbers of cut tokens in {corpus}: {found}",
    # open questions
    "question.unpriced": (
        "another package of {gpu} would cover too; its price is not in the catalogue: may be cheaper"
    ),
    "question.added-later": "this variant was added after the first result",
    "question.shared": "other processes used the device during an accepted pass",
    "question.shared-unknown": "whether other processes used the device could not be observed",
    "question.memory-unknown": "peak memory could not be read",
    "question.card-memory-unknown": "peak memory of the card could not be read",
    "question.interval": "the interval of the main metric reaches below the threshold {threshold}",
    "question.fewer": "accepted passes: {accepted_count} of {planned_count} planned",
    "question.tokens": "the accepted passes do not all report the same computed tokens",
    # chosen
    "chosen.cost": (
        "{name} has the smallest committed cost: {cost_money} ({gpu}, {days_count} days, lots: {lots_count}, "
        "GPUs: {cards_count})."
    ),
    "chosen.cost-periods": (
        "{name} has the smallest committed cost: {cost_money} ({gpu}, {periods_count} periods of {days_count} days, "
        "lots: {lots_count}, GPUs: {cards_count})."
    ),
    "chosen.cost-hourly": (
        "{name} has the smallest committed cost: {cost_money} ({gpu}, hourly offer, lots: {lots_count}, "
        "GPUs: {cards_count})."
    ),
    "chosen.next": "The next one, {name}, costs {cost_money}, {more_money} more.",
    "chosen.tie": "Equal committed cost: {names}.",
    "chosen.lone": "{name} is the only admissible configuration: there is no comparison.",
    "chosen.lone-rental": (
        "{name} is the only admissible configuration that is rented: there is no comparison. {names}: admissible too, "
        "on an own machine, which is never ranked against rentals."
    ),
    "chosen.fastest": (
        "{name} is the fastest: median {median_seconds} against {other_seconds} of {other}; the gap of "
        "{gap_seconds} exceeds the larger range of {range_seconds}."
    ),
    "chosen.own-machine": "{name} was measured on an own machine, where a rental price does not apply.",
    "chosen.in-time": (
        "Its access window is {window_elapsed_seconds}; delivered at {delivered_utc}, {slack_elapsed_seconds} before "
        "the deadline."
    ),
    "chosen.in-time-own": (
        "By the calendar of the plan it is delivered at {delivered_utc}, {slack_elapsed_seconds} before the deadline."
    ),
    "chosen.waiting": (
        "{waiting_elapsed_seconds} of the window of {window_elapsed_seconds} are waiting; a plan of at most "
        "{limit_elapsed_seconds} would fit {days_count} days for {total_money}."
    ),
    "chosen.waiting-unpriced": (
        "{waiting_elapsed_seconds} of the window of {window_elapsed_seconds} are waiting; a plan of at most "
        "{limit_elapsed_seconds} would fit {days_count} days, whose price is not known."
    ),
    "chosen.passes": (
        "Accepted passes: {accepted_count} of {attempts_count} attempts, failures: {failures_count}; accepted "
        "deliverables: {corpora}."
    ),
    # undecided
    "undecided.nothing-measured": "Nothing was measured yet.",
    "undecided.no-accepted-pass": "No accepted pass.",
    "undecided.baseline": "No accepted pass: the baseline itself misses the minimum, so no hardware helps.",
    "undecided.too-few-passes": "Fewer passes than the protocol's minimum of {least_count}.",
    "undecided.none-admissible": "No configuration is admissible.",
    "undecided.fails": (
        "{name}: {constraint} not shown, {why}; accepted {accepted_count} of {attempts_count} attempts."
    ),
    "undecided.tie-cost": "Equal committed cost of {cost_money}: {names}.",
    "undecided.tie-time": "Not separated: {names}.",
    "undecided.gap": "{one} and {other}: gap {gap_seconds} ≤ range {range_seconds}.",
    "undecided.gap-clear": "{one} and {other}: gap {gap_seconds} > range {range_seconds}.",
    "undecided.boundary": (
        "{name}: a package or deadline boundary lies between the window with its smallest durations "
        "({small_elapsed_seconds}) and with its largest ({large_elapsed_seconds}), and this changes the choice."
    ),
    "undecided.boundary-own": (
        "{name}: with its smallest durations it is delivered at {small_utc}, with its largest at {large_utc}; a limit "
        "of the plan (deadline or last collection) lies between, and this changes the choice."
    ),
    "undecided.small-priced": "With its smallest durations {name} is admissible and costs {cost_money}.",
    "undecided.small-free": "With its smallest durations {name} is admissible.",
    "undecided.small-out": "With its smallest durations {name} is not admissible.",
    "undecided.large-priced": "With its largest durations {name} is admissible and costs {cost_money}.",
    "undecided.large-free": "With its largest durations {name} is admissible.",
    "undecided.large-out": "With its largest durations {name} is not admissible.",
    "undecided.would-be": "With the largest durations and the known prices it would be {name}.",
    "undecided.unpriced": "{name} could cost less: no price is known for {gpu}, {days} days.",
    "undecided.unpriced-equal": "{name} could cost as little: no price is known for {gpu}, {days} days.",
    "undecided.unpriced-only": "{name} could be chosen: no price is known for {gpu}, {days} days.",
    # what would help, and what would change the answer
    **ADVICE,
    # how far the ranking came
    "walk.own-cost": (
        "Committed cost: not applicable. The question asks for the smallest committed budget, but nothing is rented on "
        "own machines and nothing is committed, so the cost tells none of them apart."
    ),
    "walk.own-failures": "Failures: not compared on own machines; they only break ties of equal cost.",
    "walk.own-questions": "Open questions: not compared on own machines; they only break ties of equal cost.",
    "walk.cost": "Committed cost: {cost_money} is the smallest, the same for {names}.",
    "walk.cost-decides": (
        "Committed cost: that of {name} is the smallest, so failures, times and open questions are not compared."
    ),
    "walk.failures": "Failures: equal, {failures_count} each.",
    "walk.failures-fewest": "Failures: fewest, {failures_count} each, of {names}; only these are compared further.",
    "walk.failures-decide": "Failures: fewest, {failures_count}, of {name}; times and open questions are not compared.",
    "walk.failures-unequal": "Failures: not compared, because the numbers of attempts differ.",
    "walk.times": "Times: no median is faster than every other by more than the larger range of the two.",
    "walk.times-decide": (
        "Times: the median of {name} is faster than every other by more than the larger range of the two."
    ),
    "walk.questions": "Open questions: nobody's are fewer and all open for the others too.",
    "walk.questions-decide": "Open questions: those of {name} are fewer, and all of them are open for the others too.",
    # everybody else
    "lost.own-machine": "own machine: never ranked against rentals",
    "lost.cost": "committed cost {cost_money}, {more_money} more",
    "lost.failures": "equal cost; failures: {failures_count} against {fewer_count}",
    "lost.slower": "slower than {name}",
    "lost.separated": "slower than {name}: gap {gap_seconds} > range {range_seconds}",
    "lost.would-be": "behind {name}, which would be chosen if nothing kept it open: {why}",
    "lost.questions": "equal cost, more open questions than {name}",
    "uncertain.passes": (
        "The median of {n_count} passes does not undo a failed one, and {n_count} passes prove no long-term stability."
    ),
    "uncertain.failures": (
        "Failures decided against {names}. So few attempts do not show whether they would happen again."
    ),
    "uncertain.one-pass": "One pass has no range and proves no stability.",
    "uncertain.too-few": "{name} has too few accepted passes to be compared: {accepted_count} where it has fewest.",
    "uncertain.expenses": (
        "With the other expenses {name} would cost {total_money} against {chosen_money} of {chosen}; expenses do "
        "not rank."
    ),
}


def say(code: str, **values: str | Reason) -> Reason:
    """The sentence of `code` with these values. A missing or an unused value is a bug of ours.

    A value that is a sentence itself is kept in `parts` too, so that it can be translated.
    """
    template = SENTENCES[code]
    if placeholders(template) != set(values):
        raise ValueError(f"{code} needs {sorted(placeholders(template))}, not {sorted(values)}")
    texts = {name: str(value) for name, value in values.items()}
    parts = {name: value for name, value in values.items() if isinstance(value, Reason)}
    return Reason(code=code, values=texts, parts=parts, text=fill(template, texts))


def placeholders(template: str) -> set[str]:
    """Names between braces."""
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


def fill(template: str, values: Mapping[str, str]) -> str:
    """English text of a template."""
    return template.format(**{name: english(name, value) for name, value in values.items()})


def kind_of(name: str) -> str:
    """What a value is: the last part of its name; `elapsed` for seconds that are shown as hours and minutes."""
    return "elapsed" if name.endswith("elapsed_seconds") else name.rpartition("_")[2]


def english(name: str, value: str) -> str:
    """One value as English text, by the last part of its name."""
    match kind_of(name):
        case "money":
            amount, _, currency = value.partition(" ")
            exact = Decimal(amount)
            places = min(max(2, -int(exact.as_tuple().exponent)), _MOST_MONEY_PLACES)
            return f"{round_half_up(exact, places):,} {currency}".rstrip()
        case "seconds":
            return f"{shown_seconds(Decimal(value))} s"
        case "elapsed":
            return hours_text(shown_seconds(Decimal(value)))
        case "utc":
            day, _, time = value.removesuffix("Z").partition(".")[0].partition("T")
            return f"{day} {time.removesuffix(':00') if len(time) == _WHOLE_SECONDS else time} UTC"
        case "names" | "name" | "corpora":
            return joined(value.split(", "), "and")
        case "days":
            return joined(value.split(", "), "or")
        case _:
            return value


def joined(parts: Sequence[str], word: str) -> str:
    """`a, b and c` in English; a list that was cut short (`a, b …`) stays as it is."""
    if len(parts) < 2 or parts[-1].endswith("…"):
        return ", ".join(parts)
    return f"{', '.join(parts[:-1])} {word} {parts[-1]}"


def shown_seconds(seconds: Decimal) -> Decimal:
    """Seconds for people: three decimals, fewer where the value has fewer. Unit: seconds."""
    places = min(3, max(0, -int(seconds.as_tuple().exponent)))
    return round_half_up(seconds, places)
