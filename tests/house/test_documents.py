"""README and docs: every command shown exists and takes what is shown, blocks are valid, links lead somewhere."""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from runner.cli.main import COMMANDS, PARTS, cli, run

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
DOCUMENTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md")] + sorted((ROOT / "docs").glob("*.md"))
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
_VARIABLES = re.search(r"USER_VARIABLES := ((?:.*\\\n)*.*)", MAKEFILE)
VARIABLES = set() if _VARIABLES is None else set(_VARIABLES.group(1).replace("\\\n", " ").split())


def shown_commands(text: str) -> list[list[str]]:
    """Words of every shell line in a fenced block, and of every inline `make ...` or `runner ...`."""
    fenced = re.findall(r"^```(?:sh|console)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in fenced for line in block.splitlines()]
    lines += re.findall(r"`((?:make|runner) [^`<]*)`", text)
    return [shlex.split(line.removeprefix("$ "), comments=True) for line in lines if line.strip()]


def complaint(words: list[str]) -> str | None:
    """What is wrong with a shown command, or None."""
    if words[:1] == ["make"]:
        for word in words[1:]:
            if "=" in word:
                if word.split("=")[0] not in VARIABLES:
                    return f"unknown variable {word}"
            elif word not in TARGETS:
                return f"unknown target {word}"
        return None
    if words[:1] not in (["runner"], [".venv/bin/runner"]):
        return None
    rest = words[1:]
    while rest[:1] == ["--campaign"]:
        rest = rest[2:]
    if not rest or rest[0].startswith("-"):
        return None
    if rest[0] not in COMMANDS:
        return f"unknown command {rest[0]}"
    command = cli.get_command(click.Context(cli), rest[0])
    if isinstance(command, click.Group) and len(rest) > 1 and not rest[1].startswith("-"):
        command = command.get_command(click.Context(command), rest[1])
        if command is None:
            return f"unknown command {rest[0]} {rest[1]}"
    assert command is not None
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    unknown = [word for word in rest if word.startswith("--") and word.split("=")[0] not in known]
    return f"{rest[0]} has no option {unknown[0]}" if unknown else None


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_shown_commands_exist(document: Path) -> None:
    commands = shown_commands(document.read_text(encoding="utf-8"))
    complaints = [f"{' '.join(words)}: {found}" for words in commands if (found := complaint(words))]
    assert not complaints


@pytest.mark.parametrize(
    "line",
    ["make nonsense", "make price COLOUR=red", "runner mesure", "runner price --colour red", "runner protocol x"],
)
def test_the_check_itself_refuses(line: str) -> None:
    assert complaint(shlex.split(line)) is not None


def test_readme_shows_the_two_commands() -> None:
    words = shown_commands((ROOT / "README.md").read_text(encoding="utf-8"))
    assert [line for line in words if line[0] == "make"][:2] == [["make", "note"], ["make", "test"]]


def test_ci_calls_the_test_command_of_the_readme_then_lint() -> None:
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert re.findall(r"^make .*$", script, re.MULTILINE) == ["make test", "make lint"]


RECORDER = """#!/bin/sh
for word in "$@"; do printf '%s\\n' "$word"; done > arguments.txt
"""
INSTALLING = {"setup", "note", "test", "test-gpu", "lint", "bench", "lock", "clean", "help"}
# Programs of others that the blocks show; tests/flows/test_checking_docs.py runs those that check a note.
FOREIGN = {
    "cd", "cp", "export", "find", "mkdir", "pdfdetach", "pdfsig", "pdftoppm", "python3", "scp", "sha256sum",
    "ssh-keygen", "tar",
}  # fmt: skip


def blocks(document: Path) -> list[tuple[str, str]]:
    """(language, text) of every fenced block."""
    return re.findall(r"^```(\w*)\n(.*?)^```", document.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def front_door(tmp_path: Path) -> Path:
    """The real Makefile with a `runner` that writes down its arguments."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/note_is_fresh.py").write_text("raise SystemExit(1)\n", encoding="utf-8")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    for name in ("pyproject.toml", "constraints.txt", "requirements-torch.txt"):
        (tmp_path / name).touch()
    (tmp_path / ".venv/bin/runner").write_text(RECORDER, encoding="utf-8")
    (tmp_path / ".venv/bin/runner").chmod(0o755)
    (tmp_path / ".venv/installation.json").write_text("{}", encoding="utf-8")
    return tmp_path


def refused_by_the_parser(words: list[str]) -> str | None:
    """What click says against the words of a `runner` call, or None. Nothing is run."""
    rest = words[:]
    while rest[:1] == ["--campaign"]:
        rest = rest[2:]
    command = cli.get_command(click.Context(cli), rest[0])
    assert command is not None
    if isinstance(command, click.Group) and rest[1:] and not rest[1].startswith("-"):
        command, rest = command.get_command(click.Context(command), rest[1]), rest[1:]
        assert command is not None
    if "--help" in rest:
        return None
    try:
        command.make_context(rest[0], rest[1:])
    except click.ClickException as error:
        return error.format_message()
    return None


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_shown_commands_take_what_is_shown(document: Path, front_door: Path) -> None:
    """DESIGN 4: through make and the parser of the command itself, with every value as it stands there."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    lines = [line for language, text in blocks(document) if language in ("sh", "console") for line in text.splitlines()]
    refused = []
    for line in lines:
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words[:1] == ["make"] and not set(words[1:]) & INSTALLING:
            done = subprocess.run(
                ["make", *words[1:]], cwd=front_door, env=clean, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, (line, done.stderr)
            words = ["runner", *(front_door / "arguments.txt").read_text(encoding="utf-8").splitlines()]
        if words[:1] in (["runner"], [".venv/bin/runner"]) and (found := refused_by_the_parser(words[1:])):
            refused.append(f"{line}: {found}")
    assert refused == []


def test_the_prices_in_the_readme_are_those_that_are_printed(
    front_door: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """M36, M41: what stands behind each `make price` is in what it prints."""
    lines = re.findall(r"^(make price .*?) +# (?:and the )?(.*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(lines) == 3
    monkeypatch.chdir(ROOT)
    for line, shown in lines:
        subprocess.run(shlex.split(line), cwd=front_door, capture_output=True, check=True)
        assert run((front_door / "arguments.txt").read_text(encoding="utf-8").splitlines()) == 0
        printed = capsys.readouterr().out
        assert all(part in printed for part in shown.split(", 2")[0].split(", ") if part), (line, printed)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_block_is_of_a_known_kind_and_valid(document: Path) -> None:
    """Shell lines parse and call known programs; Python compiles, TOML is read; the rest is output or a drawing."""
    for language, text in blocks(document):
        if language in ("sh", "console"):
            assert (
                subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False).returncode == 0
            ), text
            programs = {words[0] for line in text.splitlines() if (words := shlex.split(line, comments=True))}
            programs = {name for name in programs if "=" not in name}
            assert programs <= FOREIGN | {"make", "runner", ".venv/bin/runner"}, programs - FOREIGN
        elif language == "python":
            ast.parse(text)
        elif language == "toml":
            tomllib.loads(text)
        else:
            assert language in ("", "text", "css", "answer", "example"), language
        named = re.findall(r"^ *(?:runner|make) [a-z].*$", text, re.MULTILINE) if language in ("", "text") else []
        for line in named:
            words = line.split("   ")[0].split()
            assert complaint(words) is None, line


@pytest.mark.parametrize(
    "words", [["price", "--days", "7"], ["measure", "--gpu", "cpu", "--passes", "x"], ["protocol", "revise"]]
)
def test_the_parser_is_really_asked(words: list[str]) -> None:
    assert refused_by_the_parser(words) is not None


def test_the_files_and_folders_that_the_architecture_names_exist() -> None:
    """docs/architecture.md: every path of this repository in backquotes is there."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    named = set(
        re.findall(
            r"`((?:runner|tools|templates|docs|benchmarks|tests|cli|flows)/[\w./-]*|[a-z_-]+\.(?:py|toml|txt))`", text
        )
    )
    places = [ROOT, *(ROOT / "runner").glob("*/"), ROOT / "runner", ROOT / "protocol"]
    lost = [name for name in named if not any((place / name).exists() for place in places)]
    assert lost == [] and len(named) > 8


def test_the_parts_of_the_readme_are_those_that_exist() -> None:
    """README, Installing: the values of EXTRAS are the extras of pyproject.toml."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (paragraph,) = [part for part in text.split("\n\n") if "`EXTRAS` chooses the parts" in part]
    assert set(PARTS) <= set(extras) and all(f"`{name}`" in paragraph for name in extras)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(document: Path) -> None:
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    lost = [link for link in links if "://" not in link and not (document.parent / link).exists()]
    assert not lost


def test_every_room_is_explained() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    rooms = [path.parent.name for path in (ROOT / "runner").glob("*/__init__.py")]
    assert [room for room in rooms if f"`{room}/`" not in text] == []


def test_lines_of_the_changelog_are_as_long_as_those_of_the_code() -> None:
    """CHANGELOG: many write into it, and a long line hides what was changed in it."""
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    assert [number for number, line in enumerate(lines, 1) if len(line) > 120] == []
