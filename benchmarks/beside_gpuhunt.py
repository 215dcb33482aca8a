"""The same offers asked of this catalog and of gpuhunt's, cold, a process each and in turns: seconds, memory, ratios.

gpuhunt comes from PyPI into an environment of its own, since it is no dependency of anything here:
`python -m venv .build/gpuhunt && .build/gpuhunt/bin/pip install gpuhunt`, then `python benchmarks/beside_gpuhunt.py`.
It reads its offline catalog from a folder (GPUHUNT_CATALOG_DIR), which is written here from the very rows that the
synthetic catalog holds. `plan estimate` does more than either: it predicts, ranks and prints.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

from benchmarks.catalog_scale import make, once
from benchmarks.start_up import PLAN, ROOT, Case

GPUHUNT = ROOT / ".build" / "gpuhunt" / "bin" / "python"
TODAY = date(2026, 11, 21)
_FIELDS = (
    *("instance_name", "location", "price", "cpu", "memory", "gpu_count", "gpu_name", "gpu_memory", "spot"),
    *("disk_size", "gpu_vendor", "flags", "cpu_arch", "provider_data"),
)
_PROVIDERS = "['aws', 'azure', 'gcp']"
_THEIRS = f"""
from gpuhunt import Catalog
found = Catalog(balance_resources=False, auto_reload=False).query(provider={_PROVIDERS}, gpu_name='T4')
assert found, 'nothing was found'
"""
_OURS = """
from datetime import date
from pathlib import Path
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.offers import OfferQuery
with Catalog.open(Path({path!r})) as catalog:
    devices = frozenset(device.name for device in catalog.devices.find_all('T4'))
    found = catalog.offers(OfferQuery(devices=devices, include_retired=True), date(2026, 11, 21))
assert found, 'nothing was found'
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--regions", type=int, nargs="*", default=[19, 95, 120])
    parser.add_argument("--gpuhunt", type=Path, default=GPUHUNT, help="the Python that has it")
    parser.add_argument("--write", type=Path, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        catalog, regions = options.write
        make(catalog, int(str(regions)))
        print(write_theirs(catalog, catalog.parent / "gpuhunt"))
        return 0
    if not options.gpuhunt.is_file():
        print(f"there is no gpuhunt at {options.gpuhunt}; the first lines of this file tell how to get it")
        return 2
    for regions in options.regions:
        compare(regions, options.runs, options.gpuhunt)
    return 0


def compare(regions: int, runs: int, gpuhunt: Path) -> None:
    """One size of the world, all cases in turns."""
    with tempfile.TemporaryDirectory() as folder:
        catalog = Path(folder) / "big.sqlite"
        again = [sys.executable, __file__, "--write", str(catalog), str(regions)]
        offers = int(subprocess.run(again, check=True, capture_output=True, text=True).stdout)
        job = ("--model", "vgg16", "--dataset", "cifar10", "--device", "T4", "--catalog", str(catalog))
        cases = [
            Case("gpuhunt: query(gpu_name='T4')", (str(gpuhunt), "-c", _THEIRS), None),
            Case("here: Catalog.offers, device T4", (sys.executable, "-c", _OURS.format(path=str(catalog))), None),
            Case("here: plan estimate --device T4", (str(PLAN), "estimate", *job), None),
        ]
        environment = os.environ | {
            "PLAN_HOME": f"{folder}/home",
            "GPUHUNT_CATALOG_DIR": f"{folder}/gpuhunt",
            "PYTHONPATH": str(ROOT),
        }
        print(f"{offers:,} offers:")
        figures = [[once(case.name, case.arguments, environment) for case in cases] for _ in range(runs + 1)][1:]
        theirs = statistics.median(one[0].cpu_seconds for one in figures)
        for number, case in enumerate(cases):
            wall = statistics.median(one[number].wall_seconds for one in figures)
            busy = statistics.median(one[number].cpu_seconds for one in figures)
            peak = max(one[number].peak_mib for one in figures)
            times = f"{wall:6.3f} s wall {busy:6.3f} s cpu {peak:4.0f} MiB"
            print(f"  {case.name:32} {times}  {busy / theirs:5.2f} of gpuhunt's time")


def write_theirs(catalog: Path, folder: Path) -> int:
    """The rows of a catalog in gpuhunt's format, a file for each provider; returns how many there are."""
    from trainplan.pricing.catalog import Catalog
    from trainplan.pricing.offers import OfferQuery

    folder.mkdir()
    with Catalog.open(catalog) as opened:
        offers = opened.offers(OfferQuery(include_retired=True), TODAY)
    for provider in ("aws", "azure", "gcp"):
        with (folder / f"{provider}.csv").open("w", encoding="utf-8", newline="") as text:
            writer = csv.DictWriter(text, _FIELDS)
            writer.writeheader()
            writer.writerows(_row(offer) for offer in offers if offer.provider == provider)
    return len(offers)


def _row(offer: object) -> dict[str, object]:
    from trainplan.pricing.offers import Offer

    assert isinstance(offer, Offer)
    has_device = offer.device != "cpu"
    tpu = offer.device.startswith("TPU")
    return {
        "instance_name": offer.instance_type,
        "location": offer.zones[0] if offer.zones else offer.region,
        "price": offer.usd_per_hour,
        "cpu": offer.vcpus or 1,
        "memory": offer.memory_gib or 1,
        "gpu_count": offer.device_count if has_device else 0,
        "gpu_name": offer.device.replace(" ", "-").lower() if tpu else offer.device if has_device else "",
        "gpu_memory": offer.device_memory_gib or "",
        "spot": offer.market == "spot",
        "gpu_vendor": ("google" if tpu else "nvidia") if has_device else "",
        "cpu_arch": "arm" if offer.cpu_architecture == "arm64" else "x86",
        "provider_data": "{}",
    }


if __name__ == "__main__":
    raise SystemExit(main())
