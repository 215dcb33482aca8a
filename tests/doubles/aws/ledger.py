"""The truth about everything that ever was at the double, whatever its lists show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.doubles.aws import backends

if TYPE_CHECKING:
    from tests.doubles.aws.world import World

OTHERS = "another computer"


def ledger(world: World) -> list[dict[str, Any]]:
    """One row for each machine and each thing that came with one."""
    machines = [
        {
            "id": row.id,
            "kind": "instance",
            "region": row.region,
            "zone": row.zone,
            "type": row.instance_type,
            "market": row.market,
            "run": row.run,
            "attempt": row.attempt,
            "ours": row.run is not None and row.client != OTHERS,
            "created_at": row.created_at.isoformat(),
            "ended_at": row.ended_at.isoformat() if row.ended_at else None,
            "left": row.ended_at is None,
            "bills": True,
        }
        for row in world.machines.values()
    ]
    things = [
        {
            "id": row.id,
            "kind": row.kind,
            "region": row.region,
            "run": row.run,
            "ours": row.run is not None and row.client != OTHERS,
            "created_at": row.created_at.isoformat(),
            "ended_at": None,
            "left": backends.exists(row.kind, row.region, row.id),
            "bills": row.kind in ("volume",),
        }
        for row in world.things.values()
    ]
    return machines + things
