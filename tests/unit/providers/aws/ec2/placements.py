"""Offers and placements of EC2 that tests ask for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.contract.aws import Client, TimedAws
from tests.contract.harness import Ask, request
from trainplan.pricing.offers import Offer, OfferQuery

if TYPE_CHECKING:
    from tests.doubles.aws import remote
    from trainplan.providers.base import LaunchRequest, PreflightState


def another(double: remote.Double, home: Path) -> TimedAws:
    """A newly started command, which has looked nothing up."""
    return Client(double, home).provider()


def offer(provider: TimedAws, instance_type: str, market: str = "on_demand", region: str = "us-east-1") -> Offer:
    asked = OfferQuery(regions=frozenset({region}), markets=frozenset({market}), include_retired=True)
    return replace(provider, only=instance_type).offers(asked)[0]


def on(provider: TimedAws, instance_type: str, market: str, zone: str | None = None) -> LaunchRequest:
    bare = request(provider, Ask())
    made = replace(bare, offer=offer(provider, instance_type, market), zone=zone, resolution=None)
    return provider.resolve(made)


def states(provider: TimedAws, offer: Offer) -> dict[str, PreflightState]:
    return {check.name: check.state for check in provider.preflight(offer).checks}


def the(provider: TimedAws, offer: Offer, name: str) -> Any:
    return next(check for check in provider.preflight(offer).checks if check.name == name)
