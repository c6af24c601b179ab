"""README and docs: every command that they show exists, with its options, and links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from runner.cli.main import COMMANDS, cli

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
