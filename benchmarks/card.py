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
_HAS_CARD = "import sys, torch; sys.exit(0 if torch.cuda.is_available() else 3)"
# Random weights: they take as long as trained ones, and prove nothing about labels.
_MODEL = """
import sys, torch, transformers
torch.manual_seed(0)
config = transformers.BertConfig(vocab_size=2000, num_labels=6)
transformers.AutoModelForSequenceClassification.from_config(config).save_pretrained(sys.argv[1])
"""


def busy_shares(pairs: Sequence[tuple[float, float]]) -> tuple[list[float], str]:
    """Of pairs (seconds of the card's kernels, seconds of a pass): the shares, and a note where one was above 1.

    The kernels are those of a pass beside, under the profiler: a card that never waits, or is warmer by then, may need
    a little longer for them than that pass took.
    """
    if any(busy <= 0 for busy, _ in pairs):
        raise ValueError("the profiler saw no kernel of the card")
    above = sum(busy > seconds for busy, seconds in pairs)
    return [min(1.0, busy / seconds) for busy, seconds in pairs], f"; above 1, cut: {above}" if above else ""


@measures("device_busy_share")
def device_busy() -> Iterable[Figure]:
    """Reading, tokenising and materialising beside the card's work, not between it.

    Without graphs of the card, what starts some 200 kernels per batch is Python: a fast card may wait for it at batch 8
    whatever the engine does. The goal is that of a card that computes longer than this; the figure is what was found.
    """
    if subprocess.run([sys.executable, "-c", _HAS_CARD], check=False, capture_output=True).returncode:
        raise NotMeasurable("torch finds no card here")
    folder = bert_base()
    command = [sys.executable, "-m", "benchmarks.card_passes", str(folder), str(CORPUS), str(_PASSES)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=True)
    found = json.loads(done.stdout.splitlines()[-1])  # the profiler may talk before it
    shares, cut = busy_shares([(busy, seconds) for busy, seconds in found["pairs"]])
    note = f"BERT-base with random weights, bf16, batch 8, no graphs, on {found['device']}{cut}"
    yield figure("device_busy_share", shares, unit="share", goal=">= 0.95", note=note)


def bert_base() -> Path:
    """12 layers x 768 with the demo's tokenizer."""
    folder = scratch() / "bert-base"
    subprocess.run([sys.executable, "-c", _MODEL, str(folder)], check=True, capture_output=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(DEMO / name, folder / name)
    return folder
