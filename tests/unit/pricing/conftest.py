"""Small catalogs, compiled from text that a test can read whole."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import pytest

from tests.builders import write_rows
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.compile import TEXT_DIR, compile_catalog
from trainplan.pricing.side_rates import EVERYWHERE, GB_MONTH, HOUR
from trainplan.pricing.side_rates_text import GROUP_COLUMNS, REGION_GROUPS, SIDE_RATE_COLUMNS, SIDE_RATES
from trainplan.pricing.table_text import TableError
from trainplan.pricing.tables import OFFER_COLUMNS, SOURCE_COLUMNS, TYPE_COLUMNS

TODAY = date(2026, 11, 21)

_TYPE = {
    "cpu_architecture": "x86_64",
    "device": "T4",
    "device_count": "1",
    "device_fraction": "1",
    "device_memory_gib": "16",
    "vcpus": "4",
    "memory_gib": "16",
    "hosts": "1",
    "state": "active",
}
_SOURCES = (
    ("list", "listed", "the vendor's list"),
    ("market", "observed", "the market"),
    ("ratio", "derived", "another region's price"),
    ("advisor", "estimated", "a share of on demand"),
)


def _side_rates() -> list[dict[str, str]]:
    """Each disk and address that rates.toml names, a tenth of a dollar everywhere."""
    providers = tomllib.loads((TEXT_DIR / "rates.toml").read_text(encoding="utf-8"))["provider"]
    return [
        a_side_rate(row["name"], row[what], "0.1", per=per)
        for row in providers
        for what, per in (("disk", GB_MONTH), ("address", HOUR))
        if row[what]
    ]


def a_side_rate(provider: str, kind: str, usd: str, **columns: str) -> dict[str, str]:
    """A row of the table of side rates: of every region, read on 2026-10-01, unless `columns` says otherwise."""
    row = {"provider": provider, "kind": kind, "region": EVERYWHERE, "to": "", "usd": usd, "per": GB_MONTH}
    return row | {"as_of": "2026-10-01", "source": "list"} | columns


@dataclass
class TextDir:
    """The text tables of a catalog in the making."""

    path: Path
    types: list[dict[str, str]] = field(default_factory=list)
    offers: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    side_rates: list[dict[str, str]] = field(default_factory=_side_rates)
    groups: list[dict[str, str]] = field(default_factory=list)

    def add_type(self, name: str, *, provider: str = "aws", **columns: str) -> None:
        """An active x86 machine with one T4, unless `columns` says otherwise."""
        family = {"family": name.split(".")[0], "provider": provider, "instance_type": name}
        self.types.append(_TYPE | family | columns)

    def add_offer(self, region: str, name: str, *, provider: str = "aws", **columns: str) -> None:
        """A row of the provider's offers table."""
        self.offers.setdefault(provider, []).append({"region": region, "instance_type": name} | columns)

    def compile(self) -> Path:
        """The compiled file."""
        for name in ("devices.toml", "rates.toml", "restricted_regions.csv"):
            (self.path / name).write_bytes((TEXT_DIR / name).read_bytes())
        write_rows(
            self.path / "sources.csv", SOURCE_COLUMNS, [dict(zip(SOURCE_COLUMNS, s, strict=True)) for s in _SOURCES]
        )
        write_rows(self.path / "instance_types.csv", TYPE_COLUMNS, self.types)
        write_rows(self.path / SIDE_RATES, SIDE_RATE_COLUMNS, self.side_rates)
        write_rows(self.path / REGION_GROUPS, GROUP_COLUMNS, self.groups)
        (self.path / "offers").mkdir(exist_ok=True)
        for provider, rows in self.offers.items():
            write_rows(self.path / "offers" / f"{provider}.csv", OFFER_COLUMNS, rows)
        target = self.path / "catalog.sqlite"
        compile_catalog(self.path, target)
        return target


def on_demand(usd: str, as_of: str = "2026-10-01", source: str = "list") -> dict[str, str]:
    """The columns of an on-demand price."""
    return {"on_demand_usd_per_hour": usd, "on_demand_as_of": as_of, "on_demand_source": source}


def spot(usd: str, as_of: str = "2026-11-01", source: str = "market", text: str = "") -> dict[str, str]:
    """The columns of a spot price."""
    return {"spot_usd_per_hour": usd, "spot_as_of": as_of, "spot_source": source, "spot_as_of_text": text}


@pytest.fixture
def text_dir(tmp_path: Path) -> TextDir:
    """Empty tables (with the shipped devices and rates)."""
    return TextDir(tmp_path)


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Opens catalogs and closes them after the test."""
    with ExitStack() as stack:
        yield Opened(stack)


@dataclass
class Opened:
    """Catalogs that are closed after the test."""

    stack: ExitStack

    def __call__(self, path: Path | None = None) -> Catalog:
        return self.stack.enter_context(Catalog.open(path))


@pytest.fixture(scope="session")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    """The shipped text, compiled afresh."""
    target = tmp_path_factory.mktemp("catalog") / "catalog.sqlite"
    try:
        compile_catalog(TEXT_DIR, target)
    except TableError as error:  # once, not in every test that wants the catalog
        pytest.exit(f"the catalog does not compile: {error}", returncode=1)
    with Catalog.open(target) as catalog:
        yield catalog
