"""How a price was obtained, and for how long it counts as that."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from enum import StrEnum


class Market(StrEnum):
    """How a machine is rented."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"


class PriceGrade(StrEnum):
    """How a price was obtained, and whether it still counts as that today."""

    OBSERVED = "observed"
    """Read from the market; spot within 30 days, on demand within 90."""
    LISTED = "listed"
    """Read from the vendor's published list."""
    COPIED = "copied"
    """Read from another project's copy of the vendor's list, which may be behind it."""
    DERIVED = "derived"
    """Computed from the price of another placement."""
    ESTIMATED = "estimated"
    """A share of the on-demand price that the vendor gives in steps (Spot Advisor)."""
    STALE = "stale"
    """Too old, or without a date."""


STALE_AFTER = {
    (PriceGrade.OBSERVED, Market.ON_DEMAND): timedelta(days=90),
    (PriceGrade.OBSERVED, Market.SPOT): timedelta(days=30),
    (PriceGrade.LISTED, Market.ON_DEMAND): timedelta(days=365),
    (PriceGrade.LISTED, Market.SPOT): timedelta(days=30),
    (PriceGrade.COPIED, Market.ON_DEMAND): timedelta(days=90),
    (PriceGrade.COPIED, Market.SPOT): timedelta(days=30),
}
"""The age past which a price no longer says what it said. Derived and estimated prices do not age: they are
not trusted in the first place."""

OLD_AFTER = timedelta(days=31)
"""A price that was read longer ago is marked wherever it is shown, whatever its grade."""


def trusted_until(kind: PriceGrade, market: Market, as_of: date | None) -> date | None:
    """The last day on which a price obtained as `kind` is taken at its word; None: on no day."""
    keeps = STALE_AFTER.get((kind, market))
    return None if as_of is None or keeps is None else as_of + keeps


def grade(kind: PriceGrade, market: Market, as_of: date | None, today: date) -> PriceGrade:
    """The grade of a price on `today`; a price without a date, or of a day that is far ahead, is stale, whatever its
    source says."""
    if as_of is None or is_ahead(as_of, today):
        return PriceGrade.STALE
    if (kind, market) not in STALE_AFTER:
        return kind
    until = trusted_until(kind, market, as_of)
    return kind if until is not None and today <= until else PriceGrade.STALE


def is_old(as_of: date | None, today: date) -> bool:
    """Whether a price was read more than a month ago, or nobody knows how long ago."""
    return as_of is None or today - as_of > OLD_AFTER or is_ahead(as_of, today)


def is_ahead(as_of: date, today: date) -> bool:
    """Whether a price was read so long after `today` that this computer's clock must be behind: how old it is nobody
    knows."""
    return as_of - today > OLD_AFTER


def percentile(values: Sequence[Decimal], quantile: Decimal) -> Decimal:
    """The quantile of `values` by linear interpolation between the two nearest. Raises ValueError on none."""
    if not values:
        raise ValueError("no values to take a percentile of")
    ordered = sorted(values)
    position = quantile * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)
