"""Compute Engine's advice on capacity; its forms are held to Google's description by the server."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tests.doubles.google.compute import ZONES
from tests.doubles.google.world import Call, RefusedError, World


def capacity(world: World, call: Call) -> dict[str, Any]:
    """One recommendation, in the region's first zone; the score is the scenario's, else that there is plenty."""
    region, model = call.path["region"], call.body["instanceProperties"]["scheduling"]["provisioningModel"]
    if region not in ZONES:
        raise RefusedError(404, "notFound", f"The resource 'regions/{region}' was not found")
    if model != "SPOT":
        raise RefusedError(400, "invalid", "advice is given for SPOT alone")
    ((_, selection),) = call.body["instanceFlexibilityPolicy"]["instanceSelections"].items()
    (machine_type,) = selection["machineTypes"]
    score = world.scenario.advice.get(f"{region}/{machine_type}", world.scenario.advice.get(region, 0.9))
    if score is None:
        return {"recommendations": []}
    shard = {
        "zone": f"{region}-{ZONES[region][0]}", "machineType": machine_type, "instanceCount": call.body["size"],
        "provisioningModel": model,
    }  # fmt: skip
    scores = {"obtainability": score, "estimatedUptime": "7200s"}
    return {"recommendations": [{"scores": scores, "shards": [shard]}]}


def history(world: World, call: Call) -> dict[str, Any]:
    """Two days of preemptions before the world's time; prices are not asked for."""
    properties = call.body["instanceProperties"]
    if properties["scheduling"]["provisioningModel"] != "SPOT" or call.body["types"] != ["PREEMPTION"]:
        raise RefusedError(400, "invalid", "the double has the preemptions of SPOT alone")
    days = [world.now - timedelta(days=back) for back in (2, 1, 0)]
    records = [
        {"interval": {"startTime": start.isoformat(), "endTime": end.isoformat()}, "preemptionRate": rate}
        for start, end, rate in zip(days[:-1], days[1:], (0.2, 0.4), strict=True)
    ]
    return {"machineType": properties["machineType"], "preemptionHistory": records}


HANDLERS: dict[str, Callable[[World, Call], dict[str, Any]]] = {
    "compute.advice.capacity": capacity,
    "compute.advice.capacityHistory": history,
}
