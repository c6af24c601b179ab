"""The front door: `make help`, values that reach the commands untouched, exit statuses, nothing done twice."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runner.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
RECORDER = """#!/bin/sh
for word in "$@"; do printf '%s\\n' "$word"; done > arguments.txt
campaign=.
if [ "$1" = --campaign ]; then campaign=$2; shift 2; fi
if [ "$1" = report ] && [ -z "$RECORDED_STATUS" ]; then
  mkdir -p -- "$campaign/note" && cd -- "$campaign/note" || exit 1
  printf -- '---\\nlang: %s\\n---\\n' "${3:-en}" > decision-note.qmd
  : > decision-note.html; : > decision-note.pdf; : > SHA256SUMS
  [ -n "$KILLED" ] || : > SHA256SUMS.sig
fi
exit ${RECORDED_STATUS:-0}
"""


def make(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", *arguments],
        cwd=folder, env=clean | environment, capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip


@pytest.fixture
def front_door(tmp_path: Path) -> Path:
    """A folder with the real Makefile and a `runner` that writes down its arguments."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/note_is_fresh.py", tmp_path / "tools")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    for name in ("pyproject.toml", "constraints.txt", "requirements-torch.txt"):
        (tmp_path / name).write_text("", encoding="utf-8")
    runner = tmp_path / ".venv/bin/runner"
    runner.write_text(RECORDER, encoding="utf-8")
    runner.chmod(0o755)
    (tmp_path / ".venv/installation.json").write_text("{}", encoding="utf-8")
    return tmp_path


def arguments(folder: Path) -> list[str]:
    return (folder / "arguments.txt").read_text(encoding="utf-8").splitlines()


def test_help_lists_every_target_once_with_one_line() -> None:
    shown = make(ROOT, "help")
    assert shown.returncode == 0
    listed = re.findall(r"^  ([a-z-]+) +\S", shown.stdout, re.MULTILINE)
    declared = [name for line in re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE) for name in line.split()]
    assert sorted(listed) == sorted(declared)
    assert len(set(listed)) == len(listed)


def test_help_is_the_default() -> None:
    assert make(ROOT).stdout == make(ROOT, "help").stdout


def test_every_command_called_by_the_makefile_exists() -> None:
    called = set(re.findall(r"\$\(RUNNER\) ([a-z-]+)", MAKEFILE))
    assert called <= set(COMMANDS), called - set(COMMANDS)


def test_recipes_never_paste_a_users_value_into_the_shell() -> None:
    names = re.search(r"USER_VARIABLES := ((?:.*\\\n)*.*)", MAKEFILE)
    assert names is not None
    recipes = "\n".join(line for line in MAKEFILE.splitlines() if line.startswith(("\t", "RUNNER")))
    for name in names.group(1).replace("\\\n", " ").split():
        assert f"$({name})" not in recipes, name
        assert f'"$${name}"' in recipes, name


HOSTILE = ("$(shell touch evil)", "`touch evil`", '"; touch evil; "', "'; touch evil; '", "$$(touch evil)")


@pytest.mark.parametrize("value", [*HOSTILE, "two words", "ü=%", "-n"])
def test_values_reach_the_command_untouched(front_door: Path, value: str) -> None:
    done = make(front_door, "price", f"GPU={value}", "LOTS=2")
    assert done.returncode == 0, done.stderr
    assert arguments(front_door) == ["price", "--gpu", value, "--lots", "2"]
    assert not (front_door / "evil").exists()


@pytest.mark.parametrize(
    ("target", "given", "missing"),
    [("price", [], "GPU"), ("archive", [], "RENTAL"), ("reprice", ["FROM=a.zip"], "TO"), ("corpus", ["FROM="], "FROM"),
     ("exclude", ["ATTEMPT=a1"], "REASON"), ("forecast", [], "DOCUMENTS"), ("rental", [], "RENTAL"),
     ("collect", [], "FROM"), ("measure", [], "GPU")],
)  # fmt: skip
def test_a_missing_variable_is_named_with_the_usage_of_make(
    front_door: Path, target: str, given: list[str], missing: str
) -> None:
    """M53: who types `make` is told what to type after make, in one line, before any command runs."""
    done = make(front_door, target, *given)
    assert done.returncode == 2 and not (front_door / "arguments.txt").exists()
    first = done.stderr.splitlines()[0]
    assert first.startswith(f"error: make {target} needs {missing}: make {target} ") and f"{missing}=" in first
    assert "--" not in first


