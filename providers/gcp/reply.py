"""What Compute Engine shows of machines, disks and addresses, as values of the seam. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

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
from trainplan.providers.gcp.errors import error_of_operation
from trainplan.providers.gcp.request import instant_of
from trainplan.providers.gcp.settings import PROVIDER

INSTANCE = "gce"
WORDS: Mapping[str, str] = {INSTANCE: "instances", "gce-disk": "disks", "gce-address": "addresses"}
"""First words of ids -> kinds of the API."""
KINDS: Mapping[str, tuple[str, str]] = {
    "instances": (INSTANCE, "instance"),
    "disks": ("gce-disk", "disk"),
    "addresses": ("gce-address", "address"),
}
"""Kinds of the API -> first word of an id, and what a person reads."""
_STATES = {
    "PENDING": InstanceState.PENDING,
    "PROVISIONING": InstanceState.PENDING,
    "STAGING": InstanceState.PENDING,
    "RUNNING": InstanceState.RUNNING,
    "REPAIRING": InstanceState.RUNNING,
    "PENDING_STOP": InstanceState.STOPPING,
    "STOPPING": InstanceState.STOPPING,
    "SUSPENDING": InstanceState.STOPPING,
    "DEPROVISIONING": InstanceState.STOPPING,
    "SUSPENDED": InstanceState.ENDED,
    "STOPPED": InstanceState.ENDED,
    "TERMINATED": InstanceState.ENDED,
}
# What the operation that ended a machine says of why.
_WHY = {
    "compute.instances.preempted": (EndKind.RECLAIMED, "spot took it back"),
    "compute.instances.terminateOnHostMaintenance": (
        EndKind.RECLAIMED,
        "Google stopped it for maintenance of its host",
    ),
    "compute.instances.hostError": (EndKind.LOST, "its host failed"),
}
# What deletes or stops a machine, by whomever (docs/maintainers/fidelity.md).
_ENDS = {"delete", "stop", "compute.instances.scheduledTermination", "compute.instances.guestTerminate", *_WHY}
_DONE_STATUS = "DONE"


def id_of(kind: str, location: str, name: str) -> str:
    """`kind` is the API's; `location` a zone, or a region."""
    return f"{KINDS[kind][0]}/{location}/{name}"


def parts_of(identity: str) -> tuple[str, str, str] | None:
    """Kind, placement and name of an id; None for what is no id of Compute Engine's."""
    word, _, rest = identity.partition("/")
    location, _, name = rest.partition("/")
    kind = WORDS.get(word)
    return (kind, location, name) if kind and location and name and "/" not in name else None


def region_of(zone: str) -> str:
    """The region of a zone."""
    return zone.rpartition("-")[0]


def region_in(location: str) -> str:
    """The region of a zone (`us-central1-a`) or of a region."""
    return region_of(location) if len(location.rpartition("-")[2]) == 1 else location


def last_of(link: str) -> str:
    """The last part of an address of a resource."""
    return link.rpartition("/")[2]


def instance_of(reply: Mapping[str, Any], operations: Iterable[Mapping[str, Any]] = ()) -> Instance:
    """An instance as it is shown; `operations` are those on it, the newest first, where it has stopped."""
    labels = reply.get("labels") or {}
    state = _STATES.get(str(reply.get("status")), InstanceState.RUNNING)
    zone, name = last_of(str(reply["zone"])), str(reply["name"])
    over = Over()
    if state is InstanceState.ENDED:
        stopped_at = instant(reply.get("lastStopTimestamp"))
        unexplained = Over(reason=f"Google shows it {reply['status']}", at=stopped_at)
        over = why_ended(operations) or _by_its_deadline(reply, stopped_at) or unexplained
    return Instance(
        ref=InstanceRef(provider=PROVIDER, region=region_of(zone), id=id_of("instances", zone, name)),
        state=state,
        run_id=RunId(labels.get(LABEL_RUN, "")),
        attempt=number(labels.get(LABEL_ATTEMPT)) or 0,
        launched_at=instant(reply.get("creationTimestamp")),
        end=over.end,
        reason=over.reason,
        ended_at=over.at,
    )


class Over(NamedTuple):
    """How a machine has ended, as far as Google tells."""

    end: EndKind | None = None
    reason: str | None = None
    at: datetime | None = None


def why_ended(operations: Iterable[Mapping[str, Any]]) -> Over | None:
    """What the operations on a machine say of why it is over; None where they do not."""
    for operation in operations:
        at = instant(operation.get("endTime") or operation.get("insertTime"))
        pair = _WHY.get(str(operation.get("operationType")))
        if pair is not None:
            return Over(*pair, at)
        failed = error_of_operation(operation, "compute/instances.insert") if is_insert(operation) else None
        if failed is not None:
            return Over(EndKind.LOST, failed.message, at)
    return None


def ended_at(operations: Iterable[Mapping[str, Any]]) -> datetime | None:
    """When a machine that is not there any more stopped being charged for: the first of the operations on it that end
    one was done then. None where none of these is known."""
    ends = [
        at
        for operation in operations
        if operation.get("operationType") in _ENDS and is_done(operation) and "error" not in operation
        if (at := instant(operation.get("endTime"))) is not None
    ]
    return min(ends, default=None)


def is_insert(operation: Mapping[str, Any]) -> bool:
    """Whether the operation creates a machine."""
    return operation.get("operationType") == "insert"


def is_done(operation: Mapping[str, Any]) -> bool:
    """Whether the operation has ended, well or not."""
    return operation.get("status") == _DONE_STATUS


def owned_of(kind: str, location: str, reply: Mapping[str, Any], usd_per_hour: Decimal | None) -> OwnedResource:
    """Something of ours in a list of that kind."""
    labels = reply.get("labels") or {}
    return OwnedResource(
        provider=PROVIDER,
        region=location if kind == "addresses" else region_of(location),
        kind=KINDS[kind][1],
        id=id_of(kind, location, str(reply["name"])),
        run_id=RunId(labels.get(LABEL_RUN, "")),
        created_at=instant(reply.get("creationTimestamp")),
        usd_per_hour=usd_per_hour,
        attempt=number(labels.get(LABEL_ATTEMPT)),
        instance=kind == "instances",
        deadline=instant_of(labels.get(LABEL_DEADLINE)),
        client=labels.get(LABEL_CLIENT),
    )


def _by_its_deadline(reply: Mapping[str, Any], stopped_at: datetime | None) -> Over | None:
    """A machine that has stopped at its deadline or later has ended itself by its timer."""
    deadline = instant_of((reply.get("labels") or {}).get(LABEL_DEADLINE))
    if deadline is None or stopped_at is None or stopped_at < deadline:
        return None
    return Over(EndKind.DEADLINE, "it ended itself at its deadline", stopped_at)
