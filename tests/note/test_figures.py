"""Figures of the note: same evidence, same bytes; every one says what it shows, also when there is nothing to show."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from xml.etree import ElementTree

import pytest

from runner.cli.window import _window_output
from runner.errors import InputRefused
from runner.evidence.attempt import Status
from runner.note.figures import Figure, make_figures
from runner.note.format import Formatter
from runner.note.i18n import Catalogue
from tests.decide.worlds import World, tariffs
from tests.note.picture_world import evidence_of, plan, rental_world, with_subgroups

IDS = ("fig-durations", "fig-quality", "fig-memory", "fig-padding", "fig-calendar", "fig-cost-time", "fig-what-if")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def tokyo() -> Iterator[None]:
    """The machine's zone is no part of a figure."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
    yield
    os.environ.pop("TZ") if before is None else os.environ.update(TZ=before)
    time.tzset()


def _draw(world: World, folder: Path, language: str = "en") -> dict[str, bytes]:
    evidence = evidence_of(world, folder / "campaign", plan=plan(world))
    figures = make_figures(evidence, Formatter(language), Catalogue(language), folder / "figures")
    return {figure.id: figure.path.read_bytes() for figure in figures}


def test_same_evidence_same_bytes_in_any_time_zone(tmp_path: Path, tokyo: None) -> None:
    one = _draw(with_subgroups(rental_world()), tmp_path / "one")
    os.environ["TZ"] = "America/New_York"
    time.tzset()
    other = _draw(with_subgroups(rental_world()), tmp_path / "two")
    assert tuple(one) == IDS
    assert one == other


@pytest.fixture(scope="module")
def rental(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Figure]:
    """The figures of the rental world, drawn once."""
    folder = tmp_path_factory.mktemp("rental")
    evidence = evidence_of(rental_world(), folder / "campaign")
    figures = make_figures(evidence, Formatter("en"), Catalogue("en"), folder / "figures")
    return {figure.id: figure for figure in figures}


def test_svg_has_a_title_a_description_no_date_and_no_fonts_of_the_machine(rental: dict[str, Figure]) -> None:
    for figure in rental.values():
        text = figure.path.read_text(encoding="utf-8")
        tree = ElementTree.fromstring(text)
        assert not list(tree.iter(f"{SVG}text")), "letters are outlines"
        assert not list(tree.iter(f"{SVG}script"))
        assert "dc:date" not in text and "Matplotlib v" not in text
        assert figure.title in text
        assert len(figure.description) > 40 and len(figure.caption) > 40


def test_ids_of_two_figures_never_collide(rental: dict[str, Figure]) -> None:
    """Inlined into one page, an id may stand only once, or clip paths of one figure cut another."""
    seen: dict[str, str] = {}
    for name, figure in rental.items():
        for element in ElementTree.fromstring(figure.path.read_bytes()).iter():
            if "id" in element.attrib and element.tag == f"{SVG}clipPath":
                assert seen.setdefault(element.attrib["id"], name) == name


def test_durations_are_all_told_with_their_failures(rental: dict[str, Figure]) -> None:
    """M30, M23: raw points and failures in words too."""
    text = rental["fig-durations"].description
    for value in ("48.6", "49.0", "48.8", "51.3", "48.7"):
        assert value in text
    assert "A.b8" in text and "failures: 2" in text


def test_ti_07_a_plot_without_data_says_so(tmp_path: Path) -> None:
    """TI-07: nothing accepted, nothing sampled, nothing priced."""
    world = World(prices=tariffs("rental 3 300.00"))
    world.add("cpu", "b1", None, status=Status.OUT_OF_MEMORY, completed=40)
    evidence = evidence_of(world, tmp_path / "campaign")
    figures = {f.id: f for f in make_figures(evidence, Formatter("en"), Catalogue("en"), tmp_path / "figures")}
    assert "no accepted pass" in figures["fig-durations"].description
    assert not {"fig-memory", "fig-padding", "fig-cost-time", "fig-what-if"} & figures.keys(), (
        "an empty frame is no figure"
    )


