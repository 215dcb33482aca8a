"""Which catalog is used: the refreshed one of the state folder where there is one, else the shipped one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.pricing.catalog import REFRESHED, SHIPPED_CATALOG, Catalog, CatalogError

if TYPE_CHECKING:
    from trainplan.pricing.offers import Offer, OfferQuery


def current_catalog(home: Path | None, say: Callable[[str], None] = lambda _: None) -> Path:
    """The file of the catalog to use: the refreshed one, else, or where that is damaged, the shipped one.

    A refreshed catalog that lies over another version's text is compiled anew. `say` is told of a damaged one. Raises
    CatalogError for the shipped one.
    """
    own = home / REFRESHED if home is not None else None
    if own is None or not own.is_file():
        return SHIPPED_CATALOG
    if damage := damage_of(own):
        say(f"{damage}: the shipped prices are used; plan prices refresh reads them anew")
        return SHIPPED_CATALOG
    return own


def damage_of(own: Path) -> str:
    """Why a refreshed catalog cannot be used; "" where it can. One of another version is compiled anew first.

    Raises CatalogError where the shipped one cannot be used either.
    """
    with Catalog.open() as shipped:
        text = shipped.text_sha256
    try:
        with Catalog.open(own) as catalog:
            catalog.check()
            fits = catalog.text_sha256 == text
    except CatalogError:
        fits = False
    if fits:
        return ""
    from trainplan.pricing.refresh import compile_anew  # reads every table: only after the package itself was renewed

    try:
        compile_anew(own)
    except CatalogError as error:
        return str(error)
    return ""


def offers_of(provider: str, query: OfferQuery, home: Path | None, today: date) -> list[Offer]:
    """What one provider rents out, in the catalog's order; none where the query wants others. Raises CatalogError."""
    if query.providers is not None and provider not in query.providers:
        return []
    with Catalog.open(current_catalog(home)) as catalog:
        return catalog.offers(query._replace(providers=frozenset({provider})), today)
