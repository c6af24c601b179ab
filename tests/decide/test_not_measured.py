"""Why a configuration was not measured is read from a field of the row, in older rows from its words (M11)."""

from __future__ import annotations

import pytest

from runner.evidence.attempt import DeviceMatch, ErrorInfo, Status
from tests.decide.worlds import World

NONE = DeviceMatch(code="no device", pattern="NVIDIA B200", fitting=(), reason="torch finds no card here")
OTHER = DeviceMatch(code="other device", pattern="NVIDIA B200", fitting=())
TOO_FEW = DeviceMatch(code="other device", pattern="NVIDIA B200", fitting=("NVIDIA B200",))


@pytest.mark.parametrize(
    ("match", "message", "found", "words"),
    [
        (NONE, "words may change", (), "not measured: B was declared, found: no device (torch finds no card here)"),
        (OTHER, "words may change", ("NVIDIA A100",), "not measured: B was declared, found: NVIDIA A100"),
        (TOO_FEW, "words may change", ("NVIDIA B200",), "not measured: B was declared, found: NVIDIA B200"),
        (
            None,
            "declared B, found no card (no driver)",
            (),
            "not measured: B was declared, found: no device (no driver)",
        ),
        (None, "declared B, found NVIDIA A100", ("NVIDIA A100",), "not measured: B was declared, found: NVIDIA A100"),
        (None, "anything else", ("NVIDIA A100",), "not measured: B was declared, found: NVIDIA A100 (anything else)"),
    ],
)
def test_m11_why_a_configuration_was_not_measured(
    match: DeviceMatch | None, message: str, found: tuple[str, ...], words: str
) -> None:
    world = World()
    attempt = world.add("B", "b1", None, status=Status.UNAVAILABLE)
    error = ErrorInfo(kind="unavailable", message=message)
    changes = {"devices_found": found, "device_match": match, "error": error}
    world.attempts[-1] = attempt.model_copy(update=changes)
    reason = world.row("B.b1").window_reason
    assert reason is not None and reason.text == words
