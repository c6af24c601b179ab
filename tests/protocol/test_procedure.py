"""An evaluation procedure that the protocol names, its code hashed (M2, M3, M4; issue 3, lines 2 and 6)."""

from __future__ import annotations

import json
import re
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from runner.cli.main import run
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.flows.recompute import recompute_verdicts
from runner.judge.campaign import judge_campaign
from runner.protocol.freeze import freeze, load_lock, make_freeze
from runner.protocol.procedure import GROUP, Answered, find_procedure, foreign_code_allowed, value_of
from runner.protocol.schema import Evaluation
from tests.support.small_campaign import (
    PROTOCOL,
    ROWS,
    make_attempt,
    make_campaign,
    store_attempt,
    write_csv,
    write_predictions,
)

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
EXAMPLE = next(code for code in re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL) if "cost_saved" in code)
TABLES = next(text for text in re.findall(r"```toml\n(.*?)```", DOCUMENT, re.DOTALL) if "[evaluation]" in text)
QUALITY = PROTOCOL[PROTOCOL.index("[quality]") : PROTOCOL.index("[[quality.subgroup]]")]
OWN_PROTOCOL = PROTOCOL.replace(QUALITY, TABLES + "\n")


def own_campaign(tmp_path: Path, code: str = EXAMPLE, protocol: str = OWN_PROTOCOL) -> Campaign:
    campaign = make_campaign(tmp_path, protocol=protocol)
    file = campaign.protocol_dir / "evaluation" / "cost.py"
    file.parent.mkdir()
    file.write_text(code, encoding="utf-8")
    return campaign


def stored(campaign: Campaign, wrong: int) -> None:
    """One attempt under the lock with the first `wrong` documents labelled wrongly."""
    lock = load_lock(campaign)
    other = {"pos": "neg", "neg": "pos"}
    rows = [(row[0], other[row[2]] if number < wrong else row[2]) for number, row in enumerate(ROWS)]
    path = write_predictions(campaign.predictions / "a000.parquet", rows)
    store_attempt(campaign, make_attempt(campaign, lock, path))


def test_m2_the_example_of_the_documentation_is_frozen_and_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """M2: docs/protocol.md's own example. d00 is `neg`: missing it costs 5 of 30, so 25/30 are saved."""
    campaign = own_campaign(tmp_path)
    assert run(["--campaign", str(tmp_path), "freeze"]) == 0, capsys.readouterr().err
    shown = capsys.readouterr().out
    assert "minimum: cost_saved 0.80" in shown and "protocol/evaluation/cost.py" in shown
    stored(campaign, wrong=1)
    (verdict,) = judge_campaign(campaign)
    main, accuracy, group = verdict.metrics
    assert (main.metric, main.value, main.met) == ("cost_saved", "0.833333333333", True)
    assert (accuracy.metric, accuracy.fraction) == ("accuracy", "9/10")
    assert (group.metric, group.group, group.value) == ("cost_saved", "stratum=long", "1.000000000000")
    assert main.interval_method is None and verdict.baseline_metric is not None
    assert verdict.baseline_metric.metric == "cost_saved"
    assert next(check.status for check in verdict.checks if check.name == "drop") == "failed"  # 0.167 > 0.05
    assert verdict.reasons == ("drop: cost_saved drops by 0.166666666667 from the baseline, above 0.05",)
    assert not list(campaign.protocol_dir.rglob("__pycache__"))


