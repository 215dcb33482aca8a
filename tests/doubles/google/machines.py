"""Compute Engine's machines as they live: asked for, made, stopped, taken back, deleted; and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.doubles.endings import end_record
from tests.doubles.google.guest import Guest, deadline_of
from tests.doubles.google.world import Moment, World, is_ours
from tests.faults.harness import EndedBy, Work

if TYPE_CHECKING:
    from tests.doubles.google.scenario import Incident

GUEST_TERMINATE = "compute.instances.guestTerminate"
DISK_USD_PER_HOUR = 0.0137
MACHINE_USD_PER_HOUR = 0.6
"""About a hundred GB of pd-balanced, and a small machine with a T4; nobody's price is held to these."""


@dataclass(eq=False, kw_only=True)
class Disk:
    """A boot disk, or a blank one that came with no machine (`is_blank`). `ended_at` None: it is there. Lists show it
    from `shown_from` on (None: from its creation on)."""

    zone: str
    body: dict[str, Any]
    created_at: datetime
    is_blank: bool = False
    shown_from: datetime | None = None
    goes_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def name(self) -> str:
        return str(self.body["name"])

    @property
    def listed_from(self) -> datetime:
        return self.shown_from or self.created_at


@dataclass(eq=False, kw_only=True)
class Operation:
    """`error` is what it fails with once it is done; `happens` what it does then."""

    zone: str
    body: dict[str, Any]
    done_at: datetime
    error: dict[str, Any] | None = None
    http: tuple[int, str] | None = None
    happens: Callable[[], None] = lambda: None

    @property
    def is_done(self) -> bool:
        return str(self.body["status"]) == "DONE"


@dataclass(eq=False, kw_only=True)
class Machine:
    """`body` is the instance as it is shown. `made` from when its operation is done without an error, `refused`: that
    will have one; it bills from `started_at` to `stopped_at`; `gone` when it is not shown any more. One that is deleted
    while it runs bills until it is gone (assumed: no page was found that names an earlier end)."""

    zone: str
    body: dict[str, Any]
    disk: Disk
    created_at: datetime
    shown_from: datetime
    guest: Guest | None = None
    terminates_at: datetime | None = None
    is_created: bool = False
    refused: bool = False
    started_at: datetime | None = None
    stopped_at: datetime | None = None
    gone_at: datetime | None = None
    is_gone: bool = False
    bills_until_gone: bool = False
    befell: set[int] = field(default_factory=set)
    ended_by: EndedBy | None = None
    why: str = ""

    @property
    def name(self) -> str:
        return str(self.body["name"])

    @property
    def labels(self) -> Mapping[str, str]:
        return dict(self.body.get("labels", {}))

    @property
    def status(self) -> str:
        return str(self.body["status"])

    @property
    def user_data(self) -> str:
        """What is booted from; "" where nothing was sent."""
        items = {row["key"]: row["value"] for row in self.body.get("metadata", {}).get("items", ())}
        return str(items.get("user-data", ""))

    @property
    def spot(self) -> bool:
        return bool(self.scheduling.get("provisioningModel") == "SPOT")

    @property
    def scheduling(self) -> Mapping[str, Any]:
        return dict(self.body.get("scheduling", {}))


