"""`runner window --measured` (M34): the durations that the decision uses, of one configuration, and no others."""

from __future__ import annotations

import json
import shutil
from decimal import Decimal
from pathlib import Path

import pytest

from runner.cli.main import run
from runner.evidence.campaign import Campaign
from runner.judge.campaign import judge_campaign
from runner.judge.exclusions import exclude
from runner.protocol.freeze import load_lock
from tests.support.small_campaign import ROWS, make_attempt, store_attempt, write_predictions


@pytest.fixture
def campaign(measured: Path, tmp_path: Path) -> Campaign:
    root = tmp_path / "campaign"
    shutil.copytree(measured, root)
    return Campaign(root)


def add_pass(campaign: Campaign, number: int, seconds: float, gpu: str = "cpu") -> None:
    """One more accepted pass of b1, years after the others."""
    right = [(row[0], row[2]) for row in ROWS]
    name = f"a{number:03d}"
    predictions = write_predictions(campaign.predictions / f"{name}.parquet", right)
    attempt = make_attempt(
        campaign, load_lock(campaign), predictions, number=number, pass_seconds=seconds, gpu_declared=gpu,
        started_at_utc="2100-01-01T09:00:00Z", ended_at_utc="2100-01-01T09:02:00Z",
    )  # fmt: skip
    store_attempt(campaign, attempt)


def measuring_seconds(campaign: Campaign, configuration: str, capsys: pytest.CaptureFixture[str]) -> Decimal:
    """What the tasks that measure take in the window of `configuration`."""
    command = ["--campaign", str(campaign.root), "window", "--measured", "--configuration", configuration, "--json"]
    status = run(command)
    out, error = capsys.readouterr()
    assert status == 0, error
    tasks = json.loads(out)["tasks"]
    return sum((Decimal(task["seconds"]) for task in tasks if task["source"] == "measured"), Decimal(0))


def test_m34_the_largest_accepted_duration_stands_in_the_window(
    campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    """M34: as the decision has it: 3.02 s is the largest of three passes, times the passes of the task."""
    once = measuring_seconds(campaign, "b1", capsys)
    assert once > 0 and once % Decimal("3.02") == 0
    assert measuring_seconds(campaign, "cpu.b1", capsys) == once


def test_m31_m34_an_excluded_pass_counts_no_more(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    """M31, M34: a power cut made one pass last a minute; excluded, it is in no duration."""
    once = measuring_seconds(campaign, "b1", capsys)
    add_pass(campaign, 9, 60.0)
    judge_campaign(campaign)
    assert measuring_seconds(campaign, "b1", capsys) > once
    rule = "started_at_utc >= 2100-01-01T00:00:00Z"
    exclude(campaign, "a009", reason="a power cut, log of the house", rule=rule)
    assert measuring_seconds(campaign, "b1", capsys) == once


def test_m11_m34_two_kinds_of_hardware_are_two_configurations(
    campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    """M11, M34: b1 on a rented card and on the own machine are never one duration; the refusal names both."""
    own = measuring_seconds(campaign, "b1", capsys)
    for number in (9, 10, 11):
        add_pass(campaign, number, 0.5, gpu="b200")
    judge_campaign(campaign)
    command = ["--campaign", str(campaign.root), "window", "--measured", "--configuration"]
    assert run([*command, "b1"]) == 2
    error = capsys.readouterr().err
    assert "b200.b1" in error and "cpu.b1" in error
    assert measuring_seconds(campaign, "cpu.b1", capsys) == own
    assert measuring_seconds(campaign, "b200.b1", capsys) < own


@pytest.mark.parametrize("name", ["b9", "cpu.b9", "cpu"])
def test_m34_a_configuration_that_was_not_measured_is_refused(
    name: str, campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    """M34: a planned duration is no measured one."""
    assert run(["--campaign", str(campaign.root), "window", "--measured", "--configuration", name]) == 2
    assert "cpu.b1" in capsys.readouterr().err


def test_m3_m34_what_happened_is_told_of_this_lock_only(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    """M3, M34: a row of an earlier freeze, two years before, does not make this measuring two years long."""
    command = ["--campaign", str(campaign.root), "window", "--happened", "--json"]
    assert run(command) == 0
    before = json.loads(capsys.readouterr().out)["happened"]
    old = load_lock(campaign).model_copy(update={"nonce": "2" * 64})
    attempt = make_attempt(campaign, old, None, number=9, lock_sha256="0" * 64)
    times = {"started_at_utc": "2097-01-01T00:00:00Z", "ended_at_utc": "2097-01-01T00:01:00Z"}
    store_attempt(campaign, attempt.model_copy(update=times))
    assert run(command) == 0
    assert json.loads(capsys.readouterr().out)["happened"] == before
