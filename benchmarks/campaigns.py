"""Throw-away copies of the embedded campaign, and the command line that works on them."""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import ROOT

# What a campaign writes below protocol/: a fresh one starts without it.
_WRITTEN = shutil.ignore_patterns("*.lock.json*", "baseline", "keys", "locks", "reference", ".*")


@functools.cache
def scratch() -> Path:
    """One folder for the whole run, removed at its end."""
    folder = Path(tempfile.mkdtemp(prefix="runner-bench-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def fresh_campaign(name: str) -> Path:
    """The embedded campaign as a clone has it: protocol, corpus, model, tariffs, templates; nothing measured."""
    folder = scratch() / name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "protocol", folder / "protocol", ignore=_WRITTEN)
    shutil.copytree(ROOT / "templates", folder / "templates")
    shutil.copy(ROOT / "tariffs.csv", folder)
    return folder


def runner(campaign: Path, *arguments: str) -> str:
    """Run a command on a campaign as a user would; its standard output. Any failure ends the benchmark."""
    command = [sys.executable, "-m", "runner", "--campaign", str(campaign), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


@dataclass(frozen=True)
class Noted:
    """A campaign with its signed note, and how long `runner note` took from nothing."""

    folder: Path
    seconds: float


@functools.cache
def noted_campaign() -> Noted:
    """The embedded campaign measured and noted once; shared by all families that need a real note."""
    folder = fresh_campaign("noted")
    began = time.monotonic()
    runner(folder, "note")
    return Noted(folder, time.monotonic() - began)
