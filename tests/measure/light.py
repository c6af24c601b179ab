"""A frozen small campaign whose attempts run in light workers: real processes, no torch."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runner.evidence.campaign import Campaign
from runner.measure.run import Outcome, Request, measure
from runner.protocol.freeze import freeze
from tests.support.small_campaign import PLAN, PROTOCOL, make_campaign

WORKER = (sys.executable, str(Path(__file__).with_name("light_worker.py")))


class Quiet:
    """Progress that only remembers."""

    live = False

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def begin(self, planned: Any, slots: int, earlier: Any) -> None:
        self.planned = list(planned)

    def notice(self, text: str) -> None: ...

    def not_here(self, problem: str, rows: int) -> None:
        self.problem = problem

    def started(self, planned: Any) -> None:
        return None

    def tick(self) -> None:
        return None

    def ended(self, attempt: Any) -> None:
        self.seen.append(attempt)


def light_campaign(
    root: Path,
    *,
    batches: Sequence[int] = (1,),
    passes: int = 2,
    documents: int = 10,
    timeout: int = 60,
    process: str = "fresh",
    own: Mapping[int, Mapping[str, Any]] | None = None,
    **extra: Any,
) -> Campaign:
    """Frozen; `extra` are the light worker's instructions for every variant, `own` those of a batch size alone."""
    head, _, _ = PROTOCOL.partition("[[series]]")
    variants = "".join(
        f'[[variant]]\nid = "b{batch}"\n[variant.settings]\nbatch_size = {batch}\nextra = {{ {fields} }}\n'
        for batch in batches
        for fields in [
            ", ".join(
                f"{name} = {json.dumps(value)}" for name, value in {**extra, **(own or {}).get(batch, {})}.items()
            )
        ]
    )
    protocol = head + variants
    protocol += f"[measurement]\npasses_planned = {passes}\npasses_most = 1000\n"
    protocol += f'min_accepted = 2\ntimeout_seconds = {timeout}\nprocess = "{process}"\n'
    rows = [
        (
            f"d{number:03d}",
            f"text number {number}",
            "pos" if number % 2 else "neg",
            "short" if number < documents // 2 else "long",
        )
        for number in range(documents)
    ]
    plan = PLAN.replace("2026-12", "2096-12")  # a rehearsal says no once a deadline has passed
    campaign = make_campaign(root, rows=rows, protocol=protocol, plan=plan)
    campaign.tariffs.write_text("gpu,device_pattern\nb200,NVIDIA B200\n", encoding="utf-8")
    freeze(campaign)
    return campaign


def run(campaign: Campaign, gpu: str = "cpu", **request: Any) -> Outcome:
    return measure(campaign, Request(gpu=gpu, **request), Quiet(), WORKER)
