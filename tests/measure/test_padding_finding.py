"""Issue 6, point 5 and "Shown by": the padding finding of docs/performance.md is counted again, text and plot alike."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

tokenizers = pytest.importorskip("tokenizers")

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
PLOT = ElementTree.parse(ROOT / "docs" / "images" / "padding.svg").getroot()
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def lengths() -> list[int]:
    """Tokens of each text of the demo, in corpus order, with the model's own tokenizer."""
    tokenizer = tokenizers.Tokenizer.from_file(str(ROOT / "protocol" / "model" / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    with (ROOT / "protocol" / "corpus" / "final.csv").open(encoding="utf-8", newline="") as stream:
        texts = [row["text"] for row in csv.DictReader(stream)]
    return [len(encoding.ids) for encoding in tokenizer.encode_batch(texts)]


def computed(lengths: list[int], batch: int) -> int:
    """Tokens of all rectangles: every batch is as wide as its longest text."""
    groups = [lengths[start : start + batch] for start in range(0, len(lengths), batch)]
    return sum(len(group) * max(group) for group in groups)


@pytest.fixture(scope="module")
def counted(lengths: list[int]) -> dict[str, int]:
    return {
        "batch 1": computed(lengths, 1),
        "batch 4": computed(lengths, 4),
        "batch 8": computed(lengths, 8),
        "batch 8, sorted by length": computed(sorted(lengths), 8),
        "batch 8, packed": sum(lengths),
    }


def test_the_text_names_the_counted_tokens(counted: dict[str, int]) -> None:
    section = PAGE.split("## Padding is most of the work", 1)[1].split("\n## ", 1)[0]
    for count in counted.values():
        assert f"{count:,}" in section, f"{count:,}"
    ratio = f"{counted['batch 8'] / counted['batch 1']:.1f} times as many"
    assert ratio in section.replace("\n", " ")


def test_the_plot_draws_the_counted_tokens(counted: dict[str, int]) -> None:
    """Numbers beside the bars, and bars as long as their numbers, texts and padding apart."""
    words = [node.text or "" for node in PLOT.iter(f"{SVG}text")]
    bars = [
        (float(node.get("y", "0")), float(node.get("width", "0")))
        for node in PLOT.iter(f"{SVG}rect")
        if node.get("height") == "22"
    ]
    rows = sorted({y for y, _ in bars})
    assert len(rows) == len(counted)
    scale = None
    for y, (name, count) in zip(rows, counted.items(), strict=True):
        assert words.index(f"{count:,}") > -1 and name in words
        width = [w for at, w in bars if at == y]
        scale = scale or count / width[0]
        assert sum(width) * scale == pytest.approx(count, rel=0.005), name
        assert width[0] * scale == pytest.approx(counted["batch 8, packed"], rel=0.005), "the texts' own tokens"
    assert re.search(r"!\[[^]]+\]\(images/padding\.svg\)", PAGE)
