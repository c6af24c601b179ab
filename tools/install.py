"""`make setup`: own environment, pinned versions, checked system libraries, a record of what it took (M17).

Run with the Python that shall be used (3.11 or newer); standard library only. A second run with
nothing changed does nothing. Exit status 2: refused, the message names the next command.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import needs
import torch_build
from needs import Refused

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
RECORD = VENV / "installation.json"
SILENCE_SECONDS = 20.0
EXTRAS = ("measure", "onnx", "int8", "report", "dev")
DEFAULT_EXTRAS = ("measure", "report")
INPUTS = ("pyproject.toml", "constraints.txt", "requirements-torch.txt")
# Settings of pip that say how to reach packages stay; those that change what or where is
# installed (a target folder, constraints of an image, pre-releases) do not reach this environment.
KEPT_PIP_SETTINGS = frozenset(
    {
        "PIP_CACHE_DIR", "PIP_CERT", "PIP_CLIENT_CERT", "PIP_CONFIG_FILE", "PIP_DEFAULT_TIMEOUT",
        "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_KEYRING_PROVIDER", "PIP_NO_CACHE_DIR",
        "PIP_NO_INDEX", "PIP_PROXY", "PIP_RETRIES", "PIP_TIMEOUT", "PIP_TRUSTED_HOST",
    }
)  # fmt: skip


def say(text: str) -> None:
    """One line; a reader that went away (`make setup | head`) loses the text, not the installation."""
    try:
        sys.stdout.write(f"setup: {text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def pip_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Environment of every pip call: connection settings kept, the rest of PIP_* dropped."""
    kept = {
        name: value
        for name, value in environ.items()
        if name not in ("PYTHONHOME", "PYTHONPATH") and (not name.startswith("PIP_") or name in KEPT_PIP_SETTINGS)
    }
    kept.setdefault("PIP_RETRIES", "8")
    if "PIP_TIMEOUT" not in kept:
        kept.setdefault("PIP_DEFAULT_TIMEOUT", "60")
    return kept | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_USER": "0"}


def wanted_extras(text: str, installed: tuple[str, ...]) -> tuple[str, ...]:
    """Extras asked for and those already there; nothing asked for and nothing there: the default."""
    asked = tuple(text.split())
    unknown = sorted(set(asked) - set(EXTRAS))
    if unknown:
        raise Refused(f'unknown extras: {", ".join(unknown)}\n  next:  make setup EXTRAS="{" ".join(EXTRAS)}"')
    both = {*asked, *installed} or set(DEFAULT_EXTRAS)
    return tuple(extra for extra in EXTRAS if extra in both)


def fingerprints() -> dict[str, str]:
    """SHA-256 of the files that decide what is installed."""
    return {name: hashlib.sha256((ROOT / name).read_bytes()).hexdigest() for name in INPUTS}


