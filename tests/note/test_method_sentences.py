"""Sentences that the method demands of every note, read from the finished Markdown; one test per rule."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from runner.decide.tables import BALANCE_COLUMNS
from runner.evidence.attempt import Attempt, Settings, Status
from runner.evidence.campaign import Campaign
from runner.note.attachments import evidence_paths
from runner.note.build import note_markdown
from runner.note.html import quarto_words
from runner.note.i18n import Catalogue
from runner.note.quarto.document import render_document
from runner.protocol.schema import Lock
from tests.note.sample import OWN_MACHINE, PRICED, UNDECIDED, Measured, Sample, make_campaign, rewrite_attempts

TWO_CARDS = replace(PRICED, configurations=(Measured("b200", 1, 3900.0), Measured("b200", 4, 2140.0)), unavailable=())


def plain(markdown: str) -> str:
    """Words only: no escapes, no emphasis, one blank between words."""
    return re.sub(r"\s+", " ", re.sub(r"\\(.)", r"\1", markdown).replace("**", ""))


def written(tmp_path: Path, sample: Sample = OWN_MACHINE) -> str:
    return plain(note_markdown(make_campaign(tmp_path / "campaign", sample)))


@pytest.fixture(scope="module")
def priced(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return make_campaign(tmp_path_factory.mktemp("priced") / "campaign", PRICED)


@pytest.fixture(scope="module")
def note(priced: Campaign) -> str:
    return plain(note_markdown(priced))


def section(note: str, name: str) -> str:
    """Text from the heading with this label to the next section."""
    return note.split(f"{{#sec-{name}}}", 1)[1].split(" {#sec-", 1)[0]


def test_m6_it_is_not_mlperf(note: str) -> None:
    """M6: the note says what the method borrows, and that it is no MLPerf run."""
    text = section(note, "limits")
    assert "borrows the separation of dataset, quality target and scenario" in text
    assert "neither an MLPerf run nor certified" in text


def test_m12_different_stacks_are_named_and_the_conclusion_is_about_the_whole(note: str) -> None:
    text = section(note, "stacks")
    assert "The conclusion is about the complete tested configurations, not about the cards alone." in text
    assert "Driver (NVIDIA): 575.51 (rtx-4090.b1, rtx-4090.b4, rtx-4090.b8); 580.65 (b200.b1" in text


def test_m12_equal_stacks_need_no_warning(tmp_path: Path) -> None:
    assert "not about the cards alone. They differ in" not in written(tmp_path)


def test_m14_an_undeclared_variable_that_moved_is_marked(tmp_path: Path) -> None:
    """Golden world: the machine gave batch 4 other threads than batch 1."""
    campaign = make_campaign(tmp_path / "campaign", UNDECIDED)
    threads = {"b1": 2, "b4": 4}
    rewrite_attempts(
        campaign,
        lambda a: a.model_copy(
            update={"effective": Settings(**a.requested.as_json() | {"threads": threads[a.variant_id]})}
        ),
    )
    text = section(plain(note_markdown(campaign)), "limits")
    assert (
        "Series batch on cpu declares batch_size, but threads moved too: 2 (b1); 4 (b4). What it shows is not about "
        "batch_size alone." in text
    )


def test_m26_capacity_and_lot_price_prove_nothing_about_several_cards(note: str) -> None:
    text = section(note, "limits")
    assert "say nothing about throughput, about the connection between cards, or about how work is spread" in text
    assert "Two cards are a variant of their own: declared, measured, with the peak memory of each." in text


def test_m26_a_lot_of_two_cards_is_not_counted_as_two_measured_cards(tmp_path: Path) -> None:
    """One device was asked for and measured: memory has one row per configuration, and the lot says 2 GPUs."""
    text = written(tmp_path, TWO_CARDS)
    rows = re.findall(r"\| (b200\.b\d) \| NVIDIA B200 \|", section(text, "memory"))
    assert rows == ["b200.b1", "b200.b4"]
    assert "7 days, 1 lot (2 GPUs)" in text


def test_m27_seeds_goal_and_that_equal_seeds_are_no_equal_results(note: str) -> None:
    assert "| Seeds | 0 |" in section(note, "protocol")
    assert "| To be reproduced | acceptable task quality |" in section(note, "protocol")
    text = section(note, "quality")
    assert "To be reproduced, as frozen: acceptable task quality. 26 of 26 judged passes reach it." in text
    assert "Equal seeds do not give equal results across versions, platforms, CPU and GPU." in text


def test_m30_raw_durations_and_what_a_median_cannot_say(note: str) -> None:
    text = section(note, "durations")
    assert re.search(r"\| rtx-4090\.b1 \| 9,055\.7 · 8,963\.1 · 8,982\.8 · 9,148\.1 · 9,003\.5 \| 9,003\.5 \|", text)
    assert "The median does not undo a failed pass" in text and "no percentile can be read from it" in text
    assert "proves no long-term stability" in text
    assert "p95" not in note


def test_m32_an_undecided_series_says_what_would_help(tmp_path: Path) -> None:
    text = written(tmp_path, UNDECIDED)
    assert "Undecided between cpu.b1 and cpu.b4" in text
    assert "What would help" in text and "More passes under the same protocol, for all variants alike" in text


def test_m29_equal_rows_of_configurations_stand_once(priced: Campaign, tmp_path: Path, note: str) -> None:
    """A table that repeats itself hides what differs: equal ones are shared, one that differs keeps its name."""
    same = section(note, "quality")
    assert same.count("| all documents |") == 1 and same.count("All judged configurations have these same values.") == 2
    tables = same.partition("| Group |")[2].partition("![")[0]  # the figure behind them names every configuration
    assert "| all documents | accuracy | 1,000 | 0.886 |" in tables and "rtx-4090" not in tables

    copy = Campaign(tmp_path / "copy")
    shutil.copytree(priced.root, copy.root)
    (worse,) = [path for path in copy.verdicts.glob("*.json") if path.name == "rtx-4090-b4-p01.json"]
    verdict = json.loads(worse.read_text(encoding="utf-8"))
    verdict["metrics"][0]["value"] = "0.871"
    worse.write_text(json.dumps(verdict), encoding="utf-8")
    text = section(plain(note_markdown(copy)), "quality")
    others = "b200.b1, b200.b4, b200.b8, rtx-4090.b1, rtx-4090.b8"
    assert f"| {others} | all documents | accuracy | 1,000 | 0.886 |" in text
    assert "| rtx-4090.b4 | all documents | accuracy | 1,000 | 0.871 |" in text
    assert "| rtx-4090.b4 | stratum = long |" in text


def test_long_tables_are_capped_in_the_note_and_whole_beside_it(tmp_path: Path) -> None:
    """Issue 5.3: 63 attempts: the note shows 60 and says so; the table that is attached to the PDF has all of them."""
    campaign = make_campaign(tmp_path / "campaign", replace(OWN_MACHINE, passes=21))
    markdown = note_markdown(campaign)
    table = markdown[: markdown.index("{#tbl-attempts")].rsplit("\n\n", 2)[-2].splitlines()[2:]
    assert len(table) == 60
    assert "60 of 63. The whole table is attached as note/attempts.csv." in plain(markdown)
    paths, _ = evidence_paths(campaign, Lock.load(campaign.lock))
    rows = list(csv.DictReader(io.StringIO(paths["note/attempts.csv"].read_text(encoding="utf-8"), newline="")))
    assert len(rows) == 63


def test_very_many_durations_are_capped_where_they_are_listed_and_said_to_be(tmp_path: Path) -> None:
    """Issue 5.3: 40 passes: 10 durations stand in the cell, 30 in the words of the figure, and where the others are."""
    markdown = note_markdown(make_campaign(tmp_path / "campaign", replace(UNDECIDED, passes=40)))
    (cell,) = [row.split(" | ")[1] for row in table(markdown, "durations") if row.startswith("| cpu.b1 ")]
    assert cell.count(" · ") == 9 and cell.endswith("… 30 more in note/attempts.csv")
    words = next(line for line in markdown.splitlines() if "{#fig-durations" in line)
    said = words.partition("fig-alt")[2]
    assert said.count("; ") == 2 * (29 + 2) and said.count(" and 10 more; median") == 2


MANY = replace(
    PRICED,
    configurations=tuple(Measured("rtx-4090", batch, 24_000.0 - 400 * batch) for batch in range(1, 41)),
    unavailable=(),
    passes=3,
    memory_samples=False,
)
PER_CONFIGURATION = ("matrix", "balance", "durations", "memory", "work", "utilisation", "windows", "costs", "happened")


def table(markdown: str, name: str) -> list[str]:
    """Rows of the table with this label, without its head."""
    return markdown[: markdown.index(f"{{#tbl-{name} ")].rsplit("\n\n", 2)[-2].splitlines()[2:]


def test_tables_with_a_row_per_configuration_are_capped_and_say_where_the_others_are(tmp_path: Path) -> None:
    """Issue 5.3: of 40 configurations 20 stand in every table, the chosen one too; the attached balance has all."""
    campaign = make_campaign(tmp_path / "campaign", MANY)
    markdown = note_markdown(campaign)
    chosen = json.loads(campaign.decision.read_text(encoding="utf-8"))["chosen"]
    for name in PER_CONFIGURATION:
        rows = table(markdown, name)
        assert len(rows) == 20, name
        assert sum(f"| {chosen} " in plain(row) for row in rows) == 1, name
    text = plain(markdown)
    for file, label in (("balance", "choice"), ("attempts", "durations"), ("attempts", "memory"), ("balance", "costs")):
        assert f"20 more configurations are in note/{file}.csv." in section(text, label), label
    paths, _ = evidence_paths(campaign, Lock.load(campaign.lock))
    rows = list(csv.DictReader(io.StringIO(paths["note/balance.csv"].read_text(encoding="utf-8"), newline="")))
    assert len([row for row in rows if row["gpu"] == "rtx-4090"]) == 40
    assert "Shown: 20 of 40 configurations." in text
    assert max(len(line) for line in markdown.splitlines() if line.startswith("- ")) < 700, "no list of all names"


def test_m33_latency_is_another_population(note: str) -> None:
    """M33: said in the note."""
    assert "Request latencies are another population than corpus durations" in section(note, "limits")


def test_m39_an_expense_given_for_one_and_missing_for_another_is_flagged(tmp_path: Path) -> None:
    """Golden world: transfer is paid for b4 only; it is listed apart, flagged, and ranks nothing."""
    given = """
