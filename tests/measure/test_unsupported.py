"""What a device or model cannot do is a row of its own, never replaced by something else (M16; MO-06, MO-11)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from runner.cli.main import run as runner
from runner.evidence.attempt import Status
from runner.evidence.campaign import Campaign
from runner.evidence.store import read_attempts
from runner.protocol.freeze import freeze
from tests.measure.light import light_campaign, run
from tests.support.small_campaign import PROTOCOL, make_campaign

CASES = Path(__file__).parents[1] / "cases"
ENTRIES = 10


def test_mo11_bf16_on_a_card_that_only_emulates_it_is_one_row_without_numbers(tmp_path: Path) -> None:
    """The case's card (compute capability 7.5) is faked in a real worker; what is asked is frozen and stays."""
    case = json.loads((CASES / "MO-11" / "run.json").read_bytes())
    campaign = light_campaign(tmp_path, batches=(case["batch"],), documents=case["entries"], do="emulated-bf16")
    outcome = run(campaign, passes=1)
    (row,) = read_attempts(campaign)
    assert not outcome.complete
    assert (row.status, row.completed_documents, row.expected_documents) == (Status.UNSUPPORTED, 0, 10)
    assert row.pass_seconds is None and row.pass_seconds_reason
    assert row.error is not None and "bf16" in row.error.message and "7.5" in row.error.message
    assert run(campaign, passes=1).written == (), "asked once, answered once: no retry with another precision"


@pytest.fixture
def without_padding_token(tmp_path: Path) -> Campaign:
    """Ten texts, batches 1, 4 and 8, and a decoder-style classifier whose tokenizer knows no padding."""
    pytest.importorskip("torch")
    from tests.measure.test_engines import LABELS, tiny_model

    case = json.loads((CASES / "MO-06" / "run.json").read_bytes())
    assert case["entries"] == ENTRIES
    rows = [(f"d{number}", f"Where is my parcel {number}?", LABELS[number % 2], "long") for number in range(ENTRIES)]
    protocol = PROTOCOL.replace("values = [1, 4, 8]", f"values = {[item['batch'] for item in case['passes']]}")
    campaign = make_campaign(tmp_path, rows=rows, protocol=protocol)
    shutil.rmtree(campaign.protocol_dir / "model")
    model = tiny_model(campaign.protocol_dir / "model", "gpt2")
    config = json.loads((model / "tokenizer_config.json").read_bytes())
    config |= {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": None, "eos_token": "[SEP]"}
    (model / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    campaign.tariffs.write_text("gpu,device_pattern\n", encoding="utf-8")
    return campaign


@pytest.mark.e2e
def test_mo06_three_rows_of_which_only_batch_1_ran(
    without_padding_token: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = without_padding_token
    freeze(campaign)
    assert runner(["--campaign", str(campaign.root), "measure", "--gpu", "cpu", "--passes", "1"]) == 3
    assert "unsupported" in capsys.readouterr().err
    rows = {row.variant_id: row for row in read_attempts(campaign)}
    assert set(rows) == {"b1", "b4", "b8"}
    assert rows["b1"].status is Status.COMPLETED
    for name in ("b4", "b8"):
        row = rows[name]
        assert (row.status, row.completed_documents, row.expected_documents) == (Status.UNSUPPORTED, 0, ENTRIES)
        assert row.pass_seconds is None
        assert row.error is not None and "no padding token" in row.error.message


@pytest.mark.e2e
def test_mo06_a_declared_padding_token_lets_all_run_and_changes_the_fingerprint(
    without_padding_token: Campaign,
) -> None:
    campaign = without_padding_token
    before = freeze(campaign).lock_sha256
    text = campaign.protocol.read_text(encoding="utf-8")
    campaign.protocol.write_text(text.replace("[model]", '[model]\npad_token = "eos"', 1), encoding="utf-8")
    lock = freeze(campaign)
    assert lock.lock_sha256 != before and lock.protocol.model.pad_token == "eos"
    assert runner(["--campaign", str(campaign.root), "measure", "--gpu", "cpu", "--passes", "1"]) == 0
    assert {row.status for row in read_attempts(campaign)} == {Status.COMPLETED}
