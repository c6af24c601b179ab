"""An evaluation procedure of the user's own, named by the protocol, its source hashed at the freeze (M2).

`[evaluation] function` is one of: `folder/file.py:function` below `protocol/`, `package.module:function`
of an installed package, or the name of an entry point of the group `gpu_decision_note.metrics`. Finding
and hashing runs no code. `value_of` does, so only `freeze` and `validate` call it, and `verify` where asked.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import math
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any, TypeVar

from runner.errors import InputRefused, show_value
from runner.evidence.canonical import sha256_file
from runner.protocol.changes import Change
from runner.protocol.schema import Evaluation, LockedFile

T = TypeVar("T")
GROUP = "gpu_decision_note.metrics"
_CODE = {".py", ".so", ".pyd"}
_MOST_DIGITS = 300
_HELP = "docs/protocol.md, section 'A metric of your own', shows one"

foreign_code_allowed: ContextVar[bool] = ContextVar("foreign_code_allowed", default=False)
"""May `verify` run an evaluation procedure that came with what it verifies? Only if the user says so."""


@dataclass(frozen=True)
class Procedure:
    """Where the function is, and the fingerprint of every file of its source."""

    name: str
    attribute: str
    file: Path
    module: str | None
    """Name to import; None for a file below `protocol/`, which is run from its own bytes."""
    files: tuple[LockedFile, ...]


@dataclass(frozen=True)
class Answered:
    """What the function is given: one entry per document in corpus order, labels as texts."""

    truth: Sequence[str]
    predicted: Sequence[str]
    labels: Sequence[str]
    ids: Callable[[], Sequence[str]]


def find_procedure(evaluation: Evaluation, protocol_dir: Path) -> Procedure:
    """Find and hash it; no code of it runs. Refused: what is not there, or lies outside of `protocol/`."""
    where, separator, attribute = evaluation.function.partition(":")
    if not separator:
        where, attribute = _entry_point(evaluation.function)
    if where.endswith(".py"):
        file = _below(protocol_dir, where)
        path = f"{protocol_dir.name}/{PurePosixPath(where).as_posix()}"
        locked = LockedFile(path=path, sha256=sha256_file(file), bytes=file.stat().st_size)
        return Procedure(evaluation.name, attribute, file, None, (locked,))
    file, files = _installed(where)
    return Procedure(evaluation.name, attribute, file, where, files)


def source_files(procedures: Iterable[Procedure]) -> tuple[LockedFile, ...]:
    """Every source file of all procedures once, by name."""
    found = {file.path: file for procedure in procedures for file in procedure.files}
    return tuple(found[name] for name in sorted(found))


def procedure_changes(
    frozen: tuple[LockedFile, ...], evaluations: Iterable[Evaluation], protocol_dir: Path
) -> tuple[Change, ...]:
    """Source files that are not as they were at the freeze. A package that is not installed here is not looked at."""
    if not frozen:
        return ()
    now: dict[str, str] = {}
    here = {file.path: file.sha256 for file in frozen if file.path.startswith(f"{protocol_dir.name}/")}
    before = {file.path: file.sha256 for file in frozen}
    for evaluation in evaluations:
        try:
            now |= {file.path: file.sha256 for file in find_procedure(evaluation, protocol_dir).files}
        except InputRefused:
            before = {name: sha256 for name, sha256 in before.items() if name in here or name in now}
    return tuple(
        Change(f"file {name}", before.get(name), now.get(name))
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    )


def frozen_procedure(frozen: tuple[LockedFile, ...], evaluation: Evaluation, protocol_dir: Path) -> Procedure:
    """The procedure, if its source is as it was at the freeze; a changed file is refused by name."""
    found = find_procedure(evaluation, protocol_dir)
    known = {file.path: file.sha256 for file in frozen}
    changes = tuple(
        Change(f"file {file.path}", known.get(file.path), file.sha256)
        for file in found.files
        if known.get(file.path) != file.sha256
    )
    if changes:
        raise InputRefused(
            "the evaluation procedure is not the frozen one",
            file=found.file,
            details=tuple(str(change) for change in changes),
            next_step="put the frozen source back; another procedure needs a new revision (runner protocol revise)",
        )
    return found


def value_of(procedure: Procedure, answered: Answered) -> Fraction | None:
    """Run the function. Exact numbers stay exact, a float counts as the decimal that Python shows; None: undefined.

    Refused, with the line in the user's source: exceptions, other types, NaN and infinity.
    """
    given: dict[str, Callable[[], Any]] = {
        "truth": lambda: answered.truth,
        "predicted": lambda: answered.predicted,
        "labels": lambda: tuple(answered.labels),
        "ids": answered.ids,
    }
    return _called(procedure, given, lambda value: _exact(procedure, value))


def right_answers(procedure: Procedure, ids: Sequence[str], texts: Sequence[str]) -> tuple[str, ...]:
    """Labels of the documents, as the procedure gives them: one text for each, never empty."""

    def checked(value: Any) -> tuple[str, ...]:
        labels = tuple(value) if isinstance(value, list | tuple) else ()
        if len(labels) != len(ids):
            raise InputRefused(
                f"the right answers are {len(labels)} for {len(ids)} documents", file=procedure.file, next_step=_HELP
            )
        for place, label in enumerate(labels):
            if not isinstance(label, str) or not label.strip():
                raise InputRefused(
                    f"the right answer of document {show_value(ids[place])} is no label",
                    file=procedure.file,
                    value=str(label),
                    next_step="return one text for every document",
                )
        return labels

    return _called(procedure, {"ids": lambda: list(ids), "texts": lambda: list(texts)}, checked)


def _called(procedure: Procedure, given: Mapping[str, Callable[[], Any]], checked: Callable[[Any], T]) -> T:
    """Run the function with what it asks for by the names of its parameters; its prints go to stderr."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            function = _function(procedure)
            names = list(inspect.signature(function).parameters)
            unknown = [name for name in names if name not in given]
            if unknown or not names:
                raise InputRefused(
                    "the evaluation procedure asks for something that there is not",
                    file=procedure.file,
                    value=", ".join(unknown) or "nothing",
                    next_step=f"name its parameters among {', '.join(given)}; {_HELP}",
                )
            return checked(function(**{name: given[name]() for name in names}))
    except InputRefused:
        raise
    except (Exception, SystemExit) as error:
        raise _failed(procedure, error) from None


