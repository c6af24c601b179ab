"""The bench harness: medians of interleaved pairs, goals, every figure with its own machine."""

from __future__ import annotations

import json
import multiprocessing
import re
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import __main__ as bench
from benchmarks import card, harness, results


def test_pairs_run_in_turns_and_change_the_order() -> None:
    calls: list[str] = []

    def side(name: str) -> float:
        calls.append(name)
        return float(len(calls))

    found = harness.pairs(lambda: side("a"), lambda: side("b"), 3, warm_up=0)
    assert "".join(calls) == "abbaab"
    assert found == [(1.0, 2.0), (4.0, 3.0), (5.0, 6.0)], "the first value is always that of the first function"


def test_figure_is_the_median_with_its_range() -> None:
    item = harness.figure("x_seconds", [3.0, 1.0, 2.0], unit="s", goal="<= 2.5")
    assert (item.value, item.n, item.minimum, item.maximum) == (2.0, 3, 1.0, 3.0)
    assert item.reached
    assert harness.figure("x", [3.0], unit="ratio", goal=">= 4.5").reached is False
    assert harness.figure("x", [3.0], unit="ratio").reached is None


def test_every_name_is_measured_by_one_family() -> None:
    names = [name for group in bench.load_families() for name in group]
    assert len(names) == len(set(names))
    assert {
        "attempt_overhead_seconds", "help_over_bare_seconds", "demo_report_seconds", "note_after_install_seconds",
    } <= set(names)  # fmt: skip


def test_choice_by_parts_of_names() -> None:
    known = {("help_over_bare_seconds",): list, ("demo_report_seconds", "x_seconds"): list}
    assert list(bench.chosen(known, ["report"])) == [("demo_report_seconds", "x_seconds")]
    assert bench.chosen(known, []) == known
    with pytest.raises(SystemExit, match="no figure is called nonsense; there are: help_over_bare_seconds"):
        bench.chosen(known, ["help", "nonsense"])


def _entry(name: str, value: float) -> dict[str, Any]:
    return dict(harness.figure(name, [value], unit="s").as_json())


