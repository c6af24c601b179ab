"""Missing or malformed models: exit 2, one message, nothing written, no lock left (issue 2, "Bad input"; MO-19)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.cli.main import run as runner
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import content_sha256, sha256_file
from runner.protocol.freeze import freeze
from runner.protocol.modelformat import check_model_files, check_safetensors
from tests.support.small_campaign import PROTOCOL, forget_given_baseline, make_campaign, safetensors

pytest.importorskip("torch")
ROOT = Path(__file__).parents[2]
MODEL = ROOT / "protocol" / "model"
ROWS = [(f"d{number}", f"Where is my parcel {number}?", "delivery", "short") for number in range(6)]
ROWS += [("d6", "I was charged twice.", "billing", "short")]
Fault = Callable[[Path], object]


def change_config(**changes: Any) -> Fault:
    def apply(model: Path) -> None:
        config = json.loads((model / "config.json").read_bytes())
        (model / "config.json").write_text(json.dumps(config | changes), encoding="utf-8")

    return apply


def shorten(name: str, bytes_away: int) -> Fault:
    return lambda model: (model / name).write_bytes((model / name).read_bytes()[:-bytes_away])


def write(name: str, text: str) -> Fault:
    return lambda model: (model / name).write_text(text, encoding="utf-8")


def remove(pattern: str) -> Fault:
    return lambda model: [path.unlink() for path in model.glob(pattern)]


FAULTS: dict[str, tuple[Fault, str]] = {
    "no folder": (shutil.rmtree, "is no folder below"),
    "weights cut off": (shorten("model.safetensors", 1000), "not a whole safetensors file"),
    "weights empty": (write("model.safetensors", ""), "not a whole safetensors file"),
    "weights are text": (write("model.safetensors", "version https://git-lfs.github.com/spec/v1"), "not a whole"),
    "no weights": (remove("*.safetensors"), "no weights"),
    "tokenizer of no content": (write("tokenizer.json", "{}"), "no tokenizer"),
    "tokenizer cut off": (shorten("tokenizer.json", 100), "not JSON"),
    "tokenizer unknown": (write("tokenizer.json", '{"model": {"type": "Nothing"}}'), "cannot be read"),
    "no tokenizer": (remove("tokenizer*"), "no tokenizer"),
    "tokenizer's config a list": (write("tokenizer_config.json", "[]"), "one JSON object"),
    "no config": (remove("config.json"), "no config.json"),
    "config cut off": (shorten("config.json", 20), "not valid JSON"),
    "config of no content": (write("config.json", "{}"), "neither id2label nor num_labels"),
}
ONLY_LOADING_SHOWS: dict[str, Fault] = {
    "other shape": change_config(hidden_size=64, intermediate_size=256),
    "unknown family": change_config(model_type="nothing", architectures=["Nothing"]),
    "no number": change_config(num_hidden_layers="two"),
    "weights missing": change_config(num_hidden_layers=3),
}


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    """With the embedded model and its own baseline file, not frozen."""
    made = make_campaign(tmp_path, rows=ROWS, protocol=PROTOCOL.replace('value = "long"', 'value = "short"'))
    shutil.rmtree(made.protocol_dir / "model")
    shutil.copytree(MODEL, made.protocol_dir / "model")
    made.tariffs.write_text("gpu,device_pattern\n", encoding="utf-8")
    return made


def everything(campaign: Campaign) -> dict[str, bytes | None]:
    """All files and folders, hidden ones too."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in campaign.root.rglob("*")}


