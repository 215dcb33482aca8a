"""How long `plan estimate` takes beside the imports that it cannot do without, and when the world has grown.

Each run estimates a job that nobody has seen before, from a home that does not exist, and fails where a process or a
file is left behind: no run can profit from another. Every round runs all cases one after the other, so that a busy
machine slows all of them alike; a limit is a ratio of two medians, and both the wall clock and the processor time are
held to it.

The catalogs of 4,000 and of 100,000 offers are seeded, synthetic and never shipped: the shipped machine types in
made-up regions, four zones each with a spot price of its own, written as text and compiled like the shipped one.

Exits with 1 where a limit is passed: `python benchmarks/catalog_scale.py [--runs N]`.
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random

from benchmarks.start_up import JOB, PLAN, ROOT, Figures

IMPORTS = "import typer, pydantic, rich, yaml"
AT_WORK = "the same, and one option and one model"
"""typer and pydantic import most of themselves when they are first used: the least that any command line with an option
and a checked value takes."""
_AT_WORK = """
import os
os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
import typer, pydantic, rich, yaml
from typing import Annotated
class Value(pydantic.BaseModel):
    name: str
app = typer.Typer(rich_markup_mode=None)
@app.command()
def command(name: Annotated[str, typer.Argument()]) -> None:
    Value.model_validate({"name": name})
typer.main.get_command(app).main(args=["a"], standalone_mode=False)
"""
FEW, MANY = "plan estimate, 4,000 offers", "plan estimate, 100,000 offers"
REGIONS = {FEW: 4, MANY: 107}
ZONES = "abcd"
SEED = 20261121


@dataclass(frozen=True)
class Case:
    """A command line; `most` is the other case that it is held against, and how many times as long it may take."""

    name: str
    arguments: tuple[str, ...]
    most: tuple[str, float] | None = None
    limit_mib: float | None = None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--compile", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--regions", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.compile:
        make(options.compile, options.regions)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        catalogs = {name: _compiled(Path(folder) / f"{regions}.sqlite", regions) for name, regions in REGIONS.items()}
        rows = cases(catalogs[FEW], catalogs[MANY])
        passed = report(measured(rows, options.runs, Path(folder)), rows)
    return 0 if passed else 1


def _compiled(target: Path, regions: int) -> Path:
    # In a process of its own: what this one ever held would count as the peak of those it starts.
    again = [sys.executable, __file__, "--compile", str(target), "--regions", str(regions)]
    subprocess.run(again, check=True)
    print(f"{regions} regions: {count(target):,} offers, {target.stat().st_size / 2**20:.1f} MiB")
    return target


def cases(few: Path, many: Path) -> list[Case]:
    """`JOB` stands for a job file that is written anew for each run."""
    estimate = (str(PLAN), "estimate", "JOB")
    of_many = (*estimate, "--catalog", str(many))
    return [
        Case(IMPORTS, (sys.executable, "-c", IMPORTS)),
        Case(AT_WORK, (sys.executable, "-c", _AT_WORK)),
        Case("plan estimate", estimate, (AT_WORK, 1.7), 80),
        Case("plan estimate --json", (*estimate, "--json"), None, 120),
        Case(FEW, (*estimate, "--catalog", str(few))),
        Case(MANY, of_many, (FEW, 1.3), 120),
        Case("the same, one device of one provider", (*of_many, "--device", "T4", "--provider", "aws"), None, 120),
        Case("the same, --include-retired", (*of_many, "--include-retired"), None, 120),
        Case("the same, every placement as JSON", (*of_many, "--json")),
    ]


def measured(rows: list[Case], runs: int, folder: Path) -> dict[str, list[Figures]]:
    """Whole processes, in turns; the first round, which may compile byte code, is not counted."""
    figures: dict[str, list[Figures]] = {row.name: [] for row in rows}
    for number in range(runs + 1):
        for position, row in enumerate(rows):
            one = _fresh(row, folder / f"{number}-{position}", seed=number * len(rows) + position)
            if number:
                figures[row.name].append(one)
    return figures


def _fresh(row: Case, folder: Path, seed: int) -> Figures:
    """One run of a job of its own, from a folder of its own. Exits where it leaves a file behind."""
    folder.mkdir()
    job = folder / "job.yaml"
    job.write_text(f"{JOB.read_text(encoding='utf-8')}\nseed: {seed}\n".replace("epochs: 90", f"epochs: {90 + seed}"))
    arguments = tuple(str(job) if word == "JOB" else word for word in row.arguments)
    figures = once(row.name, arguments, os.environ | {"PLAN_HOME": str(folder / "home")})
    if sorted(folder.iterdir()) != [job]:
        raise SystemExit(f"{row.name} left a file behind")
    return figures


def once(name: str, arguments: tuple[str, ...], environment: dict[str, str]) -> Figures:
    """One whole process. Exits where it fails, or leaves another process behind."""
    began = time.perf_counter()
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, env=environment, start_new_session=True)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{name} ended with {process.returncode}")
    if _lives(process.pid):
        raise SystemExit(f"{name} left a process behind")
    return Figures(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def _lives(group: int) -> bool:
    """Whether a process of the group is there."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def report(figures: dict[str, list[Figures]], rows: list[Case]) -> bool:
    """Prints a line a case, with wall clock and processor time as multiples of the imports' alone."""
    medians = {name: _medians(runs) for name, runs in figures.items()}
    passed = True
    for row in rows:
        own = medians[row.name]
        times = _ratios(own, medians[IMPORTS])
        line = f"{row.name:38} {own.wall_seconds:6.3f} s wall {own.cpu_seconds:6.3f} s cpu {own.peak_mib:4.0f} MiB"
        line += f"  {times[0]:5.2f} and {times[1]:5.2f} times the imports"
        missed = row.limit_mib is not None and own.peak_mib > row.limit_mib
        if row.most:
            other, most = row.most
            times = _ratios(own, medians[other])
            missed = missed or max(times) > most
            line += f"; {times[0]:.2f} and {times[1]:.2f} times (at most {most}): {other}"
        passed = passed and not missed
        print(f"{line}{'  MISSED' if missed else ''}")
    return passed


