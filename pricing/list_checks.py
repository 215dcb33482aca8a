"""What the prices of a list must satisfy among themselves, so that a Windows or a dedicated price is not taken for the
price of a machine. Pure.

One place for the rules (ADR 31): the shipped tables are checked with them when they are compiled, a vendor's list when
it is refreshed, a person's own list by `plan prices check`. A price that fails is named with the reason, and not used.
Where a list says too little (a family in one region alone), nothing is judged.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum
from statistics import median
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from trainplan.pricing.devices import CPU_DEVICE
from trainplan.pricing.grades import Market, PriceGrade

if TYPE_CHECKING:
    from trainplan.pricing.tables import InstanceType, OfferRow

WINDOWS_USD_PER_VCPU_HOUR = 0.046
"""What Windows adds to an hour of a vCPU: on Azure (Das_v5 in karpenter-provider-azure's copy of Azure Retail Prices,
2026-06-18) and on EC2 (Windows less Linux in apache-libcloud 3.9.1, 2025-03-02: c5, m5, c6i, c7i, g4dn, g5, p3)."""
DEDICATED_FACTORS = {"aws": (1.1, 1.065, 1.06)}
"""How much dearer dedicated tenancy is than shared, where a vendor's list has both under one machine's name. AWS: the
factors between sizes of one family and region that apache-libcloud 3.9.1 (2025-03-02) has from either tenancy."""
SAME_VCPU_PRICE = 0.03
"""How far the prices of a vCPU within a family, region and list may lie apart: small sizes are rounded to 2 %."""
LEAST_FACTOR, MOST_FACTOR = 0.5, 2.0
"""The price of a machine against its family's median over the regions. In the shipped tables from 0.53 (AMD machines at
Azure in India) to 1.72 (Azure in Brazil Southeast)."""

_RATIOS_ALIKE = 0.0003
"""Ratios of prices (their logarithms) that differ by less, beyond what the rounding of the prices makes, are one."""
_NEARLY_ALL = 0.8
_LEAST_WITNESSES = 4
_LEAST_REGIONS, _LEAST_FAMILIES = 3, 3
_LEAST_WINDOWS_EXCESS = 0.3
"""How far (in logarithms) a family without an accelerator lies above what its family and region cost, at least, before
it is looked at for Windows: a vCPU costs 0.03 to 0.09 USD an hour, so Windows makes it dearer by half or more."""
_ROUNDING_USD = 0.0006
_PRICED_APART = re.compile(r"\.metal|-flex\.")
"""AWS charges 0.95 of the family's price for its flex sizes (c7i-flex.large and c7i.large in 15 of the shipped table's
16 regions): as families of their own they would count a region's ratio twice."""
_DATE_APART_DAYS = 31


T = TypeVar("T")


class CheckName(StrEnum):
    """What a price fails."""

    SIZES = "sizes"
    WINDOWS = "windows"
    DEDICATED = "dedicated"
    RANGE = "range"
    DEVICE = "device"
    SPOT = "spot"


class ListedPrice(NamedTuple):
    """A price of a list, in USD an hour; `obtained` is how (pricing/grades.py), `zone` empty: the whole region."""

    type: InstanceType
    region: str
    market: Market
    usd_per_hour: Decimal
    as_of: date | None
    obtained: PriceGrade = PriceGrade.LISTED
    zone: str = ""

    @property
    def name(self) -> str:
        """`aws/us-east-1/g5.xlarge/on_demand`, a zone behind it where it has one: what the price is of."""
        parts = (self.type.provider, self.region, self.type.name, self.market.value, self.zone)
        return "/".join(part for part in parts if part)


class Failure(NamedTuple):
    """A price that cannot be one of a Linux machine on shared hardware, and why, in words."""

    price: ListedPrice
    check: CheckName
    reason: str


Family = tuple[str, str, str]
"""Provider, family, device."""
_Key = tuple[Family, str]
"""A family in a region."""


def listed_prices(offers: Iterable[OfferRow]) -> Iterator[ListedPrice]:
    """The prices of an offers table, but for what costs nothing: there is nothing to hold it against."""
    for row in offers:
        # A row without an on-demand price is the spot price of a single zone (tables.OfferRow).
        zone = row.zones[0] if row.on_demand is None and len(row.zones) == 1 else ""
        for market, price in ((Market.ON_DEMAND, row.on_demand), (Market.SPOT, row.spot)):
            if price is not None and price.usd_per_hour > 0:
                of = (row.type, row.region, market, price.usd_per_hour, price.as_of, price.source.kind, zone)
                yield ListedPrice(*of)


