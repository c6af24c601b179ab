"""A baseline below the frozen minimum is told before anything is timed (M2, M29, M52)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from runner.cli.main import run
from runner.cli.measure import _baseline_quality
from runner.evidence.campaign import Campaign
from runner.evidence.verdict import Check
from runner.flows.rehearse import rehearse
from runner.judge.campaign import judge_campaign
from runner.judge.minimum import current_baselines, frozen_baselines, spoken
from runner.protocol.freeze import freeze
from tests.support.small_campaign import PROTOCOL, ROWS, make_attempt, make_campaign, store_attempt, write_predictions

LIGHT = Path(__file__).parents[1] / "measure" / "light_worker.py"
# Two of four long texts wrong: accuracy 8/10 reaches 0.80 exactly, the subgroup 2/4 misses 0.75.
WRONG = ("d06", "d07")
BASELINE = [(row[0], {"pos": "neg", "neg": "pos"}[row[2]] if row[0] in WRONG else row[2]) for row in ROWS]


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    made = make_campaign(tmp_path, baseline=BASELINE)
    made.tariffs.write_text("gpu,device_pattern\n", encoding="utf-8")
    return made


def test_the_baseline_is_judged_before_the_freeze_and_after_it_alike(campaign: Campaign) -> None:
    """M2: labels are there, so how good the reference predictions are is known; a limit reached exactly is reached."""
    before = current_baselines(campaign)
    assert [(check.name, check.status) for check in before[0].checks] == [
        ("metric", "passed"), ("subgroup stratum=long", "failed"),
    ]  # fmt: skip
    assert not any(path.suffix == ".parquet" for path in (campaign.protocol_dir).glob("reference/*"))
    assert frozen_baselines(campaign, freeze(campaign)) == before


def test_a_good_baseline_gives_no_warning(tmp_path: Path) -> None:
    campaign = make_campaign(tmp_path)
    assert [item.warning for item in current_baselines(campaign)] == [None]


def test_freeze_and_measure_say_it_and_every_pass_like_it_is_rejected(
    campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    """M29, M52: what the warning foretells is what `validate` finds, with drop 0 and flips 0."""
    assert run(["--campaign", str(campaign.root), "freeze", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["baseline"][0]["reached"] is False
    (warning,) = data["warnings"]
    assert "the baseline itself misses the minimum on small-final" in warning
    assert "2/4 = 0.5 on stratum=long (4 documents) is below 0.75" in warning
    assert "will be rejected" in warning
    lock = freeze(campaign)
    path = write_predictions(campaign.predictions / "a000.parquet", BASELINE)
    store_attempt(campaign, make_attempt(campaign, lock, path))
    (verdict,) = judge_campaign(campaign)
    assert not verdict.accepted and verdict.flips == 0
    # Nothing of this stops a measurement; it says so once, before the first pass.
    run(["--campaign", str(campaign.root), "measure", "--gpu", "b200"])
    assert capsys.readouterr().err.count("the baseline itself misses the minimum") == 1


def test_a_rehearsal_says_no(campaign: Campaign) -> None:
    """M52: certain before the first paid hour, so a rehearsal does not pass."""
    freeze(campaign)
    found = rehearse(campaign, "cpu", None, lambda _: None, (sys.executable, str(LIGHT)))
    (check,) = [check for check in found.checks if check.name == "baseline"]
    assert not check.passed and "misses the minimum" in check.found
    assert not found.passed


def checked(value: str, fraction: str, limit: str, relation: str = "is below") -> Check:
    reason = f"accuracy {fraction} = {value} {relation} {limit}"
    return Check(name="metric", status="failed", found=fraction, limit=limit, reason=reason)


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (checked("0.163333333333", "49/300", "0.85"), "accuracy 49/300 = 0.1633 is below 0.85"),
        (checked("0.996666666667", "299/300", "0.85", "reaches"), "accuracy 299/300 = 0.9967 reaches 0.85"),
        (checked("0.849999", "849999/1000000", "0.85"), "accuracy 849999/1000000 = 0.849999 is below 0.85"),
        (checked("0.8499961", "8499961/10000000", "0.85"), "accuracy 8499961/10000000 = 0.849996 is below 0.85"),
        (checked("0.5", "2/4", "0.75"), "accuracy 2/4 = 0.5 is below 0.75"),
        (checked("0.99", "99/100", "0.994999999999"), "accuracy 99/100 = 0.99 is below 0.994999999999"),
    ],
)
def test_m29_figures_for_people_are_short_and_never_touch_the_limit(check: Check, said: str) -> None:
    """M29: 4 significant digits; a value below the limit never reads as the limit itself."""
    assert spoken(check) == said


def test_m29_a_missed_baseline_is_said_once_and_the_next_step_is_not_the_freeze(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """M29, M52: one sentence with short figures; exact ones for machines; who froze all the same is told so too."""
    # One short text more, answered wrongly with the first five: 7/12 in all, the long ones all right.
    rows = [*ROWS, ("d10", "text number 10", "neg", "long"), ("d11", "text number 11", "pos", "long")]
    wrong = [(row[0], {"pos": "neg", "neg": "pos"}[row[2]]) for row in rows[:5]]
    campaign = make_campaign(tmp_path, rows=rows, baseline=[*wrong, *((row[0], row[2]) for row in rows[5:])])
    told, exact = _baseline_quality(campaign)
    assert "7/12 = 0.583333333333" in json.dumps(exact)
    assert run(["--campaign", str(campaign.root), "freeze"]) == 0
    frozen = capsys.readouterr().out.splitlines()
    for lines, last in ((told, "runner baseline"), (frozen, "as long as nothing was measured")):
        said = "\n".join(lines)
        assert said.count("7/12") == 1 and "7/12 = 0.5833 is below 0.80" in said
        assert said.count("on stratum=long") == 1, "what is reached is said as well"
        (step,) = [line for line in lines if line.startswith("next:")]
        assert step.startswith("next: put another model, or a minimum that you can answer for") and step.endswith(last)


@pytest.mark.parametrize("map_wrong", [True, False])
def test_mo_01_exchanged_names_of_the_model_are_suggested_where_they_would_reach_the_minimum(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], map_wrong: bool
) -> None:
    """MO-01, M2: nearly all answers the other way round point to the label map; merely bad answers do not."""
    protocol = PROTOCOL.replace("max_length = 128\n", 'max_length = 128\nlabel_map = { neg = "L1", pos = "L0" }\n')
    right, other = {"pos": "L1", "neg": "L0"}, {"pos": "L0", "neg": "L1"}
    rows = [(row[0], right[row[2]] if map_wrong or number < 5 else other[row[2]]) for number, row in enumerate(ROWS)]
    campaign = make_campaign(tmp_path, protocol=protocol, labels={"0": "L0", "1": "L1"}, baseline=rows)
    (item,) = current_baselines(campaign)
    assert item.missed and item.exchanged == ((("L0", "L1"), ("L1", "L0")) if map_wrong else ())
    assert run(["--campaign", str(campaign.root), "freeze"]) == 0
    out = capsys.readouterr().out
    assert ("look at [model.label_map] of the protocol first" in out) is map_wrong
    assert ("it says 'L0' for 'L1', 'L1' for 'L0'" in out) is map_wrong
    assert "labels: pos (model: L0), neg (model: L1); texts" in out, "the corpus' own labels come first"
