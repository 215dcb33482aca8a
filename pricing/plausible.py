"""What a single price must satisfy against what was known before, whichever source it comes from. Pure. What the prices
of a list must satisfy among themselves is in pricing/list_checks.py.

A price that replaces a known one is held back when it moves more than `MOST_FACTOR` against it, lies below
`LEAST_SHARE_OF_FAMILY` of its family's median, or is dated before the price that it would replace. A held price is
not used: the last known price stays. A person lets it through by name (`plan prices accept NAME`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from trainplan.pricing.devices import CPU_DEVICE

if TYPE_CHECKING:
    from trainplan.pricing.grades import Market
    from trainplan.pricing.tables import InstanceType

MOST_FACTOR = Decimal(5)
"""Judgement, well above what was seen: the largest cut of an on-demand price since 2025 was by a factor of 1.8 (AWS,
44 % off P5), the largest step between two readings of Google's spot prices from 2022-02 to 2026-07 was by 1.73
(a3-highgpu-8g in us-central1, 2025-03-06 to 03-13; 9 machine types)."""
LEAST_SHARE_OF_FAMILY = Decimal("0.1")
"""Per accelerator (per vCPU for machines without one). No row of the shipped tables lies outside a tenth to ten times
its family's median."""
LEAST_FAMILY = 3
"""A median of fewer prices says nothing."""
SAME = Decimal("0.01")
"""Prices that differ by less count as equal: lists round differently. An equal price is never doubted."""
BACKDATED = timedelta(days=31)
"""A price list dates a price back to the first of its month, so a row's own date may lie this far before the date of
the list that it replaces."""


class Dated(NamedTuple):
    """A price with the date of its list, and since when the row says that it holds (None: it does not say)."""

    usd_per_hour: Decimal
    as_of: date | None
    since: date | None = None


class FamilyKey(NamedTuple):
    """Machines whose prices per accelerator, or per vCPU, are alike."""

    family: str
    device: str
    market: Market


class Medians(NamedTuple):
    """The median price per accelerator (or vCPU) of each family with at least LEAST_FAMILY prices."""

    usd_per_unit_hour: Mapping[FamilyKey, Decimal]

    @classmethod
    def of(cls, prices: Iterable[tuple[InstanceType, Market, Decimal]]) -> Medians:
        """The medians of some prices, each with its machine type and market."""
        families: defaultdict[FamilyKey, list[Decimal]] = defaultdict(list)
        for kind, market, usd_per_hour in prices:
            families[_family(kind, market)].append(usd_per_hour / units(kind))
        return cls(
            {
                key: median(family_prices)
                for key, family_prices in families.items()
                if len(family_prices) >= LEAST_FAMILY
            }
        )

    def over(self, other: Medians) -> Medians:
        """These medians, and those of `other` for families that have none here."""
        return Medians({**other.usd_per_unit_hour, **self.usd_per_unit_hour})

    def usd_per_hour(self, kind: InstanceType, market: Market) -> Decimal | None:
        """What a machine would cost at its family's median; None: the family has too few prices."""
        per_unit = self.usd_per_unit_hour.get(_family(kind, market))
        return None if per_unit is None else per_unit * units(kind)


def reason_to_hold(
    price: Dated, dated_price: Dated | None, family_usd_per_hour: Decimal | None, list_reason: str = ""
) -> str:
    """Why a price is held back, in words; "" where it is plausible.

    `dated_price` is the price that it would replace (None: there is none), `family_usd_per_hour` what the machine would
    cost at the median of its family (None: not known), `list_reason` why it cannot be true among the other prices of
    its list ("": it can).
    """
    if dated_price is not None and _is_same(price.usd_per_hour, dated_price.usd_per_hour):
        return ""
    known_usd_per_hour = dated_price.usd_per_hour if dated_price is not None else None
    absurd = reason_to_disbelieve(price.usd_per_hour, known_usd_per_hour, family_usd_per_hour)
    return absurd or list_reason or _dated_before(price, dated_price)


def reason_to_disbelieve(
    usd_per_hour: Decimal, known_usd_per_hour: Decimal | None, family_usd_per_hour: Decimal | None
) -> str:
    """Why a price is none, whatever its date and the rest of its list; "" where it may be one."""
    moved = "" if known_usd_per_hour is None else moved_too_far(usd_per_hour, known_usd_per_hour)
    return moved or _below_family(usd_per_hour, family_usd_per_hour)


def moved_too_far(usd_per_hour: Decimal, known_usd_per_hour: Decimal) -> str:
    """How far a price lies from the known one, in words, where that is more than MOST_FACTOR; else ""."""
    factor = max(usd_per_hour, known_usd_per_hour) / min(usd_per_hour, known_usd_per_hour)
    if factor <= MOST_FACTOR:
        return ""
    return f"{factor:,.1f} times {'above' if usd_per_hour > known_usd_per_hour else 'below'} the last known price"


def units(kind: InstanceType) -> Decimal:
    """The units by which prices within a family are compared: accelerators, or vCPUs where a machine has none."""
    if kind.device == CPU_DEVICE:
        return Decimal(kind.vcpus or 1)
    share: Fraction = kind.device_count * kind.device_fraction
    return Decimal(share.numerator) / Decimal(share.denominator)


def _family(kind: InstanceType, market: Market) -> FamilyKey:
    return FamilyKey(kind.family, kind.device, market)


def _is_same(one: Decimal, other: Decimal) -> bool:
    return abs(one - other) <= other * SAME


def _below_family(usd_per_hour: Decimal, family_usd_per_hour: Decimal | None) -> str:
    if family_usd_per_hour is None or usd_per_hour >= family_usd_per_hour * LEAST_SHARE_OF_FAMILY:
        return ""
    return f"below a tenth of its family's median ({family_usd_per_hour:.4f} $/h for this machine)"


def _dated_before(price: Dated, dated_price: Dated | None) -> str:
    if dated_price is None or dated_price.as_of is None:
        return ""
    if price.as_of is None:
        return f"without a date, where the last known price is of {dated_price.as_of}"
    if price.as_of < dated_price.as_of:
        return f"dated {price.as_of}, before the last known price of {dated_price.as_of}"
    if price.since is not None and price.since + BACKDATED < dated_price.as_of:
        return f"said to hold since {price.since}, but another price was listed on {dated_price.as_of}"
    return ""