def failures(prices: Iterable[ListedPrice], instead: Iterable[ListedPrice] = ()) -> list[Failure]:
    """The prices that cannot be true among the others, each once, in the order of the list. `instead` are those that
    stay in use where one of the list fails."""
    listed = list(prices)
    on_demand = [price for price in listed if price.market is Market.ON_DEMAND]
    found = {id(one.price): one for one in _of_machines(on_demand)}
    for one in (*_of_devices(on_demand, found), *_of_spot(listed, found, _by_machine(instead))):
        found.setdefault(id(one.price), one)
    return [found[id(price)] for price in listed if id(price) in found]


def failures_against(prices: Iterable[ListedPrice], known: Iterable[ListedPrice]) -> list[Failure]:
    """The prices that cannot be true among each other and among the `known` ones of other placements and machines, or
    that are what was known of their own placement with Windows added. In the order of the list."""
    listed = list(prices)
    before = {price.name: price for price in known}
    new = {price.name for price in listed}
    others = [price for name, price in before.items() if name not in new]
    found = {id(one.price): one for one in failures([*listed, *others], before.values())}
    for price in listed:
        old = before.get(price.name)
        if (
            old is not None
            and id(price) not in found
            and is_windows_difference(_difference(price, old), price.type.vcpus)
        ):
            reason = f"{_usd(float(price.usd_per_hour))}/h is the known price, {_usd(float(old.usd_per_hour))}, "
            reason += f"and {price.type.vcpus} x {WINDOWS_USD_PER_VCPU_HOUR} for Windows"
            found[id(price)] = Failure(price, CheckName.WINDOWS, reason)
    return [found[id(price)] for price in listed if id(price) in found]


def _difference(price: ListedPrice, old: ListedPrice) -> float:
    """By how many USD an hour an on-demand price is dearer than the known one."""
    return float(price.usd_per_hour - old.usd_per_hour) if price.market is Market.ON_DEMAND else 0.0


def is_windows_difference(usd_more: float, vcpus: int | None) -> bool:
    """Whether two prices of a machine differ by what Windows costs on it, to 1 % or to the rounding of lists."""
    if not vcpus:
        return False
    windows = WINDOWS_USD_PER_VCPU_HOUR * vcpus
    return abs(usd_more - windows) <= max(windows * 0.01, _ROUNDING_USD)


@dataclass(slots=True)
class _Cell:
    """The on-demand prices of a family in a region: `usable` is what no check has rejected so far."""

    usable: list[ListedPrice]
    units: dict[str, float]

    @property
    def _largest(self) -> ListedPrice:
        """The price with the most digits."""
        return max(self.usable, key=lambda price: price.usd_per_hour)

    @property
    def unit(self) -> float:
        """The price of a unit: of a vCPU, or of the family's usual size."""
        return float(self._largest.usd_per_hour) / self.units[self._largest.type.name]

    @property
    def rounding(self) -> float:
        """How far the price may be off, as a share, since lists have three decimals."""
        return 0.0005 / float(self._largest.usd_per_hour)

    @property
    def is_read(self) -> bool:
        """Whether one of the prices was read, and not computed from others."""
        return any(price.obtained in (PriceGrade.LISTED, PriceGrade.OBSERVED) for price in self.usable)

    @property
    def share_without_windows(self) -> float:
        """What is left of the price without what Windows costs on the machine, as a share; below 0: nothing."""
        price = self._largest
        return 1 - WINDOWS_USD_PER_VCPU_HOUR * (price.type.vcpus or 0) / float(price.usd_per_hour)


def _of_machines(on_demand: Sequence[ListedPrice]) -> list[Failure]:
    """Failures among on-demand prices: sizes, Windows, dedicated tenancy, range of the regions."""
    # Metal and flex sizes are priced apart: they are neither judged nor set what others are held against.
    virtual = [price for price in on_demand if not _PRICED_APART.search(price.type.name) and price.type.vcpus]
    found: list[Failure] = []
    by_provider: defaultdict[str, dict[_Key, _Cell]] = defaultdict(dict)
    for key, cell in _cells(virtual):
        found += _of_sizes(cell)
        if cell.usable:
            by_provider[key[0][0]][key] = cell
    for provider, cells in by_provider.items():
        table = _Table(cells)
        found += table.windows()
        found += table.by_other_families(DEDICATED_FACTORS.get(provider, ()))
        found += table.out_of_range()
    return found


