"""`runner memory`: what fills a card, estimated and observed (M25)."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from runner.cli.output import Output, Session, runner_command
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign


@runner_command("memory", short_help="Memory exercise: weights and activations, estimated and observed.")
@click.option("--model", type=click.Path(file_okay=False, path_type=Path), help="default: the protocol's model")
@click.option("--batch", type=click.IntRange(min=1), help="default: the largest of the protocol")
@click.option("--length", type=click.IntRange(min=1), help="tokens per text; default: the protocol's maximum")
@click.option(
    "--precision",
    type=click.Choice(("fp32", "fp16", "bf16")),
    default="fp32",
    show_default=True,
    help="of weights and activations",
)
@click.option(
    "--attention",
    type=click.Choice(("sdpa", "eager")),
    default="sdpa",
    show_default=True,
    help="eager holds the scores of every pair of tokens",
)
@click.option(
    "--device",
    type=click.Choice(("cpu", "cuda")),
    default="cpu",
    show_default=True,
    help="the first card is cuda, on ROCm too",
)
def memory(
    session: Session,
    model: Path | None,
    batch: int | None,
    length: int | None,
    precision: str,
    attention: str,
    device: str,
) -> Output:
    """Estimate a model's weights and activations, then observe them. An exercise; never evidence."""
    from runner.measure import exercise
    from runner.protocol.lengths import effective_max_length
    from runner.protocol.modelfiles import resolve_model
    from runner.protocol.read import read_protocol
    from runner.protocol.variants import expand

    if model is None or batch is None or length is None:
        campaign = Campaign(session.root)
        protocol = read_protocol(campaign.protocol)
        folder = model or resolve_model(protocol.model, campaign.protocol_dir).path
        batch = batch or max(variant.settings.batch_size or 1 for variant in expand(protocol))
        length = length or effective_max_length(folder, protocol.model.max_length)
    else:
        folder = model
    checks = exercise.environment(device, folder)
    broken = tuple(f"{one.name}: {one.found}" for one in checks if not one.usable)
    if broken:
        raise InputRefused("the memory exercise cannot run here", details=broken, next_step="runner doctor")
    try:
        found = exercise.observe(folder, batch, length, precision, attention, device)
    except exercise.NotUsable as error:
        raise InputRefused(
            str(error),
            file=folder,
            next_step="give a Hugging Face sequence classifier as a folder: runner memory --model FOLDER",
        ) from None
    except (MemoryError, RuntimeError) as error:
        first = (str(error) or repr(error)).splitlines()[0]
        raise InputRefused(f"out of memory, or not supported here: {first}", next_step="a smaller --batch") from None
    lines = ["environment:", *(f"  {one.name}: {one.found}" for one in checks), *exercise.table(found)]
    return Output(lines, asdict(found) | {"lesson": exercise.LESSON})
