"""Whether a series changed only what it declares (M14)."""

from __future__ import annotations

from collections.abc import Sequence

from runner.decide.fates import Judged
from runner.decide.model import Reason
from runner.decide.sentences import say
from runner.evidence.attempt import Status
from runner.protocol.schema import Series


def series_warnings(judged: Sequence[Judged], series: Sequence[Series]) -> tuple[Reason, ...]:
    """One sentence per series, hardware and setting that moved without being declared: from what was in effect.

    A setting that is left to the machine may come out differently from variant to variant; what could not
    be read says nothing.
    """
    variables = {item.name: item.variable for item in series}
    values: dict[tuple[str, str], dict[str, dict[str, set[str]]]] = {}
    for item in judged:
        attempt = item.attempt
        if attempt.status is not Status.COMPLETED or attempt.effective is None or attempt.series not in variables:
            continue
        of_series = values.setdefault((attempt.series, attempt.gpu_declared), {})
        used = attempt.effective.as_json()
        extra = used.pop("extra")
        for setting, value in (used | extra).items():
            if value is not None and setting != variables[attempt.series]:
                of_series.setdefault(setting, {}).setdefault(str(value), set()).add(attempt.variant_id)
    return tuple(
        say(
            "series.moved",
            series=name,
            gpu=gpu,
            variable=variables[name],
            setting=setting,
            found="; ".join(f"{value} ({', '.join(sorted(names))})" for value, names in sorted(found.items())),
        )
        for (name, gpu), settings in sorted(values.items())
        for setting, found in sorted(settings.items())
        if len(found) > 1
    )