def _cells(prices: Sequence[ListedPrice]) -> Iterator[tuple[_Key, _Cell]]:
    families: defaultdict[Family, defaultdict[str, list[ListedPrice]]] = defaultdict(lambda: defaultdict(list))
    for price in prices:
        families[price.type.provider, price.type.family, price.type.device][price.region].append(price)
    for family, regions in families.items():
        units = _units(family, regions)
        for region, rows in regions.items():
            yield (family, region), _Cell(rows, units)


def _units(family: Family, regions: Mapping[str, Sequence[ListedPrice]]) -> dict[str, float]:
    """How many units each machine type of a family has: vCPUs without an accelerator; with one what the list itself
    says where it is enough: the ratio to the family's commonest size, as in the median of the regions."""
    kinds = {price.type.name: price.type for rows in regions.values() for price in rows}
    by_vcpu = {name: float(kind.vcpus or 1) for name, kind in kinds.items()}
    if family[2] == CPU_DEVICE:
        return by_vcpu
    counts = Counter(price.type.name for rows in regions.values() for price in rows)
    usual = min(counts, key=lambda name: (-counts[name], by_vcpu[name], name))
    ratios: defaultdict[str, list[float]] = defaultdict(list)
    for rows in regions.values():
        usd = {price.type.name: float(price.usd_per_hour) for price in rows}
        for name in usd if usual in usd else ():
            ratios[name].append(usd[name] / usd[usual])
    return {name: _unit(kind, kinds[usual], ratios[name]) for name, kind in kinds.items()}


def _unit(kind: InstanceType, usual: InstanceType, ratios: Sequence[float]) -> float:
    """How many of a family's usual size a size costs; 0: it is another machine, or too few regions tell."""
    if kind.name != usual.name and kind.vcpus == usual.vcpus:
        return 0.0
    return median(ratios) if len(ratios) >= _LEAST_REGIONS else _multiple(kind, usual)


def _multiple(kind: InstanceType, usual: InstanceType) -> float:
    """How many of the usual size a size is, where vCPUs, memory and accelerators all say the same; 0: it is none."""
    times = (kind.vcpus or 1) / (usual.vcpus or 1)
    memory = (kind.memory_gib or 0) / (usual.memory_gib or 1)
    devices = float(kind.device_count * kind.device_fraction / (usual.device_count * usual.device_fraction))
    return times if math.isclose(memory, times, rel_tol=0.01) and math.isclose(devices, times, rel_tol=0.01) else 0.0


def _of_sizes(cell: _Cell) -> list[Failure]:
    """Sizes whose unit does not cost what it costs in the others; what is left in the cell agrees."""
    cell.usable = [price for price in cell.usable if cell.units[price.type.name]]
    unit = {id(price): float(price.usd_per_hour) / cell.units[price.type.name] for price in cell.usable}
    if not unit or max(unit.values()) <= min(unit.values()) * (1 + SAME_VCPU_PRICE):
        return []
    right = _right_unit(cell, unit)
    wrong = [] if right is None else [_size_failure(price, cell, right) for price in cell.usable]
    found = [one for one in wrong if one is not None]
    if right is None:  # they contradict each other, and nothing says which of them is right
        found = [Failure(price, CheckName.SIZES, _contradiction(cell, unit)) for price in cell.usable]
    rejected = {id(one.price) for one in found}
    cell.usable = [price for price in cell.usable if id(price) not in rejected]
    return found


