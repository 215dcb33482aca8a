"""IBM Cloud's Global Catalog: open to everybody, a list for each machine, with all regions and both markets.

A profile of the catalog names the plan that it is billed by, and the plan's list has a price for each region. Machines
of the second generation (gx2, bx2) share one plan whose list does not name them: what is known of their prices stays.
The API has not been asked from here: the parser is held to an answer that others recorded (2026-10-05).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from trainplan.pricing.grades import Market
from trainplan.pricing.merge import News
from trainplan.pricing.offers import LifecycleState
from trainplan.pricing.sources.reading import (
    Count,
    Parsed,
    PriceFound,
    PricePart,
    SourceError,
    day_of,
    in_turn,
    inside,
    is_name,
    items,
    json_object,
    usd,
)

if TYPE_CHECKING:
    from trainplan.pricing.merge import KnownPrices
    from trainplan.pricing.sources.http import Http
    from trainplan.pricing.sources.news import Asking

IBM_ID = "ibm-global-catalog"
SOURCES = ((IBM_ID, "listed", "globalcatalog.cloud.ibm.com/api/v1 (plans of is.instance, USA, USD)"),)
BASE = "https://globalcatalog.cloud.ibm.com/api/v1"
_PAGE = 200
MOST_PAGES = 50
"""A list whose pages lead in a circle has to end; a recorded one had 310 profiles."""
_WHAT = "IBM's catalog"


class ProfilesPage(NamedTuple):
    """Plans of machines by name, and how many entries the page and the whole list have."""

    plans: Mapping[str, str]
    entries: int
    total: int


def read_ibm(catalog_state: KnownPrices, asking: Asking) -> News:
    """The machines that are known here, each with its own list. Raises SourceError where no profile can be read."""
    on = asking.now.date()
    base = (asking.environment.get("PLAN_IBM_PRICES_URL") or BASE).rstrip("/")
    machines = {
        name
        for (provider, name), machine in catalog_state.types.items()
        if provider == catalog_state.provider and machine.lifecycle.state is not LifecycleState.RETIRED
    }
    plans = {name: plan for name, plan in _plans(asking.http, base).items() if name in machines}
    if not plans:
        raise SourceError(f"{_WHAT} names no plan of the machines that are known here", "try again later")
    parts = []
    for part in in_turn(_todo(asking.http, base, plans, on)):
        asking.say(f"{part.name}: {part.error}" if part.error else f"{part.name}: {len(part.parsed.prices):,} prices")
        parts.append(part)
    return News(parts=parts, on=on)


def parse_profiles(content: bytes) -> ProfilesPage:
    """A page of the catalog's entries: those that are billed by the hour of the whole machine, with the plan that says
    for how much. Raises SourceError, as the next."""
    page = json_object(content, _WHAT)
    entries = page.get("resources")
    if not isinstance(entries, list):
        raise SourceError(f"{_WHAT}: no resources in it", "try again later")
    plans = {
        str(name): plan
        for entry in items(entries)
        if is_name(name := entry.get("name")) and entry.get("active") is not False and not entry.get("disabled")
        if (plan := _plan_of(entry))
    }
    total = page.get("count")
    return ProfilesPage(plans, len(entries), total if isinstance(total, int) else len(entries))


def parse_plan(content: bytes, machine: str, on: date) -> Parsed:
    """The list of a plan: `resources` with `deployment_region` and `metrics`, of which two are the machine's own hours,
    on demand and on spot. The rest is licences, reservations and dedicated hosts."""
    page = json_object(content, f"{_WHAT}, {machine}")
    resources, total = page.get("resources"), page.get("count")
    if not isinstance(resources, list):
        raise SourceError(f"{_WHAT}, {machine}: no resources in it", "try again later")
    # The regions that are not in it count as gone.
    if isinstance(total, int) and total > len(resources):
        raise SourceError(f"{_WHAT}, {machine}: {len(resources)} of {total:,} entries came", "try again later")
    parsed = Parsed()
    wanted = {f"part-is.instance-hours-{machine}": Market.ON_DEMAND, f"part-is.spot-{machine}": Market.SPOT}
    prices: dict[tuple[str, Market], PriceFound] = {}
    for resource in items(resources):
        region = resource.get("deployment_region")
        for metric in items(resource.get("metrics")):
            market = wanted.get(str(metric.get("metric_id")))
            read = Count.OTHER_PRODUCT if market is None else _price(metric, (region, machine, market), on)
            if isinstance(read, Count):
                parsed.skipped[read] += 1
                continue
            before = prices.get((read.region, read.market))
            if before is not None:
                parsed.skipped[Count.TWO_PRICES] += 1
            if before is None or before.usd_per_hour < read.usd_per_hour:
                prices[read.region, read.market] = read
    parsed.prices += prices.values()
    return parsed


def _todo(http: Http, base: str, plans: Mapping[str, str], on: date) -> Iterator[tuple[PricePart, Any]]:
    for machine, plan in sorted(plans.items()):
        part = PricePart(name=machine, markets=frozenset(Market), regions=None, types=frozenset({machine}))
        yield part, partial(_machine, http, f"{base}/{quote(plan)}/pricing/deployment?_limit={_PAGE}", machine, on)


def _machine(http: Http, url: str, machine: str, on: date) -> Parsed:
    parsed = parse_plan(http.get(url), machine, on)
    if not parsed.prices:
        raise SourceError(f"{_WHAT} lists no price of {machine}")
    return parsed


def _plans(http: Http, base: str) -> dict[str, str]:
    plans: dict[str, str] = {}
    seen = 0
    for _ in range(MOST_PAGES):
        url = f"{base}?q=is.instance&include=metadata&_limit={_PAGE}&_offset={seen}"
        page = parse_profiles(http.get(url))
        plans |= page.plans
        seen += page.entries
        if not page.entries or seen >= page.total:
            return plans
    raise SourceError(f"{_WHAT}: more than {MOST_PAGES} pages", "try again later")


def _plan_of(entry: Mapping[str, Any]) -> str:
    """The plan that a whole machine is billed by; "" where its parts are, or it is something else."""
    for measure in items(inside(entry, "metadata", "other", "profile", "measures")):
        for deployment in items(measure.get("deployments")):
            is_shared = measure.get("component") == "instance" and deployment.get("type") == "multi-tenant"
            meters = {(meter.get("unit"), meter.get("quantity")) for meter in items(deployment.get("meters"))}
            plan = deployment.get("plan")
            if is_shared and ("INSTANCE_MULTI_TENANT", "1") in meters and is_name(plan):
                return str(plan)
    return ""


def _price(metric: Mapping[str, Any], key: tuple[object, str, Market], on: date) -> PriceFound | Count:
    """The price of one metric, or why it is none."""
    region, machine, market = key
    # Regions are in small letters; an entry for all of them, as others saw, says DEFAULT.
    if not isinstance(region, str) or not is_name(region) or not region.islower():
        return Count.INCOMPLETE
    if metric.get("charge_unit") != "Instance-Hour" or metric.get("charge_unit_quantity") != 1:
        return Count.OTHER_UNIT
    since, until = day_of(metric.get("effective_from")), day_of(metric.get("effective_until"))
    if (since is not None and since > on) or (until is not None and until < on):
        return Count.NOT_NOW
    of_country = [
        amount
        for amount in items(metric.get("amounts"))
        if (amount.get("country"), amount.get("currency")) == ("USA", "USD")
    ]
    if not of_country:
        return Count.OTHER_CURRENCY
    tiers = [tier for amount in of_country for tier in items(amount.get("prices"))]
    if len(tiers) > 1:
        return Count.TIERS
    price = usd(tiers[0].get("price")) if tiers else None
    if price is None:
        return Count.NO_PRICE
    return PriceFound(region, machine, market, price, IBM_ID, as_of=on, since=since)