[[expense]]
name = "Transfer"
amount = "14.50"
currency = "USD"
configuration = "b4"
reason = "upload"
"""
    text = written(tmp_path, replace(PRICED, expenses=given))
    assert "the expense Transfer is given for b4 and missing for b1, b8" in section(text, "limits")
    assert "| Transfer | 14.50 USD | b4 | upload |" in section(text, "costs")
    assert "Other expenses never rank." in section(text, "costs")


def test_m42_the_balance_holds_everything_of_every_admissible_configuration(priced: Campaign, note: str) -> None:
    """M42: verdicts, raw durations, window, package, committed cost, accepted results, failures; file and table."""
    rows = list(csv.DictReader(io.StringIO((priced.note / "balance.csv").read_text(encoding="utf-8"))))
    assert tuple(rows[0]) == BALANCE_COLUMNS
    (row,) = [row for row in rows if row["configuration_id"] == "rtx-4090.b1"]
    assert (row["accepted"], row["failures"], row["package_days"], row["lots"]) == ("5", "0", "7", "1")
    assert (row["committed_cost"], row["currency"], row["deliverables_accepted"]) == ("110.00", "USD", "messages")
    assert row["window_seconds"] == "345600" and len(row["raw_seconds"].split(";")) == 5
    text = section(note, "choice")
    assert (
        "| Configuration | Accepted | Failures | Median | Window | Package | Committed cost | Per validated corpus "
        "| Admissible |" in text
    )
    assert "| rtx-4090.b1 | 5 of 5 | 0 | 2 h 30 min | 96 h | 7 days × 1 lot | 110.00 USD | 110.00 USD | yes |" in (
        text.replace("\u00a0", " ")
    )


# ---- M48 -----------------------------------------------------------------------------------------------


def blank(root: Path, *, unavailable: tuple[str, ...] = ()) -> Campaign:
    """Frozen and decided, nothing measured; `unavailable` GPUs were tried and were not there."""
    return make_campaign(root, replace(PRICED, passes=0, unavailable=unavailable))


def test_m48_a_note_before_measuring_is_the_blank_sheet(tmp_path: Path) -> None:
    markdown = note_markdown(blank(tmp_path / "campaign"))
    text = plain(markdown)
    assert "# Undecided: nothing is measured yet" in text
    assert "15 attempts are planned and empty (@tbl-planned)" in text
    rows = re.findall(r"^\| (\d\.\d) \| (b\d) \| messages \| 1,000 \| \| \| \| \|$", markdown, re.MULTILINE)
    assert [slot for slot, _ in rows] == [f"{index}.{place}" for index in range(1, 6) for place in range(1, 4)]
    assert [variant for _, variant in rows[:6]] == ["b1", "b4", "b8", "b4", "b8", "b1"]
    assert_no_empty_table_and_no_figure_of_results(markdown)


def test_m48_m11_only_unavailable_attempts_are_shown_and_the_sheet_stays_blank(tmp_path: Path) -> None:
    markdown = note_markdown(blank(tmp_path / "campaign", unavailable=("b200",)))
    text = plain(markdown)
    assert "# Undecided: nothing is measured yet" in text
    assert text.count("device unavailable: declared b200, found AMD EPYC 9354, 2 threads") == 3
    assert "15 attempts are planned and empty (@tbl-planned)" in text
    why = "not measured: b200 was declared, found: AMD EPYC 9354, 2 threads"
    assert f"| b200 | b200.b1, b200.b4, b200.b8 | {why} |" in text, "M11: both names, each said once"
    for name in ("attempts", "failures", "memory"):
        assert not re.search(r"\| 0(?:\.0+)?(?: s| B)? ?\|", section(text, name)), "no GPU is never 0 seconds or bytes"
    assert_no_empty_table_and_no_figure_of_results(markdown)


def assert_no_empty_table_and_no_figure_of_results(markdown: str) -> None:
    found = re.findall(r"#fig-([\w-]+)", markdown)
    assert found == ["calendar"]
    html = render_document(markdown, quarto_words(Catalogue("en")), lambda _: "").html
    for table in re.findall(r"<table.*?</table>", html, re.DOTALL):
        assert re.search(r"<tbody>\s*<tr", table), table[:200]


def test_m48_the_statuses_are_what_the_world_says(tmp_path: Path) -> None:
    """The sample is what it claims to be: no attempt at all, and only unavailable ones."""
    assert list(blank(tmp_path / "one").attempts.glob("*.json")) == []
    other = blank(tmp_path / "two", unavailable=("b200",))
    texts = [path.read_text(encoding="utf-8") for path in other.attempts.glob("*.json")]
    assert len(texts) == 3 and all(f'"{Status.UNAVAILABLE.value}"' in text for text in texts)


def test_mo_17_every_time_has_the_number_of_cut_texts_beside_it(tmp_path: Path) -> None:
    """MO-17 [2]: in the table of the durations itself, not elsewhere only."""
    campaign = make_campaign(tmp_path / "campaign", OWN_MACHINE)

    def cut(attempt: Attempt) -> Attempt:
        if attempt.tokens is None or attempt.variant_id != "b4":
            return attempt
        return attempt.model_copy(update={"tokens": attempt.tokens.model_copy(update={"truncated_documents": 41})})

    rewrite_attempts(campaign, cut)
    lines = [line for line in section(note_markdown(campaign), "durations").splitlines() if line.startswith("|")]
    header, *rows = ([cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines)
    place = header.index("Cut texts")
    found = {row[0]: row[place] for row in rows if row[0].startswith("cpu")}
    assert found["cpu.b4"] == "41" and set(found.values()) == {"3", "41"}
