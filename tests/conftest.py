"""Every test run has local test keys of its own: those of whoever runs the tests are neither used nor made.

A test that fails is named when it fails, not minutes later with the others.
"""

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
    if not hasattr(config, "workerinput"):  # of several processes only the one that talks to the terminal
        config.pluginmanager.register(_NamesAtOnce(config))


class _NamesAtOnce:
    """`F` among thousands of points says that something failed, and nothing about what."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            crash = getattr(report.longrepr, "reprcrash", None)
            why = "" if crash is None else f": {crash.message.splitlines()[0][:160]}"
            terminal.write_line(f"\nfailed just now: {report.nodeid}{why}", red=True)


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[_FOLDER].cleanup()
