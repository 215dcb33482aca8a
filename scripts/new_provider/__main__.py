"""`python -m scripts.new_provider NAME --estimate-only`, `NAME`, or `NAME --package FOLDER`.

Writes the files that a new provider needs, and prints what is to be filled in and done then. Nothing that is there is
written over. What is not filled in fails by name: words in CAPITALS of a price table are refused with file and line by
`python -m trainplan.pricing.compile`, and a method of provider.py that is not written says so when it is called.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from trainplan.pricing.tables import OFFER_COLUMNS, SOURCE_COLUMNS, TYPE_COLUMNS
from trainplan.providers.registry import FACTORIES

ROOT = Path(__file__).parents[2]
TEMPLATES = Path(__file__).parent / "templates"
PRICES = Path("pricing") / "data"
NAME = re.compile(r"[a-z][a-z0-9_]*")
"""A provider's name is a folder, a Python package and a table of the settings."""

_RATES = """
[[provider]]
name = "{name}"
disk = ""
address = ""
billing_increment_seconds = "SECONDS"
billing_minimum_seconds = "SECONDS"
billing_source = "WHERE"
"""
_ESTIMATE_ONLY = """\
Fill in the words in CAPITALS, and write a row more for each machine and region:
  {prices}/offers/{name}.csv      what each machine costs, where, and the day on which that was read
  {prices}/instance_types.csv     what each machine is: its last row
  {prices}/sources.csv            where the prices were read: its last row
  {prices}/rates.toml             how {name} rounds time: its last table
python -m trainplan.pricing.compile refuses what is not filled in, with its line. Then:
  plan estimate --model vgg16 --dataset cifar10 --provider {name}
  pytest tests/contract/test_estimate_only.py tests/unit/pricing/test_shipped_offers.py --update-golden
"""
_LAUNCHING = """\
Write the methods of {folder}/provider.py; each says what it is to do when it is called. Then:
  providers/registry.py           a row in VENDORS:
                                  Vendor(name="{name}", make="trainplan.providers.{name}.provider:make")
  pyproject.toml                  trainplan.providers.{name} in the two import rules that name vendors' folders
  tests/contract/{name}.py        a harness (tests/contract/harness.py says what it needs), with a row in HARNESSES
  pytest tests/contract/test_provider.py tests/unit/test_vendors.py
"""
_PACKAGE = """\
Write the methods of {folder}/trainplan_{name}/provider.py; each says what it is to do when it is called. Then:
  pip install -e {folder}
  plan doctor {name}
"""


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Write the files below `root`, or below the folder of --package. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scripts.new_provider", description="Write a new provider's files")
    parser.add_argument("name", help="lower-case letters, digits and _, for example acme")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--estimate-only", action="store_true", help="its prices alone: nothing is launched there")
    kind.add_argument("--package", type=Path, metavar="FOLDER", help="a package of its own, outside this repository")
    asked = parser.parse_args(arguments)
    try:
        sys.stdout.write(_write(asked.name, root, asked.package, estimate_only=asked.estimate_only))
    except ValueError as error:
        parser.error(str(error))
    return 0


def _write(name: str, root: Path, package: Path | None, *, estimate_only: bool) -> str:
    """Write the files; what is to be done then. Raises ValueError for a name or folder that is taken."""
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r}: a name is lower-case letters, digits and _, and begins with a letter")
    if name in FACTORIES:
        raise ValueError(f"there is a provider {name} already: providers/{name}")
    if estimate_only:
        write_prices(name, root / PRICES)
        return _ESTIMATE_ONLY.format(name=name, prices=PRICES.as_posix())
    if package is None:
        write_modules(
            root / "providers" / name, {"name": name, "package": f"trainplan.providers.{name}"}, "__init__.py"
        )
        return _LAUNCHING.format(name=name, folder=f"providers/{name}")
    values = {"name": name, "package": f"trainplan_{name}"}
    write_modules(package / f"trainplan_{name}", values, "package_init.py")
    _new(package / "pyproject.toml", _filled("pyproject.toml", values))
    return _PACKAGE.format(name=name, folder=package)


def write_prices(name: str, prices: Path) -> None:
    """An offers table with one row to fill in, and a row in each table that it refers to. Raises ValueError where
    there are offers of this provider."""
    source = f"{name}-list"
    offer = {"region": "REGION", "instance_type": "MACHINE", "on_demand_usd_per_hour": "USD"}
    offer |= {"on_demand_as_of": "DAY", "on_demand_source": source}
    machine = {"provider": name, "instance_type": "MACHINE", "family": "MACHINE", "cpu_architecture": "x86_64"}
    machine |= {"device": "DEVICE", "device_count": "1", "device_fraction": "1", "device_memory_gib": "GIB"}
    machine |= {"vcpus": "VCPUS", "memory_gib": "GIB", "hosts": "1", "state": "active"}
    text = f"{','.join(OFFER_COLUMNS)}\n{_csv_row(OFFER_COLUMNS, offer)}"
    _new(prices / "offers" / f"{name}.csv", text)
    _append(prices / "instance_types.csv", _csv_row(TYPE_COLUMNS, machine))
    _append(prices / "sources.csv", _csv_row(SOURCE_COLUMNS, {"id": source, "kind": "KIND", "text": "WHERE"}))
    _append(prices / "rates.toml", _RATES.format(name=name))


def write_modules(folder: Path, values: Mapping[str, str], init: str) -> None:
    """The modules of a provider that launches. Raises ValueError where the folder is there."""
    if folder.exists():
        raise ValueError(f"{folder} is there already")
    for module in ("provider.py", "settings.py", "api.py", "errors.py"):
        _new(folder / module, _filled(module, values))
    _new(folder / "__init__.py", _filled(init, values))


def _filled(template: str, values: Mapping[str, str]) -> str:
    title = "".join(part.capitalize() for part in values["name"].split("_"))
    return Template((TEMPLATES / f"{template}.txt").read_text("utf-8")).substitute(values, title=title)


def _csv_row(columns: Sequence[str], values: Mapping[str, str]) -> str:
    row = io.StringIO()
    csv.DictWriter(row, columns, restval="", lineterminator="\n").writerow(values)
    return row.getvalue()


def _new(path: Path, text: str) -> None:
    if path.exists():
        raise ValueError(f"{path} is there already")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8", newline="") as table:
        table.write(text)


if __name__ == "__main__":
    sys.exit(main())
