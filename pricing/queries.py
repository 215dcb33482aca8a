"""The SQL of the catalog: what is asked of the compiled file, and how a query becomes a condition."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple

from trainplan.pricing.planning import MOST_AGE_DAYS

if TYPE_CHECKING:
    from trainplan.pricing.offers import OfferQuery

REGION_BITS = 16
OFFSET_BITS = 16
"""One integer carries a placement: planning price, then its number among the placements of its rental (they are stored
by region, so ties fall by region), then the region's number. It sorts and travels faster than three columns."""
MOST_REGIONS = 1 << REGION_BITS
MOST_PLACEMENTS = 1 << OFFSET_BITS
MOST_MICRO_USD = 1 << (63 - OFFSET_BITS - REGION_BITS)
"""What fits: regions of all providers, placements of one rental, a planning price."""

_HAD = "EXISTS (SELECT 1 FROM json_each(:had) WHERE value = r.provider || ' ' || p.region_id || ' ' || r.instance_type)"
"""Whether somebody had this machine there lately."""
_AS_LISTED = f"(p.floor_micro IS NULL OR :as_listed OR {_HAD})"
_BASE = f"""(CASE WHEN NOT {_AS_LISTED} THEN p.floor_micro
    WHEN p.until_day < :today AND :today - p.read_day > {MOST_AGE_DAYS} THEN p.old_micro ELSE p.ground_micro END)"""
_AGED = f"min(max(:today - p.read_day, 0), {MOST_AGE_DAYS})"
_GROWN = f"(({_BASE} * (1000000 + s.ppm_per_day * {_AGED}) + 500000) / 1000000)"

_PLANNING_MICRO = f"""CASE
    WHEN p.until_day >= :today THEN {_BASE}
    WHEN p.on_demand_micro IS NULL THEN {_GROWN}
    ELSE max({_BASE}, min({_GROWN}, p.on_demand_micro))
END"""
"""What planning.planning_micro says, computed where the rows are; a test holds the two together."""

_UNRANKABLE = f"(({_PLANNING_MICRO}) IS NULL)"

# SQLite gives << and | the same precedence.
_KEY = (
    f"((({_PLANNING_MICRO}) << {OFFSET_BITS + REGION_BITS})"
    f" | ((p.row_id - r.first_row) << {REGION_BITS}) | p.region_id)"
)

_SPREAD = f"""p.ground_micro, p.until_day, p.read_day, p.old_micro, p.is_share, p.floor_micro, {_AS_LISTED},
    p.on_demand_micro, s.ppm_per_day, s.low_90_days, s.high_90_days"""
"""What rows.planned makes ground, spread and basis of."""

# NULL where no end was announced.
_RETIRED = "coalesce(r.retired_from_day <= :today, 0)"

# CROSS JOIN keeps SQLite from turning the join round: rentals in order, and the placements of each are one run of rows.
_PLACEMENTS = """
    rental AS r
    LEFT JOIN spot_drift AS s ON s.provider = r.provider AND s.family = r.family
    CROSS JOIN placement AS p ON p.row_id BETWEEN r.first_row AND r.last_row
"""


class Conditions(NamedTuple):
    """A query as SQL: conditions on `rental AS r` and on `placement AS p`, and the parameters they name."""

    rental: str
    placement: str
    parameters: dict[str, Any]


class Assumed(NamedTuple):
    """What is known of placements beside their prices: with `as_listed` all of them can be had, else those of `had`, by
    provider, the number of the region and machine type."""

    as_listed: bool = False
    had: tuple[tuple[str, int, str], ...] = ()

    def parameters(self, today: date) -> dict[str, Any]:
        """What every query about prices names."""
        had = json.dumps([f"{provider} {region} {machine}" for provider, region, machine in self.had])
        return {"today": today.toordinal(), "as_listed": int(self.as_listed), "had": had}


def conditions(query: OfferQuery, today: date, assumed: Assumed) -> Conditions:
    """The conditions of a query as it is on `today`."""
    parameters: dict[str, Any] = assumed.parameters(today)
    columns = {
        "r.provider": query.providers,
        "r.device": query.devices,
        "r.instance_type": query.instance_types,
        "r.market": query.markets,
    }
    names = [_is_in(name, values, parameters) for name, values in columns.items() if values is not None]
    if not query.include_retired:
        # IS NOT, since offered is NULL where no offerings were read: the lifecycle alone decides then.
        names.append(f"NOT {_RETIRED} AND r.offered IS NOT 0")
    placement = "1"
    if query.regions is not None:
        placement = f"p.region_id IN (SELECT region_id FROM region WHERE {_is_in('name', query.regions, parameters)})"
    return Conditions(rental=" AND ".join(names) or "1", placement=placement, parameters=parameters)


