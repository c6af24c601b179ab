"""Nothing is signed over verdicts that do not follow from the records (M2, M28, M45): the judge judges again first.

Edited verdicts and predictions replaced after `validate` gave a signed note that only `verify` refused.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.cli.main import run
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import pretty_json
from runner.judge.campaign import judge_campaign
from runner.protocol.freeze import freeze
from tests.flows.conftest import SECONDS, measured_campaign
from tests.support.rentals import OWN_MACHINE
from tests.support.small_campaign import ROWS, make_attempt, make_campaign, store_attempt, write_predictions

RIGHT = [(row[0], row[2]) for row in ROWS]
WRONG = [(row[0], "neg" if row[2] == "pos" else "pos") for row in ROWS]
Spoil = Callable[[Campaign], None]


def edit(campaign: Campaign, name: str, **changes: object) -> None:
    path = campaign.verdicts / f"{name}.json"
    path.write_bytes(pretty_json(json.loads(path.read_bytes()) | changes))


def accept_rejected(campaign: Campaign) -> None:
    """The verdict of the wrong fast configuration becomes that of a right one, fingerprints as they were."""
    good = json.loads((campaign.verdicts / "a000.json").read_bytes())
    kept = ("attempt_id", "predictions_sha256", "lock_sha256")
    for name in ("a002", "a005", "a008"):
        mine = json.loads((campaign.verdicts / f"{name}.json").read_bytes())
        edit(campaign, name, **(good | {key: mine[key] for key in kept}))


def replace_predictions(campaign: Campaign) -> None:
    write_predictions(campaign.predictions / "a001.parquet", WRONG)


def replace_equal_predictions_of_one(campaign: Campaign) -> None:
    """Rows whose files are equal are judged once; the one that was replaced is found all the same."""
    write_predictions(campaign.predictions / "a007.parquet", WRONG)


def remove_predictions(campaign: Campaign) -> None:
    (campaign.predictions / "a001.parquet").unlink()


def reject_accepted(campaign: Campaign) -> None:
    edit(campaign, "a001", accepted=False, reasons=["metric: edited"])


def better_metric(campaign: Campaign) -> None:
    edit(campaign, "a002", flips=0, drop="-0.5")


def drop_warning(campaign: Campaign) -> None:
    edit(campaign, "a001", warnings=["invented"])


def other_pairs(campaign: Campaign) -> None:
    (path,) = campaign.paired.glob("*.json")
    data = json.loads(path.read_bytes())
    data["tests"][0]["only_first_right"] += 1
    path.write_bytes(pretty_json(data))


def of_no_attempt(campaign: Campaign) -> None:
    data = json.loads((campaign.verdicts / "a000.json").read_bytes()) | {"attempt_id": "a999"}
    (campaign.verdicts / "a999.json").write_bytes(pretty_json(data))


SPOILT: dict[str, tuple[Spoil, str, str]] = {
    "rejected ones made accepted": (accept_rejected, "a002", "says accepted; from the records follows: rejected"),
    "predictions replaced": (replace_predictions, "a001", "the file is not the one that the attempt wrote"),
    "one of equal files replaced": (
        replace_equal_predictions_of_one,
        "a007",
        "the file is not the one that the attempt wrote",
    ),
    "predictions removed": (remove_predictions, "a001", "the prediction file is missing"),
    "an accepted one made rejected": (reject_accepted, "a001", "says rejected, metric: edited; from the records"),
    "a figure of a rejected one": (better_metric, "a002", "(other: drop, flips)"),
    "a warning": (drop_warning, "a001", "(other: warnings)"),
    "the comparison in pairs": (other_pairs, "paired/small-final", "the comparison of configurations in pairs"),
    "a verdict of no attempt": (of_no_attempt, "a999", "no attempt gives this verdict"),
}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine passes; every label of the fastest configuration, b8, is wrong, so it is rejected."""
    campaign = make_campaign(tmp_path_factory.mktemp("judged") / "campaign")
    shutil.copyfile(Path(__file__).parents[2] / "tariffs.csv", campaign.tariffs)
    lock = freeze(campaign)
    for number in range(9):
        variant = ("b1", "b4", "b8")[number % 3]
        path = campaign.predictions / f"a{number:03d}.parquet"
        write_predictions(path, WRONG if variant == "b8" else RIGHT)
        seconds = SECONDS[variant] + number // 3 * 0.01
        store_attempt(
            campaign, make_attempt(campaign, lock, path, number=number, variant=variant, pass_seconds=seconds)
        )
    judge_campaign(campaign)
    return campaign.root


@pytest.mark.parametrize("command", ["decide", "report"])
@pytest.mark.parametrize("fault", SPOILT)
def test_a_verdict_that_does_not_follow_is_never_signed(
    fault: str, command: str, judged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """M28, M45: exit 3, attempt, what its verdict says, what follows, the next command; nothing is written."""
    root = tmp_path / "campaign"
    shutil.copytree(judged, root)
    spoil, name, words = SPOILT[fault]
    spoil(Campaign(root))
    assert run(["--campaign", str(root), command]) == 3
    said = capsys.readouterr().err
    assert f"{name}: " in said and words in said and "validate" in said
    assert not (root / "note").exists()


def test_validate_then_report_mends_it(judged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """DESIGN 4: the next command that is named leads on; the rejected configuration is not chosen."""
    root = tmp_path / "campaign"
    shutil.copytree(judged, root)
    accept_rejected(Campaign(root))
    assert run(["--campaign", str(root), "report"]) == 3
    assert run(["--campaign", str(root), "validate"]) == 3
    capsys.readouterr()
    assert run(["--campaign", str(root), "report"]) == 0
    assert "cpu.b4" in capsys.readouterr().out
    assert run(["--campaign", str(root), "verify"]) == 0


def test_a_false_note_of_an_earlier_version_is_not_archived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """M45: a note that was signed over such verdicts once is whole as a list of files, and is not archived."""
    campaign = measured_campaign(tmp_path / "campaign")
    reject_accepted(campaign)
    with monkeypatch.context() as patch:
        patch.setattr("runner.decide.write.refuse_other_verdicts", lambda campaign: None)
        assert run(["--campaign", str(campaign.root), "report"]) == 0
    rental = tmp_path / "rental.toml"
    rental.write_text(OWN_MACHINE, encoding="utf-8")
    capsys.readouterr()
    assert run(["--campaign", str(campaign.root), "archive", "--rental", str(rental)]) == 3
    said = capsys.readouterr().err
    assert "a001: " in said and "from the records follows: accepted" in said
    assert not list(campaign.archive.glob("*.zip"))
