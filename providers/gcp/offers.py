"""What can be rented at Google, out of the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pricing.catalog import Catalog
from providers.gcp.part import PROVIDER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from pricing.offers import Offer, OfferQuery


def catalog_offers(query: OfferQuery, today: date) -> Sequence[Offer]:
    """In the catalog's order; nobody is asked."""
    if query.providers is not None and PROVIDER not in query.providers:
        return ()
    with Catalog.open() as catalog:
        return catalog.offers(query._replace(providers=frozenset({PROVIDER})), today)
