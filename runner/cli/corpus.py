"""`runner demo-model`: the embedded, synthetic corpus and model, made again."""

from __future__ import annotations

from runner.cli.output import Output, Session, runner_command, write_line
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import sha256_file


@runner_command("demo-model")
def demo_model(session: Session) -> Output:
    """Make the embedded synthetic corpus and model again (needs torch; about three minutes)."""
    from runner.demo.build import build_demo

    campaign = Campaign(session.root)
    files = build_demo(campaign, lambda text: write_line(text, error=True))
    sums = {campaign.relative(file): sha256_file(file) for file in files}
    return Output([f"{sha256}  {name}" for name, sha256 in sums.items()], {"files": sums})
