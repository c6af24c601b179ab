"""Which machine this is, without saying which: a short hash that keeps chains and clocks apart."""

from __future__ import annotations

import functools
import hashlib
import socket
from pathlib import Path

_PURPOSE = "gpu-decision-note machine\n"


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _hardware_addresses() -> list[str]:
    found = {_read(f"{path}/address") for path in Path("/sys/class/net").glob("*")}
    return sorted(found - {"", "00:00:00:00:00:00"})


@functools.cache
def machine_id() -> str:
    """`m-` and 16 hexadecimal digits, the same for every process of a machine.

    Rented containers often share an image, its machine id, and their network addresses; the boot id
    of the host tells them apart, so inside a container a reboot counts as another machine.
    """
    parts = [_PURPOSE, _read("/etc/machine-id"), socket.gethostname(), *_hardware_addresses()]
    in_container = any(Path(name).exists() for name in ("/.dockerenv", "/run/.containerenv"))
    if in_container or not parts[1]:
        parts.append(_read("/proc/sys/kernel/random/boot_id"))
    return "m-" + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
