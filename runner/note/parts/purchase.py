"""What a buyer asks before ordering: provider, source, date, validity and tax of the price, as far as anybody said."""

from __future__ import annotations

from runner.decide.model import BalanceRow, PackageChoice
from runner.note.evidence import Evidence
from runner.note.words import Speaker
from runner.pricing.core import Offer


def purchase(evidence: Evidence, speaker: Speaker) -> list[dict[str, str]]:
    """Rows (what, value) of the offers that the measured rentals would be rented by; nothing where nothing is rented.

    Catalogue and plan hold no tax and no last day of a price: then that is what is said.
    """
    rows = [row for row in evidence.shown_rows if row.package is not None]
    if not rows:
        return []
    t, plan, unsaid = speaker.catalogue, evidence.plan, speaker.catalogue.gettext("not stated")
    found = [
        (t.gettext("Provider"), speaker.quoted(plan.provider) if plan.provider else unsaid),
        (t.gettext("Order number"), speaker.quoted(plan.order) if plan.order else unsaid),
    ]
    for offer in _offers(evidence, rows):
        what = t.gettext("Price of %(gpu)s", gpu=offer.gpu)
        if offer.days is not None:
            days = t.ngettext("%(count)s day", "%(count)s days", offer.days)
            what = t.gettext("Price of %(gpu)s for %(days)s", gpu=offer.gpu, days=days)
        price = speaker.fmt.money(offer.price_per_lot, offer.currency)
        date = speaker.fmt.date(offer.catalogue_date.isoformat())
        source = speaker.quoted(offer.source) if offer.source else unsaid
        said = t.gettext(
            "%(price)s per lot, catalogue of %(date)s, source: %(source)s", price=price, date=date, source=source
        )
        found.append((what, said))
    found += [
        (t.gettext("Price valid until"), unsaid),
        (t.gettext("Tax"), t.gettext("not stated: nobody said whether the prices include it")),
    ]
    return [{"what": what, "value": value} for what, value in found]


def _offers(evidence: Evidence, rows: list[BalanceRow]) -> list[Offer]:
    used = {(row.package.gpu, row.package.days) for row in rows if row.package is not None}
    return [offer for offer in evidence.catalogue.offers if (offer.gpu, offer.days) in used]


def price_date(evidence: Evidence, package: PackageChoice, speaker: Speaker) -> str:
    """Date of the catalogue that the package's price stands in."""
    found = [o for o in evidence.catalogue.offers if (o.gpu, o.days) == (package.gpu, package.days)]
    return speaker.fmt.date(found[0].catalogue_date.isoformat()) if found else speaker.catalogue.gettext("not stated")
