"""`make setup`: clear refusals, an environment of its own, the torch of an image never replaced."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import install
import needs
import pytest
import torch_build
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PINS = [
    line.split(";")[0].strip()
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


def test_old_python_is_refused_with_one_line() -> None:
    script = "import sys; sys.version_info = (3, 10); exec(open('tools/python_version.py').read())"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "Python 3.11 or newer is needed" in done.stderr
    assert "make setup PYTHON=" in done.stderr


def test_this_python_is_accepted() -> None:
    assert subprocess.run([sys.executable, "tools/python_version.py"], cwd=ROOT, check=False).returncode == 0


def test_image_settings_of_pip_do_not_change_what_is_installed() -> None:
    given = {
        "PIP_CONSTRAINT": "/etc/pip/constraint.txt", "PIP_TARGET": "/opt", "PIP_USER": "1", "PIP_PRE": "1",
        "PIP_INDEX_URL": "https://mirror.example/simple", "PIP_TIMEOUT": "7", "PYTHONPATH": "/opt/lib", "PATH": "/bin",
    }  # fmt: skip
    got = install.pip_environment(given)
    assert got["PIP_INDEX_URL"] == "https://mirror.example/simple"
    assert got["PIP_TIMEOUT"] == "7"
    assert got["PIP_USER"] == "0"
    assert got["PATH"] == "/bin"
    assert not {"PIP_CONSTRAINT", "PIP_TARGET", "PIP_PRE", "PYTHONPATH"} & set(got)


def test_extras_are_added_never_taken_away() -> None:
    assert install.wanted_extras("", ()) == ("measure", "report")
    assert install.wanted_extras("", ("report",)) == ("report",)
    assert install.wanted_extras("dev", ("report",)) == ("report", "dev")
    with pytest.raises(needs.Refused, match="unknown extras: gpu"):
        install.wanted_extras("measure gpu", ())


def test_a_library_counts_only_if_it_loads() -> None:
    assert needs.library("libc.so.6", "libc6").present()
    assert not needs.library("libnever-heard-of.so.1", "x").present()


def test_what_is_missing_is_named_with_the_exact_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "may_use_apt", lambda: False)
    lost = (needs.library("libb-none.so.1", "libb1"), needs.program("no-such-program", "a-tool"))
    with pytest.raises(needs.Refused) as refusal:
        needs.provide(lost, "the note", print)
    assert "libb-none.so.1, no-such-program missing for the note" in str(refusal.value)
    assert "sudo apt-get install -y --no-install-recommends a-tool libb1" in str(refusal.value)


def test_all_that_the_system_lacks_is_named_at_once() -> None:
    purpose, wanted = install.system_needs(("measure", "report"))
    assert purpose == "signatures and the note"
    assert set(needs.packages_of(wanted)) > {"openssh-client", "libpango-1.0-0", "libharfbuzz-subset0"}
    assert needs.packages_of(install.system_needs(("measure",))[1]) == ("openssh-client",), "no WeasyPrint on a rental"


def test_wrong_wishes_are_one_line_and_exit_2() -> None:
    for arguments, what in (
        (["--system-torch", "yes"], "SYSTEM_TORCH is 1 (reuse the torch of this Python) or nothing, not 'yes'"),
        (["--extras", "mesure"], "unknown extras: mesure"),
    ):
        done = subprocess.run(
            [sys.executable, "tools/install.py", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"error: {what}")


def test_interrupted_record_means_installing_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = tmp_path / "installation.json"
    monkeypatch.setattr(install, "RECORD", record)
    assert install.read_record() == {}
    record.write_text('{"extras": ["mea', encoding="utf-8")
    assert install.read_record() == {}
    install.write_record({"folder": str(install.ROOT), "extras": ["report"]})
    assert install.read_record()["extras"] == ["report"]
    install.write_record({"folder": "/moved/from/here", "extras": ["report"]})
    assert install.read_record() == {}, "a moved folder has scripts that point elsewhere"


def test_constraints_pin_everything_but_torch() -> None:
    names = {line.split("==")[0] for line in PINS}
    assert all("==" in line for line in PINS)
    assert not names & {"torch", "triton", "setuptools", "sympy", "networkx"}
    assert not {name for name in names if name.startswith("nvidia-")} - {"nvidia-ml-py"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    asked = [asked for group in groups for line in group if (asked := Requirement(line)).name != "torch"]
    pinned = {name: version for name, _, version in (line.partition("==") for line in PINS)}
    for requirement in asked:
        name = requirement.name.lower().replace("_", "-")
        assert name in pinned, f"{name} is new in pyproject.toml: make lock"
        assert requirement.specifier.contains(pinned[name], prereleases=True), f"{requirement}: make lock"


def test_torch_of_the_image_must_stay_the_same() -> None:
    before = torch_build.Torch("2.9.0+cu128", "/image/torch/__init__.py", "12.8", None, "a" * 64)
    torch_build.refuse_replaced(before, before)
    for after in (None, torch_build.Torch("2.13.0", "/x/.venv/torch/__init__.py", None, None, "b" * 64)):
        with pytest.raises(needs.Refused, match="is not the one in use now"):
            torch_build.refuse_replaced(before, after)


@pytest.mark.e2e
def test_system_torch_is_reused_and_never_replaced(tmp_path: Path) -> None:
    """M9: a rented image whose Python is itself a virtual environment; nothing of torch is installed again."""
    image = tmp_path / "image"
    venv.create(image, with_pip=True)
    image_python = image / "bin/python"
    here = Path(next(path for path in sys.path if path.endswith("site-packages")))
    packages = next((image / "lib").glob("python*/site-packages"))
    (packages / "the-image.pth").write_text(f"{here}\n", encoding="utf-8")
    before = torch_build.probe(image_python)
    assert before is not None

    project = tmp_path / "project"
    shutil.copytree(
        ROOT, project,
        ignore=shutil.ignore_patterns(".*", "records", "note", "tests", "build", "*.egg-info", "__pycache__"),
    )  # fmt: skip
    done = subprocess.run(
        [image_python, "tools/install.py", "--extras", "measure", "--system-torch", "1"],
        cwd=project, env={**os.environ, "PIP_CONSTRAINT": "/nowhere/constraint.txt"},
        capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert torch_build.probe(project / ".venv/bin/python") == before
    own = next((project / ".venv/lib").glob("python*/site-packages"))
    assert not (own / "torch").exists()
    assert not list(own.glob("torch-*.dist-info"))
    record = json.loads((project / ".venv/installation.json").read_text(encoding="utf-8"))
    assert record["system_torch"] is True
    assert record["torch"]["version"] == before.version
    assert record["installation_seconds"] > 0
    runner = [str(project / ".venv/bin/runner"), "--version"]
    assert subprocess.run(runner, capture_output=True, check=False).returncode == 0

    again = subprocess.run([image_python, "tools/install.py"], cwd=project, capture_output=True, text=True, check=False)
    assert "nothing changed" in again.stdout


def test_a_long_silent_step_says_that_it_still_runs(capfd: pytest.CaptureFixture[str]) -> None:
    """Issue 2.2: nobody should think that the installation hangs."""
    slow = [sys.executable, "-c", "import time; time.sleep(0.5); raise SystemExit(7)"]
    assert install.run_audibly(slow, dict(os.environ), every=0.1) == 7
    assert "setup:   still at it, 0 seconds so far" in capfd.readouterr().out
    assert install.run_audibly([sys.executable, "-c", "pass"], dict(os.environ), every=60.0) == 0
    assert capfd.readouterr().out == ""
