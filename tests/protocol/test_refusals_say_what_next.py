"""DESIGN 4: every refusal of a reader says what to do next; M13: a key given twice is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.corpus.read import read_corpus
from runner.errors import InputRefused
from runner.evidence.canonical import load_json_file
from runner.evidence.signing import read_signers
from runner.pricing.calendar import read_calendar
from runner.pricing.rental import read_rental
from runner.pricing.tariffs import load_catalogue
from runner.pricing.tasks import read_tasks
from runner.protocol.labels import label_table
from runner.protocol.read import read_plan, read_protocol
from runner.protocol.schema import Model
from runner.protocol.toml import read_toml


def read_labels(path: Path) -> Any:
    """Labels of a config.json, as the freeze takes them."""
    return label_table(load_json_file(path), MODEL, ("a", "b"), file=path)


MODEL = Model(source="model")
BROKEN: dict[str, tuple[Callable[[Path], Any], bytes]] = {
    "protocol bytes": (read_protocol, b"\xff"),
    "protocol mark": (read_protocol, b"\xef\xbb\xbfa = 1\n"),
    "protocol form": (read_protocol, b"[a\n"),
    "protocol time": (read_protocol, b"a = 2026-01-01\n"),
    "protocol nan": (read_protocol, b"a = nan\n"),
    "protocol twice": (read_protocol, b"a = 1\na = 2\n"),
    "protocol content": (read_protocol, b"a = 1\n"),
    "plan bytes": (read_plan, b"\xff"),
    "plan content": (read_plan, b"a = 1\n"),
    "tariffs bytes": (load_catalogue, b"gpu\n\xff\n"),
    "tariffs empty": (load_catalogue, b""),
    "tariffs columns": (load_catalogue, b"foo\n1\n"),
    "tariffs quote": (load_catalogue, b'gpu,"foo\n1\n'),
    "rental form": (read_rental, b"{"),
    "rental content": (read_rental, b"{}"),
    "rental twice": (read_rental, b'{"a": 1, "a": 2}'),
    "lock bytes": (load_json_file, b'{"a": "\xff"}'),
    "lock nan": (load_json_file, b'{"a": NaN}'),
    "corpus bytes": (read_corpus, b"id,text,label\na,\xff,b\n"),
    "corpus none": (read_corpus, b"id,text,label\n"),
    "labels form": (read_labels, b"["),
    "labels list": (read_labels, b"[]"),
    "labels none": (read_labels, b"{}"),
    "labels gap": (read_labels, b'{"id2label": {"0": "a", "2": "b"}}'),
    "labels twice": (read_labels, b'{"id2label": {"0": "a", "1": "a"}}'),
    "ics bytes": (read_calendar, b"BEGIN:VCALENDAR\n\xff"),
    "ics none": (read_calendar, b"hello\n"),
    "tasks bytes": (read_tasks, b"\xff"),
    "tasks columns": (read_tasks, b"foo\n1\n"),
    "signers empty": (read_signers, b""),
    "signers bytes": (read_signers, b"\xff"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_with_a_next_step(tmp_path: Path, name: str) -> None:
    """DESIGN 4: whatever is wrong with a file, the refusal names the file and what to do next."""
    reader, data = BROKEN[name]
    suffix = {"lock": ".json", "corpus": ".csv", "tasks": ".csv", "tariffs": ".csv", "ics": ".ics"}
    path = tmp_path / f"broken{suffix.get(name.split()[0], '.toml')}"
    path.write_bytes(data)
    with pytest.raises(InputRefused) as caught:
        reader(path)
    assert caught.value.next_step and "next:  " in str(caught.value)
    assert caught.value.file is not None and Path(caught.value.file).name == path.name


@pytest.mark.parametrize(
    ("text", "name", "line"),
    [
        ("a = 1\na = 2\n", "a", 2),
        ("[question]\nname = 1\n'odd key' = 1\nname = 2\n", "name", 4),
        ("[t]\n[t]\n", "t", 2),
        ("[a.b]\nx = 1\n[a.b]\n", "a.b", 3),
        ("a = {x = 1, x = 2}\n", "x", 1),
        ("a = 1\n[a]\n", "a", 2),
        ("a = [\n1]\na = [\n1,\n]\n", "a", 5),
    ],
)
def test_a_key_given_twice_is_named(tmp_path: Path, text: str, name: str, line: int) -> None:
    """DESIGN 4: which key or table stands twice, on which line, and what to do."""
    path = tmp_path / "p.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputRefused) as caught:
        read_toml(path, what="protocol")
    assert caught.value.what == f"a key or table stands twice in the protocol: '{name}'"
    assert (caught.value.line, caught.value.value, caught.value.next_step) == (line, name, "keep one of the two")
