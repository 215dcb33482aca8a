"""Google's SKUs: free text, odd units, and machines put together of parts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from tests.doubles.price_lists import NoHttp, sku
from tests.rows import each_row
from trainplan.pricing.compile import TEXT_DIR
from trainplan.pricing.grades import Market
from trainplan.pricing.sources.gcp import Endpoints, parse_page, parts_of, read
from trainplan.pricing.sources.reading import Count, PricePart, SourceError
from trainplan.pricing.tables import InstanceType, read_tables


@pytest.fixture(scope="module")
def types() -> dict[str, InstanceType]:
    return {name: kind for (provider, name), kind in read_tables(TEXT_DIR).types.items() if provider == "gcp"}


class Skus(NoHttp):
    """Compute Engine's SKUs and Cloud TPU's, in pages of two."""

    def __init__(self, compute: list[Any], tpu: list[Any]) -> None:
        self.lists = {"6F81-5844-456A": compute, "E000-3F24-B8AA": tpu}
        self.headers: list[Mapping[str, str]] = []

    def get(self, url: str, headers: Mapping[str, str] | None = None) -> bytes:
        self.headers.append(headers or {})
        skus = next(listed for service, listed in self.lists.items() if service in url)
        _, _, token = url.partition("pageToken=")
        begin = int(token or 0)
        more = begin + 2 < len(skus)
        return json.dumps({"skus": skus[begin : begin + 2], "nextPageToken": str(begin + 2) if more else ""}).encode()


def read_all(types: dict[str, InstanceType], *skus: Any, tpu: tuple[Any, ...] = ()) -> PricePart:
    (part,) = read(Skus(list(skus), list(tpu)), Endpoints(), {"X-Goog-Api-Key": "k"}, types.values(), frozenset())
    return part


def prices_of(part: PricePart) -> dict[tuple[str, str], Decimal]:
    assert not part.error
    return {(one.instance_type, one.market.value): one.usd_per_hour for one in part.parsed.prices}


# List prices of us-central1 as of 2026-08-03: what they add up to is in the shipped table.
G2 = (
    sku("G2 Instance Core running in Americas", "0.024988"),
    sku("G2 Instance Ram running in Americas", "0.002927", unit="GiBy.h", group="RAM"),
    sku("Nvidia L4 GPU running in Americas", "0.560004", group="GPU"),
)
A2 = (
    sku("A2 Instance Core running in Americas", "0.031611"),
    sku("A2 Instance Ram running in Americas", "0.004237", unit="GiBy.h"),
    sku("Nvidia Tesla A100 GPU running in Americas", "2.933908"),
    sku("Nvidia Tesla A100 80GB GPU running in Americas", "3.92808"),
    sku("SSD backed Local Storage", "0.08", unit="GiBy.mo", group="SSD"),
)


def test_machines_with_their_accelerators(types: dict[str, InstanceType]) -> None:
    prices = prices_of(read_all(types, *G2, *A2))
    assert prices["g2-standard-4", "on_demand"] == Decimal("0.706788")
    assert abs(prices["g2-standard-4", "on_demand"] - Decimal("0.706832")) < Decimal("0.0001")
    assert abs(prices["a2-highgpu-1g", "on_demand"] - Decimal("3.673385")) < Decimal("0.0001")


def test_a_local_disk_that_comes_with_the_machine_is_paid(types: dict[str, InstanceType]) -> None:
    prices = prices_of(read_all(types, *A2))
    assert abs(prices["a2-ultragpu-1g", "on_demand"] - Decimal("5.06879789")) < Decimal("0.001")
    assert "a2-ultragpu-1g" not in {name for name, _ in prices_of(read_all(types, *A2[:4]))}


N1 = (
    sku("N1 Predefined Instance Core running in Americas", "0.031611", "us-central1", "us-east1"),
    sku("N1 Predefined Instance Ram running in Americas", "0.004237", "us-central1", "us-east1", unit="GiBy.h"),
    sku("Nvidia Tesla T4 GPU running in Americas", "0.35", "us-central1"),
    sku("Spot Preemptible N1 Predefined Instance Core running in Americas", "0.00692", usage="Preemptible"),
    sku(
        "Spot Preemptible N1 Predefined Instance Ram running in Americas",
        "0.000927",
        usage="Preemptible",
        unit="GiBy.h",
    ),
    sku("Nvidia Tesla T4 GPU attached to Spot Preemptible VMs running in Americas", "0.1915", usage="Preemptible"),
)


def test_a_host_and_what_is_attached_to_it(types: dict[str, InstanceType]) -> None:
    part = read_all(types, *N1)
    prices = prices_of(part)
    assert prices["n1-standard-4+1xT4", "on_demand"] == Decimal("0.539999")
    assert prices["n1-standard-4+1xT4", "spot"] == Decimal("0.233085")
    assert prices["n1-standard-16+2xT4", "on_demand"] - prices["n1-standard-8+1xT4", "on_demand"] > Decimal("0.35")
    (one,) = [
        one
        for one in part.parsed.prices
        if one.instance_type == "n1-standard-4+1xT4" and one.market is Market.ON_DEMAND
    ]
    assert (one.region, one.host, one.device) == ("us-central1", Decimal("0.189999"), Decimal("0.35"))
    # The host is in another region too, the accelerator is not.
    assert {placement.region for placement in part.parsed.prices if "+" not in placement.instance_type} == {
        "us-central1",
        "us-east1",
    }


def test_tpus_are_counted_in_chips_or_devices(types: dict[str, InstanceType]) -> None:
    tpu = (
        sku("Tpu-v2 Accelerator running in Americas", "4.5", group="TPU"),
        sku("Preemptible Tpu-v3 Accelerator running in Americas", "2.04", group="TPU"),
        sku("Tpu-v3 Pod running in Americas", "8.8", group="TPU"),
    )
    chips = (
        sku("TpuV5e running in Americas", "1.2", group="TPU"),
        sku("TPU v6e running in Americas", "2.7", group="TPU"),
    )
    prices = prices_of(read_all(types, *chips, tpu=tpu))
    assert prices["tpu-v2-8", "on_demand"] == Decimal("4.5")
    assert prices["tpu-v3-8", "spot"] == Decimal("2.04")  # usage says OnDemand, the words say otherwise
    assert prices["tpu-v3-32", "on_demand"] == Decimal("35.2")
    assert prices["tpu-v5litepod-8", "on_demand"] == Decimal("9.6")
    assert prices["tpu-v6e-4", "on_demand"] == Decimal("10.8")
    assert ("tpu-v3-8", "on_demand") not in prices


def test_what_is_rented_on_spot_only_has_no_price_on_demand(types: dict[str, InstanceType]) -> None:
    made = {name: parts_of(kind) for name, kind in types.items()}
    assert all(parts is not None for parts in made.values()), [name for name, parts in made.items() if parts is None]
    assert [name for name, parts in made.items() if parts and parts.markets == (Market.SPOT,)] == [
        "a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("unit", "nanos", "price"),
    [("h", 500_000_000, "0.5"), ("s", 100_000, "0.36"), ("min", 10_000_000, "0.6")],
)
def test_odd_units(unit: str, nanos: int, price: str) -> None:
    page = parse_page(json.dumps({"skus": [sku("Nvidia L4 GPU running in x", f"0.{nanos:09d}", unit=unit)]}).encode())
    assert page.prices[0].usd_per_hour == Decimal(price)


def tier(units: object, nanos: object = 0, currency: str = "USD") -> dict[str, object]:
    return {"unitPrice": {"units": units, "nanos": nanos, "currencyCode": currency}}


@each_row(
    ("changed", "outcome"),
    [
        ({"tiers": [tier("0"), tier("2")]}, Decimal(2)),
        ({"tiers": [tier("2"), tier("1")]}, Decimal(2)),
        ({"tiers": [tier(None, 5_000_000)]}, Decimal("0.005")),
        ({"tiers": [tier("0")]}, Count.NO_PRICE),
        ({"tiers": [{}]}, Count.OTHER_CURRENCY),
        ({"tiers": [tier("2", currency="EUR")]}, Count.OTHER_CURRENCY),
        ({"tiers": [tier("-2")]}, Count.NO_PRICE),
        ({"tiers": [tier("2", -1)]}, Count.NO_PRICE),
        ({"tiers": [tier("2", 10**9)]}, Count.NO_PRICE),
        ({"tiers": [tier(2)]}, Count.NO_PRICE),
        ({"tiers": [tier("9" * 30)]}, Count.NO_PRICE),
        ({"tiers": [tier("²")]}, Count.NO_PRICE),
        ({"unit": "GiBy.mo"}, Count.OTHER_UNIT),
        ({"unit": "count"}, Count.OTHER_UNIT),
        ({"unit": 7}, Count.OTHER_UNIT),
        ({"usage": "Commit1Yr"}, Count.OTHER_PRODUCT),
    ],
)
def test_rates(changed: dict[str, Any], outcome: object) -> None:
    page = parse_page(json.dumps({"skus": [sku("Nvidia L4 GPU running in Americas", "1", **changed)]}).encode())
    if isinstance(outcome, Count):
        assert (page.prices, dict(page.parsed.skipped)) == ([], {outcome: 1})
    else:
        assert page.prices[0].usd_per_hour == outcome


@pytest.mark.parametrize(
    "text",
    [
        "Commitment v1: G2 Cpu in Americas for 1 Year",
        "Custom N1 Instance Core running in Americas",
        "N1 Sole Tenancy Instance Core running in Americas",
        "Reserved G2 Core in Americas",
        "N1 Predefined Instance Core Premium running in Americas Custom",
        "Nvidia H100 80GB GPU Calendar Mode running in Americas",
        "Network Egress via Carrier Peering",
        "",
    ],
)
def test_skus_of_something_else(text: str) -> None:
    page = parse_page(json.dumps({"skus": [sku(text, "1")]}).encode())
    assert (page.prices, dict(page.parsed.skipped)) == ([], {Count.OTHER_PRODUCT: 1})


@pytest.mark.parametrize(
    "entry", [None, 7, {}, {"description": "x"}, sku("Nvidia L4 GPU running in x", "1") | {"serviceRegions": [7]}]
)
def test_skus_that_are_incomplete(entry: object) -> None:
    page = parse_page(json.dumps({"skus": [entry]}).encode())
    assert (page.prices, dict(page.parsed.skipped)) == ([], {Count.INCOMPLETE: 1})


def test_two_prices_for_one_thing(types: dict[str, InstanceType]) -> None:
    part = read_all(types, *G2, sku("Nvidia L4 GPU running in Americas", "0.7"))
    assert part.parsed.skipped[Count.TWO_PRICES] == 1
    assert prices_of(part)["g2-standard-4", "on_demand"] == Decimal("0.846784")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<html></html>", "a web page came"),
        (b'{"skus": [', "ends in the middle"),
        (b'{"error": {"message": "API key not valid"}}', "API key not valid"),
        (b"{}", "without SKUs"),
        (b'{"skus": {}}', "without SKUs"),
    ],
)
def test_what_is_no_page_of_skus(content: bytes, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        parse_page(content)


def test_a_list_without_what_machines_are_made_of(types: dict[str, InstanceType]) -> None:
    assert "no machine that is known" in read_all(types, sku("Something Core running in Mars", "1")).error


def test_the_key_goes_with_every_page_and_in_no_address(types: dict[str, InstanceType]) -> None:
    http = Skus([*G2], [])
    list(read(http, Endpoints(), {"X-Goog-Api-Key": "k"}, types.values(), frozenset()))
    assert http.headers == [{"X-Goog-Api-Key": "k"}] * 3
