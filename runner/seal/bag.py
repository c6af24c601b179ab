"""The archive: a BagIt 1.0 bag (RFC 8493) in a canonical ZIP container, signed over its tag manifest.

The signature covers `tagmanifest-sha256.txt`, which covers the other tag files and with
`manifest-sha256.txt` the whole payload: no byte of the archive is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from runner.errors import NotAccepted, show_value
from runner.evidence.canonical import sha256_bytes, sha256_file
from runner.seal.container import ANOTHER_COPY, Source, read_container

SIGNATURE = "tagmanifest-sha256.txt.sig"
SIGNED = "tagmanifest-sha256.txt"
PAYLOAD = "data/"
RENTAL = "rental.toml"
LEFT_OUT = "left-out.txt"
_DECLARATION = b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"
_ENTRY = re.compile(r"([0-9a-f]{64})  (.+)")
_INFO = re.compile(r"([A-Za-z][A-Za-z-]*): (\S.*)")
_TAGS = ("HOW-TO-CHECK.txt", "bag-info.txt", "bagit.txt", "manifest-sha256.txt", SIGNED, SIGNATURE)


@dataclass(frozen=True)
class Bag:
    """A bag (one from `read_bag` fits its manifests); the signature is still to be checked.

    Payload names are without `data/`.
    """

    name: str
    info: Mapping[str, str]
    payload: Mapping[str, bytes]
    signed: bytes
    signature: bytes


def build_bag(
    name: str,
    payload: Mapping[str, Source],
    info: Mapping[str, str],
    sign: Callable[[bytes], bytes],
    how_to_check: str,
) -> dict[str, Source]:
    """All files of a bag in its folder `name`, ready for `write_container`.

    `payload`: names without `data/`. `info`: what `bag-info.txt` says. `sign` signs the tag manifest.
    `how_to_check`: the text for people (`runner.note.howto`).
    """
    sizes = [len(source) if isinstance(source, bytes) else source.stat().st_size for source in payload.values()]
    lines = {**info, "Payload-Oxum": f"{sum(sizes)}.{len(sizes)}"}
    tags: dict[str, bytes] = {
        "bagit.txt": _DECLARATION,
        "bag-info.txt": "".join(f"{key}: {value}\n" for key, value in sorted(lines.items())).encode("utf-8"),
        "HOW-TO-CHECK.txt": how_to_check.encode("utf-8"),
        "manifest-sha256.txt": _manifest({PAYLOAD + key: _sha256(source) for key, source in payload.items()}),
    }
    tags[SIGNED] = _manifest({key: sha256_bytes(data) for key, data in tags.items()})
    tags[SIGNATURE] = sign(tags[SIGNED])
    files: dict[str, Source] = {f"{name}/{key}": data for key, data in tags.items()}
    return files | {f"{name}/{PAYLOAD}{key}": source for key, source in payload.items()}


def left_out_files(bag: Bag) -> frozenset[str]:
    """Paths of the signed list that this bag says it does not hold (a shareable one, without texts)."""
    return frozenset(_lines(bag.payload.get(LEFT_OUT, b"")))


def read_bag(path: Path) -> Bag:
    """Read an archive without writing anything; every deviation from what `build_bag` makes is named."""
    found = open_bag(read_container(path), path)
    if found.what is not None:
        raise NotAccepted(found.what, file=path, details=found.findings, next_step=ANOTHER_COPY)
    return found.bag


@dataclass(frozen=True)
class OpenBag:
    """A bag as it was found. `what` (None: it fits) and `findings`: where its manifests and files differ."""

    bag: Bag
    what: str | None = None
    findings: tuple[str, ...] = ()


def open_bag(files: Mapping[str, bytes], path: Path) -> OpenBag:
    """The bag in these files (names with its one folder), which may be spoilt; the signature is still to be checked."""
    names = {name.split("/", 1)[0] for name in files}
    if len(names) != 1 or any("/" not in name for name in files):
        raise NotAccepted("the archive does not hold exactly one folder", file=path, next_step=ANOTHER_COPY)
    (name,) = names
    inside = {key[len(name) + 1 :]: data for key, data in files.items()}
    payload = {key[len(PAYLOAD) :]: data for key, data in inside.items() if key.startswith(PAYLOAD)}
    tags = {key: data for key, data in inside.items() if not key.startswith(PAYLOAD)}
    bag = Bag(name, {}, payload, tags.get(SIGNED, b""), tags.get(SIGNATURE, b""))
    findings = _compare_names(tags, _TAGS)
    if findings:
        return OpenBag(bag, "not an archive of this tool: its files about itself differ", findings)
    covered = {key: data for key, data in tags.items() if key not in (SIGNED, SIGNATURE)}
    findings = (
        *_compare(covered, tags[SIGNED], SIGNED),
        *_compare({PAYLOAD + key: data for key, data in payload.items()}, tags["manifest-sha256.txt"], "manifest"),
    )
    if findings:
        return OpenBag(bag, "the archive is not the one that was signed", findings)
    bag = replace(bag, info=_read_info(tags["bag-info.txt"], path))
    oxum = f"{sum(map(len, payload.values()))}.{len(payload)}"
    if bag.info.get("Payload-Oxum") != oxum:
        return OpenBag(bag, f"bag-info.txt: Payload-Oxum does not fit the payload ({oxum})")
    return OpenBag(bag)


def _manifest(digests: Mapping[str, str]) -> bytes:
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items())).encode("utf-8")


def _compare(files: Mapping[str, bytes], manifest: bytes, what: str) -> tuple[str, ...]:
    """Missing, changed and uncovered files, by name; nothing when the manifest is exactly theirs."""
    listed: dict[str, str] = {}
    for line in _lines(manifest):
        match = _ENTRY.fullmatch(line)
        if match is None:
            return (f"{what}: not a manifest line: {show_value(line)}",)
        listed[match.group(2)] = match.group(1)
    changed = [
        f"{name}: sha256 differs from the {what}"
        for name, data in sorted(files.items())
        if name in listed and listed[name] != sha256_bytes(data)
    ]
    findings = (*_compare_names(files, listed), *changed)
    if not findings and manifest != _manifest(listed):
        return (f"{what}: not in canonical form",)
    return findings


def _compare_names(found: Mapping[str, object], expected: Mapping[str, object] | tuple[str, ...]) -> tuple[str, ...]:
    missing = [f"{name}: missing" for name in sorted(set(expected) - set(found))]
    return (*missing, *(f"{name}: not covered by the signature" for name in sorted(set(found) - set(expected))))


def _read_info(data: bytes, path: Path) -> dict[str, str]:
    info: dict[str, str] = {}
    for line in _lines(data):
        match = _INFO.fullmatch(line)
        if match is None or match.group(1) in info:
            raise NotAccepted(
                "bag-info.txt is not in the form that this tool writes", file=path, value=line, next_step=ANOTHER_COPY
            )
        info[match.group(1)] = match.group(2)
    return info


def _lines(data: bytes) -> list[str]:
    """Lines as they were written: only a line feed ends one, no U+2028 in the name of a file does."""
    return data.decode("utf-8", "replace").removesuffix("\n").split("\n") if data else []


def _sha256(source: Source) -> str:
    return sha256_bytes(source) if isinstance(source, bytes) else sha256_file(source)
