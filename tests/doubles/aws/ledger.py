"""The truth about everything that ever was at the double, whatever its lists show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.doubles.aws import backends
from tests.doubles.aws.machines import Machine, work_of
from tests.doubles.endings import end_record

if TYPE_CHECKING:
    from tests.doubles.aws.world import Thing, World

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
            "ours": _ours(row),
            "created_at": row.created_at.isoformat(),
            "ended_at": row.ended_at.isoformat() if row.ended_at else None,
            "left": row.ended_at is None,
            "bills": True,
            **end_record(row.ended_by, row.why, work_of(row) if _ours(row) else None),
        }
        for row in world.machines.values()
    ]
    things = [
        {
            "id": row.id,
            "kind": row.kind,
            "region": row.region,
            "run": row.run,
            "ours": _ours(row),
            "created_at": row.created_at.isoformat(),
            "ended_at": None,
            "left": backends.exists(row.kind, row.region, row.id),
            "bills": row.kind in ("volume",),
        }
        for row in world.things.values()
    ]
    return machines + things


def _ours(row: Machine | Thing) -> bool:
    return row.run is not None and row.client != OTHERS
