"""`python -m scripts.spot_drift`: fits how listed spot prices change with age, and writes pricing/data/spot_drift.csv.

The ground is tests/data/gcp_spot_history.csv: ten dated series of Google's spot prices, 2023-05 to 2026-07, on the
days on which one changed (price lists in public repositories). Of each family: the mean change per day of age, over
pairs of days that lie 30 to 180 days apart, never below nothing (a fall is not planned with), and what the price
after 90 days comes to beside that, 8 times of 10. The last quarter is known of many regions and widens these ends.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
HISTORY = ROOT / "tests" / "data" / "gcp_spot_history.csv"
TABLE = ROOT / "pricing" / "data" / "spot_drift.csv"
COLUMNS = ("provider", "family", "ppm_per_day", "low_90_days", "high_90_days", "pairs", "since", "until", "source")
ACCELERATED = ("a2", "a3", "g2")
HORIZONS_DAYS = (30, 60, 90, 120, 150, 180)
STEP = timedelta(days=7)
SPREAD_DAYS = 90
SOURCE = "ten series of Google's lists (tests/data/gcp_spot_history.csv), fitted by scripts/spot_drift.py on 2026-11-23"
REGIONS_SOURCE = "; ends widened by 16 to 18 regions between 2026-05-05 and 2026-08-03"
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
    return Fitted(round(slope * 1_000_000), low, high, len(moved))


def rows(series: Sequence[Series]) -> Iterator[tuple[object, ...]]:
    """The table: each family of the series, and what holds for all others, with and without an accelerator."""
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
        writer.writerows(rows(list(read_series().values())))


def _quantile(ordered: Sequence[float], share: float) -> float:
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


if __name__ == "__main__":
    write_table()
    sys.stdout.write(TABLE.read_text(encoding="utf-8"))
