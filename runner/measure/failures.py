"""What an error becomes in a worker's result: its status, its words, and where it was raised."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any

from runner.measure.oom import memory_evidence


def classified(error: Exception, limit: str | None) -> dict[str, Any]:
    """Status of an unexpected error; out of memory only where the error itself says so."""
    evidence = memory_evidence(error)
    if evidence is None:
        found = told(type(error).__name__, error)
        later = said_by_the_card(error)
        if later is not None:
            found["message"] = f"{found['message']}; the card's own error: {later}"
        return {"status": "failed", "error": found}
    if limit is not None:
        evidence += f"; limit in force: {limit}"
    return {"status": "out_of_memory", "error": told("out of memory", error, evidence)}


def said_by_the_card(error: BaseException) -> str | None:
    """What the card says when it is waited for, where the error does not say it; None if it is well or there is none.

    Cards work behind the host: after an assert in a kernel it is often a library that notices first, with a status of
    its own (`CUBLAS_STATUS_EXECUTION_FAILED`) which names no cause.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "cuda") or not torch.cuda.is_initialized():
        return None
    try:
        torch.cuda.synchronize()
    except Exception as later:
        text = (str(later).strip() or type(later).__name__).splitlines()[0][:300]
        return None if text in str(error) else text
    return None


def told(kind: str, error: BaseException, evidence: str | None = None) -> dict[str, str | None]:
    text = str(error).strip() or type(error).__name__
    return {"kind": kind, "message": text[:2000], "evidence": evidence}


def place(error: BaseException) -> str:
    """Where the error came from: file name and line only, no paths of this machine."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"raised in {Path(frame.filename).name}, line {frame.lineno}, {frame.name}"
