"""What EC2 and the scheduler show as values of the seam. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from trainplan.providers.aws.settings import PROVIDER
from trainplan.providers.base import (
    LABEL_ATTEMPT,
    LABEL_CLIENT,
    LABEL_DEADLINE,
    LABEL_RUN,
    EndKind,
    Instance,
    InstanceRef,
    InstanceState,
    OwnedResource,
    RunId,
)
from trainplan.providers.cloud.labels import instant, number

SCHEDULE = "schedule/"
"""Before the name of a schedule in our ids: EC2's own begin otherwise."""

_STATES = {
    "pending": InstanceState.PENDING,
    "running": InstanceState.RUNNING,
    "shutting-down": InstanceState.STOPPING,
    "stopping": InstanceState.STOPPING,
    "stopped": InstanceState.ENDED,
    "terminated": InstanceState.ENDED,
}
# StateReason's code -> how it ended as far as EC2 knows: how training ended stands in the run directory.
_ENDS: Mapping[str, tuple[EndKind | None, str]] = {
    "Client.InstanceInitiatedShutdown": (None, "the machine ended itself"),
    "Client.UserInitiatedShutdown": (EndKind.KILLED, "it was terminated by a call"),
    "Server.SpotInstanceTermination": (EndKind.RECLAIMED, "spot took it back"),
    "Server.SpotInstanceShutdown": (EndKind.RECLAIMED, "spot took it back"),
    "Server.ScheduledStop": (EndKind.RECLAIMED, "AWS stopped it: its host is taken out of service"),
    "Server.InsufficientInstanceCapacity": (EndKind.NO_CAPACITY, "there was no capacity left to start it"),
    "Server.InternalError": (EndKind.LOST, "an error within AWS ended it"),
    "Client.InternalError": (EndKind.LOST, "it could not start: its disk or the key of it could not be used"),
    "Client.VolumeLimitExceeded": (EndKind.LOST, "it could not start: the account's quota of disk is too small"),
    "Client.InvalidSnapshot.NotFound": (EndKind.LOST, "it could not start: the disk of its image is gone"),
}


def instance(reply: Mapping[str, Any], region: str) -> Instance:
    """An instance as EC2 shows it. Its end is told as far as EC2 knows it."""
    tags = tags_in(reply)
    state = _STATES.get(str(reply.get("State", {}).get("Name")), InstanceState.PENDING)
    over = state is InstanceState.ENDED
    end, reason = _end(reply) if over else (None, None)
    return Instance(
        ref=InstanceRef(provider=PROVIDER, region=region, id=str(reply["InstanceId"])),
        state=state,
        run_id=RunId(tags.get(LABEL_RUN, "")),
        attempt=number(tags.get(LABEL_ATTEMPT)) or 0,
        launched_at=reply.get("LaunchTime"),
        end=end,
        reason=reason,
        ended_at=_ended_at(reply) if over else None,
    )


def owned(kind: str, reply: Mapping[str, Any], region: str, key: str, created: str) -> OwnedResource:
    """Something of ours as a list shows it: its id is under `key`, when it was made under `created`."""
    tags = tags_in(reply)
    return OwnedResource(
        provider=PROVIDER,
        region=region,
        kind=kind,
        id=str(reply[key]),
        run_id=RunId(tags.get(LABEL_RUN, "")),
        created_at=reply.get(created),
        attempt=number(tags.get(LABEL_ATTEMPT)),
        instance=kind == "instance",
        deadline=instant(tags.get(LABEL_DEADLINE)),
        client=tags.get(LABEL_CLIENT) or None,
    )


def owned_schedule(reply: Mapping[str, Any], region: str) -> OwnedResource | None:
    """A schedule of a run; None for another one of the group (the reaper's)."""
    parts = str(reply["Name"]).split(".")
    if len(parts) != 4 or number(parts[1]) is None or number(parts[2]) is None:
        return None
    run, attempt, deadline, client = parts
    return OwnedResource(
        provider=PROVIDER,
        region=region,
        kind="schedule",
        id=f"{SCHEDULE}{reply['Name']}",
        run_id=RunId(run),
        created_at=reply.get("CreationDate"),
        attempt=int(attempt),
        instance=False,
        deadline=datetime.fromtimestamp(int(deadline), UTC),
        client=client or None,
    )


def tags_in(reply: Mapping[str, Any]) -> dict[str, str]:
    """Interfaces have theirs under another name."""
    return {row["Key"]: row["Value"] for row in reply.get("Tags") or reply.get("TagSet") or ()}


def _end(reply: Mapping[str, Any]) -> tuple[EndKind | None, str]:
    reason: Mapping[str, str] = reply.get("StateReason") or {}
    code = reason.get("Code", "")
    if code not in _ENDS:
        return EndKind.LOST, reason.get("Message") or reply.get("StateTransitionReason") or "AWS does not say why"
    end, text = _ENDS[code]
    if reply.get("State", {}).get("Name") == "stopped" and end is None:
        return EndKind.LOST, "it was stopped"
    return end, text


def _ended_at(reply: Mapping[str, Any]) -> datetime | None:
    """`User initiated (2026-11-21 12:00:00 GMT)`; spot's reasons have no time."""
    match = re.search(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (GMT|UTC)\)", reply.get("StateTransitionReason") or "")
    return datetime.fromisoformat(match.group(1)).replace(tzinfo=UTC) if match else None
