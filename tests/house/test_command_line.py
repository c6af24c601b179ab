"""The command table: fast help, one-line helps that match, every command speaks for machines too."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import click
import pytest

from runner.cli.main import COMMANDS, PARTS, SECTIONS, LazyGroup, cli, run
from runner.cli.progress import make_progress, rough
from tests.support.small_campaign import make_campaign

ROOT = Path(__file__).resolve().parents[2]

HEAVY = (
    "torch", "transformers", "pandas", "pyarrow", "numpy", "pydantic", "weasyprint", "matplotlib", "jinja2", "sklearn",
)  # fmt: skip


def loaded_modules(*arguments: str) -> set[str]:
    script = (
        "import json, sys\nfrom runner.cli.main import run\n"
        f"status = run({list(arguments)!r})\n"
        "print('\\n' + json.dumps(sorted({name.split('.')[0] for name in sys.modules})))\nsys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, encoding="utf-8", check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_help_loads_nothing_heavy() -> None:
    assert not loaded_modules("--help") & set(HEAVY)


def test_importing_the_package_loads_nothing_heavy() -> None:
    script = "import runner, sys; print(sorted(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert not [name for name in HEAVY if f"'{name}'" in shown]


def test_price_needs_neither_torch_nor_pandas() -> None:
    assert not loaded_modules("price", "--gpu", "rtx-4090", "--days", "7", "--lots", "2") & {"torch", "pandas"}


@pytest.mark.parametrize("name", COMMANDS)
def test_one_line_help_matches_the_command(name: str) -> None:
    assert isinstance(cli, LazyGroup)
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.name == name
    text = COMMANDS[name][2]
    first_line = (command.short_help or command.help or "").split("\n\n")[0].replace("\n", " ").split(". ")[0]
    assert text.rstrip(".") == first_line.rstrip("."), "COMMANDS and the command say different things"
    assert text.endswith((".", "?"))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_needs_no_knowledge_of_our_rules(name: str) -> None:
    """Rule numbers such as M31 are for those who work on the code."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    leaves = list(command.commands.values()) if isinstance(command, click.Group) else [command]
    for leaf in leaves:
        assert not re.search(r"\bM\d+\b", leaf.get_help(click.Context(leaf))), leaf.name


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained_and_json_is_there(name: str) -> None:
    assert isinstance(cli, LazyGroup)
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    leaves = list(command.commands.values()) if isinstance(command, click.Group) else [command]
    for leaf in leaves:
        options = {option: parameter for parameter in leaf.params for option in parameter.opts}
        assert "--json" in options, leaf.name
        for option, parameter in options.items():
            if isinstance(parameter, click.Option):
                text = parameter.help
                assert text, f"{leaf.name} {option} has no help"
                assert text[0].upper() == text[0] and text.endswith("."), f"{leaf.name} {option}: {text}"


def test_every_command_is_shown_once_in_a_section() -> None:
    shown = [name for names in SECTIONS.values() for name in names]
    assert sorted(shown) == sorted(COMMANDS)


def test_unknown_command_is_exit_2_with_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mesure"]) == 2
    assert "No such command 'mesure'" in capsys.readouterr().err


def test_refusal_is_one_message_and_no_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--campaign", str(tmp_path), "freeze"]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("error: ")
    assert "Traceback" not in shown.err
    assert list(tmp_path.iterdir()) == [], "refused input writes nothing"


def test_refusal_for_machines_is_one_json_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--campaign", str(tmp_path), "freeze", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["exit_code"] == 2


def test_a_closed_or_broken_output_loses_text_only() -> None:
    """`runner ... | head` and `runner ... >&-` end with the command's own status, without a word of ours."""
    price = f"{sys.executable} -m runner price --gpu b200 --days 7 --lots 1"
    for script in (f"{price} >&-", f"set -o pipefail; {price} | true", f"LC_ALL=C {price} >&-"):
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), script


def test_a_full_disk_behind_the_output_is_said_without_a_traceback() -> None:
    """DESIGN 4: what was recorded stays, so this is exit 3; the message goes to standard error."""
    for more in ("", " --json"):
        script = f"{sys.executable} -m runner price --gpu b200 --days 7 --lots 1{more} > /dev/full"
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 3 and "Traceback" not in done.stderr
        assert done.stderr.startswith("error: the result cannot be written to standard output: No space left"), more


