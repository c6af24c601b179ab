"""Several corpora, several seeds (M27, M38; issue 3 line 7): each judged apart, deliverables counted once."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from runner.cli.main import run
from runner.decide.write import write_decision
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.store import read_attempts
from runner.judge.campaign import read_paired, read_verdicts
from runner.protocol.freeze import freeze, make_freeze
from tests.support.small_campaign import (
    PLAN,
    PROTOCOL,
    ROWS,
    forget_given_baseline,
    make_attempt,
    make_campaign,
    store_attempt,
    write_csv,
    write_predictions,
)

ROOT = Path(__file__).parents[2]
SEEDS = (0, 7)
CORPORA = ("small-final", "second")
SECOND = '[[corpus]]\nid = "second"\nfinal = "corpus/second.csv"\ngroup_columns = ["stratum"]\n\n[model]'
PROTOCOL_OF_TWO = (
    PROTOCOL.replace("[model]", SECOND, 1).replace("values = [1, 4, 8]", "values = [1, 4]")
    + "\n[measurement]\npasses_planned = 2\nmin_accepted = 2\npasses_most = 4\nseeds = [0, 7]\n"
)
PLAN_OF_TWO = (
    PLAN.replace('["small-final"]', '["small-final", "second"]').replace(
        "delivery = true", 'corpus = "small-final"\npasses = 4\ndelivery = true'
    )
    + """
