"""Exclusions (M31): external reasons only, one rule for all variants, signed, the row stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.cli.main import run
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.signing import Purpose, sign_file
from runner.evidence.store import read_attempts
from runner.judge.campaign import judge_campaign
from runner.judge.exclusions import exclude, exclusions_dir, read_exclusions
from runner.judge.rules import parse_rule
from runner.protocol.freeze import freeze
from runner.protocol.schema import Lock
from tests.support.small_campaign import ROWS, make_attempt, make_campaign, store_attempt, write_predictions

RULE = "started_at_utc >= 2099-01-01T00:02:00Z and started_at_utc < 2099-01-01T00:04:00Z"

# What a pass achieved, by name as `measure` records it: none of it may be a reason (M31, M30).
TELEMETRY = {
    "flops_real": 4.5e9,
    "flops_executed": 4.5e9,
    "utilisation_real": 0.1,
    "utilisation_executed": 0.2,
    "matrix_flops_rate": 1e11,
    "matrix_flops_rate_used": 1e11,
    "device_span_seconds": 1.0,
    "card0.energy_joules": 5.0,
    "card0.own_bytes_most": 7,
    "card0.used_bytes_most": 8,
    "card0.power_watts_most": 9.0,
}


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    """Five attempts, one a minute, variants b1 b4 b8 b1 b4."""
    campaign = make_campaign(tmp_path)
    lock = freeze(campaign)
    for number, variant in enumerate(("b1", "b4", "b8", "b1", "b4")):
        path = write_predictions(campaign.predictions / f"a{number:03d}.parquet", [(row[0], row[2]) for row in ROWS])
        store_attempt(
            campaign,
            make_attempt(
                campaign,
                lock,
                path,
                number=number,
                variant=variant,
                started_at_utc=f"2099-01-01T00:0{number}:00Z",
                telemetry=TELEMETRY
                | {
                    "load_1_minute": 9.5 if number == 4 else 0.5,
                    "card0.throttle_reasons": "power-brake",
                },
            ),
        )
    return campaign


def test_the_rule_is_applied_to_all_variants(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--reason", "power cut, ticket 17", "--rule", RULE]
    arguments = ["--campaign", str(campaign.root), "exclude", "a002", *options]
    row = (campaign.attempts / "a002.json").read_bytes()
    assert run([*arguments, "--dry-run"]) == 0
    assert "would be excluded too, by the same rule: a003" in capsys.readouterr().out
    assert not exclusions_dir(campaign).exists()
    assert run(arguments) == 0
    said = capsys.readouterr().out
    assert "excluded too, by the same rule: a003" in said
    assert f"next: runner --campaign {campaign.root} validate" in said and "verify" in said
    assert f"make CAMPAIGN={campaign.root} validate decide report" in said
    found = read_exclusions(campaign, read_attempts(campaign))
    assert [(item.attempt_id, item.named_attempt) for item in found] == [("a002", "a002"), ("a003", "a002")]
    assert (campaign.attempts / "a002.json").read_bytes() == row
    assert len(judge_campaign(campaign)) == 5
    assert run(arguments) == 2
    assert "excluded already: power cut, ticket 17" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("pass_seconds > 3", "only external facts"),
        ("variant_id = b1", "only external facts"),
        ("it was slow", "not a comparison"),
        ("", "not a comparison"),
        ("started_at_utc >= yesterday", "UTC instant"),
        ("started_at_utc >= 2099-01-01T00:03:00Z", "does not hit 'a002' itself"),
        ("device_shared > 1", "true or false"),
        *((f"telemetry.{name} > 0", "only external facts") for name in TELEMETRY),
        ("telemetry.card0.anything = 1", "only external facts"),
        ("telemetry.load_1_minute > NaN", "is a number"),
        ("telemetry.load_1_minute > sNaN", "is a number"),
        ("telemetry.load_1_minute > Infinity", "is a number"),
        ("gpu_declared = cpu", "excludes a configuration, not an incident"),
        ("machine_id < m9", "compared by = or !="),
    ],
)
def test_rules_that_are_none(campaign: Campaign, rule: str, words: str) -> None:
    with pytest.raises(InputRefused, match=words):
        exclude(campaign, "a002", reason="power cut", rule=rule)
    assert not exclusions_dir(campaign).exists()


def test_other_refusals(campaign: Campaign) -> None:
    with pytest.raises(InputRefused, match="documented external reason"):
        exclude(campaign, "a002", reason="  ", rule=RULE)
    with pytest.raises(InputRefused, match="no such attempt"):
        exclude(campaign, "../a002", reason="x", rule=RULE)


def test_facts_of_every_kind(campaign: Campaign) -> None:
    attempts = {verdict.attempt_id for verdict in judge_campaign(campaign)}
    assert attempts == {f"a{number:03d}" for number in range(5)}
    assert exclude(campaign, "a004", reason="x", rule="telemetry.load_1_minute > 4", dry_run=True).also_hit == ()
    throttled = "telemetry.card0.throttle_reasons = power-brake"
    assert len(exclude(campaign, "a004", reason="x", rule=throttled, dry_run=True).also_hit) == 4
    assert len(exclude(campaign, "a004", reason="x", rule="machine_id = m1", dry_run=True).also_hit) == 4
    assert len(exclude(campaign, "a004", reason="x", rule="device_shared != true", dry_run=True).also_hit) == 4
    assert len(parse_rule("gpu_declared = cpu and wall_clock_moved_seconds >= 1.5").terms) == 2
    with pytest.raises(InputRefused, match="does not hit"):  # unknown facts are not hit
        exclude(campaign, "a004", reason="x", rule="wall_clock_moved_seconds != 0")


def test_unsigned_changed_or_orphaned_statements_are_refused(campaign: Campaign) -> None:
    exclude(campaign, "a004", reason="busy: the provider's job", rule="telemetry.load_1_minute > 4")
    path = exclusions_dir(campaign) / "a004.json"
    data = path.read_bytes()
    path.write_bytes(data.replace(b"provider", b"weather!"))
    with pytest.raises(InputRefused, match="signature of the exclusion is not good"):
        read_exclusions(campaign, read_attempts(campaign))
    path.write_bytes(data)
    assert len(read_exclusions(campaign, read_attempts(campaign))) == 1
    row = campaign.attempts / "a004.json"
    row.write_bytes(row.read_bytes() + b" ")
    with pytest.raises(InputRefused, match="does not belong to a row"):
        read_exclusions(campaign, read_attempts(campaign))
    (exclusions_dir(campaign) / "a004.json.sig").unlink()
    with pytest.raises(InputRefused, match="not signed"):
        read_exclusions(campaign, read_attempts(campaign))


def test_m31_a_signed_statement_about_a_result_is_refused_too(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    from runner.judge import rules

    with monkeypatch.context() as lax:  # a statement that another program wrote and signed with the same key
        lax.setattr(rules, "_OF_THE_HOST", ("utilisation_real",))
        exclude(campaign, "a004", reason="slow", rule="telemetry.utilisation_real > 0")
    with pytest.raises(InputRefused, match="rests on no external fact"):
        read_exclusions(campaign, read_attempts(campaign))


@pytest.mark.parametrize("lost", ["a002", "a003"])
def test_m31_half_of_the_statements_of_a_rule_are_refused_until_all_are_there(campaign: Campaign, lost: str) -> None:
    """M31: an `exclude` killed between two statements, or one statement removed afterwards, is no rule for all."""
    exclude(campaign, "a002", reason="power cut", rule=RULE)
    whole = {path.name for path in exclusions_dir(campaign).iterdir()}
    (exclusions_dir(campaign) / f"{lost}.json").unlink()
    kept = "a003" if lost == "a002" else "a002"
    with pytest.raises(InputRefused, match="hits further attempts") as caught:
        read_exclusions(campaign, read_attempts(campaign))
    assert caught.value.details == (f"{lost}: hit by the rule, no statement",)
    with pytest.raises(InputRefused, match="excluded already"):
        exclude(campaign, kept, reason="another", rule=RULE)
    exclude(campaign, kept, reason="power cut", rule=RULE)
    assert {path.name for path in exclusions_dir(campaign).iterdir()} == whole
    assert len(read_exclusions(campaign, read_attempts(campaign))) == 2


def test_m31_a_signed_statement_whose_rule_does_not_hit_its_attempt_is_refused(campaign: Campaign) -> None:
    exclude(campaign, "a002", reason="power cut", rule=RULE)
    path = exclusions_dir(campaign) / "a003.json"
    path.write_bytes(path.read_bytes().replace(b"00:02:00Z and", b"00:03:30Z and"))
    sign_file(path, campaign, Purpose.STATEMENT)
    with pytest.raises(InputRefused, match="does not hit its attempt"):
        read_exclusions(campaign, read_attempts(campaign))


def test_m31_an_attempt_measured_later_that_the_rule_hits_must_be_excluded_too(campaign: Campaign) -> None:
    exclude(campaign, "a004", reason="power cut", rule="started_at_utc >= 2099-01-01T00:04:00Z")
    path = write_predictions(campaign.predictions / "a005.parquet", [(row[0], row[2]) for row in ROWS])
    later = make_attempt(campaign, Lock.load(campaign.lock), path, number=5, variant="b8")
    store_attempt(campaign, later.model_copy(update={"started_at_utc": "2099-01-01T00:05:00Z"}))
    with pytest.raises(InputRefused, match="hits further attempts"):
        read_exclusions(campaign, read_attempts(campaign))
