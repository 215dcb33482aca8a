"""What the simulated cloud rents out, where and for how much: made-up machines with devices that exist."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from trainplan.pricing.cost import ProviderRates
from trainplan.pricing.devices import CPU_DEVICE
from trainplan.pricing.grades import Market, PriceGrade
from trainplan.pricing.money import HOURS_PER_MONTH, Billing
from trainplan.pricing.offers import Offer
from trainplan.pricing.side_rates import BUCKET, GB, GB_MONTH, HOUR, INTERNET, flat_rates

PROVIDER = "sim"
PRICE_SOURCE = "simulated"
PRICES_AS_OF = date(2026, 11, 21)

ZONES = {
    "sim-east": ("sim-east-a", "sim-east-b", "sim-east-c"),
    "sim-west": ("sim-west-a", "sim-west-b"),
    "sim-north": ("sim-north-a", "sim-north-b"),
}
_PRICE_FACTORS = {"sim-east": Decimal(1), "sim-west": Decimal("1.08"), "sim-north": Decimal("1.15")}

BILLING = Billing(increment_seconds=1, minimum_seconds=60)
DISK_GB = Decimal(100)
"""Of a machine whose job was not estimated."""
RATES = ProviderRates(
    provider=PROVIDER,
    billing=BILLING,
    disk_kind="disk",
    address_kind="address",
    side=flat_rates(
        {
            "disk": (Decimal("0.10"), GB_MONTH),
            "address": (Decimal("0.005"), HOUR),
            INTERNET: (Decimal("0.09"), GB),
            BUCKET: (Decimal("0.02"), GB_MONTH),
        },
        PRICE_SOURCE,
        PRICES_AS_OF,
    ),
    billing_source=PRICE_SOURCE,
)
_ANYWHERE = RATES.at("sim-east")
DISK_GB_USD_PER_HOUR = _ANYWHERE.disk.usd / HOURS_PER_MONTH
DISK_USD_PER_HOUR = DISK_GB * DISK_GB_USD_PER_HOUR
ADDRESS_USD_PER_HOUR = _ANYWHERE.address.usd
INTERNET_USD_PER_GB = _ANYWHERE.internet.usd


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineType:
    """How fast all its devices together train is made up in the order of what was measured of VGG nets on such
    devices: `giga_macs_per_second` forward and backward at fp32, `mixed_precision_factor` times as much under
    amp_fp16 and amp_bf16. Prices are of the cheapest region."""

    name: str
    family: str
    device: str
    device_count: int
    device_memory_gib: float | None
    vcpus: int
    memory_gib: float
    on_demand_usd_per_hour: Decimal
    spot_usd_per_hour: Decimal
    giga_macs_per_second: float
    mixed_precision_factor: float

    def usd_per_hour(self, region: str, market: str) -> Decimal:
        """The price in a region for a market, in USD per hour."""
        base = self.spot_usd_per_hour if market == Market.SPOT else self.on_demand_usd_per_hour
        return (base * _PRICE_FACTORS[region]).quantize(Decimal("0.000001"))


def _type(
    name: str,
    device: str,
    shape: tuple[int, float | None, int, float],
    prices: tuple[str, str],
    pace: tuple[float, float],
) -> MachineType:
    count, device_memory_gib, vcpus, memory_gib = shape
    return MachineType(
        name=name,
        family=name.partition(".")[0],
        device=device,
        device_count=count,
        device_memory_gib=device_memory_gib,
        vcpus=vcpus,
        memory_gib=memory_gib,
        on_demand_usd_per_hour=Decimal(prices[0]),
        spot_usd_per_hour=Decimal(prices[1]),
        giga_macs_per_second=pace[0],
        mixed_precision_factor=pace[1],
    )


TYPES = {
    row.name: row
    for row in (
        _type("t4.one", "T4", (1, 16, 4, 16), ("0.50", "0.16"), (3_000, 3.2)),
        _type("t4.four", "T4", (4, 16, 48, 192), ("3.60", "1.15"), (11_400, 3.2)),
        _type("v100.one", "V100", (1, 16, 8, 61), ("2.90", "0.90"), (10_700, 2.6)),
        _type("v100.four", "V100", (4, 16, 32, 244), ("11.60", "3.60"), (40_000, 2.6)),
        _type("k80.one", "K80", (1, 12, 4, 61), ("0.80", "0.25"), (1_000, 1.0)),
        _type("a100.one", "A100-40GB", (1, 40, 12, 85), ("3.60", "1.25"), (23_000, 2.2)),
        _type("cpu.eight", CPU_DEVICE, (1, None, 8, 32), ("0.34", "0.12"), (150, 1.0)),
    )
}


def offers() -> Iterator[Offer]:
    """Every machine in every region and market."""
    for row in TYPES.values():
        for region in ZONES:
            for market in Market:
                yield _offer(row, region, market)


def _offer(row: MachineType, region: str, market: Market) -> Offer:
    # The price is what the simulated cloud bills, so planning may count on it, though nobody offers it.
    price = row.usd_per_hour(region, market)
    return Offer(
        provider=PROVIDER,
        region=region,
        zones=ZONES[region],
        instance_type=row.name,
        family=row.family,
        device=row.device,
        device_count=row.device_count,
        device_memory_gib=row.device_memory_gib,
        vcpus=row.vcpus,
        memory_gib=row.memory_gib,
        market=market,
        usd_per_hour=price,
        planning_usd_per_hour=price,
        price_grade=PriceGrade.ESTIMATED,
        price_as_of=PRICES_AS_OF,
        price_source=PRICE_SOURCE,
        on_demand_usd_per_hour=row.usd_per_hour(region, Market.ON_DEMAND),
        billing=BILLING,
        note="simulated: nothing is rented and nothing is billed",
    )
