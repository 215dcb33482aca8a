"""Compute Engine's disks: boot disks that come with machines, and blank ones that somebody makes and TPUs attach.

What it promises, and from where that is known: docs/maintainers/fidelity.md. Nothing here was seen at Google's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from tests.doubles.google.compute import (
    HOST,
    aggregated,
    check_placement,
    check_policy,
    limits_of,
    not_found,
    of_others,
    used,
)
from tests.doubles.google.machines import Disk, Operation, table_of
from tests.doubles.google.queued import users_of
from tests.doubles.google.world import Call, RefusedError, World

TYPES = ("pd-standard", "pd-balanced", "pd-ssd")
LEAST_GB, MOST_GB = 10, 64 * 1024
SSD = ("pd-balanced", "pd-ssd")
"""What SSD_TOTAL_GB counts."""
Answer = dict[str, Any]


def insert(world: World, call: Call) -> Answer:
    """A blank disk. Its operation fails where the placement or the quota has no room for it."""
    table, zone, token = table_of(world), call.path["zone"], call.query.get("requestId", "")
    known = table.tokens.get(token)
    if known is not None and _is_remembered(world, known):
        return known.body
    check_placement(world, zone)
    check_policy(world, call)
    _check(call)
    if there(world, zone, call.body["name"]) is not None:
        raise RefusedError(409, "alreadyExists", f"The resource '{_link(call)}' already exists")
    _check_quota(world, call)
    disk = Disk(zone=zone, body=_get(world, call), created_at=world.now, is_blank=True)
    disk.shown_from = world.now + timedelta(seconds=world.scenario.lag_seconds)
    operation = table.record(zone, "insert", disk)
    if token:
        operation.body["clientOperationId"] = token
        table.tokens[token] = operation
    table.disks.append(disk)
    rule = world.fault(call.method, "operation_error")
    if rule is not None:
        operation.error = {"errors": [{"code": rule.code, "message": rule.message}]}
        operation.http = (rule.status, "AS THE TEST WANTS IT")
        operation.happens = lambda: setattr(disk, "ended_at", world.now)
    else:
        operation.happens = lambda: disk.body.update(status="READY")
    return operation.body


def get(world: World, call: Call) -> Answer:
    found = there(world, call.path["zone"], call.path["disk"])
    if found is None:
        raise not_found(f"disks/{call.path['disk']}")
    return view(world, found)


def delete(world: World, call: Call) -> Answer:
    return delete_by_name(world, call.path["zone"], call.path["disk"]).body


def delete_by_name(world: World, zone: str, name: str) -> Operation:
    """The disk begins to go. Raises RefusedError, also where a machine or a TPU holds it."""
    table, disk = table_of(world), there(world, zone, name)
    if disk is None:
        raise not_found(f"disks/{name}")
    holder = next((known for known in table.machines if known.disk is disk and not known.is_gone), None)
    users = [holder.name] if holder is not None else users_of(world, zone, name)
    if users:
        message = f"The disk resource '{disk.name}' is already being used by '{users[0]}'"
        raise RefusedError(400, "resourceInUseByAnotherResource", message)
    if disk.body["status"] == "CREATING":
        raise RefusedError(400, "resourceNotReady", f"The resource 'disks/{name}' is not ready")
    disk.goes_at = disk.goes_at or world.now + timedelta(seconds=1)
    disk.body["status"] = "DELETING"
    return table.record(disk.zone, "delete", disk)


def page(world: World, call: Call) -> Answer:
    found = [known for known in table_of(world).disks if known.ended_at is None and world.now >= known.listed_from]
    rows = [(f"zones/{known.zone}", view(world, known)) for known in found]
    return aggregated(world, call, "disks", [*rows, *of_others(world, "disks")])


def there(world: World, zone: str, name: str) -> Disk | None:
    found = [known for known in table_of(world).disks if (known.zone, known.name) == (zone, name)]
    return next((known for known in found if known.ended_at is None), None)


def view(world: World, disk: Disk) -> Answer:
    """With its users, where TPUs hold it."""
    users = users_of(world, disk.zone, disk.name)
    return {**disk.body, **({"users": users} if users else {})}


HANDLERS: dict[str, Callable[[World, Call], Answer]] = {
    "compute.disks.insert": insert,
    "compute.disks.get": get,
    "compute.disks.delete": delete,
    "compute.disks.aggregatedList": page,
}


def _check(call: Call) -> None:
    """What Google's description does not tell: a type that is there, and a size that it may have."""
    body, zone = call.body, call.path["zone"]
    kind = _type_of(body)
    home = f"projects/{call.path['project']}/zones/{zone}/diskTypes/"
    if kind not in TYPES or not str(body["type"]).endswith(f"{home}{kind}"):
        raise RefusedError(400, "invalid", f"Invalid value for field 'resource.type': '{body.get('type')}'.")
    if not LEAST_GB <= int(body.get("sizeGb", 500)) <= MOST_GB:
        raise RefusedError(400, "invalid", f"Invalid value for field 'resource.sizeGb': '{body.get('sizeGb')}'.")


def _check_quota(world: World, call: Call) -> None:
    region = call.path["zone"].rpartition("-")[0]
    limit = limits_of(world, region).get("SSD_TOTAL_GB")
    if limit is None or _type_of(call.body) not in SSD:
        return
    if used(world, region).get("SSD_TOTAL_GB", 0) + int(call.body["sizeGb"]) > limit:
        raise RefusedError(403, "quotaExceeded", f"Quota 'SSD_TOTAL_GB' exceeded.  Limit: {limit} in region {region}.")


def _get(world: World, call: Call) -> Answer:
    return {
        **call.body,
        "kind": "compute#disk",
        "id": world.number(),
        "status": "CREATING",
        "creationTimestamp": world.stamp(),
        "zone": f"{HOST}/projects/{call.path['project']}/zones/{call.path['zone']}",
        "type": f"{HOST}/{call.body['type']}",
        "selfLink": _link(call),
    }


def _type_of(body: Mapping[str, Any]) -> str:
    return str(body.get("type", "")).rpartition("/")[2]


def _link(call: Call) -> str:
    return f"{HOST}/projects/{call.path['project']}/zones/{call.path['zone']}/disks/{call.body['name']}"


def _is_remembered(world: World, operation: Operation) -> bool:
    asked = operation.done_at - timedelta(seconds=world.scenario.operation_seconds)
    return (world.now - asked).total_seconds() < world.scenario.token_seconds
