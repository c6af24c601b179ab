"""Exact identity of predictions (M28): the file cases QU-01, QU-03, QU-04, CO-06, CO-07, CO-09, NO-03."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.cli.main import run
from runner.evidence.campaign import Campaign
from runner.evidence.verdict import Verdict
from runner.judge.campaign import judge_predictions
from runner.judge.verdict import judge_attempt
from runner.protocol.freeze import freeze
from tests.support.small_campaign import SIMPLE_PROTOCOL, case_campaign, make_attempt, write_csv, write_predictions

CASES = Path(__file__).parent.parent / "cases"


def judged(campaign: Campaign, predictions: Path) -> Verdict:
    freeze(campaign)
    return judge_predictions(campaign, predictions)


def validated(campaign: Campaign, predictions: Path) -> int:
    """Exit status of the command on the file."""
    return run(["--campaign", str(campaign.root), "validate", "--predictions", str(predictions)])


def check(verdict: Verdict, name: str) -> str:
    return next(check.status for check in verdict.checks if check.name == name)


def test_qu_01_an_omission_is_not_hidden_by_a_duplicate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """QU-01 (M28): 5 rows for 5 documents; missing u3, u2 twice (lines 3 and 4); no metric."""
    campaign = case_campaign(tmp_path, CASES / "QU-01" / "corpus.csv")
    verdict = judged(campaign, CASES / "QU-01" / "predictions.csv")
    assert not verdict.accepted
    assert verdict.ids is not None
    assert (verdict.ids.expected_ids, verdict.ids.observed_ids, verdict.ids.ids_match) == (5, 5, False)
    assert (verdict.ids.missing, verdict.ids.duplicate, verdict.ids.unexpected) == (1, 1, 0)
    assert verdict.ids.missing_listed == ("u3",)
    assert verdict.ids.duplicate_listed == ("'u2' (lines 3 and 4)",)
    assert verdict.metrics == ()
    assert check(verdict, "metric") == "not assessable"
    status = run(["--campaign", str(tmp_path), "validate", "--predictions", str(CASES / "QU-01" / "predictions.csv")])
    shown = capsys.readouterr().out
    assert status == 3
    assert "missing 1: 'u3'" in shown and "'u2' (lines 3 and 4)" in shown and "accuracy" not in shown


def test_qu_03_matching_is_by_id_not_by_position(tmp_path: Path) -> None:
    """QU-03: the right labels in reverse order are right."""
    campaign = case_campaign(tmp_path, CASES / "QU-03" / "corpus.csv")
    verdict = judged(campaign, CASES / "QU-03" / "predictions.csv")
    assert verdict.accepted, verdict.reasons
    assert verdict.metrics[0].fraction == "4/4"
    assert validated(campaign, CASES / "QU-03" / "predictions.csv") == 0


def test_qu_04_labels_outside_the_table_are_listed_not_trimmed(tmp_path: Path) -> None:
    """QU-04: lines 2, 3, 4 by label, line 5 by score; nothing is computed."""
    campaign = case_campaign(tmp_path, CASES / "QU-04" / "corpus.csv")
    verdict = judged(campaign, CASES / "QU-04" / "predictions.csv")
    labels, scores = (next(item for item in verdict.checks if item.name == name) for name in ("labels", "scores"))
    assert labels.reason == (
        "line 2: label 'pos ' not in {neg, pos}; line 3: label 'NEG' not in {neg, pos}; "
        "line 4: label 'maybe' not in {neg, pos}"
    )
    assert scores.reason == "line 5: score 1.7 outside 0…1"
    assert verdict.metrics == () and not verdict.accepted
    assert validated(campaign, CASES / "QU-04" / "predictions.csv") == 3


def test_co_06_decomposed_ids_get_a_hint_and_no_match(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """CO-06 (M7): the one hint says what differs, the form and not the letter case."""
    campaign = case_campaign(tmp_path, CASES / "CO-06" / "corpus_ok.csv")
    verdict = judged(campaign, CASES / "CO-06" / "predictions_nfd.csv")
    assert verdict.ids is not None
    assert (verdict.ids.missing, verdict.ids.unexpected) == (1, 1)
    assert verdict.ids.hints == (
        "equal after Unicode normalisation (NFC): 'café-1' / 'cafe\\u0301-1'; the ids were written in another form",
    )
    assert verdict.metrics == ()
    capsys.readouterr()
    assert validated(campaign, CASES / "CO-06" / "predictions_nfd.csv") == 3
    shown = capsys.readouterr().out
    assert "missing 1" in shown and "unexpected 1" in shown and "letter case" not in shown


def test_co_07_lost_leading_zeros_get_a_hint_and_no_match(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """CO-07 (M7): 001 is not 1."""
    campaign = case_campaign(tmp_path, CASES / "CO-07" / "corpus.csv")
    verdict = judged(campaign, CASES / "CO-07" / "predictions.csv")
    assert verdict.ids is not None
    assert verdict.ids.missing_listed == ("001", "002", "010")
    assert verdict.ids.unexpected_listed == ("1", "2", "10")
    assert verdict.ids.duplicate == 0
    assert verdict.ids.hints == ("leading zeros lost? '001' / '1', '002' / '2', '010' / '10'",)
    assert verdict.metrics == ()
    capsys.readouterr()
    assert validated(campaign, CASES / "CO-07" / "predictions.csv") == 3
    shown = capsys.readouterr().out
    assert "missing 3" in shown and "unexpected 3" in shown and "leading zeros lost?" in shown
    assert "accuracy" not in shown


def test_co_09_ids_through_a_float_column(tmp_path: Path) -> None:
    """CO-09: 3 missing, 2 distinct unexpected, one of them twice; the hint names the reason."""
    campaign = case_campaign(tmp_path, CASES / "CO-09" / "corpus.csv")
    verdict = judged(campaign, CASES / "CO-09" / "predictions_float.csv")
    assert verdict.ids is not None
    assert verdict.ids.missing == 3
    assert verdict.ids.unexpected_listed == ("9007199254740992.0", "nan")
    assert verdict.ids.duplicate_listed == ("'9007199254740992.0' (lines 2 and 3)",)
    assert verdict.ids.hints == ("ids look like floating-point numbers; keep them as text",)
    assert verdict.metrics == () and not verdict.accepted
    assert check(verdict, "metric") == "not assessable"
    assert validated(campaign, CASES / "CO-09" / "predictions_float.csv") == 3


def test_co_13_an_allowed_empty_text_still_needs_its_one_prediction(tmp_path: Path) -> None:
    """CO-13, point 3: e1 to e3 are empty or blank and allowed; each counts like any other document."""
    protocol = SIMPLE_PROTOCOL.replace("group_columns", "allow_empty_texts = true\ngroup_columns")
    campaign = case_campaign(tmp_path, CASES / "CO-13" / "corpus.csv", protocol=protocol)
    right = [("e1", "pos"), ("e2", "neg"), ("e3", "pos"), ("e4", "neg"), ("e5", "pos")]
    freeze(campaign)
    for rows, status, missing in ((right, 0, ()), (right[1:], 3, ("e1",)), (right[:2] + right[3:], 3, ("e3",))):
        file = write_csv(tmp_path / "predictions.csv", ("id", "label"), rows)
        ids = judge_predictions(campaign, file).ids
        assert ids is not None and (ids.expected_ids, ids.missing_listed) == (5, missing)
        assert validated(campaign, file) == status


def test_mo_09_labels_that_flip_with_the_batch_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """MO-09: 2 of 5 flips against batch 1, none allowed; the accuracies alone would not show it."""
    case = CASES / "MO-09"
    corpus = tmp_path / "corpus.csv"
    corpus.write_text("id,text,label\n" + "".join(f"p{n},t{n},{'pos' if n % 2 else 'neg'}\n" for n in range(1, 6)))
    protocol = SIMPLE_PROTOCOL.replace('max_drop = "0.02"', 'max_drop = "1"\nmax_flips = 0').replace("0.90", "0")
    rows = [tuple(line.split(",")) for line in (case / "batch1.csv").read_text().splitlines()[1:]]
    campaign = case_campaign(tmp_path / "campaign", corpus, protocol=protocol, baseline=rows)
    verdict = judged(campaign, case / "batch4_left.csv")
    assert verdict.flips == 2
    assert [(flip.document_id, flip.baseline_label, flip.label) for flip in verdict.flips_listed] == [
        ("p2", "neg", "pos"),
        ("p4", "neg", "pos"),
    ]
    assert verdict.reasons == ("flips: flips 2 > 0 allowed",)
    assert validated(campaign, case / "batch4_left.csv") == 3
    shown = capsys.readouterr().out
    assert "'p2': 'neg' -> 'pos'" in shown and "'p4': 'neg' -> 'pos'" in shown


@pytest.mark.parametrize(("least", "accepted"), [("0.6", True), ("0.61", False)])
def test_m29_an_agreement_equal_to_the_least_is_enough(tmp_path: Path, least: str, accepted: bool) -> None:
    """M29, MO-09: 3 of 5 labels as in the baseline are exactly 0.6, as QU-07 has it for the drop."""
    case = CASES / "MO-09"
    corpus = tmp_path / "corpus.csv"
    corpus.write_text("id,text,label\n" + "".join(f"p{n},t{n},{'pos' if n % 2 else 'neg'}\n" for n in range(1, 6)))
    protocol = SIMPLE_PROTOCOL.replace('min_agreement = "0"', f'min_agreement = "{least}"')
    protocol = protocol.replace('max_drop = "0.02"', 'max_drop = "1"').replace("0.90", "0")
    rows = [tuple(line.split(",")) for line in (case / "batch1.csv").read_text().splitlines()[1:]]
    verdict = judged(
        case_campaign(tmp_path / "campaign", corpus, protocol=protocol, baseline=rows), case / "batch4_left.csv"
    )
    assert (verdict.agreement, verdict.flips, verdict.accepted) == ("3/5", 2, accepted)


@pytest.mark.parametrize(
    ("expected", "given", "hints"),
    [
        (" a", "a", ("blanks at the ends added or lost? ' a' / 'a'",)),
        ("Ab", "aB", ("equal except for letter case: 'Ab' / 'aB'",)),
        ("É", "e\u0301", ("equal except for letter case: 'É' / 'e\\u0301'",)),
        ("x", "y", ()),
    ],
)
def test_a_hint_says_only_what_really_differs(
    tmp_path: Path, expected: str, given: str, hints: tuple[str, ...]
) -> None:
    """CO-04, CO-06, CO-07 (M7): each pair of ids gets the narrowest reason, once, and no match."""
    corpus = write_csv(tmp_path / "corpus.csv", ("id", "text", "label"), [(expected, "t", "pos"), ("z", "u", "neg")])
    campaign = case_campaign(tmp_path / "campaign", corpus)
    verdict = judged(campaign, write_csv(tmp_path / "p.csv", ("id", "label"), [(given, "pos"), ("z", "neg")]))
    assert verdict.ids is not None and verdict.ids.hints == hints
    assert not verdict.accepted


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_ids_that_look_like_formulas_are_just_ids(tmp_path: Path, form: str) -> None:
    """NO-03: an id such as =1+1 is kept as it is, and a line with a quotation mark too."""
    corpus = tmp_path / "corpus.csv"
    corpus.write_text('id,text,label\n=1+1,a,pos\n"say ""hi""",b,neg\n', encoding="utf-8")
    campaign = case_campaign(tmp_path / "campaign", corpus)
    predictions = tmp_path / f"other-engine.{form}"
    predictions.write_text(
        'id,label\n=1+1,pos\n"say ""hi""",neg\n'
        if form == "csv"
        else '{"id": "=1+1", "label": "pos"}\n{"label": "neg", "id": "say \\"hi\\""}\n',
        encoding="utf-8",
    )
    assert judged(campaign, predictions).accepted


def test_parquet_of_an_attempt_lists_rows(tmp_path: Path) -> None:
    """M28 on the file of an attempt: rows are counted from 1."""
    campaign = case_campaign(tmp_path, CASES / "QU-01" / "corpus.csv")
    lock = freeze(campaign)
    path = write_predictions(
        campaign.predictions / "a000.parquet",
        [("u1", "pos"), ("u2", "neg"), ("u2", "neg"), ("u4", "neg"), ("u9", "pos")],
    )
    verdict = judge_attempt(campaign, lock, make_attempt(campaign, lock, path))
    assert verdict.ids is not None
    assert verdict.ids.duplicate_listed == ("'u2' (rows 2 and 3)",)
    assert verdict.ids.missing_listed == ("u3", "u5")
    assert verdict.ids.unexpected_listed == ("u9",)