def rentals(conditions: Conditions) -> str:
    """Per rental: its first placement as a key, its placements, those that cannot be ranked, then the columns of
    `rental`."""
    return f"""
        SELECT min({_KEY}), count(*), sum({_UNRANKABLE}), r.*
        FROM {_PLACEMENTS} WHERE {conditions.rental} AND {conditions.placement} GROUP BY r.rental_id
    """


def placements(conditions: Conditions) -> str:
    """Keys of the placements of `:rental_id` that can be ranked, in their order."""
    return f"""
        SELECT {_KEY} AS key FROM {_PLACEMENTS}
        WHERE r.rental_id = :rental_id AND {conditions.placement} AND NOT {_UNRANKABLE} ORDER BY key
    """


def offers(rental: str, placement: str) -> str:
    """Per offer: rental, region, prices and the rest of what a source says of it."""
    return f"""
        SELECT p.row_id, r.rental_id, p.region_id, d.usd_micro, {_PLANNING_MICRO}, d.on_demand_here_micro, d.zones,
            d.as_of_day, d.as_of_text, d.source_id, d.host_micro, d.device_micro, d.note_id, d.spot_mean_micro,
            d.spot_low_micro, d.spot_high_micro, {_SPREAD}
        FROM {_PLACEMENTS} CROSS JOIN price AS d ON d.row_id = p.row_id WHERE {rental} AND {placement}
    """


def quotes(conditions: Conditions) -> str:
    """Per offer: its price as its source says it, and where and from when it is."""
    return f"""
        SELECT p.row_id, d.usd_micro, r.market, d.zones, d.as_of_day, d.source_id, {_PLANNING_MICRO}, {_SPREAD}
        FROM {_PLACEMENTS} CROSS JOIN price AS d ON d.row_id = p.row_id WHERE {conditions.rental} AND
    {conditions.placement}
    """


def retired_count(conditions: Conditions) -> str:
    """How many offers of the query are retired."""
    return f"SELECT count(*) FROM {_PLACEMENTS} WHERE {conditions.rental} AND {_RETIRED} AND {conditions.placement}"


SUMMARY = f"""
    SELECT r.provider, count(*), sum({_RETIRED}), sum(d.as_of_day IS NULL), min(d.as_of_day), max(d.as_of_day),
        sum(r.offered IS 0), max(CASE WHEN r.offered THEN r.offered_day END), sum(r.offered IS NULL),
        sum(coalesce(d.as_of_day < :old_before, 1))
    FROM rental AS r CROSS JOIN price AS d ON d.row_id BETWEEN r.first_row AND r.last_row
    GROUP BY r.provider ORDER BY r.provider
"""

SUMMARY_SOURCES = """
    SELECT rental.provider, source.id, source.text, count(*)
    FROM price JOIN rental USING (rental_id) JOIN source USING (source_id)
    GROUP BY rental.provider, source.source_id ORDER BY rental.provider, source.id
"""

SUMMARY_GRADES = """
    SELECT rental.provider, rental.market, source.kind, price.as_of_day, count(*)
    FROM price JOIN rental USING (rental_id) JOIN source USING (source_id)
    GROUP BY rental.provider, rental.market, source.kind, price.as_of_day
"""

SIDE_RATES = """
    SELECT side_rate.provider, side_rate.kind, regions, to_regions, usd, per, as_of_day, source.kind, source.text
    FROM side_rate JOIN source USING (source_id) ORDER BY side_rate.rowid
"""

CHEAPEST = """
    SELECT region.name, rental.instance_type, rental.market, min(price.usd_micro)
    FROM rental CROSS JOIN price ON price.row_id BETWEEN rental.first_row AND rental.last_row
    JOIN placement ON placement.row_id = price.row_id JOIN region USING (region_id)
    WHERE rental.provider = :provider GROUP BY rental.instance_type, rental.market, region.region_id
"""

RENTED = """
    SELECT DISTINCT rental.instance_type, rental.family, region.name
    FROM rental JOIN placement ON placement.row_id BETWEEN rental.first_row AND rental.last_row JOIN region USING
    (region_id) WHERE rental.provider = :provider
"""


def _is_in(column: str, values: frozenset[str], parameters: dict[str, Any]) -> str:
    names = [f"{column.removeprefix('r.')}_{number}" for number in range(len(values))]
    parameters.update(zip(names, sorted(values), strict=True))
    return f"{column} IN ({', '.join(f':{name}' for name in names)})"
