"""How often a provider whose prices alone are known is cheaper: the cheapest row of each example job, with and without.

`python -m benchmarks.estimate_only` prints a line a job for all markets and one for on demand alone, then the shares.
Nothing is asked or launched; the prices are those of the package.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.start_up import PLAN, ROOT
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.free_places import free_providers
from trainplan.providers.registry import CLOUDS, is_estimated_only

JOBS = sorted((ROOT / "examples").glob("*.yaml"))


def cheapest(job: Path, providers: Iterable[str], home: str, *options: str) -> dict[str, Any]:
    """The row of a job with the lowest cost at these providers."""
    names = [word for name in providers for word in ("--provider", name)]
    words = [str(PLAN), "estimate", str(job), "--json", *names, *options]
    done = subprocess.run(words, env={**os.environ, "PLAN_HOME": home}, capture_output=True, check=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout)["candidates"]
    return min(rows, key=lambda row: row["cost_usd"])


def main() -> None:
    """Print the rows and the shares."""
    with Catalog.open() as catalog:
        others = [name for name in catalog.rates if is_estimated_only(name) and name not in free_providers()]
    print(f"{', '.join(CLOUDS)}; beside them {', '.join(sorted(others))}")
    with tempfile.TemporaryDirectory() as home:
        for options in ((), ("--market", "on_demand")):
            changed = 0
            for job in JOBS:
                before, after = cheapest(job, CLOUDS, home, *options), cheapest(job, [*CLOUDS, *others], home, *options)
                changed += after["provider"] in others
                both = [f"{row['provider']} {row['instance_type']} ${row['cost_usd']:.3f}" for row in (before, after)]
                print(f"{job.stem}: {both[0]} -> {both[1]}")
            print(
                f"{' '.join(options) or 'all markets'}: another row is the cheapest for {changed} of {len(JOBS)} jobs"
            )


if __name__ == "__main__":
    main()
