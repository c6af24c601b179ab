"""DESIGN 4: every refusal says what to do next, and the commands that it names can be typed as they stand."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from runner.cli.main import COMMANDS, cli
from runner.errors import InputRefused, NotAccepted, RunnerError
from runner.pricing.core import PriceError

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "runner").rglob("*.py"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
FAMILY = {"RunnerError", "InputRefused", "NotAccepted", "PriceError"}
# English after "make" that is no target.
PROSE = {"room", "the", "it", "a", "an", "one"}


def is_refusal(call: ast.Call, families: set[str]) -> bool:
    """`InputRefused(...)`, or the `super().__init__(...)` of a class that is one."""
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr == "__init__":
        return isinstance(function.value, ast.Call) and ast.unparse(function.value) == "super()"
    return isinstance(function, ast.Name) and function.id in families


def refusals(tree: ast.AST) -> Iterator[ast.Call]:
    """Every place where an error of the family is made, but those whose class adds the next step itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            heir = {ast.unparse(base) for base in node.bases} & FAMILY
            inside = [one for one in ast.walk(node) if isinstance(one, ast.Call)]
            if heir and node.name not in FAMILY:
                yield from (one for one in inside if is_refusal(one, set()))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and is_refusal(node, FAMILY):
            yield node


def next_step(call: ast.Call) -> ast.expr | None:
    return next((word.value for word in call.keywords if word.arg == "next_step"), None)


def without_a_next_step(source: str) -> list[int]:
    """Lines of refusals that name none, or an empty one."""
    return [
        call.lineno
        for call in refusals(ast.parse(source))
        if (step := next_step(call)) is None or (isinstance(step, ast.Constant) and not str(step.value or "").strip())
    ]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT / "runner").as_posix())
def test_every_refusal_in_the_source_has_a_next_step(path: Path) -> None:
    """DESIGN 4: in every module, without exception."""
    assert without_a_next_step(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    ["raise InputRefused('x')", "raise NotAccepted('x', next_step='')", "raise PriceError('x', next_step=None)",
     "class A(InputRefused):\n    def __init__(self):\n        super().__init__('x')"],
)  # fmt: skip
def test_the_check_finds_a_refusal_without_one(source: str) -> None:
    assert len(without_a_next_step(source)) == 1


@pytest.mark.parametrize("kind", [RunnerError, InputRefused, NotAccepted, PriceError])
def test_an_error_cannot_be_made_without_a_next_step(kind: type[Exception]) -> None:
    """DESIGN 4: the type demands it, so that mypy refuses what the tests above would find."""
    parameter = inspect.signature(kind).parameters["next_step"]
    assert parameter.default is inspect.Parameter.empty and parameter.annotation == "str"


# ---- the commands in it --------------------------------------------------------------------------


def commands() -> dict[str, click.Command]:
    """All of them, those of groups as `protocol new`."""
    found = {}
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        found[name] = command
        if isinstance(command, click.Group):
            found |= {f"{name} {inner}": one for inner, one in command.commands.items()}
    return found


def options(command: click.Command) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts} | {"--help"}


KNOWN = commands()
ANY_OPTION = {"--campaign", "--version"}.union(*map(options, KNOWN.values()))
TARGETS = dict(re.findall(r"^([a-z-]+):.*\n((?:\t.*\n)*)", MAKEFILE, re.MULTILINE))
ANY_RECIPE = re.compile(r"\$\$\{?([A-Z_]+)")
KEYS = {"SIGNING_KEY", "PDF_SIGNING_P12", "PDF_SIGNING_PASSPHRASE_FILE", "CAMPAIGN"}