def build_requirements() -> list[str]:
    """What building the project itself needs, from pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        requires: list[str] = tomllib.load(file)["build-system"]["requires"]
    return requires


def read_record() -> dict[str, Any]:
    """The last complete installation, or nothing: an unreadable record means installing again."""
    try:
        record = json.loads(RECORD.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) and record.get("folder") == str(ROOT) else {}


def write_record(record: Mapping[str, Any]) -> None:
    """Whole or not at all: a record says that everything before it was done."""
    fresh = RECORD.with_suffix(".tmp")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(json.dumps(record, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(RECORD)


def run_audibly(command: list[str], environment: Mapping[str, str], every: float | None = SILENCE_SECONDS) -> int:
    """Exit status of a command that may be silent for minutes; every so many seconds a line says that it still runs."""
    began = time.monotonic()
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL) as process:
        try:
            while True:
                try:
                    return process.wait(timeout=every)
                except subprocess.TimeoutExpired:
                    say(f"  still at it, {time.monotonic() - began:.0f} seconds so far")
        except BaseException:
            process.kill()
            raise


class Installation:
    """One run: its wishes, the steps with their durations, and the environment it builds."""

    def __init__(self, extras: tuple[str, ...], system_torch: bool) -> None:
        self.extras = extras
        self.system_torch = system_torch
        self.python = VENV / "bin" / "python"
        self.seconds: dict[str, float] = {}
        self.reused = False

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + round(time.monotonic() - began, 3)

    def pip(self, *arguments: str) -> None:
        """`pip install`; a second try follows a failure, since downloads break."""
        # On a terminal pip shows its own progress; elsewhere it is silent, and a line of ours stands in for it.
        shown = sys.stdout.isatty()
        command = [str(self.python), "-m", "pip", "install", *([] if shown else ["-qq"]), *arguments]
        for attempt in ("first", "last"):
            if run_audibly(command, pip_environment(os.environ), None if shown else SILENCE_SECONDS) == 0:
                return
            if attempt == "first":
                say("pip failed (its message is above); trying once more in 5 seconds")
                time.sleep(5)
        raise Refused("pip could not install the packages; its message is above\n  next:  make setup")

    def make_environment(self) -> None:
        """Create `.venv`, or use the one that an interrupted run left."""
        if VENV.is_symlink():
            raise Refused(".venv is a link; what it points to would be emptied\n  next:  rm .venv, then run this again")
        if self._usable():
            self.reused = True
            return
        try:
            import ensurepip  # noqa: F401
        except ImportError:
            package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
            needs.provide([needs.Need("the venv module", package, _has_ensurepip)], "an own environment", say)
        options = ["--system-site-packages"] if self.system_torch else []
        done = subprocess.run([sys.executable, "-m", "venv", "--clear", *options, str(VENV)], check=False)
        if done.returncode != 0:
            raise Refused(f"{sys.executable} could not make the environment {VENV}; its message is above")

    def _usable(self) -> bool:
        """A healthy environment of this kind, at this place."""
        try:
            settings = (VENV / "pyvenv.cfg").read_text(encoding="utf-8")
        except OSError:
            return False
        shared = "include-system-site-packages = true" in settings
        if shared != self.system_torch:
            kind = "shares the packages of its image" if shared else "has packages of its own"
            raise Refused(f".venv {kind}, which SYSTEM_TORCH changes\n  next:  rm -rf .venv, then run this again")
        runner = VENV / "bin" / "runner"
        moved = runner.exists() and str(VENV) not in runner.read_text(encoding="utf-8", errors="replace")
        check = [str(self.python), "-c", "import sys, pip; sys.exit(sys.version_info < (3, 11))"]
        return not moved and subprocess.run(check, capture_output=True, check=False).returncode == 0

    def run(self) -> dict[str, Any]:
        """Install everything; returns the record to write."""
        say(
            f"installing {', '.join(self.extras)} into .venv: usually 2 to 10 minutes, most of it download, and "
            f"{self._gigabytes():.1f} GB of disk. Interrupted, the next call goes on"
        )
        with self.step("environment"):
            self.make_environment()
        RECORD.unlink(missing_ok=True)
        options = ["--constraint", "constraints.txt"]
        found = None
        if self.system_torch:
            with self.step("torch"):
                found = torch_build.share_with(self.python)
                say(f"reusing torch {found.version} of this machine; it will not be replaced")
                pin = VENV / "constraint-torch.txt"
                pin.write_text(f"torch=={found.version}\n", encoding="utf-8")
                # pip's isolated builds would see the image's old setuptools first: build here instead.
                self.pip("--upgrade", *build_requirements())
                options += ["--constraint", str(pin), "--no-build-isolation"]
        elif "measure" in self.extras:
            with self.step("torch"):
                say("first torch, the largest part")
                if not torch_build.probe(self.python):
                    torch_build.warn_about_size(self.python, pip_environment(os.environ), say)
                self.pip("--requirement", "requirements-torch.txt")
        with self.step("project"):
            say("now this project and the packages that it uses")
            self.pip(*options, "--editable", f".[{','.join(self.extras)}]")
        with self.step("check"):
            torch = torch_build.probe(self.python)
            if found:
                torch_build.refuse_replaced(found, torch)
            torch_build.warn_about_kind(torch, say)
            if "report" in self.extras:
                self._check_note_libraries()
        return self._record(torch)

    def _gigabytes(self) -> float:
        """What the parts take on disk, roughly, with a CPU build of torch."""
        sizes = {"measure": 0.0 if self.system_torch else 1.1, "onnx": 0.1, "int8": 0.1, "report": 0.2, "dev": 0.6}
        return 0.5 + sum(sizes.get(extra, 0.1) for extra in self.extras)

    def _check_note_libraries(self) -> None:
        done = subprocess.run(
            [str(self.python), "-c", "import weasyprint"], capture_output=True, text=True, encoding="utf-8", check=False
        )
        if done.returncode != 0:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise Refused(f"the PDF library does not load: {reason}")

    def _record(self, torch: torch_build.Torch | None) -> dict[str, Any]:
        listed = subprocess.run(
            [str(self.python), "-m", "pip", "list", "--format", "json"],
            env=pip_environment(os.environ), capture_output=True, text=True, encoding="utf-8", check=True,
        )  # fmt: skip
        return {
            "schema_version": "installation/1",
            "folder": str(ROOT),
            "finished_at_utc": datetime.now(UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z"),
            "extras": list(self.extras),
            "system_torch": self.system_torch,
            "environment_reused": self.reused,
            "installation_seconds": round(sum(self.seconds.values()), 3),
            "step_seconds": self.seconds,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "torch": None if torch is None else torch.as_json(),
            "packages": {item["name"]: item["version"] for item in json.loads(listed.stdout)},
            "inputs_sha256": fingerprints(),
        }


def _has_ensurepip() -> bool:
    return subprocess.run([sys.executable, "-c", "import ensurepip"], capture_output=True, check=False).returncode == 0


def system_needs(extras: tuple[str, ...]) -> tuple[str, tuple[needs.Need, ...]]:
    """What the system must bring for the chosen extras, with its purpose: all at once, so that one command helps."""
    if "report" in extras:
        return "signatures and the note", (*needs.SIGNATURES, *needs.NOTE_LIBRARIES)
    return "signatures", needs.SIGNATURES


def install(extras_text: str, system_torch_text: str, test_tools: bool) -> None:
    """Bring the environment up to what is asked for; nothing where nothing changed. `Refused` with the next command."""
    if system_torch_text not in ("", "0", "1"):
        raise Refused(f"SYSTEM_TORCH is 1 (reuse the torch of this Python) or nothing, not {system_torch_text!r}")
    system_torch = system_torch_text == "1"
    record = read_record()
    extras = wanted_extras(extras_text, tuple(record.get("extras", ())))
    system_torch = system_torch or bool(record.get("system_torch", False))
    run = Installation(extras, system_torch)
    with run.step("system_packages"):
        purpose, wanted = system_needs(extras)
        needs.provide(wanted, purpose, say)
        if test_tools:
            _provide_test_tools()
    same = {"extras": list(extras), "system_torch": system_torch, "inputs_sha256": fingerprints()}
    if record and all(record.get(key) == value for key, value in same.items()) and run.python.exists():
        RECORD.touch()
        say(f"ready: nothing changed since {record['finished_at_utc']}")
        return
    if system_torch and "measure" not in extras:
        raise Refused("SYSTEM_TORCH=1 is for measuring\n  next:  make setup SYSTEM_TORCH=1 EXTRAS=measure")
    fresh = run.run()
    write_record(fresh)
    say(f"ready in {fresh['installation_seconds']:.0f} seconds, {len(fresh['packages'])} packages in .venv")


def _provide_test_tools() -> None:
    """Tests that need a missing tool say so themselves; the rest can still run."""
    try:
        needs.provide(needs.TEST_TOOLS, "the tests", say)
    except Refused as refusal:
        say(f"warning: {refusal}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make setup", description=__doc__, allow_abbrev=False)
    parser.add_argument("--extras", default="", help="measure, onnx, int8, report, dev; separated by blanks")
    parser.add_argument("--system-torch", default="", help="1: reuse this Python's torch")
    parser.add_argument("--test-tools", action="store_true", help="also the programs that the tests use")
    options = parser.parse_args()
    try:
        install(options.extras, options.system_torch, options.test_tools)
    except Refused as refusal:
        sys.stderr.write(f"error: {refusal}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("setup: interrupted; run it again to go on\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
