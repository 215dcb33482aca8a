"""What stays in object storage after a run, and what that costs per month."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from pricing.money import Usd, format_usd
from providers.stores.files import stored_bytes

if TYPE_CHECKING:
    from pricing.cost import ProviderRates
    from providers.base import RunStore

_CENT = Decimal("0.01")
_GB = 1_000_000_000
"""Vendors charge by 2^30 bytes and call it GB: what is said here is 7 % too much rather than too little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """`usd_per_month` is None where the vendor's rate is not known."""

    size_bytes: int
    usd_per_month: Usd | None

    def __str__(self) -> str:
        return f"{format_bytes(self.size_bytes)} stored, {self.month} a month"

    @property
    def month(self) -> str:
        """What a month costs, in words."""
        if self.usd_per_month is None:
            return "-"
        return "under $0.01" if 0 < self.usd_per_month < _CENT else format_usd(self.usd_per_month)


def stored(store: RunStore, rates: ProviderRates | None) -> Stored:
    """All of a run directory. Raises ProviderError."""
    return kept(stored_bytes(store), rates)


def kept(size_bytes: int, rates: ProviderRates | None) -> Stored:
    """So many bytes, at these rates."""
    if rates is None:
        return Stored(size_bytes=size_bytes, usd_per_month=None)
    monthly = Decimal(size_bytes) / _GB * rates.object_storage_usd_per_gb_month
    return Stored(size_bytes=size_bytes, usd_per_month=Usd(monthly))


def format_bytes(size: int) -> str:
    """`1.5 GB`, `20 MB`, `7 kB`, `12 bytes`."""
    for unit, name in ((_GB, "GB"), (1_000_000, "MB"), (1000, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}" if size < 10 * unit else f"{size / unit:,.0f} {name}"
    return f"{size} bytes"
