"""`runner archive`: the rental is matched first (M46), the bag is deterministic, nothing half-made stays (M45)."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.cli.main import run
from runner.errors import InputRefused, NotAccepted
from runner.evidence.campaign import Campaign
from runner.flows import integrity, inventory
from runner.flows.archive import make_archive
from runner.flows.report import make_report
from runner.flows.verification import attempt_step
from runner.flows.verify import verify
from runner.seal.bag import read_bag
from tests.support.rentals import OWN_MACHINE
from tests.support.small_campaign import ROWS

MODEL = ("config.json", "model.safetensors", "tokenizer_config.json")
WITHHELD = ("protocol/corpus/final.csv", f"the model ({len(MODEL)} files)")


def change(path: Path, old: str, new: str) -> Path:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path


def test_everything_is_in_one_bag(campaign: Campaign) -> None:
    made = make_archive(campaign, campaign.root / "rental.toml", {})
    bag = read_bag(made.path)
    assert bag.name == made.path.stem == f"{bag.info['External-Identifier']}-en"
    assert {name.split("/")[0] for name in bag.payload} == {
        "note", "protocol", "records", "rental.toml", "tariffs.csv", "templates", "verdicts",
    }  # fmt: skip
    assert "protocol/model/model.safetensors" in bag.payload
    assert not any("keys" in name for name in bag.payload)
    assert made.match.matched == ("gpu", "period")
    reasons = dict(made.match.not_applicable)
    assert (reasons.pop("provider"), reasons.pop("order")) == ("the plan does not say", "the plan does not say")
    assert all("own machine" in reason for reason in reasons.values())


def test_the_same_campaign_gives_the_same_archive(campaign: Campaign) -> None:
    first = make_archive(campaign, campaign.root / "rental.toml", {}).path.read_bytes()
    assert make_archive(campaign, campaign.root / "rental.toml", {}).path.read_bytes() == first


def test_m45_no_archive_is_silently_replaced_by_another(
    campaign: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """M45: another language has another name; another record under the same name gets a number, and it is said."""
    rental = campaign.root / "rental.toml"
    english = make_archive(campaign, rental, {})
    data = english.path.read_bytes()
    change(rental, 'order = "none"', 'order = "corrected"')
    assert run(["--campaign", str(campaign.root), "archive", "--rental", str(rental)]) == 0
    said = capsys.readouterr().out
    assert f"{english.path.stem}-2.zip" in said
    assert "holds something else (note, rental record or key) and stays" in said
    assert english.path.read_bytes() == data
    second = english.path.with_name(f"{english.path.stem}-2.zip")
    assert verify(second).accepted and read_bag(second).name == second.stem
    make_archive(campaign, rental, {})
    assert len(list(campaign.archive.glob("*.zip"))) == 2, "the same content again is the same archive"
    make_report(campaign, "de", {})
    german = make_archive(campaign, rental, {})
    assert german.path.stem == english.path.stem.removesuffix("-en") + "-de"


def test_m44_an_archive_with_another_key_than_its_note_says_so(campaign: Campaign, tmp_path: Path) -> None:
    """M44: the note by the test key, the archive by a key of one's own, in words; with one key for both, silence."""
    rental, key = campaign.root / "rental.toml", tmp_path / "key"
    assert not any("archive is signed" in text for text in make_archive(campaign, rental, {}).warnings)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True, timeout=30)
    made = make_archive(campaign, rental, {"SIGNING_KEY": str(key)})
    (warning,) = [text for text in made.warnings if "the archive is signed with" in text]
    assert "the note in it with local test key" in warning
    assert any("export SIGNING_KEY=" in text for text in made.warnings)
    assert made.path.stem.endswith("-en-2"), "the same files under another signature are another archive"


def test_a_rental_that_does_not_match_is_not_archived(campaign: Campaign) -> None:
    """M46: the differing fields are named, exit 3, no archive."""
    rental = change(campaign.root / "rental.toml", 'gpu = "cpu"', 'gpu = "b200"')
    change(rental, 'amount = "0.00"', 'amount = "2071.00"')
    with pytest.raises(NotAccepted) as caught:
        make_archive(campaign, rental, {})
    assert "gpu, amount" in caught.value.what
    assert not campaign.archive.exists()


def test_a_note_that_changed_is_not_archived(campaign: Campaign) -> None:
    path = campaign.note / "note.txt"
    path.write_bytes(b"changed")
    with pytest.raises(InputRefused) as caught:
        make_archive(campaign, campaign.root / "rental.toml", {})
    assert caught.value.details == ("note/note.txt: sha256 differs from the signed list",)
    assert not campaign.archive.exists()


def test_a_missing_note_or_rental_is_refused(measured: Path, tmp_path: Path) -> None:
    campaign = Campaign(tmp_path / "c")
    shutil.copytree(measured, campaign.root)
    with pytest.raises(InputRefused):
        make_archive(campaign, tmp_path / "missing.toml", {})
    rental = campaign.root / "rental.toml"
    rental.write_text(OWN_MACHINE, encoding="utf-8")
    with pytest.raises(InputRefused, match="not whole"):
        make_archive(campaign, rental, {})


