"""Memory limit and full disk: evidence, one row, a way on (M23, RE-01)."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.evidence.attempt import Settings, Status
from runner.evidence.campaign import Campaign
from runner.evidence.store import read_attempts
from runner.measure.rows import verdict_on_end
from runner.measure.supervisor import StopRequest, run_worker
from tests.measure.light import light_campaign, run
from tests.measure.test_engines import corpus, job_for  # noqa: F401 - a fixture

ROOT = Path(__file__).parents[2]


def test_out_of_memory_under_a_limit_has_evidence_and_taints_nothing(corpus: Path) -> None:  # noqa: F811
    from dataclasses import replace

    job = job_for(corpus, batch_size=10, padding="max-length", extra={"memory_margin_mib": 4})
    for margin, status in ((4, Status.OUT_OF_MEMORY), (2000, Status.COMPLETED)):
        settings = Settings(**job.settings).model_copy(update={"extra": {"memory_margin_mib": margin}})
        end = run_worker(
            replace(job, settings=settings.as_json(), parent_pid=os.getpid()),
            environment=os.environ, timeout_seconds=120, stop=StopRequest(),
        )
        found, error = verdict_on_end(end)
        assert found is status, (error, end.stderr_tail)
        if error is not None:
            assert error.kind == "out of memory"
            assert error.evidence is not None and "RLIMIT_DATA" in error.evidence


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB, where this user may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    if os.geteuid() != 0 or mount is None:
        pytest.skip("needs root to mount a small file system")
    done = subprocess.run([mount, "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], check=False,
                          capture_output=True)
    if done.returncode != 0:
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_stops_with_one_message_and_goes_on_when_there_is_room(small_disk: Path) -> None:
    campaign = light_campaign(small_disk, documents=20)
    run(campaign, passes=1)
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
        while stream.write(b"x" * 4096):
            pass
    code = (
        "import sys, pathlib\nfrom runner.evidence.campaign import Campaign\nfrom runner.errors import NotAccepted\n"
        "from tests.measure.light import run\n"
        "try:\n    run(Campaign(pathlib.Path(sys.argv[1])))\nexcept NotAccepted as error:\n    print(error)\n"
        "    sys.exit(3)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(campaign.root)], cwd=ROOT, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 3, done.stderr
    assert "No space left on device" in done.stdout
    filler.unlink()
    outcome = run(campaign)
    rows = read_attempts(Campaign(small_disk))
    assert len({row.slot.pass_index for row in rows}) == 2
    assert outcome.completed + sum(row.status is Status.LOST for row in rows) == 2