def complaints(text: str) -> list[str]:
    """Commands, options, targets and variables in a next step that do not exist."""
    found = []
    for part in re.split(r"(?=\brunner [a-z])|(?=\bmake [a-z])|[;,:)`]", text):
        call = re.match(r"runner ([a-z-]+)(?: ([a-z-]+))?", part)
        target = re.match(r"make ([a-z-]+)(?!\w)", part)
        wanted = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", part))
        if call is not None and call[1] not in KNOWN:
            found.append(f"there is no `runner {call[1]}`")
        elif call is not None:
            command = KNOWN[call[1]]
            command = KNOWN.get(f"{call[1]} {call[2]}", command) if isinstance(command, click.Group) else command
            found += [f"`runner {call[1]}` has no {option}" for option in sorted(wanted - options(command))]
        elif target is not None and target[1] not in PROSE:
            if target[1] not in TARGETS:
                found.append(f"there is no `make {target[1]}`")
                continue
            given = set(re.findall(r"\b([A-Z_0-9]{2,})=", part))
            used = set(ANY_RECIPE.findall(TARGETS[target[1]])) | KEYS | {"EXTRAS", "SYSTEM_TORCH", "PYTHON"}
            found += [f"`make {target[1]}` reads no {name}" for name in sorted(given - used)]
        else:
            found += [f"no command has {option}" for option in sorted(wanted - ANY_OPTION)]
    return found


def texts(node: ast.expr, module: object) -> Iterator[str]:
    """What an expression can say: its literals and constants of modules, `X` for every value put in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        pieces = [next(texts(part, module), "X") if not isinstance(part, ast.FormattedValue) else
                  next(texts(part.value, module), "X") for part in node.values]  # fmt: skip
        yield "".join(pieces)
    elif isinstance(node, ast.Name):
        if isinstance(known := getattr(module, node.id, None), str):
            yield known
    elif isinstance(node, ast.BinOp):
        yield next(texts(node.left, module), "X") + next(texts(node.right, module), "X")
    elif isinstance(node, ast.IfExp | ast.BoolOp):
        for one in (node.body, node.orelse) if isinstance(node, ast.IfExp) else node.values:
            yield from texts(one, module)


def next_steps(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of every next step of a module: of refusals, of findings, and of `next:` lines that are printed."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    module = sys.modules.get(name) or importlib.import_module(name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for word in node.keywords:
                if word.arg == "next_step":
                    yield from ((node.lineno, text) for text in texts(word.value, module))
            if isinstance(node.func, ast.Name) and node.func.id == "Finding" and len(node.args) > 2:
                yield from ((node.lineno, text) for text in texts(node.args[2], module))
        if isinstance(node, ast.Constant | ast.JoinedStr):
            yield from ((node.lineno, text) for text in texts(node, module) if text.startswith("next: "))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT / "runner").as_posix())
def test_commands_in_a_next_step_exist_with_their_options(path: Path) -> None:
    """DESIGN 4: 'the next command to run' runs."""
    source = path.read_text(encoding="utf-8")
    steps = next_steps(path) if "next_step" in source or "next: " in source else ()
    found = [f"{line}: {what} in {text!r}" for line, text in steps for what in complaints(text)]
    assert found == []


@pytest.mark.parametrize(
    "text",
    ["runner mesure", "runner freeze --force", "run runner decide, then runner raport", "make notes",
     "make price COLOUR=1", "give --colour", "runner protocol new --colour"],
)  # fmt: skip
def test_the_check_finds_what_does_not_exist(text: str) -> None:
    assert len(complaints(text)) == 1


@pytest.mark.parametrize("text", ["make room", "make price GPU=b200", "runner archive --rental X", "give --campaign X"])
def test_the_check_lets_pass_what_does(text: str) -> None:
    assert complaints(text) == []


def test_nobody_is_told_to_fetch_this_project_from_an_index() -> None:
    """It is on none: whoever takes its name there would be installed instead. `make setup` brings the parts."""
    for path in sorted((ROOT / "runner").rglob("*.py")):
        assert not re.search(r"pip install \S*gpu-decision-note", path.read_text(encoding="utf-8")), path
