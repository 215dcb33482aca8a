"""A client's call of a simulated cloud: counted, carried out, and met by the faults that the scenario has for it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from providers.sim.faults import hit_by
from providers.sim.operations import Operations
from providers.sim.values import CloudError, Code, Effect, Fault, LostReplyError

if TYPE_CHECKING:
    from providers.sim.world import World


def call(world: World, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Carry out one call of a client. Raises CloudError, or LostReplyError where the client receives no reply."""
    world.state.counts[operation] = world.state.counts.get(operation, 0) + 1
    fault = hit_by(world.state.faults, world.scenario.seed, operation, parameters, world.now)
    if fault is None:
        return Operations(world).carry_out(operation, parameters)
    return _faulty(world, fault, operation, parameters)


def _faulty(world: World, fault: Fault, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    if fault.effect is Effect.LOST_REQUEST:
        raise LostReplyError
    if fault.effect is Effect.ERROR:
        raise CloudError(fault.code, f"{operation} is refused, as the scenario says ({fault.id})", _details(fault))
    try:
        result = Operations(world).carry_out(operation, parameters)
    except CloudError:
        if fault.effect is Effect.LOST_REPLY:
            raise LostReplyError from None
        raise
    if fault.effect is Effect.LOST_REPLY:
        raise LostReplyError
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
