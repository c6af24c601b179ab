"""Make `docs/example/` again: the example note from made-up records, marked as such on every page.

`python -m tests.note.make_example` from the root of the project.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from runner.evidence.signing import DATA_VARIABLE, KEY_VARIABLE
from runner.note.build import build_note
from tests.note.sample import PRICED, make_campaign

TARGET = Path(__file__).resolve().parents[2] / "docs" / "example"


def make_example(target: Path) -> None:
    """Several GPUs, failures, an unmeasured GPU, different drivers. Written into `target`.

    No key of this machine is named: the example is never signed, and is the same wherever it is made.
    """
    target.mkdir(parents=True, exist_ok=True)
    os.environ.pop(KEY_VARIABLE, None)
    with tempfile.TemporaryDirectory() as temporary:
        os.environ[DATA_VARIABLE] = temporary
        built = build_note(make_campaign(Path(temporary) / "campaign", PRICED), example=True)
        for path in (built.qmd, built.html, built.pdf):
            shutil.copyfile(path, target / path.name)


if __name__ == "__main__":
    make_example(TARGET)