[[task]]
id = "measure-second"
title = "Measuring the second"
kind = "measurement"
start = "2026-12-28T12:00"
end = "2026-12-28T15:00"
corpus = "second"
passes = 4
delivery = true
"""
)
SECOND_ROWS = [(f"s{row[0]}", f"another {row[1]}", row[2], row[3]) for row in ROWS]


def two_corpora(root: Path) -> Campaign:
    campaign = make_campaign(root, protocol=PROTOCOL_OF_TWO, plan=PLAN_OF_TWO)
    write_csv(campaign.protocol_dir / "corpus" / "second.csv", ("id", "text", "label", "stratum"), SECOND_ROWS)
    write_predictions(campaign.baseline_dir / "second.parquet", [(row[0], row[2]) for row in SECOND_ROWS])
    shutil.copy(ROOT / "tariffs.csv", campaign.tariffs)
    return campaign


def test_m38_every_corpus_and_seed_is_judged_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """M38: the predictions of one corpus say nothing about the other; a bad one takes its deliverable away."""
    campaign = two_corpora(tmp_path)
    lock = freeze(campaign)
    assert [corpus.id for corpus in lock.judgement.corpora] == list(CORPORA)
    rows = {"small-final": ROWS, "second": SECOND_ROWS}
    for number, (index, corpus, seed, variant) in enumerate(product((0, 1), CORPORA, SEEDS, ("b1", "b4"))):
        spoiled = (corpus, variant) == ("second", "b4")
        right = [(row[0], "neg" if spoiled else row[2]) for row in rows[corpus]]
        path = write_predictions(campaign.predictions / f"a{number:03d}.parquet", right)
        attempt = make_attempt(campaign, lock, path, number=number, variant=variant, corpus_id=corpus, seed=seed)
        slot = attempt.slot.model_copy(update={"pass_index": index})
        store_attempt(campaign, attempt.model_copy(update={"slot": slot}))
    assert run(["--campaign", str(tmp_path), "validate"]) == 3
    capsys.readouterr()
    verdicts = {verdict.attempt_id: verdict for verdict in read_verdicts(campaign)}
    for attempt in read_attempts(campaign):
        spoiled = (attempt.corpus_id, attempt.variant_id) == ("second", "b4")
        assert verdicts[attempt.attempt_id].accepted is not spoiled
    paired = {item.corpus_id: item.tests for item in read_paired(campaign)}
    assert list(paired) == ["small-final"]  # b4 has no accepted pass on the other
    assert [test.seed for test in paired["small-final"]] == list(SEEDS)
    made = write_decision(campaign)
    balance = {row.variant_id: row for row in made.balance.rows if row.measured}
    assert balance["b1"].deliverables_accepted == ("second", "small-final") or (
        balance["b1"].deliverables_accepted == CORPORA
    )
    assert balance["b4"].deliverables_accepted == ("small-final",)
    assert not balance["b4"].admissible and balance["b4"].failures == 4
    summaries = {(item.corpus_id, item.seed): item.accepted for item in balance["b1"].summaries}
    assert summaries == dict.fromkeys(product(CORPORA, SEEDS), 2)


def test_m28_predictions_of_one_corpus_are_no_answer_to_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """M28, M38: `--predictions` asks which corpus is meant, and compares exactly its ids."""
    campaign = two_corpora(tmp_path)
    freeze(campaign)
    path = write_predictions(tmp_path / "other.parquet", [(row[0], row[2]) for row in SECOND_ROWS])
    command = ["--campaign", str(tmp_path), "validate", "--predictions", str(path)]
    assert run(command) == 2
    assert "which corpus? There are small-final, second" in capsys.readouterr().err
    assert run([*command, "--corpus", "second"]) == 0
    assert run([*command, "--corpus", "small-final"]) == 3
    assert "missing 10, duplicate 0, unexpected 10" in capsys.readouterr().out


def test_m38_a_plan_of_two_deliverables_says_which_is_measured_when(tmp_path: Path) -> None:
    """M34, M38: refused when the plan is read, with its line, not after paid hours."""
    campaign = two_corpora(tmp_path)
    campaign.plan.write_text(PLAN_OF_TWO.replace('corpus = "second"', ""), encoding="utf-8")
    with pytest.raises(InputRefused, match="'measure-second' does not say which corpus it processes") as caught:
        freeze(campaign)
    assert caught.value.line is not None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda row: row, "the same records"),
        (lambda row: (f"other-{row[0]}", *row[1:]), "the same texts under other ids or labels"),
    ],
)
def test_m37_m38_one_corpus_under_two_ids_is_not_two_deliverables(
    tmp_path: Path, change: Callable[[tuple[str, ...]], tuple[str, ...]], words: str
) -> None:
    """The cost per validated corpus would be halved by writing one corpus down twice."""
    campaign = two_corpora(tmp_path)
    rows = [change(tuple(row)) for row in ROWS]
    write_csv(campaign.protocol_dir / "corpus" / "second.csv", ("id", "text", "label", "stratum"), rows)
    write_predictions(campaign.baseline_dir / "second.parquet", [(row[0], row[2]) for row in rows])
    with pytest.raises(InputRefused, match=f"'small-final' and 'second' are one: {words}"):
        freeze(campaign)
    assert not campaign.lock.exists()


def put_second(campaign: Campaign, rows: list[tuple[str, ...]]) -> None:
    write_csv(campaign.protocol_dir / "corpus" / "second.csv", ("id", "text", "label", "stratum"), rows)
    write_predictions(campaign.baseline_dir / "second.parquet", [(row[0], row[2]) for row in rows])


def test_m37_m38_two_deliverables_are_not_mostly_the_same_work(tmp_path: Path) -> None:
    """More than half of one corpus in the other: refused, counted and listed, unless only one is a deliverable."""
    campaign = two_corpora(tmp_path)
    shared = [(f"other-{row[0]}", f"  {row[1].upper()} ", *row[2:]) for row in ROWS[:6]]
    put_second(campaign, [*shared, *SECOND_ROWS])
    with pytest.raises(InputRefused, match="'small-final' and 'second' are mostly the same work") as caught:
        freeze(campaign)
    assert "6 of the 10 texts of 'small-final' are 6 of the 16 of 'second'" in str(caught.value)
    assert f"'{ROWS[0][0]}' of 'small-final' and 'other-{ROWS[0][0]}' of 'second' have the same text" in (
        caught.value.details
    )
    assert not campaign.lock.exists()
    plan = campaign.plan.read_text(encoding="utf-8")
    campaign.plan.write_text(plan.replace('["small-final", "second"]', '["small-final"]'), encoding="utf-8")
    warnings = make_freeze(campaign).warnings
    assert any("share texts: 6 of the 10" in text for text in warnings)


def test_m37_some_shared_texts_and_ids_of_two_corpora_are_said(tmp_path: Path) -> None:
    """Half of a corpus in the other is allowed and said, with the pairs; so are ids that mean two texts."""
    campaign = two_corpora(tmp_path)
    shared = [(f"other-{row[0]}", *row[1:]) for row in ROWS[:5]]
    renumbered = [(ROWS[number][0], *row[1:]) for number, row in enumerate(SECOND_ROWS)]
    put_second(campaign, [*shared, *renumbered])
    first, second = (text for text in make_freeze(campaign).warnings if text.startswith("corpora "))
    assert "share texts: 5 of the 10 texts of 'small-final' are 5 of the 15 of 'second'" in first
    assert f"('{ROWS[0][0]}' = 'other-{ROWS[0][0]}', " in first and ", ...)" in first
    assert f"10 ids stand for different texts in the two, such as '{ROWS[0][0]}'" in second


def test_m5_no_corpus_is_tuned_on_the_final_texts_of_another(tmp_path: Path) -> None:
    """M5: the configuration is one for all corpora, so tuning of one is apart from the final split of each."""
    campaign = two_corpora(tmp_path)
    header = ("id", "text", "label", "stratum")
    path = campaign.protocol_dir / "corpus" / "tuning.csv"
    protocol = campaign.protocol.read_text(encoding="utf-8")
    final = 'final = "corpus/second.csv"\n'
    assert final in protocol
    campaign.protocol.write_text(protocol.replace(final, f'{final}tuning = "corpus/tuning.csv"\n'), encoding="utf-8")
    write_csv(path, header, [("t1", "a text of its own", "pos", "long"), ("t2", f"{ROWS[0][1]} ", "pos", "long")])
    with pytest.raises(
        InputRefused, match="tuning of corpus 'second' and the final corpus 'small-final' share 1 texts"
    ):
        freeze(campaign)
    write_csv(path, header, [(ROWS[0][0], "a text of its own", "pos", "long")])
    freeze(campaign)


@pytest.mark.e2e
@pytest.mark.timeout(900)
def test_m27_a_real_campaign_of_two_corpora_and_two_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """M27, M38: baseline, freeze, 16 real attempts in child processes, verdicts, decision; deliverables count once."""
    campaign = two_corpora(tmp_path)
    forget_given_baseline(campaign)
    shutil.rmtree(campaign.protocol_dir / "model")
    shutil.copytree(ROOT / "protocol" / "model", campaign.protocol_dir / "model")
    with (ROOT / "protocol" / "corpus" / "final.csv").open(encoding="utf-8", newline="") as stream:
        rows = [(row["id"], row["text"], row["label"], row["stratum"]) for row in csv.DictReader(stream)]
    chosen = [row for row in rows if row[3] == "short"][:16] + [row for row in rows if row[3] == "long"][:8]
    for name, part in (("final", chosen[::2]), ("second", chosen[1::2])):
        write_csv(campaign.protocol_dir / "corpus" / f"{name}.csv", ("id", "text", "label", "stratum"), part)
    text = campaign.protocol.read_text(encoding="utf-8").replace('"0.80"', '"0.5"').replace('"0.75"', '"0.25"')
    campaign.protocol.write_text(text, encoding="utf-8")
    for command in ("baseline", "freeze", "measure --gpu cpu", "validate", "decide"):
        status = run(["--campaign", str(tmp_path), *command.split()])
        assert status == 0, f"{command}: {capsys.readouterr()}"
    attempts = read_attempts(campaign)
    assert len(attempts) == 16
    done = {(attempt.corpus_id, attempt.seed, attempt.variant_id, attempt.slot.pass_index) for attempt in attempts}
    assert done == set(product(CORPORA, SEEDS, ("b1", "b4"), (0, 1)))
    assert all(verdict.accepted for verdict in read_verdicts(campaign))
    paired = {item.corpus_id: [test.seed for test in item.tests] for item in read_paired(campaign)}
    assert paired == {"small-final": [0, 7], "second": [0, 7]}
    balance = json.loads((campaign.note / "balance.json").read_text(encoding="utf-8"))
    for row in balance["rows"]:
        if row["measured"]:
            assert sorted(row["deliverables_accepted"]) == sorted(CORPORA), "16 passes, two deliverables"
            assert {(item["corpus_id"], item["seed"]) for item in row["summaries"]} == set(product(CORPORA, SEEDS))
            assert {item["accepted"] for item in row["summaries"]} == {2}
