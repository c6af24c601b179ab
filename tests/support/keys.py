"""Local test keys of somebody else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from runner.evidence.signing import DATA_VARIABLE


@contextmanager
def another_user(folder: Path) -> Iterator[None]:
    """Within the block local test keys are those of a user whose data lie in `folder`."""
    with patch.dict(os.environ, {DATA_VARIABLE: str(folder)}):
        yield
