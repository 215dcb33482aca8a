"""One's own rates: whom they are for, and what becomes of ranks and prices."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from tests.rows import each_row
from tests.unit.pricing.conftest import TODAY, Opened, TextDir, on_demand, spot
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.offers import OfferQuery
from trainplan.pricing.own_rates import (
    CurrentRates,
    OwnRateError,
    WithOwnRates,
    check_names,
    current_rates,
    parse_own_rates,
)

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
    for rental, placements in source.rentals(EVERYTHING, TODAY):
        assert [placement[0] for placement in placements] == sorted(placement[0] for placement in placements)
        for placement, offer in zip(
            placements, source.offers([placement.row_id for placement in placements], TODAY), strict=True
        ):
            assert offer.planning_usd_per_hour == Decimal(placement.planning_micro_usd_per_hour) / 1_000_000
            assert quotes[placement.row_id].stamp.own_rate == offer.own_rate
            assert bool(offer.own_rate) == (offer.planning_usd_per_hour != offer.usd_per_hour)
            found[rental.instance_type, placement.region, rental.market.value] = str(offer.planning_usd_per_hour)
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
    entry: dict[str, object] = {"provider": "aws", "market": "spot", "discount_percent": "25", "note": "ours"}
    assert planned(catalog, entry)["g4dn.xlarge", "eu-west-1", "spot"] == "0.75"
    (rate,) = parse_own_rates({"override": [entry]})
    assert rate.text == "aws, spot: 25 % off (ours)"


OURS = {"provider": "aws", "family": "p5", "usd_per_hour": 1, "note": "ours"}


def current(accounts: dict[str, str] | None = None, used: str = "0", **entry: object) -> CurrentRates:
    rates = parse_own_rates({"override": [OURS | entry]})
    return current_rates(rates, TODAY, accounts or {}, lambda _: Decimal(used))


def test_a_rate_holds_to_the_end_of_its_last_day_and_a_line_says_that_it_has_ended() -> None:
    assert len(current(until=TODAY).rates) == 1
    ended = current(until=str(TODAY - timedelta(days=1)))
    assert ended.rates == ()
    assert ended.lines == (
        "own rate no longer used: aws p5, on demand: $1/h, until 2026-11-20 (ours): it ended on 2026-11-20",
    )


def test_hours_that_runs_of_this_home_have_used_are_taken_off_until_none_is_left() -> None:
    (rate,) = current(used="7.5", hours_left=40, as_of=TODAY).rates
    assert rate.hours_left == Decimal("32.5")
    assert rate.text == "aws p5, on demand: $1/h, 32.5 h left (ours)"
    none_left = current(used="40", hours_left=40, as_of=TODAY)
    assert none_left.rates == ()
    assert none_left.lines == (
        "own rate no longer used: aws p5, on demand: $1/h, 40 h left (ours): runs of this home have used 40 h since "
        "2026-11-21",
    )


def test_a_rate_of_an_account_holds_where_that_account_is_in_use() -> None:
    assert len(current({"aws": "research"}, account="research").rates) == 1
    other = current({"aws": "default"}, account="research")
    assert (other.rates, other.lines) == ((), ())
    assert other.other_accounts == (
        "own rate not used: aws p5, on demand: $1/h (ours): it is for account research, and default is in use",
    )
    assert "nothing tells which account is in use" in current(account="research").other_accounts[0]


def test_an_earlier_entry_holds_where_a_later_one_has_ended(catalog: Catalog) -> None:
    entries = [OURS | {"usd_per_hour": 1.5}, OURS | {"until": "2026-11-01"}]
    rates = current_rates(parse_own_rates({"override": entries}), TODAY, {}).rates
    offers = WithOwnRates(catalog, rates).offers(OfferQuery(markets=frozenset({"on_demand"})), TODAY)
    assert {offer.own_usd_per_hour for offer in offers if offer.family == "p5"} == {Decimal("1.5")}


@pytest.mark.parametrize(
    ("seconds", "micro"),
    [
        (10 * 3600, 1_000_000),
        (20 * 3600, 1_500_000),
        (40 * 3600, 1_750_000),
    ],
)
def test_beyond_the_hours_that_are_left_a_run_costs_the_price_without_the_rate(
    catalog: Catalog, seconds: int, micro: int
) -> None:
    entry = OURS | {"region": "us-east-1", "hours_left": 10, "as_of": "2026-11-21"}
    source = WithOwnRates(catalog, parse_own_rates({"override": [entry]}))
    query = OfferQuery(markets=frozenset({"on_demand"}))
    rows = [row for row in source.rentals(query, TODAY) if row.rental.instance_type == "p5.48xlarge"]
    (row,) = [row for row in rows if row.rental.market == "on_demand"]
    placements = source.within_hours(row.placements, seconds)
    assert [(placement.region, placement.planning_micro_usd_per_hour) for placement in placements] == [
        ("us-east-1", micro),
        ("eu-west-1", 3_000_000),
    ]


@each_row(
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
        ({"override": [{"provider": "aws", "discount_percent": 0.3}]}, "discount_percent 0.3 is less than 1 % off"),
        ({"override": [{"provider": "aws", "usd_per_hour": 1, "until": "soon"}]}, "until 'soon' is not a day"),
        ({"override": [{"provider": "aws", "usd_per_hour": 1, "hours_left": 3}]}, "hours_left and as_of"),
        ({"override": [{"provider": "aws", "usd_per_hour": 1, "as_of": "2026-11-21"}]}, "hours_left and as_of"),
        (
            {"override": [{"provider": "aws", "usd_per_hour": 1, "hours_left": -1, "as_of": "2026-11-21"}]},
            "hours_left: -1 is not a number",
        ),
    ],
)
def test_rates_that_cannot_be(table: object, message: str) -> None:
    with pytest.raises(OwnRateError, match=message):
        parse_own_rates(table)


@pytest.mark.parametrize(
    ("entry", "message", "hint"),
    [
        ({"instance_type": "p5.48xlrge"}, "aws has no machine type 'p5.48xlrge'", "did you mean p5.48xlarge"),
        ({"family": "p6"}, "aws has no family 'p6'", "did you mean p5"),
        ({"region": "eu-west-7"}, "aws has no region 'eu-west-7'", "did you mean eu-west-1"),
        ({"family": "p5", "instance_type": "g4dn.xlarge"}, "aws rents no such machine there", "leave out the type"),
    ],
)
def test_a_rate_that_no_machine_has_is_refused(
    catalog: Catalog, entry: dict[str, object], message: str, hint: str
) -> None:
    rates = parse_own_rates({"override": [{"provider": "aws", "usd_per_hour": 1} | entry]})
    with pytest.raises(OwnRateError, match=message) as caught:
        check_names(rates, catalog.rented)
    assert caught.value.hint.startswith(hint)


def test_a_rate_of_a_machine_that_is_rented_and_one_of_a_provider_without_a_list_are_taken(catalog: Catalog) -> None:
    ours = {"provider": "aws", "usd_per_hour": 1, "instance_type": "p5.48xlarge", "family": "p5", "region": "eu-west-1"}
    cluster = {"provider": "slurm", "usd_per_hour": 1, "instance_type": "gpu"}
    check_names(parse_own_rates({"override": [ours, cluster]}), catalog.rented)
