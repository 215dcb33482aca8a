"""The call that makes a machine at Compute Engine, and what its labels say. Pure."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from trainplan.pricing.offers import Market
from trainplan.providers.base import (
    LABEL_ATTEMPT,
    LABEL_CLIENT,
    LABEL_DEADLINE,
    LABEL_RUN,
    LaunchRequest,
    VendorRequest,
)
from trainplan.providers.cloud.labels import project_of
from trainplan.providers.cloud.launch import resolution_of
from trainplan.providers.cloud.machine import BOOT_ALLOWANCE
from trainplan.providers.gcp.account import SCOPE
from trainplan.providers.gcp.kinds import kind_of
from trainplan.providers.gcp.permissions import PREFIX

if TYPE_CHECKING:
    from trainplan.providers.gcp.settings import GcpSettings
from dataclasses import dataclass

from trainplan.providers.cloud.launch import MachineResolution


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleResolution(MachineResolution):
    """What both of Google's ways to a machine need. `machine_account` is the service account of the machine."""

    project: str
    machine_account: str
    zone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeResolution(GoogleResolution):
    """`image` is a path from `projects/` on, `image_gib` its size, `least_disk_gib` what its documentation asks for."""

    image: str
    image_gib: int = 0
    least_disk_gib: int = 0


SERVICE = "compute"
INSERT = "instances.insert"
LABEL_OURS = "trainplan"
OURS = "1"
CLOUD_GRACE = timedelta(minutes=5)
"""From the machine's own deadline to Google's: time for a last checkpoint."""
_LEAST_RUN, _MOST_RUN = timedelta(seconds=30), timedelta(days=120)
"""What Google takes for maxRunDuration (docs, limit-vm-runtime)."""
_SPACE = uuid.UUID("5d6a7c1e-3f0b-4d3c-9a53-6f1f9a2f1c77")
_GIB = 2**30
_LABEL = re.compile(r"[^a-z0-9_-]")
_MACHINE = re.compile(r"plan-(?P<run>.+)-(?P<attempt>\d+)")
_NAME = re.compile(r"[^a-z0-9-]")


def name_of(request: LaunchRequest) -> str:
    """The machine's name: the same for the same attempt, and by it alone the same machine."""
    run = _NAME.sub("-", request.run_id.lower())[:50].strip("-")
    return f"{PREFIX}{run}-{request.attempt}"


def attempt_of(name: str) -> tuple[str, int]:
    """Run and attempt out of a machine's name; ("", 0) for a name that is none of ours."""
    match = _MACHINE.fullmatch(name)
    return (match["run"], int(match["attempt"])) if match else ("", 0)


def token_of(request: LaunchRequest, what: str = "") -> str:
    """The requestId of an attempt in its zone; `what` tells its creates apart, where it has several."""
    zone = resolution_of(request, GoogleResolution).zone
    words = (request.run_id, str(request.attempt), zone, *([what] if what else []))
    return str(uuid.uuid5(_SPACE, "\n".join(words)))


def labels_of(request: LaunchRequest) -> dict[str, str]:
    """Labels in the characters that Google takes."""
    return {
        LABEL_OURS: OURS,
        LABEL_RUN: label_text(request.run_id),
        LABEL_ATTEMPT: str(request.attempt),
        LABEL_DEADLINE: f"{request.deadline.astimezone(UTC):%Y%m%dt%H%M%Sz}",
        LABEL_CLIENT: label_text(request.client),
        **project_of(request),
    }


def label_text(value: str) -> str:
    """A value as a label may hold it: lower case, at most 63 characters."""
    return _LABEL.sub("-", value.lower())[:63]


def instant_of(label: str | None) -> datetime | None:
    """The deadline that a label tells, None where it is none."""
    try:
        return datetime.strptime(label or "", "%Y%m%dt%H%M%Sz").replace(tzinfo=UTC)
    except ValueError:
        return None


def run_duration(request: LaunchRequest) -> timedelta:
    """How long Google lets the machine run: until some minutes after its own deadline, from when it was looked up."""
    began = resolution_of(request, GoogleResolution).boot_deadline - BOOT_ALLOWANCE
    return min(max(request.deadline + CLOUD_GRACE - began, _LEAST_RUN), _MOST_RUN)


