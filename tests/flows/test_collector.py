"""The search for cycles is put off for a report, and only for it (issue 5: speed to reach)."""

from __future__ import annotations

import gc

import pytest

from runner.flows.collector import collector_paused


def test_it_is_off_inside_and_on_again_after_an_error() -> None:
    assert gc.isenabled()
    with pytest.raises(ValueError, match="stop"), collector_paused():
        assert not gc.isenabled()
        raise ValueError("stop")
    assert gc.isenabled()


def test_who_had_switched_it_off_finds_it_off() -> None:
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
