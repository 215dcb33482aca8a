"""What a price is planned with: grounds, drift with age, outliers among regions, and how far off it may be."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from decimal import Decimal

import pytest

from scripts.price_error import PAGE, google, own_prices, page_with, share_ends, shares, table
from scripts.spot_drift import COLUMNS, fitted, fitted_zones, read_series, read_zones, rows
from tests.conftest import Golden
from tests.unit.pricing.conftest import TODAY
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.compile import TEXT_DIR, without_restricted
from trainplan.pricing.devices import CPU_DEVICE
from trainplan.pricing.grades import Market, PriceGrade
from trainplan.pricing.grounds import Grounds
from trainplan.pricing.money import to_micro
from trainplan.pricing.offers import OfferQuery
from trainplan.pricing.planning import (
    ALWAYS,
    AS_LISTED,
    MOST_AGE_DAYS,
    NEVER,
    SHARE_SPREAD,
    TABLE,
    Drift,
    Ground,
    PlannedAs,
    PriceDate,
    PriceSpread,
    Share,
    drift_of,
    first_day,
    ground,
    is_admitted,
    outlier_floors,
    planned_as,
    planning_micro,
    share_of,
    spread,
)
from trainplan.pricing.tables import OfferRow, read_tables

EVERYTHING = OfferQuery(include_retired=True)
DRIFT = Drift(1000, 0.9, 1.4)
READ = TODAY - timedelta(days=100)
SHARE = Share(400_000, READ.toordinal())


def listed(
    day: date | None = READ, text: str = "", kind: PriceGrade = PriceGrade.LISTED, newest: date | None = READ
) -> PriceDate:
    return PriceDate(day, text, kind, newest)


@pytest.fixture
def shipped() -> Iterator[Catalog]:
    with Catalog.open() as catalog:
        yield catalog


def a_spot_ground(micro: int | None = 100, read: date = READ, floor: int | None = None) -> Ground:
    return Ground(micro, (read + timedelta(days=30)).toordinal(), read.toordinal(), micro, floor_micro=floor)


def test_on_demand_is_planned_as_listed_however_old() -> None:
    old = ground(100, Market.ON_DEMAND, listed(date(2020, 1, 1)), 100, None)
    assert old == Ground(100, ALWAYS, NEVER)
    assert planning_micro(old, 100, DRIFT, TODAY, as_listed=False) == 100
    assert planned_as(old, TODAY, as_listed=False) is PlannedAs.LISTED


def test_a_spot_price_counts_as_listed_for_30_days_and_drifts_then() -> None:
    known = ground(1000, Market.SPOT, listed(), 5000, SHARE)
    for days, expected in ((0, 1000), (30, 1000), (31, 1031), (100, 1100), (MOST_AGE_DAYS, 1365)):
        assert planning_micro(known, 5000, DRIFT, READ + timedelta(days=days), as_listed=False) == expected
    assert planned_as(known, READ + timedelta(days=31), as_listed=False) is PlannedAs.DRIFTED


def test_after_a_year_a_price_is_no_ground_any_more() -> None:
    known = ground(1000, Market.SPOT, listed(), 5000, SHARE)
    later = READ + timedelta(days=MOST_AGE_DAYS + 1)
    assert planning_micro(known, 5000, DRIFT, later, as_listed=False) == 2730, "0.4 of on demand, and a year's drift"
    assert planned_as(known, later, as_listed=False) is PlannedAs.SHARE
    alone = ground(1000, Market.SPOT, listed(), None, SHARE)
    assert planning_micro(alone, None, DRIFT, later, as_listed=False) is None


def test_it_drifts_no_further_than_to_on_demand_and_never_falls() -> None:
    assert planning_micro(a_spot_ground(1000), 1050, DRIFT, TODAY, as_listed=False) == 1050
    assert planning_micro(a_spot_ground(1000), 900, DRIFT, TODAY, as_listed=False) == 1000
    assert planning_micro(a_spot_ground(1000), None, DRIFT, TODAY, as_listed=False) == 1100


def test_a_price_of_a_year_that_is_named_plans_its_placement_by_itself() -> None:
    """The lowest zone of some day between 2026-01-25 and 07-21 is as old as the first of these days."""
    zone = ground(100, Market.SPOT, listed(None, "2026-H1 (2026-01-25..07-21)", newest=TODAY), 1000, SHARE)
    assert zone == Ground(100, NEVER, date(2026, 1, 25).toordinal(), 400)
    assert planned_as(zone, TODAY, as_listed=False) is PlannedAs.DRIFTED
    days = (TODAY - date(2026, 1, 25)).days
    assert planning_micro(zone, 1000, DRIFT, TODAY, as_listed=False) == round(100 * (1 + days / 1000))


@pytest.mark.parametrize(
    "price",
    [
        listed(kind=PriceGrade.ESTIMATED),
        listed(None, "undated"),
        listed(None, "~2024"),
        listed(READ - timedelta(days=MOST_AGE_DAYS + 1)),
    ],
    ids=["savings", "undated", "a list of long ago", "a day of long ago"],
)
def test_savings_undated_and_old_lists_count_as_a_share_of_on_demand(price: PriceDate) -> None:
    known = ground(100, Market.SPOT, price, 1000, SHARE)
    assert known == Ground(400, NEVER, SHARE.read_day, 400, is_share=True), "as old as the prices that it is a share of"
    assert ground(600, Market.SPOT, price, 1000, SHARE).micro == 600, "no less than the price"
    assert ground(100, Market.SPOT, price, 1000, None).micro == 1000, "all of it where nobody's share is known"
    assert planned_as(known, TODAY, as_listed=False) is PlannedAs.SHARE
    assert planning_micro(known, 1000, DRIFT, TODAY, as_listed=False) == 440


def test_a_share_is_less_sure_than_the_price_of_the_placement() -> None:
    nothing = PriceSpread(1.0, 10.0)
    share = a_spot_ground()._replace(is_share=True)
    young = spread(share, DRIFT, READ + timedelta(days=31), nothing)
    assert young.low < SHARE_SPREAD.low
    assert young.high > SHARE_SPREAD.high
    at_90 = spread(share, DRIFT, READ + timedelta(days=90), nothing)
    assert at_90.low < young.low < 1 < young.high < at_90.high
    assert share_ends(read_zones()) == SHARE_SPREAD, "python -m scripts.price_error"


def test_a_share_of_nothing_cannot_be_ranked() -> None:
    known = ground(100, Market.SPOT, listed(kind=PriceGrade.ESTIMATED), None, SHARE)
    assert known.micro is None
    assert planning_micro(known, None, DRIFT, TODAY, as_listed=False) is None


def test_the_first_day_of_a_source_s_own_date() -> None:
    texts = ("2026-H1 (2026-01-25..07-21)", "2026-H1", "~2024", "undated", "")
    assert [first_day(text) for text in texts] == [
        date(2026, 1, 25), date(2026, 1, 1), date(2024, 1, 1), None, None
    ]  # fmt: skip


def test_what_may_say_which_share_spot_is() -> None:
    newest, share = date(2026, 10, 13), Decimal("0.3")
    assert is_admitted(share, listed(date(2025, 6, 28), newest=newest))
    assert is_admitted(share, listed(None, "2026-H1", newest=newest))
    assert not is_admitted(share, listed(None, "~2024", newest=newest))
    assert not is_admitted(share, listed(None, "undated", newest=newest))
    assert not is_admitted(Decimal("0.02"), listed(newest, newest=newest))


def test_a_share_is_of_the_day_in_the_middle_of_its_prices() -> None:
    known = [(Decimal(number) / 10, READ + timedelta(days=number)) for number in range(1, 6)]
    assert share_of(known) == Share(400_000, (READ + timedelta(days=3)).toordinal())


def test_a_region_far_below_the_others_gets_their_lower_quartile() -> None:
    """The prices of a3-highgpu-1g in five regions; four say nothing."""
    prices = {"europe-north1": 1276, "asia-south1": 2930, "us-west1": 4700, "us-east4": 4800, "us-central1": 6330}
    assert outlier_floors(prices) == {"europe-north1": 2930}
    assert outlier_floors({name: prices[name] for name in list(prices)[:4]}) == {}
    doubted = a_spot_ground(1276, TODAY, floor=2930)
    assert planning_micro(doubted, None, DRIFT, TODAY, as_listed=False) == 2930
    assert planning_micro(doubted, None, DRIFT, TODAY, as_listed=True) == 1276
    assert planned_as(doubted, TODAY, as_listed=False) is PlannedAs.OUTLIER
    assert planned_as(doubted, TODAY, as_listed=True) is PlannedAs.LISTED


def test_the_ends_widen_with_age_and_hold_the_listed_price_and_on_demand() -> None:
    nothing = PriceSpread(1.0, 10.0)
    assert spread(a_spot_ground(), DRIFT, READ, nothing) == AS_LISTED
    assert spread(Ground(100, ALWAYS, NEVER), DRIFT, TODAY, nothing) == AS_LISTED, "on demand"
    at_10 = spread(a_spot_ground(), DRIFT, READ + timedelta(days=10), nothing)
    assert at_10 == pytest.approx((0.9 ** (1 / 3), 1.4 ** (1 / 3))), "also where it is still planned as listed"
    at_90 = spread(a_spot_ground(), DRIFT, READ + timedelta(days=90), nothing)
    assert at_90 == pytest.approx((0.9, 1.4))
    at_360 = spread(a_spot_ground(), DRIFT, READ + timedelta(days=360), nothing)
    assert at_360 == pytest.approx((0.81, 1.96))
    held = spread(a_spot_ground(), DRIFT, READ + timedelta(days=360), PriceSpread(0.5, 1.2))
    assert held == pytest.approx((0.5, 1.2))


def test_other_vendors_prices_are_less_sure_than_those_that_were_followed() -> None:
    google, other = (drift_of(name, "x", accelerated=True) for name in ("gcp", "azure"))
    assert other.ppm_per_day == google.ppm_per_day
    assert other.low_90_days < google.low_90_days <= 1 <= google.high_90_days < other.high_90_days
    aws = drift_of("aws", "g6", accelerated=True)
    assert aws.ppm_per_day == fitted_zones(read_zones()).ppm_per_day
    assert drift_of("aws", "c5", accelerated=False).ppm_per_day == drift_of("azure", "x", accelerated=False).ppm_per_day


def test_the_table_of_drifts_is_what_the_script_fits() -> None:
    made = io.StringIO()
    csv.writer(made, lineterminator="\n").writerows([COLUMNS, *rows(list(read_series().values()), read_zones())])
    assert made.getvalue() == TABLE.read_text(encoding="utf-8").replace("\r\n", "\n")


def test_the_page_says_how_far_off_prices_are(golden: Golden) -> None:
    golden.check(PAGE, page_with(PAGE.read_text(encoding="utf-8"), table()))


def test_the_ends_of_prices_hold_four_of_five_where_and_when_nothing_was_fitted() -> None:
    zones, series = read_zones(), list(read_series().values())
    for trials in (own_prices(zones), shares(zones, later=False), google(series)):
        held = [one.holds for one in trials]
        assert len(held) > 100
        assert 0.75 <= sum(held) / len(held) <= 0.88


def test_a_series_that_doubles_in_a_year_is_fitted_as_that() -> None:
    series = read_series()["g2-standard-4 us-central1"]
    days = tuple(date(2025, 1, 1) + timedelta(days=number) for number in range(366))
    doubling = series._replace(days=days, usd_per_hour=tuple(1 + number / 365 for number in range(366)))
    found = fitted([doubling])
    assert found is not None
    assert 1_000_000 / 365 * 0.6 < found.ppm_per_day < 1_000_000 / 365
    assert fitted([doubling._replace(usd_per_hour=tuple(2 - number / 365 for number in range(366)))]) is not None
    assert fitted([doubling], until=date(2025, 1, 20)) is None


@pytest.mark.parametrize("as_listed", [False, True])
@pytest.mark.parametrize("today", [date(2026, 3, 1), date(2026, 8, 20), TODAY, date(2027, 6, 1)])
def test_the_query_and_the_pure_rule_agree_on_every_shipped_offer(today: date, as_listed: bool) -> None:
    """Grounds are made of the text tables again: the catalog's query knows nothing of this side."""
    tables = without_restricted(read_tables(TEXT_DIR))
    here, cheapest = _on_demand(tables.offers)

    def on_demand(row: OfferRow) -> int | None:
        machine = row.type.provider, row.type.name
        return here.get((*machine, row.region), cheapest.get(machine))

    grounds = Grounds(tables.offers, on_demand)
    expected: dict[tuple[str, ...], list[int | None]] = {}
    for row in tables.offers:
        drift = drift_of(row.type.provider, row.type.family, accelerated=row.type.device != CPU_DEVICE)
        for market, price in ((Market.ON_DEMAND, row.on_demand), (Market.SPOT, row.spot)):
            if price is not None:
                planned = planning_micro(
                    grounds.of(row, price, market), on_demand(row), drift, today, as_listed=as_listed
                )
                expected.setdefault((row.type.provider, row.region, row.type.name, market), []).append(planned)
    found: dict[tuple[str, ...], list[int | None]] = {}
    with Catalog.open() as catalog:
        catalog.assume(as_listed=as_listed)
        for offer in catalog.offers(EVERYTHING, today):
            micro = None if offer.planning_usd_per_hour is None else to_micro(offer.planning_usd_per_hour)
            found.setdefault((offer.provider, offer.region, offer.instance_type, offer.market), []).append(micro)
    assert {key: sorted(map(str, known)) for key, known in found.items()} == {
        key: sorted(map(str, known)) for key, known in expected.items()
    }


