"""Somebody with the key forges and signs again: what recomputation can find, `verify` finds (M45, M50)."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.cli.main import run
from runner.evidence.attempt import Attempt, FileReference, Slot, Status
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import content_sha256, pretty_json, sha256_bytes, sha256_file
from runner.evidence.checks import read_signer
from runner.evidence.signing import Purpose, sign, signing_key
from runner.flows.archive import make_archive
from runner.flows.report import make_report
from runner.flows.verification import LIMITS, Verification
from runner.flows.verify import verify
from runner.judge.campaign import judge_campaign
from runner.protocol.freeze import load_lock
from runner.seal.bag import build_bag, read_bag
from runner.seal.container import write_container
from runner.seal.sums import make_list, parse_list
from tests.flows.conftest import pages_left_alone
from tests.support.small_campaign import ROWS, make_attempt, store_attempt, write_predictions

SAMPLES = b'{"counter": "VmRSS", "samples": []}\n'


def sign_again(campaign: Campaign) -> None:
    key, signer = signing_key(campaign, {}), read_signer(campaign)
    assert signer is not None
    old = parse_list((campaign.note / "SHA256SUMS").read_bytes(), file="list")
    data = make_list(campaign, note_id=old.note_id, key=signer.label).dump()
    (campaign.note / "SHA256SUMS").write_bytes(data)
    (campaign.note / "SHA256SUMS.sig").write_bytes(sign(data, key, Purpose.NOTE))


def faults(found: Verification) -> dict[str, str | None]:
    """Failed checks, each with the one that explains it."""
    return {step.name: step.follows for step in found.steps if step.status == "failed"}


def edit(relative: str, old: bytes, new: bytes) -> Callable[[Campaign], None]:
    def forge(campaign: Campaign) -> None:
        path = campaign.root / relative
        data = path.read_bytes()
        assert old in data, relative
        path.write_bytes(data.replace(old, new, 1))

    return forge


FORGERIES: dict[str, tuple[Callable[[Campaign], None], str]] = {
    "a row": (edit("records/attempts/a003.json", b'"pass_seconds": 3.01', b'"pass_seconds": 0.01'), "attachments"),
    "a verdict": (edit("verdicts/a001.json", b'"accepted": true', b'"accepted": false'), "attachments"),
    "the balance": (edit("note/balance.csv", b"cpu.b8", b"cpu.b1"), "attachments"),
    "the decision": (edit("note/decision.json", b'"chosen": "cpu.b8"', b'"chosen": "cpu.b1"'), "note"),
    "the text": (edit("note/decision-note.qmd", b"cpu.b8", b"cpu.b1"), "attachments"),
    "the page": (edit("note/decision-note.html", b"cpu.b8", b"cpu.b1"), "text of the note"),
    "the calculator": (edit("note/calculator.html", b"110.00", b"011.00"), "text of the note"),
    "a price": (edit("tariffs.csv", b"110.00", b"010.00"), "attachments"),
    "the plan": (edit("protocol/plan.toml", b"T12:00", b"T13:00"), "attachments"),
    "the model": (edit("protocol/model/model.safetensors", b"stand-in", b"Stand-in"), "model"),
    "the lock": (edit("protocol/protocol.lock.json", b'"0.80"', b'"0.10"'), "frozen protocol"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_what_the_key_holder_edits_and_signs_again_is_found(campaign: Campaign, name: str) -> None:
    """One fault, named once; whatever else breaks is said to follow from it, and nothing stands on its own."""
    forge, first = FORGERIES[name]
    forge(campaign)
    sign_again(campaign)
    found = verify(campaign.root)
    assert not found.accepted
    causes = faults(found)
    assert causes.pop(first) is None, causes
    assert "signed list" not in causes and "files" not in causes
    roots = [step for step, cause in causes.items() if cause is None]
    assert roots in ([], ["decision"]), roots
    assert sum("FAILED" in line for line in found.lines()) == 1 + len(roots)
    assert found.bottom_line.startswith("NOT ACCEPTED: ")


def test_one_changed_row_is_one_fault_with_consequences(campaign: Campaign) -> None:
    """Not signed again: the file is named once, at its hash; chain, verdict and decision follow from it."""
    edit("records/attempts/a003.json", b'"pass_seconds": 3.01', b'"pass_seconds": 0.01')(campaign)
    found = verify(campaign.root)
    causes = faults(found)
    assert causes.pop("files") is None
    assert set(causes) >= {"chain of attempts", "decision", "attachments"} and set(causes.values()) == {"files"}
    text = "\n".join(found.lines())
    assert text.count("records/attempts/a003.json: sha256 differs") == 1
    assert text.count("FAILED") == 1
    assert found.bottom_line.startswith("NOT ACCEPTED: files; therefore also: ")


def test_samples_journals_and_manifests_are_the_ones_that_rows_name(campaign: Campaign) -> None:
    """M8, M9, M22: rows carry the hashes of what was measured; a file changed and signed again is found."""
    lock = load_lock(campaign)
    made = {name: campaign.records / name for name in ("memory/a009.json", "journals/a009.jsonl")}
    for path in made.values():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(SAMPLES)
    predictions = write_predictions(campaign.predictions / "a009.parquet", [(row[0], row[2]) for row in ROWS])
    memory, journal = (
        FileReference(path=f"records/{name}", sha256=sha256_bytes(path.read_bytes())) for name, path in made.items()
    )
    store_attempt(
        campaign, make_attempt(campaign, lock, predictions, number=9, journal=journal, memory_timeline=memory)
    )
    judge_campaign(campaign)
    make_report(campaign, environ={})
    assert verify(campaign.root).accepted
    for relative in ("records/memory/a009.json", "records/journals/a009.jsonl"):
        (campaign.root / relative).write_bytes(SAMPLES + b"\n")
        sign_again(campaign)
        found = verify(campaign.root)
        (step,) = (step for step in found.steps if step.name == "files of the attempts")
        assert step.details == (f"{relative}: not the file that a009 names",)
        (campaign.root / relative).write_bytes(SAMPLES)
        (campaign.root / relative).unlink()
        sign_again(campaign)
        assert any("missing, named by a009" in line for line in verify(campaign.root).lines())
        (campaign.root / relative).write_bytes(SAMPLES)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, "no list 'samples'"),
        ([], "no list 'samples'"),
        ({"samples": [[0.0, {"resident": 1}], [1.0]]}, "sample 2 is not"),
        ({"samples": [["0", {"resident": 1}]]}, "sample 1 is not"),
        ({"samples": [[0.0, {"resident": "x"}]]}, "counter 'resident' of sample 1"),
        ({"samples": [[0.0, {"resident": -1}]]}, "counter 'resident' of sample 1"),
    ],
)
def test_memory_samples_of_another_form_are_refused_by_name(
    campaign: Campaign, capsys: pytest.CaptureFixture[str], content: object, words: str
) -> None:
    """M24: a row and its hash may name a file that holds no samples; report says which, verify does too."""
    path = campaign.records / "memory" / "a009.json"
    path.parent.mkdir()
    path.write_text(json.dumps(content), encoding="utf-8")
    memory = FileReference(path="records/memory/a009.json", sha256=sha256_file(path))
    predictions = write_predictions(campaign.predictions / "a009.parquet", [(row[0], row[2]) for row in ROWS])
    attempt = make_attempt(campaign, load_lock(campaign), predictions, number=9, memory_timeline=memory)
    store_attempt(campaign, attempt)
    judge_campaign(campaign)
    before = (campaign.note / "SHA256SUMS").read_bytes()
    assert run(["--campaign", str(campaign.root), "report"]) == 2
    said = capsys.readouterr().err
    assert words in said and "a009.json" in said and "Traceback" not in said
    assert (campaign.note / "SHA256SUMS").read_bytes() == before
    found = verify(campaign.root)
    (step,) = (step for step in found.steps if step.name == "text of the note")
    assert not found.accepted
    assert step.status == "failed" and "records/memory/a009.json" in step.finding, step


def rechain(campaign: Campaign) -> None:
    """Links and head rewritten by somebody who knows how."""
    places = {path: json.loads(path.read_bytes())["chain"]["index"] for path in campaign.attempts.glob("*.json")}
    rows, previous = sorted(places, key=lambda path: (places[path], path.name)), None
    for index, path in enumerate(rows):
        row = json.loads(path.read_bytes())
        row["chain"].update(index=index, previous_sha256=previous)
        path.write_bytes(pretty_json(row))
        previous = content_sha256(row)
    (path,) = (campaign.records / "chain").glob("*.json")
    head = json.loads(path.read_bytes()) | {
        "rows": len(rows), "last_attempt_id": rows[-1].stem, "last_sha256": previous,
    }  # fmt: skip
    path.write_bytes(pretty_json(head))


def test_rows_deleted_swapped_or_copied_are_found_until_everything_is_made_up_again(campaign: Campaign) -> None:
    """M50: deletion and reordering break the chain; a chain written anew breaks verdicts and PDF.

    Whoever has the key and makes up the whole campaign is not found: the report of an accepted note says so.
    """
    a003, a004 = campaign.attempts / "a003.json", campaign.attempts / "a004.json"
    three, four = a003.read_bytes(), a004.read_bytes()
    a003.unlink()
    sign_again(campaign)
    assert "chain of attempts" in faults(verify(campaign.root))
    a003.write_bytes(four.replace(b'"attempt_id": "a004"', b'"attempt_id": "a003"'))
    a004.write_bytes(three.replace(b'"attempt_id": "a003"', b'"attempt_id": "a004"'))
    sign_again(campaign)
    assert not verify(campaign.root).accepted
    a003.write_bytes(three)
    a004.write_bytes(four)
    shutil.copyfile(a003, campaign.attempts / "copy.json")
    sign_again(campaign)
    assert not verify(campaign.root).accepted
    (campaign.attempts / "copy.json").unlink()

    for name in ("records/attempts/a004.json", "verdicts/a004.json", "records/predictions/a004.parquet"):
        (campaign.root / name).unlink()
    rechain(campaign)
    sign_again(campaign)
    assert {"attachments", "decision"} <= set(faults(verify(campaign.root)))
    judge_campaign(campaign)
    make_report(campaign, environ={})
    found = verify(campaign.root)
    assert found.accepted
    assert set(LIMITS) <= set(found.lines())
    assert "rows of a machine that was left out" in LIMITS[0] and "made up from the start" in LIMITS[0]


def test_words_of_changed_templates_are_called_their_makers_words(campaign: Campaign) -> None:
    """A tampered `templates/`: the note follows from it, byte by byte, so the report names it."""
    assert next(step for step in verify(campaign.root).steps if step.name == "templates").status == "passed"
    path = campaign.templates / "decision-note.qmd"
    path.write_bytes(path.read_bytes() + b"\nGuaranteed by the seller.\n")
    make_report(campaign, environ={})
    found = verify(campaign.root)
    (step,) = (step for step in found.steps if step.name == "templates")
    assert (step.status, step.details) == ("not checked", ("templates/decision-note.qmd: differs",))
    assert "its maker's words" in step.finding
    assert found.bottom_line.startswith("Everything that was checked fits")
    (campaign.templates / ".hidden.qmd").write_text("{{< include x >}}", encoding="utf-8")
    assert "templates/.hidden.qmd: not covered by the signature" in verify(campaign.root).steps[2].details


def test_notes_of_two_campaigns_under_one_lock_cannot_be_swapped(measured: Path, tmp_path: Path) -> None:
    """The same frozen protocol, other durations: a note, its PDF or its list belongs to one of them only."""
    one, two = Campaign(tmp_path / "one"), Campaign(tmp_path / "two")
    for campaign, extra in ((one, 5.5), (two, 6.5)):
        shutil.copytree(measured, campaign.root)
        right = write_predictions(campaign.predictions / "a009.parquet", [(row[0], row[2]) for row in ROWS])
        store_attempt(campaign, make_attempt(campaign, load_lock(campaign), right, number=9, pass_seconds=extra))
        judge_campaign(campaign)
        make_report(campaign, environ={})
    assert one.lock.read_bytes() == two.lock.read_bytes()
    shutil.copyfile(two.note / "decision-note.pdf", one.note / "decision-note.pdf")
    found = verify(one.root)
    assert faults(found)["files"] is None
    sign_again(one)
    found = verify(one.root)
    assert "another note" in next(step.finding for step in found.steps if step.name == "PDF signature")
    shutil.rmtree(one.note)
    shutil.copytree(two.note, one.note)
    assert "files" in faults(verify(one.root))
    sign_again(one)
    assert {"attachments", "decision"} <= set(faults(verify(one.root)))


def test_dozens_of_flipped_bits_through_the_command(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    """NO-14: any bit of any signed file, chosen by chance: exit 3, and the report names that file first."""
    rng = random.Random(14)
    names = sorted(parse_list((campaign.note / "SHA256SUMS").read_bytes(), file="list").files)
    with pages_left_alone():
        for _ in range(24):
            name = rng.choice(names)
            path = campaign.root / name
            data = path.read_bytes()
            changed = bytearray(data)
            changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            path.write_bytes(bytes(changed))
            assert run(["--campaign", str(campaign.root), "verify"]) == 3, name
            out = capsys.readouterr().out
            assert f"{name}: sha256 differs from the signed list" in out
            assert "Everything" not in out
            path.write_bytes(data)


# ---- archives --------------------------------------------------------------------------------------------------------


def forged_archive(campaign: Campaign, change: Callable[[dict[str, bytes]], None], target: Path) -> Path:
    """The archive of a campaign, its payload changed and the bag signed again."""
    bag = read_bag(make_archive(campaign, campaign.root / "rental.toml", {}).path)
    payload = dict(bag.payload)
    change(payload)
    key = signing_key(campaign, {})
    info = {name: value for name, value in bag.info.items() if name != "Payload-Oxum"}
    files = build_bag(bag.name, payload, info, lambda data: sign(data, key, Purpose.BAG), "how\n")
    with target.open("wb") as stream:
        write_container(stream, files)
    return target


def test_an_archive_signed_again_cannot_hold_another_rental_or_more(campaign: Campaign, tmp_path: Path) -> None:
    """M46: the rental record is matched again; nothing travels with a note that is not part of it."""

    def rental(payload: dict[str, bytes]) -> None:
        payload["rental.toml"] = payload["rental.toml"].replace(b'amount = "0.00"', b'amount = "9.00"')

    found = verify(forged_archive(campaign, rental, tmp_path / "rental.zip"))
    assert faults(found) == {"rental record": None}, found.lines()

    def more(payload: dict[str, bytes]) -> None:
        payload["READ-THIS-FIRST.txt"] = b"the decision is another one\n"

    found = verify(forged_archive(campaign, more, tmp_path / "more.zip"))
    assert faults(found) == {"rest of the archive": None}

    def model(payload: dict[str, bytes]) -> None:
        payload["protocol/model/config.json"] += b"\n"

    assert "model" in faults(verify(forged_archive(campaign, model, tmp_path / "model.zip")))

    def fewer(payload: dict[str, bytes]) -> None:
        del payload["records/attempts/a008.json"]

    assert faults(verify(forged_archive(campaign, fewer, tmp_path / "fewer.zip")))["files"] is None


def test_the_list_of_an_archive_is_no_list_of_a_note(campaign: Campaign) -> None:
    """Each purpose has its namespace: a signature of the other one never passes."""
    data, key = (campaign.note / "SHA256SUMS").read_bytes(), signing_key(campaign, {})
    for purpose in (Purpose.BAG, Purpose.LOCK, Purpose.STATEMENT):
        (campaign.note / "SHA256SUMS.sig").write_bytes(sign(data, key, purpose))
        found = verify(campaign.root)
        assert "another purpose" in next(step.finding for step in found.steps if step.name == "signed list")


def measured_once(campaign: Campaign, seconds: float = 3.0, **changes: Any) -> Attempt:
    """One more row, named as `measure` names it, with the journal that its worker would have written."""
    attempt_id = changes.get("attempt_id", "0009-cpu-b1-p4-0123abcd")
    events = [
        {"event": "start", "mono_ns": 0, "attempt_id": attempt_id, "total": 10, "pid": 1},
        {"event": "phase", "mono_ns": 10**9, "phase": "pass"},
        {"event": "phase", "mono_ns": 10**9 + int(seconds * 1e9) + 10**7, "phase": "evaluation"},
        {"event": "end", "mono_ns": 9 * 10**9, "status": "completed", "completed": 10},
    ]
    path = campaign.journals / f"{attempt_id}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    journal = FileReference(path=campaign.relative(path), sha256=sha256_file(path))
    predictions = write_predictions(campaign.predictions / f"{attempt_id}.parquet", [(row[0], row[2]) for row in ROWS])
    fields: dict[str, Any] = {
        "attempt_id": attempt_id,
        "slot": Slot(pass_index=3, position=0),
        "journal": journal,
        "pass_seconds": seconds,
    }
    return store_attempt(campaign, make_attempt(campaign, load_lock(campaign), predictions, **{**fields, **changes}))


CONTRADICTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "a slower pass": ({"pass_seconds": 3.2}, "its journal says 3.010 s from its beginning to its end"),
    "a pass longer than its attempt": ({"pass_seconds": 75.0, "journal": None}, "a start and an end that are 60 s"),
    "fewer documents": ({"completed_documents": 9, "status": Status.COMPLETED}, "9 documents, its journal says '10'"),
    "another variant": ({"variant_id": "b4"}, "its name is of another variant or pass"),
    "another pass": ({"slot": Slot(pass_index=4, position=0)}, "its name is of another variant or pass"),
    "another card": (
        {"attempt_id": "0009-b200-b1-p4-0123abcd", "gpu_declared": "b200", "devices_found": ("NVIDIA H200",)},
        "declared b200, measured on 'NVIDIA H200'",
    ),
    "no card": (
        {"attempt_id": "0009-b200-b1-p4-0123abcd", "gpu_declared": "b200", "devices_found": ()},
        "declared b200, measured on no card",
    ),
    "a retry of nothing": ({"retry_of": "0008-cpu-b1-p4-0123abcd"}, "runs '0008-cpu-b1-p4-0123abcd' again"),
}


@pytest.mark.parametrize("kind", CONTRADICTIONS)
def test_m50_a_row_that_its_own_journal_clock_or_name_contradicts_is_found(campaign: Campaign, kind: str) -> None:
    """Edited with its chain, hashes, verdict and signature made anew: what was written beside it says otherwise.

    M11: a card that is not the declared one was never measured, whatever a row says.
    """
    changes, words = CONTRADICTIONS[kind]
    measured_once(campaign, **changes)
    judge_campaign(campaign)
    make_report(campaign, environ={})
    found = verify(campaign.root)
    (step,) = (step for step in found.steps if step.name == "files of the attempts")
    name = changes.get("attempt_id", "0009-cpu-b1-p4-0123abcd")
    assert step.status == "failed" and step.files == (f"records/attempts/{name}.json",)
    assert words in step.details[0]


def test_m50_a_row_beside_its_journal_is_no_contradiction_and_half_a_pass_is_one(campaign: Campaign) -> None:
    measured_once(campaign, seconds=55.0)  # the journal's marks are a hundredth of a second further apart
    judge_campaign(campaign)
    make_report(campaign, environ={})
    assert verify(campaign.root).accepted
    path = campaign.attempts / "0009-cpu-b1-p4-0123abcd.json"
    path.write_bytes(path.read_bytes().replace(b'"pass_seconds": 55.0', b'"pass_seconds": 39.0'))
    rechain(campaign)
    judge_campaign(campaign)
    make_report(campaign, environ={})
    found = verify(campaign.root)
    assert {step for step, cause in faults(found).items() if cause is None} == {"files of the attempts"}


def test_m50_a_row_that_was_dropped_leaves_traces(campaign: Campaign) -> None:
    """A failed attempt removed, everything else made anew by the key's owner: journal, predictions, numbers stay."""
    measured_once(campaign)
    later = make_attempt(campaign, load_lock(campaign), None, attempt_id="0010-cpu-b1-p5-0123abcd", variant="b1")
    store_attempt(campaign, later.model_copy(update={"slot": Slot(pass_index=4, position=0), "status": Status.FAILED}))
    (campaign.attempts / "0009-cpu-b1-p4-0123abcd.json").unlink()
    rechain(campaign)
    (campaign.verdicts / "a000.json").unlink()
    judge_campaign(campaign)
    make_report(campaign, environ={})
    (step,) = (step for step in verify(campaign.root).steps if step.name == "files of the attempts")
    assert step.details == (
        "records/attempts/0010-cpu-b1-p5-0123abcd.json: its name says that it was number 10 on its machine, "
        "its chain says 9",
        "records/journals/0009-cpu-b1-p4-0123abcd.jsonl: no row of an attempt names it: was its row removed?",
        "records/predictions/0009-cpu-b1-p4-0123abcd.parquet: no row of an attempt names it: was its row removed?",
    )


def test_words_of_languages_that_the_note_does_not_speak_alarm_nobody(campaign: Campaign) -> None:
    """Issue 5: an English note uses no catalogue; a German one only its own. What it speaks is named."""
    place = campaign.templates / "locale" / "fr.po"
    place.write_bytes(place.read_bytes() + b"\n# mended\n")
    make_report(campaign, environ={})
    assert {step.name: step.status for step in verify(campaign.root).steps}["templates"] == "passed"
    make_report(campaign, "fr", environ={})
    (step,) = [step for step in verify(campaign.root).steps if step.name == "templates"]
    assert step.details == ("templates/locale/fr.po: differs",)
