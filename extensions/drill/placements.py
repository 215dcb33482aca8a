"""Where a drill takes its machines: the cheapest that the account may have, by the hour."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from trainplan.extensions.drill.limits import job
from trainplan.planner.errors import NothingLeftError, ThisMachineError
from trainplan.planner.forecast.estimate import run_usage
from trainplan.planner.runs.journal.locks import RunLocks
from trainplan.planner.runs.targets import Target
from trainplan.pricing.cost import ProviderRates, attached_per_hour
from trainplan.pricing.devices import CPU_DEVICE
from trainplan.pricing.offers import Market, Offer, OfferQuery
from trainplan.providers.abilities import QuotaTeller, Refiner, RegionTeller
from trainplan.providers.base import RunId
from trainplan.providers.errors import ProviderError

if TYPE_CHECKING:
    from trainplan.extensions.drill.tools import Tools
    from trainplan.providers.base import Provider

LEAST_MEMORY_GIB = 3.5
"""TensorFlow with the drill's net, the agent and the container engine."""
REFINED = 12
MOST_TARGETS = 12


def targets(
    provider: Provider, say: Callable[[str], None], device: str = "", regions: Sequence[str] = ()
) -> tuple[Target, ...]:
    """The placements for on-demand machines, the cheapest first, those of the first machine's size and price range.

    `device` is the accelerator that was named, "" for none. Raises NothingLeftError where there is none.
    """
    name = device or CPU_DEVICE
    query = OfferQuery(
        devices=frozenset({name}),
        markets=frozenset({Market.ON_DEMAND}),
        regions=frozenset(regions) if regions else None,
    )
    offers = sorted(filter(_fits, provider.offers(query)), key=_rate)
    offers = _open(provider, offers, say)
    if not offers:
        where = f" in {', '.join(regions)}" if regions else ""
        raise NothingLeftError(
            f"{provider.name} has no machine for a drill: {name}, on demand{where}",
            "plan doctor lists what is missing",
        )
    offers = sorted(_refined(provider, offers[:REFINED], say), key=_rate)
    if not offers:
        raise NothingLeftError(
            f"{provider.name} has no capacity for the cheapest machines at this moment", "try again later"
        )
    candidates = [Target(offer=offer, zone=zone) for offer in offers for zone in (offer.zones or (None,))]
    return tuple(candidates[:MOST_TARGETS])


def with_side_rates(placements: Sequence[Target], rates: ProviderRates | None) -> tuple[Target, ...]:
    """The same with what the disk and the address of a machine cost there, so that its receipt counts them."""
    if rates is None:
        return tuple(placements)
    return tuple(_with_side_rates(placement, rates) for placement in placements)


def _with_side_rates(placement: Target, rates: ProviderRates) -> Target:
    usage = run_usage(job(timedelta(minutes=1), Decimal(1)), placement.offer.device)
    per_hour = attached_per_hour(usage, rates.at(placement.offer.region))
    return replace(
        placement, disk_gb=usage.disk_gb, disk_usd_per_hour=per_hour.disk, address_usd_per_hour=per_hour.address
    )


def _fits(offer: Offer) -> bool:
    enough = offer.memory_gib is None or offer.memory_gib >= LEAST_MEMORY_GIB
    if offer.availability.offered is False:
        return False
    return enough and offer.planning_usd_per_hour is not None and offer.hosts == 1


def _rate(offer: Offer) -> tuple[object, ...]:
    price = max(offer.planning_usd_per_hour or offer.usd_per_hour, offer.usd_per_hour)
    return (price, offer.device_count, offer.region, offer.instance_type)


def _open(provider: Provider, offers: list[Offer], say: Callable[[str], None]) -> list[Offer]:
    """Return the placements without closed regions and quotas that are known to be too small."""
    try:
        if isinstance(provider, RegionTeller):
            closed = provider.closed_regions(list(dict.fromkeys(offer.region for offer in offers)))
            offers = [offer for offer in offers if offer.region not in closed]
        if isinstance(provider, QuotaTeller):
            offers = offers[: REFINED * 4]
            short = provider.shortfalls(offers)
            offers = [offer for offer, why in zip(offers, short, strict=True) if not why]
    except ProviderError as error:
        say(f"quotas could not be read: {error.message}")
    return offers


def _refined(provider: Provider, offers: list[Offer], say: Callable[[str], None]) -> list[Offer]:
    if not isinstance(provider, Refiner):
        return offers
    try:
        return list(provider.refine(offers))
    except ProviderError as error:
        say(f"live prices could not be read: {error.message}")
        return offers


@contextmanager
def alone(tools: Tools) -> Iterator[None]:
    """Lock this provider against other drills of this home, and against cleanups of what a drill has left, until the
    block ends.

    Raises ThisMachineError where one does, StateError where the folder of the locks cannot be written.
    """
    name = tools.provider.name
    with RunLocks(tools.settings.home / "locks").holding(RunId(f"drill-{name}")) as mine:
        if not mine:
            raise ThisMachineError(
                f"another plan drill {name} of this computer is at work",
                "wait until it has ended, or press Ctrl-C there",
            )
        yield
