"""The memory exercise (M25) and its place in the lab folder (M49): environment first, estimate beside observation."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from runner.measure import exercise
from runner.measure.exercise import NotUsable, Shape

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "runner" / "measure" / "exercise.py"
MODEL = ROOT / "protocol" / "model"
SMALL = Shape(layers=2, hidden=128, intermediate=512, heads=2, positions=512)


def test_activations_of_the_largest_phase_of_one_layer() -> None:
    """By hand: feed-forward 8 x 512 x (2 x 128 + 2 x 512) values; eager attention adds the squared scores."""
    assert exercise.activation_estimate(SMALL, 8, 512, 4) == (8 * 512 * 1280 * 4, "feed-forward")
    scores = 2 * 8 * 2 * 512 * 512
    assert exercise.activation_estimate(SMALL, 8, 512, 4, eager=True) == ((5 * 8 * 512 * 128 + scores) * 4, "attention")


def test_the_number_of_layers_does_not_matter_without_gradients() -> None:
    deep = Shape(layers=48, hidden=128, intermediate=512, heads=2, positions=512)
    assert exercise.activation_estimate(deep, 4, 64, 2) == exercise.activation_estimate(SMALL, 4, 64, 2)


def test_sizes_are_read_under_the_names_of_several_families() -> None:
    bert = {
        "num_hidden_layers": 2,
        "hidden_size": 128,
        "intermediate_size": 512,
        "num_attention_heads": 2,
        "max_position_embeddings": 512,
    }
    gpt = {"n_layer": 2, "n_embd": 128, "n_head": 2, "n_positions": 512}
    assert exercise.shape_of(bert) == exercise.shape_of(gpt) == SMALL
    with pytest.raises(NotUsable, match="heads"):
        exercise.shape_of({**bert, "num_attention_heads": None})


@pytest.mark.parametrize("content", ["", "[]", "{"])
def test_a_config_that_cannot_be_read_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(content, encoding="utf-8")
    with pytest.raises(NotUsable):
        exercise.shape_of(exercise.read_config(tmp_path))


def test_the_script_travels_alone() -> None:
    """M49: no import of the project, grammar of Python 3.10, torch and transformers only inside functions."""
    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"), feature_version=(3, 10))
    top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in top if isinstance(node, ast.ImportFrom)}
    assert all(name.partition(".")[0] in sys.stdlib_module_names for name in names)
    assert "runner" not in {
        (node.module or "").partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
    }


def test_it_checks_its_environment_first(tmp_path: Path) -> None:
    """Without torch every missing thing is named, nothing is estimated, exit 2, no traceback."""
    script = tmp_path / "memory.py"
    script.write_bytes(SCRIPT.read_bytes())
    (tmp_path / "torch.py").write_text("raise OSError('libcuda.so.1: cannot open')\n", encoding="utf-8")
    (tmp_path / "transformers.py").write_text("__version__ = '3.0.0'\n", encoding="utf-8")
    found = subprocess.run(
        [sys.executable, str(script), "--model", str(tmp_path / "none")],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
    )
    assert found.returncode == 2 and "Traceback" not in found.stderr
    assert "NOT torch: cannot be imported (OSError: libcuda.so.1" in found.stdout
    assert "NOT transformers: 3.0.0" in found.stdout and "NOT model" in found.stdout and "ok  Python" in found.stdout
    assert "estimate" not in found.stdout


@pytest.mark.e2e
def test_estimate_and_observation_side_by_side() -> None:
    """M25: the weights agree exactly with the loaded tensors; every observation names counter and scope."""
    found = subprocess.run(
        [sys.executable, str(SCRIPT), "--model", str(MODEL), "--batch", "4", "--length", "128", "--json"],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )
    result = json.loads(found.stdout)
    assert result["estimate"]["weight_bytes"] == sum(
        size for name, size in _tensor_bytes(MODEL / "model.safetensors").items()
    )
    assert 0 <= result["weights"]["bytes"] - result["estimate"]["weight_bytes"] < 64 * 1024, "buffers of the model"
    seen = [result["activations"], *result["peaks"]]
    assert all(one["counter"] and one["scope"] for one in seen)
    assert all((one["bytes"] is None) == (one["reason"] is not None) for one in seen), "unknown is null and a reason"


def _tensor_bytes(file: Path) -> dict[str, int]:
    """Values of each tensor of a safetensors file, in fp32 bytes."""
    data = file.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    sizes = {}
    for name, entry in header.items():
        if name != "__metadata__":
            count = 1
            for length in entry["shape"]:
                count *= length
            sizes[name] = count * 4
    return sizes


RUN_NOTEBOOK = """
import json, sys
names = {}
for cell in json.load(open(sys.argv[1], encoding="utf-8"))["cells"]:
    if cell["cell_type"] == "code":
        exec(compile("".join(cell["source"]), "cell", "exec"), names)
drawn = [{label: [bar.get_height() * 2**20 for bar in bars] for bars, label in
          zip(axes.containers, axes.get_legend_handles_labels()[1])} for axes in names["panels"]]
found = names["found"]
print("DRAWN", json.dumps({"drawn": drawn, "found": [
    [[one.estimate.weight_bytes, one.weights.bytes], [one.estimate.activation_bytes, one.activations.bytes]]
    for one in found]}))
"""


@pytest.mark.e2e
def test_the_notebook_runs_from_top_to_bottom_in_the_lab_folder(tmp_path: Path) -> None:
    """M25: with the script beside it, as `make lab` lays them out; no output is stored in the file."""
    notebook = ROOT / "docs" / "memory.ipynb"
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    assert all(cell.get("outputs", []) == [] and cell.get("execution_count") is None for cell in cells)
    (tmp_path / "memory.py").write_bytes(SCRIPT.read_bytes())
    (tmp_path / "memory.ipynb").write_bytes(notebook.read_bytes())
    environment = {"MEMORY_MODEL": str(MODEL), "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", RUN_NOTEBOOK, "memory.ipynb"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert "estimate only" in done.stdout
    shown = json.loads(done.stdout.split("DRAWN ", 1)[1])
    assert len(shown["found"]) == 3
    for part, panel in enumerate(shown["drawn"]):
        for which, label in enumerate(("estimate", "observed")):
            expected = [one[part][which] for one in shown["found"] if one[part][which] is not None]
            assert panel.get(label, []) == pytest.approx(expected), f"panel {part}, {label}"