def test_a_large_model_is_left_out_and_named(campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.flows.archive._MODEL_MOST_BYTES", 10)
    made = make_archive(campaign, campaign.root / "rental.toml", {})
    assert not any(name.startswith("protocol/model") for name in read_bag(made.path).payload)
    assert made.left_out[0].startswith("the model (")


def cut_off(model: Path) -> None:
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-5])


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (cut_off, "model.safetensors"),
        (lambda model: (model / "model.safetensors").unlink(), "weights"),
        (lambda model: (model / "tokenizer_config.json").unlink(), "tokenizer_config.json"),
        (lambda model: (model / "config.json").unlink(), "config.json"),
        (lambda model: (model / "more.safetensors").write_bytes(b"x"), "more.safetensors"),
    ],
)
@pytest.mark.parametrize("texts", [True, False])
def test_a_model_that_is_not_the_frozen_one_is_not_archived(
    campaign: Campaign, capsys: pytest.CaptureFixture[str], spoil: Callable[[Path], object], named: str, *, texts: bool
) -> None:
    """MO-19, M45: checked, but not accepted: exit 3, the file is named, no archive; so says the step of verify."""
    spoil(campaign.protocol_dir / "model")
    options = [] if texts else ["--without-texts"]
    command = ["--campaign", str(campaign.root), "archive", "--rental", str(campaign.root / "rental.toml"), *options]
    assert run(command) == 3
    said = capsys.readouterr().err
    assert "not the frozen one, so it is not archived" in said and named in said
    assert not campaign.archive.exists()
    assert attempt_step("model", lambda: inventory.check_model_files(campaign), campaign.root).status == "failed"


def test_an_archive_without_its_model_says_so(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    """M45: warned in the output, recorded in the signed bag, `not checked` for whoever verifies it."""
    rental = campaign.root / "rental.toml"
    assert read_bag(make_archive(campaign, rental, {}).path).info["Model"] == "enclosed"
    shutil.rmtree(campaign.protocol_dir / "model")
    assert run(["--campaign", str(campaign.root), "archive", "--rental", str(rental)]) == 0
    assert "warning: the measured model itself is in no file of this archive" in capsys.readouterr().out
    (archive,) = campaign.archive.glob("*-2.zip")
    assert read_bag(archive).info["Model"].startswith("not enclosed: the model, which is not in the campaign folder")
    found = verify(archive)
    assert found.accepted
    assert next(step for step in found.steps if step.name == "model").status == "not checked"


def test_the_command_speaks_json(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    rental = str(campaign.root / "rental.toml")
    status = run(["--campaign", str(campaign.root), "archive", "--rental", rental, "--json"])
    data = json.loads(capsys.readouterr().out)
    assert status == 0
    assert Path(data["archive"]).is_file()
    assert data["key"].startswith("local test key SHA256:")


def test_a_shareable_archive_holds_no_text(campaign: Campaign) -> None:
    """M53: no document's text in any file of it, what is missing is named, the rest is still recomputed."""
    made = make_archive(campaign, campaign.root / "rental.toml", {}, texts=False)
    assert made.path.stem.endswith("-without-texts")
    assert made.left_out == WITHHELD
    data = made.path.read_bytes()
    assert ROWS[3][1].encode() in (campaign.protocol_dir / "corpus" / "final.csv").read_bytes()
    assert not any(row[1].encode() in data for row in ROWS)
    found = verify(made.path)
    assert found.accepted, found.lines()
    files = next(step for step in found.steps if step.name == "files")
    names = ("protocol/corpus/final.csv", *(f"protocol/model/{name}" for name in MODEL))
    assert files.details == tuple(f"{name}: not in this archive" for name in names)
    assert next(step for step in found.steps if step.name == "verdicts").status == "passed"


def test_m53_what_lies_beside_the_protocol_may_hold_texts_and_stays_out(campaign: Campaign) -> None:
    """M53: raw data, the corpus of an earlier revision in protocol/ itself, an older model: none is shown to others."""
    old = {"raw.csv", "final-1.csv", "export/all.jsonl", "model-1/weights.bin", "corpus/notes.txt", "letter.md"}
    for name in old:
        place = campaign.protocol_dir / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"a secret text in {name}\n", encoding="utf-8")
    make_report(campaign, environ={})
    made = make_archive(campaign, campaign.root / "rental.toml", {}, texts=False)
    assert set(made.left_out) == {f"protocol/{name}" for name in old} | {*WITHHELD}
    assert b"a secret text" not in made.path.read_bytes()
    found = verify(made.path)
    assert found.accepted, found.lines()
    assert {step.status for step in found.steps if step.name in ("verdicts", "decision")} == {"passed"}
    with_texts = make_archive(campaign, campaign.root / "rental.toml", {})
    assert b"a secret text" in with_texts.path.read_bytes(), "an archive for oneself keeps all that was signed"


def test_a_shareable_archive_satisfies_its_own_instructions(campaign: Campaign, tmp_path: Path) -> None:
    made = make_archive(campaign, campaign.root / "rental.toml", {}, texts=False)
    shutil.unpack_archive(made.path, tmp_path / "out")
    (folder,) = (tmp_path / "out").iterdir()
    lines = (folder / "HOW-TO-CHECK.txt").read_text(encoding="utf-8").splitlines()
    (command,) = [line.strip() for line in lines if "sha256sum" in line and "note/SHA256SUMS" in line]
    subprocess.run(command, shell=True, cwd=folder / "data", check=True, capture_output=True, timeout=30)


def test_nothing_but_texts_may_be_left_out(campaign: Campaign) -> None:
    """A bag that names a file as left out which was never signed is found."""
    listed = integrity.check_list(campaign, None)
    assert listed.signed is not None
    for name in ("records/attempts/a000.json", "protocol/corpus/never-signed.csv"):
        step = integrity.check_files(campaign, listed.signed, frozenset({name}))
        assert step.details == (f"{name}: left out, yet not a file of texts that was signed",)