def _right_unit(cell: _Cell, unit: Mapping[int, float]) -> float | None:
    """The price of a unit that is right: the one to which Windows or a dedicated tenancy makes the dearer ones, else
    the one that most sizes have; None where nothing says which."""
    for cheap in sorted(cell.usable, key=lambda price: unit[id(price)]):
        low = unit[id(cheap)]
        if any(_added(price, low * cell.units[price.type.name]) for price in cell.usable):
            return low
    if not _is_one_list(cell.usable):
        return min(unit.values())
    votes = {
        key: sum(abs(other / value - 1) <= SAME_VCPU_PRICE for other in unit.values()) for key, value in unit.items()
    }
    best = max(votes.values())
    winners = [unit[key] for key, count in votes.items() if count == best]
    return winners[0] if best > 1 and max(winners) <= min(winners) * (1 + SAME_VCPU_PRICE) else None


def _is_one_list(prices: Sequence[ListedPrice]) -> bool:
    """Whether prices are of about one date: those of different dates may differ since a price has changed."""
    days = [price.as_of for price in prices]
    known = [day.toordinal() for day in days if day is not None]
    return len(known) in (0, len(days)) and (not known or max(known) - min(known) <= _DATE_APART_DAYS)


def _added(price: ListedPrice, linux_usd: float) -> tuple[CheckName, str] | None:
    """What was added to a Linux price on shared hardware to give this one, where that can be told."""
    usd = float(price.usd_per_hour)
    if is_windows_difference(usd - linux_usd, price.type.vcpus):
        return CheckName.WINDOWS, f"{_usd(linux_usd)} and {price.type.vcpus} x {WINDOWS_USD_PER_VCPU_HOUR} for Windows"
    for factor in DEDICATED_FACTORS.get(price.type.provider, ()):
        if math.isclose(usd / linux_usd, factor, rel_tol=0.001):
            return CheckName.DEDICATED, f"{factor:g} times {_usd(linux_usd)}: dedicated tenancy"
    return None


def _size_failure(price: ListedPrice, cell: _Cell, right: float) -> Failure | None:
    usual = right * cell.units[price.type.name]
    usd = float(price.usd_per_hour)
    if abs(usd / usual - 1) <= SAME_VCPU_PRICE:
        return None
    added = _added(price, usual)
    if added is not None:
        return Failure(price, added[0], f"{_usd(usd)}/h is {added[1]} (other sizes of the family there say so)")
    if not _is_one_list(cell.usable):
        return None
    return Failure(
        price, CheckName.SIZES, f"{_usd(usd)}/h, where other sizes of the family there make it {_usd(usual)}"
    )


def _contradiction(cell: _Cell, unit: Mapping[int, float]) -> str:
    ends = [min(cell.usable, key=lambda one: unit[id(one)]), max(cell.usable, key=lambda one: unit[id(one)])]
    sizes = " and ".join(f"{one.type.name} at {_usd(float(one.usd_per_hour))}" for one in ends)
    return f"the sizes of the family contradict each other ({sizes}): no one knows which is right"


class _Offset(NamedTuple):
    """By how much a placement lies above what another family says, by its prices there and in another region;
    `rounding` is how far that may be off since prices are rounded. All in logarithms."""

    above: float
    rounding: float
    other_region: str
    other: Family


