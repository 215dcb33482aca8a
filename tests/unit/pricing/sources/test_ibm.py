"""IBM's Global Catalog: the list of a plan as github.com/markrusch/Compute-Indices@9e714ef1 recorded it on 2026-10-05,
profiles as github.com/pfeifferj/karpenter-provider-ibm-cloud@e67f65a3 has them. L4's price is made up."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.price_lists import NoHttp
from trainplan.pricing.grades import Market
from trainplan.pricing.merge import merge
from trainplan.pricing.refresh import known_of
from trainplan.pricing.sources.ibm import BASE, parse_plan, parse_profiles
from trainplan.pricing.sources.news import Asking, news_of
from trainplan.pricing.sources.reading import Count, SourceError

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ON = NOW.date()
MACHINE, L4, OLD = "gx3d-160x1792x8h100", "gx3-16x80x1l4", "gx2-8x64x1v100"
PLAN, L4_PLAN, SHARED = "99548819-fcbc-486c-8eeb-0355a56b035e", "l4-plan", "a736a57f-0584-474f-8411-55dc7d9dc811"


def metric(name: str, price: float, **changes: Any) -> dict[str, Any]:
    return {
        **{"part_ref": "", "metric_id": name, "tier_model": "Linear Tier", "charge_unit": "Instance-Hour"},
        **{"charge_unit_quantity": 1, "usage_cap_qty": 0, "display_cap": 0},
        "amounts": [{"country": "USA", "currency": "USD", "prices": [{"quantity_tier": 1, "price": price}]}],
        "effective_from": "2026-10-01T00:00:00Z",
        "effective_until": "9999-12-31T00:00:00Z",
        **changes,
    }


def deployment(region: str, *metrics: dict[str, Any]) -> dict[str, Any]:
    return {
        **{"deployment_id": f"{PLAN}:{region}", "deployment_location": region, "deployment_region": region},
        **{"origin": "pricing_catalog", "type": "Paid", "i18n": {}, "starting_price": {}},
        "metrics": list(metrics),
    }


def plan_list(machine: str, prices: Mapping[str, tuple[float, float]]) -> dict[str, Any]:
    resources = [
        deployment(
            region,
            metric("part-is.instance-hours-reservation", 0, charge_unit="Reservation-Hour"),
            metric(f"part-is.spot-{machine}", spot),
            metric(f"part-is.instance-hours-{machine}", on_demand),
        )
        for region, (on_demand, spot) in prices.items()
    ]
    return {"offset": 0, "limit": 200, "count": len(resources), "resources": resources}


def profile(name: str, plan: str, *, whole: bool = True) -> dict[str, Any]:
    meters = [{"quantity": "8", "unit": "VCPU"}, {"quantity": name, "unit": "PROFILE"}]
    whole_meter = [{"quantity": "1", "unit": "INSTANCE_MULTI_TENANT"}] if whole else []
    dedicated = {"meters": [{"quantity": "0", "unit": "INSTANCE_MULTI_TENANT"}], "plan": "no", "type": "dedicated"}
    shared = {"meters": [*whole_meter, *meters], "plan": plan, "type": "multi-tenant"}
    measures = [{"component": "instance", "deployments": [dedicated, shared]}]
    other = {"profile": {"resource_type": "instance", "measures": measures}}
    return {"id": name, "name": name, "kind": "instance.profile", "active": True, "metadata": {"other": other}}


H100 = {"us-south": (85.85, 21.4625), "eu-de": (99.6, 24.8965)}
LISTS: dict[str, Any] = {
    PLAN: plan_list(MACHINE, H100),
    L4_PLAN: plan_list(L4, {"us-south": (1.5, 0.375)}),
}
PROFILES = [profile(OLD, SHARED, whole=False), profile(MACHINE, PLAN), profile(L4, L4_PLAN), profile("bx9-1x1", "x")]


class Catalog(NoHttp):
    """Answers for the profiles, three a page, and for each plan that has a list."""

    def __init__(self, lists: Mapping[str, Any], profiles: list[dict[str, Any]] = PROFILES) -> None:
        self.lists, self.profiles, self.requests = lists, profiles, list[str]()

    def get(self, url: str, headers: Mapping[str, str] | None = None) -> bytes:
        self.requests.append(url)
        if "/pricing/deployment" in url:
            plan = url.split("/")[-3]
            if plan not in self.lists:
                raise SourceError(f"{plan} answers 404")
            return json.dumps(self.lists[plan]).encode()
        offset = int(url.rpartition("=")[2])
        page = {"offset": offset, "count": len(self.profiles), "resources": self.profiles[offset : offset + 3]}
        return json.dumps(page).encode()


def asking(
    http: Catalog, environment: Mapping[str, str] | None = None, say: Callable[[str], None] = lambda _: None
) -> Asking:
    return Asking(http=http, environment=environment or {}, now=NOW, say=say)


def price(content: dict[str, Any]) -> list[Decimal] | Count:
    parsed = parse_plan(json.dumps({"resources": [deployment("eu-de", content)]}).encode(), MACHINE, ON)
    (why,) = parsed.skipped or (None,)
    return why or [one.usd_per_hour for one in parsed.prices]


def test_the_recorded_shape() -> None:
    parsed = parse_plan(json.dumps(LISTS[PLAN]).encode(), MACHINE, ON)
    assert {(one.region, one.market, one.usd_per_hour) for one in parsed.prices} == {
        ("us-south", Market.ON_DEMAND, Decimal("85.85")),
        ("us-south", Market.SPOT, Decimal("21.4625")),
        ("eu-de", Market.ON_DEMAND, Decimal("99.6")),
        ("eu-de", Market.SPOT, Decimal("24.8965")),
    }
    assert {(one.as_of, one.since) for one in parsed.prices} == {(ON, date(2026, 10, 1))}
    assert dict(parsed.skipped) == {Count.OTHER_PRODUCT: 2}


def test_a_list_that_came_in_part_is_none() -> None:
    """Its other regions would be gone from the catalog."""
    page = json.dumps(LISTS[PLAN] | {"limit": 2, "count": 3}).encode()
    with pytest.raises(SourceError, match="2 of 3 entries came"):
        parse_plan(page, MACHINE, ON)


def test_a_plan_is_taken_of_what_is_billed_whole_and_shared() -> None:
    page = parse_profiles(json.dumps({"count": 9, "resources": [*PROFILES[:2], 7, {"name": "../x"}]}).encode())
    assert (page.plans, page.entries, page.total) == ({MACHINE: PLAN}, 4, 9)
    gone = [PROFILES[1] | {"active": False}, PROFILES[2] | {"disabled": True}]
    assert parse_profiles(json.dumps({"resources": gone}).encode()).plans == {}


def test_what_was_read_takes_the_place_of_what_was_known(tmp_path: Path) -> None:
    known, http, told = known_of("ibm", tmp_path), Catalog(LISTS), list[str]()
    merged = merge(known, news_of(known, asking(http, say=told.append)))
    rows = {(row.type.name, row.region): row for row in merged.offers}
    assert not merged.held_prices
    new = rows[L4, "us-south"]
    assert new.on_demand is not None
    assert (new.on_demand.usd_per_hour, new.on_demand.as_of, new.type.device) == (Decimal("1.5"), ON, "L4")
    assert {region for name, region in rows if name == MACHINE} == set(H100), "the rest of the regions is gone"
    assert {name for name, _ in rows} == {MACHINE, L4, OLD, "bx2-8x32"}, "the second generation stays"
    assert told == [f"{L4}: 2 prices", f"{MACHINE}: 4 prices"]
    assert http.requests[:2] == [f"{BASE}?q=is.instance&include=metadata&_limit=200&_offset={seen}" for seen in (0, 3)]
    assert f"{BASE}/{PLAN}/pricing/deployment?_limit=200" in http.requests


def test_a_machine_whose_list_fails_keeps_its_prices_alone(tmp_path: Path) -> None:
    known = known_of("ibm", tmp_path)
    news = news_of(known, asking(Catalog({L4_PLAN: LISTS[L4_PLAN]})))
    assert {part.name: bool(part.error) for part in news.parts} == {L4: False, MACHINE: True}
    names = [row.type.name for row in merge(known, news).offers]
    assert names.count(MACHINE) == sum(row.type.name == MACHINE for row in known.offers)


def test_a_mirror_is_asked_in_its_place(tmp_path: Path) -> None:
    http = Catalog(LISTS)
    news_of(known_of("ibm", tmp_path), asking(http, {"PLAN_IBM_PRICES_URL": "http://127.0.0.1:9/api/"}))
    assert all(url.startswith(("http://127.0.0.1:9/api?", "http://127.0.0.1:9/api/")) for url in http.requests)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"charge_unit": "Virtual Processor Core-Hour"}, Count.OTHER_UNIT),
        ({"charge_unit_quantity": 63}, Count.OTHER_UNIT),
        ({"effective_from": "2026-12-01T00:00:00Z"}, Count.NOT_NOW),
        ({"effective_until": "2026-11-01T00:00:00Z"}, Count.NOT_NOW),
        ({"amounts": [{"country": "DEU", "currency": "EUR", "prices": [{"price": 1}]}]}, Count.OTHER_CURRENCY),
        ({"amounts": [{"country": "USA", "currency": "USD", "prices": [{"price": 1}, {"price": 2}]}]}, Count.TIERS),
        ({"amounts": [{"country": "USA", "currency": "USD", "prices": []}]}, Count.NO_PRICE),
        ({"amounts": [{"country": "USA", "currency": "USD", "prices": [{"price": 0}]}]}, Count.NO_PRICE),
        ({"amounts": None}, Count.OTHER_CURRENCY),
        ({"metric_id": f"part-is.instance-hours-dh-{MACHINE}"}, Count.OTHER_PRODUCT),
    ],
)
def test_what_is_no_price_is_left_out_and_counted(changes: dict[str, Any], why: Count) -> None:
    right = metric(f"part-is.instance-hours-{MACHINE}", 99.6)
    assert price(right) == [Decimal("99.6")]
    assert price(right | changes) == why


@pytest.mark.parametrize("region", ["DEFAULT", "../x", None, 7])
def test_a_price_of_no_region_is_left_out(region: Any) -> None:
    listed = deployment("eu-de", metric(f"part-is.spot-{MACHINE}", 2.0)) | {"deployment_region": region}
    parsed = parse_plan(json.dumps({"resources": [listed]}).encode(), MACHINE, ON)
    assert (parsed.prices, dict(parsed.skipped)) == ([], {Count.INCOMPLETE: 1})


def test_of_two_prices_the_dearer_counts() -> None:
    one, other = (deployment("eu-de", metric(f"part-is.spot-{MACHINE}", usd)) for usd in (2.0, 3.0))
    for resources in ([one, other], [other, one]):
        parsed = parse_plan(json.dumps({"resources": resources}).encode(), MACHINE, ON)
        assert [price.usd_per_hour for price in parsed.prices] == [Decimal("3.0")]
        assert parsed.skipped[Count.TWO_PRICES] == 1


@pytest.mark.parametrize("content", [b"", b"<html>", b"[", b"{}", b"7", b"[[[", b'{"resources": 1}'])
def test_what_is_no_list_is_refused(content: bytes) -> None:
    with pytest.raises(SourceError):
        parse_plan(content, MACHINE, ON)
    with pytest.raises(SourceError):
        parse_profiles(content)


@pytest.mark.parametrize("profiles", [[], [profile("other-1x1", "x")], [profile(MACHINE, "../..")]])
def test_a_catalog_without_the_machines_is_no_price_list(profiles: list[dict[str, Any]], tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="names no plan of the machines"):
        news_of(known_of("ibm", tmp_path), asking(Catalog(LISTS, profiles)))


def test_pages_that_lead_in_a_circle_end(tmp_path: Path) -> None:
    class Circle(Catalog):
        def get(self, url: str, headers: Mapping[str, str] | None = None) -> bytes:
            self.requests.append(url)
            return json.dumps({"count": 10**9, "resources": PROFILES[:1]}).encode()

    http = Circle(LISTS)
    with pytest.raises(SourceError, match="more than 50 pages"):
        news_of(known_of("ibm", tmp_path), asking(http))
    assert len(http.requests) == 50
