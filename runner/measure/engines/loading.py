"""Load a sequence classifier as the variant asks, and read back what really is in effect (M9, M16)."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.measure.engines.tokenizing import Tokenising
from runner.measure.job import AttemptFailed, ModelSource, Unsupported
from runner.measure.oom import memory_evidence

PRECISIONS = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_PRECISION_OF = {f"torch.{name}": short for short, name in PRECISIONS.items()}
_ATTENTION = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")
_ABOUT_ATTENTION = ("attention implementation", "attn_implementation", "flash", "scaled_dot_product", "flex_attention")
_FLASH = "flash_attention"
_LIGHTEST_NATIVE_BF16 = _LIGHTEST_FLASH = (8, 0)
# Vega and RDNA 1 and 2 have no products of bf16; CDNA, RDNA 3 and later do.
_GFX_WITHOUT_BF16 = ("gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c", "gfx101", "gfx103")
_INT8_STEP = 8
_TEXTS = 2


@dataclass(frozen=True)
class LoadedModel:
    """A model on its device, ready for inference, with its tokenizer."""

    model: Any
    tokenising: Tokenising
    notes: tuple[str, ...]
    parameters: int
    kernels: Mapping[str, str | None] = field(default_factory=dict)  # of attention, for the manifest


def load_model(source: ModelSource, settings: dict[str, Any], device: str, torch: Any) -> LoadedModel:
    """Model and tokenizer from the checked folder, offline. Raises `Unsupported` or `AttemptFailed`."""
    precision = settings["precision"]
    if precision not in PRECISIONS:
        raise Unsupported(f"precision {precision!r} is not known: use {', '.join(PRECISIONS)}")
    if device != "cpu":
        refuse_precision(precision, torch.cuda)
    refuse_attention(settings["attention"], precision, device, torch)
    tokenising = load_tokenizer(source, settings)
    if tokenising.pad_token_id is None and settings["batch_size"] > 1 and settings["padding"] != "none":
        raise Unsupported(
            "the model has no padding token, so several texts cannot be one batch: "
            "say pad_token in the protocol, or use batch 1"
        )
    model, notes = _load_weights(source, settings["attention"], getattr(torch, PRECISIONS[precision]))
    if source.pad_token is not None:
        model.config.pad_token_id = tokenising.pad_token_id
    model = model.to(device).eval()
    model.requires_grad_(False)
    if device != "cpu" and settings["attention"].startswith(_FLASH):
        _try_attention(model, settings["attention"], device, torch)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    kernels = sdpa_kernels(model, device, torch) if effective_attention(model) == "sdpa" else {}
    model = quantized(model, settings["quantization"], device, torch, compiled=settings["compile"] != "none")
    return LoadedModel(model, tokenising, notes, parameters, kernels)


def load_tokenizer(source: ModelSource, settings: dict[str, Any]) -> Tokenising:
    if not Path(source.path).is_dir():  # transformers would take the path for a name on the hub, and say so
        raise AttemptFailed("failed", "missing file", f"the model folder is gone: {source.path}")
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(
        source.path, local_files_only=True, trust_remote_code=source.allow_custom_code
    )
    return Tokenising(tokenizer, source, truncation=settings["truncation"], padding_side=settings["padding_side"])


def _load_weights(source: ModelSource, attention: str, dtype: Any) -> tuple[Any, tuple[str, ...]]:
    from transformers import AutoModelForSequenceClassification

    if attention not in _ATTENTION:
        raise Unsupported(f"attention {attention!r} is not known: use {', '.join(_ATTENTION)}")
    try:
        model, report = AutoModelForSequenceClassification.from_pretrained(
            source.path,
            local_files_only=True,
            trust_remote_code=source.allow_custom_code,
            use_safetensors=None if source.allow_pickle else True,
            attn_implementation=attention,
            dtype=dtype,
            output_loading_info=True,
        )
    except (ImportError, ValueError) as error:
        if any(word in str(error).lower() for word in _ABOUT_ATTENTION):
            raise Unsupported(f"attention {attention} is not possible here: {first_line(error)}") from None
        raise
    missing = sorted(report.get("missing_keys", ()))
    if missing:
        raise AttemptFailed(
            "failed",
            "model without trained weights",
            f"{len(missing)} weights are not in the model's files and would be random, first {missing[0]}",
        )
    unexpected = sorted(report.get("unexpected_keys", ()))
    notes = (f"{len(unexpected)} weights of the files are not used, first {unexpected[0]}",) if unexpected else ()
    return model, notes


def quantized(model: Any, quantization: str, device: str, torch: Any, *, compiled: bool = False) -> Any:
    """The model with the declared quantisation, or the model itself. `compiled`: torch.compile will run it."""
    if quantization == "none":
        return model
    if quantization == "int8-torchao":
        if device != "cpu" and not compiled:
            raise Unsupported(
                "int8-torchao on a card is made for torch.compile: without it torchao prints every layer's numbers, "
                'which waits for the card, and computes small products in fp32; declare compile = "default"'
            )
        return _torchao(model, device, torch)
    if quantization != "int8-dynamic":
        raise Unsupported(f"quantization {quantization!r} is not known: use none, int8-dynamic or int8-torchao")
    if device != "cpu":
        raise Unsupported("int8-dynamic runs on the CPU only: on a card declare int8-torchao")
    import warnings

    with warnings.catch_warnings():
        # torch names torchao as successor; this one works in every torch that we support.
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)


def _torchao(model: Any, device: str, torch: Any) -> Any:
    """int8 weights, activations when they are computed; the extra `int8`, for CPU and cards.

    On a card its kernel takes sizes that are multiples of 8 and more than 16 rows. Layers of other sizes, and those
    that see one row per text (pooler, classifier), stay as they are; the quantised ones are counted.
    """
    try:
        ao: Any = importlib.import_module("torchao.quantization")
    except ImportError as error:
        raise Unsupported(f'torchao is not installed ({error}): make setup EXTRAS="measure int8"') from None

    single = frozenset[str]() if device == "cpu" else one_row_per_text(model, device, torch)

    def fits(module: Any, name: str) -> bool:
        if not isinstance(module, torch.nn.Linear):
            return False
        odd = module.in_features % _INT8_STEP or module.out_features % _INT8_STEP
        return device == "cpu" or not (odd or name in single)

    try:
        ao.quantize_(model, ao.Int8DynamicActivationInt8WeightConfig(), filter_fn=fits)
    except Exception as error:  # a card or build that its kernels are not for
        if memory_evidence(error) is not None:
            raise
        raise Unsupported(f"int8-torchao is not possible here: {first_line(error)}") from error
    return model


def one_row_per_text(model: Any, device: str, torch: Any) -> frozenset[str]:
    """Names of the linear layers that see one row per text, or none: tried with two texts of 8 tokens."""
    rows: dict[str, int] = {}
    linear = {name: module for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}

    def note(name: str) -> Callable[[Any, tuple[Any, ...]], None]:
        return lambda module, inputs: rows.update({name: inputs[0].numel() // module.in_features})

    hooks = [module.register_forward_pre_hook(note(name)) for name, module in linear.items()]
    try:
        with torch.inference_mode():
            model(torch.full((_TEXTS, 8), 5, device=device))
    finally:
        for hook in hooks:
            hook.remove()
    return frozenset(name for name in linear if rows.get(name, 0) <= _TEXTS)


def refuse_precision(precision: str, cuda: Any) -> None:
    """bf16 that a card only emulates is another thing than bf16: unsupported, never replaced (MO-11)."""
    if precision != "bf16":
        return
    capability = tuple(cuda.get_device_capability())
    try:
        native = bool(cuda.is_bf16_supported(including_emulation=False))
    except TypeError:  # older torch has no such argument
        native = capability >= _LIGHTEST_NATIVE_BF16
    # A ROCm build says yes for every card: of AMD's the architecture tells.
    architecture = str(getattr(cuda.get_device_properties(cuda.current_device()), "gcnArchName", ""))
    if architecture.startswith(_GFX_WITHOUT_BF16):
        raise Unsupported(f"bf16 is only emulated on this card (architecture {architecture.partition(':')[0]})")
    if not native:
        shown = ".".join(map(str, capability))
        raise Unsupported(f"bf16 is only emulated on this card (compute capability {shown})")


def refuse_attention(attention: str, precision: str, device: str, torch: Any) -> None:
    """Flash attention that the library would only warn of: the kernel's error would come in the warm-up (M16)."""
    if not attention.startswith(_FLASH):
        return
    if precision == "fp32":
        raise Unsupported(f"{attention} computes in fp16 or bf16 only, not in fp32")
    if device == "cpu" or torch.version.hip:
        return
    capability = tuple(torch.cuda.get_device_capability())
    if capability < _LIGHTEST_FLASH:
        shown = ".".join(map(str, capability))
        raise Unsupported(f"{attention} needs compute capability 8.0 or later, not {shown}")


