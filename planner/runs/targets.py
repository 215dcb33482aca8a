"""Where a run may go, in the plan's order, and which of these placements have refused it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from trainplan.pricing.devices import machines_text
from trainplan.pricing.money import UsdPerHour, amount
from trainplan.pricing.offers import Market, Offer
from trainplan.providers.base import Expected
from trainplan.providers.errors import CapacityError, ProviderError, QuotaError
from trainplan.providers.registry import THIS_MACHINE

CAPACITY_MEMORY = timedelta(minutes=15)
"""How long a placement without capacity is passed over: stock comes back within minutes or hours, nobody publishes
when."""
QUOTA_MEMORY = timedelta(hours=1)
"""A quota is raised by a person; until then every attempt is refused again."""
LOST_MEMORY = timedelta(minutes=15)
"""Where a create neither worked nor said why, a request waited in vain, or a machine was just taken back."""
MOST_ABOVE = Decimal("0.10")
"""How far a live price may lie above what was shown before somebody is asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One place where a run can be launched, and what the plan expects of it there.

    `seconds` is the whole run there, from the request to the model at home; `overhead_seconds` of it are not
    training (request to first step), and `steady_seconds` is the whole run if nothing interrupts it;
    `disk_gb` is its disk; `fixed_usd` is disk, address and transfer as estimated for the whole run, what
    is billed goes by the rates of the disk and of the address, `traffic_usd` (with a bucket in another region) and
    `download_usd` (the model's way home). `images_per_second_low` is the low
    end of the estimate, None where nothing was estimated, or where the trials of a sweep differ in speed. `usd` is the
    whole job here, fixed costs included, at the price it was planned with; the low and high ends of seconds and USD are
    P10 and P90. `basis` is what the throughput rests on (trainplan.planner.throughput.values.Basis). Each of the
    `machines` costs what the offer does.
    """

    offer: Offer
    zone: str | None = None
    seconds: float | None = None
    overhead_seconds: float = 0.0
    steady_seconds: float | None = None
    disk_gb: Decimal = Decimal(0)
    fixed_usd: Decimal = Decimal(0)
    disk_usd_per_hour: Decimal = Decimal(0)
    address_usd_per_hour: Decimal = Decimal(0)
    traffic_usd: Decimal = Decimal(0)
    download_usd: Decimal = Decimal(0)
    images_per_second: float | None = None
    images_per_second_low: float | None = None
    low_seconds: float | None = None
    high_seconds: float | None = None
    usd: Decimal | None = None
    low_usd: Decimal | None = None
    high_usd: Decimal | None = None
    basis: str | None = None
    machines: int = 1

    @property
    def ceiling_usd_per_hour(self) -> Decimal:
        """The highest price of all machines that can come to be payable here: for spot it is that of on demand; for an
        own rate with hours left the price without it, since they may be used up."""
        return self.machines * self._machine_ceiling_usd_per_hour

    @property
    def expected(self) -> Expected | None:
        """What a launch here is told of its estimate."""
        if not self.disk_gb:
            return None
        return Expected(
            disk_gb=self.disk_gb,
            setup_seconds=self.overhead_seconds,
            seconds=self.steady_seconds,
            images_per_second=self.images_per_second,
        )

    @property
    def payable_usd_per_hour(self) -> Decimal:
        """What the person pays for an hour of all machines."""
        return self.machines * self.offer.payable_usd_per_hour

    @property
    def _machine_ceiling_usd_per_hour(self) -> Decimal:
        own = self.offer.own_usd_per_hour
        if own is not None and self.offer.own_hours is None and self.offer.market is Market.ON_DEMAND:
            return own
        if self.offer.market is Market.SPOT:
            return max(self.offer.on_demand_usd_per_hour or self.offer.usd_per_hour, self.offer.usd_per_hour)
        return self.offer.usd_per_hour

    @property
    def where(self) -> str:
        """Provider, machine type, market and placement, for a person."""
        offer = self.offer
        if offer.provider == THIS_MACHINE:
            return "this machine"
        what = machines_text(offer.instance_type, self.machines)
        return f"{offer.provider} {what} ({offer.market}) in {self.zone or offer.region}"


class DearerError(CapacityError):
    """The placement has room, for more than the person has agreed to: `usd_per_hour` is what it takes now."""

    def __init__(self, message: str, *, usd_per_hour: Decimal) -> None:
        super().__init__(message)
        self.usd_per_hour = usd_per_hour


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A placement that said no `at` some time, and `until` when it is passed over. None in a field means any.

    `usd_per_hour` is the price that it was passed over for: whoever has agreed to about as much is not refused.
    `lacks_capacity`: the provider said that it has no such machine there; false in refusals of earlier versions.
    """

    provider: str
    region: str | None
    at: datetime
    until: datetime
    why: str
    zone: str | None = None
    instance_type: str | None = None
    family: str | None = None
    market: str | None = None
    quota: str | None = None
    usd_per_hour: Decimal | None = None
    lacks_capacity: bool = False

    def covers(self, target: Target) -> bool:
        # Called for every pair of placement and refusal: what tells most of them apart comes first.
        """Whether the refusal holds for this target too."""
        offer = target.offer
        return (
            (self.region is None or self.region == offer.region)
            and (self.instance_type is None or self.instance_type == offer.instance_type)
            and self.provider == offer.provider
            and (self.zone is None or self.zone == target.zone)
            and (self.family is None or self.family == offer.family)
            and (self.market is None or self.market == offer.market)
            and (self.usd_per_hour is None or above(self.usd_per_hour, agreed(offer)))
        )


def agreed(offer: Offer) -> Decimal:
    """The price of an offer as a person was shown it: what it was planned with."""
    if offer.own_usd_per_hour is not None:
        return offer.planning_usd_per_hour or offer.own_usd_per_hour
    return max(offer.planning_usd_per_hour or Decimal(0), offer.usd_per_hour)


def above(usd_per_hour: Decimal, shown_usd: Decimal) -> bool:
    """Whether a price is so far above the one that was shown that somebody has to be asked again."""
    return usd_per_hour > shown_usd * (1 + MOST_ABOVE)


def refusal_of(error: ProviderError, target: Target, now: datetime) -> Refusal:
    """What is remembered of a refused create: a quota holds for family and market, in the region or in all of them, a
    lack for the placement."""
    offer = target.offer
    if isinstance(error, QuotaError):
        return Refusal(
            provider=offer.provider, region=None if error.everywhere else offer.region, at=now,
            until=now + QUOTA_MEMORY, why=error.message, family=offer.family or None,
            instance_type=None if offer.family else offer.instance_type, market=offer.market, quota=error.quota,
        )  # fmt: skip
    memory = CAPACITY_MEMORY if isinstance(error, CapacityError) else LOST_MEMORY
    refusal = no_capacity(target, now, error.message, memory)
    # The placement had room: nobody's estimate is to count it as one that lacks machines.
    if isinstance(error, DearerError):
        return replace(refusal, usd_per_hour=error.usd_per_hour, lacks_capacity=False)
    return replace(refusal, lacks_capacity=isinstance(error, CapacityError))


def no_capacity(target: Target, now: datetime, why: str, memory: timedelta = LOST_MEMORY) -> Refusal:
    """The placement alone is passed over: this type, in this market, in this zone."""
    offer = target.offer
    return Refusal(
        provider=offer.provider, region=offer.region, zone=target.zone, instance_type=offer.instance_type,
        market=offer.market, at=now, until=now + memory, why=why, lacks_capacity=True,
    )  # fmt: skip


def open_targets(targets: Sequence[Target], refusals: Iterable[Refusal], now: datetime) -> list[Target]:
    """The targets that nobody has refused lately, in the plan's order."""
    current = [refusal for refusal in refusals if refusal.until > now]
    return [target for target in targets if not any(refusal.covers(target) for refusal in current)]


def opens_again(targets: Sequence[Target], refusals: Iterable[Refusal], now: datetime) -> datetime | None:
    """When the first of the targets will have been passed over for long enough; None where none is refused."""
    current = [refusal for refusal in refusals if refusal.until > now]
    ends = [
        max(refusal.until for refusal in current if refusal.covers(target))
        for target in targets
        if any(refusal.covers(target) for refusal in current)
    ]
    return min(ends, default=None)


def recommended_first(targets: Sequence[Target], zones: Sequence[str], refused: Target) -> list[Target]:
    """The targets with the same machine in the zones that a provider recommends first, else in their order."""
    return sorted(targets, key=lambda target: target.zone not in zones or _machine(target) != _machine(refused))


def affordable(target: Target, left_usd: Decimal) -> timedelta:
    """How long the target can be paid for with what is left of a budget, at the highest price that may come."""
    rate = target.ceiling_usd_per_hour
    usable = left_usd - target.fixed_usd
    if usable <= 0:
        return timedelta(0)
    if not rate or usable >= rate * _LONGEST_HOURS:
        return timedelta(hours=_LONGEST_HOURS)
    return timedelta(hours=float(usable / rate))


def _machine(target: Target) -> tuple[str, str, str, str]:
    offer = target.offer
    return offer.provider, offer.region, offer.instance_type, offer.market


# No run is given longer (runner.LONGEST_PATIENCE), and a large budget would pay for more hours than a timedelta holds.
_LONGEST_HOURS = 24 * 30


def cost_of(target_usd_per_hour: Decimal, offer: Offer, lasting: timedelta) -> Decimal:
    """What an instance of an offer costs for a time, under the offer's own billing."""
    return amount(UsdPerHour(target_usd_per_hour), max(lasting, timedelta(0)), offer.billing)


def payable_usd(offer: Offer, lasting: timedelta, used_seconds: int = 0) -> Decimal:
    """What the person pays for an instance for a time: the own rate for as many hours as are left of it.

    `used_seconds` of these hours were used before.
    """
    if offer.own_hours is None:
        return cost_of(offer.payable_usd_per_hour, offer, lasting)
    seconds = billed_seconds(offer, lasting)
    at_own = min(seconds, max(0, int(offer.own_hours * 3600) - used_seconds))
    return (offer.payable_usd_per_hour * at_own + offer.usd_per_hour * (seconds - at_own)) / 3600


def billed_seconds(offer: Offer, lasting: timedelta) -> int:
    """The seconds that are charged for an instance of an offer that lasts for a time."""
    return offer.billing.billed_seconds(max(lasting, timedelta(0)))
