"""The Cloud TPU API on loopback: queued resources, their nodes, operations, what zones have.

What it promises, and from where that is known: docs/fidelity.md. Nothing here was seen at Google's.
"""

from __future__ import annotations

import base64
import gzip
import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import yaml

from providers.base import LABEL_ATTEMPT
from tests.doubles.google.guest import Guest
from tests.doubles.google.rpc import NUMBERS, StatusError, info
from tests.doubles.google.world import Call, Moment, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

DOCUMENT = "tpu.v2"
ZONES = ("us-central1-a", "us-central1-b", "europe-west4-a", "asia-east1-c", "us-west4-a")
TYPES = ("v2-8", "v3-8", "v3-32", "v4-8", "v5litepod-1", "v5litepod-4", "v5litepod-8")
RUNTIMES = ("tpu-vm-tf-2.18.0-pjrt", "tpu-ubuntu2204-base", "v2-alpha-tpuv5-lite")
USD_PER_HOUR = 0.5
"""What a node costs here: as much as a small machine, so that budgets are of the same size everywhere."""
NO_CAPACITY = (
    'There is no more capacity in the zone "{zone}"; you can try in another zone where Cloud TPU Nodes are offered '
    "(see https://cloud.google.com/tpu/docs/regions) [EID: 0x1]"
)
_REMEMBERED = timedelta(minutes=60)
_FILE = re.compile(r"base64 -d <<'END'( \| gunzip)? >'([^']+)\.new'\n(.*?)\nEND\n", re.DOTALL)
_BLOCK = re.compile(r"^\(\n(.*?)\n\)$", re.DOTALL | re.MULTILINE)
_TYPE = "type.googleapis.com/google.cloud.tpu.v2."