def insert_call(request: LaunchRequest, user_data: str, settings: GcpSettings) -> VendorRequest:
    """Pure, for a request that was resolved. Raises BadRequestError for one that was not."""
    resolution = resolution_of(request, ComputeResolution)
    parameters: dict[str, object] = {
        "project": resolution.project,
        "zone": resolution.zone,
        "requestId": token_of(request),
        "body": _body(request, user_data, settings),
    }
    return VendorRequest(service=SERVICE, operation=INSERT, parameters=parameters)


def _body(request: LaunchRequest, user_data: str, settings: GcpSettings) -> dict[str, Any]:
    resolution, kind = resolution_of(request, ComputeResolution), kind_of(request.offer)
    zone = resolution.zone
    body: dict[str, Any] = {
        "name": name_of(request),
        "machineType": f"zones/{zone}/machineTypes/{kind.machine_type}",
        "labels": labels_of(request),
        "disks": [_disk(request)],
        "networkInterfaces": [_interface(request.offer.region, settings)],
        "scheduling": _scheduling(request),
        "metadata": {"items": _metadata(request, user_data)},
        "serviceAccounts": [{"email": resolution.machine_account, "scopes": [SCOPE]}],
        # The images' NVIDIA modules are not signed for Secure Boot.
        "shieldedInstanceConfig": {"enableVtpm": True, "enableIntegrityMonitoring": True, "enableSecureBoot": False},
    }
    if kind.accelerator is not None:
        accelerator = f"zones/{zone}/acceleratorTypes/{kind.accelerator}"
        body["guestAccelerators"] = [{"acceleratorType": accelerator, "acceleratorCount": kind.count}]
    return body


def _disk(request: LaunchRequest) -> dict[str, Any]:
    resolution = resolution_of(request, ComputeResolution)
    document = {
        "sourceImage": resolution.image,
        "diskSizeGb": str(disk_gib(request)),
        "diskType": f"zones/{resolution.zone}/diskTypes/{kind_of(request.offer).disk_type}",
        "labels": labels_of(request),
    }
    return {"boot": True, "autoDelete": True, "initializeParams": document}


def disk_gib(request: LaunchRequest) -> int:
    """The image and what is installed, and the data as it is fetched and unpacked."""
    sent_bytes = sum(file.size_bytes for file in request.data)
    data = max(sent_bytes, request.job.data_bytes or 0)
    resolution = resolution_of(request, ComputeResolution)
    return max(resolution.image_gib, resolution.least_disk_gib) + math.ceil(2 * data / _GIB)


def _interface(region: str, settings: GcpSettings) -> dict[str, Any]:
    """An ephemeral address: without one nothing can be fetched. Nothing opens a port to it."""
    interface: dict[str, Any] = {
        "network": f"global/networks/{settings.network}",
        "accessConfigs": [{"type": "ONE_TO_ONE_NAT", "name": "External NAT"}],
    }
    if settings.subnetwork:
        interface["subnetwork"] = f"regions/{region}/subnetworks/{settings.subnetwork}"
    return interface


def _scheduling(request: LaunchRequest) -> dict[str, Any]:
    """What has an accelerator cannot move: it is stopped, and is not started again behind our back."""
    spot = request.offer.market is Market.SPOT
    moves = request.offer.device == "cpu" and not spot
    return {
        "provisioningModel": "SPOT" if spot else "STANDARD",
        "instanceTerminationAction": "DELETE",
        "automaticRestart": False,
        "onHostMaintenance": "MIGRATE" if moves else "TERMINATE",
        "maxRunDuration": {"seconds": str(math.ceil(run_duration(request).total_seconds()))},
    }


def _metadata(request: LaunchRequest, user_data: str) -> list[Mapping[str, str]]:
    items = [{"key": "user-data", "value": user_data}, {"key": "block-project-ssh-keys", "value": "TRUE"}]
    if request.offer.device != "cpu" and not request.offer.device.startswith("TPU"):
        # Google's images with a driver ask for it at their first boot; where it is installed this does nothing.
        items.append({"key": "install-nvidia-driver", "value": "True"})
    return list(items)
