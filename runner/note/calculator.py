"""`note/calculator.html`: the price command as one page without network, made from tariffs.csv (M41).

The page computes with whole numbers (BigInt), so that it shows exactly what `runner price` prints; in
English word by word, in other languages by the catalogues and number signs of the note. Same tariffs and
language, same bytes.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from html import escape
from pathlib import Path

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.checks import SIGNED_LIST
from runner.evidence.files import write_atomic
from runner.note.format import NO_BREAK, Formatter
from runner.note.i18n import N_, SHIPPED_TEMPLATES, SOURCE_LANGUAGE, Catalogue, load_catalogue
from runner.pricing.core import MOST_COUNT, PACKAGE_DAYS, Gpu, Offer
from runner.pricing.core import Catalogue as Tariffs
from runner.pricing.tariffs import load_catalogue as load_tariffs

_UNITS = 10_000  # amounts on the page are whole ten-thousandths: hourly prices have four decimals
_MARK = re.compile(r"\{\{(\w+)\}\}")
_TEMPLATE = "calculator.html"
_OWN_TEMPLATES = Path(__file__).resolve().parents[2] / "templates"

STATIC = {
    "title": N_("What does a GPU rental package cost?"),
    "description": N_("Committed cost of GPU rental packages, from a dated catalogue. Works without a network."),
    "intro": N_(
        "Committed cost = price per lot × lots. The cards of a lot are not multiplied again, unused time is not "
        "refunded, packages are not extended or combined by themselves. A price that is not in the catalogue is not "
        "derived from another one. This page works without a network and measures nothing."
    ),
    "gpu": N_("GPU"),
    "lots": N_("Lots"),
    "package": N_("Package"),
    "hours": N_("Window in hours"),
    "hoursHint": N_("Optional: 96, 72.5 or 72:00:01, from the first start to the last collection."),
    "accepted": N_("Accepted results"),
    "acceptedHint": N_("Number of different corpora, optional"),
    "confirm": N_(
        "I confirm that each of them is a different corpus that passed every quality check of its frozen protocol. "
        "Repeats of a benchmark are not further results."
    ),
    "answer": N_("Answer"),
    "packages": N_("Rental packages"),
    "packagesCaption": N_("For the chosen GPU, lots and window. Fitting a package does not prove finishing in time."),
    "headHours": N_("Hours"),
    "headCost": N_("Committed cost"),
    "headWindow": N_("Window"),
    "catalogue": N_("The catalogue"),
    "catalogueCaption": N_(
        "All prices that are known, as they stand in the catalogue. It contains no measurement and no observed saving."
    ),
    "headBilling": N_("Billing"),
    "headPrice": N_("Price per lot"),
    "headCards": N_("Cards per lot"),
    "headMemory": N_("GiB per card"),
    "headDate": N_("Date"),
    "headSource": N_("Source"),
    "noscript": N_(
        "The calculator needs JavaScript; the catalogue above can be read without it. The command runner price gives "
        "the same figures."
    ),
}
"""Texts of the page by their mark in the template."""

SCRIPT = {
    "cheapest": N_("the cheapest that covers the window"),
    "hourly": N_("hourly"),
    "noPrice": N_("no price"),
    "covers": N_("covers, %(time)s to spare"),
    "short": N_("does not cover, %(time)s too short"),
    "only": N_("only %(lots)s available"),
    "headline": N_("%(gpu)s, %(package)s, %(lots)s: %(cost)s, %(cards)s"),
    "nothing": N_("%(gpu)s, %(lots)s: no priced package covers the window (%(cards)s)"),
    "perCorpus": N_("Cost per validated corpus: %(value)s"),
    "unknown": N_("not calculated (the committed cost is not known)"),
    "notGiven": N_("not calculated (the number of accepted results was not given)"),
    "notConfirmed": N_("not calculated (the quality check is not confirmed: tick the box)"),
    "undefined": N_("undefined (no result was accepted; the committed cost still stands)"),
    "rounded": N_("%(shown)s (rounded half up from %(exact)s)"),
    "cheaper": N_("It may be cheaper: %(packages)s would also cover, at a price that is not known."),
    "byHour": N_("By the hour it would cost %(cost)s; hourly offers are ranked only where the plan lists them."),
    "badCount": N_("%(name)s must be a whole number from %(least)s to %(most)s."),
    "badHours": N_("The window is not a number of hours such as 96, 72.5 or 72:00:01."),
    "notPriced": N_(
        "No price for the package of %(package)s of %(gpu)s in the catalogue; it is not derived from another one."
    ),
    "askMore": N_("Choose a package, or give the window in hours."),
    "lotsName": N_("Lots"),
    "acceptedName": N_("Accepted results"),
}
"""Texts of the script by the name that it asks for."""


def write_calculator(campaign: Campaign, language: str = SOURCE_LANGUAGE, out: Path | None = None) -> Path:
    """Write the page for the campaign's catalogue, by default below note/; its path.

    Refused where it would replace another page that belongs to a signed note: the note would not pass its check.
    """
    page, path = calculator_of(campaign, language).encode("utf-8"), out or campaign.note / _TEMPLATE
    signed = path == campaign.note / _TEMPLATE and (campaign.note / Path(SIGNED_LIST).name).is_file()
    if signed and path.is_file() and path.read_bytes() != page:
        raise InputRefused(
            "another page belongs to the signed note (other language, tariffs or templates)",
            file=path,
            next_step="make report NOTE_LANG=de for a note and page in that language, or --out page.html",
        )
    write_atomic(path, page)
    return path


def calculator_of(campaign: Campaign, language: str = SOURCE_LANGUAGE) -> str:
    """The page as it must be for the campaign's tariffs and templates."""
    own = campaign.templates / _TEMPLATE
    template = own if own.is_file() else _OWN_TEMPLATES / _TEMPLATE
    words = campaign.templates if (campaign.templates / "locale" / f"{language}.po").is_file() else _OWN_TEMPLATES
    return calculator_page(load_tariffs(campaign.tariffs), template, load_catalogue(words, language))


