"""What a whole run costs: compute, disk, address and transfer, from rates and a duration."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import NamedTuple

from trainplan.pricing.money import HOURS_PER_MONTH, ZERO_USD, Billing, Usd, UsdPerHour, amount, to_micro
from trainplan.pricing.side_rates import ASSUMED, BUCKET, GB, GB_MONTH, HOUR, INTERNET, Rate, SideRates


class ProviderRates(NamedTuple):
    """What a vendor charges besides the machine, before free allowances, and how it rounds time.

    `disk_kind` and `address_kind` are what launches make, as `side` names them; ""
    where no rate is known, which counts as nothing, assumed. `billing_source` says who says how
    time is rounded; one that begins with `unverified` was read nowhere.
    """

    provider: str
    billing: Billing
    disk_kind: str
    address_kind: str
    side: SideRates
    billing_source: str = ""

    def at(self, region: str, bucket: str = "") -> RegionRates:
        """The rates of a run whose machine is in a region and whose bucket in another; "": in the same."""
        home = bucket or region
        return RegionRates(
            region=region,
            bucket=home,
            billing=self.billing,
            disk=self._rate(self.disk_kind, region, GB_MONTH),
            address=self._rate(self.address_kind, region, HOUR),
            internet=self._rate(INTERNET, home, GB),
            fetched=self.side.transfer(home, region) or _unknown(GB),
            stored=self.side.transfer(region, home) or _unknown(GB),
        )

    def storage(self, region: str = "") -> Rate:
        """A GB in object storage for a month; "": in a region that is not known."""
        return self._rate(BUCKET, region, GB_MONTH)

    def _rate(self, kind: str, region: str, per: str) -> Rate:
        return self.side.rate(kind, region) or _unknown(per)


def _unknown(per: str) -> Rate:
    return Rate(Decimal(0), per, ASSUMED, "no rate is known of this vendor")


class RegionRates(NamedTuple):
    """What holds for a machine in `region` and a bucket in `bucket`, each with its ground.

    `internet` is what leaves the bucket for a person's computer, `fetched` goes from the bucket to the machine,
    `stored` from the machine to the bucket.
    """

    region: str
    bucket: str
    billing: Billing
    disk: Rate
    address: Rate
    internet: Rate
    fetched: Rate
    stored: Rate

    @property
    def usd(self) -> tuple[Decimal, ...]:
        """The rates of a cost: placements with the same rates pay the same."""
        return self.disk.usd, self.address.usd, self.internet.usd, self.fetched.usd, self.stored.usd


class RunUsage(NamedTuple):
    """What a run takes beside the machine: disk for as long as it lasts, addresses, and GB in three directions.

    `egress_gb` leave the vendor (the model), `fetched_gb` come from the bucket (its data, checkpoints to go on from),
    `stored_gb` go to the bucket (checkpoints and the model).
    """

    disk_gb: Decimal
    addresses: int
    egress_gb: Decimal
    fetched_gb: Decimal = Decimal(0)
    stored_gb: Decimal = Decimal(0)

    def of_machines(self, count: int) -> RunUsage:
        """The same of so many machines, of which one writes checkpoints and the model."""
        return self._replace(
            disk_gb=self.disk_gb * count, addresses=self.addresses * count, fetched_gb=self.fetched_gb * count
        )


class RunCost(NamedTuple):
    """The parts of a run's cost in USD; `between_regions` is traffic with a bucket elsewhere."""

    compute: Usd
    disk: Usd
    address: Usd
    transfer: Usd
    between_regions: Usd

    @property
    def total(self) -> Usd:
        """The sum of the parts."""
        return Usd(self.compute + self.disk + self.address + self.transfer + self.between_regions)


def run_cost(rate: UsdPerHour, duration: timedelta, usage: RunUsage, rates: RegionRates) -> RunCost:
    """Cost of renting at `rate` for `duration`, request to teardown.

    Disk and address are billed for the same seconds as the machine; a month is 730 hours.
    """
    disk_rate, address_rate = attached_per_hour(usage, rates)
    transfer, between = _transfer(usage, rates)
    # Nothing was rented, but what leaves the vendor's storage is paid all the same.
    if not duration:
        nothing = ZERO_USD
        return RunCost(compute=nothing, disk=nothing, address=nothing, transfer=transfer, between_regions=between)
    return RunCost(
        compute=amount(rate, duration, rates.billing),
        disk=amount(disk_rate, duration, rates.billing),
        address=amount(address_rate, duration, rates.billing),
        transfer=transfer,
        between_regions=between,
    )


def side_micro_usd(billed_seconds: int, usage: RunUsage, rates: RegionRates) -> int:
    """Return, in whole millionths of a dollar, the sum of the parts that `run_cost` gives for a machine at no charge.

    `billed_seconds` are those of the rates' billing.
    """
    disk, address = attached_per_hour(usage, rates)
    transfer, between = _transfer(usage, rates)
    return to_micro((disk + address) * billed_seconds / 3600 + transfer + between)


class AttachedRates(NamedTuple):
    """What the disk and the addresses of a run cost for an hour."""

    disk: UsdPerHour
    address: UsdPerHour


def attached_per_hour(usage: RunUsage, rates: RegionRates) -> AttachedRates:
    """Disk and addresses, in USD per hour."""
    disk = UsdPerHour(usage.disk_gb * rates.disk.usd / HOURS_PER_MONTH)
    return AttachedRates(disk, UsdPerHour(usage.addresses * rates.address.usd))


def _transfer(usage: RunUsage, rates: RegionRates) -> tuple[Usd, Usd]:
    """Out of the vendor, and between regions."""
    between = usage.fetched_gb * rates.fetched.usd + usage.stored_gb * rates.stored.usd
    return Usd(usage.egress_gb * rates.internet.usd), Usd(between)
