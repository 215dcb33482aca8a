"""What a whole run costs: compute, disk, address and transfer, from rates and a duration."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pricing.money import HOURS_PER_MONTH, ZERO_USD, Billing, Usd, UsdPerHour, amount, to_micro

if TYPE_CHECKING:
    from datetime import timedelta
    from decimal import Decimal


class ProviderRates(NamedTuple):
    """What a vendor charges besides the machine, in USD, US regions, before free allowances.

    `sources` names, per rate, where it was read; a source that begins with `unverified` was not.
    """

    provider: str
    billing: Billing
    disk_usd_per_gb_month: Decimal
    address_usd_per_hour: Decimal
    egress_usd_per_gb: Decimal
    object_storage_usd_per_gb_month: Decimal
    sources: tuple[tuple[str, str], ...] = ()


class RunUsage(NamedTuple):
    """What a run takes beside the machine: disk for as long as it lasts, addresses, and GB leaving the vendor."""

    disk_gb: Decimal
    addresses: int
    egress_gb: Decimal


class RunCost(NamedTuple):
    """The parts of a run's cost in USD."""

    compute: Usd
    disk: Usd
    address: Usd
    transfer: Usd

    @property
    def total(self) -> Usd:
        """The sum of the parts."""
        return Usd(self.compute + self.disk + self.address + self.transfer)


def run_cost(rate: UsdPerHour, duration: timedelta, usage: RunUsage, rates: ProviderRates) -> RunCost:
    """Cost of renting at `rate` for `duration`, request to teardown.

    Disk and address are billed for the same seconds as the machine; a month is 730 hours.
    """
    disk_rate, address_rate = _hourly(usage, rates)
    if not duration:
        return RunCost(compute=ZERO_USD, disk=ZERO_USD, address=ZERO_USD, transfer=_transfer(usage, rates))
    return RunCost(
        compute=amount(rate, duration, rates.billing),
        disk=amount(disk_rate, duration, rates.billing),
        address=amount(address_rate, duration, rates.billing),
        transfer=_transfer(usage, rates),
    )


class SideCost(NamedTuple):
    """What a run costs beside the machine: so much an hour, and so much once."""

    usd_per_hour: Decimal
    once: Usd
    billing: Billing

    def micro_usd(self, billed_seconds: int) -> int:
        """Whole millionths of a dollar: what `run_cost` says of a machine for nothing, its parts summed.

        `billed_seconds` are those of `billing`.
        """
        return to_micro(self.usd_per_hour * billed_seconds / 3600 + self.once)


def side_cost(usage: RunUsage, rates: ProviderRates) -> SideCost:
    """Disk, address and transfer of a run at these rates, whatever it lasts."""
    disk, address = _hourly(usage, rates)
    return SideCost(disk + address, _transfer(usage, rates), rates.billing)


def _hourly(usage: RunUsage, rates: ProviderRates) -> tuple[UsdPerHour, UsdPerHour]:
    """Disk and address."""
    disk = UsdPerHour(usage.disk_gb * rates.disk_usd_per_gb_month / HOURS_PER_MONTH)
    return disk, UsdPerHour(usage.addresses * rates.address_usd_per_hour)


def _transfer(usage: RunUsage, rates: ProviderRates) -> Usd:
    return Usd(usage.egress_gb * rates.egress_usd_per_gb)