class _Table:
    """One provider's families by region, in logarithms; a placement that is rejected is taken out."""

    def __init__(self, cells: Mapping[_Key, _Cell]) -> None:
        self._cells = cells
        self._by_family: defaultdict[Family, dict[str, float]] = defaultdict(dict)
        self._by_region: defaultdict[str, dict[Family, float]] = defaultdict(dict)
        for (family, region), cell in cells.items():
            log = math.log(cell.unit)
            self._by_family[family][region] = log
            self._by_region[region][family] = log
        self._rounding = {key: cell.rounding for key, cell in cells.items()}
        self._read = {key for key, cell in cells.items() if cell.is_read}

    def _reject(self, key: _Key, check: CheckName, reason: str) -> list[Failure]:
        family, region = key
        del self._by_family[family][region], self._by_region[region][family]
        return [
            Failure(price, check, f"{_usd(float(price.usd_per_hour))}/h {reason}") for price in self._cells[key].usable
        ]

    def _all_keys(self) -> list[_Key]:
        return [(family, region) for family, logs in self._by_family.items() for region in logs]

    def windows(self) -> list[Failure]:
        """Families without an accelerator that cost what Windows machines cost, in all their sizes.

        A family costs in a region its own level times the region's, to some ten percent. A placement far above that is
        Windows where the rest of its price without Windows is not.
        """
        found: list[Failure] = []
        while True:
            family_level, region_level = self._levels()
            rejected = []
            for family, region in self._all_keys():
                if family[2] != CPU_DEVICE or family not in family_level or region not in region_level:
                    continue
                excess = self._by_family[family][region] - family_level[family] - region_level[region]
                share = self._cells[family, region].share_without_windows
                if excess >= _LEAST_WINDOWS_EXCESS and share > 0 and abs(excess + math.log(share)) <= excess / 2:
                    rejected.append((family, region))
            if not rejected:
                return found
            for key in rejected:
                more = f"{WINDOWS_USD_PER_VCPU_HOUR} USD a vCPU more"
                reason = f"is {more} than the family costs elsewhere: the price of Windows"
                found += self._reject(key, CheckName.WINDOWS, reason)

    def _levels(self) -> tuple[dict[Family, float], dict[str, float]]:
        """The level of each family and of each region, in logarithms, by medians in turn (Tukey's median polish); those
        with too few prices are left out."""
        region_level = dict.fromkeys(self._by_region, 0.0)
        family_level: dict[Family, float] = {}
        for _ in range(4):
            for family, logs in self._by_family.items():
                if logs:
                    family_level[family] = median(log - region_level[region] for region, log in logs.items())
            for region, of_families in self._by_region.items():
                if of_families:
                    region_level[region] = median(log - family_level[family] for family, log in of_families.items())
        return (
            {family: one for family, one in family_level.items() if len(self._by_family[family]) >= _LEAST_REGIONS},
            {region: one for region, one in region_level.items() if len(self._by_region[region]) >= _LEAST_FAMILIES},
        )

    def by_other_families(self, factors: Sequence[float]) -> list[Failure]:
        """Placements that have the region's usual ratio but for Windows or for the factor of a dedicated tenancy.

        Each other family that is in two regions says how prices of the two compare, most often to the last digit. A
        price with which they agree only without 0.046 USD a vCPU, or without a factor, is not what it seems.
        """
        found: list[Failure] = []
        while True:
            rejected = [(key, cause) for key in self._all_keys() if (cause := self._cause(key, factors))]
            if not rejected:
                return found
            for key, (check, reason) in rejected:
                found += self._reject(key, check, reason)

    def _cause(self, key: _Key, factors: Sequence[float]) -> tuple[CheckName, str] | None:
        """What makes a placement differ from the region's usual ratio; None where nothing does that is known."""
        cell, offsets = self._cells[key], sorted(self._offsets(key))
        share = cell.share_without_windows
        if share > 0 and _is_witnessed(offsets, math.log(share)):
            reason = f"is {WINDOWS_USD_PER_VCPU_HOUR} USD a vCPU above the region's usual ratio: the price of Windows"
            return CheckName.WINDOWS, reason
        for factor in factors:
            if _is_witnessed(offsets, -math.log(factor)):
                return CheckName.DEDICATED, f"is {factor:g} times the region's usual ratio: dedicated tenancy"
        # A computed price may be too low, since its ratio was taken to a dedicated price. A read one never is: where
        # many computed ones are, they agree among each other, and not with it.
        if key in self._read or _is_witnessed(offsets, 0.0):
            return None
        for factor in factors:
            if _is_witnessed(offsets, math.log(factor)):
                reason = f"is {factor:g} times below the region's usual ratio: computed from a dedicated price"
                return CheckName.DEDICATED, reason
        return None

    def _offsets(self, key: _Key) -> list[_Offset]:
        """What the other families of the region say, against each region where this family's price was read and not
        computed."""
        family, region = key
        own, rounding = self._by_region[region][family], self._rounding
        offsets = []
        for other_region, log in self._by_family[family].items():
            if other_region == region or (family, other_region) not in self._read:
                continue
            there, rounded = self._by_region[other_region], rounding[key] + rounding[family, other_region]
            for other, other_log in self._by_region[region].items():
                if other != family and other in there:
                    rounded_all = rounded + rounding[other, region] + rounding[other, other_region]
                    offsets.append(_Offset(own - log - other_log + there[other], rounded_all, other_region, other))
        return offsets

    def out_of_range(self) -> list[Failure]:
        """Placements that cost less or more, against their family's median, than any region of any vendor."""
        found: list[Failure] = []
        for family, logs in self._by_family.items():
            if len(logs) < _LEAST_REGIONS:
                continue
            level = median(logs.values())
            for region, log in list(logs.items()):
                factor = math.exp(log - level)
                if not LEAST_FACTOR <= factor <= MOST_FACTOR:
                    reason = f"is {factor:.2f} times the family's median over the regions"
                    reason += f" (expected: {LEAST_FACTOR} to {MOST_FACTOR})"
                    found += self._reject((family, region), CheckName.RANGE, reason)
        return found


