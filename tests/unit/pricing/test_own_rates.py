"""One's own rates: whom they are for, and what becomes of ranks and prices."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from pricing.offers import OfferQuery
from pricing.own_rates import OwnRateError, WithOwnRates, parse_own_rates
from tests.unit.pricing.conftest import TODAY, Opened, TextDir, on_demand, spot

if TYPE_CHECKING:
    from pricing.catalog import Catalog

EVERYTHING = OfferQuery()


@pytest.fixture
def catalog(text_dir: TextDir, opened: Opened) -> Catalog:
    for name in ("g4dn.xlarge", "p5.48xlarge"):
        text_dir.add_type(name)
        text_dir.add_offer("eu-west-1", name, **on_demand("3"), **spot("1"))
        text_dir.add_offer("us-east-1", name, **on_demand("2"))
    return opened(text_dir.compile())


def planned(catalog: Catalog, *entries: dict[str, object]) -> dict[tuple[str, str, str], str]:
    """Planning prices as ranks see them, checked against offers and stamps."""
    source = WithOwnRates(catalog, parse_own_rates({"override": list(entries)}))
    found = {}
    quotes = source.quotes(EVERYTHING, TODAY)
    for rental, places in source.rentals(EVERYTHING, TODAY):
        assert [place[0] for place in places] == sorted(place[0] for place in places)
        for place, offer in zip(places, source.offers([place.row_id for place in places], TODAY), strict=True):
            assert offer.planning_usd_per_hour == Decimal(place.planning_micro_usd_per_hour) / 1_000_000
            assert quotes[place.row_id].stamp.own_rate == offer.own_rate
            assert bool(offer.own_rate) == (offer.planning_usd_per_hour != offer.usd_per_hour)
            found[rental.instance_type, place.region, rental.market.value] = str(offer.planning_usd_per_hour)
    return found


def test_a_discount_of_a_family_on_demand(catalog: Catalog) -> None:
    assert planned(catalog, {"provider": "aws", "family": "p5", "discount_percent": 30}) == {
        ("g4dn.xlarge", "us-east-1", "on_demand"): "2",
        ("g4dn.xlarge", "eu-west-1", "on_demand"): "3",
        ("g4dn.xlarge", "eu-west-1", "spot"): "1",
        ("p5.48xlarge", "us-east-1", "on_demand"): "1.4",
        ("p5.48xlarge", "eu-west-1", "on_demand"): "2.1",
        ("p5.48xlarge", "eu-west-1", "spot"): "1",
    }


def test_a_price_in_one_region_puts_it_first(catalog: Catalog) -> None:
    entry = {"provider": "aws", "instance_type": "p5.48xlarge", "region": "eu-west-1", "usd_per_hour": 0.5}
    found = planned(catalog, entry)
    assert found["p5.48xlarge", "eu-west-1", "on_demand"] == "0.5"
    assert found["p5.48xlarge", "us-east-1", "on_demand"] == "2"


def test_the_last_that_fits_holds(catalog: Catalog) -> None:
    found = planned(
        catalog,
        {"provider": "aws", "discount_percent": 10},
        {"provider": "aws", "region": "us-east-1", "discount_percent": 50},
        {"provider": "gcp", "discount_percent": 90},
    )
    assert found["g4dn.xlarge", "eu-west-1", "on_demand"] == "2.7"
    assert found["g4dn.xlarge", "us-east-1", "on_demand"] == "1"


def test_spot_only_when_it_is_named(catalog: Catalog) -> None:
    entry = {"provider": "aws", "market": "spot", "discount_percent": "25", "note": "ours"}
    assert planned(catalog, entry)["g4dn.xlarge", "eu-west-1", "spot"] == "0.75"
    (rate,) = parse_own_rates({"override": [entry]})
    assert rate.text == "aws, spot: 25 % off (ours)"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (7, "prices.override"),
        ({"overide": []}, "prices.override"),
        ({"override": {}}, "list of tables"),
        ({"override": [7]}, "override 1: needs at least a provider"),
        ({"override": [{"discount_percent": 3}]}, "needs at least a provider"),
        ({"override": [{"provider": "aws"}]}, "one of the two"),
        ({"override": [{"provider": "aws", "usd_per_hour": 1, "discount_percent": 3}]}, "one of the two"),
        ({"override": [{"provider": "aws", "discount": 3}]}, "there is no 'discount'"),
        ({"override": [{"provider": "aws", "market": "cheap", "usd_per_hour": 1}]}, "market 'cheap'"),
        ({"override": [{"provider": "aws", "usd_per_hour": 0}]}, "usd_per_hour: 0 is not"),
        ({"override": [{"provider": "aws", "usd_per_hour": "NaN"}]}, "is not a number"),
        ({"override": [{"provider": "aws", "usd_per_hour": True}]}, "is not a number"),
        ({"override": [{"provider": "aws", "discount_percent": 100}]}, "from 0 to 99"),
    ],
)
def test_rates_that_cannot_be(table: object, message: str) -> None:
    with pytest.raises(OwnRateError, match=message):
        parse_own_rates(table)