def test_m3_a_changed_source_is_named_and_refused(campaign_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """M3, M4: the file, both hashes, exit 2, nothing judged; put back, it holds again."""
    campaign = own_campaign(campaign_root)
    lock = freeze(campaign)
    stored(campaign, wrong=0)
    file = campaign.protocol_dir / "evaluation" / "cost.py"
    file.write_text(EXAMPLE.replace("MISSED, FALSE_ALARM = 5, 1", "MISSED, FALSE_ALARM = 1, 1"), encoding="utf-8")
    for command in ("validate", "freeze"):
        assert run(["--campaign", str(campaign_root), command]) == 2
        assert "evaluation/cost.py" in capsys.readouterr().err
    assert run(["--campaign", str(campaign_root), "protocol", "diff"]) == 3
    shown = capsys.readouterr().out
    assert f"file protocol/evaluation/cost.py: '{lock.judgement.evaluation_files[0].sha256}' -> " in shown
    assert not campaign.verdicts.exists()
    file.unlink()
    with pytest.raises(InputRefused, match="1 frozen field changed"):
        load_lock(campaign)
    file.write_text(EXAMPLE, encoding="utf-8")
    assert load_lock(campaign) == lock
    assert make_freeze(campaign).outcome == "unchanged"


@pytest.fixture
def campaign_root(tmp_path: Path) -> Path:
    return tmp_path / "campaign"


BODY = "def cost_saved(truth, predicted):\n"
FAULTS = [
    ("raise ValueError('no such class')", "failed: ValueError: 'no such class'", 2),
    ("return truth[99]", "failed: IndexError", 2),
    ("raise SystemExit(0)", "failed: SystemExit", 2),
    ("return None", "has no value for the baseline", None),
    ("return float('nan')", "not finite", None),
    ("return 'good'", "gives str", None),
    ("return True", "gives bool", None),
    ("from decimal import Decimal; return Decimal('1e-999999')", "too many digits", None),
    ("from decimal import Decimal; return Decimal('sNaN')", "failed: ValueError", None),
    ("return 10 ** 400", "failed: OverflowError", None),
    ("import random; return random.random()", "two values for the same predictions", None),
    ("return 1 +", "failed: SyntaxError", 2),
]


@pytest.mark.parametrize(("body", "words", "line"), FAULTS)
def test_m2_a_procedure_that_cannot_judge_stops_the_freeze(
    tmp_path: Path, body: str, words: str, line: int | None
) -> None:
    """M2: before anything is measured, with the line in the user's own file; nothing is written."""
    campaign = own_campaign(tmp_path, BODY + f"    {body}\n")
    with pytest.raises(InputRefused, match=re.escape(words)) as caught:
        freeze(campaign)
    assert caught.value.line == line
    assert not campaign.lock.exists() and not (campaign.protocol_dir / "reference").exists()


PLACES = [
    ("evaluation/none.py:cost_saved", "is not there"),
    ("../cost.py:cost_saved", "below protocol/"),
    ("evaluation/cost.py:other", "names no function"),
    ("no_such_package.metrics:f", "not installed"),
    ("no_such_entry_point", "no installed packages offer"),
]


@pytest.mark.parametrize(("function", "words"), PLACES)
def test_m2_a_procedure_that_is_not_there(tmp_path: Path, function: str, words: str) -> None:
    protocol = OWN_PROTOCOL.replace("evaluation/cost.py:cost_saved", function)
    with pytest.raises(InputRefused, match=re.escape(words)):
        freeze(own_campaign(tmp_path, protocol=protocol))


def test_m2_own_and_evaluation_belong_together(tmp_path: Path) -> None:
    alone = OWN_PROTOCOL[: OWN_PROTOCOL.index("[evaluation]")] + OWN_PROTOCOL[OWN_PROTOCOL.index("[[quality.sub") :]
    with pytest.raises(InputRefused, match="belong together"):
        freeze(own_campaign(tmp_path / "a", protocol=alone))
    unused = OWN_PROTOCOL.replace('metric = "own"', 'metric = "accuracy"')
    with pytest.raises(InputRefused, match="belong together"):
        freeze(own_campaign(tmp_path / "b", protocol=unused))
    taken = OWN_PROTOCOL.replace('name = "cost_saved"', 'name = "accuracy"')
    with pytest.raises(InputRefused, match="built-in metric"):
        freeze(own_campaign(tmp_path / "c", protocol=taken))


def package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with an entry point; importing it leaves a mark."""
    root = folder / "own_metrics"
    root.mkdir(parents=True)
    (root / "__init__.py").write_text("")
    mark = f"import pathlib\npathlib.Path({str(folder / 'RAN')!r}).touch()\n"
    (root / "cost.py").write_text(mark + EXAMPLE, encoding="utf-8")
    (root / "helper.py").write_text("X = 1\n")
    info = folder / "own_metrics-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-metrics\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nsaved = own_metrics.cost:cost_saved\n")
    monkeypatch.syspath_prepend(str(folder))
    return root


@pytest.mark.parametrize("function", ["saved", "own_metrics.cost:cost_saved"])
def test_m2_an_installed_package_and_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    """Issue 3, line 6: every source file of the package is hashed; finding and comparing run no code."""
    root = package(tmp_path / "site", monkeypatch)
    protocol = OWN_PROTOCOL.replace("evaluation/cost.py:cost_saved", function)
    campaign = own_campaign(tmp_path / "campaign", protocol=protocol)
    found = find_procedure(Evaluation(name="cost_saved", function=function), campaign.protocol_dir)
    assert [file.path for file in found.files] == [f"own_metrics/{name}.py" for name in ("__init__", "cost", "helper")]
    assert not (tmp_path / "site" / "RAN").exists()
    try:
        freeze(campaign)
        (tmp_path / "site" / "RAN").unlink()
        stored(campaign, wrong=0)
        assert judge_campaign(campaign)[0].metrics[0].metric == "cost_saved"
        (root / "helper.py").write_text("X = 2\n")
        with pytest.raises(InputRefused) as caught:
            load_lock(campaign)
        assert caught.value.details[0].startswith("file own_metrics/helper.py: ")
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "own_metrics"]:
            del sys.modules[name]


def test_m45_verify_runs_no_code_that_came_with_what_it_verifies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M45: `not checked` with the hashes, until the user has read the code and says so; then a real check."""
    mark = tmp_path / "RAN"
    campaign = own_campaign(tmp_path / "campaign", f"import pathlib\npathlib.Path({str(mark)!r}).touch()\n" + EXAMPLE)
    lock = freeze(campaign)
    stored(campaign, wrong=0)
    judge_campaign(campaign)
    mark.unlink()
    step = recompute_verdicts(campaign)
    assert step.status == "not checked" and "--run-evaluation" in step.finding
    assert step.details == (f"protocol/evaluation/cost.py: sha256 {lock.judgement.evaluation_files[0].sha256}",)
    assert not mark.exists()
    token = foreign_code_allowed.set(True)
    try:
        assert recompute_verdicts(campaign).status == "passed" and mark.exists()
    finally:
        foreign_code_allowed.reset(token)


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        ("0.1", Fraction(1, 10)),
        ("Fraction(1, 3)", Fraction(1, 3)),
        ("Decimal('0.30')", Fraction(3, 10)),
        ("1", Fraction(1)),
        ("numpy.float64(0.1)", Fraction(1, 10)),
        ("None", None),
    ],
)
def test_m29_numbers_stay_exact(tmp_path: Path, value: str, exact: Fraction | None) -> None:
    """DESIGN 6.2: a float counts as the decimal that Python shows, 0.1 as one tenth. What it prints goes to stderr."""
    imports = "from fractions import Fraction\nfrom decimal import Decimal\nimport numpy\n"
    (tmp_path / "f.py").write_text(f"{imports}def f(ids, labels):\n    print(ids)\n    return {value}\n")
    procedure = find_procedure(Evaluation(name="f", function="f.py:f"), tmp_path)
    answered = Answered(("a",), ("a",), ("a", "b"), lambda: ("d1",))
    assert value_of(procedure, answered) == exact
    assert np.isfinite(float(exact or Decimal(0)))


