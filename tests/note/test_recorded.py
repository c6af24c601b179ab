"""Issue 5, point 4: what the tool itself recorded in English is said in the note's language; other texts are quoted."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from runner.evidence.attempt import Settings
from runner.evidence.campaign import Campaign
from runner.evidence.utilisation import BEYOND
from runner.judge.verdict import judge_attempt
from runner.measure.cards import NOT_EVEN_OURS
from runner.measure.leftovers import _STATES
from runner.measure.memory import THIS_PROCESS, CudaCounters, PassMemory
from runner.measure.nvml import _NO_SLICE
from runner.measure.passes import Work
from runner.measure.rows import verdict_on_end
from runner.measure.supervisor import ChildEnd
from runner.measure.team import Team
from runner.measure.team_report import RankReport
from runner.measure.team_report import notes as team_notes
from runner.note.format import Formatter
from runner.note.i18n import load_catalogue
from runner.note.words import Speaker
from runner.protocol.freeze import freeze
from tests.judge.test_case_records import BROKEN, RIGHT
from tests.note.sample import NO_RATE
from tests.support.small_campaign import PROTOCOL, make_attempt, make_campaign, write_predictions

PREDICTIONS: list[tuple[str, list[tuple[str, str]]]] = [
    ("an id is missing, one is new", [*RIGHT[1:], ("strange", "pos")]),
    ("a label outside of the table", [("d00", "maybe"), *RIGHT[1:]]),
    ("below every minimum", [(name, "pos") for name, _ in RIGHT]),
]


def speaker(language: str = "en") -> Speaker:
    templates = Path(__file__).resolve().parents[2] / "templates"
    return Speaker(load_catalogue(templates, language), Formatter(language))


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    protocol = PROTOCOL.replace('min_agreement = "0.80"', 'min_agreement = "0.80"\nmax_flips = 1')
    return make_campaign(tmp_path, protocol=protocol)


def reasons(campaign: Campaign, rows: list[tuple[str, str]] | None = None, **changes: Any) -> list[str]:
    """Reasons of the real judge for one attempt."""
    lock = freeze(campaign)
    path = write_predictions(campaign.predictions / "a000.parquet", rows or RIGHT)
    verdict = judge_attempt(campaign, lock, make_attempt(campaign, lock, path, **changes))
    assert verdict.reasons
    return list(verdict.reasons)


@pytest.mark.parametrize("changes", [changes for _, changes, _ in BROKEN])
def test_every_reason_about_a_row_is_known(campaign: Campaign, changes: dict[str, Any]) -> None:
    """A sentence of the judge that is not in the table would stay English: it shows up here in quotation marks."""
    for reason in reasons(campaign, **changes):
        said = speaker().recorded(reason)
        assert "“" not in said or "RuntimeError: “no”" in said, reason
        assert speaker("de").recorded(reason) != reason


@pytest.mark.parametrize(("what", "rows"), PREDICTIONS)
def test_every_reason_about_predictions_is_known(campaign: Campaign, what: str, rows: list[tuple[str, str]]) -> None:
    for reason in reasons(campaign, rows):
        assert "“" not in speaker().recorded(reason), f"{what}: {reason}"
        assert speaker("de").recorded(reason) != reason


def test_quality_in_four_languages() -> None:
    reason = "subgroup stratum=long: accuracy 70/100 = 0.7 on stratum=long (100 documents) is below 0.8"
    assert [speaker(language).recorded(reason) for language in ("en", "de", "tr", "fr")] == [
        "subgroup stratum = long: accuracy 70/100 = 0.7 on stratum = long (100 documents) is below 0.8",
        "Untergruppe stratum = long: accuracy 70/100 = 0,7 auf stratum = long (100 Dokumente) liegt unter 0,8",
        "alt grup stratum = long: stratum = long üzerinde accuracy 70/100 = 0,7 (100 belge), 0,8 değerinin altında",
        "sous-groupe stratum = long\u00a0: accuracy 70/100 = 0,7 sur stratum = long (100 documents), sous 0,8",
    ]


def ended(exit_code: int | None = None, signal_number: int | None = None, **more: Any) -> ChildEnd:
    usual: dict[str, Any] = {
        "timed_out": False, "stopped_by": None, "elapsed_seconds": 3600.0, "cpu_seconds": 1.0, "peak_rss_bytes": 1,
        "oom_evidence": None, "result": None, "stderr_tail": "",
    }  # fmt: skip
    return ChildEnd(exit_code=exit_code, signal_number=signal_number, **usual | more)


ENDS = {
    "killed": ended(signal_number=9),
    "killed by the kernel": ended(signal_number=9, oom_evidence="the kernel's counter oom_kill rose by 1"),
    "crash": ended(signal_number=11),
    "no result": ended(exit_code=1),
    "too long": ended(signal_number=9, timed_out=True),
    "stopped": ended(exit_code=0, stopped_by="SIGINT"),
    "held": ended(stuck="SIGKILL did not end process 4711 within 60 s (state D: the kernel or a driver holds it)"),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_every_way_an_attempt_can_end_is_known(end: ChildEnd) -> None:
    """M23: the error of a failed attempt, from the code that writes it."""
    _, error = verdict_on_end(end)
    assert error is not None
    assert "“" not in speaker().error(error.kind, error.message)
    assert speaker("tr").error(error.kind, error.message) != f"{error.kind}: {error.message}"


@pytest.mark.parametrize(
    "state", ["", *(f" (state {letter}: {why})" for letter, why in [*_STATES.items(), ("T", "see man proc")])]
)
def test_m23_why_a_worker_did_not_end_is_known(state: str) -> None:
    """As `supervisor` writes it."""
    words = f"SIGKILL did not end process 4711 within 60 s{state}"
    for language in ("de", "fr", "tr"):
        said = speaker(language).recorded(words)
        assert "4711" in said and "did not" not in said


def test_other_peoples_words_stay_as_they_are_between_quotation_marks() -> None:
    """An exception's text is evidence: never translated, and never mistaken for ours."""
    text = "CUDA out of memory. Tried to allocate 1.20 GiB; the pass was not completed"
    assert speaker("de").error("OutOfMemoryError", text) == f"OutOfMemoryError: „{text}“"
    assert speaker("fr").recorded("power cut, ticket 4711") == "«\u00a0power cut, ticket 4711\u00a0»"
    assert speaker("de").recorded("lock: does not carry the nonce of the freeze; who knows") == (
        "Festschreibung: trägt nicht die Nonce des Einfrierens; „who knows“"
    )
    said = speaker("fr").recorded("lock: does not carry the nonce of the freeze; who knows")
    assert said.endswith("\u00a0; «\u00a0who knows\u00a0»")


