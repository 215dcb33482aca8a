"""The call that asks for a TPU: a queued resource with one node of the same name. Pure."""

from __future__ import annotations

import base64
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import yaml

from trainplan.pricing.devices import cores_of
from trainplan.pricing.offers import Market, Offer
from trainplan.providers.base import LaunchRequest, VendorRequest
from trainplan.providers.cloud.launch import resolution_of
from trainplan.providers.cloud.machine import BOOT_ALLOWANCE
from trainplan.providers.errors import BadRequestError
from trainplan.providers.gcp.account import SCOPE
from trainplan.providers.gcp.kinds import TPU_API
from trainplan.providers.gcp.request import labels_of, token_of
from trainplan.providers.gcp.tpu import data_disk
from trainplan.providers.gcp.tpu.api import TPU
from trainplan.providers.gcp.tpu.deadline import resource_id, rfc3339
from trainplan.providers.gcp.tpu.reply import TpuLocation
from trainplan.providers.gcp.tpu.resolution import TpuResolution

if TYPE_CHECKING:
    from trainplan.providers.gcp.settings import GcpSettings
    from trainplan.workloads.job import TrainingJob


CREATE = "CreateQueuedResource"
LONGEST_WAIT = timedelta(minutes=20)
"""How long a request waits in the queue. What comes later would have too little of its boot deadline left."""
_LEAST_WAIT = timedelta(minutes=1)
_HEAD = """\
#!/bin/sh
# trainplan: this machine trains one run, then ends.
# The machine's start-up text (a cloud-init document), part by part, at every boot: doing it again changes nothing.
"""
_WRAPPED = 76


def takes(offer: Offer) -> bool:
    """Whether the offer is one of the Cloud TPU API's: v2 to v5e."""
    return offer.instance_type.startswith(TPU_API)


def accelerator_type(offer: Offer) -> str:
    """The API's word: `v3-8` of `tpu-v3-8`."""
    return offer.instance_type.removeprefix("tpu-")


def subnetwork_name(settings: GcpSettings) -> str:
    """The subnetwork that a node is put into: the setting, else the one that a network in auto mode has in each region,
    which has the network's name. Where none is named the API takes "default", whatever the network is (`NetworkConfig`
    of https://tpu.googleapis.com/$discovery/rest?version=v2, revision 2026-10-01)."""
    return settings.subnetwork or settings.network


def why_not(offer: Offer) -> str:
    """Why the offer cannot be launched, "" where it can."""
    if offer.hosts > 1:
        return (
            f"{offer.instance_type} is a slice of {offer.hosts} machines that have to train in lockstep; one machine "
            "trains a run here"
        )
    return ""


def why_not_batch(offer: Offer, job: TrainingJob) -> str:
    """Why the job's batch cannot be trained on the offer's cores, "" where it can: its chips are not what counts."""
    batch = job.micro_batch_size
    cores = offer.device_count * cores_of(offer.device)
    if batch % cores:
        return f"{offer.instance_type} trains on {cores} cores at once, over which a batch of {batch} does not divide"
    return ""


def location_for(request: LaunchRequest) -> TpuLocation:
    """Where what the request makes is found again."""
    return TpuLocation(resolution_of(request, TpuResolution).zone, resource_id(request.run_id, request.attempt))


def trainable(request: LaunchRequest) -> None:
    """Raises BadRequestError for a slice, a batch or data that cannot be trained here."""
    if reason := why_not(request.offer):
        raise BadRequestError(reason, hint="choose a slice of one machine; plan estimate shows them")
    if reason := why_not_batch(request.offer, request.job):
        raise BadRequestError(reason, hint="make the batch a multiple of it; 8 for each core fill it best")
    if reason := data_disk.why_too_large(request):
        raise BadRequestError(reason, hint="train on a part of the data")


def made_by(create: VendorRequest) -> TpuLocation:
    """Where what a create asks for is found again."""
    parent = str(create.parameters["parent"])
    return TpuLocation(parent.rpartition("/")[2], str(create.parameters["queuedResourceId"]))


