"""The price that cost and rank count with, and how far the real one may lie from it (ADR 24). Pure.

On demand it is the listed price. On spot it begins with a ground: the placement's own price, or a share of the
on-demand price where it has none. A listed price far below the other regions' is raised to their lower quartile; one
that is older than 30 days has drifted as spot prices do. The compiled catalog holds grounds and drifts, and its query
says the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import NamedTuple

from trainplan.pricing.grades import Market, PriceGrade, percentile, trusted_until
from trainplan.pricing.money import to_micro

NEVER, ALWAYS = 0, date.max.toordinal()
"""Days are proleptic Gregorian ordinals, as `date.toordinal` counts them."""
LEAST_REGIONS = 5
"""A median of fewer regions says nothing."""
OUTLIER_SHARE = Decimal("0.6")
"""A spot price below this share of its regions' median is doubted. Of those that could be looked up, the lowest ones
were placements that refuse every create: H100 in europe-north1 at 0.27 of it (a field note of 2026-08-14)."""
OUTLIER_QUANTILE = Decimal("0.25")
SHARE_QUANTILE = Decimal("0.75")
"""Of the shares of on demand within a family: errs to the side where the receipt is a pleasant surprise."""
# AWS's savings of 2025 are admitted, Azure's list of about 2024 is not (ADR 24).
ADMITTED_FOR = timedelta(days=730)
LEAST_SHARE = Decimal("0.05")
"""What lies below cannot be true: the least share of on demand in the dated lists of the tables is 0.09 (c2, n2)."""
MOST_AGE_DAYS = 365
"""Beyond that nothing was fitted: older prices count as a year old, with the spread of their own age."""
# The fitted ends are those after so many days; they widen with the root of the age (ADR 24).
SPREAD_DAYS = 90
_MOST_SPREAD_DAYS = 3 * MOST_AGE_DAYS
OTHER_VENDORS_WIDER = 2.0
"""Of vendors whose prices were not followed the ends are taken twice as far out (judgement)."""
MILLION = 1_000_000
TABLE = Path(__file__).parent / "data" / "spot_drift.csv"


class PlannedAs(StrEnum):
    """What a planning price rests on."""

    LISTED = "listed"
    """The price as its source says it."""
    DRIFTED = "drifted"
    """The price as its source said it, and what spot prices change by in the time since."""
    SHARE = "share"
    """A share of the on-demand price, as such machines' spot prices were: where the placement has no price of its own
    but savings in steps, a list that names no year, or one of more than a year ago."""
    OUTLIER = "outlier"
    """The lower quartile of the regions: the listed price is far below them, and nobody had a machine there lately."""


class Drift(NamedTuple):
    """How a family's spot prices change: millionths per day of age, and the ends after 90 days beside that."""

    ppm_per_day: int
    low_90_days: float
    high_90_days: float


class Ground(NamedTuple):
    """What a planning price begins with, in millionths of a dollar per hour.

    `micro` counts as it is up to `until_day` and drifts from `read_day` on; more than a year after that day `old_micro`
    stands in its place, a share of on demand. None: the offer cannot be ranked. `floor_micro` stands in its place
    where nobody is known to have had a machine there (None: it is no outlier).
    """

    micro: int | None
    until_day: int
    read_day: int
    old_micro: int | None = None
    is_share: bool = False
    floor_micro: int | None = None

    def micro_on(self, day: int) -> int | None:
        """What it begins with on a day."""
        return self.old_micro if self.is_old(day) else self.micro

    def is_old(self, day: int) -> bool:
        """Whether the price was read more than a year before, and is no ground any more."""
        return self.until_day < day and day - self.read_day > MOST_AGE_DAYS


class PriceSpread(NamedTuple):
    """The ends between which the price lies 8 times of 10, as shares of the planning price."""

    low: float = 1.0
    high: float = 1.0


AS_LISTED = PriceSpread()
SHARE_SPREAD = PriceSpread(0.38, 1.23)
"""Where a placement's own price lay, 8 times of 10, as a share of what its family's share in the other regions says
(python -m scripts.price_error: EC2's zones, 2026). It is as wide as that however young the share is."""


