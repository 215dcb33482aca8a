"""Azure's documents to our values: machines, and what comes with them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from trainplan.pricing.money import HOURS_PER_MONTH
from trainplan.providers.azure.names import OURS, OURS_VALUE, PROVIDER, attempt_of
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
from trainplan.providers.cloud.labels import instant, labels_of, number

if TYPE_CHECKING:
    from trainplan.pricing.cost import RegionRates

PRICE, DISK = "trainplan-usd-per-hour", "trainplan-disk-gib"
KINDS: Mapping[str, str] = {
    "microsoft.compute/virtualmachines": "machine",
    "microsoft.compute/disks": "disk",
    "microsoft.network/networkinterfaces": "interface",
    "microsoft.network/publicipaddresses": "address",
    "microsoft.network/networksecuritygroups": "security_group",
    "microsoft.network/virtualnetworks": "network",
    "microsoft.authorization/roleassignments": "role_assignment",
    "microsoft.resources/resourcegroups": "resource_group",
}
_MACHINE = "microsoft.compute/virtualmachines"
_POWER = {
    "starting": InstanceState.PENDING,
    "running": InstanceState.RUNNING,
    "stopping": InstanceState.STOPPING,
    "deallocating": InstanceState.STOPPING,
    "stopped": InstanceState.ENDED,  # it still bills, and has to be deleted (docs/maintainers/fidelity.md)
    "deallocated": InstanceState.ENDED,
}


_ENDS = frozenset({f"{_MACHINE}/delete", f"{_MACHINE}/deallocate/action"})
_WRITE = f"{_MACHINE}/write"


def deleted_at(events: Iterable[Mapping[str, Any]]) -> datetime | None:
    """When a machine was not charged for any more at the latest, by what the activity log has of it: the first record
    of an operation that ended it and succeeded. None where there is none.

    What is being deallocated is not charged for (https://learn.microsoft.com/azure/virtual-machines/states-billing).
    """
    begun: dict[tuple[str, str], datetime] = {}
    done: set[tuple[str, str]] = set()
    for event in events:
        name, at = _value(event, "operationName").lower(), instant(event.get("eventTimestamp"))
        if name not in _ENDS or at is None:
            continue
        operation = (name, str(event.get("correlationId")))
        begun[operation] = min(at, begun.get(operation, at))
        if _value(event, "status") == "Succeeded":
            done.add(operation)
    return min((begun[operation] for operation in done), default=None)


def was_made(events: Iterable[Mapping[str, Any]]) -> bool | None:
    """Whether a machine was ever made, by what the activity log has of it; None: a create has begun, and the log does
    not tell how it ended."""
    statuses = {_value(event, "status") for event in events if _value(event, "operationName").lower() == _WRITE}
    is_told = not statuses or statuses & {"Succeeded", "Failed"}
    return "Succeeded" in statuses if is_told else None


def _value(event: Mapping[str, Any], name: str) -> str:
    """One of the words that the activity log gives as `{"value": …, "localizedValue": …}`."""
    return str((event.get(name) or {}).get("value") or "")


def tags_of(request: LaunchRequest) -> dict[str, str]:
    """The tags of every group and machine of an attempt."""
    return {
        OURS: OURS_VALUE,
        **labels_of(request),
        PRICE: str(request.offer.usd_per_hour),
    }


def ref_of(group: str, region: str) -> InstanceRef:
    """The reference of the machine in this group."""
    return InstanceRef(provider=PROVIDER, region=region, id=group)


def instance(reply: Mapping[str, Any], now: datetime) -> Instance:
    """A machine as `GET virtualMachines?$expand=instanceView` shows it.

    A machine that is stopped or deallocated has ENDED. Azure gives a reason only for a reclaimed spot machine and for a
    create that failed. An end after the deadline is attributed to the timer.
    """
    tags, properties = _tags(reply), reply.get("properties", {})
    state = state_of(reply)
    end, reason = _end(reply, now) if state is InstanceState.ENDED else (None, None)
    return Instance(
        ref=ref_of(str(reply["name"]), str(reply.get("location", ""))),
        state=state,
        run_id=RunId(tags.get(LABEL_RUN, "")),
        attempt=number(tags.get(LABEL_ATTEMPT)) or 0,
        launched_at=instant(properties.get("timeCreated")),
        end=end,
        reason=reason,
        is_deleted=provisioning_of(reply) == "deleting" or power_of(reply) == "deallocating",
    )


def state_of(reply: Mapping[str, Any]) -> InstanceState:
    """The state: from a deletion in progress, else from the power state, else from the result of the create."""
    provisioning = provisioning_of(reply)
    if provisioning == "deleting":
        return InstanceState.STOPPING
    power = power_of(reply)
    if power in _POWER:
        return _POWER[power]
    return InstanceState.ENDED if provisioning == "failed" else InstanceState.PENDING


def provisioning_of(reply: Mapping[str, Any]) -> str:
    """`creating`, `succeeded`, `failed`, `deleting`, in small letters."""
    return str(reply.get("properties", {}).get("provisioningState", "")).lower()


def power_of(reply: Mapping[str, Any]) -> str:
    """`running`, `deallocated`, …; "" before there is any."""
    return next(
        (code.partition("/")[2] for code in _codes(reply) if code.lower().startswith("powerstate/")), ""
    ).lower()


def failure_of(reply: Mapping[str, Any]) -> dict[str, Any]:
    """The error of a create that failed, as the machine's own statuses keep it (ProvisioningState/failed/CODE)."""
    for status in _statuses(reply):
        parts = str(status.get("code", "")).split("/")
        if [part.lower() for part in parts[:2]] == ["provisioningstate", "failed"] and len(parts) > 2:
            return {"error": {"code": parts[2], "message": str(status.get("message", ""))}}
    return {"error": {"code": "", "message": "its create failed, and Azure does not say why"}}


def owned(
    reply: Mapping[str, Any], group: Mapping[str, Any], rates: Callable[[str], RegionRates | None] = lambda _: None
) -> OwnedResource | None:
    """Something in a group of ours; the group's tags tell whose it is. None for a group that is none of ours.

    `rates` are those of a region, which disks and addresses are priced at.
    """
    whose = attempt_of(str(group["name"]))
    tags = _tags(group)
    if whose is None and LABEL_RUN not in tags:
        return None
    kind = str(reply["type"]).lower()
    machine = kind == _MACHINE
    run_id, attempt = whose or (tags[LABEL_RUN], number(tags.get(LABEL_ATTEMPT)))
    region = str(reply.get("location") or group.get("location", ""))
    return OwnedResource(
        provider=PROVIDER,
        region=region,
        kind=KINDS.get(kind, kind),
        id=str(group["name"]) if machine else str(reply["id"]),
        run_id=RunId(tags.get(LABEL_RUN, run_id)),
        created_at=instant(reply.get("createdTime")),
        usd_per_hour=_price(KINDS.get(kind, kind), tags, rates(region)),
        attempt=attempt,
        instance=machine,
        deadline=instant(tags.get(LABEL_DEADLINE)),
        client=tags.get(LABEL_CLIENT),
    )


def _price(kind: str, tags: Mapping[str, str], rates: RegionRates | None) -> Decimal | None:
    """USD per hour from the tags of the group: lists of resources have neither a machine's price nor a disk's size."""
    if kind == "machine":
        return _decimal(tags.get(PRICE))
    if rates is None:
        return None
    if kind == "address":
        return rates.address.usd
    size_gib = number(tags.get(DISK)) if kind == "disk" else None
    return size_gib * rates.disk.usd / HOURS_PER_MONTH if size_gib else None


def _end(reply: Mapping[str, Any], now: datetime) -> tuple[EndKind, str]:
    if provisioning_of(reply) == "failed" and not power_of(reply):
        error = failure_of(reply)["error"]
        return EndKind.LOST, f"it never came up: {error['code']} {error['message']}".strip()
    # Azure does not say who deallocated a machine: at the deadline it was the timer, and spot only before it.
    deadline = instant(_tags(reply).get(LABEL_DEADLINE))
    power = power_of(reply)
    if deadline is not None and now >= deadline:
        return EndKind.DEADLINE, f"it was {power} at its deadline"
    if reply.get("properties", {}).get("priority") == "Spot" and power == "deallocated":
        return EndKind.RECLAIMED, "spot took it back"
    return EndKind.LOST, f"it is {power}, and Azure does not say why"


def _statuses(reply: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    view = reply.get("properties", {}).get("instanceView") or {}
    item = view.get("statuses") or []
    return [status for status in item if isinstance(status, Mapping)]


def _codes(reply: Mapping[str, Any]) -> list[str]:
    return [str(status.get("code", "")) for status in _statuses(reply)]


def _tags(reply: Mapping[str, Any]) -> Mapping[str, str]:
    return reply.get("tags") or {}


def _decimal(text: str | None) -> Decimal | None:
    try:
        return Decimal(text) if text else None
    except InvalidOperation:
        return None