def create_call(request: LaunchRequest, startup_script: str, settings: GcpSettings) -> VendorRequest:
    """Pure, for a request that was checked."""
    location = location_for(request)
    parent = f"projects/{resolution_of(request, TpuResolution).project}/locations/{location.zone}"
    node = {"parent": parent, "nodeId": location.name, "node": _node(request, startup_script, settings)}
    body: dict[str, Any] = {
        "tpu": {"nodeSpec": [node]},
        "queueingPolicy": {"validUntilTime": rfc3339(_wait_until(request))},
    }
    if request.offer.market is Market.SPOT:
        body["spot"] = {}
    parameters: dict[str, object] = {
        "parent": parent,
        "queuedResourceId": location.name,
        "requestId": token_of(request),
        "queuedResource": body,
    }
    return VendorRequest(service=TPU, operation=CREATE, parameters=parameters)


def _wait_until(request: LaunchRequest) -> datetime:
    """Return until when the queued resource may wait: at most a quarter of the time left, so that another zone can be
    tried.
    """
    began = resolution_of(request, TpuResolution).boot_deadline - BOOT_ALLOWANCE
    return began + min(LONGEST_WAIT, max((request.deadline - began) / 4, _LEAST_WAIT))


def _node(request: LaunchRequest, startup_script: str, settings: GcpSettings) -> dict[str, Any]:
    resolution = resolution_of(request, TpuResolution)
    disks = data_disk.attached(resolution.project, location_for(request)) if data_disk.size_gib(request) else []
    return {
        "acceleratorType": accelerator_type(request.offer),
        "runtimeVersion": resolution.runtime_version,
        # Without an address of its own it reaches no registry; nothing listens on it.
        "networkConfig": {
            "network": settings.network,
            "subnetwork": subnetwork_name(settings),
            "enableExternalIps": True,
        },
        "serviceAccount": {"email": resolution.machine_account, "scope": [SCOPE]},
        "labels": labels_of(request),
        "metadata": {"startup-script": startup_script, "block-project-ssh-keys": "true"},
        **({"dataDisks": disks} if disks else {}),
    }


def as_shell(document: str) -> str:
    """A script that does what cloud-init would do with the document: `bootcmd`, `write_files`, `runcmd`.

    Raises ValueError for a document with anything else in it.
    """
    parts: dict[str, Any] = yaml.safe_load(document)
    names = {"bootcmd", "write_files", "runcmd"}
    if set(parts) - names:
        raise ValueError(f"no shell for {', '.join(sorted(set(parts) - names))}")
    text = "".join(_file(entry) for entry in parts.get("write_files", ()))
    return _HEAD + _commands(parts.get("bootcmd", ())) + text + _commands(parts.get("runcmd", ()))


def _commands(texts: list[str]) -> str:
    """Each in a shell of its own, as cloud-init does it: one that ends early ends nothing else."""
    return "".join(f"(\n{text.rstrip()}\n)\n" for text in texts)


def _file(entry: dict[str, str]) -> str:
    """Return shell lines that replace a file atomically: a machine that loses power has the old file or the new one."""
    if set(entry) - {"path", "content", "encoding"}:
        raise ValueError(f"no shell for a file with {', '.join(sorted(entry))}")
    packed = entry.get("encoding") == "gz+b64"
    text = "".join(entry["content"].split()) if packed else base64.b64encode(entry["content"].encode()).decode()
    lines = "\n".join(text[start : start + _WRAPPED] for start in range(0, len(text), _WRAPPED))
    unpacked = " | gunzip" if packed else ""
    path = entry["path"]
    return (
        f"mkdir -p \"$(dirname '{path}')\"\n"
        f"base64 -d <<'END'{unpacked} >'{path}.new'\n{lines}\nEND\n"
        f"mv '{path}.new' '{path}'\n"
    )