def _is_witnessed(offsets: Sequence[_Offset], shift: float) -> bool:
    """Whether the placement, moved by `shift`, agrees with nearly all families against one other region, or with one
    family against nearly all regions."""
    agreeing = [one for one in offsets if abs(one.above + shift) <= _RATIOS_ALIKE + one.rounding]
    if len(agreeing) < _LEAST_REGIONS:
        return False
    by_region = Counter(one.other_region for one in offsets), Counter(one.other_region for one in agreeing)
    by_family = Counter(one.other for one in offsets), Counter(one.other for one in agreeing)
    return _is_nearly_all(*by_region, _LEAST_WITNESSES) or _is_nearly_all(*by_family, _LEAST_REGIONS)


def _is_nearly_all(total: Counter[T], agreeing: Counter[T], least: int) -> bool:
    return any(count >= max(least, _NEARLY_ALL * total[key]) for key, count in agreeing.items())


def _of_devices(on_demand: Sequence[ListedPrice], found: Mapping[int, Failure]) -> list[Failure]:
    """Machines with an accelerator that cost less than their vCPUs cost without one, in the same region and of the same
    architecture."""
    cheapest: dict[tuple[str, ...], ListedPrice] = {}
    for price in on_demand:
        if price.type.device == CPU_DEVICE and price.type.vcpus and id(price) not in found:
            before = cheapest.setdefault(_host(price), price)
            cheapest[_host(price)] = min(before, price, key=_usd_per_vcpu)
    failed = []
    for price in on_demand:
        sibling = cheapest.get(_host(price))
        if sibling is None or price.type.device == CPU_DEVICE or not price.type.vcpus:
            continue
        least = _usd_per_vcpu(sibling) * price.type.vcpus
        if float(price.usd_per_hour) < least:
            reason = f"{_usd(float(price.usd_per_hour))}/h with {price.type.device}, but {price.type.vcpus} vCPUs alone"
            failed.append(Failure(price, CheckName.DEVICE, f"{reason} cost {_usd(least)} ({sibling.type.name})"))
    return failed


def _host(price: ListedPrice) -> tuple[str, ...]:
    return price.type.provider, price.region, price.type.cpu_architecture


def _by_machine(prices: Iterable[ListedPrice]) -> dict[tuple[str, str, str], ListedPrice]:
    """The on-demand prices by provider, region and machine type."""
    return {
        (price.type.provider, price.region, price.type.name): price
        for price in prices
        if price.market is Market.ON_DEMAND
    }


def _of_spot(
    listed: Sequence[ListedPrice],
    found: Mapping[int, Failure],
    instead: Mapping[tuple[str, str, str], ListedPrice],
) -> list[Failure]:
    """Spot prices above on demand, and those that are a share of an on-demand price that failed."""
    on_demand = _by_machine(listed)
    failed = []
    for price in listed:
        machine = (price.type.provider, price.region, price.type.name)
        base = on_demand.get(machine)
        if price.market is Market.SPOT and base is not None and id(base) in found:
            if price.obtained is PriceGrade.ESTIMATED:
                one = found[id(base)]
                reason = f"a share of an on-demand price that is not used: {one.reason}"
                failed.append(Failure(price, one.check, reason))
                continue
            base = instead.get(machine)
        if price.market is not Market.SPOT or base is None:
            continue
        if float(price.usd_per_hour) > float(base.usd_per_hour) * 1.001:  # lists round differently
            usd, most = float(price.usd_per_hour), float(base.usd_per_hour)
            failed.append(Failure(price, CheckName.SPOT, f"{_usd(usd)}/h on spot, above {_usd(most)} on demand"))
    return failed


def _usd_per_vcpu(price: ListedPrice) -> float:
    return float(price.usd_per_hour) / (price.type.vcpus or 1)


def _usd(usd: float) -> str:
    return f"${usd:.4f}".rstrip("0")
