"""Every test run has local test keys of its own: those of whoever runs the tests are neither used nor made."""

from __future__ import annotations

import os
import tempfile

import pytest

from runner.evidence.signing import DATA_VARIABLE

_FOLDER = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def pytest_configure(config: pytest.Config) -> None:
    folder = tempfile.TemporaryDirectory(prefix="test-keys-")
    config.stash[_FOLDER] = folder
    os.environ[DATA_VARIABLE] = folder.name


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[_FOLDER].cleanup()
