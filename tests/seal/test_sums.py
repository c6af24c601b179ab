"""The signed list: exactly one form, every file covered, readable by sha256sum (M45, NO-14)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.protocol.freeze import freeze
from runner.seal.sums import SignedList, evidence_files, make_list, parse_list
from tests.support.small_campaign import make_campaign


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    campaign = make_campaign(tmp_path)
    freeze(campaign)
    files = {
        "README.md": b"not evidence",
        "tariffs.csv": b"gpu\n",
        "templates/decision-note.qmd": b"# {{ title }}\n",
        "protocol/rental.toml": b"comes after the note\n",
        "records/.lock": b"1\n",
        "records/attempts/b1-0.json": b"{}\n",
        "verdicts/b1-0.json": b"{}\n",
        "note/decision-note.pdf": b"%PDF",
        "note/SHA256SUMS": b"old",
        "note/SHA256SUMS.sig": b"old",
    }
    for name, data in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return campaign


def test_what_is_covered(campaign: Campaign) -> None:
    found = [relative for relative, _ in evidence_files(campaign)]
    (reference,) = [name for name in found if name.startswith("protocol/reference/")]
    assert found == [
        "note/decision-note.pdf",
        "protocol/baseline/small-final.parquet",
        "protocol/corpus/final.csv",
        "protocol/plan.toml",
        "protocol/protocol.lock.json",
        "protocol/protocol.lock.json.sig",
        "protocol/quality-protocol.toml",
        reference,
        "records/attempts/b1-0.json",
        "tariffs.csv",
        "templates/decision-note.qmd",
        "verdicts/b1-0.json",
    ]


def test_sha256sum_accepts_the_list_from_the_campaign_folder(campaign: Campaign) -> None:
    data = make_list(campaign, note_id="n-1", key="local test key SHA256:x").dump()
    (campaign.note / "SHA256SUMS").write_bytes(data)
    done = subprocess.run(
        ["sha256sum", "--strict", "-c", "note/SHA256SUMS"],
        cwd=campaign.root,
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.stdout.count(": OK\n") == 12
    assert done.stderr == ""


def test_parse_is_the_inverse_of_dump(campaign: Campaign) -> None:
    signed = make_list(campaign, note_id="n-1", key="SHA256:x")
    assert parse_list(signed.dump(), file="list") == signed


GOOD = SignedList("decision note and its evidence", "n-1", "SHA256:x", {"a": "0" * 64, "b/c": "1" * 64}).dump()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"  a", b" *a"),
        (b"  a", b"  ../a"),
        (b"  a", b"  /a"),
        (b"  b/c", b"  a"),
        (b"\n", b"\r\n"),
        (b"# purpose: ", b"# Purpose: "),
        (b"# check, ", b"# check "),
        (b"0000  a", b"000G  a"),
        (b"# note: n-1\n", b""),
        (b"1" * 64 + b"  b/c\n", b""),
    ],
)
def test_every_other_form_is_refused(old: bytes, new: bytes) -> None:
    assert old in GOOD
    changed = GOOD.replace(old, new)
    if changed.endswith(b"a\n") and new == b"":
        changed = changed.rstrip(b"\n")  # a list without its last line end
    with pytest.raises(InputRefused):
        parse_list(changed, file="list")


def test_order_is_part_of_the_form() -> None:
    lines = GOOD.splitlines(keepends=True)
    with pytest.raises(InputRefused, match="canonical"):
        parse_list(b"".join([*lines[:-2], lines[-1], lines[-2]]), file="list")


def test_links_cannot_be_signed(campaign: Campaign) -> None:
    (campaign.records / "link.json").symlink_to("/etc/hostname")
    with pytest.raises(InputRefused, match="link or a device"):
        evidence_files(campaign)


def test_names_that_clash_elsewhere_cannot_be_signed(campaign: Campaign) -> None:
    for name in ("A.csv", "a.csv"):
        (campaign.protocol_dir / name).write_bytes(b"")
    with pytest.raises(InputRefused) as caught:
        evidence_files(campaign)
    assert "same as" in caught.value.details[0]
