"""Paired comparison of configurations (McNemar), as information beside the verdicts (M29, M27, M38)."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from runner.cli.main import run
from runner.evidence.campaign import Campaign
from runner.evidence.verdict import PairedTest
from runner.flows.recompute import recompute_verdicts
from runner.judge.campaign import judge_and_compare, read_paired
from runner.judge.paired import exact_p_value
from runner.protocol.freeze import freeze
from runner.protocol.schema import Lock
from tests.support.small_campaign import PROTOCOL, ROWS, make_attempt, make_campaign, store_attempt, write_predictions

OTHER = {"pos": "neg", "neg": "pos"}


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 400), st.integers(0, 400))
def test_m29_the_p_value_is_that_of_the_exact_binomial_test(first: int, second: int) -> None:
    """Issue 3, line 6: scipy's own test is the oracle."""
    expected = stats.binomtest(first, first + second).pvalue if first + second else 1.0
    assert abs(float(exact_p_value(first, second)) - expected) < 1e-6


def test_m29_the_p_value_of_very_many_documents_is_a_plain_decimal() -> None:
    assert exact_p_value(0, 10_000_000) == "0.000000"
    assert Decimal(exact_p_value(4_999_000, 5_001_000)) > Decimal("0.5")


def stored(campaign: Campaign, lock: Lock, number: int, variant: str, wrong: set[str], seed: int = 0) -> str:
    """An attempt that labels the documents `wrong` wrongly."""
    rows = [(row[0], OTHER[row[2]] if row[0] in wrong else row[2]) for row in ROWS]
    path = write_predictions(campaign.predictions / f"a{number:03d}.parquet", rows)
    attempt = make_attempt(campaign, lock, path, number=number, variant=variant, seed=seed)
    store_attempt(campaign, attempt)
    return attempt.attempt_id


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    """Good enough is 0.5, so that variants may differ in what they get right."""
    text = PROTOCOL.replace('threshold = "0.80"', 'threshold = "0.5"').replace('max_drop = "0.10"', 'max_drop = "0.5"')
    text = text.replace('min_agreement = "0.80"', 'min_agreement = "0.5"').replace('minimum = "0.', 'minimum = "0.0')
    return make_campaign(tmp_path, protocol=text.replace("[quality]", "[measurement]\nseeds = [0, 7]\n\n[quality]", 1))


def test_m29_where_only_one_configuration_is_right(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    """Equal accuracy hides it: b1 and b4 are both 8 of 10, and right on different documents."""
    lock = freeze(campaign)
    names = [row[0] for row in ROWS]
    stored(campaign, lock, 0, "b1", {names[0], names[1]})
    stored(campaign, lock, 1, "b4", {names[1], names[2]})
    stored(campaign, lock, 2, "b8", set())
    stored(campaign, lock, 3, "b1", {names[0], names[1]})  # a repeat adds nothing
    assert run(["--campaign", str(campaign.root), "validate", "--json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)["paired"]
    assert item["corpus_id"] == "small-final" and "McNemar" in item["method"]
    assert [(test["first"], test["second"]) for test in item["tests"]] == [
        ("cpu.b1", "cpu.b4"),
        ("cpu.b1", "cpu.b8"),
        ("cpu.b4", "cpu.b8"),
    ]
    first = item["tests"][0]
    assert (first["both_right"], first["only_first_right"], first["only_second_right"], first["both_wrong"]) == (
        7,
        1,
        1,
        1,
    )
    assert first["p_value"] == "1.000000" and item["tests"][1]["p_value"] == "0.500000"
    assert read_paired(campaign)[0].as_json() == item
    assert run(["--campaign", str(campaign.root), "validate"]) == 0
    shown = capsys.readouterr().out
    assert "only cpu.b1 is right on 1 documents, only cpu.b4 on 1; p 1.000000" in shown
    assert "information, no criterion" in shown


def test_m27_seeds_are_compared_apart_and_rejected_passes_not_at_all(campaign: Campaign) -> None:
    """M27: pairs have the same seed. A rejected attempt is compared with nothing."""
    lock = freeze(campaign)
    names = {row[0] for row in ROWS}
    for number, (variant, seed) in enumerate((("b1", 0), ("b4", 0), ("b1", 7), ("b4", 7))):
        stored(campaign, lock, number, variant, set(), seed)
    stored(campaign, lock, 4, "b8", names)  # rejected: all wrong
    (item,) = judge_and_compare(campaign).paired
    assert [(test.first, test.second, test.seed) for test in item.tests] == [
        ("cpu.b1", "cpu.b4", 0),
        ("cpu.b1", "cpu.b4", 7),
    ]


def test_m45_paired_comparisons_are_recomputed_by_verify(campaign: Campaign) -> None:
    """M45: a changed figure is seen; a comparison of what is no longer there is removed by `validate`."""
    lock = freeze(campaign)
    stored(campaign, lock, 0, "b1", set())
    stored(campaign, lock, 1, "b4", set())
    judge_and_compare(campaign)
    assert recompute_verdicts(campaign).status == "passed"
    path = campaign.paired / "small-final.json"
    path.write_bytes(path.read_bytes().replace(b'"both_right": 10', b'"both_right": 9'))
    step = recompute_verdicts(campaign)
    assert step.status == "failed" and "verdicts/paired/small-final.json: differs" in step.details
    (campaign.paired / "gone.json").write_bytes(path.read_bytes())
    judge_and_compare(campaign)
    assert [file.name for file in campaign.paired.iterdir()] == ["small-final.json"]
    assert PairedTest.from_json(read_paired(campaign)[0].tests[0].as_json()).both_right == 10
