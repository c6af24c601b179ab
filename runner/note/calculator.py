"""`note/calculator.html`: the price command as one page without network, made from tariffs.csv (M41).

The page computes with whole numbers (BigInt), so that it shows exactly what `runner price` prints.
Same tariffs, same bytes.
"""

from __future__ import annotations

import json
from decimal import Decimal
from html import escape
from pathlib import Path

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.files import write_atomic
from runner.pricing.core import PACKAGE_DAYS, Catalogue, Gpu, Offer, amount_text
from runner.pricing.tariffs import load_catalogue

_UNITS = 10_000  # amounts on the page are whole ten-thousandths: hourly prices have four decimals
_SHIPPED_PAGE = Path(__file__).resolve().parents[2] / "templates" / "calculator.html"


def write_calculator(campaign: Campaign) -> Path:
    """Write the page for the campaign's catalogue; its path."""
    own = campaign.templates / "calculator.html"
    page = calculator_page(load_catalogue(campaign.tariffs), own if own.is_file() else _SHIPPED_PAGE)
    path = campaign.note / "calculator.html"
    write_atomic(path, page.encode("utf-8"))
    return path


def calculator_page(catalogue: Catalogue, template: Path) -> str:
    """The template with the catalogue as a table for readers and as data for its script."""
    try:
        page = template.read_text(encoding="utf-8")
    except OSError as error:
        raise InputRefused(f"the calculator's template cannot be read: {error.strerror}", file=template) from None
    # Names and codes that the reader allows hold no "<", so that nothing in the data can end the script element.
    data = json.dumps(_data(catalogue), ensure_ascii=True, sort_keys=True)
    for mark, content in (("<!--CATALOGUE-->", "\n".join(_rows(catalogue))), ("<!--TARIFFS-->", data)):
        if page.count(mark) != 1:
            raise InputRefused(f"the calculator's template needs the mark {mark} exactly once", file=template)
        page = page.replace(mark, content)
    return page


def _data(catalogue: Catalogue) -> dict[str, object]:
    return {
        "package_days": list(PACKAGE_DAYS),
        "gpus": [
            {
                "name": gpu.name, "cards_per_lot": gpu.cards_per_lot,
                "offers": [_offer(offer) for offer in catalogue.offers if offer.gpu == gpu.name],
            }
            for gpu in catalogue.gpus
        ],
    }


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


def _rows(catalogue: Catalogue) -> list[str]:
    rows = []
    for gpu in catalogue.gpus:
        offers = [offer for offer in catalogue.offers if offer.gpu == gpu.name]
        rows += [_row(gpu, offer) for offer in offers] or [_row(gpu, None)]
    return rows


def _row(gpu: Gpu, offer: Offer | None) -> str:
    billing, price, day, source = "", "no price", "", ""
    if offer is not None:
        billing = f"{offer.days} days" if offer.days else "per started hour"
        price = amount_text(offer.price_per_lot, offer.currency)
        day, source = offer.catalogue_date.isoformat(), offer.source
    cells = (
        ("short", billing), ("number", price), ("number", str(gpu.cards_per_lot)),
        ("number", str(gpu.memory_gib_per_card)), ("short", day), ("long", source),
    )
    fields = "".join(f'<td class="{kind}">{escape(text)}</td>' for kind, text in cells)
    return f'<tr><th scope="row">{escape(gpu.name)}</th>{fields}</tr>'
