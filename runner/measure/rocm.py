"""AMD: is this combination in the vendor's compatibility table? Dated copy, with its source (M10).

The combination is read from the running system. A documentation page or a card's name never counts
as proof of an installation; a ROCm version that the table does not have is `unknown`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from runner.evidence.manifest import Compatibility

TABLE = Path(__file__).with_name("rocm-compatibility.csv")
TABLE_DATE = "2026-11-30"
SOURCE = "facts of the vendor's compatibility matrix, ROCm 6.0.0 to 7.2.4 (7.2.0 and everything newer left out)"
# Every row names one of these; the date is that of the state, or of the look-up where the state bears none.
SOURCES = {
    "matrix-2025-03": ("2025-03-21", "vendor's compatibility matrix, repository ROCm/ROCm, docs/compatibility"),
    "matrix-7.2.4": (
        "2026-11-30",
        "vendor's compatibility matrix for ROCm 7.2.4, repository ROCm/legacy-rocm-build, docs/compatibility, "
        "commit fff7efbd0c87",
    ),
    "copy-7.1.1": (
        "2026-11-30",
        "copy of the vendor's table of past versions up to ROCm 7.1.1, repository roboalchemist/llm-code-docs, "
        "docs/github-scraped/rocm/compatibility, commit 9076a6ad0e18",
    ),
}
NOT_ROCM = Compatibility(verdict="not applicable", table_date=None, source=None, detail="no ROCm build of torch")
_NAMES = {
    "ubuntu": "Ubuntu",
    "rhel": "RHEL",
    "debian": "Debian",
    "ol": "Oracle Linux",
    "sles": "SLES",
    "centos": "CentOS",
    "azurelinux": "Azure Linux",
    "rocky": "Rocky Linux",
}


def read_table(path: Path = TABLE) -> list[dict[str, str]]:
    """One row per ROCm version: llvm_targets and pytorch as words, operating_systems separated by `;`, its source."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def look_up(
    hip: str | None, targets: Sequence[str], torch_version: str, release: Mapping[str, str], rocm: str | None = None
) -> Compatibility:
    """`listed`, `not listed` or `unknown` for what was found: HIP version, gfx targets, torch, os-release.

    `rocm` is the installed version (`/opt/rocm/.info/version`) where it can be read; torch names only HIP's.
    """
    if hip is None:
        return NOT_ROCM
    version = (rocm or hip).split("-")[0]
    rows = [row for row in read_table() if row["rocm"] == version] or _same_minor(version, rocm)
    if not rows:
        return _answer("unknown", f"ROCm {version} is not in the table")
    targets = [target.split(":")[0] for target in targets]
    system = system_name(release)
    if system is None or not targets:
        return _answer("unknown", "the system or the card's architecture could not be read")
    torch_minor = ".".join(torch_version.split("+")[0].split(".")[:2])
    missing: list[str] = []
    for row in rows:
        missing = [f"card {target}" for target in targets if target not in row["llvm_targets"].split()]
        missing += [] if system_listed(system, row["operating_systems"]) else [f"system {system}"]
        missing += [] if torch_minor in row["pytorch"].split() else [f"PyTorch {torch_minor}"]
        if not missing:
            found = f"ROCm {row['rocm']}, {', '.join(targets)}, {system}, PyTorch {torch_minor}"
            return _answer("listed", found, row["source"])
    return _answer("not listed", f"ROCm {version}: {', '.join(missing)} not in its row", rows[-1]["source"])


def installed_rocm(root: Path = Path("/opt/rocm")) -> str | None:
    """Version that the installation itself names."""
    try:
        found = re.match(r"\d+\.\d+\.\d+", (root / ".info" / "version").read_text(encoding="ascii"))
    except OSError:
        return None
    return found[0] if found else None


def system_name(release: Mapping[str, str]) -> str | None:
    """`Ubuntu 24.04` from os-release; None for a system the vendor has no name for."""
    name, version = _NAMES.get(release.get("ID", "").strip('"')), release.get("VERSION_ID", "").strip('"')
    return f"{name} {version}" if name and version else None


def system_listed(system: str, listed: str) -> bool:
    """Whether one entry such as `RHEL 9.5, 9.4` names the system; a point release stands for its release."""
    name, _, version = system.rpartition(" ")
    for entry in listed.split(";"):
        found = re.fullmatch(r"\s*([A-Za-z ]+?) ([0-9].*)", entry)
        if found is None or found[1] != name:
            continue
        versions = re.split(r",\s*", found[2])
        if name == "SLES":
            major, _, pack = version.partition(".")
            return versions[0].startswith(f"{major} ") and f"SP{pack}" in entry
        if name == "Ubuntu":
            return any(item == version or item.startswith(f"{version}.") for item in versions)
        # A release without a point (`Oracle Linux 9`) stands for all its points.
        return version in versions or version.partition(".")[0] in versions
    return False


def _same_minor(version: str, rocm: str | None) -> list[dict[str, str]]:
    """HIP's patch number is not ROCm's: without the installed version, any patch release may be meant."""
    if rocm is not None:
        return []
    minor = ".".join(version.split(".")[:2]) + "."
    return [row for row in read_table() if row["rocm"].startswith(minor)]


def _answer(verdict: str, detail: str, key: str | None = None) -> Compatibility:
    date, source = (TABLE_DATE, SOURCE) if key is None else SOURCES[key]
    return Compatibility.from_json({"verdict": verdict, "table_date": date, "source": source, "detail": detail})