def test_locks_without_a_procedure_keep_their_fingerprint(tmp_path: Path) -> None:
    """M3: attempts of campaigns that were frozen before there were procedures still stand under their lock."""
    lock = freeze(make_campaign(tmp_path))
    content = json.loads(lock.dump())["judgement"]
    assert "evaluation_files" not in content and "evaluation" not in content["protocol"]


RULE = next(code for code in re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL) if "def right(" in code)


def unlabelled_campaign(tmp_path: Path, code: str = RULE) -> Campaign:
    """The corpus has no label column; d00, d02, ... are `neg` by the rule, as they are in ROWS."""
    answers = 'group_columns = ["stratum"]\nanswers = "evaluation/rule.py:right"'
    campaign = make_campaign(tmp_path, protocol=PROTOCOL.replace('group_columns = ["stratum"]', answers))
    rows = [(row[0], row[1], row[3]) for row in ROWS]
    write_csv(campaign.protocol_dir / "corpus" / "final.csv", ("id", "text", "stratum"), rows)
    (campaign.protocol_dir / "evaluation").mkdir()
    (campaign.protocol_dir / "evaluation" / "rule.py").write_text(code, encoding="utf-8")
    return campaign


def test_m2_right_answers_come_from_a_procedure(tmp_path: Path) -> None:
    """M2: a corpus without labels is frozen with the answers of a rule, judged by them, and never asked again."""
    campaign = unlabelled_campaign(tmp_path)
    lock = freeze(campaign)
    assert [file.path for file in lock.judgement.evaluation_files] == ["protocol/evaluation/rule.py"]
    with_labels = freeze(make_campaign(tmp_path / "labelled"))
    assert lock.judgement.corpora[0].labels_sha256 == with_labels.judgement.corpora[0].labels_sha256
    stored(campaign, wrong=1)
    (verdict,) = judge_campaign(campaign)
    assert verdict.metrics[0].fraction == "9/10"
    rule = campaign.protocol_dir / "evaluation" / "rule.py"
    rule.write_text(RULE.replace('"pos"', '"neg"'), encoding="utf-8")
    with pytest.raises(InputRefused) as caught:
        load_lock(campaign)
    assert caught.value.details[0].startswith("file protocol/evaluation/rule.py: ")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def right(texts): return ['pos']", "the right answers are 1 for 10 documents"),
        ("def right(texts): return 'pos'", "the right answers are 0 for 10 documents"),
        ("def right(texts): return [None] * len(texts)", "the right answer of document 'd00' is no label"),
        ("def right(labels): return labels", "asks for something that there is not"),
        (
            "import random\ndef right(ids): return [random.choice(['pos', 'neg']) for _ in ids * 99][:len(ids)]",
            "two right answers for",
        ),
        ("def right(ids): return ['maybe' for _ in ids]", "are no labels of the model"),
        ("def right(ids): return 1 / 0", "failed: ZeroDivisionError"),
    ],
)
def test_m2_right_answers_that_are_none_stop_the_freeze(tmp_path: Path, code: str, words: str) -> None:
    with pytest.raises(InputRefused, match=re.escape(words)):
        freeze(unlabelled_campaign(tmp_path, code))
    assert not (tmp_path / "protocol" / "protocol.lock.json").exists()