def test_nothing_measured_still_draws_the_calendar(tmp_path: Path) -> None:
    drawn = _draw(World(), tmp_path)
    assert tuple(drawn) == ("fig-calendar",), "M48: no empty frames in a blank note"


def test_names_of_the_user_are_text_whatever_they_hold(tmp_path: Path) -> None:
    """Dollar signs are no formula, unknown letters are shown by number, long names are cut."""
    world = with_subgroups(rental_world())
    names = ("stratum=$x^2$ \u6f22\u5b57", "stratum=" + "a" * 300, "stratum=<script>")
    world.verdicts = [
        verdict.model_copy(
            update={
                "metrics": tuple(
                    metric.model_copy(update={"group": name})
                    for metric, name in zip(verdict.metrics * 2, names, strict=False)
                )
            }
        )
        for verdict in world.verdicts
    ]
    evidence = evidence_of(world, tmp_path / "campaign")
    figures = {f.id: f for f in make_figures(evidence, Formatter("en"), Catalogue("en"), tmp_path / "figures")}
    assert "U+6F22" in figures["fig-quality"].description
    assert "a" * 60 not in figures["fig-quality"].description
    ElementTree.fromstring(figures["fig-quality"].path.read_bytes())


def test_changed_memory_samples_are_refused(tmp_path: Path) -> None:
    world = rental_world()
    evidence = evidence_of(world, tmp_path / "campaign")
    for path in evidence.campaign.memory.glob("*.json"):
        path.write_bytes(path.read_bytes().replace(b"600", b"601") + b" ")
    with pytest.raises(InputRefused, match="memory samples"):
        make_figures(evidence, Formatter("en"), Catalogue("en"), tmp_path / "figures")


def test_m35_further_periods_of_the_plan_lengthen_the_packages_of_the_calendar(tmp_path: Path) -> None:
    """M35: with one further period, 3 days hold 144 hours: what covers is what the plan asks for."""
    world = World(prices=tariffs("A 3 300.00"), extra={"extra_periods": 1})
    world.passes("A", "b1", 80 * 3600, 80 * 3600, 80 * 3600)
    twice = evidence_of(world, tmp_path / "twice")
    figures = {one.id: one for one in make_figures(twice, Formatter("en"), Catalogue("en"), tmp_path / "figures")}
    assert "packages that cover it, in days: 6, 14, 60" in figures["fig-calendar"].description
    plain = World(prices=tariffs("A 3 300.00"))
    plain.passes("A", "b1", 80 * 3600, 80 * 3600, 80 * 3600)
    once = evidence_of(plain, tmp_path / "once")
    figures = {one.id: one for one in make_figures(once, Formatter("en"), Catalogue("en"), tmp_path / "figures-2")}
    assert "packages that cover it, in days: 7, 30" in figures["fig-calendar"].description


@pytest.mark.parametrize(("more", "covering"), [(0, [3, 7, 30]), (1, [7, 30])])
def test_pr_01_calendar_and_prices_agree_at_exactly_72_hours(tmp_path: Path, more: int, covering: list[int]) -> None:
    """PR-01 (M35): 72:00:00 fits 3 days and 72:00:01 does not, in the prices, in the terminal and in the figure."""
    world = World(prices=tariffs("A 3 300.00", "A 7 550.00"))
    world.passes("A", "b1", *[70 * 3600 + more] * 3)
    row = world.row("A.b1")
    assert row.window is not None and row.window.window_seconds == str(72 * 3600 + more)
    assert [package.days for package in row.packages if package.covers] == covering
    assert row.committed_cost == ("300.00" if more == 0 else "550.00")
    assert _window_output(Decimal(row.window.window_seconds), [], {}).data["covering_days"] == covering
    drawn = make_figures(evidence_of(world, tmp_path), Formatter("en"), Catalogue("en"), tmp_path / "figures")
    (calendar,) = [figure for figure in drawn if figure.id == "fig-calendar"]
    assert f"packages that cover it, in days: {', '.join(map(str, covering))};" in calendar.description