@dataclass(eq=False)
class Queued:
    """A queued resource and its node. `state` and `node` are Google's words; `node` "": it has none."""

    world: World
    name: str
    body: dict[str, Any]
    created_at: datetime
    shown_from: datetime
    state: str = "CREATING"
    node: str = ""
    initiator: str = "USER"
    failure: dict[str, Any] | None = None
    provisioned_at: datetime | None = None
    ready_at: datetime | None = None
    ended_at: datetime | None = None
    turns_at: datetime | None = None
    gone: bool = False
    guest: Guest | None = None
    befallen: set[int] = field(default_factory=set)

    @property
    def zone(self) -> str:
        return self.name.split("/")[3]

    @property
    def spec(self) -> dict[str, Any]:
        return dict(self.body["tpu"]["nodeSpec"][0]["node"])

    @property
    def labels(self) -> dict[str, str]:
        return dict(self.spec.get("labels", {}))

    @property
    def node_name(self) -> str:
        row = self.body["tpu"]["nodeSpec"][0]
        return f"{row['parent']}/nodes/{row['nodeId']}"

    @property
    def left(self) -> bool:
        return not self.gone or bool(self.node)

    def moments(self) -> Iterator[Moment]:
        scenario, later = self.world.scenario, timedelta(seconds=self.world.scenario.operation_seconds)
        if self.gone:
            return
        if self.state == "CREATING":
            yield Moment(self.created_at + timedelta(seconds=1), lambda: self._turn("WAITING_FOR_RESOURCES"))
        elif self.state == "WAITING_FOR_RESOURCES" and has_room(self.world, self.zone):
            yield Moment(max(self.world.now, self.created_at + later), self._provision)
        elif self.state == "WAITING_FOR_RESOURCES" and (until := self._valid_until()):
            yield Moment(max(until, self.world.now), self._too_late)
        elif self.state == "PROVISIONING" and self.provisioned_at:
            yield Moment(self.provisioned_at + timedelta(seconds=scenario.boot_seconds), self._ready)
        elif self.state in ("DELETING", "SUSPENDING") and self.turns_at and not scenario.real:
            yield Moment(self.turns_at, self._turned)
        elif self.state == "ACTIVE":
            yield from self._incidents()

    def tell(self) -> None:
        """Its machine tells."""

    def delete(self) -> None:
        """Begin to go, node first."""
        if self.state == "DELETING":
            return
        self.ended_at = self.ended_at or self.world.now
        self.state = "DELETING"
        self.turns_at = self.world.now + timedelta(seconds=self.world.scenario.deletion_seconds)
        if self.guest:
            self.guest.halted = True
        if self.node and not self.world.scenario.disks_stay:
            self.node = "DELETING"

    def off(self) -> None:
        """A real machine has no power any more: gone where it was deleted, else stopped."""
        if self.state == "DELETING":
            self._turned()
        elif self.node:
            self.node, self.ended_at = "STOPPED", self.ended_at or self.world.now

    def shown(self) -> dict[str, Any]:
        state: dict[str, Any] = {"state": self.state, "stateInitiator": self.initiator}
        if self.failure:
            state["failedData"] = {"error": self.failure}
        return {**self.body, "name": self.name, "createTime": self.world.stamp(self.created_at), "state": state}

    def shown_node(self) -> dict[str, Any]:
        return {
            **self.spec,
            "name": self.node_name,
            "id": "4711",
            "state": self.node,
            "health": "HEALTHY",
            "createTime": self.world.stamp(self.provisioned_at),
            "queuedResource": self.name,
            "apiVersion": "V2",
            "networkEndpoints": [{"ipAddress": "10.0.0.2", "port": 8470}],
        }

    def _turn(self, state: str) -> None:
        self.state = state

    def _provision(self) -> None:
        self.state, self.node, self.provisioned_at = "PROVISIONING", "CREATING", self.world.now

    def _too_late(self) -> None:
        self.state, self.ended_at = "FAILED", self.world.now
        self.failure = {"code": NUMBERS["RESOURCE_EXHAUSTED"], "message": NO_CAPACITY.format(zone=self.zone)}

    def _ready(self) -> None:
        self.state, self.node, self.ready_at = "ACTIVE", "READY", self.world.now
        if self.world.scenario.real:
            return
        self.guest = Guest(
            world=self.world,
            user_data=document_of(self.spec.get("metadata", {}).get("startup-script", "")),
            device=f"TPU {self.spec['acceleratorType'].partition('-')[0]}",
            device_count=4,
            boots_at=self.world.now,
            end=self._end,
        )
        self.world.actors.append(self.guest)

    def _end(self, how: Mapping[str, str]) -> None:
        """What the machine does about its end: a delete of what its spec names, or its power goes."""
        if how.get("kind") == "tpu_delete":
            home = f"projects/{how['project']}/locations/{how['zone']}"
            found = self.world.table(Tpu).resources.get(f"{home}/queuedResources/{how.get('queued_resource')}")
            if found is not None and not found.gone:
                found.delete()
                return
        assert self.guest
        self.guest.halted, self.node = True, "STOPPED"

    def _turned(self) -> None:
        if self.state == "SUSPENDING":
            self.state, self.node = "SUSPENDED", ""
            return
        self.gone = True
        if not self.world.scenario.disks_stay:
            self.node = ""

    def _valid_until(self) -> datetime | None:
        text = self.body.get("queueingPolicy", {}).get("validUntilTime")
        return datetime.fromisoformat(text) if text else None

    def _incidents(self) -> Iterator[Moment]:
        for number, incident in enumerate(self.world.scenario.incidents):
            if number in self.befallen or str(incident.attempt or "") not in ("", self.labels.get(LABEL_ATTEMPT)):
                continue
            assert self.ready_at
            at = self.ready_at + timedelta(seconds=incident.after)
            notice = timedelta(seconds=self.world.scenario.notice_seconds)
            if incident.event == "preempt" and self.guest and self.guest.noticed_at is None and notice:
                yield Moment(max(at - notice, self.ready_at), self._notice)
            yield Moment(at, self._happening(number, incident.event))

    def _notice(self) -> None:
        assert self.guest
        self.guest.noticed_at = self.world.now

    def _happening(self, number: int, event: str) -> Callable[[], None]:
        def happen() -> None:
            self.befallen.add(number)
            assert self.guest
            self.guest.halted, self.ended_at = True, self.world.now
            if event == "preempt":
                self.state, self.node, self.initiator = "SUSPENDING", "PREEMPTED", "SERVICE"
                self.turns_at = self.world.now + timedelta(seconds=self.world.scenario.deletion_seconds)
            elif event == "vanish":
                self.gone, self.node = True, ""
            else:
                self.node = {"maintenance": "TERMINATED", "crash": "REPAIRING"}[event]

        return happen


@dataclass
class Tpu:
    """Everything that ever was. `operations`: what each is about. `requests`: operation and instant by request id."""

    resources: dict[str, Queued] = field(default_factory=dict)
    ended: list[Queued] = field(default_factory=list)
    operations: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: dict[str, tuple[str, datetime]] = field(default_factory=dict)

    @property
    def all(self) -> Sequence[Queued]:
        return [*self.ended, *self.resources.values()]


def has_room(world: World, zone: str) -> bool:
    stock = world.scenario.stock.get(zone, world.scenario.stock.get(zone.rpartition("-")[0]))
    return stock is None or len([known for known in world.table(Tpu).all if known.node and known.zone == zone]) < stock


def delete_by_name(world: World, name: str, *, force: bool) -> dict[str, Any]:
    """A queued resource begins to go. Raises StatusError."""
    found = _resource(world, name)
    if found.node and not force:
        raise StatusError("FAILED_PRECONDITION", f"Queued resource {name} has nodes; use force")
    found.delete()
    return _operation(world, name, "delete")


def ledger(world: World) -> list[dict[str, Any]]:
    """Every queued resource that ever was, as one machine each; `left` also where its node alone is."""
    return [_row(known) for known in world.table(Tpu).all]


