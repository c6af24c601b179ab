"""How far the ranking came, who is out of the running, what share of a window is waiting (rules 5, 7, 10, 11; M34)."""

from __future__ import annotations

import csv
import io
from decimal import Decimal

import pytest

from runner.decide.answer import answer_lines
from runner.decide.model import Decision
from runner.decide.sentences import english, joined
from runner.decide.tables import csv_bytes, spreadsheet_bytes
from runner.evidence.attempt import Settings, Status
from runner.protocol.schema import Plan, Task
from tests.decide.worlds import World, tariffs


def walk(decision: Decision) -> list[str]:
    return [reason.code.removeprefix("walk.") for reason in decision.walk]


def test_rule_11_the_walk_on_own_machines_says_why_the_time_decides() -> None:
    """A question for the smallest budget that is answered by times needs a reason, step by step (AU 17)."""
    world = World(variants=("b1", "b4"))
    world.passes("cpu", "b1", 10, 11, 12)
    world.passes("cpu", "b4", 20, 21, 22)
    decision = world.decision()
    assert decision.chosen == "cpu.b1" and walk(decision) == [
        "own-cost",
        "own-failures",
        "times-decide",
        "own-questions",
    ]
    assert "smallest committed budget" in decision.walk[0].text and "nothing is rented" in decision.walk[0].text
    assert "so no committed budget can be the smallest and the time decides" in decision.rule.text
    tied = World(variants=("b1", "b4"))
    tied.passes("cpu", "b1", 10, 11, 12)
    tied.passes("cpu", "b4", 10, 11, 13)
    assert "the time decides; a gap between medians" in tied.decision().rule.text


def test_rule_5_each_step_of_the_walk_says_what_it_found() -> None:
    cost = World()
    cost.passes("A", "b1", 10, 11, 12)
    cost.passes("B", "b1", 10, 11, 12)
    assert [reason.text for reason in cost.decision().walk] == [
        "Committed cost: that of A.b1 is the smallest, so failures, times and open questions are not compared."
    ]
    equal = tariffs("A 3 300.00", "B 3 300.00", "C 3 300.00")
    failures = World(prices=equal, planned=4)
    failures.passes("A", "b1", 10, 11, 12, 11)
    for gpu in "BC":
        failures.passes(gpu, "b1", 10, 11, 12)
        failures.add(gpu, "b1", None, status=Status.KILLED)
    found = failures.decision()
    assert (found.chosen, walk(found)) == ("A.b1", ["cost", "failures-decide"])
    fewest = World(prices=equal, planned=4)
    for gpu in "AB":
        fewest.passes(gpu, "b1", 10, 11, 12, 11)
    fewest.passes("C", "b1", 10, 11, 12)
    fewest.add("C", "b1", None, status=Status.KILLED)
    found = fewest.decision()
    assert (found.tied, walk(found)) == (("A.b1", "B.b1"), ["cost", "failures-fewest", "times", "questions"])
    assert found.walk[0].text == "Committed cost: 300.00 EUR is the smallest, the same for A.b1, B.b1 and C.b1."
    assert found.walk[1].text == "Failures: fewest, 0 each, of A.b1 and B.b1; only these are compared further."
    times = World(prices=equal)
    times.passes("A", "b1", 10, 11, 12)
    times.passes("B", "b1", 20, 21, 22)
    assert walk(times.decision()) == ["cost", "failures", "times-decide"]


def test_rule_12_a_lone_one_and_none_were_not_ranked() -> None:
    lone = World()
    lone.passes("A", "b1", 10, 11, 12)
    assert walk(lone.decision()) == [] and walk(World().decision()) == []


def test_rule_10_an_admissible_one_behind_the_open_winner_is_in_a_list() -> None:
    """While an unknown price keeps A open, A.b4 lost to A.b1 all the same: it must stand somewhere (M44)."""
    world = World(prices=tariffs("A 3 300.00", "B 7 900.00"), variants=("b1", "b4"), planned=4)
    world.passes("A", "b1", 10, 11, 12, 11)
    world.passes("A", "b4", 10, 11, 12)
    world.add("A", "b4", None, status=Status.KILLED)
    world.passes("B", "b1", 10, 11, 12, 11)
    decision = world.decision()
    assert (decision.rule.code, decision.tied) == ("rule.unpriced", ("A.b1", "B.b1"))
    (out,) = decision.excluded
    assert out.configuration_id == "A.b4" and out.constraint is None
    assert out.reason.text == (
        "behind A.b1, which would be chosen if nothing kept it open: equal cost; failures: 1 against 0"
    )
    named = {*decision.tied, *(item.configuration_id for item in decision.excluded)}
    assert named == {row.configuration_id for row in world.balance().rows if row.measured}


def test_m30_the_passes_that_are_told_are_those_of_the_tied() -> None:
    """Two passes of one that is out of the running are not `the median of 2 passes` of what is undecided."""
    world = World(variants=("b1", "b4"), planned=5, prices=tariffs("A 3 300.00", "B 3 300.00"))
    for gpu in "AB":
        world.passes(gpu, "b1", 10, 11, 12, 11, 13)
    world.passes("A", "b4", 10, 11)
    counts = [reason.values["n_count"] for reason in world.decision().uncertain if "n_count" in reason.values]
    assert counts == ["5"]


