"""Which torch is there, and the promise that the torch of a rented image is reused, never replaced."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from needs import Refused

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (2, 6)
# PyTorch's own index of builds without CUDA. Named to the user, never used unasked.
CPU_BUILDS = "https://download.pytorch.org/whl/cpu"
GPU_MARKS = ("/dev/nvidia0", "/proc/driver/nvidia/version", "/dev/kfd")
# Really imports torch: a build that does not load on this machine is no build.
PROBE = """
import hashlib, importlib.metadata, importlib.util, json, sys
if importlib.util.find_spec("torch") is None:
    print("null"); sys.exit()
import torch
files = importlib.metadata.distribution("torch").read_text("RECORD") or ""
print(json.dumps({
    "version": importlib.metadata.version("torch"), "file": torch.__file__,
    "cuda": torch.version.cuda, "hip": torch.version.hip,
    "record_sha256": hashlib.sha256(files.encode()).hexdigest(),
}))
"""


@dataclass(frozen=True)
class Torch:
    """An installed torch: version with its local part, file, the toolkit it was built for."""

    version: str
    file: str
    cuda: str | None
    hip: str | None
    record_sha256: str

    def as_json(self) -> dict[str, str | None]:
        return asdict(self)


def probe(python: Path | str) -> Torch | None:
    """The torch that this Python imports; None if there is none, refused if it does not load."""
    done = subprocess.run(
        [str(python), "-c", PROBE], capture_output=True, text=True, encoding="utf-8", errors="replace", check=False
    )
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise Refused(f"the torch of {python} does not load: {reason}")
    found = json.loads(done.stdout.strip().splitlines()[-1])
    return None if found is None else Torch(**found)


def share_with(python: Path) -> Torch:
    """Let the environment of `python` see the torch of the running Python, and check that it does."""
    image = probe(sys.executable)
    if image is None:
        raise Refused(
            f"SYSTEM_TORCH=1, but {sys.executable} has no torch\n"
            "  next:  make setup SYSTEM_TORCH=1 PYTHON=/path/to/the/python/with/torch (or without SYSTEM_TORCH)"
        )
    release = tuple(int(part) for part in image.version.split(".")[:2])
    if release < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise Refused(f"torch {image.version} of this image is too old: {oldest} or newer is needed")
    seen = probe(python)
    if seen is None:
        # The image's Python is itself a virtual environment: a new one only sees what lies below that.
        _link_site_packages(python)
        seen = probe(python)
    refuse_replaced(image, seen)
    return image


def _link_site_packages(python: Path) -> None:
    """Name the packages of the running Python in a `.pth` file; those of the new environment win.

    `addsitedir` also follows the `.pth` files of the image, which a bare path would not.
    """
    ask = "import json, site; print(json.dumps(site.getsitepackages()))"

    def folders(of: Path | str) -> list[str]:
        found: list[str] = json.loads(subprocess.check_output([str(of), "-c", ask], text=True, encoding="utf-8"))
        return found

    link = Path(folders(python)[0]) / "packages-of-the-image.pth"
    lines = [f"import site; site.addsitedir({folder!r})\n" for folder in folders(sys.executable)]
    link.write_text("".join(lines), encoding="utf-8")


def refuse_replaced(before: Torch, after: Torch | None) -> None:
    """The torch of the image must be the very same after the installation."""
    if after != before:
        now = "none" if after is None else f"{after.version} ({after.file})"
        raise Refused(
            f"the torch of this image, {before.version} ({before.file}), is not the one in use now: {now}\n"
            "  next:  rm -rf .venv, and please report this"
        )


def gpu_present() -> bool:
    """A driver's device file is enough to say that a GPU build makes sense here."""
    return any(Path(mark).exists() for mark in GPU_MARKS)


def warn_about_size(python: Path, environment: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Without a GPU, say beforehand if pip would fetch a GPU build, and how to avoid it."""
    if gpu_present() or platform.system() != "Linux" or platform.machine() != "x86_64":
        return
    pinned = re.search(r"^torch==(\S+)", (ROOT / "requirements-torch.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert pinned is not None
    listed = subprocess.run(
        [str(python), "-m", "pip", "index", "versions", "torch"],
        env=dict(environment), stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    if listed.returncode == 0 and f"{pinned[1]}+cpu" not in listed.stdout:
        say(
            f"warning: no GPU here, yet pip finds no CPU build of torch {pinned[1]}: several gigabytes follow. To "
            f"avoid them, stop and run: PIP_EXTRA_INDEX_URL={CPU_BUILDS} make setup"
        )


def warn_about_kind(torch: Torch | None, say: Callable[[str], None]) -> None:
    """A GPU and a CPU build of torch: nothing could be measured on the GPU."""
    if torch is not None and gpu_present() and torch.cuda is None and torch.hip is None:
        say(
            f"warning: this machine has a GPU, but torch {torch.version} is a CPU build; "
            "SYSTEM_TORCH=1 reuses the torch of the image"
        )
