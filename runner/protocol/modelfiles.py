"""The model's files: found, checked for code and pickles, hashed one by one (M8, MO-12, MO-19)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.errors import InputRefused, show_value
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import load_json_file, sha256_file
from runner.protocol.changes import Change
from runner.protocol.inputs import FileIdentity
from runner.protocol.read import read_protocol
from runner.protocol.schema import Lock, LockedFile, Model

_COMMIT = re.compile(r"[0-9a-f]{40}")
_HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
_PICKLES = {".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".msgpack", ".h5", ".npy", ".npz"}
_DOCUMENTS = {".md", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".pdf"}
_OTHER_FRAMEWORKS = ("*.h5", "*.msgpack", "*.ot", "*.onnx", "*.tflite", "*.gguf", "onnx/*", "openvino/*", "coreml/*")


@dataclass(frozen=True)
class ModelFolder:
    """Folder to load from, the files that count, and for a hub model its commit.

    `download_seconds`: how long fetching it took just now; None where nothing was fetched.
    `identities`: of each file when it was hashed, so that a later change is seen without hashing again.
    """

    path: Path
    files: tuple[LockedFile, ...]
    revision: str | None
    download_seconds: float | None = None
    identities: Mapping[str, FileIdentity] = field(default_factory=dict)


def resolve_model(model: Model, protocol_dir: Path, *, revision: str | None = None) -> ModelFolder:
    """Find the model and hash its files. `revision`: the commit of a lock, else the protocol's.

    Refused before anything is loaded: custom code or pickled weights that the protocol does not allow.
    """
    folder, commit, seconds = _locate(model, protocol_dir, revision)
    if not (folder / "config.json").is_file():
        raise InputRefused(
            "the model folder has no config.json",
            file=folder,
            next_step="name the folder that holds the model's files",
        )
    _refuse_custom_code(folder, model)
    files, identities = _hashed(folder, model, commit)
    return ModelFolder(folder, files, commit, seconds, identities)


def model_path(model: Model, protocol_dir: Path) -> Path:
    """Where the model's folder is, found or fetched; none of its files is looked at."""
    return _locate(model, protocol_dir, None)[0]


def check_model(campaign: Campaign, lock: Lock) -> Path:
    """The folder to load from; see `checked_model`."""
    return checked_model(campaign, lock).path


def checked_model(campaign: Campaign, lock: Lock) -> ModelFolder:
    """The model, if every file is as it was at the freeze (MO-19)."""
    found = _found(campaign, lock)
    changes = _file_changes(lock, found)
    if changes:
        changed = {change.field for change in changes}
        equal = [file.path for file in lock.judgement.model_files if f"model file {file.path}" not in changed]
        raise InputRefused(
            "the model is not the frozen one",
            file=found.path,
            details=(*(str(change) for change in changes), f"as frozen: {', '.join(equal) or 'no file'}"),
            next_step="put the frozen files back; another model needs a new protocol revision (runner protocol revise)",
        )
    return found


def model_changes(campaign: Campaign, lock: Lock) -> tuple[Change, ...]:
    """Model files whose content differs from the freeze, or that came or went."""
    return _file_changes(lock, _found(campaign, lock))


def frozen_model(campaign: Campaign, lock: Lock) -> Model:
    """The frozen model, for a local one at the place that the protocol file names now: its files count, not its place.

    A protocol file that cannot be read is refused where it is needed; here the frozen place is taken.
    """
    model = lock.protocol.model
    if lock.judgement.model_revision is not None:
        return model
    try:
        return model.model_copy(update={"source": read_protocol(campaign.protocol).model.source})
    except InputRefused:
        return model


def _found(campaign: Campaign, lock: Lock) -> ModelFolder:
    return resolve_model(frozen_model(campaign, lock), campaign.protocol_dir, revision=lock.judgement.model_revision)


def _file_changes(lock: Lock, found: ModelFolder) -> tuple[Change, ...]:
    now = {file.path: file.sha256 for file in found.files}
    frozen = {file.path: file.sha256 for file in lock.judgement.model_files}
    return tuple(
        Change(f"model file {name}", frozen.get(name), now.get(name))
        for name in sorted(now.keys() | frozen.keys())
        if now.get(name) != frozen.get(name)
    )


def _locate(model: Model, protocol_dir: Path, revision: str | None) -> tuple[Path, str | None, float | None]:
    source = Path(model.source)
    local = source if source.is_absolute() else protocol_dir / source
    if local.is_dir():
        return local, None, None
    if source.is_absolute() or model.source.startswith((".", "~")) or not _HUB_ID.fullmatch(model.source):
        raise InputRefused(
            "the model folder does not exist",
            file=local,
            next_step="set source under [model] to where it lies here (its place may change after the freeze, its "
            "files may not)",
        )
    wanted = revision or model.revision
    if wanted is None:
        raise InputRefused(
            f"{show_value(model.source)} is no folder below {protocol_dir}, and as a hub id it needs a revision",
            next_step="put the folder back there, or set source to its place; "
            'for a hub id set revision = "<commit>" under [model]',
        )
    return _from_hub(model.source, wanted, pickles=model.allow_pickle)