def test_a_huge_text_is_not_searched() -> None:
    """A record of strangers must not cost time: long texts are quoted at once, shortened by rule."""
    text = "line " + "x: label " * 100_000
    assert speaker().recorded(text).startswith("“line x: label") and len(speaker().recorded(text)) < 500


class Cards:
    """Counters of one card, as `measure/memory.py` asks for them."""

    indices = (0,)

    def sample(self) -> dict[str, int]:
        return {"allocated:0": 2, "reserved:0": 4}

    peaks = sample

    def reset(self) -> None:
        """Nothing to forget."""

    def capacity(self, index: int) -> int:
        return 24

    def used(self, index: int) -> int:
        return 5

    def given_back(self, index: int) -> int:
        return 0


def test_scopes_of_memory_counters_are_known() -> None:
    """M24: counters of this process and of a card, as they are really recorded."""
    watch = PassMemory(0.01, "cpu", None, cast(CudaCounters, Cards()))
    watch.start()
    scopes = [str(peak["scope"]) for peak in watch.stop()[1]]
    assert len(scopes) == 7, "of the pass, of loading apart (ME-01), and of the whole card"
    for scope in (*scopes, *(scope.replace(THIS_PROCESS, "worker process of rank 3 only") for scope in scopes)):
        assert "“" not in speaker().recorded(scope) and "„" not in speaker("de").recorded(scope), scope
        assert speaker("de").recorded(scope) != scope


def rank_report(rank: int, seconds: float) -> RankReport:
    return RankReport(rank, 0, "cpu", Work(), {"inference": seconds}, {}, 0, None, None, {})


