"""Models from the hub (M3, M8, MO-19; issue 3 line 2): a real client against a server of our own on this machine."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote, urlsplit

import pytest

from runner.evidence.attempt import Attempt, PhaseName, Status
from runner.evidence.campaign import Campaign
from runner.protocol.schema import Lock
from tests.support.small_campaign import make_campaign

pytest.importorskip("huggingface_hub")
ROOT = Path(__file__).parents[2]
FIRST, SECOND = "0123456789abcdef0123456789abcdef01234567", "fedcba9876543210fedcba9876543210fedcba98"


class Hub(BaseHTTPRequestHandler):
    """The part of the hub's protocol that a download of one model needs."""

    files: ClassVar[dict[str, dict[str, bytes]]] = {}
    """commit -> name -> content"""
    names: ClassVar[dict[str, str]] = {}
    """branch or tag -> commit"""
    asked: ClassVar[list[str]] = []

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.asked.append(path)
        if path.startswith("/api/models/org/name"):
            parts = path.removeprefix("/api/models/org/name").strip("/").split("/")
            revision = parts[1] if len(parts) > 1 else "main"
            commit = self.names.get(revision, revision)
            if commit not in self.files:
                self._send(404, b'{"error": "Revision not found"}', {"X-Error-Code": "RevisionNotFound"})
            elif parts[0] == "tree":
                self._json(
                    [
                        {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                        for name, data in self.files[commit].items()
                    ]
                )
            else:
                self._json(
                    {
                        "id": "org/name",
                        "modelId": "org/name",
                        "sha": commit,
                        "private": False,
                        "tags": [],
                        "siblings": [{"rfilename": name} for name in self.files[commit]],
                    }
                )
            return
        if path.startswith("/org/name/resolve/"):
            revision, _, name = path.removeprefix("/org/name/resolve/").partition("/")
            commit = self.names.get(revision, revision)
            data = self.files.get(commit, {}).get(name)
            if data is not None:
                self._send(200, data, {"X-Repo-Commit": commit, "ETag": f'"{hashlib.sha256(data).hexdigest()}"'})
                return
        self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def _json(self, content: object) -> None:
        self._send(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def log_message(self, format: str, *arguments: object) -> None:
        return None


@pytest.fixture
def hub() -> Iterator[str]:
    Hub.files, Hub.names, Hub.asked = {}, {}, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    """Its model lies on the hub only, under the branch `main`."""
    campaign = make_campaign(tmp_path / "campaign")
    folder = campaign.protocol_dir / "model"
    Hub.files[FIRST] = {file.name: file.read_bytes() for file in folder.iterdir()}
    Hub.names["main"] = FIRST
    shutil.rmtree(folder)
    text = campaign.protocol.read_text(encoding="utf-8")
    campaign.protocol.write_text(
        text.replace('source = "model"', 'source = "org/name"\nrevision = "main"'), encoding="utf-8"
    )
    return campaign


def runner(
    campaign: Campaign, endpoint: str, *arguments: str, code: str | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    environment = {
        **kept,
        "PYTHONPATH": str(ROOT),
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(campaign.root.parent / "hf"),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "NO_PROXY": "*",
        **variables,
    }
    environment.pop("HF_HUB_OFFLINE", None) if "HF_HUB_OFFLINE" not in variables else None
    command = [sys.executable, "-m", "runner", "--campaign", str(campaign.root), *arguments]
    if code is not None:
        command = [sys.executable, "-c", code, str(campaign.root)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_mo_19_a_moving_name_is_frozen_as_its_commit(hub: str, campaign: Campaign) -> None:
    """MO-19, point 2: `main` becomes a commit with the hash of every file; when the branch moves, the freeze stays."""
    done = runner(campaign, hub, "freeze")
    assert done.returncode == 0, done.stderr
    assert f"commit {FIRST}" in done.stdout
    lock = Lock.load(campaign.lock)
    assert lock.judgement.model_revision == FIRST
    sums = {file.path: file.sha256 for file in lock.judgement.model_files}
    assert sums == {name: hashlib.sha256(data).hexdigest() for name, data in Hub.files[FIRST].items()}
    Hub.files[SECOND] = {**Hub.files[FIRST], "tokenizer_config.json": b'{"model_max_length": 128}'}
    Hub.names["main"] = SECOND
    done = runner(campaign, hub, "protocol", "diff")
    assert (done.returncode, done.stdout.strip()) == (0, "nothing changed since the freeze")
    # Somebody changes the file in the cache: named, with what is as it was.
    (cached,) = (campaign.root.parent / "hf").rglob(f"snapshots/{FIRST}/tokenizer_config.json")
    data = cached.read_bytes()
    cached.unlink()
    cached.write_bytes(data + b" ")
    done = runner(campaign, hub, "protocol", "diff")
    assert done.returncode == 3 and "model file tokenizer_config.json: " in done.stdout


def test_m8_a_frozen_commit_needs_no_network(hub: str, campaign: Campaign) -> None:
    """M8: what is in the cache is used offline; the server is not asked again."""
    assert runner(campaign, hub, "freeze").returncode == 0
    Hub.asked.clear()
    done = runner(campaign, hub, "protocol", "diff", HF_HUB_OFFLINE="1")
    assert (done.returncode, Hub.asked) == (0, [])


MEASURE = """
import sys
from pathlib import Path
from runner.evidence.campaign import Campaign
from tests.measure.light import run
run(Campaign(Path(sys.argv[1])), batches=(1,), passes=2)
"""


def test_m17_the_download_is_a_phase_of_the_first_attempt(hub: str, campaign: Campaign) -> None:
    """Issue 6, point 1: on a fresh rental the model is fetched in paid time; fetched once, recorded once."""
    assert runner(campaign, hub, "freeze").returncode == 0
    shutil.rmtree(campaign.root.parent / "hf")
    for name in ("fetched", "found"):
        shutil.rmtree(campaign.records, ignore_errors=True)
        done = runner(campaign, hub, code=MEASURE)
        assert done.returncode == 0, done.stderr
        rows = sorted((Attempt.load(path) for path in campaign.attempts.glob("*.json")), key=lambda a: a.chain.index)
        assert len(rows) == 2 and {row.status for row in rows} == {Status.COMPLETED}
        first, second = ([p for p in row.phases if p.name is PhaseName.DOWNLOAD] for row in rows)
        assert [(p.seconds, p.reason) for p in second] == [(None, "the model was already here")]
        if name == "found":
            assert first == second
        else:
            assert first[0].seconds is not None and 0 < first[0].seconds < 60


@pytest.mark.parametrize(
    ("revision", "words"),
    [("no-such-branch", "could not be had from the hub"), (SECOND, "could not be had from the hub")],
)
def test_mo_19_a_revision_that_the_hub_has_not(hub: str, campaign: Campaign, revision: str, words: str) -> None:
    """MO-19: exit 2, one message, nothing written."""
    text = campaign.protocol.read_text(encoding="utf-8")
    campaign.protocol.write_text(text.replace('revision = "main"', f'revision = "{revision}"'), encoding="utf-8")
    done = runner(campaign, hub, "freeze")
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr
    assert not campaign.lock.exists()


def test_mo_12_code_and_pickles_of_the_hub_are_refused_unless_allowed(hub: str, campaign: Campaign) -> None:
    """MO-12: pickles are not even downloaded; custom code is refused before it could run, and hashed where allowed."""
    files = Hub.files[FIRST]
    weights = files.pop("model.safetensors")
    files["pytorch_model.bin"] = weights
    done = runner(campaign, hub, "freeze")
    assert done.returncode == 2 and "the model folder has no weights" in done.stderr
    assert "only fetched with allow_pickle = true" in done.stderr
    assert not any(path.endswith("pytorch_model.bin") for path in Hub.asked)
    files["model.safetensors"] = weights
    config = json.loads(files["config.json"])
    files["config.json"] = json.dumps({**config, "auto_map": {"AutoModel": "custom.Model"}}).encode()
    files["custom.py"] = b"import pathlib\npathlib.Path('EXECUTED').touch()\n"
    Hub.files[SECOND], Hub.names["main"] = files, SECOND
    done = runner(campaign, hub, "freeze")
    assert done.returncode == 2 and "auto_map" in done.stderr and "custom.py" in done.stderr
    text = campaign.protocol.read_text(encoding="utf-8")
    allowed = text.replace('source = "org/name"', 'source = "org/name"\nallow_custom_code = true')
    campaign.protocol.write_text(allowed, encoding="utf-8")
    done = runner(campaign, hub, "freeze")
    assert done.returncode == 0, done.stderr
    assert "custom.py" in [file.path for file in Lock.load(campaign.lock).judgement.model_files]
    assert not list(campaign.root.parent.rglob("EXECUTED")) and not (ROOT / "EXECUTED").exists()
