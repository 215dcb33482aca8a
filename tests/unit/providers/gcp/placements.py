"""Placements of Compute Engine that tests ask for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.builders import TODAY
from tests.contract.gcp import OFFER
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.offers import Market, Offer, OfferQuery

if TYPE_CHECKING:
    from tests.unit.providers.gcp.conftest import World
    from trainplan.providers.base import LaunchRequest
ZONE = "us-central1-a"


def in_zone(world: World, zone: str = ZONE, **changes: Any) -> LaunchRequest:
    """A request for a placement in us-central1, looked up."""
    found = world.request(**changes)
    offer = an_offer(OFFER, found.offer.market)
    return world.provider.resolve(replace(found, offer=offer, zone=zone, resolution=None))


def an_offer(name: str, market: Market = Market.ON_DEMAND, region: str = "us-central1") -> Offer:
    asked = OfferQuery(providers=frozenset({"gcp"}), instance_types=frozenset({name}), markets=frozenset({market}))
    with Catalog.open() as catalog:
        return next(offer for offer in catalog.offers(asked, TODAY) if offer.region == region)


def spot(world: World) -> LaunchRequest:
    found = in_zone(world)
    return world.provider.resolve(replace(found, offer=an_offer(OFFER, Market.SPOT), resolution=None))
