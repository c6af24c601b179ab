"""Reader of tariffs.csv and exact arithmetic (M35-M37, M40, M41, M49; PR-01, PR-10 to PR-14)."""

from __future__ import annotations

import ast
import csv
import json
import shutil
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.errors import InputRefused
from runner.pricing import core
from runner.pricing.formats import load_formatted_catalogue, read_number_format
from runner.pricing.packages import choose_package, distinct_texts
from runner.pricing.tariffs import load_catalogue

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "cases"
HEADER = ",".join(core.REQUIRED_COLUMNS)
LINE = "h,Made-up H,1,80,7,550.00,EUR,2026-05-01,made up"


def catalogue_of(*lines: str, header: str = HEADER) -> core.Catalogue:
    return core.parse_catalogue("\n".join([header, *lines, ""]).encode(), "t.csv")


# ---- the shipped catalogue -----------------------------------------------------------------------


def test_the_shipped_catalogue_holds_the_two_known_prices_and_nothing_else() -> None:
    """M40: two prices of 24 September 2026."""
    found = load_catalogue(ROOT / "tariffs.csv")
    assert [(o.gpu, o.days, o.price_per_lot, o.currency, str(o.catalogue_date)) for o in found.offers] == [
        ("rtx-4090", 7, Decimal("110.00"), "USD", "2026-09-24"),
        ("b200", 7, Decimal("2071.00"), "USD", "2026-09-24"),
    ]
    assert [(gpu.name, gpu.cards_per_lot) for gpu in found.gpus] == [("rtx-4090", 1), ("b200", 2)]
    assert [str(gpu.memory_gib_per_card) for gpu in found.gpus] == ["24", "180"]
    assert all(
        word in gpu.memory_source
        for gpu in found.gpus
        for word in ("vendor: ", "GB are read as GiB", "looked up 2026-")
    ), "memory is vendor data, with its source, its date and its unit"


def test_committed_cost_of_the_two_examples() -> None:
    """M36: the cards of a lot are not multiplied again."""
    tariffs = load_catalogue(ROOT / "tariffs.csv")
    small, large = core.quote(tariffs, "rtx-4090", 2, days=7), core.quote(tariffs, "b200", 1, days=7)
    assert core.quote_lines(small)[0] == "rtx-4090, 7 days, 2 lots: 220.00 USD, 2 GPUs"
    assert core.quote_lines(large)[0] == "b200, 7 days, 1 lot: 2,071.00 USD, 2 GPUs"


def test_a_price_that_is_not_in_the_file_is_not_derived() -> None:
    """M40: asking for exactly that package names package and file; tables say `no price`."""
    tariffs = load_catalogue(ROOT / "tariffs.csv")
    with pytest.raises(core.PriceError, match=r"3 days of rtx-4090 in .*tariffs\.csv"):
        core.quote(tariffs, "rtx-4090", 2, days=3)
    lines = core.quote_lines(core.quote(tariffs, "rtx-4090", 2, days=7))
    assert [line.split()[0] for line in lines if "no price" in line] == ["3", "30"]


