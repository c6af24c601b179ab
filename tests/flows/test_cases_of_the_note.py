"""Cases NO-* and RE-*: the stated right answers that only the commands, or the finished note, can give."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.cli.main import run
from runner.evidence.campaign import Campaign
from runner.flows.archive import make_archive
from runner.note.build import note_markdown
from runner.protocol.freeze import freeze
from runner.seal.container import read_container
from tests.flows.conftest import pages_left_alone
from tests.support.small_campaign import ROWS, make_attempt, make_campaign, store_attempt, write_predictions

CASES = Path(__file__).parents[1] / "cases"
PROJECT = Path(__file__).parents[2]
RIGHT = [(row[0], row[2]) for row in ROWS]
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def campaign_copy(folder: Path, target: Path) -> Campaign:
    shutil.copytree(folder, target)
    return Campaign(target)


# ---- NO-08 -----------------------------------------------------------------------------------------------------------


def command(folder: Path, environment: dict[str, str], *arguments: str) -> bytes:
    """One run of the real command, its output into a pipe; must end with status 0 and without a traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "runner", "--campaign", str(folder), *arguments],
        cwd=PROJECT, env={**os.environ, "OMP_NUM_THREADS": "1", **environment}, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    assert b"Traceback" not in done.stderr
    return done.stdout + done.stderr


def test_case_no_08_build_validate_and_note_are_the_same_in_ascii(tmp_path: Path) -> None:
    """NO-08: the case's corpus and note, `corpus`, `validate` and `decide`, with LC_ALL=C and with C.UTF-8."""
    note = (CASES / "NO-08" / "notes.txt").read_text(encoding="utf-8").strip()
    (row,) = [line.split(",") for line in (CASES / "NO-08" / "corpus.csv").read_text(encoding="utf-8").splitlines()[1:]]
    made = make_campaign(tmp_path / "made", rows=[*ROWS, (*row, "short")])
    lock = freeze(made)
    predictions = write_predictions(made.predictions / "a000.parquet", [*RIGHT, (row[0], row[2])])
    store_attempt(made, make_attempt(made, lock, predictions, notes=(note,)))
    shutil.copyfile(PROJECT / "tariffs.csv", made.tariffs)
    found: list[dict[str, bytes]] = []
    for name, environment in (("c", ASCII), ("utf-8", {"LC_ALL": "C.UTF-8"})):
        copy = campaign_copy(made.root, tmp_path / name)
        shown = command(copy.root, environment, "corpus", "--from", str(CASES / "NO-08" / "corpus.csv"), "--all",
                        "--tokenizer", "words", "--name", "case", "--out", str(copy.root / "built"))  # fmt: skip
        shown += command(copy.root, environment, "validate") + command(copy.root, environment, "decide")
        if environment is ASCII:
            assert shown.isascii(), "escapes where the terminal cannot show a character"
        found.append({
            str(path.relative_to(copy.root)): path.read_bytes()
            for folder in ("built", "verdicts", "note")
            for path in sorted((copy.root / folder).rglob("*")) if path.is_file()
        })  # fmt: skip
    assert found[0] == found[1]
    assert any(row[0].encode() in data for name, data in found[0].items() if name.startswith("built/"))
    assert any(note.encode() in data for name, data in found[0].items() if name == "note/attempts.csv")


# ---- NO-12 -----------------------------------------------------------------------------------------------------------


def test_case_no_12_the_command_lists_the_names_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """NO-12, 1: `verify` and `again` end with 2; the three names are listed; the folder stays empty."""
    inner = tmp_path / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    archive = str(CASES / "NO-12" / "archive.zip")
    for arguments in (["verify", archive], ["again", archive, "new"]):
        assert run(arguments) == 2, arguments
        shown = capsys.readouterr().err
        assert all(name in shown for name in ("../outside.txt", "/abs.txt", "win.txt")), shown
        assert [path.name for path in tmp_path.rglob("*")] == ["inner"]


def test_case_no_12_our_own_archive_has_plain_sorted_names_and_lists_them_all(campaign: Campaign) -> None:
    """NO-12, 2: relative, with /, without .., sorted; the manifests list exactly the names of the archive."""
    path = make_archive(campaign, campaign.root / "rental.toml", {}).path
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    assert names == sorted(names, key=lambda name: name.encode("utf-8"))
    assert not [name for name in names if name.startswith("/") or "\\" in name or ".." in name.split("/")]
    (top,) = {name.split("/")[0] for name in names}
    files = read_container(path)

    def listed(manifest: str) -> set[str]:
        lines = files[f"{top}/{manifest}"].decode("utf-8").splitlines()
        assert all(hashlib.sha256(files[f"{top}/{line[66:]}"]).hexdigest() == line[:64] for line in lines)
        return {line[66:] for line in lines}

    payload, tags = listed("manifest-sha256.txt"), listed("tagmanifest-sha256.txt")
    inside = {name.removeprefix(f"{top}/") for name in names}
    assert payload == {name for name in inside if name.startswith("data/")}
    rest = inside - payload - tags
    assert {name.removesuffix(".sig") for name in rest} == {"tagmanifest-sha256.txt"}, "the last list and its signature"


# ---- RE-01, RE-03, RE-05, RE-07 --------------------------------------------------------------------------------------


