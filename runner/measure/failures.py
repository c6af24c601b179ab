"""What an error becomes in a worker's result: its status, its words, and where it was raised."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

from runner.measure.oom import memory_evidence


def classified(error: Exception, limit: str | None) -> dict[str, Any]:
    """Status of an unexpected error; out of memory only where the error itself says so."""
    evidence = memory_evidence(error)
    if evidence is None:
        return {"status": "failed", "error": told(type(error).__name__, error)}
    if limit is not None:
        evidence += f"; limit in force: {limit}"
    return {"status": "out_of_memory", "error": told("out of memory", error, evidence)}


def told(kind: str, error: BaseException, evidence: str | None = None) -> dict[str, str | None]:
    text = str(error).strip() or type(error).__name__
    return {"kind": kind, "message": text[:2000], "evidence": evidence}


def place(error: BaseException) -> str:
    """Where the error came from: file name and line only, no paths of this machine."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"raised in {Path(frame.filename).name}, line {frame.lineno}, {frame.name}"