@pytest.mark.parametrize("word", ["PASES=8", "batches=1 4", "ACCEPTD=$(shell touch evil)"])
def test_a_misspelled_variable_is_refused_and_not_ignored(front_door: Path, word: str) -> None:
    """M3, issue 2, bad input: `PASES=8` would measure five passes in paid hours, without a word."""
    done = make(front_door, "measure", "GPU=b200", word)
    assert done.returncode == 2 and not (front_door / "arguments.txt").exists()
    assert f"error: no target knows {word.split('=')[0]}" in done.stderr and not (front_door / "evil").exists()


def test_settings_of_other_programs_are_passed_on(front_door: Path) -> None:
    """README, Installing: settings of pip that say how to reach packages are respected."""
    assert make(front_door, "measure", "GPU=b200", "PIP_INDEX_URL=x", "https_proxy=y").returncode == 0


def test_help_fits_a_terminal_of_80_columns() -> None:
    assert max(map(len, make(ROOT, "help").stdout.splitlines())) <= 80


def test_what_is_not_given_is_not_passed(front_door: Path) -> None:
    assert make(front_door, "measure", "GPU=cpu", "BATCHES=1 4 8").returncode == 0
    assert arguments(front_door) == ["measure", "--gpu", "cpu", "--batches", "1 4 8"]


@pytest.mark.parametrize(
    ("target", "given", "expected"),
    [
        ("forecast", ["DOCUMENTS=1000000"], ["forecast", "--documents", "1000000"]),
        ("rental", ["RENTAL=my rental.toml", "LEDGER=l.csv"], ["rental", "--ledger", "l.csv", "my rental.toml"]),
        ("reprice", ["FROM=a.zip", "TO=new", "TARIFFS=t.csv", "NOTE_LANG=de"],
         ["reprice", "--tariffs", "t.csv", "--language", "de", "a.zip", "new"]),
        ("exclude", ["ATTEMPT=a1", "REASON=power cut", "RULE=machine_id = m-1"],
         ["exclude", "--reason", "power cut", "--rule", "machine_id = m-1", "a1"]),
        ("measure", ["GPU=b200", "NNODES=2", "NODE_RANK=0", "RDZV_ENDPOINT=10.0.0.1:29400", "RDZV_BACKEND=c10d",
                     "RDZV_ID=a b"],
         ["measure", "--gpu", "b200", "--nnodes", "2", "--node-rank", "0", "--rdzv-endpoint", "10.0.0.1:29400",
          "--rdzv-backend", "c10d", "--rdzv-id", "a b"]),
        ("memory", ["MODEL=my model", "DEVICE=cuda"], ["memory", "--model", "my model", "--device", "cuda"]),
        ("calculator", ["NOTE_LANG=tr"], ["calculator", "--language", "tr"]),
        ("corpus", ["FROM=a b.csv", "GROUP_COLUMN=my region", "SKIP_EMPTY=1", "TUNING=5"],
         ["corpus", "--from", "a b.csv", "--tuning", "5", "--group-column", "my region", "--skip-empty"]),
        ("corpus", ["FROM=a.csv", "SKIP_EMPTY=0", "ALL=0", "REPLACE=no"], ["corpus", "--from", "a.csv"]),
        ("corpus", ["FROM=a.csv", "ALL=1", "REPLACE=1", "CORPUS=mine", "DELIMITER=;"],
         ["corpus", "--from", "a.csv", "--name", "mine", "--delimiter", ";", "--all", "--replace"]),
        ("corpus", ["FROM=a.csv", "TUNING_FROM=the train.csv", "ENCODING=cp1252"],
         ["corpus", "--from", "a.csv", "--encoding", "cp1252", "--tuning-from", "the train.csv"]),
        ("corpus", ["FROM=a.csv", "ID_COLUMN=ticket no", "TEXT_COLUMN=body", "LABEL_COLUMN=class"],
         ["corpus", "--from", "a.csv", "--id-column", "ticket no", "--text-column", "body", "--label-column", "class"]),
    ],
)  # fmt: skip
def test_issue_4_targets_beside_the_chain_pass_what_is_given(
    front_door: Path, target: str, given: list[str], expected: list[str]
) -> None:
    """Issue 4, 5 and 8 to 10, issue 6 points 11 and 12: every command of the issue has its target in `make help`."""
    done = make(front_door, target, *given)
    assert done.returncode == 0, done.stderr
    assert arguments(front_door) == expected


