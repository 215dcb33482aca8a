"""A queued resource of the Cloud TPU API and its node: what they are, and what happens to them by themselves."""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import yaml

from tests.doubles.google.guest import Guest, deadline_of
from tests.doubles.google.machines import table_of
from tests.doubles.google.rpc import NUMBERS
from tests.doubles.google.world import Moment, World
from tests.faults.harness import EndedBy, Work
from trainplan.providers.base import LABEL_ATTEMPT

NO_CAPACITY = (
    'There is no more capacity in the zone "{zone}"; you can try in another zone where Cloud TPU Nodes are offered '
    "(see https://cloud.google.com/tpu/docs/regions) [EID: 0x1]"
)
_FILE = re.compile(r"base64 -d <<'END'( \| gunzip)? >'([^']+)\.new'\n(.*?)\nEND\n", re.DOTALL)
_BLOCK = re.compile(r"^\(\n(.*?)\n\)$", re.DOTALL | re.MULTILINE)


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
    is_gone: bool = False
    guest: Guest | None = None
    befallen: set[int] = field(default_factory=set)
    deleted_at: datetime | None = None
    ended_by: EndedBy | None = None
    why: str = ""

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
    def data_disks(self) -> list[str]:
        """The full names of the disks that its node attaches."""
        return [str(row["sourceDisk"]) for row in self.spec.get("dataDisks", ())]

    @property
    def remaining(self) -> bool:
        return not self.is_gone or bool(self.node)

    def moments(self) -> Iterator[Moment]:
        scenario, later = self.world.scenario, timedelta(seconds=self.world.scenario.operation_seconds)
        if self.is_gone:
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

    def work(self) -> Work:
        """What its machine has done by now; while it waits in the queue it has none."""
        if self.guest is not None:
            return self.guest.work(self.provisioned_at)
        deadline = deadline_of(document_of(self.spec.get("metadata", {}).get("startup-script", "")))
        return Work(deadline=deadline, boots_since=self.provisioned_at)

    def delete(self, by: EndedBy, why: str) -> None:
        """Begin to go, node first."""
        if self.state == "DELETING":
            return
        self._over(by, why)
        self.state, self.deleted_at = "DELETING", self.world.now
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
            self.node = "STOPPED"
            self._over(EndedBy.AGENT, "its power went off")

    def operations(self) -> Iterator[tuple[str, datetime, datetime | None]]:
        """What was asked of it: verb, when, and when that was done. What Google does by itself is no operation."""
        yield "create", self.created_at, self.created_at
        if self.deleted_at is not None:
            yield "delete", self.deleted_at, self.turns_at if self.is_gone else None

    def view(self) -> dict[str, Any]:
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
        for disk in self.data_disks:
            if (why := why_not_attached(self.world, self.zone, disk)) is not None:
                self._fail("NOT_FOUND", why)
                return
        self.state, self.node, self.provisioned_at = "PROVISIONING", "CREATING", self.world.now

    def _too_late(self) -> None:
        self._fail("RESOURCE_EXHAUSTED", NO_CAPACITY.format(zone=self.zone))

    def _fail(self, code: str, message: str) -> None:
        self.state = "FAILED"
        self._over(EndedBy.PROVIDER, "it waited in vain" if code == "RESOURCE_EXHAUSTED" else "its disk is not there")
        self.failure = {"code": NUMBERS[code], "message": message}

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

    def _over(self, by: EndedBy, why: str) -> None:
        """Nothing is charged for it from now on; who was the first to end it is kept."""
        self.world.tell()
        if self.ended_at is None:
            self.ended_at, self.ended_by, self.why = self.world.now, by, why

    def _end(self, by: EndedBy, how: Mapping[str, str]) -> None:
        """What the machine does about its end: a delete of what its spec names, or its power goes."""
        if how.get("kind") == "tpu_delete":
            home = f"projects/{how['project']}/locations/{how['zone']}"
            found = self.world.table(Tpu).resources.get(f"{home}/queuedResources/{how.get('queued_resource')}")
            if found is not None and not found.is_gone:
                found.delete(by, "its machine deleted it")
                return
        assert self.guest
        self.guest.halted, self.node = True, "STOPPED"

    def _turned(self) -> None:
        if self.state == "SUSPENDING":
            self.state, self.node = "SUSPENDED", ""
            return
        self.is_gone = True
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
            self._over(EndedBy.PROVIDER, event)
            self.guest.halted = True
            if event == "preempt":
                self.state, self.node, self.initiator = "SUSPENDING", "PREEMPTED", "SERVICE"
                self.turns_at = self.world.now + timedelta(seconds=self.world.scenario.deletion_seconds)
            elif event == "vanish":
                self.is_gone, self.node = True, ""
            else:
                self.node = {"maintenance": "TERMINATED", "crash": "REPAIRING"}[event]

        return happen


@dataclass
class Tpu:
    """Everything that ever was. `operations`: what each is about. `requests`: operation and instant by request id."""

    resources: dict[str, Queued] = field(default_factory=dict)
    ended_resources: list[Queued] = field(default_factory=list)
    operations: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: dict[str, tuple[str, datetime]] = field(default_factory=dict)

    @property
    def all(self) -> Sequence[Queued]:
        return [*self.ended_resources, *self.resources.values()]


def has_room(world: World, zone: str) -> bool:
    """None where the project's quota of GPUs in all regions is 0, as Google's guide for TPU builders has it."""
    if world.scenario.quotas.get("global", {}).get("GPUS_ALL_REGIONS") == 0:
        return False
    stock = world.scenario.stock.get(zone, world.scenario.stock.get(zone.rpartition("-")[0]))
    return stock is None or len([known for known in world.table(Tpu).all if known.node and known.zone == zone]) < stock


def users_of(world: World, zone: str, name: str) -> list[str]:
    """The nodes that hold a disk, from their provisioning until they are gone."""
    ending = f"/zones/{zone}/disks/{name}"
    return [
        known.node_name
        for known in world.table(Tpu).all
        if known.node and any(disk.endswith(ending) for disk in known.data_disks)
    ]


def why_not_attached(world: World, zone: str, disk: str) -> str | None:
    """Why a node in the zone cannot have the disk of this full name to itself; None where it can."""
    *_, where, _, name = disk.split("/")
    there = [known for known in table_of(world).disks if (known.zone, known.name) == (where, name)]
    if not [known for known in there if known.ended_at is None and known.body.get("status") == "READY"]:
        return f"The resource '{disk}' was not found"
    users = users_of(world, where, name)
    return f"The disk resource '{disk}' is already being used by '{users[0]}'" if users else None


@lru_cache(maxsize=64)
def document_of(script: str) -> str:
    """A start-up script read as a shell would carry it out, as the cloud-init document that says the same."""
    files = [
        {"path": path, "content": _unpacked(text, packed=bool(zipped))} for zipped, path, text in _FILE.findall(script)
    ]
    blocks = _BLOCK.findall(script)
    return yaml.safe_dump({"bootcmd": blocks[:1], "write_files": files, "runcmd": blocks[1:]})


def _unpacked(text: str, *, packed: bool) -> str:
    data = base64.b64decode(text)
    return (gzip.decompress(data) if packed else data).decode()
