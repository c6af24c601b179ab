"""Make `docs/example/` again: the example note from made-up records, marked as such on every page.

`python -m tests.note.make_example` from the root of the project.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from runner.evidence.attempt import Status
from runner.evidence.signing import DATA_VARIABLE, KEY_VARIABLE
from runner.note.build import build_note
from tests.note.sample import EXPENSES, Measured, Sample, make_campaign

# Cards, prices, times and answers are made up, so that nobody takes them for those of a real card.
TARIFFS = """gpu,device_pattern,cards_per_lot,memory_gib_per_card,days,price_per_lot,currency,catalogue_date,source
gpu-24g,Example GPU 24 GB,1,24,3,58.00,USD,2026-09-24,made up
gpu-24g,Example GPU 24 GB,1,24,7,110.00,USD,2026-09-24,made up
gpu-24g,Example GPU 24 GB,1,24,30,380.00,USD,2026-09-24,made up
gpu-180g,Example GPU 180 GB,2,180,3,990.00,USD,2026-09-24,made up
gpu-180g,Example GPU 180 GB,2,180,7,2071.00,USD,2026-09-24,made up
gpu-48g,Example GPU 48 GB,1,48,,,USD,2026-09-24,made up without a price
"""
PLAN = """schema_version = "plan/1"
zone = "Europe/Berlin"
deadline = "{deadline}"
deliverables = ["messages"]

[[task]]
id = "prepare"
title = "Start the rental, copy model and corpus to it"
kind = "preparation"
start = "2026-10-12T09:00"
duration = "1:00:00"

[[task]]
id = "install"
title = "Install and check the versions"
kind = "installation"
after = ["prepare"]
duration = "0:45:00"

[[task]]
id = "rehearse"
title = "Rehearsal: longest text, largest batch"
kind = "preparation"
after = ["install"]
duration = "0:30:00"

[[task]]
id = "measure"
title = "Five passes over the archive"
kind = "measurement"
after = ["rehearse"]
corpus = "messages"
passes = 5
duration = "36:00:00"

[[task]]
id = "evaluate"
title = "Verdicts on all passes"
kind = "evaluation"
after = ["measure"]
duration = "2:00:00"

[[task]]
id = "keep"
title = "Rental kept while the verdicts are read"
kind = "wait"
after = ["evaluate"]
duration = "6:00:00"

[[task]]
id = "collect"
title = "Copy the results, compare the hashes"
kind = "collection"
after = ["keep"]
duration = "1:00:00"

[[task]]
id = "deliver"
title = "Hand the labels to the archive"
kind = "export"
after = ["collect"]
duration = "2:00:00"
delivery = true
{expenses}"""
HOUR = 3600.0
EXAMPLE = Sample(
    text="Which configuration labels the whole archive of messages well enough and by Wednesday evening, for the "
    "smallest committed budget?",
    configurations=(
        Measured("gpu-24g", 1, 10.7 * HOUR, memory_gib=7.1),
        Measured("gpu-24g", 4, 6.0 * HOUR, spread=0.03, memory_gib=12.4),
        Measured("gpu-24g", 8, 4.8 * HOUR, accuracy=881, memory_gib=21.9,
                 mishaps=dict.fromkeys((0, 2, 3), Status.OUT_OF_MEMORY)),
        Measured("gpu-180g", 1, 3.8 * HOUR, memory_gib=9.0, mishaps={1: Status.KILLED}),
        Measured("gpu-180g", 4, 1.9 * HOUR, memory_gib=18.2),
        Measured("gpu-180g", 8, 1.2 * HOUR, spread=0.05, accuracy=881, memory_gib=36.5, rejected={4: "recompilation"}),
    ),
    unavailable=("gpu-48g",),
    deadline="2026-10-14T18:00",
    tariffs=TARIFFS,
    expenses=EXPENSES,
    different_driver="580.65",
    memory_samples=True,
    documents=48_000,
    plan=PLAN,
    step=12.0,  # five passes are whole minutes
)  # fmt: skip
TARGET = Path(__file__).resolve().parents[2] / "docs" / "example"


def make_example(target: Path) -> None:
    """Several GPUs, one option too late, failures, an unmeasured GPU, different drivers. Written into `target`.

    No key of this machine is named: the example is never signed, and is the same wherever it is made.
    """
    target.mkdir(parents=True, exist_ok=True)
    os.environ.pop(KEY_VARIABLE, None)
    with tempfile.TemporaryDirectory() as temporary:
        os.environ[DATA_VARIABLE] = temporary
        built = build_note(make_campaign(Path(temporary) / "campaign", EXAMPLE), example=True)
        for path in (built.qmd, built.html, built.pdf):
            shutil.copyfile(path, target / path.name)


if __name__ == "__main__":
    make_example(TARGET)
