"""The Cloud TPU API on loopback: queued resources, their nodes, operations, what zones have.

What it promises, and from where that is known: docs/maintainers/fidelity.md. Nothing here was seen at Google's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from tests.doubles.endings import end_record
from tests.doubles.google.compute import OPERATIONS_ARE_KEPT, has_subnetwork
from tests.doubles.google.disks import there
from tests.doubles.google.queued import NO_CAPACITY, Queued, Tpu, has_room, why_not_attached
from tests.doubles.google.rpc import NO_SUBNETWORK, NUMBERS, StatusError, info
from tests.doubles.google.world import Call, World, is_ours
from tests.faults.harness import EndedBy

ZONES = ("us-central1-a", "us-central1-b", "europe-west4-a", "asia-east1-c", "us-west4-a")
TYPES = ("v2-8", "v3-8", "v3-32", "v4-8", "v5litepod-1", "v5litepod-4", "v5litepod-8")
RUNTIMES = ("tpu-vm-tf-2.18.0-pjrt", "tpu-ubuntu2204-base", "v2-alpha-tpuv5-lite")
USD_PER_HOUR = 0.5
"""What a node costs here: as much as a small machine, so that budgets are of the same size everywhere."""
_MODES = ("DISK_MODE_UNSPECIFIED", "READ_WRITE", "READ_ONLY")
_REMEMBERED = timedelta(minutes=60)
_TYPE = "type.googleapis.com/google.cloud.tpu.v2."


def delete_by_name(world: World, name: str, by: EndedBy, *, force: bool) -> dict[str, Any]:
    """A queued resource begins to go. Raises StatusError."""
    found = _resource(world, name)
    if found.node and not force:
        raise StatusError("FAILED_PRECONDITION", f"Queued resource {name} has nodes; use force")
    found.delete(by, "DeleteQueuedResource")
    return _operation(world, name, "delete")


def ledger(world: World) -> list[dict[str, Any]]:
    """Every queued resource that ever was, as one machine each; `left` also where its node alone is."""
    return [_row(known) for known in world.table(Tpu).all]


def _locations(world: World, call: Call) -> dict[str, Any]:
    home = f"projects/{call.path['projectsId']}/locations"
    rows = [{"name": f"{home}/{zone}", "locationId": zone} for zone in ZONES if zone not in world.scenario.closed_zones]
    return {"locations": rows}


def _created(world: World, call: Call) -> dict[str, Any]:
    table, home = world.table(Tpu), _home(call)
    request = call.query.get("requestId")
    if request in table.requests and world.now - table.requests[request][1] < _REMEMBERED:
        return table.operations[table.requests[request][0]]
    name = f"{home}/queuedResources/{call.query['queuedResourceId']}"
    if name in table.resources and not table.resources[name].is_gone:
        raise StatusError("ALREADY_EXISTS", f"Resource '{name}' already exists")
    node = call.body["tpu"]["nodeSpec"][0]["node"]
    if node["acceleratorType"] not in TYPES or node["runtimeVersion"] not in RUNTIMES:
        raise StatusError("INVALID_ARGUMENT", f"there is no {node['acceleratorType']} or {node['runtimeVersion']} here")
    _check_network(world, call, node)
    _check_disks(world, call, node)
    for row in node.get("dataDisks", ()):  # Google's library sends the number of the word
        row["mode"] = _MODES[row["mode"]] if isinstance(row.get("mode"), int) else row.get("mode", "READ_WRITE")
    _check_room(world, call)
    if name in table.resources:
        table.ended_resources.append(table.resources[name])
    if rule := world.fault(call.method, "operation_error"):
        error = {"code": NUMBERS["RESOURCE_EXHAUSTED"], "message": rule.message}
        return {**_operation(world, name, "create"), "done": True, "error": error}
    lag = timedelta(seconds=world.scenario.lag_seconds)
    made = table.resources[name] = Queued(world, name, call.body, world.now, world.now + lag)
    world.actors.append(made)
    operation = _operation(world, name, "create")
    if request:
        table.requests[request] = (operation["name"], world.now)
    return operation


def _check_network(world: World, call: Call, node: Mapping[str, Any]) -> None:
    """What is not named is "default". The subnetwork is looked for in the region, and has to be the network's own.
    Raises StatusError."""
    told, region = node.get("networkConfig") or {}, call.path["locationsId"].rpartition("-")[0]
    network = str(told.get("network") or "default").rpartition("/")[2]
    subnetwork = str(told.get("subnetwork") or "default").rpartition("/")[2]
    if not has_subnetwork(world, region, subnetwork):
        raise StatusError("INVALID_ARGUMENT", NO_SUBNETWORK.format(name=subnetwork))
    if subnetwork != network:
        raise StatusError("INVALID_ARGUMENT", f"Subnetwork {subnetwork} is not one of network {network}.")


def _check_disks(world: World, call: Call, node: Mapping[str, Any]) -> None:
    """A data disk is one that is there, in the node's zone, of a type that it takes, and of nobody else. Raises
    StatusError."""
    zone, home = call.path["locationsId"], f"projects/{call.path['projectsId']}/zones/"
    for row in node.get("dataDisks", ()):
        full = str(row.get("sourceDisk", ""))
        if not re.fullmatch(rf"{re.escape(home)}{zone}/disks/[a-z]([-a-z0-9]{{0,61}}[a-z0-9])?", full):
            raise StatusError("INVALID_ARGUMENT", f"Invalid value for data_disks.source_disk: '{full}'")
        if (why := why_not_attached(world, zone, full)) is not None:
            raise StatusError("NOT_FOUND" if "not found" in why else "FAILED_PRECONDITION", why)
        disk = there(world, zone, full.rpartition("/")[2])
        if disk is None or not str(disk.body["type"]).endswith("/pd-balanced"):
            raise StatusError("INVALID_ARGUMENT", f"{node['acceleratorType']} does not take the type of '{full}'")


def _check_room(world: World, call: Call) -> None:
    zone = call.path["locationsId"]
    region = zone.rpartition("-")[0]
    limit = world.scenario.quotas.get(region, {}).get("TPUS")
    used = len([known for known in world.table(Tpu).all if known.remaining and known.zone.startswith(region)])
    if limit is not None and used >= limit:
        quota = f"TPUV3sPerProjectPerRegionForTPUAPI/{region}"
        failure = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"subject": quota}]}
        raise StatusError(
            "RESOURCE_EXHAUSTED", f"Quota limit '{quota}' has been exceeded. Limit: {limit:g}", (failure,)
        )
    if not has_room(world, zone) and not call.body.get("queueingPolicy"):
        raise StatusError("RESOURCE_EXHAUSTED", NO_CAPACITY.format(zone=zone), (info("stockout"),))


def _got(world: World, call: Call) -> dict[str, Any]:
    return _resource(world, f"{_home(call)}/queuedResources/{call.path['queuedResourcesId']}").view()


def _list(world: World, call: Call) -> dict[str, Any]:
    there = [known.view() for known in _in(world, call) if not known.is_gone and world.now >= known.shown_from]
    return _unreachable(world, call) or _page(world, call, "queuedResources", there)


def _deleted(world: World, call: Call) -> dict[str, Any]:
    name = f"{_home(call)}/queuedResources/{call.path['queuedResourcesId']}"
    return delete_by_name(world, name, EndedBy.COMMAND, force=call.query.get("force") == "true")


def _node(world: World, call: Call) -> dict[str, Any]:
    return _found_node(world, call).shown_node()


def _nodes(world: World, call: Call) -> dict[str, Any]:
    there = [known.shown_node() for known in _in(world, call) if known.node and world.now >= known.shown_from]
    return _unreachable(world, call) or _page(world, call, "nodes", there)


def _node_deleted(world: World, call: Call) -> dict[str, Any]:
    found = _found_node(world, call)
    if not found.is_gone:
        raise StatusError("FAILED_PRECONDITION", f"{found.node_name} belongs to a queued resource: delete that")
    found.node = ""
    return _operation(world, found.node_name, "delete")


def _types(world: World, call: Call) -> dict[str, Any]:
    rows = [{"name": f"{_home(call)}/acceleratorTypes/{name}", "type": name} for name in TYPES]
    return {"acceleratorTypes": rows}


def _runtimes(world: World, call: Call) -> dict[str, Any]:
    rows = [{"name": f"{_home(call)}/runtimeVersions/{name}", "version": name} for name in RUNTIMES]
    return {"runtimeVersions": rows}


def _open(handler: Callable[[World, Call], dict[str, Any]]) -> Callable[[World, Call], dict[str, Any]]:
    """The same, where the zone is open to the project."""

    def answer(world: World, call: Call) -> dict[str, Any]:
        zone = call.path["locationsId"]
        if zone in world.scenario.closed_zones or zone not in ZONES:
            raise StatusError("PERMISSION_DENIED", f"Permission denied on 'locations/{zone}' (or it may not exist).")
        return handler(world, call)

    return answer


def _operations(world: World, call: Call) -> dict[str, Any]:
    """Those of a zone, the newest first, with their metadata; kept as those of Compute Engine."""
    rows = []
    for known in _in(world, call):
        for verb, asked_at, done_at in known.operations():
            if done_at is not None and world.now - done_at > OPERATIONS_ARE_KEPT:
                continue
            times = {"createTime": world.stamp(asked_at), **({"endTime": world.stamp(done_at)} if done_at else {})}
            metadata = {"@type": f"{_TYPE}OperationMetadata", "target": known.name, "verb": verb, **times}
            name = f"{_home(call)}/operations/operation-{verb}-{known.name.rpartition('/')[2]}"
            rows.append((asked_at, {"name": name, "metadata": metadata, "done": done_at is not None}))
    rows.sort(key=lambda row: row[0], reverse=True)
    return _page(world, call, "operations", [row for _, row in rows])


_METHODS: Mapping[str, Callable[[World, Call], dict[str, Any]]] = {
    "queuedResources.create": _created,
    "queuedResources.get": _got,
    "queuedResources.list": _list,
    "queuedResources.delete": _deleted,
    "nodes.get": _node,
    "nodes.list": _nodes,
    "nodes.delete": _node_deleted,
    "acceleratorTypes.list": _types,
    "runtimeVersions.list": _runtimes,
    "operations.list": _operations,
}
HANDLERS = {
    "tpu.projects.locations.list": _locations,
    **{f"tpu.projects.locations.{name}": _open(handler) for name, handler in _METHODS.items()},
}
"""Methods by their ids in Google's description."""