@dataclass(eq=False)
class Table:
    """Everything that ever was at Compute Engine, and its operations. An actor of the world."""

    world: World | None = None
    machines: list[Machine] = field(default_factory=list)
    disks: list[Disk] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    tokens: dict[str, Operation] = field(default_factory=dict)

    def moments(self) -> Iterator[Moment]:
        for operation in self.operations:
            if not operation.is_done:
                yield Moment(operation.done_at, partial(self.finish, operation))
        for machine in self.machines:
            if not machine.is_gone:
                yield from self._of(machine)
        for disk in self.disks:
            if disk.goes_at is not None and disk.ended_at is None:
                yield Moment(disk.goes_at, partial(self._drop, disk))

    def tell(self) -> None:
        for machine in self.machines:
            if machine.guest is not None and not machine.is_gone:
                machine.guest.tell()

    def machine(self, zone: str, name: str) -> Machine | None:
        """The one that is there."""
        there = [known for known in self.machines if (known.zone, known.name) == (zone, name) and not known.is_gone]
        return there[-1] if there else None

    def finish(self, operation: Operation) -> None:
        world = self._world
        operation.body.update(status="DONE", progress=100, endTime=world.stamp())
        if operation.error is not None and operation.http is not None:
            status, message = operation.http
            operation.body.update(error=operation.error, httpErrorStatusCode=status, httpErrorMessage=message)
        operation.happens()

    def start(self, machine: Machine) -> None:
        """Its operation is done: it runs, and Google's own timer runs with it."""
        world = self._world
        machine.is_created, machine.started_at = True, world.now
        machine.body.update(status="RUNNING", lastStartTimestamp=world.stamp())
        limit = machine.scheduling.get("maxRunDuration")
        if limit is not None:
            machine.terminates_at = world.now + timedelta(seconds=int(limit["seconds"]))
            when = {"terminationTimestamp": world.stamp(machine.terminates_at)}
            machine.body["resourceStatus"] = {"scheduling": when}
        if world.scenario.real:
            return
        machine.guest = Guest(
            world=world,
            user_data=machine.user_data,
            device="T4" if machine.body.get("guestAccelerators") else machine.body["machineType"].rpartition("/")[2],
            device_count=1,
            boots_at=world.now + timedelta(seconds=world.scenario.boot_seconds),
            end=lambda by, how: self._ends_itself(machine, by, how),
        )

    def delete(self, machine: Machine, by: EndedBy, kind: str = "delete") -> Operation:
        """Ask for its end; an operation tells of it."""
        operation = self.record(machine.zone, kind, machine)
        if machine.gone_at is None:
            machine.bills_until_gone = machine.started_at is not None and machine.stopped_at is None
            self._halt(machine, by, kind)
            machine.body["status"] = "STOPPING"
            if not self._world.scenario.real:
                machine.gone_at = self._world.now + timedelta(seconds=self._world.scenario.deletion_seconds)
        return operation

    def stop(self, machine: Machine, by: EndedBy, kind: str) -> None:
        """It does nothing any more, and stays. Google's timer is cleared (docs, limit-vm-runtime)."""
        self.record(machine.zone, kind, machine)
        self._halt(machine, by, kind)
        machine.terminates_at = None
        machine.body.update(status="TERMINATED", lastStopTimestamp=self._world.stamp())
        machine.body.pop("resourceStatus", None)

    def off(self, machine: Machine) -> None:
        """A real machine has no power any more: gone where it was deleted, else stopped."""
        if machine.status == "STOPPING":
            self._remove(machine)
        elif not machine.is_gone and machine.stopped_at is None:
            self.stop(machine, EndedBy.AGENT, GUEST_TERMINATE)

    def record(self, zone: str, kind: str, target: Machine | Disk) -> Operation:
        """A new operation on a machine or a disk."""
        world = self._world
        project = target.body["selfLink"].partition("/zones/")[0]
        name = f"operation-{world.number()}"
        body = {
            "kind": "compute#operation",
            "id": world.number(),
            "name": name,
            "zone": f"{project}/zones/{zone}",
            "operationType": kind,
            "targetLink": target.body["selfLink"],
            "targetId": target.body["id"],
            "status": "RUNNING",
            "user": "person@example.com" if kind in ("insert", "delete") else "system",
            "progress": 0,
            "insertTime": world.stamp(),
            "startTime": world.stamp(),
            "selfLink": f"{project}/zones/{zone}/operations/{name}",
        }
        seconds = world.scenario.operation_seconds if kind in ("insert", "delete") else 0.0
        operation = Operation(zone=zone, body=body, done_at=world.now + timedelta(seconds=seconds))
        self.operations.append(operation)
        return operation

    def forget(self, machine: Machine) -> None:
        """It never came to be: its disk neither."""
        machine.is_gone = True
        machine.disk.ended_at = self._world.now

    def _of(self, machine: Machine) -> Iterator[Moment]:
        world = self._world
        if machine.gone_at is not None:
            yield Moment(machine.gone_at, lambda: self._remove(machine))
            return
        if machine.terminates_at is not None and world.scenario.cloud_timer_works:
            yield Moment(machine.terminates_at, lambda: self._times_out(machine))
        if machine.status == "RUNNING":
            for number, incident in enumerate(world.scenario.incidents):
                yield from self._befalls(machine, number, incident)
            if machine.guest is not None:
                yield from machine.guest.moments()

    def _befalls(self, machine: Machine, number: int, incident: Incident) -> Iterator[Moment]:
        attempt = machine.labels.get("trainplan-attempt")
        if machine.started_at is None or incident.attempt not in (None, int(attempt or 0)):
            return
        at = machine.started_at + timedelta(seconds=self._world.scenario.boot_seconds + incident.after)
        notice = timedelta(seconds=self._world.scenario.notice_seconds)
        guest = machine.guest
        if incident.event == "preempt" and guest is not None and guest.noticed_at is None and notice:
            yield Moment(at - notice, lambda: setattr(guest, "noticed_at", self._world.now))
        if number not in machine.befell:
            yield Moment(at, lambda: self._happens(machine, number, incident))

    def _happens(self, machine: Machine, number: int, incident: Incident) -> None:
        machine.befell.add(number)
        match incident.event:
            case "preempt":
                self.delete(machine, EndedBy.PROVIDER, "compute.instances.preempted")
            case "maintenance":
                self.stop(machine, EndedBy.PROVIDER, "compute.instances.terminateOnHostMaintenance")
            case "crash":
                self.stop(machine, EndedBy.PROVIDER, "compute.instances.hostError")
            case "vanish":
                self._halt(machine, EndedBy.PROVIDER, "it vanished")
                self._remove(machine)

    def _ends_itself(self, machine: Machine, by: EndedBy, how: Mapping[str, Any]) -> None:
        """By the delete of its own name, or else it only powers off."""
        own = {"project": machine.body["selfLink"].partition("/projects/")[2].partition("/")[0]}
        own |= {"kind": "gcp_delete", "zone": machine.zone, "name": machine.name}
        if how == own:
            self.delete(machine, by)
        else:
            self.stop(machine, by, GUEST_TERMINATE)

    def _times_out(self, machine: Machine) -> None:
        machine.terminates_at = None
        self.delete(machine, EndedBy.CLOUD_TIMER, "compute.instances.scheduledTermination")

    def _halt(self, machine: Machine, by: EndedBy, why: str) -> None:
        """It computes no more; who was the first to end it is kept."""
        self._world.tell()
        if machine.ended_by is None:
            machine.ended_by, machine.why = by, why
        if machine.started_at is not None and machine.stopped_at is None:
            machine.stopped_at = self._world.now
        if machine.guest is not None:
            machine.guest.halted = True

    def _remove(self, machine: Machine) -> None:
        machine.is_gone, machine.gone_at = True, self._world.now
        if machine.bills_until_gone:
            machine.stopped_at = self._world.now
        stays = self._world.scenario.disks_stay or not machine.body["disks"][0].get("autoDelete")
        if not stays:
            machine.disk.goes_at = self._world.now + timedelta(seconds=1)

    def _drop(self, disk: Disk) -> None:
        disk.ended_at = self._world.now

    @property
    def _world(self) -> World:
        assert self.world is not None
        return self.world