def test_campaign_folder_may_hold_blanks(front_door: Path) -> None:
    (front_door / "my campaign").mkdir()
    assert make(front_door, "decide", "CAMPAIGN=my campaign").returncode == 0
    assert arguments(front_door) == ["--campaign", "my campaign", "decide"]


def test_status_of_the_command_is_shown_although_make_says_2(front_door: Path) -> None:
    done = make(front_door, "measure", "GPU=b200", RECORDED_STATUS="3")
    assert done.returncode == 2
    assert "runner: exit status 3" in done.stderr


NAMES = (".", "my campaign", "it's", 'a"b', "Übung  größe", "a:b", "a;b|c", "a%b*?[x]", "a#b$$(x)\\y", "~x=&,")


@pytest.mark.parametrize("name", NAMES)
def test_note_is_built_again_only_when_something_changed(front_door: Path, name: str) -> None:
    """Issue 2, DESIGN 4: whatever the campaign folder is called, make neither stops nor takes an old note for new."""
    campaign = front_door / name
    for folder in ("protocol/keys", "records/attempts", "verdicts", "templates"):
        (campaign / folder).mkdir(parents=True)
    (campaign / "tariffs.csv").write_text("", encoding="utf-8")

    def built(*more: str, **environment: str) -> bool:
        (front_door / "arguments.txt").unlink(missing_ok=True)
        done = make(front_door, "report", *more, CAMPAIGN=name, **environment)
        assert done.returncode == 0, done.stderr
        return (front_door / "arguments.txt").exists()

    def change(place: str) -> None:
        """As if it happened after the note was signed: times of files may be coarser than this test."""
        later = (campaign / "note/SHA256SUMS.sig").stat().st_mtime_ns + 10_000
        (campaign / place).mkdir(exist_ok=True) if place.endswith("/") else (campaign / place).touch()
        os.utime(campaign / place, ns=(later, later))

    assert built()
    assert not built()
    assert built("NOTE_LANG=de"), "another language is another note"
    assert arguments(front_door) == ["--campaign", name, "report", "--language", "de"]
    assert not built(), "without a language the note that is there stays, whatever its language"
    assert built("NOTE_LANG=en"), "and back"
    assert built("SIGNING_KEY=/my/key"), "another key signs"
    places = ("verdicts/", "verdicts/one.json", "records/attempts/a.json", "tariffs.csv", "protocol/plan.toml")
    for place in places if name == "my campaign" else places[:1]:
        change(place)
        assert built(), f"{place} is newer"
        assert not built()
    change("protocol/keys/")
    assert not built(), "keys are no source"
    (campaign / "note/SHA256SUMS.sig").unlink()
    assert built(KILLED="1"), "a note without its last file is no note"
    assert built(), "still without"
    assert not built()


def test_targets_run_one_after_the_other_as_typed(front_door: Path) -> None:
    """`make -j4 freeze validate decide` is a chain, not a race."""
    recorder = front_door / ".venv/bin/runner"
    recorder.write_text('#!/bin/sh\necho "begin $1" >> order.txt; sleep 0.1; echo "end $1" >> order.txt\n')
    steps = ["freeze", "validate", "decide"]
    assert make(front_door, "-j4", *steps).returncode == 0
    order = (front_door / "order.txt").read_text(encoding="utf-8").splitlines()
    assert order == [f"{moment} {step}" for step in steps for moment in ("begin", "end")]


def test_a_dry_run_runs_nothing_and_help_needs_no_installation(front_door: Path) -> None:
    shutil.rmtree(front_door / ".venv")
    assert make(front_door, "help").returncode == 0
    shown = make(front_door, "-n", "measure", "GPU=$(shell touch evil)")
    assert shown.returncode == 0
    assert "tools/install.py" in shown.stdout
    assert not (front_door / "evil").exists() and not (front_door / ".venv").exists()


def test_a_python_that_is_not_there_is_named() -> None:
    done = make(ROOT, "setup", "PYTHON=no-such-python")
    assert done.returncode == 2
    assert done.stderr.startswith("error: no program 'no-such-python' here; Python 3.11 or newer is needed")


def test_failed_report_is_tried_again(front_door: Path) -> None:
    (front_door / "note").mkdir()
    assert make(front_door, "report", RECORDED_STATUS="3").returncode == 2
    assert make(front_door, "report").returncode == 0
    assert arguments(front_door) == ["report"]
