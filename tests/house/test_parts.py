"""Parts of the installation: a rental needs no WeasyPrint, a laptop no torch; what is missing is named (issue 2.2)."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from runner.errors import InputRefused
from runner.flows.rehearse import rehearse
from runner.measure.baseline import make_baselines
from runner.measure.run import Request, measure
from runner.protocol.freeze import make_freeze
from tests.support.small_campaign import forget_given_baseline, make_campaign


class Silent:
    """Progress that nobody looks at."""

    def __getattr__(self, name: str) -> object:
        return lambda *_: None


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"}


@pytest.mark.parametrize("missing", ["torch", "transformers", "safetensors"])
def test_without_torch_nothing_is_measured_and_no_row_is_written(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed row stays failed: an installation that cannot measure must not leave one."""
    campaign, without = make_campaign(tmp_path / "frozen"), make_campaign(tmp_path / "without-baseline")
    make_freeze(campaign)
    forget_given_baseline(without)
    before = files(tmp_path)
    real = importlib.util.find_spec

    def find_spec(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == missing else real(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    for call in (
        lambda: make_baselines(without),
        lambda: measure(campaign, Request(gpu="cpu"), Silent()),  # type: ignore[arg-type]
        lambda: rehearse(campaign, "cpu", None, print),
    ):
        with pytest.raises(InputRefused, match=rf"needs the part `measure`.*missing: {missing}\)") as refusal:
            call()
        assert refusal.value.next_step == 'make setup EXTRAS="measure"'
        assert files(tmp_path) == before