def _on_demand(offers: Iterable[OfferRow]) -> tuple[dict[tuple[str, str, str], int], dict[tuple[str, str], int]]:
    here: dict[tuple[str, str, str], int] = {}
    cheapest: dict[tuple[str, str], int] = {}
    for row in offers:
        if row.on_demand is not None:
            machine, micro = (row.type.provider, row.type.name), to_micro(row.on_demand.usd_per_hour)
            here[(*machine, row.region)] = micro
            cheapest[machine] = min(micro, cheapest.get(machine, micro))
    return here, cheapest


def test_h100_in_a_region_at_a_quarter_of_the_others_is_planned_at_their_lower_quartile(shipped: Catalog) -> None:
    """The first rows of the flagship job were these machines: listed at 0.27 of the median, every create refused."""
    query = OfferQuery(instance_types=frozenset({"a3-highgpu-1g"}), markets=frozenset({"spot"}))
    offers = {offer.region: offer for offer in shipped.offers(query, TODAY)}
    doubted = offers["europe-north1"]
    assert (doubted.usd_per_hour, doubted.planned_as) == (Decimal("1.275685"), PlannedAs.OUTLIER)
    assert doubted.planning_usd_per_hour is not None
    assert doubted.planning_usd_per_hour > 2 * doubted.usd_per_hour
    assert doubted.price_spread.low < 0.5, "it may be as low as it is listed"
    shipped.assume(had=[("gcp", "europe-north1", "a3-highgpu-1g")])
    (there,) = (offer for offer in shipped.offers(query, TODAY) if offer.region == "europe-north1")
    assert there.planned_as is PlannedAs.DRIFTED
    shipped.assume()


def test_the_first_placement_of_each_rental_is_no_outlier_at_its_listed_price(shipped: Catalog) -> None:
    doubted = 0
    for rental, placements in shipped.rentals(OfferQuery(markets=frozenset({"spot"})), TODAY):
        if len(placements):
            (first,) = shipped.offers([placements[0].row_id], TODAY)
            assert first.planning_usd_per_hour is not None, rental
            doubted += first.planned_as is PlannedAs.OUTLIER
            assert first.planned_as is not PlannedAs.OUTLIER or first.planning_usd_per_hour > first.usd_per_hour
    assert doubted < 40
