"""What a user must write is refused where it still stands as shipped, with its field and line (M2, M46, DESIGN 4)."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from runner.cli.main import run
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.pricing.rental import read_rental
from runner.protocol import shipped
from runner.protocol.freeze import make_freeze
from runner.protocol.read import read_plan, read_protocol
from tests.support.small_campaign import make_campaign

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "protocol"
FILLED = {
    "provider": '"P"', "order": '"1"', "gpu": '"rtx-4090"', "lots": "2", "days": "7", "amount": '"220.00"',
    "starts_at": '"2027-10-04T09:00+02:00"', "ends_at": '"2027-10-11T09:00+02:00"', "currency": '"USD"',
}  # fmt: skip


def filled(text: str, *, but: str = "") -> str:
    """The example, each field filled in, but one."""
    for name, value in FILLED.items():
        if name != but:
            text = re.sub(rf"(?m)^{name} = \S+( IN\")?", f"{name} = {value}", text)
    return text


def test_m46_the_untouched_rental_example_is_no_record() -> None:
    """M46: every field that the invoice gives is named with its line; none of them was ordered or paid."""
    with pytest.raises(InputRefused) as refused:
        read_rental(SHIPPED / "rental.example.toml")
    assert [detail.split(": ")[1] for detail in refused.value.details] == [
        "provider", "order", "gpu", "lots", "days", "starts_at", "ends_at", "amount", "currency",
    ]  # fmt: skip
    assert refused.value.line and refused.value.next_step.startswith("fill these fields in")


@pytest.mark.parametrize("name", FILLED)
def test_m46_a_rental_record_with_one_field_left_is_refused_by_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / "rental.toml"
    example = (SHIPPED / "rental.example.toml").read_text(encoding="utf-8")
    path.write_text(filled(example, but=name), encoding="utf-8")
    with pytest.raises(InputRefused) as refused:
        read_rental(path)
    assert refused.value.column == name
    path.write_text(filled(example), encoding="utf-8")
    assert read_rental(path).order == "1"


def test_the_values_of_the_example_are_those_that_are_shipped() -> None:
    """The check knows the files as they are in the repository."""
    protocol, plan = read_protocol(SHIPPED / "quality-protocol.toml"), read_plan(SHIPPED / "plan.toml")
    assert (protocol.question.name, protocol.question.text) == (shipped.EXAMPLE_NAME, shipped.EXAMPLE_QUESTION)
    assert [corpus.permission for corpus in protocol.corpus] == [shipped.EXAMPLE_PERMISSION]
    assert plan.deadline == shipped.EXAMPLE_DEADLINE
    assert {task.id: task.start for task in plan.task if task.start} == shipped.EXAMPLE_STARTS
    assert {task.id: task.end for task in plan.task if task.end} == shipped.EXAMPLE_ENDS


def test_m1_real_texts_are_not_frozen_under_the_question_of_the_example(tmp_path: Path) -> None:
    """M1, M3: own texts (`synthetic = false`) with the example's name, question, permission and dates."""
    shutil.copytree(SHIPPED, tmp_path / "protocol", ignore=shutil.ignore_patterns("protocol.lock*", "keys", "baseline"))
    protocol, plan = read_protocol(SHIPPED / "quality-protocol.toml"), read_plan(SHIPPED / "plan.toml")
    real = protocol.model_copy(update={"question": protocol.question.model_copy(update={"synthetic": False})})
    files = tmp_path / "protocol/quality-protocol.toml", tmp_path / "protocol/plan.toml"
    shipped.refuse_example(protocol, plan, *files)  # made-up texts: the demo
    with pytest.raises(InputRefused) as refused:
        shipped.refuse_example(real, plan, *files)
    question, dates = refused.value.parts
    assert [detail.split(": ")[1] for detail in question.details] == [
        "question.name", "question.text", "corpus[1].permission",
    ]  # fmt: skip
    assert [detail.split(": ")[1] for detail in dates.details][:2] == ["deadline", "task[1].start"]
    assert "corpus[1].permission" in str(refused.value) and "task[10].start" in str(refused.value)
    own = {"name": "mine", "text": "Which one?"}
    corpora = [protocol.corpus[0].model_copy(update={"permission": "mine"})]
    mine = real.model_copy(update={"question": real.question.model_copy(update=own), "corpus": corpora})
    with pytest.raises(InputRefused) as refused:
        shipped.refuse_example(mine, plan, *files)
    assert [detail.split(": ")[1] for detail in refused.value.details][:2] == ["deadline", "task[1].start"]
    # A deadline of one's own does not make the example's starts and ends one's own: a collection of next year would
    # silently make a window of months.
    later = plan.model_copy(update={"deadline": "2027-10-08T13:00"})
    with pytest.raises(InputRefused) as refused:
        shipped.refuse_example(mine, later, *files)
    assert [detail.split(": ")[1] for detail in refused.value.details] == [
        "task[1].start", "task[7].start", "task[7].end", "task[10].start", "task[10].end",
    ]  # fmt: skip
    with_offset = [
        task.model_copy(update={"start": task.start and f"{task.start}+02:00", "end": task.end and f"{task.end}+02:00"})
        for task in plan.task
    ]
    shipped.refuse_example(mine, later.model_copy(update={"task": with_offset}), *files)


