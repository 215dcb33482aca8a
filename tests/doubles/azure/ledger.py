"""The truth about what ever was in the double: who lived when, what bills, what is left."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tests.doubles.azure.rules import PRINCIPAL
from tests.doubles.azure.world import VM, World
from trainplan.providers.azure.names import attempt_of
from trainplan.providers.base import LABEL_RUN

_KINDS = {
    VM: "machine",
    "Microsoft.Compute/disks": "disk",
    "Microsoft.Network/networkInterfaces": "interface",
    "Microsoft.Network/publicIPAddresses": "address",
    "Microsoft.Network/networkSecurityGroups": "security_group",
    "Microsoft.Network/virtualNetworks": "network",
}


def ledger(world: World) -> list[dict[str, Any]]:
    """One row for each thing that runs have made; what set-up made is in none. `billed_to` is the run that Cost
    Management tells its costs with: that of its own tag, "" for none."""
    rows = [
        _row(thing.id, _KINDS[thing.type], thing.group, thing.created_at, thing.ended_at)
        | {
            "usd_per_hour": thing.usd_per_hour,
            "stopped_at": _text(thing.stopped_at or thing.ended_at),
            "machine": thing.type == VM and thing.error is None,
            "billed_to": thing.tags.get(LABEL_RUN, ""),
        }
        for thing in world.past
        if thing.type in _KINDS
    ]
    rows += [_row(group.id, "resource_group", group.name, group.created_at, group.ended_at) for group in world.groups]
    rows += [
        _row(right.id, "role_assignment", right.scope.rpartition("/")[2], right.created_at, right.ended_at)
        for right in world.past_rights
        if right.principal == PRINCIPAL and "/resourceGroups/trainplan-" in right.scope
    ]
    return [row for row in rows if row["run"] is not None]


def remaining(world: World) -> list[str]:
    return [row["id"] for row in ledger(world) if row["left"]]


def _row(name: str, kind: str, group: str, created_at: datetime, ended_at: datetime | None) -> dict[str, Any]:
    whose = attempt_of(group)
    return {
        "id": name,
        "kind": kind,
        "run": whose[0] if whose else None,
        "created_at": _text(created_at),
        "ended_at": _text(ended_at),
        "stopped_at": _text(ended_at),
        "left": ended_at is None,
        "usd_per_hour": 0.0,
        "machine": False,
    }


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
