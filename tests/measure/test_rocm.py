"""The vendor's table is dated and answers listed, not listed or unknown, never by a card's name (M10)."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.measure.rocm import SOURCE, SOURCES, TABLE_DATE, installed_rocm, look_up, read_table, system_listed

UBUNTU = {"ID": "ubuntu", "VERSION_ID": '"24.04"'}


@pytest.mark.parametrize(
    ("hip", "targets", "torch", "release", "rocm", "verdict", "words"),
    [
        ("6.3.42134", ["gfx942:sramecc+:xnack-"], "2.4.0+rocm6.3", UBUNTU, "6.3.3", "listed", "gfx942"),
        ("6.3.42134", ["gfx1201"], "2.4.0", UBUNTU, "6.3.3", "not listed", "card gfx1201"),
        ("6.3.42134", ["gfx942"], "2.9.0", UBUNTU, "6.3.3", "not listed", "PyTorch 2.9"),
        ("6.3.42134", ["gfx942"], "2.4.0", {"ID": "ubuntu", "VERSION_ID": "20.04"}, "6.3.3", "not listed", "20.04"),
        ("7.1.52802", ["gfx950"], "2.10.0", UBUNTU, "7.1.1", "not listed", "PyTorch 2.10"),
        ("7.1.52802", ["gfx950"], "2.9.0", UBUNTU, "7.1.1", "listed", "gfx950"),
        ("7.2.53211", ["gfx1201"], "2.9.1", UBUNTU, "7.2.4", "listed", "gfx1201"),
        ("7.2.53211", ["gfx942"], "2.9.1", {"ID": "ol", "VERSION_ID": "9.6"}, "7.2.4", "listed", "Oracle Linux 9.6"),
        ("6.4.43482", ["gfx1201"], "2.6.0", UBUNTU, "6.4.0", "not listed", "card gfx1201"),
        ("7.2.53150", ["gfx950"], "2.9.0", UBUNTU, "7.2.0", "unknown", "7.2.0 is not in the table"),
        ("6.3.42134", ["gfx942"], "2.4.0", UBUNTU, None, "listed", "ROCm 6.3"),
        ("10.0.1", ["gfx950"], "2.13.0", UBUNTU, None, "unknown", "not in the table"),
        ("6.3.42134", ["gfx942"], "2.4.0", {"ID": "nixos"}, "6.3.3", "unknown", "could not be read"),
        ("6.3.42134", [], "2.4.0", UBUNTU, "6.3.3", "unknown", "could not be read"),
        (None, [], "2.13.0+cpu", UBUNTU, None, "not applicable", "no ROCm build"),
    ],
)
def test_m10_combinations(
    hip: str | None, targets: list[str], torch: str, release: dict[str, str], rocm: str | None, verdict: str, words: str
) -> None:
    answer = look_up(hip, targets, torch, release, rocm)
    assert answer.verdict == verdict
    assert words in answer.detail
    if verdict != "not applicable":
        dated = {(TABLE_DATE, SOURCE), *SOURCES.values()}
        assert (answer.table_date, answer.source) in dated
        assert (answer.source == SOURCE) is (verdict == "unknown"), "a row is dated by its own source"


@pytest.mark.parametrize(
    ("system", "listed", "found"),
    [
        ("RHEL 9.4", "RHEL 9.5, 9.4; RHEL 8.10", True),
        ("RHEL 8.10", "RHEL 9.5, 9.4; Debian 12", False),
        ("SLES 15.6", "SLES 15 SP6, SP5", True),
        ("SLES 15.4", "SLES 15 SP6, SP5", False),
        ("Debian 12", "Oracle Linux 8.10; Debian 12", True),
        ("Ubuntu 24.04", "Ubuntu 24.04.1, 24.04", True),
        ("Ubuntu 24.0", "Ubuntu 24.04", False),
        ("Oracle Linux 9.6", "Oracle Linux 10, 9, 8", True),
        ("Oracle Linux 7.9", "Oracle Linux 10, 9, 8", False),
        ("Oracle Linux 8.9", "Oracle Linux 8.10", False),
        ("Rocky Linux 9.6", "Debian 13, 12; Rocky Linux 9", True),
    ],
)
def test_systems_of_the_table(system: str, listed: str, found: bool) -> None:
    assert system_listed(system, listed) is found


def test_the_table_covers_what_it_says(tmp_path: Path) -> None:
    versions = [row["rocm"] for row in read_table()]
    assert versions[0] == "7.2.4" and versions[-1] == "6.0.0" and len(set(versions)) == len(versions) == 27
    assert versions == sorted(versions, key=lambda text: [-int(part) for part in text.split(".")])
    assert {row["source"] for row in read_table()} == set(SOURCES)
    assert all(row["llvm_targets"].split() and row["pytorch"].split() for row in read_table())
    (tmp_path / ".info").mkdir()
    (tmp_path / ".info" / "version").write_text("6.3.3-74\n", encoding="ascii")
    assert installed_rocm(tmp_path) == "6.3.3"
    assert installed_rocm(tmp_path / "none") is None


def test_m10_the_doctor_says_what_the_table_says_with_source_and_date(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    from runner.measure import abilities, environment, rocm

    card = SimpleNamespace(gcnArchName="gfx942:sramecc+:xnack-")
    cuda = SimpleNamespace(get_device_properties=lambda index: card)
    torch = SimpleNamespace(version=SimpleNamespace(hip="7.2.53211", cuda=None), cuda=cuda, __version__="2.9.1+rocm7.2")
    monkeypatch.setattr(environment, "os_release", lambda: UBUNTU)
    monkeypatch.setattr(rocm, "installed_rocm", lambda: "7.2.4")
    (found,) = abilities._amd(torch, 1)
    assert found.possible is True
    assert found.why.startswith("listed: ROCm 7.2.4, gfx942, Ubuntu 24.04, PyTorch 2.9; vendor's compatibility matrix")
    assert found.why.endswith("2026-11-30")
    monkeypatch.setattr(rocm, "installed_rocm", lambda: "9.9.9")
    (found,) = abilities._amd(torch, 1)
    assert found.possible is None, "unknown is no verdict"
    assert abilities._amd(SimpleNamespace(version=SimpleNamespace(hip=None)), 0) == []