# ---- reading -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("gpu", ""),
        ("gpu", "../x"),
        ("gpu", " h"),
        ("device_pattern", "("),
        ("device_pattern", ""),
        ("cards_per_lot", "0"),
        ("cards_per_lot", "1.0"),
        ("cards_per_lot", "١"),
        ("memory_gib_per_card", "-1"),
        ("days", "5"),
        ("days", "07"),
        ("price_per_lot", "1.234"),
        ("price_per_lot", "1e3"),
        ("price_per_lot", "+1.00"),
        ("price_per_lot", "-1.00"),
        ("price_per_lot", "0.00"),
        ("price_per_lot", "01.00"),
        ("price_per_lot", "NaN"),
        ("price_per_lot", " 1.00"),
        ("price_per_lot", "1.5"),
        ("currency", "eur"),
        ("currency", "EURO"),
        ("currency", "XQQ"),
        ("catalogue_date", "24.9.2026"),
        ("catalogue_date", "2026-02-30"),
        ("source", ""),
        ("source", "\x1b[31m"),
    ],
)
def test_every_field_has_one_form(column: str, value: str) -> None:
    """Each check broken on purpose is seen to refuse, with line, column and value."""
    fields = dict(zip(core.REQUIRED_COLUMNS, LINE.split(","), strict=True))
    with pytest.raises(core.PriceError) as refused:
        catalogue_of(LINE.replace("h,", "g,", 1), ",".join((fields | {column: value}).values()))
    assert (refused.value.line, refused.value.column, refused.value.value) == (3, column, value)


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        ((LINE, LINE), "priced twice, first in line 2"),
        ((LINE, LINE.replace(",7,", ",3,").replace("H,1", "H,2")), "differs from the first line"),
        ((LINE, LINE.replace("h,Made", "H,Made").replace(",7,", ",3,")), "letter case"),
        ((LINE + ",x",), "10 fields"),
        ((LINE.replace("made up", '"made'),), "CSV"),
    ],
)
def test_lines_must_agree(lines: tuple[str, ...], word: str) -> None:
    with pytest.raises(core.PriceError) as refused:
        catalogue_of(*lines)
    assert word in str(refused.value)


@pytest.mark.parametrize("header", ["gpu", HEADER + ",gpu", HEADER + ",discount", ""])
def test_columns_are_exact(header: str) -> None:
    with pytest.raises(core.PriceError):
        catalogue_of(header=header)


def test_a_byte_order_mark_is_ignored_and_bad_bytes_are_refused(tmp_path: Path) -> None:
    data = f"{HEADER}\r\n{LINE}\r\n".encode()
    assert core.parse_catalogue(b"\xef\xbb\xbf" + data, "t").offers == core.parse_catalogue(data, "t").offers
    with pytest.raises(core.PriceError, match="UTF-8"):
        core.parse_catalogue(data + b"\xff", "t")
    with pytest.raises(InputRefused, match="cannot be read"):
        load_catalogue(tmp_path / "missing.csv")


def test_a_gpu_may_be_named_without_a_price() -> None:
    """Unknown is not 0: the device is known, the price is not."""
    found = catalogue_of("x,Made-up X,1,80,,,,,made up")
    assert found.offers == () and found.gpu("x").cards_per_lot == 1 and found.currency is None
    with pytest.raises(core.PriceError, match="no price"):
        core.quote(found, "x", 1, days=7)


def test_hourly_offers_are_another_billing_kind() -> None:
    """Shown beside the packages, ranked only if asked for; every started hour counts; nothing is derived."""
    header = HEADER + ",billing,lots_available"
    found = catalogue_of(LINE + ",package,", "h,Made-up H,1,80,,0.4500,EUR,2026-05-01,made up,hourly,3", header=header)
    hours = Decimal(3600) * 96
    answer = choose_package(found, "h", devices=1, window_seconds=hours + 1)
    assert [(line.name, line.total) for line in answer.lines] == [
        ("3 days", None),
        ("7 days", Decimal("550.00")),
        ("30 days", None),
        ("hourly", Decimal("43.6500")),
    ]
    assert answer.best is not None and answer.best.days == 7
    ranked = choose_package(found, "h", devices=1, window_seconds=hours + 1, billing=("package", "hourly"))
    assert ranked.best is not None and ranked.best.billing == "hourly"


# ---- the cases -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("seconds", "days", "total"), [(72 * 3600, 3, "300.00"), (72 * 3600 + 1, 7, "550.00")])
def test_exactly_equal_covers(seconds: int, days: int, total: str) -> None:
    """PR-01, M35: 72 h fit 3 days; one second more needs 7 days, not two packages of 3."""
    answer = choose_package(
        load_catalogue(CASES / "PR-01" / "tariff.csv"), "H-type", devices=1, window_seconds=Decimal(seconds)
    )
    assert answer.best is not None
    assert (answer.best.days, answer.best.total) == (days, Decimal(total))


