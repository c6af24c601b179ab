"""Reference predictions: untimed, full precision, before the freeze; kept while nothing changed (M2)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from runner.cli.main import run as runner
from runner.errors import InputRefused, NotAccepted
from runner.evidence.campaign import Campaign
from runner.measure.baseline import make_baselines
from tests.support.small_campaign import PROTOCOL, forget_given_baseline, make_campaign

pytest.importorskip("torch")
ROOT = Path(__file__).parents[2]
ROWS = [
    (f"d{number}", text, label, "short")
    for number, (text, label) in enumerate(
        [("Where is my parcel?", "delivery"), ("I was charged twice.", "billing"), ("Broken screen.", "product")] * 3
    )
]


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    protocol = PROTOCOL.replace('value = "long"', 'value = "short"')
    made = make_campaign(tmp_path, rows=ROWS, protocol=protocol)
    shutil.rmtree(made.protocol_dir / "model")
    shutil.copytree(ROOT / "protocol" / "model", made.protocol_dir / "model")
    forget_given_baseline(made)
    made.tariffs.write_text("gpu,device_pattern\n", encoding="utf-8")
    return made


@pytest.mark.e2e
def test_m2_the_baseline_is_made_once_and_again_only_for_other_inputs(
    campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runner(["--campaign", str(campaign.root), "baseline"]) == 0
    said = capsys.readouterr().out
    assert "small-final.parquet: 9 documents" in said
    assert "misses the minimum on small-final: accuracy " in said and " 0.8" in said, "how good it is, against what"
    (path,) = campaign.baseline_dir.glob("*.parquet")
    assert pq.read_table(path).column("id").to_pylist() == [row[0] for row in ROWS]
    sidecar = json.loads(path.with_suffix(".json").read_bytes())
    assert sidecar["effective"]["precision"] == "fp32" and sidecar["effective"]["batch_size"] == 1
    assert not campaign.attempts.exists(), "no attempt, no time"
    assert not campaign.records.exists(), "no journal, no lock file"
    assert [file.made for file in make_baselines(campaign)] == [False]
    path.write_bytes(path.read_bytes() + b" ")
    assert [file.made for file in make_baselines(campaign)] == [True]


def test_a_baseline_on_a_card_that_is_not_there_is_not_made(campaign: Campaign) -> None:
    with pytest.raises(NotAccepted, match="found no card"):
        make_baselines(campaign, "b200")
    assert not campaign.baseline_dir.exists()


@pytest.mark.parametrize("fault", ["no plan", "deliverable", "subgroup", "tuning"])
def test_m2_what_the_freeze_would_refuse_costs_no_baseline(campaign: Campaign, fault: str) -> None:
    """M2, M5: plan, subgroups and tuning are checked before the model is loaded."""
    text = campaign.protocol.read_text(encoding="utf-8")
    plan = campaign.plan.read_text(encoding="utf-8")
    if fault == "no plan":
        campaign.plan.unlink()
    elif fault == "deliverable":
        campaign.plan.write_text(plan.replace('"small-final"', '"another"'), encoding="utf-8")
    elif fault == "subgroup":
        campaign.protocol.write_text(text.replace('value = "short"', 'value = "Short"'), encoding="utf-8")
    else:
        shutil.copy(campaign.protocol_dir / "corpus" / "final.csv", campaign.protocol_dir / "corpus" / "tuning.csv")
        final = 'final = "corpus/final.csv"'
        campaign.protocol.write_text(text.replace(final, f'{final}\ntuning = "corpus/tuning.csv"'), encoding="utf-8")
    with pytest.raises(InputRefused):
        make_baselines(campaign)
    assert not campaign.baseline_dir.exists()
