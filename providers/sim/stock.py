"""Whether a machine can be had: stock of the zone, quota of the account, and how often spot takes one back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from providers.sim.catalogue import TYPES, ZONES
from providers.sim.values import CloudError, Code, SimMachine

if TYPE_CHECKING:
    from providers.sim.scenario import PlaceRule, QuotaRule, Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A type and market in one zone."""

    region: str
    zone: str
    instance_type: str
    market: str


def stock_of(scenario: Scenario, place: Spot, age: timedelta) -> int:
    """How many machines the zone holds of it, rented ones included, when the world is so old."""
    stocks = [rule.stock for rule in scenario.places if rule.stock is not None and _fits(rule, place, age)]
    return stocks[-1] if stocks else scenario.stock


def reclaims_per_hour(scenario: Scenario, place: Spot, age: timedelta) -> float:
    """How often spot machines are taken back at a place, by the last rule of the scenario that fits."""
    values = [rule.reclaims_per_hour for rule in scenario.places if _fits(rule, place, age)]
    settings = [rate for rate in values if rate is not None]
    return settings[-1] if settings else scenario.reclaims_per_hour


def check_quota(scenario: Scenario, place: Spot, machines: Iterable[SimMachine]) -> None:
    """Raises CloudError where one more machine would be over the account's quota."""
    machine_type = TYPES[place.instance_type]
    limit = quota_of(scenario, place.region, machine_type.family, place.market)
    used = devices_used(machines, place.region, machine_type.family, place.market)
    if used + machine_type.device_count > limit:
        name = quota_name(place.region, machine_type.family, place.market)
        message = f"{used} of {limit} {machine_type.family} devices ({place.market}) are in use in {place.region}"
        raise CloudError(Code.QUOTA, message, {"quota": name})


def quota_of(scenario: Scenario, region: str, family: str, market: str) -> int:
    """Devices that the account may have at once."""
    limits = [rule.devices for rule in scenario.quotas if _covers(rule, region, family, market)]
    return limits[-1] if limits else scenario.quota


def devices_used(machines: Iterable[SimMachine], region: str, family: str, market: str) -> int:
    """How many devices of a family and market live machines have in a region."""
    types = [
        TYPES[machine.instance_type]
        for machine in machines
        if machine.live and (machine.region, machine.market) == (region, market)
    ]
    return sum(row.device_count for row in types if row.family == family)


def quota_name(region: str, family: str, market: str) -> str:
    """The name of the quota of a family and market in a region."""
    return f"{family}-{market}-devices/{region}"


def choose_zone(scenario: Scenario, places: Iterable[Spot], machines: Iterable[SimMachine], age: timedelta) -> Spot:
    """The first of these places that has one left. Raises CloudError, naming zones of the region that have."""
    live = [machine for machine in machines if machine.live]
    spots = tuple(places)
    for place in spots:
        if _has_stock(scenario, place, live, age):
            return place
    first = spots[0]
    others = [
        Spot(region=first.region, zone=zone, instance_type=first.instance_type, market=first.market)
        for zone in ZONES[first.region]
    ]
    elsewhere = [place.zone for place in others if _has_stock(scenario, place, live, age)]
    where = first.zone if len(spots) == 1 else first.region
    message = f"there is no {first.instance_type} ({first.market}) left in {where}"
    raise CloudError(Code.NO_CAPACITY, message, {"elsewhere": elsewhere})


def has_room(scenario: Scenario, places: Iterable[Spot], machines: Iterable[SimMachine], age: timedelta) -> bool:
    """Whether one of these places has one left now."""
    live = [machine for machine in machines if machine.live]
    return any(_has_stock(scenario, place, live, age) for place in places)


def _has_stock(scenario: Scenario, place: Spot, live: Iterable[SimMachine], age: timedelta) -> bool:
    key = (place.zone, place.instance_type, place.market)
    used = sum((machine.zone, machine.instance_type, machine.market) == key for machine in live)
    return used < stock_of(scenario, place, age)


def _fits(rule: PlaceRule, place: Spot, age: timedelta) -> bool:
    if age < rule.start or (rule.end is not None and age >= rule.end):
        return False
    pairs = (
        (rule.region, place.region),
        (rule.zone, place.zone),
        (rule.instance_type, place.instance_type),
        (rule.market, place.market),
    )
    return all(name is None or name == value for name, value in pairs)


def _covers(rule: QuotaRule, region: str, family: str, market: str) -> bool:
    pairs = ((rule.region, region), (rule.family, family), (rule.market, market))
    return all(name is None or name == value for name, value in pairs)
