"""A light worker whose corpus is another one only while it runs: swapped in and put back by renaming."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a script: the tests are not importable otherwise

from runner.measure.job import Job
from runner.measure.worker import main
from tests.measure.light_worker import LightKit

if __name__ == "__main__":
    corpus = Path(Job.load(Path(sys.argv[1])).corpus.path)
    aside, other = corpus.with_suffix(".aside"), corpus.with_suffix(".other")
    if other.exists():
        corpus.rename(aside)
        other.rename(corpus)
    status = main(sys.argv[1:], LightKit())
    if aside.exists():
        corpus.rename(other)
        aside.rename(corpus)
    os._exit(status)
