"""What the Cloud TPU API and Cloud Tasks show as values of the seam: states, and what is ours in their lists. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from trainplan.providers.base import (
    LABEL_ATTEMPT,
    LABEL_CLIENT,
    LABEL_DEADLINE,
    LABEL_RUN,
    EndKind,
    Instance,
    InstanceRef,
    InstanceState,
    LaunchRequest,
    OwnedResource,
    RunId,
)
from trainplan.providers.cloud.labels import instant, number
from trainplan.providers.errors import (
    CapacityError,
    QuotaError,
)
from trainplan.providers.gcp.request import instant_of
from trainplan.providers.gcp.settings import PROVIDER

if TYPE_CHECKING:
    from datetime import datetime

    from trainplan.providers.gcp.tpu.deadline import Task
from trainplan.providers.gcp.tpu.errors import error_of, status_of

WORD, NODE, TASK = "tpu", "tpunode", "tputask"
"""First words of the ids of queued resources (which stand for the instance), nodes and tasks."""
_PENDING, _RUNNING = InstanceState.PENDING, InstanceState.RUNNING
_STOPPING, _ENDED_STATE = InstanceState.STOPPING, InstanceState.ENDED
# Google's words for a node -> state, how it ended, what a person reads.
NODES: Mapping[str, tuple[InstanceState, EndKind | None, str]] = {
    "STATE_UNSPECIFIED": (_PENDING, None, ""),
    "CREATING": (_PENDING, None, ""),
    "READY": (_RUNNING, None, ""),
    "RESTARTING": (_RUNNING, None, ""),
    "REIMAGING": (_ENDED_STATE, EndKind.LOST, "somebody is reinstalling its system"),
    "DELETING": (_STOPPING, None, ""),
    # It may stay so for hours, and what it had in memory is gone: the run goes on elsewhere from its checkpoint.
    "REPAIRING": (_ENDED_STATE, EndKind.LOST, "Google repairs it"),
    "STOPPED": (_ENDED_STATE, EndKind.LOST, "somebody has stopped it"),
    "STOPPING": (_STOPPING, None, ""),
    "STARTING": (_PENDING, None, ""),
    "PREEMPTED": (_ENDED_STATE, EndKind.RECLAIMED, "spot took it back"),
    "TERMINATED": (_ENDED_STATE, EndKind.RECLAIMED, "Google ended it for maintenance of its host"),
    "HIDING": (_ENDED_STATE, EndKind.LOST, "Google hides it"),
    "HIDDEN": (_ENDED_STATE, EndKind.LOST, "Google hides it"),
    "UNHIDING": (_ENDED_STATE, EndKind.LOST, "Google hides it"),
    "UNKNOWN": (_ENDED_STATE, EndKind.DEVICE_LOST, "a repair of it has failed"),
}
# The same for a queued resource; of one that is ACTIVE its node tells.
RESOURCES: Mapping[str, tuple[InstanceState, EndKind | None, str]] = {
    "STATE_UNSPECIFIED": (_PENDING, None, ""),
    "CREATING": (_PENDING, None, ""),
    "ACCEPTED": (_PENDING, None, ""),
    "WAITING_FOR_RESOURCES": (_PENDING, None, ""),
    "PROVISIONING": (_PENDING, None, ""),
    "ACTIVE": (_ENDED_STATE, EndKind.LOST, "its node is gone"),
    "FAILED": (_ENDED_STATE, EndKind.NO_CAPACITY, "no capacity became available within its waiting time"),
    "DELETING": (_STOPPING, None, ""),
    "SUSPENDING": (_STOPPING, None, ""),
    "SUSPENDED": (_ENDED_STATE, EndKind.RECLAIMED, "Google took it back"),
}
# Charges accrue while a node is READY (https://cloud.google.com/tpu/pricing, read 2026-11-22).
_FREE_RESOURCES = frozenset(word for word, (state, _, _) in RESOURCES.items() if state is _PENDING) | {"FAILED"}
_FREE_NODES = frozenset({"STATE_UNSPECIFIED", "CREATING"})


@dataclass(frozen=True, slots=True)
class TpuLocation:
    """Where something of the TPU API is: `zone` and its own `name`."""

    zone: str
    name: str

    @property
    def region(self) -> str:
        """The region of its zone."""
        return self.zone.rpartition("-")[0]

    def full(self, project: str, collection: str) -> str:
        """Return the full name in a collection, such as `nodes`."""
        return f"projects/{project}/locations/{self.zone}/{collection}/{self.name}"


def location_of(identity: str) -> TpuLocation | None:
    """Return zone and name by the id of a queued resource or a node; None for another id."""
    parts = identity.split("/")
    return TpuLocation(parts[1], parts[2]) if len(parts) == 3 and parts[0] in (WORD, NODE) and all(parts) else None


def ref_of(location: TpuLocation) -> InstanceRef:
    """The reference of the node at this placement."""
    return InstanceRef(provider=PROVIDER, region=location.region, id=f"{WORD}/{location.zone}/{location.name}")


def instance(resource: Mapping[str, Any], node: Mapping[str, Any] | None) -> Instance:
    """A queued resource, and its node where there is one, as one instance."""
    location = _location(resource["name"])
    labels = _labels(_spec(resource))
    state, end, reason = _state_of(resource, node)
    made_at = instant(node.get("createTime")) if node else None
    bills = _bills(resource, node)
    return Instance(
        ref=ref_of(location),
        state=state,
        run_id=RunId(labels.get(LABEL_RUN, "")),
        attempt=number(labels.get(LABEL_ATTEMPT)) or 0,
        launched_at=made_at,
        end=end,
        reason=reason or None,
        bills=bills,
        bills_from=made_at if bills else None,
        is_start_told=False,  # no field has when a node became READY
    )


def owned_resource(resource: Mapping[str, Any], usd_per_hour: Decimal | None = None) -> OwnedResource | None:
    """A queued resource of a list; None where it is not ours. Only one that has a node costs something."""
    state = _word(resource, "state", "state")
    costs = state in ("ACTIVE", "SUSPENDING", "DELETING")
    node = {**_spec(resource), "name": resource["name"], "createTime": resource.get("createTime")}
    return _owned("queued resource", WORD, node, usd_per_hour if costs else None)


def owned_node(node: Mapping[str, Any]) -> OwnedResource | None:
    """A node of a list; None where it is not ours. Its price stands with its queued resource."""
    return _owned("node", NODE, node, None)


def owned_task(task: Task) -> OwnedResource:
    """A task in Cloud Tasks as a resource of ours."""
    return OwnedResource(
        provider=PROVIDER,
        region=task.name.split("/")[3],
        kind="task",
        id=f"{TASK}/{task.name}",
        run_id=task.run_id,
        created_at=task.created_at,
        attempt=task.attempt,
        instance=False,
        deadline=task.deadline,
        client=task.client or None,
    )


def asked_for(request: LaunchRequest, location: TpuLocation) -> Instance:
    """What was accepted, and is not shown yet."""
    ref, pending = ref_of(location), InstanceState.PENDING
    return Instance(ref=ref, state=pending, run_id=request.run_id, attempt=request.attempt, bills=False)


def dead(request: LaunchRequest, location: TpuLocation, reason: str) -> Instance:
    """What was made by this attempt before, and is gone."""
    instance_state = InstanceState.ENDED
    return Instance(
        ref=ref_of(location), state=instance_state, run_id=request.run_id, attempt=request.attempt, reason=reason
    )


def deleted_at(operations: Iterable[Mapping[str, Any]], name: str) -> datetime | None:
    """When the node of a queued resource was charged for no more, at the latest: from a delete on it is not READY
    (https://cloud.google.com/tpu/pricing). None where no delete is known."""
    deletes = [
        at
        for operation in operations
        if (told := operation.get("metadata") or {}).get("target") == name
        and told.get("verb") == "delete"
        and operation.get("done")
        and "error" not in operation
        and (at := instant(told.get("createTime"))) is not None
    ]
    return min(deletes, default=None)


def said_of(resource: Mapping[str, Any], node: Mapping[str, Any] | None) -> list[str]:
    """What the API tells of how it stands, a line each: a TPU has no console that could be read."""
    state = _word(resource, "state", "state")
    lines = [f"queued resource: {state}"]
    if failure := _failure(resource):
        lines.append(f"queued resource: {failure}")
    if node is not None:
        lines.append(f"node: {node.get('state', 'STATE_UNSPECIFIED')}, health {node.get('health', 'unknown')}")
        lines += [str(node[key]) for key in ("healthDescription",) if node.get(key)]
        lines += [f"{row.get('symptomType', '')}: {row.get('details', '')}" for row in node.get("symptoms", ())]
    return lines


def _state_of(resource: Mapping[str, Any], node: Mapping[str, Any] | None) -> tuple[InstanceState, EndKind | None, str]:
    word = _word(resource, "state", "state")
    if word == "ACTIVE" and node is not None:
        node_state = NODES.get(str(node.get("state", "STATE_UNSPECIFIED")))
        return node_state or (
            _ENDED_STATE,
            EndKind.LOST,
            f"Google says {node.get('state')}, which this version does not know",
        )
    state, end, reason = RESOURCES.get(
        word, (_ENDED_STATE, EndKind.LOST, f"Google says {word}, which this version does not know")
    )
    if word == "SUSPENDED" and _word(resource, "state", "stateInitiator") == "USER":
        return state, EndKind.KILLED, "somebody ended it"
    if word == "FAILED" and (reply := _failed_with(resource)):
        lacking = isinstance(error_of(status_of(reply), ""), CapacityError | QuotaError)
        return state, end if lacking else EndKind.LOST, _failure(resource) or reason
    return state, end, reason


def _bills(resource: Mapping[str, Any], node: Mapping[str, Any] | None) -> bool:
    """Whether anything is charged for it by now. When a node became READY is told nowhere."""
    word = _word(resource, "state", "state")
    if word == "ACTIVE" and node is not None:
        return str(node.get("state", "STATE_UNSPECIFIED")) not in _FREE_NODES
    return word not in _FREE_RESOURCES


def _failure(resource: Mapping[str, Any]) -> str:
    return str(_failed_with(resource).get("message", ""))


def _failed_with(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    return (resource.get("state") or {}).get("failedData", {}).get("error") or {}


def _owned(kind: str, word: str, node: Mapping[str, Any], usd_per_hour: Decimal | None) -> OwnedResource | None:
    labels = _labels(node)
    if LABEL_RUN not in labels:
        return None
    location = _location(str(node["name"]))
    return OwnedResource(
        provider=PROVIDER,
        region=location.region,
        kind=kind,
        id=f"{word}/{location.zone}/{location.name}",
        run_id=RunId(labels[LABEL_RUN]),
        created_at=instant(node.get("createTime")),
        usd_per_hour=usd_per_hour,
        attempt=number(labels.get(LABEL_ATTEMPT)),
        instance=word == WORD,
        deadline=instant_of(labels.get(LABEL_DEADLINE)),
        client=labels.get(LABEL_CLIENT) or None,
    )


def _spec(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    """The node that a queued resource asks for."""
    specs = (resource.get("tpu") or {}).get("nodeSpec") or [{}]
    return dict(specs[0].get("node") or {})


def _labels(node: Mapping[str, Any]) -> Mapping[str, str]:
    return dict(node.get("labels") or {})


def _location(full: str) -> TpuLocation:
    parts = full.split("/")
    return TpuLocation(parts[3], parts[5])


def _word(resource: Mapping[str, Any], group: str, name: str) -> str:
    return str((resource.get(group) or {}).get(name, "STATE_UNSPECIFIED"))
