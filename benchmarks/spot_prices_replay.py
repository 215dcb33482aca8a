"""How well a spot price of some days ago tells today's: `python benchmarks/spot_prices_replay.py [--history FILE.csv]`.

Replays dated series of Google's lists (tests/data/gcp_spot_history.csv, or a file with its columns or with columns as
`a2-highgpu-1g|us-central1|hour_spot`). Each week an offer is chosen with the list of that day, once by its prices as
they stand and once as pricing/planning.py plans them for 30, 60 or 90 days later, with drifts that were fitted to
earlier days alone. Printed are how often that offer is within 10 % of the cheapest of its group on the later day, how
much dearer it is in the mean and at worst, and how far the price was off. Machines of unlike speed are compared by
what an image of VGG16 costs on them.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

from scripts.spot_drift import HISTORY, Series, fitted
from trainplan.planner.throughput.nets import net_of
from trainplan.planner.throughput.predict import Predictor
from trainplan.planner.throughput.values import Question, Throughput
from trainplan.pricing.device_text import read_devices
from trainplan.pricing.planning import AS_LISTED, Drift, Ground, PriceSpread, planning_micro, spread

AGES_DAYS = (30, 60, 90)
WITHIN = 1.10
FIRST = date(2024, 1, 1)
"""From the first half-year on there is something to fit drifts to."""
DEVICES = Path(__file__).parents[1] / "pricing" / "data" / "devices.toml"
ALIKE = {
    "8 vCPUs": ("n1-standard-8", "n2-standard-8", "c2-standard-8", "e2-standard-8"),
    "A100": ("a2-highgpu-1g",),
    "L4": ("g2-standard-4",),
}
"""Machines that are taken to be as fast as each other."""
ACCELERATORS = {"a2-highgpu-1g": ("A100-40GB", 1), "g2-standard-4": ("L4", 1), "a3-highgpu-8g": ("H100", 8)}


class Planned(NamedTuple):
    """What a list says of a machine on a later day."""

    usd_per_hour: float
    ends: PriceSpread = AS_LISTED


class Tally(NamedTuple):
    """Of one group at one age: weeks, those near the cheapest, what the chosen one cost more than the cheapest, how far
    prices were off, and how many of them lay inside their interval."""

    weeks: int
    near: int
    dearer: tuple[float, ...]
    errors: tuple[float, ...]
    covered: int
    prices: int


def as_listed(series: Series, listed_on: date) -> Planned:
    usd = series.on(listed_on)
    assert usd is not None
    return Planned(usd)


def drift_until(family: str, all_series: Sequence[Series], until: date) -> Drift:
    """The drift that a family's series show up to a day; none where they are too short."""
    own = fitted([one for one in all_series if one.family == family], until=until)
    return Drift(0, 1.0, 1.0) if own is None else Drift(own.ppm_per_day, own.low, own.high)


def as_planned(series: Series, listed_on: date, day: date, drift: Drift) -> Planned:
    """The planning price on `day` of what was listed before, with the drift that earlier days show."""
    usd = series.on(listed_on)
    assert usd is not None
    micro = round(usd * 1_000_000)
    ground = Ground(micro, (listed_on + timedelta(days=30)).toordinal(), listed_on.toordinal())
    planned = planning_micro(ground, None, drift, day, as_listed=False)
    assert planned is not None
    return Planned(planned / 1_000_000, spread(ground, drift, day, PriceSpread(1.0, 100.0)))


def weeks(members: Sequence[Series], age_days: int) -> Iterator[tuple[date, date]]:
    """Each day of a plan with the day of its list."""
    first = max(FIRST, *(one.days[0] for one in members))
    day, last = first + timedelta(days=age_days), min(one.days[-1] for one in members)
    while day <= last:
        yield day, day - timedelta(days=age_days)
        day += timedelta(days=7)