def document_of(script: str) -> str:
    """A start-up script read as a shell would carry it out, as the cloud-init document that says the same."""
    files = [
        {"path": path, "content": _unpacked(text, packed=bool(zipped))} for zipped, path, text in _FILE.findall(script)
    ]
    blocks = _BLOCK.findall(script)
    return yaml.safe_dump({"bootcmd": blocks[:1], "write_files": files, "runcmd": blocks[1:]})


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
    if name in table.resources and not table.resources[name].gone:
        raise StatusError("ALREADY_EXISTS", f"Resource '{name}' already exists")
    node = call.body["tpu"]["nodeSpec"][0]["node"]
    if node["acceleratorType"] not in TYPES or node["runtimeVersion"] not in RUNTIMES:
        raise StatusError("INVALID_ARGUMENT", f"there is no {node['acceleratorType']} or {node['runtimeVersion']} here")
    _check_room(world, call)
    if name in table.resources:
        table.ended.append(table.resources[name])
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


def _check_room(world: World, call: Call) -> None:
    zone = call.path["locationsId"]
    region = zone.rpartition("-")[0]
    limit = world.scenario.quotas.get(region, {}).get("TPUS")
    used = len([known for known in world.table(Tpu).all if known.left and known.zone.startswith(region)])
    if limit is not None and used >= limit:
        quota = f"TPUV3sPerProjectPerRegionForTPUAPI/{region}"
        failure = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"subject": quota}]}
        raise StatusError(
            "RESOURCE_EXHAUSTED", f"Quota limit '{quota}' has been exceeded. Limit: {limit:g}", (failure,)
        )
    if not has_room(world, zone) and not call.body.get("queueingPolicy"):
        raise StatusError("RESOURCE_EXHAUSTED", NO_CAPACITY.format(zone=zone), (info("stockout"),))


def _got(world: World, call: Call) -> dict[str, Any]:
    return _resource(world, f"{_home(call)}/queuedResources/{call.path['queuedResourcesId']}").shown()


def _listed(world: World, call: Call) -> dict[str, Any]:
    there = [known.shown() for known in _in(world, call) if not known.gone and world.now >= known.shown_from]
    return _unreachable(world, call) or _page(world, call, "queuedResources", there)


def _deleted(world: World, call: Call) -> dict[str, Any]:
    name = f"{_home(call)}/queuedResources/{call.path['queuedResourcesId']}"
    return delete_by_name(world, name, force=call.query.get("force") == "true")


def _node(world: World, call: Call) -> dict[str, Any]:
    return _found_node(world, call).shown_node()


def _nodes(world: World, call: Call) -> dict[str, Any]:
    there = [known.shown_node() for known in _in(world, call) if known.node and world.now >= known.shown_from]
    return _unreachable(world, call) or _page(world, call, "nodes", there)


def _node_deleted(world: World, call: Call) -> dict[str, Any]:
    found = _found_node(world, call)
    if not found.gone:
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


_METHODS: Mapping[str, Callable[[World, Call], dict[str, Any]]] = {
    "queuedResources.create": _created,
    "queuedResources.get": _got,
    "queuedResources.list": _listed,
    "queuedResources.delete": _deleted,
    "nodes.get": _node,
    "nodes.list": _nodes,
    "nodes.delete": _node_deleted,
    "acceleratorTypes.list": _types,
    "runtimeVersions.list": _runtimes,
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
    if found is None or found.gone or world.now < found.shown_from:
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
    return {"unreachable": [f"projects/p/locations/{zone}"]} if rule and rule.place in ("", zone) else None


def _page(world: World, call: Call, name: str, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    size = min(world.scenario.page_size, int(call.query.get("pageSize", "500")))
    start = int(call.query.get("pageToken") or 0)
    found: dict[str, Any] = {name: list(rows[start : start + size])}
    if start + size < len(rows):
        found["nextPageToken"] = str(start + size)
    return found


def _row(known: Queued) -> dict[str, Any]:
    """It costs something from READY until its end began, and as long as there is a node that nobody deletes."""
    began, now = known.ready_at, known.world.now
    until = known.ended_at or now
    ends = known.guest.trains_until() if known.guest and known.ended_at is None else None
    if known.guest and known.guest.ending:
        ends = known.guest.ending.at  # it is going, and cannot be stopped any more
    return {
        "id": known.name,
        "kind": "instance" if known.provisioned_at else "request",
        "labels": known.labels,
        "created_at": known.created_at.isoformat(),
        "ended_at": known.ended_at.isoformat() if known.ended_at else None,
        "left": known.left,
        "usd_per_hour": USD_PER_HOUR if known.node else 0.0,
        "usd": USD_PER_HOUR * (until - began).total_seconds() / 3600 if began else 0.0,
        "trains_until": ends.isoformat() if ends else None,
    }


def _unpacked(text: str, *, packed: bool) -> str:
    data = base64.b64decode(text)
    return (gzip.decompress(data) if packed else data).decode()