class Share(NamedTuple):
    """A share of the on-demand price, in millionths, and the day in the middle of the prices that it is of."""

    ppm: int
    read_day: int


@cache
def drifts() -> Mapping[tuple[str, str], Drift]:
    """The table: by provider and family, and by ("*", "accelerator" or "cpu") for all others."""
    import csv  # only who compiles tables needs it

    with TABLE.open(encoding="utf-8", newline="") as text:
        return {
            (row["provider"], row["family"]): Drift(
                int(row["ppm_per_day"]), float(row["low_90_days"]), float(row["high_90_days"])
            )
            for row in csv.DictReader(text)
        }


def drift_of(provider: str, family: str, *, accelerated: bool) -> Drift:
    """The drift of a family's spot prices; without one of its own, that of the vendor's machines with or without an
    accelerator, else that of all vendors'."""
    table, kind = drifts(), "accelerator" if accelerated else "cpu"
    own = table.get((provider, family)) or table.get((provider, kind))
    if own is not None:
        return own
    pooled = table["*", kind]
    if provider == "gcp":
        return pooled
    wider = (end**OTHER_VENDORS_WIDER for end in (pooled.low_90_days, pooled.high_90_days))
    return Drift(pooled.ppm_per_day, *wider)


class PriceDate(NamedTuple):
    """When a price was read: the day, the source's own text where that is less than a day, how it was obtained, and
    the day of the newest price beside it, which stands in the place of today in a table that is compiled."""

    day: date | None
    text: str
    kind: PriceGrade
    newest: date | None

    @property
    def since(self) -> date | None:
        """The earliest day on which it can have been read; None where the source names not even a year."""
        return self.day or first_day(self.text)

    @property
    def is_own(self) -> bool:
        """Whether its placement is planned by it alone."""
        since = self.since
        if since is None or self.kind is PriceGrade.ESTIMATED:
            return False
        return self.newest is None or (self.newest - since).days <= MOST_AGE_DAYS


