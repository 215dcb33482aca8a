"""What a person asked for and cannot have: what its vendor has retired, and a market without a known price. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from trainplan.planner.forecast.choose import Filters, unwanted
from trainplan.pricing.offers import LifecycleState, Rental
from trainplan.pricing.sources import NEEDED_TO_READ
from trainplan.workloads.wording import Command, Option, Text

if TYPE_CHECKING:
    from trainplan.pricing.catalog import RentalPlacements

HOW = Text(
    Command("estimate", Option.INCLUDE_RETIRED),
    " shows what is retired, ",
    Command("launch", Option.ALLOW_RETIRED),
    " takes it",
)


def retired_line(rented: Iterable[RentalPlacements], filters: Filters) -> str:
    """Name the smallest machine of each named provider and device that is refused as retired; "" for none.

    Without a named device nobody asked for what is retired.
    """
    if filters.include_retired or not filters.devices:
        return ""
    smallest: dict[tuple[str, str], Rental] = {}
    for row in rented:
        rental = row.rental
        if rental.lifecycle.state is not LifecycleState.RETIRED or not _asked_for(row, filters):
            continue
        key = rental.provider, rental.device
        smallest[key] = min(smallest.get(key, rental), rental, key=_size)
    lines = [_note_of(rental) for _, rental in sorted(smallest.items())]
    return "; ".join([*lines, str(HOW)]) if lines else ""


def unpriced_market_lines(rented: Iterable[RentalPlacements], filters: Filters) -> tuple[str, ...]:
    """A line for each provider of whose wanted markets no price is known, where one of the other market is."""
    if not filters.markets:
        return ()
    in_any_market = filters._replace(markets=frozenset())
    rows = [row.rental for row in rented if _asked_for(row, in_any_market)]
    priced = {rental.provider for rental in rows if rental.market in filters.markets}
    markets = " or ".join(sorted(market.replace("_", "-") for market in filters.markets))
    regions = f" in {' or '.join(sorted(filters.regions))}" if filters.regions else ""
    lines = []
    for provider in sorted({rental.provider for rental in rows} - priced):
        needs = NEEDED_TO_READ.get(provider)
        reads = f"; plan prices refresh {provider} reads it ({needs or 'no account needed'})"
        lines.append(f"no {markets} price of {provider}{regions} is known{'' if needs is None else reads}")
    return tuple(lines)


def _asked_for(row: RentalPlacements, filters: Filters) -> bool:
    if unwanted(row.rental, filters._replace(include_retired=True)) is not None:
        return False
    return not filters.regions or any(placement.region in filters.regions for placement in row.placements)


def _size(rental: Rental) -> tuple[int, int, str]:
    """A special offer's name is the usual one with something behind it."""
    return rental.device_count, len(rental.instance_type), rental.instance_type


def _note_of(rental: Rental) -> str:
    cycle = rental.lifecycle
    when = f" on {cycle.date}" if cycle.date else ""
    instead = f", take {cycle.successor}" if cycle.successor else ""
    return f"{rental.provider} retired {rental.instance_type} ({rental.device}){when}{instead}"