def test_an_interruption_and_a_bug_are_one_json_object_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """DESIGN 4: `--json` for machines, whatever happens."""
    for error, status, words in (
        (KeyboardInterrupt(), 3, "interrupted"),
        (ZeroDivisionError("x"), 1, "internal error"),
    ):

        def broken(error: BaseException = error, **_: object) -> None:
            raise error

        monkeypatch.setattr(cli, "main", broken)
        assert run(["measure", "--json"]) == status
        shown = json.loads(capsys.readouterr().out)
        assert shown["exit_code"] == status and shown["error"].startswith(words) and shown["next_step"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [("records/.plan-sheet.csv.123.tmp", "records/plan-sheet.csv"), ("c/.note-2sf4fup2", "c"), ("a/b.csv", "a/b.csv")],
)
def test_a_refused_file_has_the_name_that_people_know(
    name: str, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """DESIGN 4: a read-only folder is named by what was to be written, not by a temporary name."""

    def broken(**_: object) -> None:
        raise PermissionError(13, "Permission denied", name)

    monkeypatch.setattr(cli, "main", broken)
    assert run(["plan"]) == 2
    assert f"\n  where: {shown}\n" in capsys.readouterr().err


def test_a_wrong_option_is_called_an_option_and_a_field_a_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """DESIGN 4: the place of a value is named as what it is; column is for tables."""
    assert run(["measure", "--gpu", "cpu", "--batches", "1 x"]) == 2
    assert "where: option --batches\n" in capsys.readouterr().err
    (tmp_path / "protocol").mkdir()
    (tmp_path / "protocol/quality-protocol.toml").write_text(
        'schema_version = "protocol/1"\n[nonsense]\n', encoding="utf-8"
    )
    assert run(["--campaign", str(tmp_path), "baseline"]) == 2
    shown = capsys.readouterr().err
    assert "quality-protocol.toml" in shown and ", field " in shown and "column" not in shown


def test_answers_of_a_new_protocol_are_refused_by_their_fields(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 3 line 1: nothing was written, so no line of a file that nobody has is named."""
    answers = {"--name": "a b", "--text": "t", "--corpus": "c.csv", "--model": "m", "--metric": "foo",
               "--threshold": "0,5", "--max-drop": "0", "--min-agreement": "1"}  # fmt: skip
    words = [word for pair in answers.items() for word in pair]
    assert run(["--campaign", str(tmp_path), "protocol", "new", *words]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: nothing was written: the answers have 4 faults") and "/tmp/runner" not in shown
    assert "  - quality.threshold must be a decimal" in shown and list(tmp_path.iterdir()) == []


def test_a_corpus_for_no_predictions_is_not_ignored(capsys: pytest.CaptureFixture[str]) -> None:
    """DESIGN 4: an option without effect would be taken for one with."""
    assert run(["validate", "--corpus", "x"]) == 2
    assert "--corpus belongs to --predictions" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--passes", "--nnodes"])
def test_no_passes_and_no_machines_are_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["measure", "--gpu", "cpu", option, "0"]) == 2
    assert f"Invalid value for '{option}': 0 is not in the range x>=1" in capsys.readouterr().err


def test_a_dumb_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar is drawn only where a line can be taken back."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert make_progress().live
    monkeypatch.setenv("TERM", "dumb")
    assert not make_progress().live


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (125, "2 min 05 s"), (3600, "1 h"), (12000, "3 h 20 min")],
)
def test_time_left_is_in_words(seconds: int, shown: str) -> None:
    """One style for elapsed time: no 1:00:00."""
    assert rough(seconds) == shown


def test_what_the_system_refuses_is_exit_2_not_a_bug(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--campaign", "c" * 5000, "decide"]) == 2
    assert "internal error" not in capsys.readouterr().err


def test_a_pipe_as_protocol_is_refused_and_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "protocol").mkdir()
    os.mkfifo(tmp_path / "protocol" / "quality-protocol.toml")
    assert run(["--campaign", str(tmp_path), "baseline"]) == 2
    assert "not a regular file" in capsys.readouterr().err


def without(modules: tuple[str, ...], *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A call in an installation that lacks these modules."""
    script = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({modules!r}))\n"
        f"from runner.cli.main import run\nsys.exit(run({list(arguments)!r}))"
    )
    return subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False)


def test_a_part_that_is_not_installed_is_named_and_is_no_bug(tmp_path: Path) -> None:
    """Issue 2.2: a rental has no WeasyPrint, a laptop no torch; the refusal names the part and the command."""
    report = without(PARTS["report"], "report", folder=tmp_path)
    assert report.returncode == 2
    assert "needs the part `report`" in report.stderr
    assert 'next:  make setup EXTRAS="report"' in report.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_missing_module_of_the_measuring_part_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(**_: object) -> None:
        raise ModuleNotFoundError("No module named 'torch.cuda'", name="torch.cuda")

    monkeypatch.setattr(cli, "main", broken)
    assert run(["measure", "--json"]) == 2
    shown = capsys.readouterr()
    assert json.loads(shown.out)["next_step"] == 'make setup EXTRAS="measure"'
    assert "(torch is missing)" in shown.err


