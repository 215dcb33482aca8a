"""Cloud Tasks on loopback: one queue, tasks by name, and their requests sent to the APIs beside it when they are due.

What it promises, and from where that is known: docs/maintainers/fidelity.md. Nothing here was seen at Google's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.doubles.google import disks, iam, tpu
from tests.doubles.google.rpc import StatusError
from tests.doubles.google.world import Call, Moment, RefusedError, World
from tests.faults.harness import EndedBy
from trainplan.providers.base import LABEL_CLIENT, LABEL_RUN

NAMES_KEPT = timedelta(hours=24)
"""For so long the name of a task that was carried out or deleted is not given again."""
_DISK = re.compile(r"/compute/v1/projects/[^/]+/zones/(?P<zone>[^/]+)/disks/(?P<disk>[^/]+)")
_PAUSES = (30, 60, 120, 240, 300)
"""Seconds before a task that was refused is sent again, as the queue of `plan setup gcp` has it."""


@dataclass(eq=False)
class Task:
    name: str
    body: dict[str, Any]
    created_at: datetime
    due: datetime
    sent: int = 0


@dataclass
class Tasks:
    """`queues` by name, each with its state. `past`: names that are not free yet, and since when."""

    queues: dict[str, dict[str, Any]] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)
    past: dict[str, datetime] = field(default_factory=dict)
    created_tasks: list[Task] = field(default_factory=list)


@dataclass(eq=False)
class Dispatcher:
    """Sends what is due."""

    world: World

    def moments(self) -> Iterator[Moment]:
        if not self.world.scenario.cloud_timer_works:
            return
        for task in list(self.world.table(Tasks).tasks.values()):
            yield Moment(max(task.due, self.world.now), self._sending(task))

    def tell(self) -> None:
        """It writes nothing."""

    def _sending(self, task: Task) -> Callable[[], None]:
        def send() -> None:
            table = self.world.table(Tasks)
            task.sent += 1
            if _sent(self.world, task) or task.sent > len(_PAUSES):
                table.tasks.pop(task.name, None)
                table.past[task.name] = self.world.now
            else:
                task.due = self.world.now + timedelta(seconds=_PAUSES[task.sent - 1])

        return send


def set_up(world: World, project: str, region: str = "us-central1", queue: str = "trainplan") -> None:
    """The queue as `plan setup gcp` makes it."""
    name = f"projects/{project}/locations/{region}/queues/{queue}"
    world.table(Tasks).queues[name] = {"name": name, "state": "RUNNING"}


def ledger(world: World) -> list[dict[str, Any]]:
    """Every task that ever was; they cost nothing, and their names alone tell whose they are."""
    table = world.table(Tasks)
    return [_row(task, table.past.get(task.name), remaining=task.name in table.tasks) for task in table.created_tasks]


def _queue(world: World, call: Call) -> dict[str, Any]:
    found = world.table(Tasks).queues.get(_queue_name(call))
    if found is None:
        raise StatusError("NOT_FOUND", "Queue does not exist.")
    return dict(found)


def _queue_made(world: World, call: Call) -> dict[str, Any]:
    name = str(call.body["name"])
    if name in world.table(Tasks).queues:
        raise StatusError("ALREADY_EXISTS", "Queue already exists")
    world.table(Tasks).queues[name] = {**call.body, "state": "RUNNING"}
    return world.table(Tasks).queues[name]


def _queue_deleted(world: World, call: Call) -> dict[str, Any]:
    _queue(world, call)
    del world.table(Tasks).queues[_queue_name(call)]
    return {}


def _create(world: World, call: Call) -> dict[str, Any]:
    _queue(world, call)
    table, wanted = world.table(Tasks), call.body["task"]
    name = str(wanted["name"])
    past = table.past.get(name)
    if name in table.tasks or (past is not None and world.now - past < NAMES_KEPT):
        raise StatusError("ALREADY_EXISTS", "Requested entity already exists")
    due = datetime.fromisoformat(wanted["scheduleTime"]) if "scheduleTime" in wanted else world.now
    if due > world.now + timedelta(days=30):
        raise StatusError("INVALID_ARGUMENT", "The scheduled time is too far in the future.")
    task = table.tasks[name] = Task(name, wanted, world.now, max(due, world.now))
    table.created_tasks.append(task)
    if not any(isinstance(actor, Dispatcher) for actor in world.actors):
        world.actors.append(Dispatcher(world))
    return _view(world, task)


def _got(world: World, call: Call) -> dict[str, Any]:
    return _view(world, _task(world, call))


def _page(world: World, call: Call) -> dict[str, Any]:
    _queue(world, call)
    rows = [task for name, task in world.table(Tasks).tasks.items() if name.startswith(f"{_queue_name(call)}/")]
    size = min(world.scenario.page_size, int(call.query.get("pageSize", "500")))
    start = int(call.query.get("pageToken") or 0)
    found: dict[str, Any] = {"tasks": [_view(world, task) for task in rows[start : start + size]]}
    if start + size < len(rows):
        found["nextPageToken"] = str(start + size)
    return found


def _deleted(world: World, call: Call) -> dict[str, Any]:
    task = _task(world, call)
    table = world.table(Tasks)
    del table.tasks[task.name]
    table.past[task.name] = world.now
    return {}


HANDLERS: Mapping[str, Callable[[World, Call], dict[str, Any]]] = {
    "cloudtasks.projects.locations.queues.get": _queue,
    "cloudtasks.projects.locations.queues.create": _queue_made,
    "cloudtasks.projects.locations.queues.delete": _queue_deleted,
    "cloudtasks.projects.locations.queues.tasks.create": _create,
    "cloudtasks.projects.locations.queues.tasks.get": _got,
    "cloudtasks.projects.locations.queues.tasks.list": _page,
    "cloudtasks.projects.locations.queues.tasks.delete": _deleted,
}
"""Methods by their ids in Google's description."""