def _home(call: Call) -> str:
    return f"projects/{call.path['projectsId']}/locations/{call.path['locationsId']}"


def _in(world: World, call: Call) -> list[Queued]:
    return [known for known in world.table(Tpu).all if known.name.startswith(f"{_home(call)}/")]


def _resource(world: World, name: str) -> Queued:
    found = world.table(Tpu).resources.get(name)
    if found is None or found.is_gone or world.now < found.shown_from:
        raise StatusError("NOT_FOUND", f"Resource '{name}' was not found")
    return found


def _found_node(world: World, call: Call) -> Queued:
    name = f"{_home(call)}/nodes/{call.path['nodesId']}"
    for known in _in(world, call):
        if known.node and known.node_name == name:
            return known
    raise StatusError("NOT_FOUND", f"Resource '{name}' was not found")


def _operation(world: World, target: str, verb: str) -> dict[str, Any]:
    home = "/".join(target.split("/")[:4])
    metadata = {"@type": f"{_TYPE}OperationMetadata", "target": target, "verb": verb, "apiVersion": "v2"}
    made = {"name": f"{home}/operations/operation-{world.number()}", "metadata": metadata, "done": False}
    world.table(Tpu).operations[made["name"]] = made
    return made


def _unreachable(world: World, call: Call) -> dict[str, Any] | None:
    """A list that leaves its zone out, and says so."""
    zone = call.path["locationsId"]
    rule = world.fault(call.method, "warning")
    return {"unreachable": [f"projects/p/locations/{zone}"]} if rule and rule.placement in ("", zone) else None