def _from_hub(name: str, revision: str, *, pickles: bool) -> tuple[Path, str, float | None]:
    """Download (or find in the cache) one commit; a moving name is resolved to its commit first."""
    try:
        import huggingface_hub as hub
    except ImportError:
        raise InputRefused(
            "a model from the hub needs the package huggingface_hub",
            next_step='make setup EXTRAS="measure", or name a local folder',
        ) from None
    commit: str | None = revision
    if not _COMMIT.fullmatch(revision):
        commit = _asked(lambda: hub.model_info(name, revision=revision).sha, name)
    if commit is None:
        raise InputRefused(
            f"the hub names no commit for {show_value(name)} at {show_value(revision)}",
            next_step="name a revision that exists (a commit hash is best)",
        )
    ignored = [*_OTHER_FRAMEWORKS, *([] if pickles else [f"*{suffix}" for suffix in sorted(_PICKLES)])]
    seconds = None
    try:
        # What is already here needs no network, and a commit never changes.
        folder = hub.snapshot_download(name, revision=commit, ignore_patterns=ignored, local_files_only=True)
    except Exception:
        start = time.monotonic()
        folder = _asked(lambda: hub.snapshot_download(name, revision=commit, ignore_patterns=ignored), name)
        seconds = time.monotonic() - start
    return Path(folder), commit, seconds


def _asked(question: Callable[[], Any], name: str) -> Any:
    """The hub's answer; whatever goes wrong on the way is one message."""
    try:
        return question()
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputRefused(
            f"the model {show_value(name)} could not be had from the hub: {reason}",
            next_step="check name, revision and network, or download it elsewhere and name the local folder",
        ) from None


def _refuse_custom_code(folder: Path, model: Model) -> None:
    """A config with `auto_map` makes loaders run Python files: the folder's own, or of another repository."""
    asking: dict[str, list[str]] = {}
    for file in sorted(folder.glob("*.json")):
        if file.name not in ("config.json", "tokenizer_config.json"):
            continue
        content = load_json_file(file)
        if isinstance(content, dict) and content.get("auto_map"):
            asking[file.name] = sorted(_elsewhere(content["auto_map"]))
    if model.allow_custom_code:
        foreign = [f"{name}: {show_value(code)}" for name, codes in asking.items() for code in codes]
        if foreign:  # loaders take it from wherever it was downloaded to: no hash of ours would hold it (MO-12)
            raise InputRefused(
                "the model's Python code lies in another repository, so it cannot be hashed",
                file=folder,
                details=tuple(foreign),
                next_step="copy that code into the model folder and name it in auto_map without the repository",
            )
        return
    if asking:
        code = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*.py"))
        raise InputRefused(
            f"the model wants its own Python code to be run: auto_map in {', '.join(asking)}",
            file=folder,
            details=tuple(code) or ("the code lies in another repository",),
            next_step="read that code; then set allow_custom_code = true under [model] (every .py file is then hashed)",
        )


def _elsewhere(names: Any) -> Iterator[str]:
    """Entries of an `auto_map` such as `owner/name--file.Class`."""
    if isinstance(names, str):
        if "--" in names:
            yield names
    elif isinstance(names, dict | list):
        for one in names.values() if isinstance(names, dict) else names:
            yield from _elsewhere(one)


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "__pycache__")) for part in path.parts)


def counted_files(folder: Path, model: Model) -> list[tuple[str, Path]]:
    """All files that a loader may use, by name; pickles only where allowed."""
    return [(name, file) for name, file in _listed(folder) if model.allow_pickle or not _is_pickle(file)]


def _listed(folder: Path) -> list[tuple[str, Path]]:
    return sorted(
        (file.relative_to(folder).as_posix(), file)
        for file in folder.rglob("*")
        if file.is_file() and file.suffix.lower() not in _DOCUMENTS and not _is_hidden(file.relative_to(folder))
    )


def _is_pickle(file: Path) -> bool:
    return file.suffix.lower() in _PICKLES


def _hashed(folder: Path, model: Model, commit: str | None) -> tuple[tuple[LockedFile, ...], dict[str, FileIdentity]]:
    """The counted files with their fingerprints, and each one's identity when it was hashed."""
    files = _listed(folder)
    safe = [name for name, _ in files if name.endswith(".safetensors")]
    pickles = [name for name, file in files if _is_pickle(file)]
    if not safe and not pickles:
        raise InputRefused(
            "the model folder has no weights",
            file=folder,
            next_step="put model.safetensors there"
            if commit is None
            else "choose a revision with safetensors; pickled weights are only fetched with allow_pickle = true",
        )
    if not safe and not model.allow_pickle:
        raise InputRefused(
            "the weights are pickled: loading them could run any code",
            file=folder,
            details=tuple(pickles),
            next_step="convert them to safetensors, or set allow_pickle = true under [model] if you trust their source",
        )
    counted = counted_files(folder, model)
    identities = {name: FileIdentity.of(file) for name, file in counted}
    locked = tuple(LockedFile(path=name, sha256=sha256_file(file), bytes=file.stat().st_size) for name, file in counted)
    for name, file in counted:
        if FileIdentity.of(file) != identities[name]:
            raise InputRefused(
                "the model changes while it is read", file=file, next_step="wait until it is complete, then again"
            )
    return locked, identities
