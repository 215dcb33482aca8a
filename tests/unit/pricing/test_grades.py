"""What a price is worth on a day, and what it is planned with."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal

import pytest

from pricing.grades import Market, PriceGrade, grade, percentile, planning_micro, spot_ratio, trusted_until

TODAY = date(2026, 11, 21)
SPOT, ON_DEMAND = Market.SPOT, Market.ON_DEMAND
OBSERVED, LISTED, DERIVED = PriceGrade.OBSERVED, PriceGrade.LISTED, PriceGrade.DERIVED
ESTIMATED, STALE = PriceGrade.ESTIMATED, PriceGrade.STALE


@pytest.mark.parametrize(
    ("kind", "market", "age_days", "expected"),
    [
        (OBSERVED, SPOT, 0, OBSERVED),
        (OBSERVED, SPOT, 90, OBSERVED),
        (OBSERVED, SPOT, 91, STALE),
        (LISTED, SPOT, 180, LISTED),
        (LISTED, SPOT, 181, STALE),
        (LISTED, ON_DEMAND, 365, LISTED),
        (LISTED, ON_DEMAND, 366, STALE),
        (DERIVED, ON_DEMAND, 4000, DERIVED),
        (ESTIMATED, SPOT, 4000, ESTIMATED),
        (OBSERVED, SPOT, None, STALE),
        (LISTED, ON_DEMAND, None, STALE),
        (DERIVED, ON_DEMAND, None, STALE),
        (ESTIMATED, SPOT, None, STALE),
    ],
)
def test_grade(kind: PriceGrade, market: Market, age_days: int | None, expected: PriceGrade) -> None:
    as_of = None if age_days is None else TODAY - timedelta(days=age_days)
    assert grade(kind, market, as_of, TODAY) is expected


@pytest.mark.parametrize("kind", [DERIVED, ESTIMATED])
def test_a_price_that_was_computed_is_trusted_on_no_day(kind: PriceGrade) -> None:
    assert trusted_until(kind, SPOT, TODAY) is None


@pytest.mark.parametrize(
    ("values", "quantile", "expected"),
    [
        (["1", "2", "3", "4", "5"], "0.75", "4"),
        (["4", "1", "3", "2"], "0.75", "3.25"),
        (["0.4"], "0.75", "0.4"),
        (["1", "2"], "1", "2"),
    ],
)
def test_percentile_interpolates_linearly(values: list[str], quantile: str, expected: str) -> None:
    assert percentile([Decimal(value) for value in values], Decimal(quantile)) == Decimal(expected)


def test_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], Decimal("0.5"))


def test_no_ratio_without_observations() -> None:
    assert spot_ratio([]) is None


@pytest.mark.parametrize(
    ("raw", "market", "trusted", "on_demand", "ratio_ppm", "expected"),
    [
        (100, ON_DEMAND, False, 100, 400_000, 100),  # on demand: the raw figure, however old
        (30, SPOT, True, 100, 400_000, 30),  # observed or listed: the raw figure
        (10, SPOT, False, 100, 400_000, 40),
        (60, SPOT, False, 100, 400_000, 60),  # never below the raw figure
        (10, SPOT, False, 100, None, 100),  # nothing observed: as on demand
        (10, SPOT, False, None, 400_000, None),  # nothing to hold it against: a state, not a number
        (1, SPOT, False, 3, 500_000, 2),  # half a millionth rounds up
    ],
)
def test_planning_price(
    raw: int, market: Market, trusted: bool, on_demand: int | None, ratio_ppm: int | None, expected: int | None
) -> None:
    planned = planning_micro(raw, market, trusted=trusted, on_demand_micro=on_demand, ratio_ppm=ratio_ppm)
    assert planned == expected
