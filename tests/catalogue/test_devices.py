"""Which real device counts as a rented GPU (M11)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from runner.catalogue.devices import check_pattern, device_pattern, matches
from runner.errors import InputRefused

ROOT = Path(__file__).resolve().parents[2]
TARIFFS = ROOT / "tariffs.csv"


@pytest.mark.parametrize(
    ("gpu", "device", "expected"),
    [
        ("rtx-4090", "NVIDIA GeForce RTX 4090", True),
        ("rtx-4090", "NVIDIA GeForce RTX 4090 Laptop GPU", False),
        ("rtx-4090", "NVIDIA GeForce RTX 4090 D", False),
        ("rtx-4090", "nvidia geforce rtx 4090", False),
        ("rtx-4090", " NVIDIA GeForce RTX 4090", False),
        ("b200", "NVIDIA B200", True),
        ("b200", "NVIDIA GB200", False),
        ("b200", "NVIDIA H200", False),
        ("b200", "", False),
        ("b200", "NVIDIA B200\n", False),
        ("h200", "NVIDIA H200", None),
    ],
)
def test_the_whole_name_counts(gpu: str, device: str, expected: bool | None) -> None:
    """Neither part of a name, nor another letter case, nor blanks; an unknown GPU says so."""
    assert matches(gpu, device, TARIFFS) is expected


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+b",
        "(a|a)*b",
        "(?:a*)*",
        "a*b*c*",
        "(a){9}",
        "(?=a)a",
        "(?i)a",
        r"(a)\1",
        r"a\Z",
        "a?" * 9 + "b",
        "x" * 201,
        ".*",
        ".+",
        "(",
        "[z-a]",
        "",
        "a\nb",
        "a|" * 9 + "b",
        "(?P<n>a)",
        "(?#c)a",
    ],
)
def test_patterns_that_are_invalid_match_all_or_could_take_long_are_refused(pattern: str) -> None:
    with pytest.raises(InputRefused):
        check_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"NVIDIA B200",
        r"NVIDIA H200( NVL)?",
        r"(NVIDIA )?GeForce RTX 4090",
        r"AMD Instinct MI300X.*",
        r"Tesla [TV]\d+.*",
        r"NVIDIA (?:A100|H100)[-A-Z0-9 ]+GB",
        r"Card \[x\]\(y\)",
    ],
)
def test_useful_patterns_are_allowed_and_fast(pattern: str) -> None:
    compiled = check_pattern(pattern)
    started = time.process_time()
    for text in ("NVIDIA " * 28, "a" * 200, "GeForce RTX 4090" * 12):
        compiled.fullmatch(text[:200])
    assert time.process_time() - started < 1


def test_the_worst_allowed_pattern_stays_fast() -> None:
    compiled = check_pattern("(?:a?a?a?a?a?a?a?a?)a*a*b")
    started = time.process_time()
    assert compiled.fullmatch("a" * 200) is None
    assert time.process_time() - started < 5


def test_two_patterns_for_one_gpu_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("gpu,device_pattern\nx,A\nx,B\n", encoding="utf-8")
    with pytest.raises(InputRefused) as refused:
        device_pattern(file, "x")
    assert (refused.value.line, refused.value.value) == (3, "B")


@pytest.mark.parametrize("data", [b"gpu,days\nx,7\n", b"\xff", b'gpu,device_pattern\nx,"A\n', b""])
def test_unreadable_tariffs_are_refused(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    with pytest.raises(InputRefused, match="cannot be read"):
        device_pattern(file, "x")
    file.write_bytes(data)
    with pytest.raises(InputRefused):
        device_pattern(file, "x")