@pytest.mark.parametrize("language", ["de", "tr", "fr"])
def test_m26_what_several_processes_leave_in_the_notes_is_known(language: str) -> None:
    """Issue 6, point 11: as `team_report` writes them, numbers in the language's own form."""
    team = Team(0, 2, 0, 0, 1, backend="gloo")
    found = team_notes([rank_report(0, 1.25), rank_report(1, 0.5)], team, 2)
    assert len(found) == 2
    said = [speaker(language).recorded(one) for one in found]
    assert all(one != text and not set("“„«").intersection(one) for one, text in zip(said, found, strict=True)), said
    assert "0,500" in said[0] and "1,250" in said[0] and "gloo" in said[0]


@pytest.mark.parametrize(
    "why",
    [NOT_EVEN_OURS, _NO_SLICE, "the driver does not tell (NotSupported)", "nothing reads the processes of a card here"],
)
def test_why_it_is_unknown_whether_others_used_a_card_is_said_in_every_language(why: str) -> None:
    """Issue 6, point 8: as the readers of the cards record it."""
    for language in ("de", "tr", "fr"):
        said = speaker(language).recorded(f"device: whether others used the device is unknown: {why}")
        assert why not in said and not set("“„«").intersection(said), said


RANKS = (
    "rank 1 of 2 was ended by SIGKILL, cause unknown",
    "rank 0 was killed by the kernel",
    "rank 3: fewer batches than processes, my words",
    "rank 0 ended without a result",
    "a rank ended without a result (rank 0: exit status 3)",
    "the nodes did not come together: timed out",
    "node 1 is gone",
    "node 1: the node's campaign has another lock",
    "node 1 did not report its end: timed out",
    "there is no place for a node of rank 7",
    "3 processes cannot be spread evenly over 2 nodes",
    "engine command starts one program: it may use several processes by itself",
)


@pytest.mark.parametrize("message", RANKS)
def test_m26_the_end_of_a_rank_or_node_is_said_in_the_notes_language(message: str) -> None:
    """Messages of `launch` and `nodes`; what a rank itself said and is not ours stays, quoted."""
    for language in ("de", "tr", "fr"):
        said = speaker(language).error("launch", message)
        assert message not in said and not said.startswith("launch"), said
    assert "“" not in speaker().recorded(message) or "my words" in message


@pytest.mark.parametrize("reason", [BEYOND, "operations of a t5 are not known here", "not measured", NO_RATE])
def test_issue_6_point_5_why_a_share_of_the_matrix_rate_is_unknown(reason: str) -> None:
    assert speaker("de").recorded(reason) not in (reason, f"„{reason}“")


def test_issue_6_point_4_settings_name_engine_processes_devices_and_threads() -> None:
    """A plain variant keeps its short name; everything that was declared otherwise is said."""
    settings = Settings(engine="packed", batch_size=8, padding="none", devices=2, workers=3, threads=1)
    assert speaker().settings(settings) == (
        "engine packed, batch size 8, fp32, attention sdpa, padding none, 2 devices, 3 processes per device, 1 thread"
    )
    assert speaker().settings(Settings(batch_size=4)) == "batch size 4, fp32, attention sdpa, padding longest"
    assert speaker("de").settings(settings).startswith("Engine packed, Batchgröße 8")
    assert speaker("tr").settings(settings).endswith("2 aygıt, aygıt başına 3 süreç, 1 iş parçacığı")


def test_shapes_that_were_not_compiled_are_named_in_every_language() -> None:
    """TI-02, 2: the worker's own words, the shapes as they are."""
    note = "not compiled before the timed part: 8×384, 4×37"
    for language in ("de", "tr", "fr"):
        said = speaker(language).recorded(note)
        assert said != note and said.endswith(": 8×384, 4×37") and "“" not in said and "„" not in said


def test_what_differs_of_an_unknown_lock_is_said_in_every_language() -> None:
    """RE-07: the list of parts is translated too."""
    text = "unknown lock (small revision 1, lock aaaa, this one is bbbb; other corpus and model)"
    assert speaker("de").recorded(text).endswith("; anders: Korpus + Modell)")
    assert speaker("tr").recorded(text).endswith("; farklı olan: derlem + model)")
    assert "corpus + modèle)" in speaker("fr").recorded(text)
