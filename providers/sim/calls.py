"""A client's call of a simulated cloud: counted, carried out, and met by the faults that the scenario has for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from trainplan.providers.sim.api import DisconnectedError, RefusedError
from trainplan.providers.sim.draws import draw
from trainplan.providers.sim.operations import Operations
from trainplan.providers.sim.values import Code, Effect, Fault

if TYPE_CHECKING:
    from trainplan.providers.sim.tables import Table
    from trainplan.providers.sim.world import World

_LOST = "the reply was lost"


def call(world: World, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Carry out one call of a client. Raises RefusedError, or DisconnectedError where the client receives no reply."""
    world.state.counts[operation] = world.state.counts.get(operation, 0) + 1
    fault = hit_by(world.state.faults, world.scenario.seed, operation, parameters, world.now)
    if fault is None:
        return Operations(world).carry_out(operation, parameters)
    return _faulty(world, fault, operation, parameters)


def _faulty(world: World, fault: Fault, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    if fault.effect is Effect.LOST_REQUEST:
        raise DisconnectedError(_LOST)
    if fault.effect is Effect.ERROR:
        raise RefusedError(fault.code, f"{operation} is refused, as the scenario says ({fault.id})", _details(fault))
    try:
        result = Operations(world).carry_out(operation, parameters)
    except RefusedError:
        if fault.effect is Effect.LOST_REPLY:
            raise DisconnectedError(_LOST) from None
        raise
    if fault.effect is Effect.LOST_REPLY:
        raise DisconnectedError(_LOST)
    if fault.effect is Effect.WARNING:
        return {
            **result,
            "items": [],
            "nextPageToken": None,
            "warnings": [f"some placements did not answer ({fault.id})"],
        }
    world.advance(world.now + timedelta(seconds=fault.seconds))
    return result


def _details(fault: Fault) -> dict[str, object]:
    return {"quota": "scripted-devices"} if fault.code == Code.QUOTA else {}


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
