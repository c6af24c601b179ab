"""Sentences that the records hold in English: recognised by their form, so that the note can say them in its language.

A verdict, an error and a counter's scope are recorded once, in English, and are part of the evidence.
What is not one of these sentences is somebody else's text: it stays as it is, between quotation marks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from runner.note.i18n import N_

CHECK_NAMES = {
    "status": N_("status"),
    "lock": N_("lock"),
    "inputs": N_("what was read"),
    "coverage": N_("coverage"),
    "settings": N_("settings"),
    "same work": N_("same work"),
    "recompilation": N_("recompilation"),
    "device": N_("device"),
    "process": N_("process"),
    "predictions": N_("predictions"),
    "ids": N_("identifiers"),
    "labels": N_("labels"),
    "scores": N_("scores"),
    "metric": N_("metric"),
    "drop": N_("drop"),
    "agreement": N_("agreement"),
    "flips": N_("changed labels"),
    "reproduction": N_("reproduction"),
}
ERROR_KINDS = {
    "incomplete": N_("incomplete"),
    "lost": N_("lost"),
    "interrupted": N_("interrupted"),
    "timeout": N_("timed out"),
    "out of memory": N_("out of memory"),
    "killed": N_("killed"),
    "crash": N_("crash"),
    "unavailable": N_("device unavailable"),
    "unsupported": N_("unsupported"),
    "launch": N_("start of several processes"),
    "node": N_("another machine of the attempt"),
    "non-finite logits": N_("outputs that are no finite numbers"),
    "model without trained weights": N_("model without trained weights"),
}
STATUS_NAMES = {
    "started": N_("started, end unknown"),
    "completed": N_("completed"),
    "failed": N_("failed"),
    "out_of_memory": N_("out of memory"),
    "killed": N_("killed"),
    "timed_out": N_("timed out"),
    "interrupted": N_("interrupted"),
    "lost": N_("lost"),
    "unavailable": N_("device unavailable"),
    "unsupported": N_("unsupported"),
}

# The last part of a placeholder's name says what stands there: `_count` a whole number, `_why` a sentence
# of this table, `_check`, `_status` and `_kind` a word of the tables above; anything else is kept.
SENTENCES = (
    # verdicts: the row
    N_("status {found_status}"),
    N_("status {found_status}: {error_kind}: {message_why}"),
    N_("completed, yet without a duration of the pass"),
    N_("measured under another lock ({lock})"),
    N_("does not carry the nonce of the freeze"),
    N_("does not carry the nonce of the freeze: run {attempt} starts {span_value} s before the freeze"),
    N_("the corpus '{corpus}' is not frozen"),
    N_("the seed {seed} is not frozen"),
    N_("{file}: other content during the attempt"),
    N_("{file}: replaced or written to during the attempt"),
    N_("{file}: gone during the attempt"),
    N_("{file}: new during the attempt"),
    N_("the pass was given other ids or texts than those of corpus {corpus} as frozen"),
    N_("the corpus '{corpus}' that was read is not the frozen one"),
    N_("the model that was loaded is not the frozen one"),
    N_("the row expects {row_count} documents, the frozen corpus has {corpus_count}"),
    N_("completed is unknown"),
    N_("completed {done_count} of {all_count}"),
    N_("the variant '{variant}' is not frozen"),
    N_("not the frozen settings: {differences}"),
    N_("configuration mismatch: {differences}"),
    N_("effective settings are unknown"),
    N_("effective settings are unknown: {reason_why}"),
    N_("max_length {used} against {frozen}, truncation {how} against {rule}"),
    N_("nothing is compiled ({reason_why})"),
    N_("not clean: {n_count} compilation in the timed part"),
    N_("not clean: {n_count} compilations in the timed part"),
    N_("not clean: {n_count} compilation in the timed part, {shapes}"),
    N_("not clean: {n_count} compilations in the timed part, {shapes}"),
    N_("whether others used the device is unknown: {reason_why}"),
    N_("other processes used the device during the pass"),
    N_("the driver lists no process on the card, not even this one"),
    N_("the driver does not list the processes of a card"),
    N_("the driver does not tell ({reason})"),
    N_("nothing reads the processes of a card here"),
    N_("the kernel does not list the processes of the card here"),
    N_("the card is in slices (MIG), and torch does not say on which of them it computes"),
    N_("wall clock moved by {span_shift} s during the pass; the duration is from the monotonic clock"),
    N_(
        "clock of {machine} is at least {span_value} s behind {other}: "
        "the attempt carries the nonce of the freeze, so it came after it"
    ),
    # verdicts: the predictions
    N_("not looked at: the attempt belongs to another freeze"),
    N_("the attempt has no prediction file (status {found_status})"),
    N_("the predictions are partial: the pass did not end"),
    N_("the prediction file is missing"),
    N_("the file is not the one that the attempt wrote (sha256 {found}, row {recorded})"),
    N_("{rows_count} rows, missing {missing_count}, duplicate {duplicate_count}, unexpected {unexpected_count}"),
    N_("missing {n_count}: {listed}"),
    N_("duplicate {n_count}: {listed}"),
    N_("unexpected {n_count}: {listed}"),
    N_("hint: {hint}"),
    N_("line {line}: label {label} not in {table}"),
    N_("line {line}: score {score} outside 0…1"),
    N_("line {line}: score {score} not finite"),
    N_("the column scores holds values that are not finite"),
    N_("and {n_count} more"),
    N_("an earlier check failed"),
    N_("not computed: the predictions are not complete and valid"),
    # verdicts: quality
    N_("{metric} {fraction} = {value} is below {minimum}"),
    N_("{metric} {value} is below {minimum}"),
    N_("{metric} {fraction} = {value} on {group} ({n_count} documents) is below {minimum}"),
    N_("{metric} {value} on {group} ({n_count} documents) is below {minimum}"),
    N_("{metric}: {undefined_why}"),
    N_("{metric} on {group} ({n_count} documents): {undefined_why}"),
    N_("{metric} drops by {value} from the baseline, above {minimum}"),
    N_("{fraction} labels as in the baseline is below {minimum}"),
    N_("flips {n_count} > {limit_count} allowed"),
    N_("no baseline was frozen"),
    N_("goal {goal}: largest difference of a score {value}, {n_count} labels differ"),
    N_("scores of the pass or of the baseline are missing"),
    N_("no document"),
    N_("Wilson, 95 %"),
    N_("percentile bootstrap of {resamples_count} resamples, 95 %"),
    N_("{metric} gives no value"),
    N_("baseline: {undefined_why}"),
    N_("Matthews' coefficient is undefined: all labels are of one class"),
    N_("Matthews' coefficient is undefined: all predictions are of one class"),
    N_("kappa is undefined: labels and predictions are all of the same class"),
    # errors of attempts
    N_("{done_count} of {all_count} documents"),
    N_("no end within the time allowed, ended after {n_count} s"),
    N_("killed by the kernel (signal 9)"),
    N_("killed, cause unknown"),
    N_("no control group with a limit can be read"),
    N_("the worker ended by {signal}"),
    N_("the worker ended without a result"),
    N_("the worker could not be ended"),
    N_("SIGKILL did not end process {process} within {n_count} s"),
    N_("SIGKILL did not end process {process} within {n_count} s (state {state}: the kernel or a driver holds it)"),
    N_("SIGKILL did not end process {process} within {n_count} s (state {state}: ended, but another process holds it)"),
    N_("SIGKILL did not end process {process} within {n_count} s (state {state}: see man proc)"),
    N_("told when a process has ended: it has not"),
    N_("not above what the process that started it had held, which the kernel counts too"),
    N_("lost: no end event"),
    N_("the measuring process ended without a word, cause unknown"),
    N_("the attempt was stopped by {signal}"),
    N_("declared {gpu}, found no card ({reason})"),
    N_("declared {gpu}, found {found}"),
    N_("nothing was measured: the declared device is not here"),
    N_("the pass was not completed: {found_status}"),
    N_("last line of the worker: {line}"),
    N_("raised in {file}, line {line}, {function}"),
    N_("wall clock moved by {span_value} s during the attempt; durations are of the monotonic clock"),
    N_("{n_count} torn bytes at the end of the journal"),
    N_("settings in effect are the program's own word; what it did not say is unknown"),
    N_("the program ended before it was {expected}"),
    N_("{n_count} weights are not in the model's files and would be random, first {name}"),
    # several processes and machines
    N_("rank {rank_count} was killed by the kernel"),
    N_("rank {rank_count} of {all_count} was ended by {signal}, cause unknown"),
    N_("rank {rank_count}: {message_why}"),
    N_("rank 0 ended without a result"),
    N_("a rank ended without a result ({codes})"),
    N_("the nodes did not come together: {reason}"),
    N_("the node's campaign has another lock"),
    N_("node {rank_count}: {message_why}"),
    N_("node {rank_count} is gone"),
    N_("the connection to node {rank_count} was lost"),
    N_("node {rank_count} could not go on"),
    N_("node {rank_count} did not report its end: {reason}"),
    N_("there is no place for a node of rank {rank}"),
    N_("{ranks_count} processes cannot be spread evenly over {nodes_count} nodes"),
    N_("engine command starts one program: it may use several processes by itself"),
    N_("this build of torch has no torch.distributed"),
    N_(
        "{ranks_count} processes ({backend}); busy seconds of the parts are those of rank 0; "
        "ranks were busy for {least_value} to {most_value} s"
    ),
    N_("devices on the CPU are processes that share its cores: this says nothing about several cards"),
    # share of the matrix rate
    N_("not measured"),
    N_("no accepted pass"),
    N_("operations of a {family} are not known here"),
    N_("no matrix rate was measured for this precision and number of threads"),
    N_(
        "the pass was faster than the matrix product measured for this type: "
        "another type computes (int8), or others used the device"
    ),
    N_("not compiled before the timed part: {shapes}"),
    # attempts of other locks
    N_("it does not carry the nonce of the freeze"),
    N_("unknown lock ({found}, this one is {lock})"),
    N_("unknown lock ({found}, this one is {lock}; other {parts})"),
    N_("earlier freeze ({found}; other {parts})"),
    # a process that serves several attempts
    N_("process policy as frozen: {found}"),
    N_("process policy {found}, frozen is {limit}"),
    N_("in the process of attempt {attempt}"),
    N_("the process was ended after this attempt: {cause_why}"),
    N_("not as it was before: {names}"),
    N_("it could not be freed ({cause})"),
    # counters of memory
    N_("resident memory, {process_why}, high-water mark reset before the pass; time of the largest sample"),
    N_("resident memory, {process_why}, largest sample of the pass; {reason}"),
    N_("resident memory, {process_why}, its whole life (loading included)"),
    N_("resident memory of the program alone (not of processes that it starts), read from outside, this pass"),
    N_("resident memory, {process_why}, before the pass: loading, compiling and warming up"),
    N_("tensors, {process_why}, before the pass: loading, compiling and warming up"),
    N_("held by the allocator, tensors included, {process_why}, before the pass: loading, compiling and warming up"),
    N_("tensors, {process_why}, reset before the pass; time of the largest sample"),
    N_("held by the allocator, tensors included, {process_why}, reset before the pass; time of the largest sample"),
    N_("everything on the card, drivers and other processes included, when the pass had ended"),
    N_("resident memory, {process_why}, from the pass on (its mark was set back before it)"),
    N_("this worker process only"),
    N_("this worker process (attempts served before: {served_count})"),
    N_("this worker process (attempts served before: at most {served_count})"),
    N_("it holds that of earlier attempts too: {served_count}"),
    N_("worker process of rank {rank} only"),
    N_("the largest of the attempt's processes"),
    # what a manifest could not read
    N_("not read"),
    N_("not observed"),
    N_("the engine was not loaded: {found_status}"),
    N_("the system does not tell"),
    N_("no control group (version 2) with a limit"),
    N_("not installed by make setup, or its record is gone"),
)

# What may stand in a place, by the last part of its name.
_FORMS = {
    "count": r"\d+",
    "value": r"-?\d+(?:\.\d+)?",
    "shift": r"[+-]\d+",
    "minimum": r"-?\d+(?:\.\d+)?",
    "metric": r"[a-z0-9_]+",
    "fraction": r"-?\d+/\d+",
    "signal": r"[A-Za-z0-9_+-]+(?: \([A-Za-z0-9 ]+\))?",
    "kind": r"[\w .-]+?",
    "status": r"[a-z_]+",
}

_LOCK_PARTS = {
    "protocol": N_("protocol"), "corpus": N_("corpus"), "model": N_("model"), "judgement": N_("judgement"),
}  # fmt: skip
_LABELLED = N_("{name}: {rest}")
_MOST = 1000  # characters; a longer text is not one of ours, and matching it would take long

Say = Callable[[str], str]
Value = Callable[[str, str], str]


def translated(text: str, say: Say, value: Value, quote: Say) -> str:
    """`text` in the language of `say`; what is not a sentence of ours goes through `quote`.

    `value(name, text)` formats the value of a placeholder.
    """
    found = _sentence(text, say, value, quote)
    if found is not None:
        return found
    pieces = text.split("; ")
    out: list[str] = []
    strange: list[str] = []
    for piece in pieces if len(pieces) > 1 else ():
        found = _sentence(piece, say, value, quote)
        if found is None:
            strange.append(piece)
            continue
        out += [quote("; ".join(strange))] if strange else []
        out.append(found)
        strange = []
    if len(pieces) == 1:
        return quote(text)
    return say(N_("; ")).join([*out, *([quote("; ".join(strange))] if strange else [])])


def _sentence(text: str, say: Say, value: Value, quote: Say) -> str | None:
    """A whole text, or one after the name of its check or its status."""
    if len(text) > _MOST:
        return None
    if text in STATUS_NAMES:
        return say(STATUS_NAMES[text])
    name, colon, rest = text.partition(": ")
    if colon and name in STATUS_NAMES and name not in CHECK_NAMES:
        return say(_LABELLED).format(name=say(STATUS_NAMES[name]), rest=translated(rest, say, value, quote))
    if colon and (name in CHECK_NAMES or name.startswith("subgroup ")):
        inside = _matched(rest, say, value, quote)
        if inside is not None:
            shown = say(CHECK_NAMES[name]) if name in CHECK_NAMES else _subgroup(name, say)
            return say(_LABELLED).format(name=shown, rest=inside)
    return _matched(text, say, value, quote)


def _subgroup(name: str, say: Say) -> str:
    return say(N_("subgroup {name}")).format(name=_spaced(name.removeprefix("subgroup ")))


def _spaced(group: str) -> str:
    """`stratum=long` as the tables write it."""
    return group.replace("=", " = ", 1)


def _matched(text: str, say: Say, value: Value, quote: Say) -> str | None:
    for pattern, template in _patterns():
        found = pattern.fullmatch(text)
        if found is None:
            continue
        parts = found.groupdict()
        if "undefined_why" in parts and _sentence(parts["undefined_why"], say, value, quote) is None:
            continue
        return say(template).format(**{name: _shown(name, part, say, value, quote) for name, part in parts.items()})
    return None


def _shown(name: str, text: str, say: Say, value: Value, quote: Say) -> str:
    match name.rpartition("_")[2]:
        case "why":
            return translated(text, say, value, quote)
        case "status":
            return say(STATUS_NAMES[text]) if text in STATUS_NAMES else text
        case "kind":
            return kind(text, say)
        case "group":
            return _spaced(text)
        case "parts":
            return " + ".join(say(_LOCK_PARTS[part]) if part in _LOCK_PARTS else part for part in text.split(" and "))
        case _:
            return value(name, text)


def kind(text: str, say: Say) -> str:
    """Kind of an error: a word of ours, or the name of an exception, as it is."""
    return say(ERROR_KINDS[text]) if text in ERROR_KINDS else text


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    """The most specific sentence first: the one with the most letters of its own."""
    ordered = sorted(SENTENCES, key=lambda text: -len(re.sub(r"\{\w+\}", "", text)))
    return tuple((_pattern(text), text) for text in ordered)


def _pattern(template: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", template)
    out = ""
    for number, part in enumerate(parts):
        if number % 2 == 0:
            out += re.escape(part)
        else:
            out += f"(?P<{part}>{_FORMS.get(part.rpartition('_')[2], '.+?')})"
    return re.compile(out, re.DOTALL)