def refused(campaign: Campaign, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one message of a refusal that changed nothing."""
    before = everything(campaign)
    capsys.readouterr()
    assert runner(["--campaign", str(campaign.root), *arguments]) == 2
    shown = capsys.readouterr()
    assert everything(campaign) == before, "nothing is written and no lock is left"
    assert shown.err.count("error:") == 1 and "Traceback" not in shown.err
    assert "where:" in shown.err or "next:" in shown.err
    return shown.err


@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_model_is_refused_before_and_after_the_freeze(
    campaign: Campaign, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    fault, words = FAULTS[name]
    model = campaign.protocol_dir / "model"
    freeze(campaign)
    whole = campaign.root.parent / f"{campaign.root.name}-whole"
    shutil.copytree(model, whole)
    fault(model)
    for command in (["measure", "--gpu", "cpu"], ["rehearse", "--gpu", "cpu"]):
        shown = refused(campaign, capsys, *command)
        assert words in shown or "the model is not the frozen one" in shown
    for path in (campaign.lock, campaign.lock_signature):
        path.unlink()
    assert words in refused(campaign, capsys, "freeze")
    forget_given_baseline(campaign)
    assert words in refused(campaign, capsys, "baseline")


@pytest.mark.e2e
@pytest.mark.parametrize("name", ONLY_LOADING_SHOWS)
def test_a_model_that_only_loading_shows_to_be_wrong_is_refused_at_the_baseline(
    campaign: Campaign, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    ONLY_LOADING_SHOWS[name](campaign.protocol_dir / "model")
    forget_given_baseline(campaign)
    shown = refused(campaign, capsys, "baseline")
    assert "the model cannot be used as the baseline asks" in shown


@pytest.mark.parametrize(
    ("model", "corpus", "words"), [("0", "", "another model"), ("", "0", "another corpus"), ("0", "0", "another model")]
)
def test_m2_a_baseline_of_another_model_or_corpus_is_refused_at_the_freeze(
    campaign: Campaign, capsys: pytest.CaptureFixture[str], model: str, corpus: str, words: str
) -> None:
    lock = freeze(campaign)
    frozen = lock.judgement
    right = {
        "corpus_records_sha256": frozen.corpora[0].records_sha256,
        "model_files_sha256": content_sha256([file.as_json() for file in frozen.model_files]),
        "predictions_sha256": sha256_file(campaign.baseline_dir / "small-final.parquet"),
    }
    campaign.lock.unlink()
    predictions = (campaign.baseline_dir / "small-final.parquet").read_bytes()
    forget_given_baseline(campaign)
    assert "the baseline of corpus 'small-final' is missing" in refused(campaign, capsys, "freeze")
    campaign.baseline_dir.mkdir()
    (campaign.baseline_dir / "small-final.parquet").write_bytes(predictions)
    # Taking the record away is no way around the check; only a file declared as given needs none.
    shown = refused(campaign, capsys, "freeze")
    assert "no record of what made it" in shown and not campaign.lock.exists()
    sidecar = campaign.baseline_dir / "small-final.json"
    sidecar.write_text(json.dumps(right), encoding="utf-8")
    freeze(campaign)
    campaign.lock.unlink()
    (campaign.baseline_dir / "small-final.parquet").write_bytes(predictions + b" ")
    assert "not the one that its record is about" in refused(campaign, capsys, "freeze")
    (campaign.baseline_dir / "small-final.parquet").write_bytes(predictions)
    wrong = {"corpus_records_sha256": corpus, "model_files_sha256": model}
    sidecar.write_text(json.dumps({key: wrong.get(key) or value for key, value in right.items()}), encoding="utf-8")
    assert words in refused(campaign, capsys, "freeze")


@pytest.mark.e2e
def test_co13_a_text_of_zero_tokens_ends_the_baseline_with_its_id(
    campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    """CO-13, point 3: `zero tokens, id e1`, never a crash."""
    allow_a_text_without_tokens(campaign)
    forget_given_baseline(campaign)
    assert "zero tokens, id e1" in refused(campaign, capsys, "baseline")


@pytest.mark.e2e
def test_co13_a_text_of_zero_tokens_fails_the_pass_with_its_id(campaign: Campaign) -> None:
    from runner.evidence.attempt import Status
    from runner.evidence.store import read_attempts

    allow_a_text_without_tokens(campaign)
    freeze(campaign)
    assert runner(["--campaign", str(campaign.root), "measure", "--gpu", "cpu", "--passes", "1", "--series", "b4"]) == 3
    (row,) = read_attempts(campaign)
    assert row.status is Status.FAILED
    assert row.error is not None and row.error.message == "zero tokens, id e1"
    assert (row.completed_documents, row.pass_seconds) == (0, None)


def allow_a_text_without_tokens(campaign: Campaign) -> None:
    """A tokenizer without special tokens, an empty text that the protocol allows."""
    file = campaign.protocol_dir / "model" / "tokenizer.json"
    tokenizer = json.loads(file.read_bytes())
    file.write_text(json.dumps(tokenizer | {"post_processor": None}), encoding="utf-8")
    corpus = campaign.protocol_dir / "corpus" / "final.csv"
    corpus.write_text(corpus.read_text(encoding="utf-8") + "e1,,delivery,short\n", encoding="utf-8")
    text = campaign.protocol.read_text(encoding="utf-8")
    campaign.protocol.write_text(
        text.replace('final = "corpus/final.csv"', 'final = "corpus/final.csv"\nallow_empty_texts = true'),
        encoding="utf-8",
    )
    from tests.support.small_campaign import write_predictions

    write_predictions(
        campaign.baseline_dir / "small-final.parquet", [(row[0], row[2]) for row in ROWS] + [("e1", "delivery")]
    )


# ---- the format itself ---------------------------------------------------------------------------

TENSOR = {"dtype": "F16", "shape": [2, 3], "data_offsets": [0, 12]}


@pytest.mark.parametrize(
    ("header", "data", "words"),
    [
        ({"w": TENSOR}, b"x" * 11, "names 12 bytes of weights, the file has 11"),
        ({"w": TENSOR}, b"x" * 13, "names 12 bytes of weights, the file has 13"),
        ({"w": TENSOR | {"shape": [2, 4]}}, b"x" * 12, "does not fill its place"),
        ({"w": TENSOR | {"data_offsets": [2, 14]}}, b"x" * 14, "one after another"),
        ({"w": TENSOR | {"data_offsets": ["0", "12"]}}, b"x" * 12, "does not"),
        ({"w": [1, 2]}, b"", "does not describe"),
        ({"w": TENSOR, "v": TENSOR}, b"x" * 12, "one after another"),
    ],
)
def test_a_weights_file_that_does_not_fit_its_header_is_seen(
    tmp_path: Path, header: dict[str, Any], data: bytes, words: str
) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(safetensors(header, data))
    with pytest.raises(InputRefused, match=words):
        check_safetensors(path)


def test_whole_files_pass_and_missing_shards_are_named(tmp_path: Path) -> None:
    check_model_files(MODEL)
    (tmp_path / "tokenizer_config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "a.safetensors").write_bytes(safetensors({"w": TENSOR, "__metadata__": {"format": "pt"}}, b"x" * 12))
    check_model_files(tmp_path)
    index = {"weight_map": {"w": "a.safetensors", "v": "b.safetensors", "u": "../c.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(InputRefused, match="2 of the files") as caught:
        check_model_files(tmp_path)
    assert caught.value.details == ("'../c.safetensors'", "'b.safetensors'")
