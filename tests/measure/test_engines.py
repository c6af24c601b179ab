"""Engines on real small models: what is declared is what runs (M9, M15, M16, M18, M19; MO-06, MO-11, MO-15)."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from runner.corpus.read import iter_table  # noqa: E402
from runner.evidence.attempt import Settings  # noqa: E402
from runner.evidence.campaign import Campaign  # noqa: E402
from runner.measure.engines.loading import refuse_precision  # noqa: E402
from runner.measure.job import CorpusSource, Job, ModelSource, Unsupported  # noqa: E402
from runner.measure.journal import Journal  # noqa: E402
from runner.measure.rows import WorkFiles  # noqa: E402
from runner.measure.worker import Worker  # noqa: E402
from tests.measure.fake_cuda import FakeCuda  # noqa: E402

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "protocol" / "model"
CASES = Path(__file__).parents[1] / "cases"
LABELS = ("account", "billing", "delivery", "product", "returns", "technical")
TEXTS = [
    "Where is my parcel?",
    "I was charged twice for the same order and want my money back please.",
    "Broken screen.",
    "I cannot log in since yesterday, the password is refused. " * 6,
    "Can I return the shoes?",
    "Size?",
    "The invoice has the wrong address. " * 3,
    "ok",
    "Does the lamp work outside?",
    "It never arrived. " * 40,
]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    rows = [json.dumps({"id": f"d{number}", "text": text}) for number, text in enumerate(TEXTS)]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def job_for(corpus: Path, model: Path = MODEL, labels: tuple[str, ...] = LABELS, **settings: Any) -> Job:
    folder = corpus.parent
    wanted = Settings(**({"max_length": 512, "threads": 1} | settings))
    return Job(
        attempt_id="a",
        corpus=CorpusSource(str(corpus), "id", "text", len(TEXTS)),
        model=ModelSource(str(model), False, False, None, wanted.max_length or 512, labels, None),
        settings=wanted.as_json(),
        seed=0,
        device="cpu",
        warm_up_inputs="longest_and_first",
        warm_up_passes=1,
        sample_interval_seconds=0.05,
        timed=True,
        matrix_rate=False,
        journal=str(folder / "a.jsonl"),
        results=str(folder / "a.results"),
        result=str(folder / "a.result"),
        predictions=str(folder / "a.parquet"),
        spawned_mono_ns=time.monotonic_ns(),
        parent_pid=0,
    )


def work(job: Job) -> dict[str, Any]:
    for name in (job.results, job.predictions):
        Path(name).unlink(missing_ok=True)
    journal = Journal(Path(job.journal))
    try:
        return Worker(job, journal, None).run()
    finally:
        journal.close()


def rows(job: Job) -> list[tuple[str | None, ...]]:
    return [cells for _, cells in iter_table(Path(job.predictions), ("id", "label"))]


def differences(job: Job, result: dict[str, Any]) -> tuple[str, ...]:
    return Settings(**job.settings).differences(Settings(**result["facts"]["effective"]))


def test_m15_batches_padding_and_grouping_change_the_work_not_the_answers(corpus: Path) -> None:
    computed, answers = {}, {}
    variants: dict[str, dict[str, Any]] = {
        "b1": {"batch_size": 1},
        "b4": {"batch_size": 4},
        "sorted": {"batch_size": 4, "grouping": "length-sorted"},
        "budget": {"batch_size": 4, "grouping": "token-budget:150"},
        "multiple": {"batch_size": 4, "padding": "multiple-of:64"},
        "full": {"batch_size": 4, "padding": "max-length"},
        "packed": {"batch_size": 4, "padding": "none", "engine": "packed"},
    }
    for name, settings in variants.items():
        job = job_for(corpus, **settings)
        result = work(job)
        assert result["status"] == "completed", result["error"]
        assert differences(job, result) == ()
        computed[name], answers[name] = result["tokens"]["computed_tokens"], rows(job)
        assert result["tokens"]["real_tokens"] == computed["b1"]
        assert [row[0] for row in answers[name]] == [f"d{number}" for number in range(len(TEXTS))]
    assert len({tuple(answer) for answer in answers.values()}) == 1
    assert computed["packed"] == computed["b1"] < computed["sorted"] < computed["b4"] < computed["full"]
    assert computed["full"] == 512 * len(TEXTS)
    assert computed["multiple"] % 64 == 0
    assert computed["budget"] < computed["b4"]


def test_m17_phases_and_parts_of_the_pass_are_recorded_apart(corpus: Path) -> None:
    result = work(job_for(corpus))
    assert {"process_start", "imports", "load", "warm_up", "pass", "evaluation", "writing"} == set(result["phases"])
    parts = result["part_seconds"]
    assert set(parts) == {"read", "tokenise", "transfer", "inference", "materialise"}
    assert sum(parts.values()) <= result["pass_seconds"] == result["phases"]["pass"]


def test_m29_truncation_is_counted_in_documents_and_tokens(corpus: Path) -> None:
    full = work(job_for(corpus))["tokens"]
    cut = work(job_for(corpus, max_length=20))["tokens"]
    assert (full["truncated_documents"], full["cut_tokens"]) == (0, 0)
    assert cut["truncated_documents"] == 3
    assert cut["real_tokens"] + cut["cut_tokens"] == full["real_tokens"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"attention": "flash_attention_2", "precision": "bf16"}, "attention flash_attention_2 is not possible here"),
        ({"attention": "magic"}, "attention 'magic' is not known"),
        ({"precision": "fp8"}, "precision 'fp8' is not known"),
        ({"quantization": "int4"}, "quantization 'int4' is not known"),
        ({"engine": "fast"}, "engine 'fast' is not known"),
        ({"padding": "zigzag"}, "padding 'zigzag' is not known"),
        ({"grouping": "zigzag"}, "grouping 'zigzag' is not known"),
        ({"engine": "packed"}, "declare padding"),
        ({"extra": {"turbo": True}}, "extra setting 'turbo' is not known"),
        ({"padding": "none", "batch_size": 4}, "padding none needs texts of equal length"),
    ],
)
def test_m16_what_cannot_be_done_is_unsupported_and_never_replaced(
    corpus: Path, settings: dict[str, Any], words: str
) -> None:
    result = work(job_for(corpus, **settings))
    assert result["status"] == "unsupported", result["error"]
    assert words in result["error"]["message"]
    assert "pass_seconds" not in result


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_m9_precision_is_read_from_the_parameters(corpus: Path, precision: str) -> None:
    result = work(job_for(corpus, precision=precision))
    assert result["facts"]["effective"]["precision"] == precision


@pytest.mark.parametrize("engine", ["transformers", "packed"])
@pytest.mark.parametrize("quantization", ["int8-dynamic", "int8-torchao"])
def test_int8_modules_are_counted(corpus: Path, engine: str, quantization: str) -> None:
    if quantization == "int8-torchao":
        pytest.importorskip("torchao")
    padding = "none" if engine == "packed" else "longest"
    job = job_for(corpus, quantization=quantization, engine=engine, padding=padding)
    result = work(job)
    assert result["status"] == "completed", result["error"]
    effective = result["facts"]["effective"]
    assert effective["quantization"] == quantization
    assert effective["extra"]["quantized_modules"] >= 10
    assert differences(job, result) == ()


def test_mo11_emulated_bf16_is_unsupported_with_the_capability() -> None:
    case = json.loads((CASES / "MO-11" / "device.json").read_bytes())
    cuda = FakeCuda(capability=tuple(case["compute_capability"]), native_bf16=False)
    with pytest.raises(Unsupported, match=r"bf16 is only emulated .*7\.5"):
        refuse_precision("bf16", cuda)
    refuse_precision("fp16", cuda)
    refuse_precision("bf16", FakeCuda(capability=(8, 0)))


@pytest.mark.parametrize(
    ("architecture", "native"),
    [
        ("gfx906:sramecc-:xnack-", False),
        ("gfx1030", False),
        ("gfx90a:sramecc+:xnack-", True),
        ("gfx942", True),
        ("gfx1100", True),
    ],
)
def test_mo11_of_an_amd_card_the_architecture_tells_whether_it_has_bf16(architecture: str, native: bool) -> None:
    """torch answers yes for every card of a ROCm build."""
    cuda = FakeCuda(capability=(9, 0))
    cuda.architecture = architecture
    if native:
        refuse_precision("bf16", cuda)
        return
    with pytest.raises(Unsupported, match=f"architecture {architecture.partition(':')[0]}"):
        refuse_precision("bf16", cuda)


class TestCompilation:
    """torch.compile with dynamo's own backend: the graphs are real, only the code generator is left out."""

    @pytest.fixture(autouse=True)
    def _without_code_generator(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        compile_ = torch.compile
        torch._dynamo.reset()
        monkeypatch.setattr(
            torch, "compile", lambda model, mode, dynamic: compile_(model, backend="eager", dynamic=dynamic)
        )
        yield
        torch._dynamo.reset()

    def test_m18_known_shapes_are_compiled_before_the_pass(self, corpus: Path) -> None:
        job = job_for(corpus, batch_size=4, compile="default")
        result = work(job)
        assert result["status"] == "completed", result["error"]
        assert result["recompilations"] == 0
        assert not [note for note in result["notes"] if "not compiled" in note]
        assert result["phases"]["compile"] > 0
        assert differences(job, result) == ()

    def test_a_killed_compilation_cannot_taint_the_next_attempt(
        self, corpus: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The cache of compiled code is the attempt's own, and goes with its other files."""
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/nowhere")
        monkeypatch.setenv("TRITON_CACHE_DIR", "/nowhere")
        job = job_for(corpus, batch_size=4, compile="default")
        assert work(job)["status"] == "completed"
        assert os.environ["TORCHINDUCTOR_CACHE_DIR"].startswith(f"{job.result}.compiled/")
        files = WorkFiles(Campaign(corpus.parent), "a")
        folder = Path(f"{files.result}.compiled") / "torchinductor"
        folder.mkdir(parents=True)
        (folder / "half.so").write_bytes(b"")
        files.remove_temporary()
        assert not folder.parent.exists()

    def test_mo15_a_model_that_was_not_compiled_is_not_said_to_be(
        self, corpus: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(torch, "compile", lambda model, mode, dynamic: model)
        job = job_for(corpus, batch_size=4, compile="default")
        assert differences(job, work(job)) == ("compile requested default, used none",)

    def test_ti02_a_compilation_inside_the_pass_is_counted_and_nothing_is_subtracted(
        self, corpus: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from runner.measure.engines.batched import BatchedEngine

        compile_all = BatchedEngine.compile
        monkeypatch.setattr(BatchedEngine, "compile", lambda engine, texts: compile_all(engine, texts[:4]))
        job = job_for(corpus, batch_size=4, compile="default", extra={"dynamic_shapes": False})
        result = work(replace(job, warm_up_inputs="none"))
        assert result["status"] == "completed", result["error"]
        assert result["recompilations"] >= 1
        assert result["recompilations_reason"].startswith("not clean: ")
        assert "shape 4×" in result["recompilations_reason"]
        assert any(note.startswith("shape 4×") for note in result["notes"]), "the verdict reads it there (TI-02)"
        events = [json.loads(line) for line in Path(job.journal).read_text(encoding="utf-8").splitlines()]
        (check,) = [event for event in events if event["event"] == "warm_up_check"]
        timed = next(event for event in events if event.get("phase") == "pass")
        assert events.index(check) < events.index(timed), "named before the timed part starts (TI-02, 2)"
        recompiled = result["recompilations_reason"].partition("shape ")[2].split(", ")
        assert set(recompiled) <= set(check["not_compiled"]) and check["shapes"] == len(check["not_compiled"])
        assert f"not compiled before the timed part: {', '.join(check['not_compiled'])}" in result["notes"]
        assert result["pass_seconds"] >= result["part_seconds"]["inference"]


# ---- models made here ----------------------------------------------------------------------------


def tiny_model(folder: Path, kind: str, **changes: Any) -> Path:
    """A random classifier of another family, with the demo's tokenizer."""
    transformers: Any = importlib.import_module("transformers")
    torch.manual_seed(1)
    common: dict[str, Any] = {"vocab_size": 2000, "id2label": dict(enumerate(LABELS)), "num_labels": len(LABELS)}
    encoder: dict[str, Any] = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "max_position_embeddings": 520,
        "pad_token_id": 0,
    }
    configs = {
        "roberta": lambda: transformers.RobertaConfig(**(common | encoder | changes)),
        "bert": lambda: transformers.BertConfig(**(common | encoder | changes)),
        "electra": lambda: transformers.ElectraConfig(**(common | encoder | {"embedding_size": 16} | changes)),
        "gpt2": lambda: transformers.GPT2Config(
            **(common | {"n_positions": 512, "n_embd": 32, "n_layer": 2, "n_head": 2, "eos_token_id": 3} | changes)
        ),
    }
    model = transformers.AutoModelForSequenceClassification.from_config(configs[kind]())
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(MODEL / name, folder / name)
    return folder


def logits(job: Job) -> Any:
    from runner.measure.journal import read_results

    positions, outputs = read_results(Path(job.results))
    assert sorted(positions) == list(range(len(TEXTS)))
    return outputs[sorted(range(len(positions)), key=positions.__getitem__)]


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_packed_gives_the_outputs_of_the_model_itself(corpus: Path, tmp_path: Path, kind: str) -> None:
    model = tiny_model(tmp_path / kind, kind)
    plain, packed = job_for(corpus, model), job_for(corpus, model, engine="packed", padding="none", batch_size=8)
    assert work(plain)["status"] == "completed"
    wanted = logits(plain)
    assert work(packed)["status"] == "completed"
    assert abs(logits(packed) - wanted).max() < 1e-5
    assert abs(wanted).max() > 1e-3


def checking_kernel(query: Any, key: Any, value: Any, starts: Any, keys: Any, most: int, most_keys: int) -> Any:
    """torch's `varlen_attn` by its documentation, computed text by text; refuses what the kernel would refuse."""
    assert starts.dtype == keys.dtype == torch.int32
    assert len(starts) == len(keys)
    assert (int(starts[-1]), int(keys[-1])) == (len(query), len(key))
    assert int((starts[1:] - starts[:-1]).max()) == most
    assert int((keys[1:] - keys[:-1]).max()) == most_keys
    found = []
    for text in range(len(starts) - 1):
        rows, seen = slice(starts[text], starts[text + 1]), slice(keys[text], keys[text + 1])
        parts = (query[rows], key[seen], value[seen])
        heads = [part.transpose(0, 1).unsqueeze(0) for part in parts]
        found.append(torch.nn.functional.scaled_dot_product_attention(*heads)[0].transpose(0, 1))
    return torch.cat(found)


def test_packed_with_attention_of_variable_length(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way of the cards, with a stand-in for the kernel that checks what it is given."""
    from runner.measure.engines import packed
    from runner.measure.engines.packed_attention import variable_length, varlen_kernel

    plain = job_for(corpus, engine="packed", padding="none", batch_size=4)
    assert work(plain)["status"] == "completed"
    wanted = logits(plain)
    assert callable(varlen_kernel())
    monkeypatch.setattr(packed, "_attention", lambda *_: (variable_length(checking_kernel), "varlen"))
    job = job_for(corpus, engine="packed", padding="none", batch_size=4, attention="varlen")
    result = work(job)
    assert result["status"] == "completed", result["error"]
    assert differences(job, result) == ()
    assert abs(logits(job) - wanted).max() < 1e-5
    assert result["facts"]["model"]["attention_kernel"].endswith(".checking_kernel"), "M9: which one it was"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RuntimeError("FlashAttention only supports Ampere GPUs or newer."), "unsupported"),
        (torch.OutOfMemoryError("CUDA out of memory."), "out_of_memory"),
    ],
)
def test_m16_a_card_that_the_kernel_is_not_for_is_unsupported(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, status: str
) -> None:
    from runner.measure.engines import packed
    from runner.measure.engines.packed_attention import variable_length

    def kernel(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(packed, "_attention", lambda *_: (variable_length(kernel), "varlen"))
    result = work(job_for(corpus, engine="packed", padding="none", batch_size=4, attention="varlen"))
    assert (result["status"], result["completed"]) == (status, 0)
    assert str(error) in result["error"]["message"]


def test_m18_what_a_model_compiles_on_its_own_is_counted_too(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variant compiles nothing, its attention does, for every width anew: real graphs of dynamo."""
    from runner.measure.engines.transformers import PaddedForward

    add = torch.compile(lambda logits, ids: logits + 0 * ids.sum(), backend="eager", dynamic=False)
    plain = PaddedForward.logits
    monkeypatch.setattr(
        PaddedForward, "logits", lambda self, inputs: add(plain(self, inputs), inputs["input_ids"])
    )  # fmt: skip
    torch._dynamo.reset()
    result = work(job_for(corpus, batch_size=2))
    assert result["status"] == "completed", result["error"]
    assert result["recompilations"] == 3, "five widths, two of them warmed up"
    assert result["recompilations_reason"] == "not clean: 3 compilation(s) in the timed part"
    assert result["facts"]["effective"]["extra"]["compiled_by_the_model"] >= 2
    clean = work(job_for(corpus, batch_size=2, padding="max-length"))
    assert clean["recompilations"] == 0


@pytest.mark.parametrize(("attention", "told"), [("sdpa", True), ("eager", False)])
def test_m9_the_kernel_behind_sdpa_is_named(corpus: Path, attention: str, told: bool) -> None:
    """torch chooses one by card, type and mask; `sdpa` alone does not say what ran."""
    model = work(job_for(corpus, attention=attention))["facts"]["model"]
    names = {"sdpa_kernel_unpadded", "sdpa_kernel_padded"}
    assert names <= model.keys() if told else not names & model.keys()
    kinds = {"math", "flash_attention", "efficient_attention", "cudnn_attention", "overrideable"}
    assert not told or {model[name] for name in names} <= kinds


@pytest.mark.parametrize(
    ("device", "settings", "words"),
    [
        ("cpu", {"attention": "varlen"}, "on the CPU computes attention with sdpa"),
        ("cuda", {"attention": "sdpa"}, "on a card computes attention with varlen"),
        ("cuda", {"attention": "varlen", "precision": "fp32"}, "fp16 or bf16 only"),
    ],
)
def test_mo15_packed_says_which_attention_it_computes(device: str, settings: dict[str, Any], words: str) -> None:
    from runner.measure.engines.packed import _attention

    with pytest.raises(Unsupported, match=words):
        _attention({"precision": "bf16"} | settings, device)


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [("electra", {}, "does not know 'electra'"), ("bert", {"hidden_act": "relu"}, "knows the activation gelu")],
)
def test_packed_refuses_models_that_it_does_not_know(
    corpus: Path, tmp_path: Path, kind: str, changes: dict[str, Any], words: str
) -> None:
    model = tiny_model(tmp_path / kind, kind, **changes)
    result = work(job_for(corpus, model, engine="packed", padding="none"))
    assert (result["status"], result["completed"]) == ("unsupported", 0)
    assert words in result["error"]["message"]


def test_packed_is_not_used_when_it_differs_from_the_model(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from runner.measure.engines import packed

    heads = packed.PackedLayer._heads
    monkeypatch.setattr(packed.PackedLayer, "_heads", lambda layer, hidden: heads(layer, hidden).flip(1))
    result = work(job_for(corpus, engine="packed", padding="none"))
    assert result["status"] == "unsupported"
    assert "differs from this model" in result["error"]["message"]


def test_mo06_without_padding_token_only_batch_1_may_run(corpus: Path, tmp_path: Path) -> None:
    case = json.loads((CASES / "MO-06" / "run.json").read_bytes())
    model = tiny_model(tmp_path / "gpt2", "gpt2")
    config = json.loads((model / "tokenizer_config.json").read_bytes())
    config |= {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": None, "eos_token": "[SEP]"}
    (model / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    found = {}
    for item in case["passes"]:
        result = work(job_for(corpus, model, batch_size=item["batch"]))
        found[item["batch"]] = result
    assert found[1]["status"] == "completed", found[1]["error"]
    for batch in (4, 8):
        assert (found[batch]["status"], found[batch]["completed"]) == ("unsupported", 0)
        assert "no padding token" in found[batch]["error"]["message"]
    job = job_for(corpus, model, batch_size=4)
    declared = work(replace(job, model=replace(job.model, pad_token="eos")))
    assert declared["status"] == "completed", declared["error"]
    assert declared["facts"]["tokenizer"]["pad_token_id"] == 3


def test_a_model_whose_head_is_not_in_its_files_is_not_measured(corpus: Path, tmp_path: Path) -> None:
    import transformers

    model = tiny_model(tmp_path / "bert", "bert")
    whole = transformers.AutoModelForSequenceClassification.from_pretrained(model)
    whole.bert.save_pretrained(model)
    config = json.loads((model / "config.json").read_bytes())
    config |= {"id2label": {str(number): label for number, label in enumerate(LABELS)}}
    (model / "config.json").write_text(json.dumps(config), encoding="utf-8")
    result = work(job_for(corpus, model))
    assert (result["status"], result["error"]["kind"]) == ("failed", "model without trained weights")
