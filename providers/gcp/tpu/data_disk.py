"""The data disk of a TPU whose own disk is too small: the call that makes it, how it is attached, and its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainplan.pricing.devices import MOST_DATA_DISK_GIB, data_disk_gib
from trainplan.providers.agent.spec import bytes_on_disk
from trainplan.providers.base import LABEL_ATTEMPT, LABEL_RUN, LaunchRequest, VendorRequest
from trainplan.providers.cloud.launch import resolution_of
from trainplan.providers.errors import (
    BadRequestError,
    InstanceNotFoundError,
    ProviderError,
    QuotaError,
    TransientError,
)
from trainplan.providers.gcp import reply
from trainplan.providers.gcp.api import Api, Json
from trainplan.providers.gcp.errors import EXISTS, IN_USE, error_of_operation
from trainplan.providers.gcp.request import SERVICE, labels_of, token_of
from trainplan.providers.gcp.tpu.resolution import TpuResolution

if TYPE_CHECKING:
    from trainplan.providers.gcp.account import GcpAccount
    from trainplan.providers.gcp.tpu.reply import TpuLocation

INSERT = "disks.insert"
DISK_TYPE = "pd-balanced"
"""The one type that TPUs v2 to v5e take
(https://docs.cloud.google.com/tpu/docs/attach-durable-block-storage, read 2026-11-23)."""
QUOTA = "SSD_TOTAL_GB"
"""The quota of a region that is taken to count balanced persistent disks, which lie on SSDs."""
MOST_WAIT_SECONDS = 25.0
"""How long an operation on the disk is waited for before the whole launch is sent again. A launch is recorded before
its first call, and lists are believed `listing_lag` after that: what comes before the create must not take longer."""
_KIND = "disks"


def size_gib(request: LaunchRequest) -> int:
    """The size of the disk that the request makes, 0 where it makes none."""
    known_bytes = request.job.data_bytes or 0
    least_bytes = max(bytes_on_disk(request.data), known_bytes)
    data_bytes = max(sum(file.size_bytes for file in request.data), known_bytes)
    return data_disk_gib(request.offer.device, least_bytes, data_bytes)


def why_too_large(request: LaunchRequest) -> str:
    """Why no disk can hold the data, "" where one can or none is needed."""
    need = size_gib(request)
    if need > MOST_DATA_DISK_GIB:
        return f"the data needs a disk of {need} GiB, and the largest has {MOST_DATA_DISK_GIB}"
    return ""


def full_name(project: str, location: TpuLocation) -> str:
    """Return the full name by which the Cloud TPU API attaches the disk."""
    return f"projects/{project}/zones/{location.zone}/disks/{location.name}"


def attached(project: str, location: TpuLocation) -> list[dict[str, str]]:
    """The `dataDisks` of the node."""
    return [{"sourceDisk": full_name(project, location), "mode": "READ_WRITE"}]


def insert_call(request: LaunchRequest, location: TpuLocation) -> VendorRequest:
    """Pure. The disk has the name of its node: the same for the same attempt, and one that begins as ours do."""
    project = resolution_of(request, TpuResolution).project
    body: dict[str, Any] = {
        "name": location.name,
        "sizeGb": str(size_gib(request)),
        "type": f"projects/{project}/zones/{location.zone}/diskTypes/{DISK_TYPE}",
        "labels": labels_of(request),
    }
    parameters: dict[str, object] = {
        "project": project,
        "zone": location.zone,
        "requestId": token_of(request, "data disk"),
        "body": body,
    }
    return VendorRequest(service=SERVICE, operation=INSERT, parameters=parameters)


def name_made(call: VendorRequest) -> str:
    """The full name of the disk that such a call makes."""
    document: Mapping[str, Any] = call.parameters
    return f"projects/{document['project']}/zones/{document['zone']}/disks/{document['body']['name']}"


def delete_url(request: LaunchRequest, location: TpuLocation) -> str:
    """Where Compute Engine is asked to delete the disk. Raises BadRequestError where its address was not looked up."""
    resolution = resolution_of(request, TpuResolution)
    if not resolution.compute_address:
        raise BadRequestError(
            f"run {request.run_id}: the address that deletes its data disk was not looked up",
            hint="launch the job again",
        )
    return f"{resolution.compute_address}/compute/v1/{full_name(resolution.project, location)}"


def refuse_without_quota(account: GcpAccount, request: LaunchRequest) -> None:
    """Raises QuotaError where the region's quota is too small even with nothing in use; what is in use, the create
    tells. A table that cannot be read refuses nothing."""
    need, region = size_gib(request), request.offer.region
    limit = limit_of(account, region)
    if limit is not None and need > limit[0]:
        raise QuotaError(
            f"{QUOTA} in {region}: {limit[0]:g}, a data disk of {need} GB is needed",
            quota=QUOTA,
            hint="ask for more at https://console.cloud.google.com/iam-admin/quotas, or choose another region",
        )


def limit_of(account: GcpAccount, region: str) -> tuple[float, float] | None:
    """Limit and use of the quota for such disks in GB, None where nobody tells."""
    path = f"/compute/v1/projects/{account.project}/regions/{region}"
    try:
        reply_body = account.once(f"region/{region}", lambda: account.ask("GET", SERVICE, path))
    except ProviderError:
        return None
    rows = (row for row in reply_body.get("quotas", ()) if row.get("metric") == QUOTA)
    return next(((float(row.get("limit", 0)), float(row.get("usage", 0))) for row in rows), None)


@dataclass(frozen=True)
class DataDisks:
    """What is asked of Compute Engine about such disks. Every method raises ProviderError."""

    api: Api

    def make(self, call: VendorRequest) -> None:
        """The disk is there, of this very attempt. Raises TransientError where Google is still at it."""
        request: Mapping[str, Any] = call.parameters
        project, zone, body = str(request["project"]), str(request["zone"]), request["body"]
        try:
            operation = self.api.insert_disk(project, zone, body, str(request["requestId"]))
        except InstanceNotFoundError as error:
            raise BadRequestError(error.message, hint="look at the zone and the disk type", code=error.code) from error
        except BadRequestError as error:
            there = self.read(name_made(call)) if error.code == EXISTS else None
            if there is None or not _is_of(there, body):
                raise
            return
        self._wait(project, zone, operation, f"compute/{INSERT} in {zone}")

    def remove(self, name: str) -> None:
        """The disk of this full name is gone; one that is not there is no error."""
        _, project, _, zone, _, disk = name.split("/")
        try:
            operation = self.api.delete(_KIND, project, zone, disk)
        except InstanceNotFoundError:
            return
        except BadRequestError as error:
            if error.code in IN_USE:
                raise TransientError(
                    f"{error.message}: it is deleted with its node", hint="look again", code=error.code
                ) from error
            raise
        self._wait(project, zone, operation, f"compute/disks.delete in {zone}")

    def is_going(self, name: str) -> bool:
        """Whether the disk of this full name is being deleted, or gone."""
        there = self.read(name)
        return there is None or there.get("status") == "DELETING"

    def read(self, name: str) -> Json | None:
        """The disk of this full name as Compute Engine shows it; None: there is none."""
        _, project, _, zone, _, disk = name.split("/")
        try:
            return self.api.disk(project, zone, disk)
        except InstanceNotFoundError:
            return None

    def _wait(self, project: str, zone: str, operation: Json, what: str) -> None:
        if not reply.is_done(operation):
            operation = self.api.wait(project, zone, str(operation["name"]), MOST_WAIT_SECONDS)
        error = error_of_operation(operation, what)
        if error is not None:
            raise error
        if not reply.is_done(operation):
            raise TransientError(f"{what} is not done after {MOST_WAIT_SECONDS:.0f} s", hint="try again")


def _is_of(document: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    labels = document.get("labels") or {}
    return all(labels.get(name) == body["labels"][name] for name in (LABEL_RUN, LABEL_ATTEMPT))