def _ratios(one: Figures, other: Figures) -> tuple[float, float]:
    return one.wall_seconds / other.wall_seconds, one.cpu_seconds / other.cpu_seconds


def _medians(runs: list[Figures]) -> Figures:
    return Figures(
        statistics.median(run.wall_seconds for run in runs),
        statistics.median(run.cpu_seconds for run in runs),
        max(run.peak_mib for run in runs),
    )


def count(catalog: Path) -> int:
    with closing(sqlite3.connect(catalog)) as connection:
        return int(connection.execute("SELECT count(*) FROM placement").fetchone()[0])


def make(target: Path, regions: int) -> None:
    """The synthetic text, compiled. The same seed and number of regions give the same text."""
    from trainplan.pricing.compile import compile_catalog
    from trainplan.pricing.tables import OFFER_COLUMNS

    shipped, random = ROOT / "pricing" / "data", Random(SEED)
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder)
        (text / "offers").mkdir()
        copied = ("devices.toml", "rates.toml", "restricted_regions.csv", "instance_types.csv")
        for name in (*copied, "side_rates.csv", "region_groups.csv"):
            shutil.copy(shipped / name, text / name)
        sources = (shipped / "sources.csv").read_text(encoding="utf-8")
        sources += "list,listed,made up\nmarket,observed,made up\n"
        (text / "sources.csv").write_text(sources, encoding="utf-8")
        for path in sorted((shipped / "offers").glob("*.csv")):
            with (text / "offers" / path.name).open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, OFFER_COLUMNS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(_rows(_prices(path), regions, random))
        compile_catalog(text, target)


def _prices(path: Path) -> dict[str, Decimal]:
    """A price of each machine type that has one, in the order of the file."""
    prices: dict[str, Decimal] = {}
    with path.open(encoding="utf-8", newline="") as text:
        for row in csv.DictReader(text):
            price = row["on_demand_usd_per_hour"] or row["spot_usd_per_hour"]
            prices.setdefault(row["instance_type"], Decimal(price))
    return prices


def _rows(prices: dict[str, Decimal], regions: int, random: Random) -> list[dict[str, str]]:
    rows = []
    for number in range(regions):
        region = f"made-up-{number:03}"
        for name, usd in prices.items():
            here = (usd * Decimal(random.randint(80, 150)) / 100).quantize(Decimal("0.000001"))
            row = {"region": region, "instance_type": name}
            dated = {"on_demand_as_of": "2026-11-01", "on_demand_source": "list"}
            rows.append({**row, "on_demand_usd_per_hour": str(here), **dated})
            for zone in ZONES:
                spot = (here * Decimal(random.randint(25, 90)) / 100).quantize(Decimal("0.000001"))
                of_zone = {"zones": f"{region}{zone}", "spot_usd_per_hour": str(max(spot, Decimal("0.000001")))}
                ground = {"spot_as_of": f"2026-11-{random.randint(1, 20):02}", "spot_source": "market"}
                rows.append({**row, **of_zone, **ground, "spot_interruption_bucket": str(random.randint(0, 4))})
    return rows


if __name__ == "__main__":
    raise SystemExit(main())
