"""What ends a TPU when nobody else does: Cloud Tasks that delete its queued resource, and then its data disk; they are
made before either is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from trainplan.providers.base import LaunchRequest, RunId, VendorRequest
from trainplan.providers.cloud.labels import instant
from trainplan.providers.gcp.permissions import PREFIX
from trainplan.providers.gcp.request import label_text
from trainplan.providers.gcp.tpu.api import PAGE, TASKS, Calls, Refused, pages

QUEUE = "trainplan"
"""The queue's name, in one region for all TPUs of the project."""
REGION = "us-central1"
"""Where the queue is: every region of Cloud Tasks reaches every zone, and one region is one to look."""
AFTER = (timedelta(0), timedelta(minutes=15), timedelta(minutes=60))
"""From the deadline to each delete. A delete that was accepted has begun, no more: so there are three."""
DISK_AFTER = tuple(after + timedelta(minutes=5) for after in AFTER)
"""The same for a data disk: each delete comes some minutes after one of its node, which holds the disk until then. A
task that is refused since the disk is in use is sent again for half an hour."""
LONGEST = timedelta(days=30)
"""How far ahead Cloud Tasks takes a task (https://cloud.google.com/tasks/docs/quotas, as its readers quote it)."""
CREATE_TASK = "CreateTask"
_SEPARATOR = "__"
_DISK = "disk"
"""The last word in the names of tasks that delete a data disk; those of queued resources have none."""
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Whose deletes they are: `name` is the queued resource's whole name, `address` where the TPU API answers,
    `account` the service account in whose name they are sent. `disk_url` is what deletes the data disk, "" where there
    is none."""

    project: str
    name: str
    address: str
    account: str
    disk_url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task as its name tells it, and when its run's deadline is. `is_of_disk`: it deletes the data disk."""

    name: str
    run_id: RunId
    attempt: int
    client: str
    zone: str
    deadline: datetime | None
    created_at: datetime | None
    is_of_disk: bool = False

    @property
    def ends(self) -> str:
        """The id of the queued resource or of the disk, which is the run's and the attempt's."""
        return resource_id(self.run_id, self.attempt)


def queue_name(project: str) -> str:
    """The full name of the project's queue in Cloud Tasks."""
    return f"projects/{project}/locations/{REGION}/queues/{QUEUE}"


def resource_id(run_id: str, attempt: int) -> str:
    """The name of the queued resource and of its node: as machines at Compute Engine are called."""
    return f"{PREFIX}{label_text(run_id)[:50].strip('-')}-{attempt}"


def task_calls(request: LaunchRequest, ends: Ends) -> tuple[VendorRequest, ...]:
    """Pure: the calls that arm the deadline. The names are the same for the same attempt: none is made twice."""
    url = f"{ends.address}/v2/{quote(ends.name)}?force=true"
    calls = [_task_call(request, ends, after, url) for after in AFTER]
    if ends.disk_url:
        calls += [_task_call(request, ends, after, ends.disk_url, _DISK) for after in DISK_AFTER]
    return tuple(calls)


def armed(calls: Calls, call: VendorRequest) -> bool:
    """Make the task. False: there was one of this name, and it is gone: what it would have ended is over.

    Cloud Tasks keeps the name of a task that was carried out or deleted for a day: nobody gets it meanwhile. Raises
    Refused, ProviderError.
    """
    try:
        calls.call(CREATE_TASK, call.parameters)
    except Refused as error:
        if error.status != "ALREADY_EXISTS":
            raise
        return _is_there(calls, task_name(call))
    return True


def task_name(call: VendorRequest) -> str:
    """The full name of the task that a call creates."""
    task: Any = call.parameters["task"]
    return str(task["name"])


def disarm(calls: Calls, name: str) -> None:
    """Delete a task; one that is gone is no error. Raises Refused, ProviderError."""
    try:
        calls.call("DeleteTask", {"name": name})
    except Refused as error:
        if error.status != "NOT_FOUND":
            raise


def tasks(calls: Calls, project: str, run_id: RunId | None) -> Iterator[Task]:
    """Every task of ours in the queue; none where there is no queue. Raises Refused, ProviderError."""
    request = {"parent": queue_name(project), "pageSize": PAGE}
    try:
        for page in pages(calls.call, "ListTasks", request):
            for row in page.get("tasks", ()):
                task = read_task(row)
                if task is not None and run_id in (None, task.run_id):
                    yield task
    except Refused as error:
        if error.status != "NOT_FOUND":
            raise


def read_task(row: Mapping[str, Any]) -> Task | None:
    """A task of a list; None for one that is not ours."""
    parts = str(row["name"]).rpartition("/")[2].split(_SEPARATOR)
    is_of_disk = len(parts) == 7 and parts[6] == _DISK
    if not (len(parts) == 6 or is_of_disk):
        return None
    word, run, attempt, client, zone, minutes = parts[:6]
    if word != "trainplan" or not (attempt.isdecimal() and minutes.isdecimal()):
        return None
    at = instant(row.get("scheduleTime"))
    return Task(
        name=str(row["name"]),
        run_id=RunId(_decoded(run)),
        attempt=int(attempt),
        client=_decoded(client),
        zone=zone,
        deadline=at - timedelta(minutes=int(minutes)) if at and not row.get("dispatchCount") else None,
        created_at=instant(row.get("createTime")),
        is_of_disk=is_of_disk,
    )


def rfc3339(at: datetime) -> str:
    """An instant in UTC, to the second, as Google's APIs write it."""
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _task_call(request: LaunchRequest, ends: Ends, after: timedelta, url: str, *more: str) -> VendorRequest:
    """A task that deletes what is at the address; `more` are further words of its name."""
    minutes = str(int(after.total_seconds() // 60))
    zone, client = ends.name.split("/")[3], _encoded(request.client)
    words = ("trainplan", _encoded(request.run_id), str(request.attempt), client, zone, minutes, *more)
    parent = queue_name(ends.project)
    task = {
        "name": f"{parent}/tasks/{_SEPARATOR.join(words)}",
        "scheduleTime": rfc3339(request.deadline + after),
        "httpRequest": {
            "httpMethod": "DELETE",
            "url": url,
            "oauthToken": {"serviceAccountEmail": ends.account, "scope": _SCOPE},
        },
    }
    return VendorRequest(service=TASKS, operation=CREATE_TASK, parameters={"parent": parent, "task": task})


def _is_there(calls: Calls, name: str) -> bool:
    try:
        calls.call("GetTask", {"name": name})
    except Refused as error:
        if error.status == "NOT_FOUND":
            return False
        raise
    return True


def _encoded(text: str) -> str:
    """Letters, digits and hyphens, which the id of a task takes; an underscore and two digits for any other byte."""
    return re.sub(r"[^A-Za-z0-9-]", lambda match: "".join(f"_{byte:02x}" for byte in match[0].encode()), text)


def _decoded(text: str) -> str:
    raw = re.sub(rb"_([0-9a-f]{2})", lambda match: bytes([int(match[1], 16)]), text.encode())
    return raw.decode(errors="replace")