def calculator_page(tariffs: Tariffs, template: Path, words: Catalogue) -> str:
    """The template with its texts, the catalogue as a table for readers and as data for its script."""
    try:
        page = template.read_text(encoding="utf-8")
    except OSError as error:
        raise InputRefused(
            f"the calculator's template cannot be read: {error.strerror}", file=template, next_step=SHIPPED_TEMPLATES
        ) from None
    fmt = Formatter(words.language)
    # The data is put into a script element: "<" is written as an escape, so that nothing in it can end the element.
    data = json.dumps(_data(tariffs, words, fmt), ensure_ascii=True, sort_keys=True).replace("<", "\\u003c")
    rows = "\n".join(_rows(tariffs, words, fmt))
    for mark in ("<!--CATALOGUE-->", "<!--TARIFFS-->"):
        if page.count(mark) != 1:
            raise InputRefused(
                f"the calculator's template needs the mark {mark} exactly once",
                file=template,
                next_step=SHIPPED_TEMPLATES,
            )
    texts = {name: words.template(text) for name, text in STATIC.items()} | {"language": words.language}

    def text(mark: re.Match[str]) -> str:
        if mark[1] not in texts:
            raise InputRefused(
                "the calculator's template has a mark that no text belongs to",
                file=template,
                value=mark[0],
                next_step=SHIPPED_TEMPLATES,
            )
        return escape(texts[mark[1]])

    return _MARK.sub(text, page).replace("<!--CATALOGUE-->", rows).replace("<!--TARIFFS-->", data)


def _data(tariffs: Tariffs, words: Catalogue, fmt: Formatter) -> dict[str, object]:
    return {
        "package_days": list(PACKAGE_DAYS),
        "most": MOST_COUNT,
        "texts": {name: words.template(text) for name, text in SCRIPT.items()},
        "counted": {
            "days": ngettext("%(count)s day", "%(count)s days", words),
            "lots": ngettext("%(count)s lot", "%(count)s lots", words),
            "gpus": ngettext("%(count)s GPU", "%(count)s GPUs", words),
        },
        "signs": {"decimal": fmt.decimal("0.5", 1)[1], "group": fmt.integer(10_000)[2], "space": NO_BREAK},
        "gpus": [
            {
                "name": gpu.name,
                "cards_per_lot": gpu.cards_per_lot,
                "offers": [_offer(offer) for offer in tariffs.offers if offer.gpu == gpu.name],
            }
            for gpu in tariffs.gpus
        ],
    }


def ngettext(singular: str, plural: str, words: Catalogue) -> list[str]:
    """The message for none, one and more: enough for the note's languages. Named so that its literals are found."""
    return [words.plural_template(singular, plural, count) for count in (0, 1, 2)]


def _offer(offer: Offer) -> dict[str, object]:
    return {
        "days": offer.days,
        "price_units": str(int(offer.price_per_lot * _UNITS)),
        "decimals": _decimals(offer.price_per_lot),
        "currency": offer.currency,
        "lots_available": offer.lots_available,
    }


def _decimals(price: Decimal) -> int:
    return max(2, -int(price.as_tuple().exponent))


def _rows(tariffs: Tariffs, words: Catalogue, fmt: Formatter) -> list[str]:
    rows = []
    for gpu in tariffs.gpus:
        offers = [offer for offer in tariffs.offers if offer.gpu == gpu.name]
        rows += [_row(gpu, offer, words, fmt) for offer in offers] or [_row(gpu, None, words, fmt)]
        if gpu.memory_source:
            head = words.gettext("Memory:")
            note = escape(f"{gpu.name}. {head} {gpu.memory_source}")
            rows.append(f'<tr><td colspan="7"><span class="hint">{note}</span></td></tr>')
    return rows


def _row(gpu: Gpu, offer: Offer | None, words: Catalogue, fmt: Formatter) -> str:
    billing, price, day, source = "", words.gettext("no price"), "", ""
    if offer is not None:
        hourly = words.gettext("per started hour")
        billing = words.ngettext("%(count)s day", "%(count)s days", offer.days) if offer.days else hourly
        places = _decimals(offer.price_per_lot)
        price = f"{fmt.decimal(offer.price_per_lot, places)}{NO_BREAK}{offer.currency}"
        day, source = fmt.date(offer.catalogue_date.isoformat()), offer.source
    cells = (
        ("short", escape(billing)),
        ("number", escape(price)),
        ("number", str(gpu.cards_per_lot)),
        ("number", fmt.plain(gpu.memory_gib_per_card)),
        ("short", escape(day)),
        ("long", escape(source)),
    )
    heads = ("headBilling", "headPrice", "headCards", "headMemory", "headDate", "headSource")
    fields = "".join(
        f'<td class="{kind}" data-label="{escape(words.template(STATIC[head]))}">{text}</td>'
        for head, (kind, text) in zip(heads, cells, strict=True)
    )
    return f'<tr><th scope="row">{escape(gpu.name)}</th>{fields}</tr>'