def test_a_freeze_refuses_what_says_fill_in_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """M3: what `protocol new` and `use-corpus` leave open is filled in before the freeze."""
    campaign = make_campaign(tmp_path)
    text = campaign.protocol.read_text(encoding="utf-8")
    campaign.protocol.write_text(
        text.replace("final = ", 'licence = "FILL IN: terms of the texts"\nfinal = ', 1), encoding="utf-8"
    )
    assert run(["--campaign", str(tmp_path), "freeze"]) == 2
    shown = capsys.readouterr().err
    assert "the quality protocol is not filled in" in shown and "corpus[1].licence" in shown
    assert not campaign.lock.exists()
    campaign.protocol.write_text(text, encoding="utf-8")
    assert make_freeze(Campaign(tmp_path)).outcome == "frozen"


def test_m3_everything_that_stands_in_the_way_of_a_freeze_is_named_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """M2, M3: fields left open, foreign labels, a missing baseline: one refusal, each with its step."""
    campaign = make_campaign(tmp_path, labels={"0": "no", "1": "yes"})
    text = campaign.protocol.read_text(encoding="utf-8")
    text = text.replace("final = ", 'licence = "FILL IN: terms of the texts"\nfinal = ', 1)
    campaign.protocol.write_text(text.partition("\n[baseline]")[0], encoding="utf-8")
    (campaign.baseline_dir / "small-final.parquet").unlink()
    assert run(["--campaign", str(tmp_path), "freeze"]) == 2
    shown = capsys.readouterr().err
    assert "3 things are to be put right first" in shown
    assert "the quality protocol is not filled in" in shown and "corpus[1].licence" in shown
    assert "label" in shown and "'yes'" in shown
    assert f"next: runner --campaign {tmp_path} baseline" in shown
    assert not campaign.lock.exists()


def test_m34_faults_of_the_plan_are_named_with_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """M34: a plan that ends before it starts and fields left open are one refusal, at the first freeze and later."""
    campaign = make_campaign(tmp_path)
    plan, text = campaign.plan.read_text(encoding="utf-8"), campaign.protocol.read_text(encoding="utf-8")
    campaign.plan.write_text(plan.replace('end = "2026-12-28T12:00"', 'end = "2026-12-28T08:00"'), encoding="utf-8")
    campaign.protocol.write_text(
        text.replace("final = ", 'licence = "FILL IN: terms of the texts"\nfinal = ', 1), encoding="utf-8"
    )
    assert run(["--campaign", str(tmp_path), "freeze"]) == 2
    shown = capsys.readouterr().err
    assert "2 things are to be put right first" in shown
    assert "corpus[1].licence" in shown and "plan.toml" in shown and "2026-12-28T08:00" in shown
    assert not campaign.lock.exists()
    campaign.protocol.write_text(text, encoding="utf-8")
    assert run(["--campaign", str(tmp_path), "freeze"]) == 2, "the plan alone"
    assert not campaign.lock.exists()
    campaign.plan.write_text(plan, encoding="utf-8")
    assert run(["--campaign", str(tmp_path), "freeze"]) == 0
    campaign.plan.write_text(plan.replace('end = "2026-12-28T12:00"', 'end = "2026-12-28T08:00"'), encoding="utf-8")
    assert run(["--campaign", str(tmp_path), "freeze"]) == 2, "frozen again, the plan is still looked at"


def test_m2_the_baseline_says_first_what_the_freeze_will_refuse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = make_campaign(tmp_path)
    text = campaign.protocol.read_text(encoding="utf-8")
    text = text.replace("final = ", 'licence = "FILL IN: terms of the texts"\nfinal = ', 1)
    campaign.protocol.write_text(text, encoding="utf-8")
    run(["--campaign", str(tmp_path), "baseline"])
    shown = capsys.readouterr().err
    assert shown.startswith("warning: the freeze will refuse: the quality protocol is not filled in")
    assert "corpus[1].licence" in shown
