"""Azure's documents to our values: machines, and what comes with them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from pricing.money import HOURS_PER_MONTH
from providers.azure.names import OURS, OURS_VALUE, PROVIDER, attempt_of
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

if TYPE_CHECKING:
    from providers.base import LaunchRequest

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
ADDRESS_USD_PER_HOUR = Decimal("0.005")
"""A static Standard address (pricing/data/rates.toml has its source)."""
DISK_USD_PER_GB_MONTH = Decimal("0.075")
"""Standard SSD (pricing/data/rates.toml has its source)."""
_POWER = {
    "starting": InstanceState.PENDING,
    "running": InstanceState.RUNNING,
    "stopping": InstanceState.STOPPING,
    "deallocating": InstanceState.STOPPING,
    "stopped": InstanceState.ENDED,
    "deallocated": InstanceState.ENDED,
}


def tags_of(request: LaunchRequest) -> dict[str, str]:
    """What every group and machine of an attempt is labelled with."""
    return {
        OURS: OURS_VALUE,
        LABEL_RUN: request.run_id,
        LABEL_ATTEMPT: str(request.attempt),
        LABEL_DEADLINE: request.deadline.isoformat(),
        LABEL_CLIENT: request.client,
        PRICE: str(request.offer.usd_per_hour),
    }


def ref_of(group: str, region: str) -> InstanceRef:
    return InstanceRef(provider=PROVIDER, region=region, id=group)


def instance(told: Mapping[str, Any], now: datetime) -> Instance:
    """A machine as `GET virtualMachines?$expand=instanceView` shows it.

    One that was stopped or deallocated trains no more; why, Azure tells only where it took spot back or its create
    failed. After the deadline it was the timer.
    """
    tags, properties = _tags(told), told.get("properties", {})
    state = state_of(told)
    end, reason = _end(told, now) if state is InstanceState.ENDED else (None, None)
    return Instance(
        ref=ref_of(str(told["name"]), str(told.get("location", ""))),
        state=state,
        run_id=RunId(tags.get(LABEL_RUN, "")),
        attempt=_number(tags.get(LABEL_ATTEMPT)) or 0,
        launched_at=_instant(properties.get("timeCreated")),
        end=end,
        reason=reason,
    )


def state_of(told: Mapping[str, Any]) -> InstanceState:
    """Deleting counts before all, then what its power is, then what became of its create."""
    provisioning = provisioning_of(told)
    if provisioning == "deleting":
        return InstanceState.STOPPING
    power = power_of(told)
    if power in _POWER:
        return _POWER[power]
    return InstanceState.ENDED if provisioning == "failed" else InstanceState.PENDING


def provisioning_of(told: Mapping[str, Any]) -> str:
    """`creating`, `succeeded`, `failed`, `deleting`, in small letters."""
    return str(told.get("properties", {}).get("provisioningState", "")).lower()


def power_of(told: Mapping[str, Any]) -> str:
    """`running`, `deallocated`, …; "" before there is any."""
    return next((code.partition("/")[2] for code in _codes(told) if code.lower().startswith("powerstate/")), "").lower()


def failure_of(told: Mapping[str, Any]) -> dict[str, Any]:
    """The error of a create that failed, as the machine's own statuses keep it (ProvisioningState/failed/CODE)."""
    for status in _statuses(told):
        parts = str(status.get("code", "")).split("/")
        if [part.lower() for part in parts[:2]] == ["provisioningstate", "failed"] and len(parts) > 2:
            return {"error": {"code": parts[2], "message": str(status.get("message", ""))}}
    return {"error": {"code": "", "message": "its create failed, and Azure does not say why"}}


def owned(told: Mapping[str, Any], group: Mapping[str, Any]) -> OwnedResource | None:
    """Something in a group of ours; the group's tags tell whose it is. None for a group that is none of ours."""
    whose = attempt_of(str(group["name"]))
    tags = _tags(group)
    if whose is None and LABEL_RUN not in tags:
        return None
    kind = str(told["type"]).lower()
    machine = kind == _MACHINE
    run_id, attempt = whose or (tags[LABEL_RUN], _number(tags.get(LABEL_ATTEMPT)))
    return OwnedResource(
        provider=PROVIDER,
        region=str(told.get("location") or group.get("location", "")),
        kind=KINDS.get(kind, kind),
        id=str(group["name"]) if machine else str(told["id"]),
        run_id=RunId(tags.get(LABEL_RUN, run_id)),
        created_at=_instant(told.get("createdTime")),
        usd_per_hour=_price(KINDS.get(kind, kind), tags),
        attempt=attempt,
        instance=machine,
        deadline=_instant(tags.get(LABEL_DEADLINE)),
        client=tags.get(LABEL_CLIENT),
    )


def _price(kind: str, tags: Mapping[str, str]) -> Decimal | None:
    """What the group's tags tell of it: lists tell neither a machine's price nor a disk's size."""
    match kind:
        case "machine":
            return _decimal(tags.get(PRICE))
        case "address":
            return ADDRESS_USD_PER_HOUR
        case "disk":
            size_gib = _number(tags.get(DISK))
            return size_gib * DISK_USD_PER_GB_MONTH / HOURS_PER_MONTH if size_gib else None
        case _:
            return None


def _end(told: Mapping[str, Any], now: datetime) -> tuple[EndKind, str]:
    if provisioning_of(told) == "failed" and not power_of(told):
        error = failure_of(told)["error"]
        return EndKind.LOST, f"it never came up: {error['code']} {error['message']}".strip()
    deadline = _instant(_tags(told).get(LABEL_DEADLINE))
    power = power_of(told)
    if deadline is not None and now >= deadline:
        return EndKind.DEADLINE, f"it was {power} at its deadline"
    if told.get("properties", {}).get("priority") == "Spot" and power == "deallocated":
        return EndKind.RECLAIMED, "spot took it back"
    return EndKind.LOST, f"it is {power}, and Azure does not say why"


def _statuses(told: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    view = told.get("properties", {}).get("instanceView") or {}
    found = view.get("statuses") or []
    return [status for status in found if isinstance(status, Mapping)]


def _codes(told: Mapping[str, Any]) -> list[str]:
    return [str(status.get("code", "")) for status in _statuses(told)]


def _tags(told: Mapping[str, Any]) -> Mapping[str, str]:
    return told.get("tags") or {}


def _instant(text: object) -> datetime | None:
    """Azure writes up to seven digits of a second, and Z."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _decimal(text: str | None) -> Decimal | None:
    try:
        return Decimal(text) if text else None
    except InvalidOperation:
        return None
