"""Is what measuring needs installed here? Asked before anything is written: a row that failed stays failed."""

from __future__ import annotations

import importlib.util

from runner.errors import InputRefused

# `psutil` and the driver's readings have stand-ins; without these no model runs.
NEEDED = ("torch", "transformers", "safetensors")


def refuse_without_packages() -> None:
    """Raises `InputRefused` with the command that installs them; imports nothing."""
    lacking = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if lacking:
        raise InputRefused(
            f"measuring needs the part `measure`, which is not installed here (missing: {', '.join(lacking)})",
            next_step='make setup EXTRAS="measure"',
        )
