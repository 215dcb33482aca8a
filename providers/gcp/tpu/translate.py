"""What the Cloud TPU API and Cloud Tasks say, as ours: error codes, states, what is ours in their lists. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.base import (
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
from providers.errors import (
    BadRequestError,
    CapacityError,
    CredentialsError,
    InstanceNotFoundError,
    PermissionDeniedError,
    ProviderError,
    QuotaError,
    ThrottledError,
    TransientError,
    UnrecognizedError,
)
from providers.gcp.insert import instant_of
from providers.gcp.part import PROVIDER
from providers.gcp.tpu.api import Refused
from providers.gcp.tpu.reaper import Task, instant
from providers.gcp.translate import LOCATION_POLICY, SIGN_IN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from decimal import Decimal

WORD, NODE, TASK = "tpu", "tpunode", "tputask"
"""First words of the ids of queued resources (which stand for the instance), nodes and tasks."""
OFF = "SERVICE_DISABLED"
_ELSEWHERE = "another zone or machine may have one"
_QUOTA = (
    "TPUs of the Cloud TPU API have quotas of their own: ask for more at "
    "https://console.cloud.google.com/iam-admin/quotas?service=tpu.googleapis.com, or choose another zone or machine"
)
_ENABLE = "gcloud services enable {service}.googleapis.com, or plan setup gcp"
_GRANT = "ask whoever owns the project for the role in docs/permissions/gcp"
_LOOK = "look at the type, the runtime version and the network, then launch it anew"
_REPORT = "look up what exists; the code is Google's own"


class Reaction(NamedTuple):
    """What a code calls for, and what the person is told to do."""

    kind: type[ProviderError]
    hint: str = ""


# By the names of google.rpc.Code. RESOURCE_EXHAUSTED and FAILED_PRECONDITION say too little: SAID and INFO come first.
CODES: Mapping[str, Reaction] = {
    "CANCELLED": Reaction(TransientError, "try again"),
    "UNKNOWN": Reaction(TransientError, "try again"),
    "INVALID_ARGUMENT": Reaction(BadRequestError, _LOOK),
    "DEADLINE_EXCEEDED": Reaction(TransientError, "try again"),
    "NOT_FOUND": Reaction(InstanceNotFoundError),
    "ALREADY_EXISTS": Reaction(BadRequestError, "something else in the project has this name: launch it anew"),
    "PERMISSION_DENIED": Reaction(PermissionDeniedError, _GRANT),
    "ABORTED": Reaction(TransientError, "try again"),
    "OUT_OF_RANGE": Reaction(BadRequestError, _LOOK),
    "UNIMPLEMENTED": Reaction(BadRequestError, _LOOK),
    "INTERNAL": Reaction(TransientError, "try again"),
    "UNAVAILABLE": Reaction(TransientError, "try again later"),
    "UNAUTHENTICATED": Reaction(CredentialsError, SIGN_IN),
}
# Reasons of a google.rpc.ErrorInfo, which say more than the code they come with.
INFO: Mapping[str, Reaction] = {
    "RATE_LIMIT_EXCEEDED": Reaction(ThrottledError, "wait a little"),
    OFF: Reaction(PermissionDeniedError, _ENABLE),
    "BILLING_DISABLED": Reaction(PermissionDeniedError, "the project needs a billing account that is open"),
    "ACCESS_TOKEN_EXPIRED": Reaction(CredentialsError, SIGN_IN),
    "IAM_PERMISSION_DENIED": Reaction(PermissionDeniedError, _GRANT),
}
# What a message says beside its code, where the code alone is not enough; the first that fits counts.
SAID: Sequence[tuple[frozenset[str], re.Pattern[str], Reaction]] = (
    (
        frozenset({"RESOURCE_EXHAUSTED"}),
        re.compile(r"requests? per|rate limit", re.IGNORECASE),
        Reaction(ThrottledError, "wait a little"),
    ),
    (frozenset({"RESOURCE_EXHAUSTED"}), re.compile(r"quota", re.IGNORECASE), Reaction(QuotaError, _QUOTA)),
    (
        frozenset({"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "INTERNAL"}),
        re.compile(r"capacity|stockout|resource pool|not enough resources", re.IGNORECASE),
        Reaction(CapacityError, _ELSEWHERE),
    ),
    (
        frozenset({"INVALID_ARGUMENT", "FAILED_PRECONDITION"}),
        re.compile(r"while in state PREEMPTED"),
        Reaction(CapacityError, _ELSEWHERE),
    ),
    (
        frozenset({"PERMISSION_DENIED", "NOT_FOUND"}),
        re.compile(r"Location \S+ is not found or access is unauthorized|Permission denied on 'locations/"),
        Reaction(CapacityError, "this zone is not open to the project; another may be"),
    ),
    (
        frozenset({"FAILED_PRECONDITION", "PERMISSION_DENIED"}),
        LOCATION_POLICY,
        Reaction(CapacityError, "a policy of the organisation closes this place; another may be open"),
    ),
    (
        frozenset({"INVALID_ARGUMENT", "PERMISSION_DENIED"}),
        re.compile(r"user agent is not allowed|request to provision TPU Node has been denied"),
        Reaction(BadRequestError, "Google lets nobody rent it this way: choose another offer"),
    ),
)
_NUMBERS = {
    1: "CANCELLED",
    2: "UNKNOWN",
    3: "INVALID_ARGUMENT",
    4: "DEADLINE_EXCEEDED",
    5: "NOT_FOUND",
    6: "ALREADY_EXISTS",
    7: "PERMISSION_DENIED",
    8: "RESOURCE_EXHAUSTED",
    9: "FAILED_PRECONDITION",
    10: "ABORTED",
    11: "OUT_OF_RANGE",
    12: "UNIMPLEMENTED",
    13: "INTERNAL",
    14: "UNAVAILABLE",
    16: "UNAUTHENTICATED",
}
_QUOTA_NAME = re.compile(r"[Qq]uota(?: limit| metric)? '([^']+)'")
_PENDING, _RUNNING = InstanceState.PENDING, InstanceState.RUNNING
_STOPPING, _ENDED = InstanceState.STOPPING, InstanceState.ENDED
# Google's words for a node -> state, how it ended, what a person reads.
NODES: Mapping[str, tuple[InstanceState, EndKind | None, str]] = {
    "STATE_UNSPECIFIED": (_PENDING, None, ""),
    "CREATING": (_PENDING, None, ""),
    "READY": (_RUNNING, None, ""),
    "RESTARTING": (_RUNNING, None, ""),
    "REIMAGING": (_ENDED, EndKind.LOST, "somebody has its system made anew"),
    "DELETING": (_STOPPING, None, ""),
    # It may stay so for hours, and what it had in memory is gone: the run goes on elsewhere from its checkpoint.
    "REPAIRING": (_ENDED, EndKind.LOST, "Google repairs it"),
    "STOPPED": (_ENDED, EndKind.LOST, "somebody has stopped it"),
    "STOPPING": (_STOPPING, None, ""),
    "STARTING": (_PENDING, None, ""),
    "PREEMPTED": (_ENDED, EndKind.RECLAIMED, "spot took it back"),
    "TERMINATED": (_ENDED, EndKind.RECLAIMED, "Google ended it for maintenance of its host"),
    "HIDING": (_ENDED, EndKind.LOST, "Google hides it"),
    "HIDDEN": (_ENDED, EndKind.LOST, "Google hides it"),
    "UNHIDING": (_ENDED, EndKind.LOST, "Google hides it"),
    "UNKNOWN": (_ENDED, EndKind.DEVICE_LOST, "a repair of it has failed"),
}
# The same for a queued resource; of one that is ACTIVE its node tells.
RESOURCES: Mapping[str, tuple[InstanceState, EndKind | None, str]] = {
    "STATE_UNSPECIFIED": (_PENDING, None, ""),
    "CREATING": (_PENDING, None, ""),
    "ACCEPTED": (_PENDING, None, ""),
    "WAITING_FOR_RESOURCES": (_PENDING, None, ""),
    "PROVISIONING": (_PENDING, None, ""),
    "ACTIVE": (_ENDED, EndKind.LOST, "its node is gone"),
    "FAILED": (_ENDED, EndKind.NO_CAPACITY, "there was none within the time it may wait"),
    "DELETING": (_STOPPING, None, ""),
    "SUSPENDING": (_STOPPING, None, ""),
    "SUSPENDED": (_ENDED, EndKind.RECLAIMED, "Google took it back"),
}
# Charges accrue while a node is READY (https://cloud.google.com/tpu/pricing, read 2026-11-22).
_FREE_RESOURCES = frozenset(word for word, (state, _, _) in RESOURCES.items() if state is _PENDING) | {"FAILED"}
_FREE_NODES = frozenset({"STATE_UNSPECIFIED", "CREATING"})


@dataclass(frozen=True, slots=True)
class Place:
    """Where something of the TPU API is: `zone` and its own `name`."""

    zone: str
    name: str

    @property
    def region(self) -> str:
        return self.zone.rpartition("-")[0]

    def full(self, project: str, collection: str) -> str:
        return f"projects/{project}/locations/{self.zone}/{collection}/{self.name}"


def place_of(identity: str) -> Place | None:
    """Of a queued resource's or node's id; None for another."""
    parts = identity.split("/")
    return Place(parts[1], parts[2]) if len(parts) == 3 and parts[0] in (WORD, NODE) and all(parts) else None


def ref_of(place: Place) -> InstanceRef:
    return InstanceRef(provider=PROVIDER, region=place.region, id=f"{WORD}/{place.zone}/{place.name}")


def error_of(said: Refused, what: str, service: str = WORD) -> ProviderError:
    """The error of ours that an answer calls for; what is in no table stays unrecognized."""
    message = f"{what}: {said.message or said.status}"
    code, reaction = _reaction(said)
    if reaction is None:
        return UnrecognizedError(f"Google says {code}: {message}", hint=_REPORT, code=code)
    if reaction.kind is QuotaError:
        return QuotaError(message, quota=_quota_name(said), hint=reaction.hint, code=code)
    return reaction.kind(message, hint=reaction.hint.format(service=service), code=code)


def is_off(error: ProviderError) -> bool:
    """Whether the project does not use the service at all: then nothing of it can be there."""
    return error.code == OFF


def operation_error(operation: Mapping[str, Any], what: str) -> ProviderError | None:
    """What an operation failed with; None where it goes on or went well."""
    told = operation.get("error")
    return error_of(_status(told), what) if told else None


def instance(resource: Mapping[str, Any], node: Mapping[str, Any] | None) -> Instance:
    """A queued resource, and its node where there is one, as one instance."""
    place = _place(resource["name"])
    labels = _labels(_spec(resource))
    state, end, reason = _standing(resource, node)
    made_at = instant(node.get("createTime")) if node else None
    bills = _bills(resource, node)
    return Instance(
        ref=ref_of(place),
        state=state,
        run_id=RunId(labels.get(LABEL_RUN, "")),
        attempt=_number(labels.get(LABEL_ATTEMPT)) or 0,
        launched_at=made_at,
        end=end,
        reason=reason or None,
        bills=bills,
        bills_from=made_at if bills else None,
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


def _reaction(said: Refused) -> tuple[str, Reaction | None]:
    """The code, of which the most telling one is taken, and what it calls for."""
    for row in said.details:
        reason = str(row.get("reason", ""))
        if reason in INFO:
            return reason, INFO[reason]
    if any(str(row.get("@type", "")).endswith("google.rpc.QuotaFailure") for row in said.details):
        return said.status, Reaction(QuotaError, _QUOTA)
    for statuses, pattern, reaction in SAID:
        if said.status in statuses and pattern.search(said.message):
            return said.status, reaction
    return said.status, CODES.get(said.status)


def _quota_name(said: Refused) -> str:
    for row in said.details:
        for violation in row.get("violations", ()):
            if violation.get("subject"):
                return str(violation["subject"])
    named = _QUOTA_NAME.search(said.message)
    return named[1] if named else "unknown"


def _status(told: Mapping[str, Any]) -> Refused:
    """A google.rpc.Status in JSON."""
    number = int(told.get("code", 2))
    code = _NUMBERS.get(number, str(number))
    return Refused(code, str(told.get("message", "")), told.get("details", ()))


def _standing(resource: Mapping[str, Any], node: Mapping[str, Any] | None) -> tuple[InstanceState, EndKind | None, str]:
    word = _word(resource, "state", "state")
    if word == "ACTIVE" and node is not None:
        known = NODES.get(str(node.get("state", "STATE_UNSPECIFIED")))
        return known or (_ENDED, EndKind.LOST, f"Google says {node.get('state')}, which nobody here knows")
    state, end, reason = RESOURCES.get(word, (_ENDED, EndKind.LOST, f"Google says {word}, which nobody here knows"))
    if word == "SUSPENDED" and _word(resource, "state", "stateInitiator") == "USER":
        return state, EndKind.KILLED, "somebody ended it"
    if word == "FAILED" and (told := _failed_with(resource)):
        lacking = isinstance(error_of(_status(told), ""), CapacityError | QuotaError)
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
    place = _place(str(node["name"]))
    return OwnedResource(
        provider=PROVIDER,
        region=place.region,
        kind=kind,
        id=f"{word}/{place.zone}/{place.name}",
        run_id=RunId(labels[LABEL_RUN]),
        created_at=instant(node.get("createTime")),
        usd_per_hour=usd_per_hour,
        attempt=_number(labels.get(LABEL_ATTEMPT)),
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


def _place(full: str) -> Place:
    parts = full.split("/")
    return Place(parts[3], parts[5])


def _word(resource: Mapping[str, Any], group: str, name: str) -> str:
    return str((resource.get(group) or {}).get(name, "STATE_UNSPECIFIED"))


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None
