"""What differs between two states of a provider's prices, and whether that can be believed."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import NamedTuple

from trainplan.pricing.grades import Market

# A vendor that renames a product must not empty the catalog (ADR 16).
MOST_GONE = Decimal("0.2")
MOST_CHANGED = Decimal("0.25")
A_LOT = Decimal("1.5")
"""Judgement. AWS' largest cut since 2025 took 44 % off a family, 1.8 times; a list in which a quarter of all on-demand
prices moves by half at once is a list that was misread."""
ENOUGH = 20
"""Below so many offers a share says nothing."""


class Key(NamedTuple):
    """What a price is of; of the zones of a region the cheapest counts."""

    region: str
    instance_type: str
    market: str


class Change(NamedTuple):
    """A price before and after, in millionths of a dollar per hour."""

    key: Key
    before: int
    after: int

    @property
    def factor(self) -> Decimal:
        """How many times dearer (or cheaper) it is, above 1."""
        return Decimal(max(self.before, self.after)) / max(1, min(self.before, self.after))


class Changes(NamedTuple):
    """How many offers are new, gone, dearer, cheaper and the same, and those that moved, furthest first."""

    before: int
    added: int
    removed_offers: tuple[Key, ...]
    dearer: int
    cheaper: int
    same: int
    moved: tuple[Change, ...]

    @property
    def text(self) -> str:
        """`12 new, 3 gone, 40 dearer, 7 cheaper, 900 as before`."""
        counts = (
            (self.added, "new"),
            (len(self.removed_offers), "gone"),
            (self.dearer, "dearer"),
            (self.cheaper, "cheaper"),
        )
        return ", ".join([*(f"{count:,} {name}" for count, name in counts if count), f"{self.same:,} as before"])


def compare(before: Mapping[Key, int], after: Mapping[Key, int]) -> Changes:
    """Prices in millionths of a dollar per hour, by what they are of."""
    both = [Change(key, price, after[key]) for key, price in before.items() if key in after]
    moved = sorted((one for one in both if one.before != one.after), key=lambda one: (-one.factor, one.key))
    dearer = sum(one.after > one.before for one in moved)
    return Changes(
        before=len(before),
        added=len(after.keys() - before.keys()),
        removed_offers=tuple(sorted(before.keys() - after.keys())),
        dearer=dearer,
        cheaper=len(moved) - dearer,
        same=len(both) - len(moved),
        moved=tuple(moved),
    )


def unbelievable(changes: Changes, on_demand_before: int) -> tuple[str, ...]:
    """Why a new state is to be looked at by a person before it is taken over; empty where it can be believed.

    Spot prices may move as they like: only on-demand prices are held against each other.
    """
    reasons = []
    if changes.before >= ENOUGH and len(changes.removed_offers) > MOST_GONE * changes.before:
        reasons.append(f"{len(changes.removed_offers):,} of {changes.before:,} offers would be gone")
    # On-demand prices move rarely, spot prices every week (ADR 2).
    far = sum(one.key.market == Market.ON_DEMAND and one.factor > A_LOT for one in changes.moved)
    if on_demand_before >= ENOUGH and far > MOST_CHANGED * on_demand_before:
        reasons.append(f"{far:,} of {on_demand_before:,} on-demand prices would move by more than half")
    return tuple(reasons)
