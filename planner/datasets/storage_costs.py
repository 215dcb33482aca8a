"""What stays in object storage after a run, and what that costs per month."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.pricing.money import Usd, format_usd
from trainplan.providers.cloud.data_files import is_ours
from trainplan.providers.stores.files import stored_bytes

if TYPE_CHECKING:
    from trainplan.pricing.cost import ProviderRates
    from trainplan.providers.base import RunStore
    from trainplan.workloads.job import DataSpec

_CENT = Decimal("0.01")
_GB = 1_000_000_000
"""Vendors charge by 2^30 bytes and call it GB: what is said here is 7 % too much rather than too little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """`usd_per_month` is None where the vendor's rate is not known."""

    size_bytes: int
    usd_per_month: Usd | None

    def __str__(self) -> str:
        return stored_text(self.size_bytes, self.usd_per_month)

    @property
    def month(self) -> str:
        """What a month costs, in words."""
        return _month(self.usd_per_month)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stays:
    """`run` is the run directory; `data` the data set that was uploaded for the job, which other runs may use too."""

    run: Stored
    data: Stored | None = None


def stored(store: RunStore, rates: ProviderRates | None) -> Stored:
    """Return the size and cost of a whole run directory. Raises ProviderError."""
    return stored_cost(stored_bytes(store), rates)


def stays(store: RunStore, data: DataSpec, rates: ProviderRates) -> Stays:
    """What is left in storage of a run, and of the data that was put there for it. Raises ProviderError."""
    size = data.size_bytes if data.url is not None and is_ours(data.url) else None
    return Stays(run=stored(store, rates), data=stored_cost(size, rates) if size else None)


def rates_of(provider: str, home: Path) -> ProviderRates | None:
    """What a provider charges, as the catalog of the state folder has it; None for one that charges for no storage, or
    without a catalog."""
    from trainplan.pricing.catalog import Catalog, CatalogError
    from trainplan.pricing.current import current_catalog

    try:
        with Catalog.open(current_catalog(home)) as catalog:
            return catalog.rates.get(provider)
    except CatalogError:
        return None


def rate_text(rates: ProviderRates) -> str:
    """The rate and where it is from."""
    rate = rates.storage()
    return f"{rate.text} per GB and month ({rate.ground})"


def stored_cost(size_bytes: int, rates: ProviderRates | None) -> Stored:
    """So many bytes, at these rates."""
    if rates is None:
        return Stored(size_bytes=size_bytes, usd_per_month=None)
    monthly = Decimal(size_bytes) / _GB * rates.storage().usd
    return Stored(size_bytes=size_bytes, usd_per_month=Usd(monthly))


def stored_text(size_bytes: int, usd_per_month: Usd | None) -> str:
    """`12 GB stored, $0.28 a month`."""
    return f"{format_bytes(size_bytes)} stored, {_month(usd_per_month)} a month"


def _month(usd: Usd | None) -> str:
    if usd is None:
        return "-"
    return "under $0.01" if 0 < usd < _CENT else format_usd(usd)


def format_bytes(size: int) -> str:
    """`1.5 GB`, `20 MB`, `7 kB`, `12 bytes`."""
    for unit, name in ((_GB, "GB"), (1_000_000, "MB"), (1000, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}" if size < 10 * unit else f"{size / unit:,.0f} {name}"
    return f"{size} bytes"
