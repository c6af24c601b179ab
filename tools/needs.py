"""What the operating system must bring: shared libraries that really load, programs that are found.

Missing ones are installed where this process is root on a Debian-like system, else the exact
command is named. Standard library only: this runs before anything is installed.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass


class Refused(Exception):
    """The installation cannot go on; the message says what is missing and the next command."""


@dataclass(frozen=True)
class Need:
    """One library or program, and the Debian package that brings it."""

    name: str
    package: str
    present: Callable[[], bool]


def library(soname: str, package: str) -> Need:
    """A shared library counts as present only if the loader really loads it."""

    def loads() -> bool:
        try:
            ctypes.CDLL(soname)
        except OSError:
            return False
        return True

    return Need(soname, package, loads)


def program(name: str, package: str) -> Need:
    return Need(name, package, lambda: shutil.which(name) is not None)


SIGNATURES = (program("ssh-keygen", "openssh-client"),)
# Without the HarfBuzz subset library the PDF is still made, but its bytes differ: so it is needed.
NOTE_LIBRARIES = (
    library("libpango-1.0.so.0", "libpango-1.0-0"),
    library("libpangoft2-1.0.so.0", "libpangoft2-1.0-0"),
    library("libharfbuzz-subset.so.0", "libharfbuzz-subset0"),
)
TEST_TOOLS = (
    program("pdftotext", "poppler-utils"),
    program("pdfsig", "poppler-utils"),
    program("qpdf", "qpdf"),
    program("chromium", "chromium"),
)


def missing(needs: Iterable[Need]) -> tuple[Need, ...]:
    return tuple(need for need in needs if not need.present())


def packages_of(needs: Iterable[Need]) -> tuple[str, ...]:
    return tuple(sorted({need.package for need in needs}))


def may_use_apt() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install_command(packages: Iterable[str]) -> str:
    return "apt-get install -y --no-install-recommends " + " ".join(packages)


def apt_install(packages: tuple[str, ...]) -> bool:
    """Install Debian packages as root; the lists are refreshed only if the first try fails."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = install_command(packages).split()
    for command in (install, ["apt-get", "update"], install):
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False
        )
        if command is install and done.returncode == 0:
            return True
    return False


def provide(needs: Iterable[Need], purpose: str, say: Callable[[str], None]) -> None:
    """Make sure that all needs are met, or raise `Refused` with the command that helps."""
    absent = missing(needs)
    if not absent:
        return
    packages = packages_of(absent)
    names = ", ".join(need.name for need in absent)
    if may_use_apt():
        say(f"installing the system packages {' '.join(packages)} for {purpose}")
        if apt_install(packages) and not missing(absent):
            return
        raise Refused(f"{names} still missing for {purpose} after: {install_command(packages)}")
    raise Refused(f"{names} missing for {purpose}\n  next:  sudo {install_command(packages)}")
