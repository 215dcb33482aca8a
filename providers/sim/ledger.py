"""What the simulated cloud says of all that ever was in it: who lived when, and what it cost."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from trainplan.pricing.money import UsdPerHour, amount
from trainplan.providers.base import LABEL_RUN
from trainplan.providers.sim.catalogue import BILLING, INTERNET_USD_PER_GB
from trainplan.providers.sim.values import MachineState, SimMachine, Thing

if TYPE_CHECKING:
    from trainplan.providers.sim.tables import State

SENT = "sent to the internet: "
"""Of these counts of the state, with a run behind it, each is the bytes of its model that left the cloud."""


def ledger(state: State, now: datetime) -> dict[str, Any]:
    """JSON values: every `resource` with its times and dollars up to now, `transfers` (models that were fetched),
    `runs` with the most machines that one had alive at any time, `left` (ids of what is still there), and `calls` by
    operation."""
    machines = list(state.machines.values())
    rows = [_machine(machine, now) for machine in machines] + [_thing(thing, now) for thing in state.things.values()]
    transfers = [_transfer(name, count) for name, count in state.counts.items() if name.startswith(SENT)]
    runs = dict.fromkeys(str(row["run"]) for row in rows)
    return {
        "now": now.isoformat(),
        "resources": rows,
        "transfers": transfers,
        "runs": {run: _run(run, rows, transfers, machines) for run in runs},
        "left": [row["id"] for row in rows if row["left"]],
        "usd": _sum([*rows, *transfers]),
        "calls": {name: count for name, count in state.counts.items() if name[0].isupper()},
    }


def most_at_once(spans: Iterable[tuple[datetime, datetime | None]]) -> int:
    """How many of these spans overlap at most; one that ends when another begins does not overlap it."""
    turns: list[tuple[datetime, int]] = []
    for begin, end in spans:
        if end is None or end > begin:
            turns += [(begin, 1), *([(end, -1)] if end is not None else [])]
    most = count = 0
    for _, step in sorted(turns):
        count += step
        most = max(most, count)
    return most


def _machine(machine: SimMachine, now: datetime) -> dict[str, Any]:
    end = machine.ended_at or now
    is_left = machine.state is not MachineState.TERMINATED
    row = {"kind": "instance", "zone": machine.zone, "instance_type": machine.instance_type, "market": machine.market}
    usd = amount(UsdPerHour(machine.usd_per_hour), end - machine.created_at, BILLING)
    return _row(machine, usd) | row | {
        "state": machine.state.value,
        "gone_at": _text(machine.gone_at),
        "deadline": _text(machine.deadline),
        "why": machine.why.value if machine.why else None,
        "left": is_left,
    }  # fmt: skip


def _thing(thing: Thing, now: datetime) -> dict[str, Any]:
    usd = amount(UsdPerHour(thing.usd_per_hour), (thing.ended_at or now) - thing.created_at, BILLING)
    return _row(thing, usd) | {"kind": thing.kind.value, "instance": thing.machine, "left": thing.ended_at is None}


def _transfer(name: str, size_bytes: int) -> dict[str, Any]:
    usd = size_bytes * INTERNET_USD_PER_GB / 10**9
    return {"kind": "transfer", "run": name.removeprefix(SENT), "size_bytes": size_bytes, "usd": str(usd)}


def _sum(rows: Iterable[dict[str, Any]]) -> str:
    return str(sum((Decimal(row["usd"]) for row in rows), Decimal(0)))


def _row(resource: SimMachine | Thing, usd: Decimal) -> dict[str, Any]:
    return {
        "id": resource.id,
        "region": resource.region,
        "run": resource.labels.get(LABEL_RUN),
        "labels": dict(resource.labels),
        "created_at": resource.created_at.isoformat(),
        "ended_at": _text(resource.ended_at),
        "usd_per_hour": str(resource.usd_per_hour),
        "usd": str(usd),
    }


def _run(
    run: str, rows: list[dict[str, Any]], transfers: list[dict[str, Any]], machines: list[SimMachine]
) -> dict[str, Any]:
    mine = [machine for machine in machines if str(machine.labels.get(LABEL_RUN)) == run]
    of_run = [row for row in rows if str(row["run"]) == run]
    return {
        "instances": len(mine),
        "max_live": most_at_once((machine.created_at, machine.ended_at) for machine in mine),
        "left": [row["id"] for row in of_run if row["left"]],
        "usd": _sum([*of_run, *(row for row in transfers if row["run"] == run)]),
    }


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