class WaitingWorld(World):
    """After the measuring, the rental is kept for two days before somebody collects."""

    @property
    def plan(self) -> Plan:
        plan = super().plan
        collect = plan.task[-1].model_copy(update={"after": ("keep",)})
        keep = Task(id="keep", title="Keep", kind="wait", duration="72:00:00", after=(plan.task[-2].id,))
        return plan.model_copy(update={"task": (*plan.task[:-1], keep, collect)})


@pytest.mark.parametrize(
    ("prices", "said"),
    [
        (("A 7 300.00",), "would fit 3 days, whose price is not known."),
        (("A 7 300.00", "A 3 200.00"), "would fit 3 days for 200.00 EUR."),
        (("A 7 300.00", "A 3 300.00"), ""),
    ],
)
def test_m34_waiting_that_costs_a_longer_package_is_said_with_the_shorter_one(
    prices: tuple[str, ...], said: str
) -> None:
    world = WaitingWorld(prices=tariffs(*prices))
    world.passes("A", "b1", 3600, 3600, 3600)
    found = [reason.text for reason in world.decision().reasons if reason.code.startswith("chosen.waiting")]
    wanted = f"72 h of the window of 75 h are waiting; a plan of at most 72 h {said}"
    assert found == ([wanted] if said else [])


def test_m34_waiting_that_costs_nothing_is_not_said() -> None:
    world = World(prices=tariffs("A 3 300.00"))
    world.passes("A", "b1", 3600, 3600, 3600)
    assert not [reason for reason in world.decision().reasons if reason.code.startswith("chosen.waiting")]


def test_names_and_days_of_a_sentence_are_a_list_of_the_language() -> None:
    assert english("names", "a, b, c") == "a, b and c" and english("days", "7, 30") == "7 or 30"
    assert english("expense", "Upload, transfer") == "Upload, transfer", "other people's text stays as it is"
    assert joined(["a"], "and") == "a" and joined(["a", "b …"], "and") == "a, b …"


@pytest.mark.parametrize(
    ("language", "separator", "number"),
    [("en", ",", "-1.849"), ("de", ";", "-1,849"), ("fr", ";", "-1,849"), ("tr", ";", "-1,849")],
)
def test_no_03_the_table_for_people_opens_in_a_spreadsheet_of_their_language(
    language: str, separator: str, number: str
) -> None:
    """Excel takes UTF-8 only with a byte order mark, and reads 1.849 as one thousand in German."""
    rows = [{"a": Decimal("-1.849"), "b": "=1+1", "c": "ü; 1.5, 2", "d": True, "e": None, "f": 7}]
    data = spreadsheet_bytes(rows, tuple("abcdef"), language)
    assert data.startswith(b"\xef\xbb\xbf")
    head, line = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), delimiter=separator)
    assert head == list("abcdef")
    assert line == [number, "'=1+1", "ü; 1.5, 2", "true", "", "7"], "only numbers change, texts stay texts"
    assert (
        csv_bytes(rows, tuple("abcdef"))
        == b'"a","b","c","d","e","f"\n"-1.849","=1+1","\xc3\xbc; 1.5, 2","true","","7"\n'
    )


def test_m38_what_is_short_of_passes_is_named_where_there_are_several() -> None:
    """`0 accepted` beside nine accepted passes: it is the second corpus with the second seed that has none."""
    world = World(corpora=("one", "two"), seeds=(1, 2), prices=tariffs("A 3 300.00"))
    for corpus, seed in (("one", 1), ("one", 2), ("two", 1)):
        world.passes("A", "b1", 10, 11, 12, corpus=corpus, seed=seed)
    (short,) = [c for c in world.row("A.b1").constraints if c.name == "enough passes"]
    assert short.reason.text == "fewer passes over two (seed 2) than the protocol's minimum: 0 accepted, 3 needed"


def test_a_deadline_that_had_passed_is_met_by_no_plan() -> None:
    world = World(deadline="2026-09-30T09:00:00Z")
    world.passes("A", "b1", 10, 11, 12)
    world.passes("B", "b1", 10, 11, 12)
    assert [reason.code for reason in world.decision().would_help] == ["help.deadline-past"]


def test_m29_where_work_differs_the_note_says_what_would_help() -> None:
    cut = {"b1": Settings(batch_size=1, max_length=512), "b4": Settings(batch_size=4, max_length=256)}
    world = World(variants=("b1", "b4"), settings=cut)
    world.passes("A", "b1", 10, 11, 12)
    world.passes("A", "b4", 5, 6, 7)
    decision = world.decision()
    assert (decision.rule.code, [one.code for one in decision.would_help]) == (
        "rule.different-work",
        ["help.same-work"],
    )


def test_m37_the_answer_shows_no_cost_per_corpus_of_an_inadmissible_one_and_which_seed_a_line_is_of() -> None:
    world = World(variants=("b1", "b4"), seeds=(1, 2))
    for seed in (1, 2):
        world.passes("A", "b1", 10, 11, 12, seed=seed)
    world.passes("A", "b4", 10, 11, seed=1)
    lines = [line.split() for line in answer_lines(world.balance(), world.decision())]
    shown = {line[0]: line for line in lines if line and line[-1] in ("yes", "passes)")}
    assert "none" in shown["A.b4"] and shown["A.b1"].count("300.00") == 2
    assert [line[1:4] for line in lines if line and line[0] == "A.b1" and line[-1] == "yes"] == [
        ["final,", "seed", n] for n in ("1", "2")
    ]
