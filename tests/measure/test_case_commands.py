"""What MO-09 and MO-19 say about the command and its records: nothing is run, or it is written down how it ran."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from runner.cli.main import run as runner
from runner.evidence.attempt import Attempt, Status
from runner.evidence.campaign import Campaign
from runner.evidence.manifest import Manifest
from runner.evidence.store import read_attempts
from runner.measure.environment import ALLOWED_VARIABLES
from runner.protocol.freeze import freeze
from tests.support.small_campaign import PROTOCOL, make_campaign

pytest.importorskip("torch")
CASES = Path(__file__).parents[1] / "cases"
VARIANTS = """
[[variant]]
id = "b1"
[variant.settings]
batch_size = 1
threads = 1

[[variant]]
id = "b4-left"
[variant.settings]
batch_size = 4
threads = 1
padding_side = "left"

[measurement]
passes_planned = 2
passes_most = 4
min_accepted = 2
"""


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    """Two variants of a small decoder-style classifier whose own files ask for the case's padding side; frozen."""
    from tests.measure.test_engines import LABELS, tiny_model

    rows = [(f"d{number}", f"Where is my parcel {'now ' * number}?", LABELS[number % 2], "long") for number in range(5)]
    protocol = PROTOCOL.partition("[[series]]")[0].replace("[model]", '[model]\npad_token = "eos"', 1) + VARIANTS
    made = make_campaign(tmp_path, rows=rows, protocol=protocol)
    shutil.rmtree(made.protocol_dir / "model")
    model = tiny_model(made.protocol_dir / "model", "gpt2")
    config = json.loads((model / "tokenizer_config.json").read_bytes())
    config |= {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": None, "eos_token": "[SEP]"}
    config |= json.loads((CASES / "MO-09" / "tokenizer_config.json").read_bytes())
    (model / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    made.tariffs.write_text("gpu,device_pattern\n", encoding="utf-8")
    freeze(made)
    return made


def everything(campaign: Campaign) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in campaign.root.rglob("*")}


def test_mo19_measure_refuses_a_changed_tokenizer_before_there_is_a_row(
    campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    """MO-19, point 1: exit 2, the changed file named, the others equal; no pass, no row, nothing written."""
    lists = [json.loads((CASES / "MO-19" / f"{name}_model.json").read_bytes())["files"] for name in ("frozen", "run")]
    changed = [name for name in lists[0] if lists[0][name] != lists[1][name]]
    assert changed == ["tokenizer_config.json"]
    file = campaign.protocol_dir / "model" / changed[0]
    file.write_text(json.dumps(json.loads(file.read_bytes()) | {"model_max_length": 128}), encoding="utf-8")
    before = everything(campaign)
    assert runner(["--campaign", str(campaign.root), "measure", "--gpu", "cpu"]) == 2
    shown = capsys.readouterr().err
    assert "model file tokenizer_config.json: " in shown
    assert "as frozen: config.json, model.safetensors, tokenizer.json" in shown
    assert everything(campaign) == before and read_attempts(campaign) == ()


@pytest.mark.e2e
def test_mo09_mo19_the_records_say_padding_side_and_kind_of_tokenizer(campaign: Campaign) -> None:
    """MO-09, point 2: the side is in both records, asked and in effect; MO-19, point 3: fast or slow, and versions."""
    assert runner(["--campaign", str(campaign.root), "measure", "--gpu", "cpu", "--passes", "1"]) == 0
    rows = {row.variant_id: row for row in read_attempts(campaign)}
    assert {row.status for row in rows.values()} == {Status.COMPLETED}
    sides = {
        name: (row.requested.padding_side, row.effective and row.effective.padding_side) for name, row in rows.items()
    }
    assert sides == {"b1": ("right", "right"), "b4-left": ("left", "left")}
    for row in rows.values():
        manifest = Manifest.load(campaign.manifests / f"{row.manifest_sha256}.json")
        assert manifest.tokenizer["kind"] == "fast"
        assert manifest.tokenizer["padding_side_of_files"] == "left"
        assert manifest.packages["transformers"] and manifest.packages["tokenizers"]
        everything_of_m9(row, manifest)


SECTIONS: dict[str, set[str]] = {
    "runtime": {"torch", "cuda", "hip", "cudnn", "nccl"},
    "host": {"cpu", "cpus_usable", "memory_bytes", "memory_limit", "cpu_quota", "os", "kernel", "container"},
    "python": {"implementation", "version"},
    "code": {"commit", "dirty", "version"},
    "determinism": {"deterministic_algorithms", "cudnn_benchmark", "tf32_matmul", "threads"},
    "model": {"architecture", "model_type"},
    "tokenizer": {"class", "kind"},
    "installation": {"seconds"},
    "driver": set(),  # of cards only
}
IN_EFFECT = ("precision", "quantization", "compile", "attention", "padding", "padding_side", "truncation", "max_length")


def everything_of_m9(row: Attempt, manifest: Manifest) -> None:
    """M9: row and manifest together hold all that the rule lists; each null of a section has its reason (M8: code)."""
    content = manifest.as_json()
    for section, keys in SECTIONS.items():
        assert keys <= content[section].keys(), section
        for key, value in content[section].items():
            assert value is not None or manifest.reasons.get(f"{section}.{key}"), f"{section}.{key}: null, no reason"
    assert manifest.gpus == () and manifest.rocm.verdict == "not applicable" and manifest.rocm.detail
    assert set(manifest.environment) <= set(ALLOWED_VARIABLES)
    effective = row.effective
    assert effective is not None and not [name for name in IN_EFFECT if getattr(effective, name) is None]
    assert row.seed == 0 and row.devices_found == (manifest.host["cpu"],)


NO_LIMIT = 1000000000000000019884624838656
PADDED = """
[[variant]]
id = "b2-max"
[variant.settings]
batch_size = 2
threads = 1
padding = "max-length"

[measurement]
passes_planned = 2
passes_most = 4
min_accepted = 2
"""


@pytest.mark.e2e
@pytest.mark.parametrize(("asked", "used"), [(None, 512), (48, 48)])
def test_mo07_a_limit_of_1e30_reaches_neither_truncation_nor_padding_nor_the_records(
    tmp_path: Path, asked: int | None, used: int
) -> None:
    """MO-07: the case's own tokenizer file, padded to the maximum: the positions (a) or the protocol (c) count."""
    from tests.measure.test_engines import LABELS, tiny_model

    rows = [(f"d{number}", "Where is my parcel now? " * 200, LABELS[number % 2], "long") for number in range(3)]
    protocol = PROTOCOL.partition("[[series]]")[0] + PADDED
    made = make_campaign(tmp_path, rows=rows, protocol=protocol)
    text = made.protocol.read_text(encoding="utf-8")
    made.protocol.write_text(
        text.replace("max_length = 128\n", "" if asked is None else f"max_length = {asked}\n"), encoding="utf-8"
    )
    shutil.rmtree(made.protocol_dir / "model")
    model = tiny_model(made.protocol_dir / "model", "bert", max_position_embeddings=512)
    config = json.loads((model / "tokenizer_config.json").read_bytes())
    config |= json.loads((CASES / "MO-07" / "a" / "tokenizer_config.json").read_bytes())
    assert config["model_max_length"] == NO_LIMIT
    (model / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    made.tariffs.write_text("gpu,device_pattern\n", encoding="utf-8")
    freeze(made)
    assert runner(["--campaign", str(made.root), "measure", "--gpu", "cpu", "--passes", "1"]) == 0
    (row,) = read_attempts(made)
    assert row.effective is not None and row.effective.max_length == used
    assert row.tokens is not None and row.tokens.truncated_documents == 3
    assert row.tokens.real_tokens == row.tokens.computed_tokens == 3 * used
    runner(["--campaign", str(made.root), "validate"])
    runner(["--campaign", str(made.root), "decide"])
    files = [path for part in (made.records, made.verdicts, made.note) for path in part.rglob("*") if path.is_file()]
    assert files
    for path in [*files, made.lock]:
        assert str(NO_LIMIT).encode() not in path.read_bytes(), path


def test_mo19_a_tokenizer_without_the_rust_library_is_called_slow() -> None:
    """MO-19, point 3: the word follows what really tokenises."""
    from runner.measure.engines.tokenizing import Tokenising
    from runner.measure.job import ModelSource

    source = ModelSource("m", False, False, None, 16, ("a",), None)

    class Slow:
        """As the library's Python tokenizers: no backend."""

        model_input_names = ("input_ids",)
        pad_token_id = 0
        padding_side = "right"

    assert Tokenising(Slow(), source, truncation=True, padding_side="right").facts()["kind"] == "slow"
