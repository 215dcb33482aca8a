"""What is said of prices under a table: how old they are, and whose."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal

import pytest

from tests.builders import an_offer
from trainplan.planner.forecast.price_notes import age_note, explain_price, price_text, price_word
from trainplan.pricing.grades import Market, PriceGrade
from trainplan.pricing.planning import PlannedAs, PriceSpread

READ = date(2026, 7, 1)


@pytest.mark.parametrize(
    ("days", "said"),
    [
        (31, []),
        (32, ["prices of 2026-07-01: 1 month old or more"]),
        (150, ["prices of 2026-07-01: 5 months old or more"]),
        (365, ["prices of 2026-07-01: 12 months old or more"]),
    ],
)
def test_a_table_says_how_old_its_prices_are_where_all_are_old(days: int, said: list[str]) -> None:
    assert age_note([an_offer(price_as_of=READ)], READ + timedelta(days=days)) == said


def test_after_a_year_machine_types_and_images_may_be_gone_too() -> None:
    """The same sentence stood under a table of 1,000 days ago as under one of 31."""
    (line,) = age_note([an_offer(price_as_of=READ)], READ + timedelta(days=1000))
    assert line.startswith("prices of 2026-07-01: 2.7 years old; machine types, images and drivers of that time may be")
    assert "free places may have other limits" in line


def test_one_young_price_or_only_own_rates_and_nothing_is_said() -> None:
    today = READ + timedelta(days=400)
    assert age_note([an_offer(price_as_of=READ), an_offer(price_as_of=today)], today) == []
    assert age_note([an_offer(price_as_of=READ, own_rate="ours")], today) == []
    assert age_note([an_offer(price_as_of=None, price_as_of_text="undated")], today) == []


def test_prices_of_a_year_without_a_day_have_no_age_and_a_refresh_reads_newer_ones() -> None:
    """`prices of 2024-01-01: 2.9 years old; install a newer version` stood under prices of about 2024."""
    spot = an_offer(provider="azure", market=Market.SPOT, price_as_of=None, price_as_of_text="~2024")
    assert age_note([spot], date(2026, 11, 28)) == [
        "these spot prices have no day and are from about 2024; plan prices refresh azure reads today's"
    ]
    assert age_note([spot], date(2024, 12, 1)) == []
    assert age_note([spot, an_offer(price_as_of=READ)], READ) == []


def test_the_newest_counts_and_a_source_s_own_date_is_its_first_day() -> None:
    zone = an_offer(price_as_of=None, price_as_of_text="2026-H1 (2026-01-25..07-21)")
    assert age_note([zone, an_offer(price_as_of=READ)], READ + timedelta(days=90)) == [
        "prices of 2026-01-25 to 2026-07-01: 3 months old or more"
    ]
    assert price_word(replace(zone, planned_as=PlannedAs.DRIFTED)) == "adjusted 2026-H1"


def test_an_own_rate_has_not_the_day_of_the_list() -> None:
    """`own rate 2025-06-28` was the day of the list price beside it."""
    own = an_offer(price_as_of=date(2025, 6, 28), own_rate="ours", price_grade=PriceGrade.STALE)
    assert price_word(own) == "own rate"
    assert price_text(own, READ) == "own rate; list price: stale 2025-06-28, old"


def test_a_spot_price_of_this_month_has_ends_too() -> None:
    young = an_offer(planning_usd_per_hour=Decimal("0.5"), price_spread=PriceSpread(0.9, 1.2))
    assert explain_price(young)[0].startswith("8 times of 10 between $0.450/h and $0.600/h")
    assert not any("8 times of 10" in line for line in explain_price(an_offer()))
