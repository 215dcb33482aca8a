"""What a price is worth on a day."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal

import pytest

from tests.rows import each_row
from trainplan.pricing.grades import Market, PriceGrade, grade, is_old, percentile, trusted_until

TODAY = date(2026, 11, 21)
SPOT, ON_DEMAND = Market.SPOT, Market.ON_DEMAND
OBSERVED, LISTED_GRADE, DERIVED = PriceGrade.OBSERVED, PriceGrade.LISTED, PriceGrade.DERIVED
ESTIMATED, STALE = PriceGrade.ESTIMATED, PriceGrade.STALE


@each_row(
    ("kind", "market", "age_days", "expected"),
    [
        (OBSERVED, SPOT, 0, OBSERVED),
        (OBSERVED, SPOT, 30, OBSERVED),
        (OBSERVED, SPOT, 31, STALE),
        (LISTED_GRADE, SPOT, 30, LISTED_GRADE),
        (LISTED_GRADE, SPOT, 31, STALE),
        (LISTED_GRADE, ON_DEMAND, 365, LISTED_GRADE),
        (LISTED_GRADE, ON_DEMAND, 366, STALE),
        (DERIVED, ON_DEMAND, 4000, DERIVED),
        (ESTIMATED, SPOT, 4000, ESTIMATED),
        (LISTED_GRADE, ON_DEMAND, -31, LISTED_GRADE),
        (LISTED_GRADE, ON_DEMAND, -32, STALE),  # this computer's clock is behind
        (OBSERVED, SPOT, None, STALE),
        (LISTED_GRADE, ON_DEMAND, None, STALE),
        (DERIVED, ON_DEMAND, None, STALE),
        (ESTIMATED, SPOT, None, STALE),
    ],
)
def test_grade(kind: PriceGrade, market: Market, age_days: int | None, expected: PriceGrade) -> None:
    as_of = None if age_days is None else TODAY - timedelta(days=age_days)
    assert grade(kind, market, as_of, TODAY) is expected


@pytest.mark.parametrize(("age_days", "expected"), [(31, False), (32, True), (-31, False), (-32, True), (None, True)])
def test_a_price_is_old_where_it_was_read_long_ago_or_nobody_knows_when(age_days: int | None, expected: bool) -> None:
    as_of = None if age_days is None else TODAY - timedelta(days=age_days)
    assert is_old(as_of, TODAY) is expected


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
