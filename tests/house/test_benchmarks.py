"""The bench harness: medians of interleaved pairs, goals, nothing mixed between machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import __main__ as bench
from benchmarks import harness


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


def test_figures_of_another_machine_are_not_mixed_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = tmp_path / "results.json"
    monkeypatch.setattr(bench, "RESULTS", results)
    here = {"cpu": "this one"}
    assert bench.kept_figures(here) == {}
    bench.write_results(here, {"x": harness.figure("x", [1.0], unit="s").as_json()})
    content = json.loads(results.read_text(encoding="utf-8"))
    assert set(content) == {"machine", "date", "figures"}
    assert {"name", "value", "unit", "goal", "n", "min", "max"} <= set(content["figures"][0])
    assert list(bench.kept_figures(here)) == ["x"]
    assert bench.kept_figures({"cpu": "another"}) == {}


def test_published_results_have_the_agreed_form() -> None:
    if not bench.RESULTS.is_file():
        pytest.skip("make bench has not run yet")
    content = json.loads(bench.RESULTS.read_text(encoding="utf-8"))
    known = {name for group in bench.load_families() for name in group}
    for item in content["figures"]:
        assert item["name"] in known, "a figure that nothing measures any more"
        assert item["min"] <= item["value"] <= item["max"]
