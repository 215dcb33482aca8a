"""What can be rented: an offer is a machine at a placement, in a market, at a price."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple

from trainplan.pricing.devices import device_text
from trainplan.pricing.grades import Market, PriceGrade
from trainplan.pricing.money import PER_SECOND, Billing
from trainplan.pricing.planning import AS_LISTED, PlannedAs, PriceSpread

__all__ = [
    "Availability",
    "Lifecycle",
    "LifecycleState",
    "Market",
    "Offer",
    "OfferQuery",
    "Placement",
    "PriceGrade",
    "PriceStamp",
    "Quote",
    "Rental",
]

WHOLE_DEVICE = Fraction(1)


class LifecycleState(StrEnum):
    """Whether the vendor still lets one launch it. A price in a price list does not say so."""

    ACTIVE = "active"
    LEGACY = "legacy"
    """Still there, superseded, no end announced."""
    DEPRECATED = "deprecated"
    """The end is announced, with its date."""
    RETIRED = "retired"
    """Cannot be launched, but perhaps by an account that always had it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    """State, the day it is about (retired on, support ends on), and what to rent instead."""

    state: LifecycleState
    date: datetime.date | None = None
    successor: str | None = None

    def on(self, today: datetime.date) -> Lifecycle:
        """The lifecycle as it is on `today`: what was deprecated is retired once its day has come."""
        over = self.state is LifecycleState.DEPRECATED and self.date is not None and self.date <= today
        if not over:
            return self
        return Lifecycle(state=LifecycleState.RETIRED, date=self.date, successor=self.successor)


ACTIVE = Lifecycle(state=LifecycleState.ACTIVE)


class Availability(NamedTuple):
    """Whether the vendor's offerings, asked on `as_of`, have it at the placement; both None: nobody asked, and what is
    known is the lifecycle of the type."""

    offered: bool | None = None
    as_of: datetime.date | None = None

    @property
    def source(self) -> str:
        """`offerings` or `lifecycle`."""
        return "lifecycle" if self.offered is None else "offerings"


BY_LIFECYCLE = Availability()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rental:
    """Everything of an offer but its placement and price: what the planner estimates once for all placements.

    `device` is a canonical device name, or `cpu` with a count of 1 (the host). `device_fraction` is the part of one
    device that the machine holds, `device_memory_gib` the memory of that part. `hosts` above 1: a TPU slice
    that spans machines. `interruption_bucket` is AWS' own figure for spot (0, rarely interrupted, to 4; None: there is
    none): a machine type whose placements differ in it, or in whether they have it, is several rentals.
    """

    provider: str
    instance_type: str
    family: str
    cpu_architecture: str
    device: str
    device_count: int
    device_fraction: Fraction
    device_memory_gib: float | None
    vcpus: int | None
    memory_gib: float | None
    hosts: int
    market: Market
    lifecycle: Lifecycle
    billing: Billing
    interruption_bucket: int | None = None
    availability: Availability = BY_LIFECYCLE

    @property
    def devices_text(self) -> str:
        """`4 x V100` (trainplan.pricing.devices.device_text)."""
        return device_text(self.device, self.device_count, float(self.device_fraction), self.vcpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One machine at one placement in one market, priced.

    `usd_per_hour` is the figure of the source; `planning_usd_per_hour` is what cost and rank count with (None:
    cannot be ranked). `price_as_of_text` keeps a source's date that is not a day (`2026-H1`); for Google's
    attached GPUs the on-demand price is `host_usd_per_hour + device_usd_per_hour`. The `spot_` figures are of the
    week before an observed spot price was read. `own_rate`: the planning price is the person's own, and which;
    `own_usd_per_hour` is that rate, of which `own_hours` machine hours are left (None: as many as are taken).
    `planned_as` says what the planning price rests on, `price_spread` how far the real one may lie from it.
    """

    provider: str
    region: str
    instance_type: str
    device: str
    device_count: int
    vcpus: int | None
    memory_gib: float | None
    market: Market
    usd_per_hour: Decimal
    planning_usd_per_hour: Decimal | None
    price_grade: PriceGrade
    price_as_of: datetime.date | None
    price_source: str
    zones: tuple[str, ...] = ()
    family: str = ""
    cpu_architecture: str = "x86_64"
    device_fraction: Fraction = WHOLE_DEVICE
    device_memory_gib: float | None = None
    hosts: int = 1
    on_demand_usd_per_hour: Decimal | None = None
    host_usd_per_hour: Decimal | None = None
    device_usd_per_hour: Decimal | None = None
    price_as_of_text: str = ""
    interruption_bucket: int | None = None
    lifecycle: Lifecycle = ACTIVE
    billing: Billing = PER_SECOND
    note: str = ""
    availability: Availability = BY_LIFECYCLE
    spot_mean_usd_per_hour: Decimal | None = None
    spot_low_usd_per_hour: Decimal | None = None
    spot_high_usd_per_hour: Decimal | None = None
    own_rate: str = ""
    planned_as: PlannedAs = PlannedAs.LISTED
    price_spread: PriceSpread = AS_LISTED
    own_usd_per_hour: Decimal | None = None
    own_hours: Decimal | None = None

    @property
    def payable_usd_per_hour(self) -> Decimal:
        """What an hour costs the person: the own rate, without one the price of the source."""
        return self.usd_per_hour if self.own_usd_per_hour is None else self.own_usd_per_hour

    @property
    def rental(self) -> Rental:
        """The offer without its placement and price."""
        return Rental(
            provider=self.provider,
            instance_type=self.instance_type,
            family=self.family,
            cpu_architecture=self.cpu_architecture,
            device=self.device,
            device_count=self.device_count,
            device_fraction=self.device_fraction,
            device_memory_gib=self.device_memory_gib,
            vcpus=self.vcpus,
            memory_gib=self.memory_gib,
            hosts=self.hosts,
            market=self.market,
            lifecycle=self.lifecycle,
            billing=self.billing,
            interruption_bucket=self.interruption_bucket,
            availability=self.availability,
        )


class OfferQuery(NamedTuple):
    """Which offers are wanted; None: no filter. `devices` are canonical names (see DeviceTable.find_all)."""

    providers: frozenset[str] | None = None
    regions: frozenset[str] | None = None
    devices: frozenset[str] | None = None
    instance_types: frozenset[str] | None = None
    markets: frozenset[str] | None = None
    include_retired: bool = False

    def wants(self, offer: Offer) -> bool:
        """Whether it has all that is asked for; `include_retired` is the catalog's to answer."""
        criteria = (
            (self.providers, offer.provider),
            (self.regions, offer.region),
            (self.devices, offer.device),
            (self.instance_types, offer.instance_type),
            (self.markets, offer.market),
        )
        return all(names is None or value in names for names, value in criteria)


class Placement(NamedTuple):
    """Where a rental can be had, at what planning price; `row_id` leads to the full offer."""

    planning_micro_usd_per_hour: int
    region: str
    row_id: int


class PriceStamp(NamedTuple):
    """Where and from when a price is; thousands of prices share one."""

    zones: tuple[str, ...]
    price_grade: PriceGrade
    price_as_of: datetime.date | None
    own_rate: str = ""
    planned_as: PlannedAs = PlannedAs.LISTED
    spread: PriceSpread = AS_LISTED
    source: str = ""


class Quote(NamedTuple):
    """The price of one placement as its source says it, in millionths of a dollar per hour."""

    micro_usd_per_hour: int
    stamp: PriceStamp
