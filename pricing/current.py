"""Which catalog is used: the refreshed one of the state folder where there is one, else the shipped one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pricing.catalog import SHIPPED_CATALOG, Catalog, CatalogError

if TYPE_CHECKING:
    from datetime import date
    from pathlib import Path

    from pricing.offers import Offer, OfferQuery

REFRESHED = "catalog.sqlite"
"""The name of the refreshed catalog in the state folder."""


def current_catalog(home: Path | None) -> Path:
    """The file of the catalog to use; without a state folder the shipped one.

    A refreshed catalog that lies over another version's text is compiled anew. Raises CatalogError.
    """
    own = home / REFRESHED if home is not None else None
    if own is None or not own.is_file():
        return SHIPPED_CATALOG
    with Catalog.open() as shipped:
        text = shipped.text_sha256
    try:
        with Catalog.open(own) as catalog:
            fits = catalog.text_sha256 == text
    except CatalogError:
        fits = False
    if not fits:
        from pricing.refresh import compile_anew  # reads every table: only after the package itself was renewed

        compile_anew(own)
    return own


def offers_of(provider: str, query: OfferQuery, home: Path | None, today: date) -> list[Offer]:
    """What one provider rents out, in the catalog's order; none where the query wants others. Raises CatalogError."""
    if query.providers is not None and provider not in query.providers:
        return []
    with Catalog.open(current_catalog(home)) as catalog:
        return catalog.offers(query._replace(providers=frozenset({provider})), today)
