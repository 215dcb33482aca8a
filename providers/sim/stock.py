"""Whether a machine can be had: stock of the zone, quota of the account, and how often spot takes one back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from trainplan.providers.sim.api import RefusedError
from trainplan.providers.sim.catalogue import TYPES, ZONES
from trainplan.providers.sim.values import Code, SimMachine

if TYPE_CHECKING:
    from trainplan.providers.sim.scenario import PlacementRule, QuotaRule, Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A type and market in one zone."""

    region: str
    zone: str
    instance_type: str
    market: str


def stock_of(scenario: Scenario, placement: Spot, age: timedelta) -> int:
    """How many machines the zone holds of it, rented ones included, when the world is so old."""
    stocks = [rule.stock for rule in scenario.placements if rule.stock is not None and _fits(rule, placement, age)]
    return stocks[-1] if stocks else scenario.stock


def reclaims_per_hour(scenario: Scenario, placement: Spot, age: timedelta) -> float:
    """How often spot machines are taken back at a placement, by the last rule of the scenario that fits."""
    values = [rule.reclaims_per_hour for rule in scenario.placements if _fits(rule, placement, age)]
    settings = [rate for rate in values if rate is not None]
    return settings[-1] if settings else scenario.reclaims_per_hour


def check_quota(scenario: Scenario, placement: Spot, machines: Iterable[SimMachine]) -> None:
    """Raises RefusedError where one more machine would be over the account's quota."""
    machine_type = TYPES[placement.instance_type]
    limit = quota_of(scenario, placement.region, machine_type.family, placement.market)
    used = devices_used(machines, placement.region, machine_type.family, placement.market)
    if used + machine_type.device_count > limit:
        name = quota_name(placement.region, machine_type.family, placement.market)
        message = (
            f"{used} of {limit} {machine_type.family} devices ({placement.market}) are in use in {placement.region}"
        )
        raise RefusedError(Code.QUOTA, message, {"quota": name})


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


def choose_zone(scenario: Scenario, placements: Iterable[Spot], machines: Iterable[SimMachine], age: timedelta) -> Spot:
    """The first of these placements that has one left. Raises RefusedError, naming zones of the region that have."""
    live = [machine for machine in machines if machine.live]
    spots = tuple(placements)
    for placement in spots:
        if _has_stock(scenario, placement, live, age):
            return placement
    first = spots[0]
    others = [
        Spot(region=first.region, zone=zone, instance_type=first.instance_type, market=first.market)
        for zone in ZONES[first.region]
    ]
    elsewhere = [placement.zone for placement in others if _has_stock(scenario, placement, live, age)]
    where = first.zone if len(spots) == 1 else first.region
    message = f"there is no {first.instance_type} ({first.market}) left in {where}"
    raise RefusedError(Code.NO_CAPACITY, message, {"elsewhere": elsewhere})


def has_room(scenario: Scenario, placements: Iterable[Spot], machines: Iterable[SimMachine], age: timedelta) -> bool:
    """Whether one of these placements has one left now."""
    live = [machine for machine in machines if machine.live]
    return any(_has_stock(scenario, placement, live, age) for placement in placements)


def _has_stock(scenario: Scenario, placement: Spot, live: Iterable[SimMachine], age: timedelta) -> bool:
    key = (placement.zone, placement.instance_type, placement.market)
    used = sum((machine.zone, machine.instance_type, machine.market) == key for machine in live)
    return used < stock_of(scenario, placement, age)


def _fits(rule: PlacementRule, placement: Spot, age: timedelta) -> bool:
    if age < rule.start or (rule.end is not None and age >= rule.end):
        return False
    pairs = (
        (rule.region, placement.region),
        (rule.zone, placement.zone),
        (rule.instance_type, placement.instance_type),
        (rule.market, placement.market),
    )
    return all(name is None or name == value for name, value in pairs)


def _covers(rule: QuotaRule, region: str, family: str, market: str) -> bool:
    pairs = ((rule.region, region), (rule.family, family), (rule.market, market))
    return all(name is None or name == value for name, value in pairs)
