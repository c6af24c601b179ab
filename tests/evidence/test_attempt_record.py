"""Attempt records: strict, frozen, unknown stays null; requested against effective settings (M9, M16, M22)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from runner.errors import InputRefused
from runner.evidence.attempt import Attempt, ChainLink, MemoryPeak, Settings, Slot, Status

CASES = Path(__file__).parents[1] / "cases"


def attempt(**changes: object) -> Attempt:
    values: dict[str, object] = {
        "attempt_id": "a1",
        "chain": ChainLink(machine_id="m1", index=0, previous_sha256=None),
        "protocol_name": "demo",
        "protocol_revision": 1,
        "lock_sha256": "0" * 64,
        "nonce": "1" * 64,
        "gpu_declared": "cpu",
        "devices_found": ("cpu",),
        "variant_id": "b1",
        "series": "batch",
        "corpus_id": "c",
        "seed": 0,
        "slot": Slot(pass_index=0, position=0),
        "status": Status.STARTED,
        "started_at_utc": "2026-11-30T06:20:52Z",
        "expected_documents": 100,
        "requested": Settings(),
    }
    return Attempt.model_validate(values | changes)


def test_m22_a_started_row_has_no_numbers_but_reasons() -> None:
    row = attempt()
    assert row.pass_seconds is None
    assert row.pass_seconds_reason
    assert row.completed_documents is None
    assert Attempt.loads(row.dump()) == row


def test_a_row_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        attempt().status = Status.COMPLETED  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"attempt_id": "../x"}, "attempt_id"),
        ({"pass_seconds": -1.0}, "pass_seconds"),
        ({"pass_seconds": float("inf")}, "pass_seconds"),
        ({"status": "fine"}, "status"),
        ({"surprise": 1}, "surprise"),
        ({"lock_sha256": "abc"}, "lock_sha256"),
        ({"started_at_utc": "2026-11-30 06:20"}, "started_at_utc"),
    ],
)
def test_a_malformed_row_is_refused_with_its_place(changes: dict[str, object], place: str) -> None:
    value = attempt().as_json() | {key: str(v) if v == float("inf") else v for key, v in changes.items()}
    with pytest.raises(InputRefused, match=place):
        Attempt.from_json(value)


def test_m16_settings_name_every_silent_replacement() -> None:
    wanted = Settings(attention="flash_attention_2", threads=None, extra={"pad_multiple": 8})
    used = Settings(attention="eager", threads=2, precision=None, extra={})
    assert wanted.differences(used) == (
        "attention requested flash_attention_2, used eager",
        "pad_multiple requested 8, used unknown",
        "precision requested fp32, used unknown",
    )


def peaks(*pairs: tuple[int | None, int | None], device: str = "cuda:0", suffix: str = "") -> list[dict[str, object]]:
    names = [f"torch.cuda.max_memory_{kind}{suffix}" for kind in ("allocated", "reserved")]
    return [
        MemoryPeak(device=device, counter=name, scope="of a rank", bytes=value, at_seconds=None).as_json()
        for pair in pairs
        for name, value in zip(names, pair, strict=True)
    ]


@pytest.mark.parametrize("suffix", ["", " before the pass"])
def test_me02_a_row_with_more_allocated_than_reserved_is_refused(suffix: str) -> None:
    """ME-02, point 3: one contains the other; two processes of one card are compared each with itself."""
    case = json.loads((CASES / "ME-02" / "memory.json").read_bytes())["devices"]
    right = [(item["peak_allocated"], item["peak_reserved"]) for item in case]
    assert right[0][0] > right[1][1], "crossed, the two would seem to contradict each other"
    row = attempt().as_json()
    for memory in (peaks(*right, suffix=suffix), peaks((1, 1), (None, 5), (5, None), suffix=suffix)):
        Attempt.from_json(row | {"memory": memory})
    for wrong in ([(right[0][1] + 1, right[0][1])], [right[0], (right[1][1] + 1, right[1][1])]):
        with pytest.raises(InputRefused, match=r"cuda:0: allocated \d+ bytes is larger than reserved \d+") as caught:
            Attempt.from_json(row | {"memory": peaks(*wrong, suffix=suffix)}, file="a1.json")
        assert caught.value.exit_code == 2 and caught.value.column == "memory"
    Attempt.from_json(row | {"memory": peaks((2, 2)) + peaks((1, 1), device="cuda:1")})


def test_m24_a_peak_names_counter_and_scope() -> None:
    with pytest.raises(ValidationError):
        MemoryPeak.model_validate({"device": "cpu", "bytes": 5, "at_seconds": None})