def replay(
    members: Mapping[str, Series],
    all_series: Sequence[Series],
    age_days: int,
    speeds: Mapping[str, float],
    *,
    drifts: bool,
) -> Tally:
    """One group at one age of its list. `speeds` are by machine; the cheapest does its work at the least cost."""
    series = list(members.values())
    work = [speeds[name.split()[0]] for name in members]
    covered, dearer, errors = 0, [], []
    for day, listed_on in weeks(series, age_days):
        if drifts:
            drift = {family: drift_until(family, all_series, listed_on) for family in {one.family for one in series}}
            planned = [as_planned(one, listed_on, day, drift[one.family]) for one in series]
        else:
            planned = [as_listed(one, listed_on) for one in series]
        real = [one.on(day) or 0.0 for one in series]
        costs = [usd / speed for usd, speed in zip(real, work, strict=True)]
        chosen = min(range(len(series)), key=lambda number: planned[number].usd_per_hour / work[number])
        dearer.append(costs[chosen] / min(costs))
        for plan, usd in zip(planned, real, strict=True):
            errors.append(abs(plan.usd_per_hour / usd - 1))
            low, high = (plan.usd_per_hour * end for end in plan.ends)
            covered += low * 0.999 <= usd <= high * 1.001
    near = sum(times <= WITHIN for times in dearer)
    return Tally(len(dearer), near, tuple(dearer), tuple(errors), covered, len(errors))


def read_history(path: Path) -> dict[str, Series]:
    """The spot series of a file by `machine region`; columns of on-demand prices are left out."""
    with path.open(encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    found = {}
    for column in rows[0]:
        machine, _, rest = column.replace("|", " ").partition(" ")
        region, _, kind = rest.partition(" ")
        if column == "date" or kind not in ("", "hour_spot"):
            continue
        prices = [(date.fromisoformat(row["date"]), float(row[column])) for row in rows if row[column]]
        days, usd = zip(*prices, strict=True)
        found[f"{machine} {region}"] = Series(machine.split("-")[0], days, usd)
    return found


def speeds_of_accelerators() -> dict[str, float]:
    """Images a second of VGG16 at 224 px in mixed precision, batch 64 a device, by machine."""
    predictor, net = Predictor.open(read_devices(DEVICES)[0]), net_of("vgg16", 224)
    assert net is not None
    found = {}
    for machine, (device, count) in ACCELERATORS.items():
        asked = Question(
            net=net,
            device=device,
            device_count=count,
            interconnect="NVLink4" if count > 1 else None,
            vcpus=None,
            batch_per_device=64,
            precision="amp_fp16",
            xla=False,
            framework="tensorflow",
        )
        told = predictor.predict(asked)
        assert isinstance(told, Throughput)
        found[machine] = told.images_per_second
    predictor.close()
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--history", type=Path, default=HISTORY, help="dated series (default: %(default)s)")
    series = read_history(options.parse_args().history)
    all_series = list(series.values())
    groups = {name: dict.fromkeys(machines, 1.0) for name, machines in ALIKE.items()}
    groups["VGG16"] = speeds_of_accelerators()
    out = sys.stdout.write
    out("| group | placements | days later | rule | weeks | within 10 % of the cheapest | dearer, mean | worst ")
    out("| price off, mean | inside the interval |\n|---|---|---|---|---|---|---|---|---|---|\n")
    for group, speeds in groups.items():
        members = {name: one for name, one in series.items() if name.split()[0] in speeds}
        for age in AGES_DAYS:
            for rule, drifts in (("listed", False), ("planned", True)):
                told = replay(members, all_series, age, speeds, drifts=drifts)
                out(
                    f"| {group} | {len(members)} | {age} | {rule} | {told.weeks} | {told.near / told.weeks:.0%} "
                    f"| {statistics.mean(told.dearer) - 1:.1%} | {max(told.dearer) - 1:.0%} "
                    f"| {statistics.mean(told.errors):.1%} | {told.covered / told.prices:.0%} |\n"
                )


if __name__ == "__main__":
    main()