def test_a_figure_measured_elsewhere_stays_with_its_own_machine_and_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DESIGN section 4: `{machine, date, figures}`; a new kernel loses nothing and is mixed with nothing."""
    path = tmp_path / "results.json"
    old, new = {"cpu": "same", "system": "kernel 1"}, {"cpu": "same", "system": "kernel 2"}
    assert results.read_figures(path) == {}
    monkeypatch.setattr(results, "today", lambda: "2026-11-29")
    results.merge(path, old, [_entry("x", 1.0), _entry("y", 2.0)])
    monkeypatch.setattr(results, "today", lambda: "2026-11-30")
    results.merge(path, new, [_entry("x", 3.0)])
    content = json.loads(path.read_text(encoding="utf-8"))
    assert set(content) == {"machine", "date", "figures"}
    assert (content["machine"], content["date"]) == (new, "2026-11-30")
    x, y = content["figures"]
    assert {"name", "value", "unit", "goal", "n", "min", "max"} <= set(x)
    assert (x["value"], x["date"]) == (3.0, "2026-11-30")
    assert "machine" not in x, "the machine above is meant"
    assert (y["value"], y["date"], y["machine"]) == (2.0, "2026-11-29", old)
    results.merge(path, old, [])
    x, y = json.loads(path.read_text(encoding="utf-8"))["figures"]
    assert x["machine"] == new and "machine" not in y, "back on the first machine, the other one is the stranger"
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"], "no lock, no half file is left"


def _write_many(path: Path, worker: int) -> None:
    for number in range(20):
        results.merge(path, {"cpu": "one"}, [_entry(f"w{worker}_{number:02d}", 1.0)])


def test_runs_beside_each_other_keep_each_others_figures(tmp_path: Path) -> None:
    """Issues 2 and 3: figures once measured were lost because a run wrote over those of another."""
    path = tmp_path / "results.json"
    started = multiprocessing.get_context("spawn")
    workers = [started.Process(target=_write_many, args=(path, worker)) for worker in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert len(results.read_figures(path)) == 60


@pytest.mark.parametrize("text", ["", "<<<<<<< HEAD\n{}", "[]", '{"machine": {}, "date": "", "figures": [1]}'])
def test_results_that_cannot_be_read_are_never_written_over(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(results.UnreadableResults):
        results.merge(path, {}, [_entry("x", 1.0)])
    monkeypatch.setattr(bench, "RESULTS", path)
    monkeypatch.setattr("sys.argv", ["bench"])
    assert bench.main() == 2, "before anything is measured"
    assert "results.json cannot be read" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == text


def test_a_run_of_chosen_families_says_how_long_each_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def slow() -> list[harness.Figure]:
        return [harness.figure("slow_seconds", [2.0], unit="s", goal="<= 1.0")]

    def quick() -> list[harness.Figure]:
        return [harness.figure("quick_seconds", [0.5], unit="s", goal="<= 1.0")]

    monkeypatch.setattr(bench, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(bench, "load_families", lambda: {("slow_seconds",): slow, ("quick_seconds",): quick})
    monkeypatch.setattr("sys.argv", ["bench", "--only", "quick"])
    assert bench.main() == 0
    monkeypatch.setattr("sys.argv", ["bench", "--only", "slow quick"])
    assert bench.main() == 3, "a goal that is not reached is not a success"
    text = capsys.readouterr().out
    assert "measuring slow took 0 s" in text and text.count("measuring quick took 0 s") == 2
    assert sorted(results.read_figures(bench.RESULTS)) == ["quick_seconds", "slow_seconds"]


@pytest.mark.parametrize("word", ["help", "overhead", "report", "verify", "note_after", "judge", "corpus_1m"])
def test_the_figures_the_issues_name_can_be_run_each_alone(word: str) -> None:
    """Issues 2 and 3, speed to reach."""
    known = bench.load_families()
    assert 0 < len(bench.chosen(known, [word])) < 3 < len(known)


def test_published_results_have_the_agreed_form() -> None:
    if not bench.RESULTS.is_file():
        pytest.skip("make bench has not run yet")
    content = json.loads(bench.RESULTS.read_text(encoding="utf-8"))
    known = {name for group in bench.load_families() for name in group}
    found = [item["name"] for item in content["figures"]]
    assert found == sorted(set(found))
    for item in content["figures"]:
        assert item["name"] in known, "a figure that nothing measures any more"
        assert item["min"] <= item["value"] <= item["max"]
        assert item["date"] <= content["date"]
        assert item.get("machine") != content["machine"], "said above already"


def test_figures_that_the_documents_cite_are_published() -> None:
    """docs/corpus.md cites a figure of results.json; it was lost once."""
    published = results.read_figures(bench.RESULTS)
    root = bench.RESULTS.parent.parent
    cited = {
        name
        for page in sorted((root / "docs").glob("*.md"))
        for name in re.findall(r"`(\w+)` in `benchmarks/results.json`", page.read_text(encoding="utf-8"))
    }
    assert "corpus_1m_peak_bytes" in cited
    assert cited <= set(published)


def test_a_figure_that_this_machine_cannot_measure_is_said_and_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 6: `device_busy_share` needs a card; without one there is no number, no error and no file."""

    def none() -> list[harness.Figure]:
        raise harness.NotMeasurable("torch finds no card here")

    monkeypatch.setattr(bench, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(bench, "load_families", lambda: {("device_busy_share",): none})
    monkeypatch.setattr("sys.argv", ["bench"])
    assert bench.main() == 0
    assert re.fullmatch(r"device_busy_share +not measured: torch finds no card here\n", capsys.readouterr().out)
    assert not (tmp_path / "results.json").exists()


def test_a_card_is_never_busy_for_longer_than_the_pass() -> None:
    """Kernels of a pass beside may take a little longer than this pass did: cut, and the note says so; no red bench."""
    assert card.busy_shares([(0.5, 1.0), (0.5, 0.625)]) == ([0.5, 0.8], "")
    assert card.busy_shares([(1.1, 1.0), (0.5, 1.0)]) == ([1.0, 0.5], "; above 1, cut: 1")
    with pytest.raises(ValueError, match="no kernel"):
        card.busy_shares([(0.0, 1.0)])


def test_profiled_passes_of_a_card_run_in_turns_with_the_timed_ones(tmp_path: Path) -> None:
    """A card that got warmer since is slower in both. Here on the CPU, which has no kernels of a card."""
    pytest.importorskip("torch")
    from benchmarks.card_passes import main
    from benchmarks.engines import DEMO

    corpus = tmp_path / "c.csv"
    corpus.write_text("id,text\na,Where is my parcel?\nb,Broken screen.\n", encoding="utf-8")
    found = main(DEMO, corpus, 2, device="cpu", precision="fp32")
    assert [busy for busy, _ in found["pairs"]] == [None, None]
    assert all(seconds > 0 for _, seconds in found["pairs"])


def test_a_card_is_busy_while_it_computes_not_while_it_waits_for_the_next_kernel() -> None:
    """Kernels of two streams at once count once; gaps, copies and marks of the profiler do not count."""
    from benchmarks.card_passes import kernel_seconds

    def event(name: str, start: float, end: float, where: str = "CUDA", mark: bool = False) -> SimpleNamespace:
        span, device = SimpleNamespace(start=start, end=end), SimpleNamespace(name=where)
        return SimpleNamespace(name=name, time_range=span, device_type=device, is_user_annotation=mark)

    events = [
        event("gemm", 100, 200), event("softmax", 150, 250), event("gelu", 160, 170),
        event("gemm", 900_250, 900_350), event("Memcpy DtoH (Device -> Pinned)", 300, 9000),
        event("aten::linear", 0, 10**6, "CPU"), event("ProfilerStep#1", 0, 10**6, mark=True),
    ]  # fmt: skip
    assert kernel_seconds(events) == pytest.approx(250e-6)
    assert kernel_seconds([]) == 0.0


def test_a_peak_is_that_of_the_command_and_not_of_who_started_it() -> None:
    """The kernel counts what a parent holds into a child's `ru_maxrss`: a launcher stands between."""
    mine = bytearray(400 << 20)
    assert harness.output_and_peak(("-c", "print(1)")) == ("1\n", pytest.approx(10 << 20, abs=90 << 20))
    _, peak = harness.output_and_peak(("-c", "x = bytearray(300 << 20)"))
    assert 300 << 20 < peak < len(mine)
    with pytest.raises(RuntimeError, match="did not end with 0"):
        harness.output_and_peak(("-c", "raise SystemExit(3)"))


def test_every_figure_is_explained() -> None:
    """docs/performance.md says what each figure of the bench is."""
    page = (bench.RESULTS.parent.parent / "docs" / "performance.md").read_text(encoding="utf-8")
    explained = re.findall(r"`(\w+\*?(?:_\w+)?)`", page.partition("## Measured")[0])
    names = {name for group in bench.load_families() for name in group}
    assert {name for name in names if not any(fnmatch(name, pattern) for pattern in explained)} == set()
