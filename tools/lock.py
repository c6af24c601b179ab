"""`make lock`: write constraints.txt again from pyproject.toml, for every platform and Python at once.

torch and what only torch needs stay out: a rented image keeps its own. Standard library only; uv
comes from a throw-away environment.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST_PYTHON = "3.11"
LEFT_OUT = ("torch", "triton", "setuptools")
HEADER = """\
# Exact versions for every platform, written by `make lock` from pyproject.toml. Do not edit.
# torch, what only torch needs (nvidia-*, triton) and setuptools are left out on purpose: a rented
# image keeps its own torch. See requirements-torch.txt for the build that a plain machine gets.
"""


def requirements() -> list[str]:
    """All requirements of pyproject.toml, extras included, without torch."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    return sorted({line for group in groups for line in group if not re.match(r"torch\b", line)})


def uv_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """uv does not read pip's settings: those that say how to reach packages are handed over."""
    same = {"PIP_INDEX_URL": "UV_DEFAULT_INDEX", "PIP_EXTRA_INDEX_URL": "UV_INDEX", "PIP_CERT": "SSL_CERT_FILE"}
    return {uv: environ[pip] for pip, uv in same.items() if environ.get(pip)} | dict(environ)


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "uv", with_pip=True)
        bin_dir = folder / "uv" / "bin"
        subprocess.run([bin_dir / "python", "-m", "pip", "install", "--quiet", "uv"], check=True)
        (folder / "pyproject.txt").write_text("\n".join(requirements()) + "\n", encoding="utf-8")
        left_out = [option for package in LEFT_OUT for option in ("--no-emit-package", package)]
        subprocess.run(
            [
                bin_dir / "uv", "pip", "compile", "--quiet", "--universal", "--python-version", OLDEST_PYTHON,
                "--fork-strategy", "fewest", "--no-header", "--no-annotate", *left_out,
                "--output-file", "constraints.txt", "pyproject.txt",
            ],
            cwd=folder, env=uv_environment(os.environ), check=True,
        )  # fmt: skip
        pins = (folder / "constraints.txt").read_text(encoding="utf-8")
    fresh = ROOT / "constraints.txt.new"
    fresh.write_text(HEADER + pins, encoding="utf-8")
    fresh.replace(ROOT / "constraints.txt")
    sys.stdout.write(f"constraints.txt: {len(pins.splitlines())} pins\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