def _function(procedure: Procedure) -> Callable[..., Any]:
    if procedure.module is not None:
        module: Any = importlib.import_module(procedure.module)
    else:
        module = _run_file(procedure)
    found: Any = module
    for part in procedure.attribute.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise InputRefused(
            "the evaluation procedure names no function of that file",
            file=procedure.file,
            value=procedure.attribute,
            next_step=_HELP,
        )
    function: Callable[..., Any] = found
    return function


def _run_file(procedure: Procedure) -> ModuleType:
    """The module made of exactly the bytes that were hashed; nothing is written beside it."""
    source = procedure.file.read_bytes()
    module = ModuleType("evaluation_procedure")
    module.__file__ = str(procedure.file)
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module  # dataclasses look themselves up there
    try:
        exec(compile(source, str(procedure.file), "exec"), module.__dict__)
    finally:
        if before is None:
            del sys.modules[module.__name__]
        else:
            sys.modules[module.__name__] = before
    return module


def _exact(procedure: Procedure, value: Any) -> Fraction | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction | Decimal):
        if type(value).__module__ == "numpy" and hasattr(value, "item"):
            return _exact(procedure, value.item())
        raise _no_number(procedure, f"gives {type(value).__name__}", value)
    if not math.isfinite(value):
        raise _no_number(procedure, "gives a number that is not finite", value)
    if isinstance(value, Decimal) and abs(value.adjusted()) > _MOST_DIGITS:
        raise _no_number(procedure, "gives a number of too many digits", value)
    return Fraction(Decimal(repr(float(value)))) if isinstance(value, float) else Fraction(value)


