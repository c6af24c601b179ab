"""The plainest honest attempt: import, load, read, tokenise, forward, softmax, to the host. Prints the pass in seconds.

Usage: bare_process.py PROTOCOL_FOLDER BATCH
"""

from __future__ import annotations

import csv
import sys
import time
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer


def main(protocol: Path, batch: int) -> None:
    tokenizer = AutoTokenizer.from_pretrained(protocol / "model")
    model = AutoModelForSequenceClassification.from_pretrained(protocol / "model").eval()
    began = time.monotonic()
    with (protocol / "corpus/final.csv").open(encoding="utf-8", newline="") as file:
        rows = [(row["id"], row["text"]) for row in csv.DictReader(file)]
    found: list[tuple[str, str, float]] = []
    with torch.no_grad():
        for start in range(0, len(rows), batch):
            part = rows[start : start + batch]
            texts = [text for _, text in part]
            inputs = tokenizer(texts, padding=True, truncation=True, max_length=512, return_tensors="pt")
            scores = model(**inputs).logits.softmax(-1)
            best = scores.max(-1)
            found += zip(
                (identifier for identifier, _ in part),
                (model.config.id2label[index] for index in best.indices.tolist()),
                best.values.tolist(),
                strict=True,
            )
    sys.stdout.write(f"{time.monotonic() - began}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
