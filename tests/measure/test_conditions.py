"""What else the machine did during an attempt: container limits, clock, steal, others (issue 6, points 7 and 8; M9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.evidence.attempt import Status
from runner.evidence.store import read_attempts
from runner.measure.cgroups import ControlGroups
from runner.measure.frequency import NO_FREQUENCY, FrequencySampler, read_megahertz, usable_cpus
from runner.measure.telemetry import Conditions, HostSnapshot, host_conditions, with_cards, with_clock
from runner.protocol.schema import Rules
from tests.measure.light import light_campaign, run

V1 = "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n0::/\n"


def tree(root: Path, table: str, files: dict[str, str]) -> ControlGroups:
    for name, content in files.items():
        path = root / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="ascii")
    (root / "table").write_text(table, encoding="ascii")
    return ControlGroups(root / "cgroup", root / "table")


def test_limits_of_version_2_hold_from_any_group_on_the_way_up(tmp_path: Path) -> None:
    groups = tree(
        tmp_path,
        "0::/pod/box\n",
        {
            "pod/box/cpu.max": "max 100000\n",
            "pod/cpu.max": "150000 100000\n",
            "pod/box/memory.max": "8589934592\n",
            "pod/memory.max": "4294967296\n",
            "pod/box/cpu.stat": "usage_usec 7\nthrottled_usec 2500000\n",
            "pod/box/memory.events": "low 0\noom 1\noom_kill 3\n",
        },
    )
    assert groups.cpu_limit_cores() == 1.5
    assert groups.memory_limit_bytes() == 4 << 30
    assert groups.throttled_seconds() == 2.5
    assert groups.oom_kills() == 3


def test_limits_of_version_1_are_read_where_the_container_has_them_mounted(tmp_path: Path) -> None:
    """The kernel tells the host's path, which does not exist inside: the mounted root is the container's group."""
    groups = tree(
        tmp_path,
        V1,
        {
            "cpu/cpu.cfs_quota_us": "50000\n",
            "cpu/cpu.cfs_period_us": "100000\n",
            "cpu/cpu.stat": "nr_throttled 2\nthrottled_time 1500000000\n",
            "memory/memory.limit_in_bytes": "2147483648\n",
            "memory/memory.oom_control": "under_oom 0\noom_kill 5\n",
        },
    )
    assert groups.cpu_limit_cores() == 0.5
    assert groups.memory_limit_bytes() == 2 << 30
    assert groups.throttled_seconds() == 1.5
    assert groups.oom_kills() == 5


def test_no_limit_is_none_and_never_a_number(tmp_path: Path) -> None:
    groups = tree(
        tmp_path,
        V1,
        {
            "cpu/cpu.cfs_quota_us": "-1\n",
            "cpu/cpu.cfs_period_us": "100000\n",
            "memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    assert (groups.cpu_limit_cores(), groups.memory_limit_bytes()) == (None, None)
    nothing = ControlGroups(tmp_path / "none", tmp_path / "none")
    found = (nothing.cpu_limit_cores(), nothing.memory_limit_bytes(), nothing.throttled_seconds(), nothing.oom_kills())
    assert found == (None,) * 4


def test_the_clock_is_read_from_cpufreq_or_else_from_cpuinfo(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\ncpu MHz\t\t: 2500.5\n\nprocessor\t: 1\ncpu MHz\t\t: 900.0\n", encoding="ascii")
    assert read_megahertz([0], tmp_path, cpuinfo) == [2500.5]
    assert read_megahertz([0, 1], tmp_path, cpuinfo) == [2500.5, 900.0]
    file = tmp_path / "cpu1" / "cpufreq" / "scaling_cur_freq"
    file.parent.mkdir(parents=True)
    file.write_text("3100000\n", encoding="ascii")
    assert read_megahertz([0, 1], tmp_path, cpuinfo) == [3100.0]
    assert read_megahertz([0], tmp_path / "none", tmp_path / "none") == []
    assert 1 <= len(usable_cpus()) <= 8


def test_the_clock_is_summarised_over_all_samples_or_has_a_reason() -> None:
    readings = iter([[1000.0, 3000.0], [2000.0, 2000.0]])
    sampler = FrequencySampler(lambda cpus: next(readings))
    sampler.start()
    sampler.stop()
    values, reasons = sampler.summary()
    assert values == {"cpu_mhz_min": 1000.0, "cpu_mhz_mean": 2000.0, "cpu_mhz_max": 3000.0} and not reasons
    blind = FrequencySampler(lambda cpus: [])
    blind.start()
    blind.stop()
    values, reasons = blind.summary()
    assert set(values.values()) == {None} and reasons == dict.fromkeys(values, NO_FREQUENCY)


@pytest.mark.parametrize(("busy", "steal", "shared"), [(10.0, 0.0, False), (12.6, 0.0, True), (11.5, 1.5, True)])
def test_others_and_stolen_time_mark_an_attempt_by_the_protocols_rule(busy: float, steal: float, shared: bool) -> None:
    """Ten seconds, ten of them the worker's own: 0.25 cores of others are allowed."""
    limit = float(Rules().shared_from_cpu_cores)
    found = host_conditions(HostSnapshot(0, 0, 0.5), HostSnapshot(busy, steal, 0.75), 10.0, 10.0, limit)
    assert found.shared is shared
    assert found.values["steal_cpu_cores"] == steal / 10
    assert found.values["cpu_throttled_seconds"] == 0.25
    assert host_conditions(HostSnapshot(0, 0), HostSnapshot(busy, steal), 10.0, 10.0, 0.5).shared is False