def _page(world: World, call: Call, name: str, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    size = min(world.scenario.page_size, int(call.query.get("pageSize", "500")))
    start = int(call.query.get("pageToken") or 0)
    found: dict[str, Any] = {name: list(rows[start : start + size])}
    if start + size < len(rows):
        found["nextPageToken"] = str(start + size)
    return found


def _row(resource: Queued) -> dict[str, Any]:
    """It costs something from READY until its end began, and as long as there is a node that nobody deletes."""
    began, now = resource.ready_at, resource.world.now
    until = resource.ended_at or now
    ends = resource.guest.trains_until() if resource.guest and resource.ended_at is None else None
    if resource.guest and resource.guest.ending:
        ends = resource.guest.ending.at  # it is going, and cannot be stopped any more
    # There was no machine, and none is on its way.
    over = resource.state in ("FAILED", "DELETING") or not has_room(resource.world, resource.zone)
    in_vain = resource.provisioned_at is None and over
    return {
        "id": resource.name,
        "kind": "request" if in_vain else "instance",
        "labels": resource.labels,
        "created_at": resource.created_at.isoformat(),
        "ended_at": resource.ended_at.isoformat() if resource.ended_at else None,
        "left": resource.remaining,
        "usd_per_hour": USD_PER_HOUR if resource.node else 0.0,
        "usd": USD_PER_HOUR * (until - began).total_seconds() / 3600 if began else 0.0,
        "trains_until": ends.isoformat() if ends else None,
        **end_record(resource.ended_by, resource.why, resource.work() if is_ours(resource.labels) else None),
    }