def test_case_re_05_copies_are_named_with_their_places_and_the_median_is_of_three(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """RE-05: durations 10, 30, 20; r2 twice more, once with another key order: exit 0, n = 3, median 20."""
    made = make_campaign(tmp_path / "c")
    lock = freeze(made)
    shutil.copyfile(PROJECT / "tariffs.csv", made.tariffs)
    lines = [json.loads(line) for line in (CASES / "RE-05" / "records.jsonl").read_text(encoding="utf-8").splitlines()]
    durations = {line["run_id"]: line["duration_s"] for line in lines}
    assert list(durations.values()) == ["10", "30", "20"] and len(lines) == 4
    for number, (name, seconds) in enumerate(durations.items()):
        path = write_predictions(made.predictions / f"{name}.parquet", RIGHT)
        store_attempt(made, make_attempt(made, lock, path, number=number, attempt_id=name, pass_seconds=float(seconds)))
    original = (made.attempts / "r2.json").read_bytes()
    (made.attempts / "r2-copy.json").write_bytes(original)
    turned = dict(reversed(list(json.loads(original).items())))
    (made.attempts / "r2-more.json").write_text(json.dumps(turned), encoding="utf-8")
    assert run(["--campaign", str(made.root), "validate"]) == 0
    shown = capsys.readouterr().out
    assert "r2: 2 exact copies ignored" in shown
    assert "r2-copy.json" in shown and "r2-more.json" in shown
    run(["--campaign", str(made.root), "decide"])
    rows = json.loads(made.balance.read_text(encoding="utf-8"))["rows"]
    (summary,) = next(row for row in rows if row["summaries"] and row["summaries"][0]["accepted"])["summaries"]
    assert (summary["accepted"], summary["median_seconds"]) == (3, "20.0")


def test_case_re_07_the_note_lists_what_was_left_out_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """RE-07, 2: only on demand; then exit 0, n = 1, and the note lists g2, g3 and g4, each with its reason."""
    made = make_campaign(tmp_path / "c")
    lock = freeze(made)
    shutil.copyfile(PROJECT / "tariffs.csv", made.tariffs)
    expected = json.loads((CASES / "RE-07" / "expected.json").read_text(encoding="utf-8"))
    rows = [json.loads(line) for line in (CASES / "RE-07" / "records.jsonl").read_text(encoding="utf-8").splitlines()]
    for number, row in enumerate(rows):
        fits = all(row.get(key) == value for key, value in expected.items())
        other = "".join(str(row.get(key, "")) for key in expected)
        changes = {} if fits else {"lock_sha256": hashlib.sha256(other.encode()).hexdigest()}
        path = write_predictions(made.predictions / f"{row['run_id']}.parquet", RIGHT)
        store_attempt(made, make_attempt(made, lock, path, number=number, attempt_id=row["run_id"], **changes))
    assert run(["--campaign", str(made.root), "validate"]) == 3
    capsys.readouterr()
    assert run(["--campaign", str(made.root), "decide"]) == 2
    refused = capsys.readouterr().err
    assert all(name in refused for name in ("g2", "g3", "g4")) and "g1" not in refused
    assert not made.balance.exists()
    assert run(["--campaign", str(made.root), "decide", "--leave-out-other-locks"]) == 0
    text = note_markdown(made)
    listed = text[: text.index("{#tbl-left-out")].rsplit("\n\n", 2)[-2]
    for row in rows[1:]:
        (line,) = [line for line in listed.splitlines() if line.startswith(f"| {row['run_id']} |")]
        assert "lock" in line
    assert "| g1 |" not in listed


# ---- fuzz: what a reader may hold alone ------------------------------------------------------------------------------


def cut(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.randrange(1, 9) :]


def put_in(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data) + 1)
    return data[:start] + rng.randbytes(rng.randrange(1, 9)) + data[start:]


def flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


@pytest.mark.parametrize("change", [cut, put_in, flip])
def test_changes_of_each_kind_through_the_command(
    campaign: Campaign, tmp_path: Path, change: Callable[[bytes, random.Random], bytes]
) -> None:
    """NO-14, issue 5.6: the PDF alone, the list, its signature and the archive, cut, lengthened, flipped: never 0."""
    rng = random.Random(change.__name__)
    archive = make_archive(campaign, campaign.root / "rental.toml", {}).path
    folder = ["--campaign", str(campaign.root), "verify"]
    for name in ("SHA256SUMS", "SHA256SUMS.sig"):
        path = campaign.note / name
        data = path.read_bytes()
        for _ in range(3):
            path.write_bytes(change(data, rng))
            with pages_left_alone():
                assert run(folder) in (2, 3), name
        path.write_bytes(data)
    alone = tmp_path / "alone"
    alone.mkdir()
    for path in (campaign.note / "decision-note.pdf", archive):
        data = path.read_bytes()
        for _ in range(4):
            (alone / path.name).write_bytes(change(data, rng))
            assert run(["verify", str(alone / path.name)]) in (2, 3), path.name
    assert run(folder) == 0


def test_parts_of_two_notes_do_not_go_together(campaign: Campaign, tmp_path: Path, reported: Path) -> None:
    """Issue 5.6: every signed file and container of another note of the same campaign, put in one at a time."""
    other = campaign_copy(reported, tmp_path / "other")
    assert run(["--campaign", str(other.root), "report", "--language", "de"]) == 0
    mine = {path: path.read_bytes() for path in sorted(campaign.note.rglob("*")) if path.is_file()}
    swapped = 0
    for path, data in mine.items():
        theirs = other.note / path.relative_to(campaign.note)
        if theirs.is_file() and theirs.read_bytes() != data:
            path.write_bytes(theirs.read_bytes())
            with pages_left_alone():
                assert run(["--campaign", str(campaign.root), "verify"]) == 3, path.name
            path.write_bytes(data)
            swapped += 1
    assert swapped >= 8
    assert run(["--campaign", str(campaign.root), "verify"]) == 0
