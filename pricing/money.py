"""Money: rates in US dollars per hour, and the only place where a rate becomes an amount."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from math import floor, log10
from typing import NewType

Usd = NewType("Usd", Decimal)
"""An amount of US dollars, list price, before tax and discounts."""

UsdPerHour = NewType("UsdPerHour", Decimal)
"""A rate in US dollars per hour, list price, before tax and discounts."""

HOURS_PER_MONTH = 730
"""What the vendors themselves divide a month's price by (365 days x 24 h / 12)."""

ZERO_USD = Usd(Decimal(0))

_MICRO = Decimal(1_000_000)
_SECONDS_PER_HOUR = 3600
_ONE_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Billing:
    """How a vendor rounds time: started increments count whole, and no rental is shorter than the minimum."""

    increment_seconds: int
    minimum_seconds: int

    def __post_init__(self) -> None:
        if self.increment_seconds < 1 or self.minimum_seconds < 0:
            raise ValueError(f"billing needs an increment of 1 s or more and a minimum of 0 s or more: {self}")

    def billed_seconds(self, duration: timedelta) -> int:
        """Seconds that are paid for. Nothing was rented in a duration of zero. Raises ValueError below zero."""
        if duration < timedelta(0):
            raise ValueError(f"a rental cannot last {duration}")
        if not duration:
            return 0
        # Whole microseconds: seconds as a float could begin an increment that nobody used.
        microseconds = duration // _ONE_MICROSECOND
        increments = -(-microseconds // (self.increment_seconds * 1_000_000))
        return max(self.minimum_seconds, increments * self.increment_seconds)


PER_SECOND = Billing(increment_seconds=1, minimum_seconds=0)


def amount(rate: UsdPerHour, duration: timedelta, billing: Billing) -> Usd:
    """What `duration` at `rate` costs under `billing`, not rounded to cents."""
    return Usd(rate * billing.billed_seconds(duration) / _SECONDS_PER_HOUR)


def to_micro(rate: Decimal) -> int:
    """Return whole millionths of a dollar, rounded half to even: the unit of the compiled catalog."""
    return int((rate * _MICRO).to_integral_value(rounding=ROUND_HALF_EVEN))


def from_micro(micro_usd: int) -> Decimal:
    """Dollars of whole millionths, without trailing zeros (0.9, not 0.900000)."""
    whole, fraction = divmod(micro_usd, 1_000_000)
    return Decimal(f"{whole}.{fraction:06d}".rstrip("0").rstrip("."))


def written_amount(value: object, most: int | None = None) -> Decimal | None:
    """The number that a person has written, from 0 up to `most`; None where it is none of them."""
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return None
    if not amount.is_finite() or amount < 0 or (most is not None and amount > most):
        return None
    return abs(amount)  # 0 for -0.0


def format_usd(value: Decimal) -> str:
    """`$12.34`, `$0.0071` below a dime, where two decimals would say too little."""
    digits = 2 if abs(value) >= Decimal("0.1") or value == 0 else 4
    return f"${value:,.{digits}f}"


def format_usd_per_hour(rate: Decimal) -> str:
    """`$0.526/h`: three decimals, as vendors print their rates; `$0.0001/h` where that would show nothing."""
    digits = 3 if abs(rate) >= Decimal("0.001") or rate == 0 else 6
    text = f"{rate:,.{digits}f}"
    return f"${text.rstrip('0') if digits == 6 else text}/h"


def format_usd_interval(expected: Decimal, low: Decimal, high: Decimal) -> str:
    """`$0.17 (0.12-0.39)`, `$0.0841 (0.068-0.14)`: what is expected as it stands everywhere, and the ends in two
    digits."""
    return f"{format_usd(expected)} ({two_digits(float(low))}-{two_digits(float(high))})"


def two_digits(value: float) -> str:
    """A figure with two significant digits, in full: `0.068`, `1.5`, `24`, `5,500`."""
    if not value:
        return "0"
    rounded = float(f"{value:.1e}")
    return f"{rounded:,.{max(0, 1 - floor(log10(abs(rounded))))}f}"
