"""One note of the embedded situation, built once for all tests that only look at it."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.evidence.campaign import Campaign
from runner.evidence.signing import signing_key
from runner.note.build import NoteFiles, build_note
from tests.note.sample import OWN_MACHINE, make_campaign


@pytest.fixture(scope="session")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    made = make_campaign(tmp_path_factory.mktemp("note") / "campaign", OWN_MACHINE)
    signing_key(made, {})  # the local test key: the note names it from its first build on
    return made


@pytest.fixture(scope="session")
def note(campaign: Campaign) -> NoteFiles:
    return build_note(campaign)


@pytest.fixture(scope="session")
def templates() -> Path:
    return Path(__file__).resolve().parents[2] / "templates"
