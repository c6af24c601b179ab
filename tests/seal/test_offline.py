"""Signing and checking load no web client, and could not use one (issue 5, speed; FACTS: no network)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from runner.seal.offline import without_network_client

ROOT = Path(__file__).resolve().parents[2]


def test_a_pdf_is_signed_and_checked_without_a_web_client(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from runner.evidence.campaign import Campaign
from runner.seal.pdf import check_pdf, sign_pdf
from runner.seal.pdfkey import pdf_key
from tests.seal.test_pdf_signature import blank_pdf
signed = sign_pdf(blank_pdf(), pdf_key(Campaign(Path(sys.argv[1])), {}), reason="n")
assert check_pdf(signed).good
assert "aiohttp" not in sys.modules and "requests" not in sys.modules
import aiohttp
assert aiohttp.ClientSession.__module__.startswith("aiohttp"), "everybody else gets the real one"
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_stand_in_cannot_be_used() -> None:
    kept = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "aiohttp"}
    for name in kept:
        del sys.modules[name]
    try:
        with without_network_client():
            import aiohttp
        with pytest.raises(RuntimeError, match="without network"):
            aiohttp.ClientSession()
        assert "aiohttp" not in sys.modules
    finally:
        sys.modules.update(kept)
