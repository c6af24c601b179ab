"""A small campaign that went the whole way: frozen, measured (real records), judged, decided, signed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from runner.evidence.campaign import Campaign
from runner.flows.report import make_report
from runner.flows.verification import Step
from runner.judge.campaign import judge_campaign
from runner.protocol.freeze import freeze
from tests.support.rentals import OWN_MACHINE
from tests.support.small_campaign import ROWS, make_attempt, make_campaign, store_attempt, write_predictions

PROJECT = Path(__file__).parents[2]
CASE_NO_14 = PROJECT / "tests" / "cases" / "NO-14"
SECONDS = {"b1": 3.0, "b4": 2.0, "b8": 1.0}


def measured_campaign(root: Path, **options: Any) -> Campaign:
    """Frozen, with three accepted passes of each of three batch sizes on the own machine, judged."""
    campaign = make_campaign(root, **options)
    shutil.copyfile(PROJECT / "tariffs.csv", campaign.tariffs)
    lock = freeze(campaign)
    right = [(row[0], row[2]) for row in ROWS]
    for number in range(9):
        variant = ("b1", "b4", "b8")[number % 3]
        predictions = write_predictions(campaign.predictions / f"a{number:03d}.parquet", right)
        seconds = SECONDS[variant] + number // 3 * 0.01
        attempt = make_attempt(campaign, lock, predictions, number=number, variant=variant, pass_seconds=seconds)
        store_attempt(campaign, attempt)
    judge_campaign(campaign)
    return campaign


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a judged campaign without a note; copy it before changing anything."""
    return measured_campaign(tmp_path_factory.mktemp("measured") / "campaign").root


@pytest.fixture(scope="session")
def reported(measured: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a campaign with a signed note; copy it before changing anything."""
    root = tmp_path_factory.mktemp("reported") / "campaign"
    shutil.copytree(measured, root)
    # Two files of the case NO-14 that lie beside the note and are signed with it.
    (root / "note").mkdir()
    shutil.copyfile(CASE_NO_14 / "note_original.txt", root / "note" / "note.txt")
    shutil.copyfile(CASE_NO_14 / "rental.json", root / "note" / "rental.json")
    make_report(Campaign(root), environ={})
    (root / "rental.toml").write_text(OWN_MACHINE, encoding="utf-8")
    return root


@pytest.fixture
def campaign(reported: Path, tmp_path: Path) -> Iterator[Campaign]:
    """A copy of the signed campaign to be spoilt."""
    root = tmp_path / "campaign"
    shutil.copytree(reported, root)
    yield Campaign(root)


@contextmanager
def pages_left_alone() -> Iterator[None]:
    """Found must be by the checks of bytes: to make the pages again takes longest and would find it as well."""
    with pytest.MonkeyPatch.context() as patch:
        left = Step("text of the note", "not checked", "left alone")
        patch.setattr("runner.flows.recompute.recompute_pages", lambda campaign: left)
        yield