def _try_attention(model: Any, attention: str, device: str, torch: Any) -> None:
    """One batch with padding: what the package's kernels are not built for is an answer, not a failed attempt."""
    ids = torch.full((_TEXTS, 8), 5, device=device)
    mask = torch.ones_like(ids)
    mask[1, 4:] = 0
    try:
        with torch.inference_mode():
            model(input_ids=ids, attention_mask=mask).logits.float().cpu()
    except RuntimeError as error:
        if memory_evidence(error) is not None:
            raise
        raise Unsupported(f"attention {attention} is not possible here: {first_line(error)}") from error


def effective_precision(model: Any, torch: Any) -> str:
    """Read from the parameters: one name, or `mixed: bf16 + fp32`. Quantised weights are no parameters.

    fp32 parameters that torch may multiply in a shorter type are `fp32 computed as tf32`, not fp32.
    """
    names = sorted({_PRECISION_OF.get(str(p.dtype), str(p.dtype)) for p in model.parameters() if p.is_floating_point()})
    shorter = shorter_fp32(torch) if "fp32" in names else None
    if shorter is not None:
        names = [f"fp32 computed as {shorter}" if name == "fp32" else name for name in names]
    return names[0] if len(names) == 1 else "mixed: " + " + ".join(names)


def shorter_fp32(torch: Any) -> str | None:
    """Type in which this process may compute products and convolutions of fp32; None where fp32 is fp32.

    Images of a vendor ask for TF32 by a variable; model code of the user's may have asked by either of two APIs,
    and torch then refuses to answer. NVIDIA's libraries read a variable of their own, over torch's head: documented
    is 0 (never), what else they make of it torch does not see.
    """
    if os.environ.get("NVIDIA_TF32_OVERRIDE", "0") != "0" and torch.version.hip is None:
        return "what NVIDIA_TF32_OVERRIDE asks for"
    try:
        highest = torch.get_float32_matmul_precision() == "highest"
        longest = not (torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32)
        return None if highest and longest else "tf32 or bf16"
    except RuntimeError:
        return "an unknown type"


