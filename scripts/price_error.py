"""`python -m scripts.price_error`: how far planned spot prices are off, as docs/accuracy.md has it.

Each price is planned by the rules of pricing/planning.py with what is fitted to other regions, or to earlier days: the
region that is asked about, or the time, is held out. Beside it stands what was read there. `--write` puts the table
into the page, and says which ends `planning.SHARE_SPREAD` must have.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from scripts.spot_drift import (
    PAIRS_SINCE,
    PAIRS_UNTIL,
    Fitted,
    Series,
    Zoned,
    fitted,
    fitted_zones,
    read_series,
    read_zones,
)
from trainplan.pricing.grades import percentile
from trainplan.pricing.money import from_micro, to_micro
from trainplan.pricing.planning import (
    LEAST_REGIONS,
    MILLION,
    NEVER,
    SHARE_SPREAD,
    Drift,
    Ground,
    PriceSpread,
    Share,
    planning_micro,
    share_of,
    spread,
)

PAGE = Path(__file__).parents[1] / "docs" / "accuracy.md"
HEAD = (
    "| planned from | held out | prices | planned over read: a tenth | middle | nine tenths | the 80 % holds |\n"
    "|---|---|---|---|---|---|---|\n"
)
DAYS = (90, 150, 200, 300)
"""How old the lists are with which Google's prices are planned."""
CUT = date(2025, 7, 1)
"""Google's drift is fitted to what was known on that day, and held against what came after."""


class Trial(NamedTuple):
    """A price as it was planned, the ends that it should lie between, and what was read, in USD per hour."""

    planned: float
    low: float
    high: float
    read: float

    @property
    def holds(self) -> bool:
        """Whether it lies between the ends, to the ten-thousandth that prices are published in."""
        return self.low - 0.0001 <= self.read <= self.high + 0.0001


def trial(ground: Ground, drift: Drift, today: date, on_demand_usd: float, read_usd: float, raw_usd: float) -> Trial:
    """A price planned as the catalog plans it, beside what was read on that day."""
    on_demand = to_micro(Decimal(str(on_demand_usd)))
    micro = planning_micro(ground, on_demand, drift, today, as_listed=False)
    assert micro is not None
    planned = float(from_micro(micro))
    ends = spread(ground, drift, today, PriceSpread(min(1.0, raw_usd / planned), on_demand_usd / planned))
    return Trial(planned, planned * ends.low, planned * ends.high, read_usd)


def own_prices(zones: Sequence[Zoned]) -> Iterator[Trial]:
    """A region's own price of 197 days ago, with the drift of the other regions."""
    for one, others in _held_out(zones):
        if one.later_usd is not None:
            micro = to_micro(Decimal(str(one.lowest_usd)))
            own = Ground(micro, NEVER, PAIRS_SINCE.toordinal(), micro)
            drift = _drift(fitted_zones(others))
            yield trial(own, drift, PAIRS_UNTIL, one.on_demand_usd, one.later_usd, one.lowest_usd)


def shares(zones: Sequence[Zoned], *, later: bool) -> Iterator[Trial]:
    """A region without a price of its own: the family's share of on demand in the others, on the day of these prices or
    `later`, 197 days after."""
    for one, others in _held_out(zones):
        share, read = _share(one, others), one.later_usd if later else one.lowest_usd
        if share is not None and read is not None:
            micro = to_micro(Decimal(str(one.on_demand_usd))) * share.ppm // MILLION
            ground = Ground(micro, NEVER, share.read_day, micro, is_share=True)
            today = PAIRS_UNTIL if later else PAIRS_SINCE
            planned = float(from_micro(micro))
            yield trial(ground, _drift(fitted_zones(others)), today, one.on_demand_usd, read, planned)


def share_ends(zones: Sequence[Zoned]) -> PriceSpread:
    """Where a region's own price lies 8 times of 10 beside what the share of its family in the others says."""
    tried = [Decimal(str(one.read / one.planned)) for one in shares(zones, later=False)]
    low, high = (round(float(percentile(tried, Decimal(end))), 2) for end in ("0.1", "0.9"))
    return PriceSpread(low, high)


def google(series: Sequence[Series]) -> Iterator[Trial]:
    """Google's lists of 90 to 300 days ago, with the drift that was known in the middle of 2025."""
    families: defaultdict[str, list[Series]] = defaultdict(list)
    for one in series:
        families[one.family].append(one)
    for members in families.values():
        fit = fitted(members, until=CUT)
        if fit is not None:
            for one in members:
                yield from _later(one, _drift(fit))


def _later(series: Series, drift: Drift) -> Iterator[Trial]:
    """The prices after `CUT`, a week apart, each planned with lists of `DAYS` before."""
    day = CUT
    while day <= series.days[-1]:
        for days in DAYS:
            listed, read = series.on(day - timedelta(days=days)), series.on(day)
            if listed is not None and read is not None:
                micro = to_micro(Decimal(str(listed)))
                ground = Ground(micro, NEVER, (day - timedelta(days=days)).toordinal(), micro)
                yield trial(ground, drift, day, 100 * listed, read, listed)
        day += timedelta(days=7)


def table() -> str:
    """The table of docs/accuracy.md."""
    zones, series = read_zones(), list(read_series().values())
    trials = {
        ("a region's own price, AWS, 197 days old", "the region"): own_prices(zones),
        ("the family's share, AWS, of the same days", "the region"): shares(zones, later=False),
        ("the family's share, AWS, 197 days old", "the region"): shares(zones, later=True),
        ("a list, Google, 90 to 300 days old", f"all after {CUT}"): google(series),
    }
    return HEAD + "".join(_row(*what, list(found)) for what, found in trials.items())


def _row(what: str, held_out: str, trials: Sequence[Trial]) -> str:
    over = [Decimal(str(one.planned / one.read)) for one in trials]
    quantiles = " | ".join(f"{percentile(over, Decimal(share)):.2f}" for share in ("0.1", "0.5", "0.9"))
    holds = sum(one.holds for one in trials) / len(trials)
    return f"| {what} | {held_out} | {len(trials):,} | {quantiles} | {holds:.0%} |\n"


def _held_out(zones: Sequence[Zoned]) -> Iterator[tuple[Zoned, list[Zoned]]]:
    """Each price beside those of the other regions."""
    others = {region: [one for one in zones if one.region != region] for region in {one.region for one in zones}}
    for one in zones:
        yield one, others[one.region]


def _share(one: Zoned, others: Iterable[Zoned]) -> Share | None:
    """The share of on demand that the family has in the other regions; None of too few."""
    family = [other for other in others if other.family == one.family]
    if len({other.region for other in family}) < LEAST_REGIONS:
        return None
    return share_of([(Decimal(str(other.lowest_usd / other.on_demand_usd)), PAIRS_SINCE) for other in family])


def _drift(fit: Fitted) -> Drift:
    return Drift(fit.ppm_per_day, fit.low, fit.high)


def page_with(page: str, made: str) -> str:
    """The page with the table in the place of the one that it has."""
    before, _, rest = page.partition(HEAD)
    rows = [line for line in rest.splitlines(keepends=True) if line.startswith("|")]
    return before + made + rest.removeprefix("".join(rows[: made.count("\n") - HEAD.count("\n")]))


def main(arguments: Sequence[str], write: Callable[[str], object] = sys.stdout.write) -> None:
    """Print the table, and with `--write` put it into the page."""
    made = table()
    write(f"{made}share ends {tuple(share_ends(read_zones()))}, planning.SHARE_SPREAD {tuple(SHARE_SPREAD)}\n")
    if "--write" in arguments:
        PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8"), made), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