def ground(
    usd_micro: int, market: Market, price: PriceDate, on_demand_micro: int | None, share: Share | None
) -> Ground:
    """What a price is planned from.

    A spot price that was observed, listed or computed from such a one is its own ground where its source names a day
    or a year that is no older than a year beside the newest price. Savings in steps, undated and older prices are
    not: the family's share of on demand is, no less than the price itself, and all of it where no share is known.
    """
    if market is Market.ON_DEMAND:
        return Ground(usd_micro, ALWAYS, NEVER)
    since = price.since
    of_share = None
    if on_demand_micro is not None:
        of_share = max(usd_micro, on_demand_micro * (MILLION if share is None else share.ppm) // MILLION)
    if price.is_own:
        assert since is not None
        until = trusted_until(PriceGrade.LISTED, market, price.day)
        return Ground(usd_micro, NEVER if until is None else until.toordinal(), since.toordinal(), of_share)
    day = share.read_day if share is not None else NEVER if since is None else since.toordinal()
    return Ground(of_share, NEVER, day, of_share, is_share=True)


def first_day(text: str) -> date | None:
    """The earliest day that a source's own date can mean: of `2026-H1 (2026-01-25..07-21)` the first day in it, of
    `~2024` the first of that year; None where it names none."""
    year = re.search(r"\b20\d\d\b", text)
    return whole_day(text) or (None if year is None else date(int(year.group()), 1, 1))


def whole_day(text: str) -> date | None:
    """The first whole day that a source's own date names: 2026-01-25 of `2026-H1 (2026-01-25..07-21)`; None of
    `~2024`."""
    whole = re.search(r"\b20\d\d-\d\d-\d\d\b", text)
    return None if whole is None else date.fromisoformat(whole.group())


def is_admitted(share: Decimal, price: PriceDate) -> bool:
    """Whether a price may say which share of on demand spot is: one that can be true, of a day or year that is named
    and lies within two years of the newest price.

    The list of Azure's prices of about 2024 does not: nearly all of it lies at the tenth that was the least then.
    """
    since, newest = price.since, price.newest
    return share >= LEAST_SHARE and since is not None and newest is not None and newest - since <= ADMITTED_FOR


def share_of(known: Sequence[tuple[Decimal, date]]) -> Share:
    """The share of the on-demand price that is planned with, of the shares of prices and the days that they are of.
    Raises ValueError on none."""
    days = sorted(day for _, day in known)
    ppm = to_micro(min(Decimal(1), percentile([share for share, _ in known], SHARE_QUANTILE)))
    return Share(ppm, days[len(days) // 2].toordinal())


def outlier_floors(by_region: Mapping[str, int]) -> dict[str, int]:
    """The lower quartile for each region whose price lies far below the regions' median; none of too few regions."""
    if len(by_region) < LEAST_REGIONS:
        return {}
    prices = [Decimal(micro) for micro in by_region.values()]
    middle, quartile = percentile(prices, Decimal("0.5")), percentile(prices, OUTLIER_QUANTILE)
    # The greater of the two: where many prices are doubted, the quartile may lie below some of them.
    return {region: max(micro, int(quartile)) for region, micro in by_region.items() if micro < OUTLIER_SHARE * middle}


def planning_micro(
    grounded: Ground, on_demand_micro: int | None, drift: Drift, today: date, *, as_listed: bool
) -> int | None:
    """The planning price, in millionths of a dollar per hour; None: the offer cannot be ranked.

    It drifts no further than to the on-demand price. `as_listed`: the person takes it to be available, or somebody had
    a machine there within 30 days, so that an outlier counts as it is.
    """
    day = today.toordinal()
    base = grounded.micro_on(day) if grounded.floor_micro is None or as_listed else grounded.floor_micro
    if base is None:
        return None
    if grounded.until_day >= day:
        return base
    # Rounded in whole numbers as pricing/queries.py does it: a test holds the two together.
    grown = (base * (MILLION + drift.ppm_per_day * aged_days(grounded.read_day, day)) + MILLION // 2) // MILLION
    return grown if on_demand_micro is None else max(base, min(grown, on_demand_micro))


def aged_days(read_day: int, day: int) -> int:
    """The days that a price drifts; a year for one that nobody dated."""
    return min(max(day - read_day, 0), MOST_AGE_DAYS)


def spread(grounded: Ground, drift: Drift, today: date, bounds: PriceSpread) -> PriceSpread:
    """Where the price lies 8 times of 10, as shares of the planning price: wider with the root of its age, from the day
    on which it was read.

    `bounds` are the source's own price and the on-demand price as such shares: it may well be as low as the one that is
    not taken at its word, and nobody pays more than the other.
    """
    day = today.toordinal()
    if grounded.until_day == ALWAYS:
        return AS_LISTED
    times = math.sqrt(min(max(day - grounded.read_day, 0), _MOST_SPREAD_DAYS) / SPREAD_DAYS)
    low, high = drift.low_90_days**times, drift.high_90_days**times
    if grounded.is_share or grounded.is_old(day):
        low, high = _both(low, SHARE_SPREAD.low), _both(high, SHARE_SPREAD.high)
    return PriceSpread(min(low, bounds.low), max(1.0, min(high, bounds.high)))


def _both(one: float, other: float) -> float:
    """The end of what is as far off as two causes that know nothing of each other make it; both on one side of 1."""
    return math.exp(math.copysign(math.hypot(math.log(one), math.log(other)), math.log(other)))


def planned_as(grounded: Ground, today: date, *, as_listed: bool) -> PlannedAs:
    """What the planning price rests on, on that day."""
    if grounded.floor_micro is not None and not as_listed:
        return PlannedAs.OUTLIER
    day = today.toordinal()
    if grounded.is_share or grounded.is_old(day):
        return PlannedAs.SHARE
    return PlannedAs.LISTED if grounded.until_day >= day else PlannedAs.DRIFTED
