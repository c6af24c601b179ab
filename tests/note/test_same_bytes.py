"""Same evidence, same bytes: other time zone, locale, hash seed, clock; only `LC_ALL=C` (NO-08)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from runner.evidence.campaign import Campaign
from runner.note.build import NoteFiles, note_markdown
from tests.note.sample import OWN_MACHINE, make_campaign, rewrite_attempts

ROOT = Path(__file__).resolve().parents[2]
BUILD = (
    "import sys, pathlib; from runner.evidence.campaign import Campaign; from runner.note.build import build_note; "
    "f = build_note(Campaign(pathlib.Path(sys.argv[1]))); print(f.warnings)"
)
WORDS = (
    "import sys, pathlib; from runner.evidence.campaign import Campaign; from runner.note.build import note_markdown; "
    "print(note_markdown(Campaign(pathlib.Path(sys.argv[1]))).encode('ascii', 'backslashreplace').decode())"
)
NAMES = ("decision-note.qmd", "decision-note.html", "decision-note.pdf")


def build_elsewhere(root: Path, code: str = BUILD, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, str(root)], cwd=ROOT, capture_output=True, check=True, encoding="ascii",
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )  # fmt: skip


def test_two_builds_in_different_surroundings_are_equal(campaign: Campaign, note: NoteFiles, tmp_path: Path) -> None:
    copy = tmp_path / "somewhere else"
    shutil.copytree(campaign.root, copy)
    for name in NAMES:
        (copy / "note" / name).unlink()
    build_elsewhere(copy, TZ="Pacific/Auckland", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0",
                    PYTHONHASHSEED="4242", SOURCE_DATE_EPOCH="1", LANGUAGE="tr")  # fmt: skip
    for name in NAMES:
        assert (copy / "note" / name).read_bytes() == (campaign.note / name).read_bytes(), name


def test_markdown_is_the_same_without_building(campaign: Campaign, note: NoteFiles) -> None:
    """What `verify` recomputes."""
    before = sorted(path.name for path in campaign.note.iterdir())
    assert note_markdown(campaign).encode("utf-8") == note.qmd.read_bytes()
    assert sorted(path.name for path in campaign.note.iterdir()) == before


def test_other_letters_under_lc_all_c(tmp_path: Path) -> None:
    """NO-08: ids, texts and notes that are not ASCII; output into a pipe."""
    text = (ROOT / "tests" / "cases" / "NO-08" / "notes.txt").read_text(encoding="utf-8").strip()
    made = make_campaign(tmp_path / "c", replace(OWN_MACHINE, text="Ölçüm ü1, Maß 5 °C ş?"))
    rewrite_attempts(made, lambda a: a.model_copy(update={"notes": (text,) if a.error else ()}))
    in_c = build_elsewhere(made.root, WORDS, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0").stdout
    in_utf8 = build_elsewhere(made.root, WORDS, LC_ALL="C.UTF-8").stdout
    assert in_c == in_utf8
    for wanted in (text, "Ölçüm ü1, Maß 5 °C ş?"):
        assert wanted.encode("ascii", "backslashreplace").decode() in in_c
