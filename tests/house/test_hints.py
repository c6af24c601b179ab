"""A printed next command names the campaign that it is about (issue 2: bad input says the next command)."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import click
import pytest

from runner.cli.hints import name_campaign
from runner.cli.main import COMMANDS, run
from runner.cli.output import Output, Session, runner_command, write_line
from runner.cli.progress import make_progress
from tests.house.test_command_line import NEED_NO_CAMPAIGN, NOTHING_THERE
from tests.support.small_campaign import ROWS, make_attempt, make_campaign, store_attempt, write_predictions

HERE = re.compile(rf"(?<![\w./-])(?:runner|make) (?:{'|'.join(COMMANDS)})\b[^;,()\n]*")


def elsewhere(text: str) -> list[str]:
    """Commands in the text that would act on the folder where the reader stands."""
    return [found for found in HERE.findall(text) if "--help" not in found]


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - NEED_NO_CAMPAIGN))
def test_every_refusal_names_the_campaign_in_its_next_command(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["--campaign", str(tmp_path), name, *NOTHING_THERE.get(name, [])]
    if run(call) != 2:
        pytest.skip("this one finds its files without the campaign")
    assert elsewhere(capsys.readouterr().err) == []
    run([*call, "--json"])
    assert elsewhere(json.loads(capsys.readouterr().out)["next_step"]) == []


def test_every_step_of_the_chain_names_the_campaign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "my campaign"
    root.mkdir()
    campaign = make_campaign(root)
    seen = []
    for command in (["freeze"], ["plan"], ["validate"], ["decide"], ["protocol", "diff"], ["window"]):
        run(["--campaign", str(root), *command])
        shown = capsys.readouterr()
        assert elsewhere(shown.out + shown.err) == [], command
        seen.append(shown.out + shown.err)
        if command == ["freeze"]:
            from runner.protocol.lockfile import read_lock

            path = write_predictions(campaign.predictions / "a000.parquet", [(row[0], row[2]) for row in ROWS])
            store_attempt(campaign, make_attempt(campaign, read_lock(campaign), path))
    assert f"next: runner --campaign '{root}' plan, runner --campaign '{root}' rehearse --gpu NAME" in seen[0]
    assert f"next: runner --campaign '{root}' decide" in seen[2]


def test_progress_and_warnings_go_the_same_way(capsys: pytest.CaptureFixture[str]) -> None:
    """Issue 2: what is said while a command runs names the campaign in its commands too."""

    @runner_command("anything")
    def anything(session: Session) -> Output:
        """Says what a run says."""
        make_progress().notice("runner validate shows them")
        write_line("warning: as it was: make freeze", error=True)
        return Output(["runner decide"], document=True)

    context = click.Context(anything, obj=Session(Path("/c")))
    with pytest.raises(click.exceptions.Exit):
        context.invoke(anything, as_json=False)
    shown = capsys.readouterr()
    assert shown.err.splitlines() == [
        "note: runner --campaign /c validate shows them", "warning: as it was: make CAMPAIGN=/c freeze",
    ]  # fmt: skip
    assert shown.out == "runner decide\n", "a document is printed as it is"
    write_line("runner validate", error=True)
    assert capsys.readouterr().err == "runner validate\n", "the next command of this process has a folder of its own"


def test_where_no_campaign_was_given_the_commands_stay_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_campaign(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run(["freeze"]) == 0
    assert "next: runner plan, runner rehearse" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Command: make measure GPU=cpu PASSES=10", "Command: make CAMPAIGN=/c measure GPU=cpu PASSES=10"),
        ("next: make verify, or: sha256sum -c note/SHA256SUMS",
         "next: make CAMPAIGN=/c verify, or: cd /c && sha256sum -c note/SHA256SUMS"),
        ("runner --campaign /d decide", "runner --campaign /d decide"),
        ("make verify CAMPAIGN=/d", "make verify CAMPAIGN=/d"),
        ("runner measure --help", "runner measure --help"),
        ("/opt/runner decide, make room, make setup", "/opt/runner decide, make room, make setup"),
    ],
)  # fmt: skip
def test_commands_are_found_and_nothing_else(text: str, shown: str) -> None:
    assert name_campaign(text, Path("/c"), COMMANDS) == shown
    assert name_campaign(text, Path(), COMMANDS) == text


def test_the_printed_reference_stays_a_document(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run(["protocol", "fields"])
    plain = capsys.readouterr().out
    run(["--campaign", str(tmp_path), "protocol", "fields"])
    assert capsys.readouterr().out == plain and os.fspath(tmp_path) not in plain
