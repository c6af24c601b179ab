"""How much of a pass a card is busy: BERT-base, bf16, batch 8, engine `transformers`. Needs a card."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.campaigns import scratch
from benchmarks.engines import CORPUS, DEMO
from benchmarks.harness import ROOT, Figure, NotMeasurable, figure, measures

_PASSES = 5
_JITTER = 0.02
_HAS_CARD = "import sys, torch; sys.exit(0 if torch.cuda.is_available() else 3)"
# Random weights: they take as long as trained ones, and prove nothing about labels.
_MODEL = """
import sys, torch, transformers
torch.manual_seed(0)
config = transformers.BertConfig(vocab_size=2000, num_labels=6)
transformers.AutoModelForSequenceClassification.from_config(config).save_pretrained(sys.argv[1])
"""


def busy_shares(busy: float, passes: Sequence[float]) -> list[float]:
    """Seconds that the card's kernels take, as shares of passes of so many seconds.

    The kernels are those of another pass: where the card never waits, some passes are a little shorter than they.
    """
    for seconds in passes:
        if not 0 < busy <= seconds * (1 + _JITTER):
            raise ValueError(f"a card that is busy for {busy} s of a pass of {seconds} s")
    return [min(1.0, busy / seconds) for seconds in passes]


@measures("device_busy_share")
def device_busy() -> Iterable[Figure]:
    """Reading, tokenising and materialising beside the card's work, not between it."""
    if subprocess.run([sys.executable, "-c", _HAS_CARD], check=False, capture_output=True).returncode:
        raise NotMeasurable("torch finds no card here")
    folder = bert_base()
    command = [sys.executable, "-m", "benchmarks.card_passes", str(folder), str(CORPUS), str(_PASSES)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=True)
    found = json.loads(done.stdout.splitlines()[-1])  # the profiler may talk before it
    yield figure(
        "device_busy_share", busy_shares(found["busy"], found["passes"]), unit="share",
        goal=">= 0.95", note=f"BERT-base with random weights, bf16, batch 8, on {found['device']}",
    )  # fmt: skip


def bert_base() -> Path:
    """12 layers x 768 with the demo's tokenizer."""
    folder = scratch() / "bert-base"
    subprocess.run([sys.executable, "-c", _MODEL, str(folder)], check=True, capture_output=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(DEMO / name, folder / name)
    return folder
