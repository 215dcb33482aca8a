"""How well a spot price of some days ago tells today's: `python benchmarks/spot_prices_replay.py`.

Replays the dated series of Google's lists (tests/data/gcp_spot_history.csv). Each week a plan is made with the list of
30, 60 or 90 days before, once at its prices as they stand and once as pricing/planning.py plans them, with drifts that
were fitted to earlier days alone. Printed are how often the machine that was planned is within 10 % of the cheapest of
its group on the day itself, and how far the planned price was off.
"""

from __future__ import annotations

import statistics
import sys
from datetime import date, timedelta
from typing import TYPE_CHECKING, NamedTuple

from pricing.planning import AS_LISTED, Drift, Ground, PriceSpread, planning_micro, spread
from scripts.spot_drift import ACCELERATED, fitted, read_series

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scripts.spot_drift import Series

AGES_DAYS = (30, 60, 90)
WITHIN = 1.10
FIRST = date(2024, 1, 1)
"""From the first half-year on there is something to fit drifts to."""
GROUPS = {
    "8 vCPUs": ("n1-standard-8", "n2-standard-8", "c2-standard-8", "e2-standard-8"),
    "A100": ("a2-highgpu-1g",),
    "L4": ("g2-standard-4",),
}


class Planned(NamedTuple):
    """What a list says of a machine on a later day."""

    usd_per_hour: float
    ends: PriceSpread = AS_LISTED


class Tally(NamedTuple):
    """Counts of one group at one age: weeks, those near the cheapest, how far prices were off, intervals that held."""

    weeks: int
    near: int
    errors: tuple[float, ...]
    covered: int
    prices: int


def as_listed(series: Series, listed_on: date) -> Planned:
    usd = series.on(listed_on)
    assert usd is not None
    return Planned(usd)


def as_planned(series: Series, listed_on: date, day: date, all_series: Sequence[Series]) -> Planned:
    """The planning price on `day` of what was listed before, with the drift that earlier days show."""
    usd = series.on(listed_on)
    assert usd is not None
    own = fitted([one for one in all_series if one.family == series.family], until=listed_on)
    drift = Drift(0, 1.0, 1.0) if own is None else Drift(own.ppm_per_day, own.low, own.high)
    micro = round(usd * 1_000_000)
    ground = Ground(micro, (listed_on + timedelta(days=30)).toordinal(), listed_on.toordinal())
    planned = planning_micro(ground, None, drift, day, as_listed=False)
    assert planned is not None
    return Planned(planned / 1_000_000, spread(ground, drift, day, PriceSpread(1.0, 100.0)))


def weeks(members: Sequence[Series], age_days: int) -> Iterator[tuple[date, date]]:
    """Each day of a plan with the day of its list."""
    day, last = FIRST + timedelta(days=age_days), min(one.days[-1] for one in members)
    while day <= last:
        yield day, day - timedelta(days=age_days)
        day += timedelta(days=7)


def replay(members: Sequence[Series], all_series: Sequence[Series], age_days: int, *, drifts: bool) -> Tally:
    """One group at one age of its list."""
    near, covered, errors, count = 0, 0, [], 0
    for day, listed_on in weeks(members, age_days):
        planned = [
            as_planned(one, listed_on, day, all_series) if drifts else as_listed(one, listed_on) for one in members
        ]
        real = [one.on(day) or 0.0 for one in members]
        cheapest = min(range(len(members)), key=lambda number: planned[number].usd_per_hour)
        near += real[cheapest] <= WITHIN * min(real)
        count += 1
        for plan, usd in zip(planned, real, strict=True):
            errors.append(abs(plan.usd_per_hour / usd - 1))
            low, high = (plan.usd_per_hour * end for end in plan.ends)
            covered += low * 0.999 <= usd <= high * 1.001
    return Tally(count, near, tuple(errors), covered, len(errors))


def main() -> None:
    series = read_series()
    all_series = list(series.values())
    out = sys.stdout.write
    out("group     age of list  rule      within 10 % of the cheapest  mean error  prices inside the interval\n")
    for group, machines in GROUPS.items():
        members = [one for name, one in series.items() if name.split()[0] in machines]
        assert all((one.family in ACCELERATED) == (group != "8 vCPUs") for one in members)
        for age in AGES_DAYS:
            for rule, drifts in (("listed", False), ("planned", True)):
                tally = replay(members, all_series, age, drifts=drifts)
                out(
                    f"{group:<8}  {age:>8} d  {rule:<8}  {tally.near / tally.weeks:>25.0%}  "
                    f"{statistics.mean(tally.errors):>10.1%}  {tally.covered / tally.prices:>25.0%}\n"
                )


if __name__ == "__main__":
    main()
