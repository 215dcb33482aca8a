"""Which fault hits a call: matching, counting and chance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from providers.sim.draws import draw
from providers.sim.values import Effect, Fault

if TYPE_CHECKING:
    from providers.sim.tables import Table


def hit_by(
    faults: Table[Fault], seed: int, operation: str, parameters: Mapping[str, object], now: datetime
) -> Fault | None:
    """The fault that hits this call, the first of those that do; every one that matches has seen it."""
    hit = None
    for fault in list(faults.values()):
        if not _matches(fault, operation, parameters, now):
            continue
        faults[fault.id] = replace(fault, seen=fault.seen + 1)
        if hit is None and _strikes(fault, seed):
            hit = fault
    return hit


def _matches(fault: Fault, operation: str, parameters: Mapping[str, object], now: datetime) -> bool:
    if fault.operation not in ("*", operation):
        return False
    if fault.start is not None and now < fault.start:
        return False
    if fault.end is not None and now >= fault.end:
        return False
    if fault.effect is Effect.WARNING and not operation.startswith("List"):
        return False
    return all(_has(parameters.get(name), wanted_name) for name, wanted_name in fault.where.items())


def _has(value: object, name: str) -> bool:
    return value is not None and name in ("*", str(value))


def _strikes(fault: Fault, seed: int) -> bool:
    number = fault.seen - fault.skip
    if number < 0 or (fault.times is not None and number >= fault.times):
        return False
    return fault.chance >= 1 or draw(seed, "fault", fault.id, fault.seen) < fault.chance
