"""`python -m scripts.spot_drift`: fits how spot prices change with age, and writes pricing/data/spot_drift.csv.

Google: tests/data/gcp_spot_history.csv, ten dated series of its spot prices, 2023-05 to 2026-07, on the days on which
one changed (price lists in public repositories). Of each family: the mean change per day of age, over pairs of days
that lie 30 to 180 days apart, never below nothing (a fall is not planned with), and what the price after 90 days comes
to beside that, 8 times of 10, taken further out for what comes after. The last quarter is known of many regions and
widens these ends.

AWS: tests/data/aws_spot.csv, machines with GPUs by region: the lowest zone in the first half of 2026
(skypilot-catalog v9/aws/vms.csv@2c3d7ea7, read at some time between 2026-01-25 and 2026-07-21: the age is counted from
the first of these days) and, in four regions, what EC2's spot pricing page said on 2026-08-10 (spotinfo@69bcec67).
The change is the median, since a few tripled; the ends are those of 8 pairs of 10, brought to 90 days by the root of
the age.
"""

from __future__ import annotations

import csv
import math
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
HISTORY = ROOT / "tests" / "data" / "gcp_spot_history.csv"
ZONES = ROOT / "tests" / "data" / "aws_spot.csv"
TABLE = ROOT / "pricing" / "data" / "spot_drift.csv"
COLUMNS = ("provider", "family", "ppm_per_day", "low_90_days", "high_90_days", "pairs", "since", "until", "source")
ACCELERATED = ("a2", "a3", "g2")
HORIZONS_DAYS = (30, 60, 90, 120, 150, 180)
STEP = timedelta(days=7)
SPREAD_DAYS = 90
LATER_WIDER = 1.5
"""How much further out the ends of a series are taken than its past says: fitted up to 2024-07-01, the ends of the past
alone held 70 % of the prices of the year after, these 84 %; scripts/price_error.py has the year after that."""
SOURCE = "ten series of Google's lists (tests/data/gcp_spot_history.csv), fitted by scripts/spot_drift.py on 2026-11-28"
REGIONS_SOURCE = "; ends widened by 16 to 18 regions between 2026-05-05 and 2026-08-03"
PAIRS_SINCE, PAIRS_UNTIL = date(2026, 1, 25), date(2026, 8, 10)
PAIRS_SOURCE = (
    "the lowest zone in the first half of 2026 beside EC2's spot pricing page of 2026-08-10, four regions "
    "(tests/data/aws_spot.csv), fitted by scripts/spot_drift.py on 2026-11-28"
)
OVER_REGIONS = {"g2": (1.10, 1.81), "a3": (0.78, 1.47), "a2": (1.07, 1.43)}
"""The least and the most that a price came to after the 90 days from 2026-05-05 to 2026-08-03, over 18 regions of
g2-standard-4, 16 of a3-highgpu-1g and 18 of a2-highgpu-1g (the two lists of those days)."""


class Series(NamedTuple):
    """One machine's spot price in one region: the days on which it was read and what it was, in USD per hour."""

    family: str
    days: tuple[date, ...]
    usd_per_hour: tuple[float, ...]

    def on(self, day: date) -> float | None:
        """The price that held on a day; None before the first one."""
        values = [usd for at, usd in zip(self.days, self.usd_per_hour, strict=True) if at <= day]
        return values[-1] if values else None


class Fitted(NamedTuple):
    """A family's drift; `pairs` is how many pairs of days it rests on."""

    ppm_per_day: int
    low: float
    high: float
    pairs: int


class Zoned(NamedTuple):
    """A machine with GPUs in a region of AWS, in USD per hour: the lowest of its zones in the first half of 2026, on
    demand, and what the spot pricing page said on 2026-08-10; None where that was not read."""

    region: str
    instance_type: str
    lowest_usd: float
    on_demand_usd: float
    later_usd: float | None

    @property
    def family(self) -> str:
        """As instance_types.csv has it."""
        return self.instance_type.partition(".")[0]


def read_zones(path: Path = ZONES) -> list[Zoned]:
    """AWS's spot prices by region."""
    with path.open(encoding="utf-8", newline="") as text:
        return [
            Zoned(
                row["region"],
                row["instance_type"],
                float(row["lowest_usd"]),
                float(row["on_demand_usd"]),
                float(row["feed_usd"]) if row["feed_usd"] else None,
            )
            for row in csv.DictReader(text)
        ]