def _row(task: Task, ended_at: datetime | None, *, remaining: bool) -> dict[str, Any]:
    words = task.name.rpartition("/")[2].split("__")
    named = len(words) > 3 and words[0] == "trainplan"
    return {
        "id": task.name,
        "kind": "task",
        "labels": {LABEL_RUN: words[1], LABEL_CLIENT: words[3]} if named else {},
        "created_at": task.created_at.isoformat(),
        "ended_at": None if remaining or ended_at is None else ended_at.isoformat(),
        "left": remaining,
        "usd_per_hour": 0.0,
        "usd": 0.0,
    }


def _sent(world: World, task: Task) -> bool:
    """Whether what it asks for was accepted."""
    request = task.body["httpRequest"]
    parts = urlsplit(request["url"])
    name = unquote(parts.path)
    if request["httpMethod"] != "DELETE" or not request["oauthToken"]:
        return False
    try:
        if found := _DISK.fullmatch(name):
            iam.refuse_forbidden(world, Call("compute.disks.delete", {}, {}, {}), machine=True)
            disks.delete_by_name(world, found["zone"], found["disk"])
        elif name.startswith("/v2/") and "/queuedResources/" in name:
            _may_delete_tpus(world)
            force = parse_qs(parts.query).get("force") == ["true"]
            tpu.delete_by_name(world, name.removeprefix("/v2/"), EndedBy.CLOUD_TIMER, force=force)
        else:
            return False
    except RefusedError:
        return False
    return True


def _may_delete_tpus(world: World) -> None:
    iam.refuse_forbidden(world, Call("tpu.projects.locations.queuedResources.delete", {}, {}, {}), machine=True)


def _queue_name(call: Call) -> str:
    path = call.path
    return f"projects/{path['projectsId']}/locations/{path['locationsId']}/queues/{path['queuesId']}"


def _task(world: World, call: Call) -> Task:
    name = f"{_queue_name(call)}/tasks/{call.path['tasksId']}"
    found = world.table(Tasks).tasks.get(name)
    if found is None:
        raise StatusError("NOT_FOUND", "The task no longer exists, though a task with this name existed recently.")
    return found


def _view(world: World, task: Task) -> dict[str, Any]:
    """Without headers and body, as the view BASIC has it."""
    request = {key: value for key, value in task.body["httpRequest"].items() if key in ("url", "httpMethod")}
    return {
        "name": task.name,
        "httpRequest": request,
        "scheduleTime": world.stamp(task.due).replace("+00:00", "Z"),
        "createTime": world.stamp(task.created_at).replace("+00:00", "Z"),
        "view": "BASIC",
        **({"dispatchCount": task.sent} if task.sent else {}),
    }
