"""The price that cost and rank count with, and how far the real one may lie from it (docs/adr/0024). Pure.

On demand it is the listed price. On spot it begins with a ground: a dated price, or a share of the on-demand price
where none is admitted. A price far below the other regions' is raised to their lower quartile; one that is older than
30 days has drifted as spot prices do. The compiled catalog holds grounds and drifts, and its query says the same.
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
"""The dated series are Google's: the ends of other vendors' prices are taken twice as far out (judgement)."""
MILLION = 1_000_000
TABLE = Path(__file__).parent / "data" / "spot_drift.csv"


class PlannedAs(StrEnum):
    """What a planning price rests on."""

    LISTED = "listed"
    """The price as its source says it."""
    DRIFTED = "drifted"
    """The price as its source said it, and what spot prices change by in the time since."""
    SHARE = "share"
    """A share of the on-demand price, as such machines' spot prices were: savings, lists without a day, old lists."""
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
    """The drift of a family's spot prices; without a series of its own, that of all with or without an accelerator."""
    rows = drifts()
    own = rows.get((provider, family))
    if own is not None:
        return own
    pooled = rows["*", "accelerator" if accelerated else "cpu"]
    if provider == "gcp":
        return pooled
    wider = (end**OTHER_VENDORS_WIDER for end in (pooled.low_90_days, pooled.high_90_days))
    return Drift(pooled.ppm_per_day, *wider)


def ground(
    usd_micro: int,
    market: Market,
    kind: PriceGrade,
    read: tuple[date | None, str],
    on_demand_micro: int | None,
    share_ppm: int | None,
) -> Ground:
    """What a price is planned from. `read` is its day and the source's own text; `share_ppm` the family's share of on
    demand, in millionths.

    A spot price with a day that was observed, listed or computed from such a one is its own ground; savings in steps
    and lists without a day are not: the family's share of on demand is, no less than the price itself, and all of it
    where no share is known.
    """
    if market is Market.ON_DEMAND:
        return Ground(usd_micro, ALWAYS, NEVER)
    day, text = read
    share = None
    if on_demand_micro is not None:
        share = max(usd_micro, on_demand_micro * (MILLION if share_ppm is None else share_ppm) // MILLION)
    if day is not None and kind is not PriceGrade.ESTIMATED:
        until = trusted_until(PriceGrade.LISTED, market, day)
        return Ground(usd_micro, NEVER if until is None else until.toordinal(), day.toordinal(), share)
    since = day or year_of(text)
    return Ground(share, NEVER, NEVER if since is None else since.toordinal(), share, is_share=True)


def year_of(text: str) -> date | None:
    """The first day of the year that a source's own date names (`2026-H1`, `~2024`); None where it names none."""
    match = re.search(r"\b(20\d\d)\b", text)
    return None if match is None else date(int(match.group()), 1, 1)


def is_admitted(share: Decimal, read: tuple[date | None, str], newest: date | None) -> bool:
    """Whether a price may say which share of on demand spot is: one that can be true, of a day or year that is named
    (`read`: the day, and the source's own text) and lies within two years of the newest price.

    The list of Azure's prices of about 2024 does not: nearly all of it lies at the tenth that was the least then.
    """
    since = read[0] or year_of(read[1])
    return share >= LEAST_SHARE and since is not None and newest is not None and newest - since <= ADMITTED_FOR


def share_ppm(shares: Sequence[Decimal]) -> int:
    """The share of the on-demand price that is planned with, in millionths. Raises ValueError on none."""
    return to_micro(min(Decimal(1), percentile(shares, SHARE_QUANTILE)))


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
    """Where the price lies 8 times of 10, as shares of the planning price: wider with the root of its age.

    `bounds` are the source's own price and the on-demand price as such shares: it may well be as low as the one that is
    not taken at its word, and nobody pays more than the other.
    """
    day = today.toordinal()
    if grounded.until_day >= day and bounds.low >= 1:
        return AS_LISTED
    age = 0 if grounded.until_day >= day else min(max(day - grounded.read_day, 0), _MOST_SPREAD_DAYS)
    times = math.sqrt(age / SPREAD_DAYS)
    low, high = min(drift.low_90_days**times, bounds.low), drift.high_90_days**times
    return PriceSpread(low, max(1.0, min(high, bounds.high)))


def planned_as(grounded: Ground, today: date, *, as_listed: bool) -> PlannedAs:
    """What the planning price rests on, on that day."""
    if grounded.floor_micro is not None and not as_listed:
        return PlannedAs.OUTLIER
    day = today.toordinal()
    if grounded.is_share or grounded.is_old(day):
        return PlannedAs.SHARE
    return PlannedAs.LISTED if grounded.until_day >= day else PlannedAs.DRIFTED
