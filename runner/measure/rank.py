"""One rank of an attempt with several processes: `python -m runner.measure.rank JOB`, started by torchrun's agent."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from runner.measure.job import Job
from runner.measure.journal import Journal
from runner.measure.launch import LAUNCHER_PID, rank_file
from runner.measure.team import Team
from runner.measure.worker import Worker, die_with_parent

_NOT_COMPLETED = 3


def main(arguments: list[str]) -> int:
    """Exit status 0 only for a completed share: anything else makes the agent end the other ranks."""
    die_with_parent(int(os.environ[LAUNCHER_PID]))
    job = Job.load(Path(arguments[0]))
    team = Team.of_environment()
    own = replace(
        job,
        device=team.device(job),
        results=str(rank_file(job.results, team.rank)),
        result=str(rank_file(job.result, team.rank)),
    )
    journal = Journal(Path(job.journal))
    journal.event("rank", rank=team.rank, node=team.node, pid=os.getpid())
    outcome = Worker(own, journal, None, team).run()
    Path(own.result).write_text(json.dumps(outcome, ensure_ascii=False, allow_nan=False), encoding="utf-8")
    return 0 if outcome["status"] == "completed" else _NOT_COMPLETED


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