def test_the_parts_are_those_of_the_installation() -> None:
    """Each module that only an extra brings is known as such, so that its absence is never called a bug."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    providers = packages_distributions()
    for part, modules in PARTS.items():
        asked = {re.split(r"[>=\[]", line)[0].lower().replace("_", "-") for line in extras[part]}
        brought = {name.lower().replace("_", "-") for module in modules for name in providers.get(module, ())}
        assert asked <= brought | {"nvidia-ml-py"}, part


NOTHING_THERE = {
    "corpus": ["--from", "x.csv"], "measure": ["--gpu", "cpu"], "exclude": ["a", "--reason", "r", "--rule", "x = 1"],
    "archive": ["--rental", "r.toml"], "again": ["a", "b"], "compare": ["a", "b"], "collect": ["a"],
    "reprice": ["a", "b", "--tariffs", "t.csv"], "forecast": ["--documents", "9"], "rental": ["r.toml"],
    "price": ["--gpu", "b200", "--days", "7"],
}  # fmt: skip
NEED_NO_CAMPAIGN = {"doctor", "protocol", "demo-model"}


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - NEED_NO_CAMPAIGN))
def test_without_a_campaign_every_command_refuses_and_writes_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 2, bad input: what is missing is exit 2, one message that names the file, nothing written."""
    monkeypatch.chdir(tmp_path)
    assert run([name, *NOTHING_THERE.get(name, [])]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: "), shown
    assert shown.count("error: ") == 1
    assert "\n  where: " in shown
    assert "\n  next:  " in shown
    assert run([name, *NOTHING_THERE.get(name, []), "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert (
        told["exit_code"] == 2 and told["error"] == shown.splitlines()[0].removeprefix("error: ") and told["next_step"]
    )
    assert list(tmp_path.iterdir()) == []


def test_questions_without_anybody_to_answer_are_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runner", "--campaign", str(tmp_path), "protocol", "new", "--json"],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "error: the input ended before every question was answered\n  next:  give the answers" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("part", ["protocol", "records"])
def test_a_part_of_a_campaign_is_not_the_campaign(
    part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 2, bad input: CAMPAIGN=protocol is named as what it is; a campaign whose folder has that name is fine."""
    root = make_campaign(tmp_path / "my campaign").root
    (root / part).mkdir(exist_ok=True)
    assert run(["--campaign", str(root / part), "freeze"]) == 2
    said = capsys.readouterr().err
    assert f"this is the folder {part}/ of a campaign" in said and f"--campaign '{root}'" in said
    assert sorted(path.name for path in root.iterdir()) == sorted({"protocol", part})
    inner = make_campaign(root / part / "mine" / part)
    assert run(["--campaign", str(inner.root), "freeze"]) == 0


def test_a_folder_that_is_not_there_says_how_to_begin(capsys: pytest.CaptureFixture[str]) -> None:
    """Issue 2, bad input: for --campaign /nowhere the next step is no list of options."""
    assert run(["--campaign", "/no where", "freeze"]) == 2
    said = capsys.readouterr().err
    assert "value: '/no where'" in said
    assert "runner --campaign '/no where' protocol new" in said and "runner again NOTE_OR_ARCHIVE '/no where'" in said


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["price"], "Missing option '--gpu'. Name in tariffs.csv"),
        (["memory", "--precision", "xx"], "Invalid value for '--precision': 'xx' is not one of 'fp32', 'fp16', 'bf16'"),
        (["doctor", "--colour"], "No such option '--colour'"),
        (["verify", "a", "b"], "Got unexpected extra argument (b)"),
        (["--campaign", "/no/such/folder", "decide"], "there is no such folder"),
    ],
)
def test_a_wrong_call_is_one_message_and_for_machines_one_object(
    arguments: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 2, bad input: exit 2, one message, the next command; with --json one object as well."""
    assert run(arguments) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith(f"error: {what}"), shown.err
    assert shown.err.count("error") == 1
    assert "\n  next:  " in shown.err
    assert shown.out == ""
    assert run([*arguments, "--json"]) == 2
    shown = capsys.readouterr()
    assert json.loads(shown.out)["error"].startswith(what.split(":")[0].split(". ")[0])
