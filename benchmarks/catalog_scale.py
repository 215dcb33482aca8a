"""How the command answers when the world has grown: a seeded synthetic catalog of more than 100,000 offers.

It is made of the shipped machine types in made-up regions, four zones each with a spot price of its own, is written as
text and compiled like the shipped one, and is never shipped. Every round runs all cases and a fixed piece of Python
work one after the other, so that a busy machine slows all of them alike: `ratio` is a case's time over that work's.
Limits are held against processor time, which is what an idle machine's clock would show: the command waits for nothing.

Exits with 1 where a limit is passed: `python benchmarks/catalog_scale.py [--runs N] [--regions N]`.
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
from decimal import Decimal
from pathlib import Path
from random import Random

from start_up import JOB, PLAN, ROOT, Case, Figures

BASELINE = "import typer, pydantic, yaml"
ZONES = "abcd"
SEED = 20261121


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--regions", type=int, default=120)
    parser.add_argument("--compile", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.compile:
        make(options.compile, options.regions)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        big = Path(folder) / "big.sqlite"
        began = time.perf_counter()
        # In a process of its own: what this one ever held would count as the peak of those it starts.
        again = [sys.executable, __file__, "--compile", str(big), "--regions", str(options.regions)]
        subprocess.run(again, check=True)
        offers = count(big)
        seconds = time.perf_counter() - began
        print(f"{offers:,} offers, {big.stat().st_size / 2**20:.1f} MiB, made and compiled in {seconds:.1f} s")
        rows = cases(big)
        environment = os.environ | {"PLAN_HOME": str(Path(folder) / "home")}
        passed = report(measured(rows, options.runs, environment), rows)
    return 0 if passed and offers >= 100_000 else 1


def cases(big: Path) -> list[Case]:
    estimate = (str(PLAN), "estimate", str(JOB))
    of_big = (*estimate, "--catalog", str(big))
    return [
        Case(BASELINE, (sys.executable, "-c", BASELINE), None),
        Case("plan estimate, shipped", estimate, 0.20, 120),
        Case("plan estimate, 100,000 offers", of_big, 0.40, 120),
        Case("the same, one device of one provider", (*of_big, "--device", "T4", "--provider", "aws"), 0.40, 120),
        Case("the same, --include-retired", (*of_big, "--include-retired"), 0.40, 120),
        Case("the same, every place as JSON", (*of_big, "--json"), None, 120),
    ]


def measured(rows: list[Case], runs: int, environment: dict[str, str]) -> dict[str, list[Figures]]:
    """Whole processes, in turns; the first round, which may compile byte code, is not counted."""
    found: dict[str, list[Figures]] = {row.name: [] for row in rows}
    for number in range(runs + 1):
        for row in rows:
            figures = once(row, environment)
            if number:
                found[row.name].append(figures)
    return found


def once(row: Case, environment: dict[str, str]) -> Figures:
    began = time.perf_counter()
    process = subprocess.Popen(row.arguments, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{row.name} ended with {process.returncode}")
    wall = time.perf_counter() - began
    return Figures(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def report(found: dict[str, list[Figures]], rows: list[Case]) -> bool:
    fixed = statistics.median(one.cpu_seconds for one in found[BASELINE])
    passed = True
    for row in rows:
        wall = statistics.median(one.wall_seconds for one in found[row.name])
        busy = statistics.median(one.cpu_seconds for one in found[row.name])
        peak = max(one.peak_mib for one in found[row.name])
        late = row.limit_seconds is not None and busy > row.limit_seconds
        large = row.limit_mib is not None and peak > row.limit_mib
        passed = passed and not late and not large
        limit = f"  (at most {row.limit_seconds:.2f} s, {row.limit_mib} MiB)" if row.limit_seconds else ""
        figures = f"{wall:6.3f} s wall {busy:6.3f} s cpu {peak:4.0f} MiB  ratio {busy / fixed:5.2f}"
        print(f"{row.name:37} {figures}{limit}{'  MISSED' if late or large else ''}")
    return passed


def count(catalog: Path) -> int:
    with closing(sqlite3.connect(catalog)) as connection:
        return int(connection.execute("SELECT count(*) FROM place").fetchone()[0])


def make(target: Path, regions: int) -> None:
    """The synthetic text, compiled. The same seed and number of regions give the same text."""
    from pricing.compile import compile_catalog
    from pricing.tables import OFFER_COLUMNS

    shipped, random = ROOT / "pricing" / "data", Random(SEED)
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder)
        (text / "offers").mkdir()
        for name in ("devices.toml", "rates.toml", "restricted_regions.csv", "instance_types.csv"):
            shutil.copy(shipped / name, text / name)
        sources = "id,kind,text\nlist,listed,made up\nmarket,observed,made up\n"
        (text / "sources.csv").write_text(sources, encoding="utf-8")
        for path in sorted((shipped / "offers").glob("*.csv")):
            with (text / "offers" / path.name).open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, OFFER_COLUMNS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(_rows(_prices(path), regions, random))
        compile_catalog(text, target)


def _prices(path: Path) -> dict[str, Decimal]:
    """A price of each machine type that has one, in the order of the file."""
    found: dict[str, Decimal] = {}
    with path.open(encoding="utf-8", newline="") as text:
        for row in csv.DictReader(text):
            price = row["on_demand_usd_per_hour"] or row["spot_usd_per_hour"]
            found.setdefault(row["instance_type"], Decimal(price))
    return found


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
                told = {"spot_as_of": f"2026-11-{random.randint(1, 20):02}", "spot_source": "market"}
                rows.append({**row, **of_zone, **told, "spot_interruption_bucket": str(random.randint(0, 4))})
    return rows


if __name__ == "__main__":
    raise SystemExit(main())
