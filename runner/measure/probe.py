"""Which cards torch sees, asked in a process of its own: `python -m runner.measure.probe` prints JSON.

The parent never opens a device context, and a build of torch that cannot start does not take it down.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

_TIMEOUT_SECONDS = 180


@dataclass(frozen=True)
class FoundDevices:
    """Cards by index as torch names them; `problem` says why there are none."""

    names: tuple[str, ...]
    uuid_sha256: tuple[str, ...]
    problem: str | None


def find_devices() -> FoundDevices:
    """Ask torch in a child process."""
    value = ask_torch()
    if isinstance(value, str):
        return FoundDevices((), (), value)
    names = tuple(gpu["name"] for gpu in value["gpus"])
    hashes = tuple(gpu["uuid_sha256"] for gpu in value["gpus"] if gpu["uuid_sha256"])
    return FoundDevices(names, hashes, value["problem"])


def ask_torch() -> dict[str, Any] | str:
    """What `main` prints: `gpus` as the manifest has them, and `problem`; in words why there is no answer."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "runner.measure.probe"],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
            env=dict(os.environ),
        )
        value: dict[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return f"torch did not answer within {_TIMEOUT_SECONDS} s"
    except (OSError, ValueError):
        return "torch could not be started"
    return value


def main() -> None:
    import warnings

    warnings.simplefilter("ignore")
    gpus: list[dict[str, object]] = []
    problem = None
    try:
        import torch

        from runner.measure.environment import gpu_facts

        if torch.cuda.is_available():
            gpus = [gpu_facts(torch, index) for index in range(torch.cuda.device_count())]
        elif torch.version.cuda is None and torch.version.hip is None:
            problem = f"this build of torch ({torch.__version__}) is for the CPU only"
        else:
            problem = "torch finds no card: no driver, or it is hidden"
    except Exception as error:  # any broken build or driver is an answer here, not a bug
        problem = f"torch cannot use a card: {type(error).__name__}: {str(error)[:200]}"
    sys.stdout.write(json.dumps({"gpus": gpus, "problem": problem}))


if __name__ == "__main__":
    main()