def test_money_is_exact_and_rounded_half_up_for_display_only() -> None:
    """PR-10: 3.30, 0.125 shown as 0.13, and two costs that differ beyond the second decimal."""
    with (CASES / "PR-10" / "cases.csv").open(encoding="utf-8", newline="") as stream:
        rows = {row["case"]: row for row in csv.DictReader(stream)}
    costs = {name: core.committed_cost(Decimal(row["price_per_lot"]), int(row["lots"])) for name, row in rows.items()}
    per = {name: core.cost_per_corpus(costs[name], int(row["accepted"])).value for name, row in rows.items()}
    assert costs["a"] == Decimal("3.30") and per["b"] == Fraction(1, 8)
    assert [core.money_text(value) for value in (per["b"], per["d"], per["c1"], per["c2"]) if value] == [
        "0.13",
        "3.33",
        "3.33",
        "3.33",
    ]
    assert per["c1"] is not None and per["c2"] is not None and per["c2"] < per["c1"]
    assert distinct_texts([per["c1"], per["c2"]]) == ("3.334", "3.333")


def test_declared_number_formats() -> None:
    """PR-11: an amount is read in the declared format or not at all."""
    folder = CASES / "PR-11"
    formats = {name: read_number_format(folder / f"format_{name}.json") for name in ("eu", "us")}
    for name, declared in formats.items():
        found = load_formatted_catalogue(folder / f"tariff_{name}.csv", declared)
        assert [offer.price_per_lot for offer in found.offers] == [Decimal("1234.56")]
    with pytest.raises(InputRefused) as unclear:
        load_catalogue(folder / "tariff_unclear.csv")
    assert [detail.split(",")[0] for detail in unclear.value.details] == ["line 2", "line 3", "line 4"]
    with pytest.raises(InputRefused):
        load_formatted_catalogue(folder / "tariff_eu.csv", formats["us"])


