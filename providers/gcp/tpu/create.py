"""The call that asks for a TPU: a queued resource with one node of the same name. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from pricing.devices import cores_of, data_room_bytes
from pricing.offers import Market
from providers.agent.spec import bytes_on_disk
from providers.base import VendorRequest
from providers.errors import BadRequestError
from providers.gcp.account import SCOPE
from providers.gcp.insert import MACHINE_ACCOUNT, PROJECT, ZONE, labels_of, token_of
from providers.gcp.kinds import TPU_API
from providers.gcp.tpu.api import TPU
from providers.gcp.tpu.reaper import resource_id, rfc3339
from providers.gcp.tpu.translate import Place
from providers.rented import BOOT_ALLOWANCE, BOOT_DEADLINE
from workloads.job import job_from_json

if TYPE_CHECKING:
    from pricing.offers import Offer
    from providers.base import LaunchRequest
    from providers.gcp.settings import GcpSettings

CREATE = "CreateQueuedResource"
RUNTIME = "runtime_version"
ADDRESS = "tpu_address"
"""Names in a request's `resolved`, beside those of Compute Engine."""
LONGEST_WAIT = timedelta(minutes=20)
"""How long a request waits in the queue. What comes later would have too little of its boot deadline left."""
_LEAST_WAIT = timedelta(minutes=1)
_NEEDED = (PROJECT, ZONE, RUNTIME, ADDRESS, MACHINE_ACCOUNT, BOOT_DEADLINE)


def takes(offer: Offer) -> bool:
    """Whether the offer is one of the Cloud TPU API's: v2 to v5e."""
    return offer.instance_type.startswith(TPU_API)


def accelerator_type(offer: Offer) -> str:
    """The API's word: `v3-8` of `tpu-v3-8`."""
    return offer.instance_type.removeprefix("tpu-")


def why_not(offer: Offer) -> str:
    """Why the offer cannot be launched, "" where it can."""
    if offer.hosts > 1:
        return (
            f"{offer.instance_type} is a slice of {offer.hosts} machines that have to train in lockstep; one machine "
            "trains a run here"
        )
    return ""


def why_not_batch(offer: Offer, job_json: str) -> str:
    """Why the job's batch cannot be trained on the offer's cores, "" where it can: its chips are not what counts."""
    batch = job_from_json(job_json).micro_batch_size
    cores = offer.device_count * cores_of(offer.device)
    if batch % cores:
        return f"{offer.instance_type} trains on {cores} cores at once, over which a batch of {batch} does not divide"
    return ""


def why_no_room(request: LaunchRequest) -> str:
    """Why the data cannot lie on the machine's disk, "" where it can."""
    room_bytes = data_room_bytes(request.offer.device)
    needed_bytes = max(bytes_on_disk(request.data), job_from_json(request.job_json).data_bytes or 0)
    if room_bytes is not None and needed_bytes > room_bytes:
        return (
            f"{request.offer.instance_type} has a disk of 100 GiB, and nobody can ask for a larger one: "
            f"{room_bytes / 1e9:.0f} GB of it are left for data, which takes {needed_bytes / 1e9:.0f} GB while it comes"
        )
    return ""


def place_for(request: LaunchRequest) -> Place:
    """Where what the request makes is found again."""
    return Place(request.resolved[ZONE], resource_id(request.run_id, request.attempt))


def trainable(request: LaunchRequest) -> None:
    """Raises BadRequestError for a slice, a batch or data that cannot be trained here."""
    if reason := why_not(request.offer):
        raise BadRequestError(reason, hint="choose a slice of one machine; plan estimate shows them")
    if reason := why_not_batch(request.offer, request.job_json):
        raise BadRequestError(reason, hint="make the batch a multiple of it; 8 for each core fill it best")
    if reason := why_no_room(request):
        raise BadRequestError(reason, hint="choose a machine whose disk a launch sizes: TPU v5p, v6e, or a GPU")


def checked(request: LaunchRequest) -> LaunchRequest:
    """The request, where all that it needs was looked up. Raises BadRequestError."""
    trainable(request)
    missing = [name for name in _NEEDED if not request.resolved.get(name)]
    if missing:
        raise BadRequestError(f"run {request.run_id}: {', '.join(missing)} was not looked up", hint="launch it anew")
    return request


def create_call(request: LaunchRequest, startup_script: str, settings: GcpSettings) -> VendorRequest:
    """Pure, for a request that was checked."""
    place = place_for(request)
    parent = f"projects/{request.resolved[PROJECT]}/locations/{place.zone}"
    node = {"parent": parent, "nodeId": place.name, "node": _node(request, startup_script, settings)}
    body: dict[str, Any] = {
        "tpu": {"nodeSpec": [node]},
        "queueingPolicy": {"validUntilTime": rfc3339(_wait_until(request))},
    }
    if request.offer.market is Market.SPOT:
        body["spot"] = {}
    parameters: dict[str, object] = {
        "parent": parent,
        "queuedResourceId": place.name,
        "requestId": token_of(request),
        "queuedResource": body,
    }
    return VendorRequest(service=TPU, operation=CREATE, parameters=parameters)


def _wait_until(request: LaunchRequest) -> datetime:
    """Until when it may wait, and at most a quarter of the time that it has: another zone is to have its chance."""
    began = datetime.fromisoformat(request.resolved[BOOT_DEADLINE]) - BOOT_ALLOWANCE
    return began + min(LONGEST_WAIT, max((request.deadline - began) / 4, _LEAST_WAIT))


def _node(request: LaunchRequest, startup_script: str, settings: GcpSettings) -> dict[str, Any]:
    subnetwork = {"subnetwork": settings.subnetwork} if settings.subnetwork else {}
    return {
        "acceleratorType": accelerator_type(request.offer),
        "runtimeVersion": request.resolved[RUNTIME],
        # Without an address of its own it reaches no registry; nothing listens on it.
        "networkConfig": {"network": settings.network, **subnetwork, "enableExternalIps": True},
        "serviceAccount": {"email": request.resolved[MACHINE_ACCOUNT], "scope": [SCOPE]},
        "labels": labels_of(request),
        "metadata": {"startup-script": startup_script, "block-project-ssh-keys": "true"},
    }
