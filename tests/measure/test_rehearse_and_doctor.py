"""Before paid hours: a try that counts nothing, and plain words about the machine (M52)."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from runner.cli.main import run as runner
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.flows.rehearse import _clock, _texts, rehearse
from runner.protocol.freeze import freeze, load_lock
from runner.protocol.modelfiles import check_model
from runner.units import utc_text
from tests.measure.light import WORKER, light_campaign


def silent(text: str) -> None:
    return None


def files(campaign: Campaign) -> set[str]:
    return {str(path) for path in campaign.root.rglob("*")}


def test_m52_a_rehearsal_tries_every_variant_and_records_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (0.1, 0.1, 0.1))
    campaign = light_campaign(tmp_path, batches=(1, 4))
    before = files(campaign)
    found = rehearse(campaign, "cpu", None, silent, WORKER)
    assert found.passed, found.checks
    names = [check.name for check in found.checks]
    assert names[:5] == ["wall clock", "disk", "signing key", "baseline", "device"]
    assert names[5:] == ["variant b4", "variant b1", "planned time", "deadline"]
    assert "the 4 longest texts fit in one batch" in found.checks[5].found
    assert "the longest text fits" in found.checks[6].found
    assert files(campaign) == before


def test_m52_the_longest_texts_are_those_with_the_most_tokens(tmp_path: Path) -> None:
    """Many short words are more tokens than one long word of more characters; cutting is the protocol's."""
    campaign = light_campaign(tmp_path)
    lock = load_lock(campaign)
    folder = check_model(campaign, lock)
    found = _texts(campaign, lock)
    assert found.unit == "characters", "the small campaign's model has no tokenizer"
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    texts = ["a b c d", "longword " * 3, "x" * 90]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runner.flows.rehearse.iter_table", lambda *_: [(0, [text]) for text in texts])
        patch.setattr("runner.flows.rehearse.check_model", lambda *_: folder)
        found = _texts(campaign, lock)
    assert (found.unit, found.texts, found.lengths) == ("tokens", texts, [4, 3, 1])


def test_m52_durations_beside_others_at_work_are_called_rough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (7.0, 5.0, 3.0))
    found = rehearse(light_campaign(tmp_path), "cpu", None, silent, WORKER)
    assert found.passed and found.checks[-1].name == "quiet"
    assert "warning: load 7.0" in found.checks[-1].found and "times are rough" in found.checks[-1].found


def test_m52_what_fails_late_fails_early(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, do="memory", at=0)
    found = rehearse(campaign, "cpu", None, silent, WORKER)
    assert not found.passed
    (variant,) = [check for check in found.checks if check.name == "variant b1"]
    assert "out_of_memory: CUDA out of memory" in variant.found


def test_m52_the_planned_end_is_held_against_the_end_of_the_rental(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, passes=5)
    gone = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%MZ")
    found = rehearse(campaign, "cpu", gone, silent, WORKER)
    assert [check.name for check in found.checks if not check.passed] == ["end of the rental"]
    with pytest.raises(InputRefused):
        rehearse(campaign, "cpu", "tomorrow", silent, WORKER)


def test_m52_time_left_of_the_rental_is_enough_or_not(tmp_path: Path) -> None:
    """The same campaign, a rental that ends in an hour and one that ends in two seconds."""
    campaign = light_campaign(tmp_path, passes=5, sleep=0.1)
    for seconds, enough in ((3600, True), (2, False)):
        end = (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
        found = rehearse(campaign, "cpu", end, silent, WORKER)
        assert {check.name: check.passed for check in found.checks}["end of the rental"] is enough
        assert found.passed is enough


def test_m52_a_plan_with_too_little_time_for_measuring_fails(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, passes=5, sleep=0.1)
    plan = campaign.plan.read_text(encoding="utf-8")
    campaign.plan.write_text(plan.replace("2096-12-28T12:00", "2096-12-28T09:00:01"), encoding="utf-8")
    found = rehearse(campaign, "cpu", None, silent, WORKER)
    assert [check.name for check in found.checks if not check.passed] == ["planned time"]


def test_m52_a_clock_behind_the_freeze_fails(tmp_path: Path) -> None:
    lock = freeze(light_campaign(tmp_path))
    assert _clock(lock).passed
    later = lock.model_copy(update={"frozen_at_utc": utc_text(datetime.now(UTC) + timedelta(seconds=480))})
    found = _clock(later)
    assert not found.passed and "behind the freeze by 480 s: set it before measuring" in found.found


def test_m52_a_key_that_cannot_sign_is_found_before_the_paid_hours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The key is tried, not only looked for: one that an absent passphrase protects is there and signs nothing."""
    campaign = light_campaign(tmp_path / "campaign")
    key = tmp_path / "key"
    for arguments in (["-N", "secret"], ["-N", ""]):
        key.unlink(missing_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", *arguments, "-f", str(key)], check=True)
        monkeypatch.setenv("SIGNING_KEY", str(key))
        monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
        if arguments == ["-N", "secret"]:
            assert runner(["--campaign", str(campaign.root), "rehearse", "--gpu", "cpu"]) == 2
            assert "needs a passphrase" in capsys.readouterr().err
        else:
            checks = {check.name: check for check in rehearse(campaign, "cpu", None, silent, WORKER).checks}
            assert checks["signing key"].passed and checks["signing key"].found.startswith("SHA256:")


def test_m11_a_missing_card_fails_the_rehearsal(tmp_path: Path) -> None:
    found = rehearse(light_campaign(tmp_path), "b200", None, silent, WORKER)
    assert [check.name for check in found.checks if not check.passed] == ["device"]


def test_the_doctor_says_what_is_possible_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert runner(["--campaign", str(tmp_path), "doctor", "--json"]) == 0
    found = {item["name"]: item for item in json.loads(capsys.readouterr().out)["abilities"]}
    assert found["precision fp32"]["possible"] is True
    assert found["attention sdpa"]["possible"] is True
    assert all(item["why"] for item in found.values())
    assert list(tmp_path.iterdir()) == []


def test_the_doctor_names_the_limits_of_a_container_and_others_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 6, points 8 and 9: in words and units, before anything is paid for."""
    from runner.flows import doctor
    from runner.measure.environment import host_facts

    facts, reasons = host_facts()
    limited = facts | {"cpu_quota": 1.5, "memory_limit": 4 << 30, "container": "docker"}
    monkeypatch.setattr(doctor, "host_facts", lambda: (limited, reasons))
    monkeypatch.setattr("os.getloadavg", lambda: (3.2, 1.0, 1.0))
    found = {ability.name: ability for ability in doctor._machine()}
    assert found["container"].why == "docker, at most 1.5 processor cores, at most 4.0 GiB of memory"
    assert found["quiet"].possible is None and "others are at work" in found["quiet"].why
    monkeypatch.setattr("os.getloadavg", lambda: (0.1, 0.1, 0.1))
    assert {ability.name: ability for ability in doctor._machine()}["quiet"].possible is True
