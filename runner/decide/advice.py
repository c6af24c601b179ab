"""The sentences that say what would help and what would change the answer; `sentences` says how values are written."""

from __future__ import annotations

ADVICE: dict[str, str] = {
    # what would help
    "help.passes": (
        "{name}: further passes under the same protocol; accepted ones still missing: {more_count}. "
        "Command: make measure GPU={gpu}"
    ),
    "help.passes-more": (
        "{name}: further passes under the same protocol, for all variants alike; accepted ones still missing: "
        "{more_count}. Command: make measure GPU={gpu} PASSES={passes_count}"
    ),
    "help.passes-none": (
        "{name}: accepted passes still missing: {more_count}, more than this protocol allows to run (at most "
        "{most_count} per variant): a new revision with a new final corpus."
    ),
    "help.excluded": (
        "{name}: further passes under the same protocol, for all variants alike; those that were excluded stay "
        "excluded. Command: make measure GPU={gpu} PASSES={passes_count}"
    ),
    "help.memory": (
        "{name}: a smaller batch, a declared resume setting or a GPU with more memory, as a variant of its own."
    ),
    "help.deadline": (
        "{name}: gain {late_elapsed_seconds} in the plan, by an earlier start or fewer tasks before delivery."
    ),
    "help.deadline-past": (
        "The deadline had passed when the protocol was frozen: no plan meets it. A later one needs a new revision of "
        "the protocol with a new final corpus."
    ),
    "help.same-work": (
        "Add variants with the same length limit and measure them too (they are marked as added later): only the same "
        "work is compared."
    ),
    "help.window": "{name}: shorten the plan, or ask for further periods in it explicitly.",
    "help.overrun": "{name}: let the last collection wait for task {task}, or plan it later.",
    "help.availability": "{name}: plan with the lots that are available, or another GPU.",
    "help.baseline": (
        "Another model, or a minimum that fits the purpose, in a new revision of the protocol with a new final corpus: "
        "the baseline itself misses the frozen minimum."
    ),
    "help.cause": "{name}: look into the cause of the failed constraint ({constraint}).",
    "help.more-passes": (
        "More passes under the same protocol, for all variants alike (at most {more_count} more): they can move "
        "the medians, but not narrow a range. Command: make measure GPU={gpu} PASSES={most_count}"
    ),
    "help.spread": (
        "Look into the widest range, {range_seconds} of {name}: one pass took {outermost_seconds}, its median is "
        "{median_seconds}."
    ),
    "help.spread-several": (
        "Look into the widest range, {range_seconds} of {name}: {several_count} of its {n_count} passes lie nearer to "
        "{outermost_seconds} than to the median, {median_seconds}."
    ),
    "help.shared": (
        "Keep other processes off the device, a likely cause of the wide range: of {names}, every pass beside them was "
        "slower than the undisturbed passes, which lie together."
    ),
    "help.shared-unknown": (
        "Keep other processes off the device: they ran during accepted passes of {names}. Whether they caused the "
        "wide range is not known."
    ),
    "help.boundary": (
        "{name}: move the plan so that its smallest and largest durations fall on the same side of the package "
        "and deadline boundaries."
    ),
    "help.boundary-own": (
        "{name}: move the plan so that its smallest and largest durations fall on the same side of the deadline and "
        "of the last collection."
    ),
    "help.unpriced": "Ask for the dated price of {gpu} for {days} days and add it to the tariffs.",
    # what would change the answer
    "what-if.price-up": (
        "{name} stays the cheapest while {days_count} days of {gpu} cost less than {limit_money} per lot (now "
        "{price_money}); from there on {other} costs no more."
    ),
    "what-if.price-up-hourly": (
        "{name} stays the cheapest while the hourly offer of {gpu} is below {limit_money} per lot (now {price_money}); "
        "from there on {other} costs no more."
    ),
    "what-if.price-down": (
        "{name} would be cheaper if {days_count} days of {gpu} cost less than {limit_money} per lot (now "
        "{price_money})."
    ),
    "what-if.unpriced": (
        "{name} would be the cheapest if {days_count} days of {gpu} cost less than {limit_money} per lot (no price is "
        "known)."
    ),
    "what-if.longer": (
        "{name}: a window longer by more than {spare_elapsed_seconds} needs the package of {days_count} days, "
        "{total_money}."
    ),
    "what-if.longer-unpriced": (
        "{name}: a window longer by more than {spare_elapsed_seconds} needs the package of {days_count} days, whose "
        "price is not known."
    ),
    "what-if.longer-none": (
        "{name}: a window longer by more than {spare_elapsed_seconds} fits no package; the plan would have to change."
    ),
    "what-if.shorter": (
        "{name}: a window shorter by {gain_elapsed_seconds} would fit the package of {days_count} days, {total_money}."
    ),
    "what-if.shorter-unpriced": (
        "{name}: a window shorter by {gain_elapsed_seconds} would fit the package of {days_count} days, whose price is "
        "not known."
    ),
    "what-if.longer-periods": (
        "{name}: a window longer by more than {spare_elapsed_seconds} needs {periods_count} periods of {days_count} "
        "days, {total_money}."
    ),
    "what-if.longer-periods-unpriced": (
        "{name}: a window longer by more than {spare_elapsed_seconds} needs {periods_count} periods of {days_count} "
        "days, whose price is not known."
    ),
    "what-if.shorter-periods": (
        "{name}: a window shorter by {gain_elapsed_seconds} would fit {periods_count} periods of {days_count} days, "
        "{total_money}."
    ),
    "what-if.shorter-periods-unpriced": (
        "{name}: a window shorter by {gain_elapsed_seconds} would fit {periods_count} periods of {days_count} days, "
        "whose price is not known."
    ),
    "what-if.deadline": "{name}: delivery may come {slack_elapsed_seconds} later and still be in time.",
    "what-if.deadline-own": (
        "{name}: by the calendar of the plan, delivery may come {slack_elapsed_seconds} later and still be in time."
    ),
    "what-if.lots": "{name} with one lot more (lots: {lots_count}) would cost {total_money}.",
    "what-if.quality-count": (
        "{name}: tightest quality check {group} in {corpus}, {metric} {value} against {minimum}; further "
        "wrong documents that would still pass: {spare_count}."
    ),
    "what-if.quality-all-count": (
        "{name}: tightest quality check over all documents of {corpus}, {metric} {value} against {minimum}; "
        "further wrong documents that would still pass: {spare_count}."
    ),
    "what-if.quality": "{name}: tightest quality check {group} in {corpus}, {metric} {value} against {minimum}.",
    "what-if.quality-all": (
        "{name}: tightest quality check over all documents of {corpus}, {metric} {value} against {minimum}."
    ),
    "what-if.separated": (
        "{name} stays separated from {other} while no range reaches the gap of {gap_seconds} (largest range now "
        "{range_seconds})."
    ),
    "what-if.untold": "Undecided too, and not told here: {names}.",
}
