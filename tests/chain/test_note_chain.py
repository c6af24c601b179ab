"""The whole chain for real: child processes, real model, real signatures, checks with tools that are not ours."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
WRITTEN = shutil.ignore_patterns("*.lock.json*", "baseline", "keys", "locks", "reference", ".*")
DOCUMENTS = 60

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def runner(campaign: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "runner", "--campaign", str(campaign), *arguments],
        cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip


def small_campaign(folder: Path) -> Path:
    """The embedded campaign with every stratum, but fewer documents and passes: minutes become seconds."""
    shutil.copytree(ROOT / "protocol", folder / "protocol", ignore=WRITTEN)
    shutil.copytree(ROOT / "templates", folder / "templates")
    shutil.copy(ROOT / "tariffs.csv", folder)
    corpus = folder / "protocol/corpus/final.csv"
    with corpus.open(encoding="utf-8", newline="") as file:
        header, *rows = list(csv.reader(file))
    stratum = header.index("stratum")
    strata = ([row for row in rows if row[stratum] == name] for name in ("short", "medium", "long"))
    kept = [row for group in strata for row in group[: DOCUMENTS // 3]]
    with corpus.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *kept])
    protocol = folder / "protocol/quality-protocol.toml"
    text = protocol.read_text(encoding="utf-8")
    for old, new in (
        ("passes_planned = 5", "passes_planned = 2"), ("min_accepted = 3", "min_accepted = 2"),
        ('threshold = "0.85"', 'threshold = "0.50"'), ('minimum = "0.84"', 'minimum = "0.40"'),
    ):  # fmt: skip
        assert old in text
        text = text.replace(old, new)
    protocol.write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def noted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, subprocess.CompletedProcess[str]]]:
    """A campaign in a folder with a blank in its name, after one `runner note`."""
    folder = small_campaign(tmp_path_factory.mktemp("chain") / "my campaign")
    yield folder, runner(folder, "note", "--batches", "1 4")


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_bytes()) for path in sorted((folder / "records/attempts").glob("*.json"))]


def times(folder: Path) -> dict[str, int]:
    parts = ("records/attempts", "verdicts", "note")
    return {
        str(path.relative_to(folder)): path.stat().st_mtime_ns
        for part in parts for path in sorted((folder / part).rglob("*")) if path.is_file()
    }  # fmt: skip


def test_from_nothing_to_a_verified_note(noted: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    """M16, M21, M22: four attempts in rotated order, one row each, chained, all with predictions."""
    folder, done = noted
    assert done.returncode == 0, done.stdout + done.stderr
    found = rows(folder)
    assert [(row["variant_id"], row["status"]) for row in found] == [
        ("b1", "completed"), ("b4", "completed"), ("b4", "completed"), ("b1", "completed"),
    ]  # fmt: skip
    assert all(row["completed_documents"] == row["expected_documents"] == DOCUMENTS for row in found)
    decision = json.loads((folder / "note/decision.json").read_bytes())
    assert decision["outcome"] in ("chosen", "undecided")
    head = "undecided" if decision["chosen"] is None else f"chosen: {decision['chosen']}"
    assert head in done.stdout
    for name in ("decision-note.pdf", "decision-note.html", "decision-note.qmd"):
        assert str(folder / "note" / name) in done.stdout
        assert (folder / "note" / name).stat().st_size > 1000
    assert "sha256sum -c note/SHA256SUMS" in done.stdout


def test_own_machine_costs_nothing_and_catalogue_never_wins(
    noted: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    """M43, rule 11: cost does not apply to the own machine; an unmeasured GPU is listed and never chosen."""
    balance = json.loads((noted[0] / "note/balance.json").read_bytes())
    own = [row for row in balance["rows"] if row["gpu"] == "cpu"]
    others = [row for row in balance["rows"] if row["gpu"] != "cpu"]
    assert own
    assert all(row["committed_cost"] is None and row["committed_cost_reason"] for row in own)
    assert {row["gpu"] for row in others} == {"rtx-4090", "b200"}
    assert not any(row["measured"] or row["admissible"] for row in others)


def test_commands_that_the_chain_prints_accept_the_note(
    noted: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    """Checked without our code, exactly as printed."""
    folder, done = noted
    commands = re.findall(r"^  ((?:cd .* && )?(?:sha256sum|ssh-keygen|pdfsig) .*)$", done.stdout, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        program = command.rpartition(" && ")[2].split()[0]
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")
        checked = subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, command + checked.stdout + checked.stderr
        assert "Digest Mismatch" not in checked.stdout


def test_again_with_nothing_changed_builds_nothing(noted: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, _ = noted
    before = times(folder)
    again = runner(folder, "note", "--batches", "1 4")
    assert again.returncode == 0, again.stderr
    assert times(folder) == before
    assert "still fits its evidence" in again.stderr


def test_changed_byte_is_found_and_the_chain_repairs_the_note(
    noted: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    """NO-14: the note that is there must be the one that was signed."""
    folder, _ = noted
    page = folder / "note/decision-note.html"
    page.write_bytes(page.read_bytes() + b" ")
    refused = runner(folder, "verify")
    assert refused.returncode == 3
    assert "note/decision-note.html" in refused.stdout
    again = runner(folder, "note", "--batches", "1 4")
    assert again.returncode == 0
    assert "Everything that was checked fits" in again.stderr


def test_gpu_that_is_not_there_is_unavailable(noted: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    """M11: declared against present; rows without numbers, exit 3, and no note from them."""
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    folder = noted[0].parent / "b200"
    shutil.copytree(noted[0] / "protocol", folder / "protocol")
    shutil.copy(noted[0] / "tariffs.csv", folder)
    done = runner(folder, "note", "--gpu", "b200", "--batches", "1 4")
    assert done.returncode == 3
    assert "no note yet" in done.stdout
    assert {row["status"] for row in rows(folder)} == {"unavailable"}
    assert all(row["pass_seconds"] is None and row["gpu_declared"] == "b200" for row in rows(folder))
    assert not (folder / "note/decision-note.pdf").exists()