def effective_quantization(model: Any) -> tuple[str, int]:
    """Name of the quantisation and how many modules have it, counted by their own type or that of their weights."""
    kinds = {
        "int8-dynamic": sum("quantized.dynamic" in type(module).__module__ for module in model.modules()),
        "int8-torchao": sum(_module_of(getattr(module, "weight", None)) == "torchao" for module in model.modules()),
    }
    found = {name: count for name, count in kinds.items() if count}
    if len(found) > 1:
        return "mixed: " + " + ".join(found), sum(found.values())
    return next(iter(found.items()), ("none", 0))


def _module_of(weight: Any) -> str:
    """Package of a weight's type; torch's own tensors say torch."""
    return type(weight).__module__.partition(".")[0]


def effective_attention(model: Any) -> str | None:
    return getattr(model.config, "_attn_implementation", None)


def sdpa_kernels(model: Any, device: str, torch: Any) -> dict[str, str | None]:
    """Which kernel torch chooses for `sdpa` with this model's heads, in a batch without and with padding (M9).

    `sdpa` is a name for several: the choice depends on the card, the type and the mask. None: torch does not say.
    """
    heads, width = getattr(model.config, "num_attention_heads", None), getattr(model.config, "hidden_size", None)
    found: dict[str, str | None] = {"sdpa_kernel_unpadded": None, "sdpa_kernel_padded": None}
    if not heads or not width:
        return found
    try:
        query = torch.empty((2, heads, 64, width // heads), dtype=model.dtype, device=device)
        mask = torch.ones((2, 1, 64, 64), dtype=torch.bool, device=device)
        for name, masks in (("sdpa_kernel_unpadded", ()), ("sdpa_kernel_padded", (mask,))):
            chosen = torch._fused_sdp_choice(query, query, query, *masks)
            found[name] = torch.nn.attention.SDPBackend(chosen).name.lower()
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:  # no public name of torch tells it
        if memory_evidence(error) is not None:
            raise
    return found


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