def fitted_zones(zones: Iterable[Zoned]) -> Fitted:
    """The drift between the two readings of AWS's prices."""
    days = (PAIRS_UNTIL - PAIRS_SINCE).days
    ratios = sorted(one.later_usd / one.lowest_usd for one in zones if one.later_usd is not None)
    middle = statistics.median(ratios)
    slope, root = max(0.0, (middle - 1) / days), math.sqrt(SPREAD_DAYS / days)
    low, high = (_quantile(ratios, share) / (1 + slope * days) for share in (0.1, 0.9))
    return Fitted(round(slope * 1_000_000), min(1.0, low) ** root, max(1.0, high) ** root, len(ratios))


def read_series(path: Path = HISTORY) -> dict[str, Series]:
    """The series by `machine region`."""
    with path.open(encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    series_by_name = {}
    for name in rows[0]:
        if name != "date":
            values = [(date.fromisoformat(row["date"]), float(row[name])) for row in rows if row[name]]
            series_by_name[name] = Series(name.split("-")[0], *map(tuple, zip(*values, strict=True)))
    return series_by_name


def pairs(series: Series, days: int, until: date | None = None) -> Iterator[float]:
    """What the price came to after so many days, as a share of what it was: from the first day on, a week apart."""
    last = min(series.days[-1], until or series.days[-1])
    day, horizon = series.days[0], timedelta(days=days)
    while day + horizon <= last:
        before, after = series.on(day), series.on(day + horizon)
        assert before is not None
        assert after is not None
        yield after / before
        day += STEP


def fitted(series: Iterable[Series], until: date | None = None) -> Fitted | None:
    """The drift of some series up to a day; None where they are too short."""
    members = list(series)
    moved = [(days, ratio) for one in members for days in HORIZONS_DAYS for ratio in pairs(one, days, until)]
    if not moved:
        return None
    slope = sum(days * (ratio - 1) for days, ratio in moved) / sum(days * days for days, _ in moved)
    slope = max(0.0, slope)
    ends = sorted(ratio / (1 + slope * SPREAD_DAYS) for one in members for ratio in pairs(one, SPREAD_DAYS, until))
    if not ends:
        return None
    low, high = min(1.0, _quantile(ends, 0.1)), max(1.0, _quantile(ends, 0.9))
    return Fitted(round(slope * 1_000_000), low**LATER_WIDER, high**LATER_WIDER, len(moved))


def rows(series: Sequence[Series], zones: Iterable[Zoned]) -> Iterator[tuple[object, ...]]:
    """The table: AWS's machines with GPUs, each family of Google's series, and what holds for all others, with and
    without an accelerator."""
    aws = fitted_zones(zones)
    ends = f"{aws.low:.3f}", f"{aws.high:.3f}"
    yield "aws", "accelerator", aws.ppm_per_day, *ends, aws.pairs, PAIRS_SINCE, PAIRS_UNTIL, PAIRS_SOURCE
    since, until = min(one.days[0] for one in series), max(one.days[-1] for one in series)
    groups = {("gcp", family): {family} for family in sorted({one.family for one in series})}
    groups["*", "accelerator"] = set(ACCELERATED)
    groups["*", "cpu"] = {one.family for one in series} - set(ACCELERATED)
    for (provider, family), members in groups.items():
        fit = fitted(one for one in series if one.family in members)
        assert fit is not None
        spreads = [OVER_REGIONS[name] for name in members if name in OVER_REGIONS]
        middle = 1 + fit.ppm_per_day * SPREAD_DAYS / 1_000_000
        low = min([fit.low, *([sum(end[0] for end in spreads) / len(spreads) / middle] if spreads else [])])
        high = max([fit.high, *([sum(end[1] for end in spreads) / len(spreads) / middle] if spreads else [])])
        source = SOURCE + (REGIONS_SOURCE if spreads else "")
        yield provider, family, fit.ppm_per_day, f"{low:.3f}", f"{high:.3f}", fit.pairs, since, until, source


def write_table(path: Path = TABLE) -> None:
    """Write the drift of spot prices, a row for each family."""
    with path.open("w", encoding="utf-8", newline="") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows(list(read_series().values()), read_zones()))


def _quantile(ordered: Sequence[float], share: float) -> float:
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


if __name__ == "__main__":
    write_table()
    sys.stdout.write(TABLE.read_text(encoding="utf-8"))