def test_what_cannot_be_read_has_a_reason_and_shares_nothing() -> None:
    found = host_conditions(HostSnapshot(None, None), HostSnapshot(None, None), 1.0, 1.0, 0.25)
    missing = {name for name, value in found.values.items() if value is None}
    assert missing == {"other_cpu_cores", "steal_cpu_cores", "cpu_throttled_seconds"} == set(found.reasons)
    assert (found.shared, found.shared_reason) == (None, "/proc/stat cannot be read")
    assert with_clock(found, {}) == found, "an attempt that never came to its pass has no clock"


def test_the_chosen_limit_is_part_of_the_lock_and_the_default_changes_no_old_one() -> None:
    """M3: frozen. A lock from before the field existed keeps its fingerprint."""
    assert "shared_from_cpu_cores" not in Rules().as_json()
    assert Rules(shared_from_cpu_cores="0.5").as_json()["shared_from_cpu_cores"] == "0.5"


@pytest.mark.parametrize(
    ("result", "value", "reason"),
    [({"device_seconds": 1.25}, 1.25, None), ({}, None, "this engine records no device events")],
)
def test_m20_busy_time_of_a_card_stands_apart_or_has_a_reason(
    result: dict[str, float], value: float | None, reason: str | None
) -> None:
    """Issue 6, point 1: from device events; no part of the host's phases, and never guessed from them."""
    host = Conditions({"load_1_minute": 0.5}, {}, None, None)
    found = with_cards(host, result, on_card=True)
    assert (found.values["device_span_seconds"], found.reasons.get("device_span_seconds")) == (value, reason)


def test_every_attempt_tells_its_conditions(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, passes=2)
    text = campaign.protocol.read_text(encoding="utf-8")
    assert "[rules]" not in text
    run(campaign, passes=1)
    (row,) = read_attempts(campaign)
    assert row.status is Status.COMPLETED
    assert row.telemetry_reasons["device_span_seconds"] == "a processor has none"
    names = {
        "device_span_seconds",
        "other_cpu_cores",
        "steal_cpu_cores",
        "load_1_minute",
        "cpu_throttled_seconds",
        "cpu_mhz_min",
        "cpu_mhz_mean",
        "cpu_mhz_max",
    }
    assert names <= row.telemetry.keys()
    assert {name for name in names if row.telemetry[name] is None} <= row.telemetry_reasons.keys()