def _no_number(procedure: Procedure, what: str, value: object) -> InputRefused:
    return InputRefused(
        f"the evaluation procedure '{procedure.name}' {what}",
        file=procedure.file,
        value=str(value),
        next_step="return a Fraction, Decimal, int or float, or None where the value is undefined",
    )


def _failed(procedure: Procedure, error: BaseException) -> InputRefused:
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(procedure.file)]
    line = own[-1].lineno if own else error.lineno if isinstance(error, SyntaxError) else None
    return InputRefused(
        f"the evaluation procedure '{procedure.name}' failed: {type(error).__name__}: {show_value(str(error))}",
        file=procedure.file,
        line=line,
        next_step=f"correct it before the freeze; {_HELP}",
    )


def _below(protocol_dir: Path, name: str) -> Path:
    pure = PurePosixPath(name)
    file = protocol_dir / pure
    if pure.is_absolute() or ".." in pure.parts or "\\" in name:
        raise InputRefused(
            "the evaluation procedure must lie below protocol/, written with '/'",
            column="evaluation.function",
            value=name,
            next_step="copy it below protocol/ and write folder/file.py:function",
        )
    if not file.is_file():
        raise InputRefused("the evaluation procedure is not there", file=file, next_step=_HELP)
    if not file.resolve().is_relative_to(protocol_dir.resolve()):
        raise InputRefused(
            "the evaluation procedure is a link out of protocol/",
            file=file,
            next_step="copy the file itself below protocol/",
        )
    return file


def _entry_point(name: str) -> tuple[str, str]:
    found = {entry.value for entry in importlib.metadata.entry_points(group=GROUP, name=name)}
    if len(found) != 1:
        there = sorted({entry.name for entry in importlib.metadata.entry_points(group=GROUP)})
        raise InputRefused(
            f"{len(found) or 'no'} installed packages offer an evaluation procedure of that name",
            column="evaluation.function",
            value=name,
            details=(f"entry points of the group {GROUP}: {', '.join(there) or 'none'}",),
            next_step="install the package that has it, or name folder/file.py:function below protocol/",
        )
    module, _, attribute = found.pop().partition(":")
    return module.strip(), attribute.split("[")[0].strip()


def _installed(module: str) -> tuple[Path, tuple[LockedFile, ...]]:
    """The module's file, and all source files of its top-level package; nothing is imported."""
    top, *inner = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is None or (spec.origin is None and not spec.submodule_search_locations):
        raise InputRefused(
            "the package of the evaluation procedure is not installed",
            column="evaluation.function",
            value=module,
            next_step="install it into the environment of the runner (.venv), or put the file below protocol/",
        )
    if not spec.submodule_search_locations:
        file = Path(str(spec.origin))
        if inner or not file.is_file():
            raise InputRefused(
                "no such module",
                column="evaluation.function",
                value=module,
                next_step=f"correct the name of the module; {_HELP}",
            )
        return file, (LockedFile(path=file.name, sha256=sha256_file(file), bytes=file.stat().st_size),)
    root = Path(spec.submodule_search_locations[0])
    candidates = (
        root.joinpath(*inner).with_suffix(".py") if inner else root / "__init__.py",
        root.joinpath(*inner) / "__init__.py",
    )
    file = next((path for path in candidates if path.is_file()), candidates[0])
    if not file.is_file():
        raise InputRefused(
            "no such module",
            file=file,
            column="evaluation.function",
            value=module,
            next_step=f"correct the name of the module; {_HELP}",
        )
    sources = sorted(path for path in root.rglob("*") if path.suffix in _CODE and path.is_file())
    return file, tuple(
        LockedFile(path=path.relative_to(root.parent).as_posix(), sha256=sha256_file(path), bytes=path.stat().st_size)
        for path in sources
    )