def table_of(world: World) -> Table:
    found: Table = world.table(Table)
    if found.world is None:
        found.world = world
        world.actors.append(found)
    return found


def ledger_rows(world: World) -> list[dict[str, Any]]:
    """Everything that ever was, as tests/faults reads it; times in ISO."""
    table = table_of(world)
    return [_machine_row(machine, world) for machine in table.machines if not machine.refused] + [
        _disk_row(disk, world) for disk in table.disks
    ]


def _machine_row(machine: Machine, world: World) -> dict[str, Any]:
    began = machine.created_at
    hours = ((machine.stopped_at or world.now) - began).total_seconds() / 3600
    return {
        "id": f"{machine.zone}/{machine.name}",
        "kind": "instance",
        "labels": machine.labels,
        "created_at": began.isoformat(),
        "ended_at": _text(machine.stopped_at or machine.gone_at),
        "left": not machine.is_gone,
        "usd_per_hour": MACHINE_USD_PER_HOUR if machine.stopped_at is None and not machine.is_gone else 0.0,
        "usd": MACHINE_USD_PER_HOUR * hours,
        "trains_until": _text(machine.guest.trains_until()) if machine.guest and not machine.is_gone else None,
        **end_record(machine.ended_by, machine.why, _work(machine) if is_ours(machine.labels) else None),
    }


def _work(machine: Machine) -> Work:
    """A machine boots from its creation on, as far as anybody who has asked for it can tell."""
    if machine.guest is None:
        return Work(deadline=deadline_of(machine.user_data), boots_since=machine.created_at)
    return machine.guest.work(machine.created_at)


def _disk_row(disk: Disk, world: World) -> dict[str, Any]:
    hours = ((disk.ended_at or world.now) - disk.created_at).total_seconds() / 3600
    return {
        "id": f"{disk.zone}/{disk.name}",
        "kind": "disk",
        "labels": dict(disk.body.get("labels", {})),
        "created_at": disk.created_at.isoformat(),
        "ended_at": _text(disk.ended_at),
        "left": disk.ended_at is None,
        "usd_per_hour": DISK_USD_PER_HOUR,
        "usd": DISK_USD_PER_HOUR * hours,
    }


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