@pytest.mark.parametrize("amount", ["1.23,4567", "1,234.56", "12.34.567", ".5", "1 234,56", "abc"])
def test_amounts_outside_the_declared_format_are_refused(amount: str, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text(
        f"{HEADER};\n".replace(",", ";").replace(";\n", "\n") + LINE.replace(",", ";").replace("550.00", amount) + "\n",
        encoding="utf-8",
    )
    with pytest.raises(InputRefused) as refused:
        load_formatted_catalogue(file, read_number_format(CASES / "PR-11" / "format_eu.json"))
    assert "550" not in str(refused.value)


@pytest.mark.parametrize(
    "declared", [{"decimal": ",", "thousands": ","}, {"decimal": ";"}, {"thousands": "."}, {"decimal": ".", "x": 1}]
)
def test_a_number_format_must_say_one_thing(declared: dict[str, object], tmp_path: Path) -> None:
    file = tmp_path / "format.json"
    file.write_text(json.dumps(declared), encoding="utf-8")
    with pytest.raises(InputRefused):
        read_number_format(file)


def test_one_currency_per_catalogue() -> None:
    """PR-12: both currencies are named with their lines; `eur` is not a code."""
    with pytest.raises(InputRefused) as mixed:
        load_catalogue(CASES / "PR-12" / "tariff.csv")
    assert "line 2" in mixed.value.details[0] and "'EUR'" in mixed.value.details[0]
    assert "line 3" in mixed.value.details[1] and "'USD'" in mixed.value.details[1]
    with pytest.raises(InputRefused) as lower:
        load_catalogue(CASES / "PR-12" / "tariff_case.csv")
    assert (lower.value.line, lower.value.value) == (3, "eur")


def test_lots_are_whole_and_cards_are_not_counted_twice() -> None:
    """PR-13: 4, 3 and 1 cards of 2 per lot."""
    tariffs = load_catalogue(CASES / "PR-13" / "tariff.csv")
    with (CASES / "PR-13" / "need.csv").open(encoding="utf-8", newline="") as stream:
        needs = [int(row["cards_needed"]) for row in csv.DictReader(stream)]
    answers = [choose_package(tariffs, "B200-type", devices=n, window_seconds=Decimal(3600)) for n in needs]
    assert [(a.lots, a.best.total if a.best else None, a.unused_cards) for a in answers] == [
        (2, Decimal("1800.00"), 0),
        (2, Decimal("1800.00"), 1),
        (1, Decimal("900.00"), 1),
    ]


def test_no_accepted_result_is_undefined() -> None:
    """PR-14, M37: not 0, not the total, not infinite; and not given is not calculated."""
    results = json.loads((CASES / "PR-14" / "result.json").read_text(encoding="utf-8"))
    found = [core.cost_per_corpus(Decimal(one["cost"]), one["accepted"]) for one in results]
    assert [(one.status, one.value) for one in found] == [("undefined", None), ("calculated", Fraction(550))]
    assert core.cost_per_corpus(Decimal(300), None).status == "not calculated"
    assert core.cost_per_corpus(None, 1).status == "not calculated"


# ---- choosing a package --------------------------------------------------------------------------


def test_sold_out_lots_do_not_win() -> None:
    found = load_catalogue(CASES / "PR-01" / "tariff.csv")
    answer = choose_package(found, "H-type", devices=5, window_seconds=Decimal(3600))
    assert answer.best is None and "too few lots" in answer.reason


def test_an_unpriced_shorter_package_may_be_cheaper() -> None:
    """DESIGN section 6, rule 10. A longer unpriced package is not counted as cheaper."""
    tariffs = load_catalogue(ROOT / "tariffs.csv")
    short = choose_package(tariffs, "b200", devices=1, window_seconds=Decimal(3600))
    assert short.may_be_cheaper and short.unpriced_covering == (3, 30) and short.unused_cards == 1
    long = choose_package(tariffs, "b200", devices=1, window_seconds=Decimal(96 * 3600))
    assert not long.may_be_cheaper and long.unpriced_covering == (30,)
    none = choose_package(tariffs, "b200", devices=1, window_seconds=Decimal(169 * 3600))
    assert none.best is None and "30 days" in none.reason and none.unpriced_covering == (30,)


def test_further_periods_only_where_asked_for() -> None:
    """M35: beyond the longest package nothing covers by itself."""
    tariffs = load_catalogue(ROOT / "tariffs.csv")
    window = Decimal(721 * 3600)
    alone = choose_package(tariffs, "b200", devices=2, window_seconds=window)
    assert alone.best is None and alone.reason == "no package covers the window: 30 days are 1 h too short"
    asked = choose_package(tariffs, "b200", devices=2, window_seconds=window, extra_periods=4)
    assert asked.best is not None and asked.best.total == Decimal("10355.00") and asked.best.hours == 840


def test_fewer_lots_than_the_devices_need_are_refused() -> None:
    with pytest.raises(InputRefused, match="need 2 lots"):
        choose_package(load_catalogue(ROOT / "tariffs.csv"), "b200", devices=3, window_seconds=Decimal(1), lots=1)


AMOUNTS = st.integers(1, 10**7).map(lambda cents: Decimal(cents).scaleb(-2))


@given(AMOUNTS, st.integers(1, 500), st.integers(1, 100))
@settings(deadline=None, max_examples=100)
def test_money_is_exact(price: Decimal, lots: int, accepted: int) -> None:
    """Sums and quotients as whole cents and fractions: no binary rounding anywhere."""
    total = core.committed_cost(price, lots)
    assert total == sum([price] * lots, Decimal(0))
    per = core.cost_per_corpus(total, accepted)
    assert per.value is not None and per.value * accepted == Fraction(total)
    shown = Fraction(core.money_text(per.value))
    assert -Fraction(1, 200) <= per.value - shown < Fraction(1, 200), "half up"


@given(
    st.lists(st.tuples(st.sampled_from([3, 7, 30]), AMOUNTS), unique_by=lambda pair: pair[0]),
    st.integers(1, 800 * 3600),
    st.integers(0, 3600),
    st.randoms(),
)
@settings(deadline=None, max_examples=100)
def test_packages_are_monotone_and_order_does_not_matter(
    prices: list[tuple[int, Decimal]], seconds: int, more: int, random: object
) -> None:
    """A longer window never costs less; lines in another order give the same answer."""
    lines = [f"h,Made-up H,1,80,{days},{price},EUR,2026-05-01,made up" for days, price in prices]
    shuffled = sorted(lines, key=lambda _: random.random())  # type: ignore[attr-defined]
    lines, shuffled = ([*many, "h,Made-up H,1,80,,,,,made up"] for many in (lines, shuffled))

    def best(many: list[str], window: int) -> tuple[Decimal | None, int | None] | None:
        found = choose_package(catalogue_of(*many), "h", devices=1, window_seconds=Decimal(window)).best
        return None if found is None else (found.total, found.days)

    now, later = best(lines, seconds), best(lines, seconds + more)
    assert best(shuffled, seconds) == now
    assert later is None or (now is not None and now[0] is not None and later[0] is not None and now[0] <= later[0])


# ---- the script ----------------------------------------------------------------------------------


def test_the_script_runs_alone(tmp_path: Path) -> None:
    """M49: one file, standard library only, tariffs.csv beside it, no environment needed."""
    script = tmp_path / "price.py"
    script.write_bytes((ROOT / "runner" / "pricing" / "core.py").read_bytes())
    (tmp_path / "tariffs.csv").write_bytes((ROOT / "tariffs.csv").read_bytes())

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-I", str(script), *arguments],
            capture_output=True,
            text=True,
            cwd="/",
            env={"LC_ALL": "C"},
            check=False,
        )

    good = run("--gpu", "rtx-4090", "--days", "7", "--lots", "2", "--accepted-results", "0")
    assert good.returncode == 0 and "220.00 USD, 2 GPUs" in good.stdout and "undefined" in good.stdout
    bad = run("--gpu", "b200", "--days", "3")
    assert bad.returncode == 2 and bad.stdout == "" and "3 days of b200" in bad.stderr
    for arguments in (
        ["--gpu", "b200"],
        ["--gpu", "zz", "--days", "7"],
        ["--gpu", "b200", "--days", "-7"],
        ["--gpu", "b200", "--days", "7", "--accepted-results", "1.5"],
    ):
        assert run(*arguments).returncode == 2


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_the_script_runs_on_every_python_that_is_here(version: str, tmp_path: Path) -> None:
    """M49: Python 3.10 or newer, warnings as errors."""
    python = shutil.which(f"python{version}")
    if python is None or subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"no Python {version} on this machine")
    script = ROOT / "runner" / "pricing" / "core.py"
    asked = ["--gpu", "b200", "--window-hours", "72:00:01", "--tariffs", str(ROOT / "tariffs.csv")]
    found = subprocess.run(
        [python, "-I", "-B", "-W", "error", str(script), *asked], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0 and found.stdout.startswith("b200, 7 days, 1 lot: 2,071.00 USD, 2 GPUs")


def test_the_script_is_written_for_python_310_and_the_standard_library() -> None:
    """M49: grammar of 3.10, imports of the standard library only, nothing newer by name."""
    source = (ROOT / "runner" / "pricing" / "core.py").read_text(encoding="utf-8")
    tree = ast.parse(source, feature_version=(3, 10))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert all(name.partition(".")[0] in sys.stdlib_module_names for name in imported)
    assert not any(newer in source for newer in ("tomllib", "StrEnum", "datetime import UTC", "import Self"))
