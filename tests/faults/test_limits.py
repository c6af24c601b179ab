"""Memory limit and full disk: evidence, one row, a way on (M23, RE-01)."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from runner.evidence.attempt import Settings, Status
from runner.evidence.campaign import Campaign
from runner.evidence.store import read_attempts
from runner.measure.cgroups import ControlGroups
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
            environment=os.environ,
            timeout_seconds=120,
            stop=StopRequest(),
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
    done = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], check=False, capture_output=True
    )
    if done.returncode != 0:
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    _unmount(folder)


def _unmount(folder: Path, within_seconds: float = 30.0) -> None:
    """A worker whose parent has gone may take a moment to end; one that stays is a fault of ours, and is named."""
    deadline = time.monotonic() + within_seconds
    while subprocess.run(["umount", str(folder)], check=False, capture_output=True).returncode:
        gc.collect()  # files of this process
        if time.monotonic() > deadline:
            holders = _holders(folder)
            subprocess.run(["umount", "--lazy", str(folder)], check=False)
            pytest.fail(f"the small file system is still in use: {holders}")
        time.sleep(0.2)


def _holders(folder: Path) -> list[str]:
    """Processes with an open file, their working folder or a mapping below this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            links = [process / "cwd", *(process / "fd").iterdir(), *(process / "map_files").iterdir()]
            for link in links:
                with contextlib.suppress(OSError):
                    if link.readlink().is_relative_to(folder):
                        command = (process / "cmdline").read_text(errors="replace").replace("\0", " ")[:200]
                        found.append(f"{process.name} ({command.strip()}): {link.name}")
                        break
    return found


def fill(disk: Path, pages_left: int) -> Path:
    """A file that takes all but some pages of 4 KiB."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
        while stream.write(b"x" * 4096):
            pass
    os.truncate(filler, filler.stat().st_size // 4096 * 4096 - 4096 * pages_left)
    return filler


def measure_in_a_process(campaign: Campaign) -> subprocess.CompletedProcess[str]:
    """Exit status as the command has it: 0, or 3 with one message."""
    code = (
        "import sys, pathlib\nfrom runner.evidence.campaign import Campaign\nfrom runner.errors import NotAccepted\n"
        "from tests.measure.light import run\n"
        "try:\n    sys.exit(0 if run(Campaign(pathlib.Path(sys.argv[1]))).complete else 3)\n"
        "except NotAccepted as error:\n    print(error)\n    sys.exit(3)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code, str(campaign.root)], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("pages_left", sorted({int(page) for page in os.environ.get("FAULT_PAGES", "3 6 9").split()}))
def test_a_disk_that_fills_up_at_any_moment_loses_no_row(small_disk: Path, pages_left: int) -> None:
    """M22, M23: somewhere between the first row and the last prediction nothing fits any more.

    `FAULT_PAGES="1 2 3 ... 20"` tries every page.
    """
    campaign = light_campaign(small_disk, documents=600, passes=2)
    filler = fill(small_disk, pages_left)
    done = measure_in_a_process(campaign)
    assert done.returncode in (0, 3), done.stderr + done.stdout
    assert done.stderr == ""
    assert not list(campaign.records.rglob(".lock"))
    filler.unlink()
    before = {path.stem for path in campaign.attempts.glob("*.json")}
    outcome = run(campaign)
    rows = read_attempts(campaign)  # the chain holds
    assert before <= {row.attempt_id for row in rows}, "no row is lost"
    assert {row.slot.pass_index for row in rows} == {0, 1}
    assert len(rows) == 2 and outcome.left == 0, "each slot once"
    for row in rows:
        assert row.status in (Status.COMPLETED, Status.FAILED, Status.LOST)
        if row.predictions is not None:
            table = pq.read_table(campaign.inside(row.predictions.path))
            assert table.num_rows == row.completed_documents
        if row.status is Status.COMPLETED:
            assert row.completed_documents == 600
    assert not [path.name for path in campaign.records.rglob(".*")], "no leftovers"


def test_a_full_disk_stops_with_one_message_and_goes_on_when_there_is_room(small_disk: Path) -> None:
    campaign = light_campaign(small_disk, documents=20)
    run(campaign, passes=1)
    filler = fill(small_disk, pages_left=0)
    done = measure_in_a_process(campaign)
    assert done.returncode == 3, done.stderr
    assert "No space left on device" in done.stdout
    filler.unlink()
    outcome = run(campaign)
    rows = read_attempts(Campaign(small_disk))
    assert len({row.slot.pass_index for row in rows}) == 2
    assert outcome.completed + sum(row.status is Status.LOST for row in rows) == 2


@pytest.fixture
def memory_group() -> Iterator[Path]:
    """A memory control group of 512 MiB (version 2 or 1), where this user may make one."""
    made = None
    for version, folder in ControlGroups().folders("memory"):
        made = folder / f"runner-test-{os.getpid()}"
        limit = made / ("memory.max" if version == 2 else "memory.limit_in_bytes")
        try:
            made.mkdir()
            limit.write_text(str(512 << 20), encoding="ascii")
        except OSError:
            with contextlib.suppress(OSError):
                made.rmdir()
            made = None
            continue
        break
    if made is None:
        pytest.skip("a memory control group cannot be made here")
    yield made
    made.rmdir()


def test_a_kill_by_the_kernel_for_memory_is_proved_by_the_groups_counter(memory_group: Path, tmp_path: Path) -> None:
    """RE-01: the same signal 9, and this time the cause is known: a real container limit, a real kernel kill."""
    campaign = light_campaign(tmp_path, documents=20, do="eat", at=7)
    code = (
        "import os, pathlib, sys\npathlib.Path(sys.argv[2], 'cgroup.procs').write_text(str(os.getpid()))\n"
        "from runner.evidence.campaign import Campaign\nfrom tests.measure.light import run\n"
        "run(Campaign(pathlib.Path(sys.argv[1])), passes=1)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(campaign.root), str(memory_group)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (row,) = read_attempts(campaign)
    assert row.status is Status.OUT_OF_MEMORY
    assert row.error is not None
    assert row.error.evidence == "the control group's counter oom_kill rose by 1 while the worker ran"
    assert row.completed_documents == 7


def test_a_disk_that_stays_in_use_is_named_and_one_that_is_let_go_is_waited_for(small_disk: Path) -> None:
    """The tests above must neither fail for a process that is about to end nor hide one that is not."""

    def hold(seconds: int) -> subprocess.Popen[bytes]:
        code = "import pathlib, sys, time\nwith pathlib.Path(sys.argv[1]).open('wb'):\n    print(1, flush=True)\n"
        holder = subprocess.Popen(
            [sys.executable, "-c", f"{code}    time.sleep({seconds})", str(small_disk / "held")],
            stdout=subprocess.PIPE,
        )
        assert holder.stdout is not None and holder.stdout.readline()
        return holder

    with hold(600) as holder:
        assert any(str(holder.pid) in name for name in _holders(small_disk))
        holder.kill()
    with hold(2):
        _unmount(small_disk)
    remount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(small_disk)], check=False)
    assert remount.returncode == 0
