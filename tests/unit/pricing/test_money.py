"""A rate becomes an amount."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainplan.pricing.money import (
    Billing,
    UsdPerHour,
    amount,
    format_usd,
    format_usd_per_hour,
    from_micro,
    to_micro,
    written_amount,
)

BY_SECOND = Billing(increment_seconds=1, minimum_seconds=60)
BY_HOUR = Billing(increment_seconds=3600, minimum_seconds=0)

micro_rates = st.integers(min_value=0, max_value=10**9)
durations = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=60))
billings = st.builds(
    Billing,
    increment_seconds=st.integers(min_value=1, max_value=3600),
    minimum_seconds=st.integers(min_value=0, max_value=3600),
)


@pytest.mark.parametrize(
    ("rate", "duration", "billing", "usd"),
    [
        ("0.9", timedelta(hours=1), BY_SECOND, "0.9"),
        ("0.9", timedelta(seconds=10), BY_SECOND, "0.015"),  # the minimum of 60 s
        ("3.6", timedelta(seconds=90, microseconds=1), BY_SECOND, "0.091"),  # a started second counts whole
        ("3.06", timedelta(minutes=61), BY_HOUR, "6.12"),
        ("3.06", timedelta(0), BY_SECOND, "0"),  # nothing was rented
        ("0", timedelta(hours=5), BY_SECOND, "0"),
    ],
)
def test_amount(rate: str, duration: timedelta, billing: Billing, usd: str) -> None:
    assert amount(UsdPerHour(Decimal(rate)), duration, billing) == Decimal(usd)


def test_a_negative_duration_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot last"):
        BY_SECOND.billed_seconds(timedelta(seconds=-1))


@pytest.mark.parametrize(("increment", "minimum"), [(0, 60), (1, -1)])
def test_billing_that_cannot_be_is_refused(increment: int, minimum: int) -> None:
    with pytest.raises(ValueError, match="increment"):
        Billing(increment_seconds=increment, minimum_seconds=minimum)


@given(duration=durations, billing=billings)
def test_billed_seconds_cover_the_duration_and_no_more_than_an_increment(duration: timedelta, billing: Billing) -> None:
    billed = timedelta(seconds=billing.billed_seconds(duration))
    assert billed >= duration
    assert billed <= max(
        duration + timedelta(seconds=billing.increment_seconds), timedelta(seconds=billing.minimum_seconds)
    )


@given(micro=micro_rates, shorter=durations, longer=durations, billing=billings)
def test_a_longer_run_never_costs_less(micro: int, shorter: timedelta, longer: timedelta, billing: Billing) -> None:
    rate = UsdPerHour(from_micro(micro))
    shorter, longer = sorted((shorter, longer))
    assert amount(rate, shorter, billing) <= amount(rate, longer, billing)


@given(micro=micro_rates)
def test_micro_dollars_are_exact(micro: int) -> None:
    assert to_micro(from_micro(micro)) == micro


@pytest.mark.parametrize(("micro", "text"), [(900_000, "0.9"), (90_000_000, "90"), (1, "0.000001"), (0, "0")])
def test_from_micro_has_no_trailing_zeros(micro: int, text: str) -> None:
    assert str(from_micro(micro)) == text


@pytest.mark.parametrize(
    ("usd", "text"), [("12.345", "$12.34"), ("1234.5", "$1,234.50"), ("0.00714", "$0.0071"), ("0", "$0.00")]
)
def test_format_usd(usd: str, text: str) -> None:
    assert format_usd(Decimal(usd)) == text


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("3", "3"), (0.1, "0.1"), (100, "100"), (-0.0, "0.0"), (101, None), (-1, None), ("$3", None), (True, None),
        (None, None), ([3], None), (float("nan"), None), ("sNaN", None), (float("inf"), None), ("", None),
    ],
)  # fmt: skip
def test_an_amount_as_it_was_written(value: object, read: str | None) -> None:
    assert str(written_amount(value, 100)) == str(read)


def test_format_usd_per_hour() -> None:
    assert format_usd_per_hour(Decimal("0.5264")) == "$0.526/h"
