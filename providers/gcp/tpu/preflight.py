"""Whether a launch on a TPU would be let in: the API, the slice, its zones, the timers' queue, quota."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from trainplan.pricing.offers import LifecycleState, Offer
from trainplan.providers.base import Check, PreflightState
from trainplan.providers.cloud.checks import Look, failed, ok, refused, unknown
from trainplan.providers.errors import (
    BadRequestError,
    CapacityError,
    InstanceNotFoundError,
    PermissionDeniedError,
    ProviderError,
)
from trainplan.providers.gcp import quotas
from trainplan.providers.gcp.tpu import data_disk
from trainplan.providers.gcp.tpu.api import PAGE, Ask, pages
from trainplan.providers.gcp.tpu.deadline import QUEUE, REGION, queue_name
from trainplan.providers.gcp.tpu.request import accelerator_type, subnetwork_name, why_not
from trainplan.workloads.wording import Command, Option

if TYPE_CHECKING:
    from trainplan.providers.gcp.account import GcpAccount

_OK, _REFUSED, _UNKNOWN = PreflightState.OK, PreflightState.REFUSED, PreflightState.UNKNOWN
_SETUP = "plan setup gcp"
_NOT_LET_IN = (PermissionDeniedError, BadRequestError)


def queue_runs(ask_tasks: Ask, project: str) -> None:
    """Raises PermissionDeniedError where there is no queue that would end a TPU, else ProviderError."""
    try:
        reply = ask_tasks("GetQueue", {"name": queue_name(project)})
    except InstanceNotFoundError as error:
        raise PermissionDeniedError(
            f"there is no queue {QUEUE!r} in {REGION}: no timer in the cloud would end a TPU without this computer",
            hint=_SETUP,
        ) from error
    if reply.get("state", "RUNNING") != "RUNNING":
        raise PermissionDeniedError(
            f"the queue {QUEUE!r} in {REGION} is {str(reply['state']).lower()}: nothing would end a TPU without this "
            "computer",
            hint=f"gcloud tasks queues resume {QUEUE} --location {REGION}",
        )


def looks(account: GcpAccount, ask_tpu: Ask, ask_tasks: Ask, offer: Offer) -> Mapping[str, Look]:
    """The lines of a preflight by their names; what holds for every offer is asked once."""
    if reason := why_not(offer):
        fix = "choose a slice of one machine; plan estimate shows them"
        return {"slice": lambda: refused("slice", reason, fix)}
    lines: dict[str, Look] = {
        "offered": lambda: _offered(account, ask_tpu, offer),
        "timers": lambda: timers(account, ask_tasks),
        "machine account": lambda: machine_account(account),
        "network": lambda: network(account, offer.region),
        "quota": lambda: [quotas.check(account, quotas.of_tpu_api(offer)), *quotas.tpus_at_all(account)],
        "data disk": lambda: data_disks(account, offer.region),
    }
    if offer.lifecycle.state is LifecycleState.RETIRED:
        fix = f"rent {offer.lifecycle.successor}" if offer.lifecycle.successor else "choose another offer"
        lines["lifecycle"] = lambda: unknown("lifecycle", "Google has ended it", fix)
    return lines


def zones_of(account: GcpAccount, ask_tpu: Ask, offer: Offer) -> tuple[str, ...]:
    """Return those of the offer's zones that list its accelerator type. Raises ProviderError."""
    name = accelerator_type(offer)
    return tuple(zone for zone in offer.zones if name in _types(account, ask_tpu, zone))


def timers(account: GcpAccount, ask_tasks: Ask) -> Check:
    """Whether there is what ends a TPU at its deadline."""
    try:
        account.once("tpu queue", lambda: queue_runs(ask_tasks, account.project))
    except ProviderError as error:
        return failed("timers", error, _NOT_LET_IN)
    return ok("timers", f"the queue {QUEUE!r} in {REGION} ends TPUs at their deadline")


def machine_account(account: GcpAccount) -> Check:
    """Whether the service account that machines have is there."""
    email = account.machine_account
    path = f"/v1/projects/{account.project}/serviceAccounts/{email}"
    try:
        reply = account.once("machine account", lambda: account.ask("GET", "iam", path))
    except InstanceNotFoundError:
        return refused("machine account", f"there is no {email}", _SETUP)
    if reply.get("disabled"):
        fix = f"gcloud iam service-accounts enable {email}"
        return refused("machine account", f"{email} is switched off", fix)
    return ok("machine account", email)


def network(account: GcpAccount, region: str) -> Check:
    """Whether the network has the subnetwork that a node in the region is put into. A network in auto mode has one in
    each region that there was when Google last added some, in some projects not in all of them."""
    name, wanted = account.settings.network, subnetwork_name(account.settings)
    path = f"/compute/v1/projects/{account.project}/global/networks/{name}"
    try:
        reply = account.once(f"network/{name}", lambda: account.ask("GET", "compute", path))
    except InstanceNotFoundError:
        fix = f"{_SETUP} makes one; or name one of yours in the setting `network`"
        return refused("network", f"the project has no network {name!r}", fix)
    links = [str(link).split("/") for link in reply.get("subnetworks", ())]
    there = sorted(link[-1] for link in links if link[-3:-1] == [region, "subnetworks"])
    if wanted in there:
        return ok("network", f"{name}, subnetwork {wanted} of {region}")
    detail = f"the network {name!r} has no subnetwork {wanted!r} in {region}, and a TPU needs it by its name"
    if there:
        return refused("network", detail, f"name one that it has there in the setting `subnetwork`: {', '.join(there)}")
    make = f"gcloud compute networks subnets create {wanted} --network {name} --region {region} --range 10.0.0.0/20"
    return refused("network", detail, f"{make} (any range that the network does not use), or choose another region")


def data_disks(account: GcpAccount, region: str) -> Check:
    """How large a data disk may be. Only a launch knows whether it needs one, and is refused where it may not be."""
    limit = data_disk.limit_of(account, region)
    if limit is None:
        detail = f"the quota {data_disk.QUOTA} of {region} is not shown: it counts disks for data over 75 GB"
        return ok("data disk", detail)
    detail = f"{data_disk.QUOTA}: {limit[1]:g} of {limit[0]:g} GB in use in {region}, for data over 75 GB"
    return ok("data disk", detail)


def _offered(account: GcpAccount, ask_tpu: Ask, offer: Offer) -> Check:
    name = accelerator_type(offer)
    try:
        zones = zones_of(account, ask_tpu, offer)
    except ProviderError as error:
        return failed("offered", error, _NOT_LET_IN)
    if not zones:
        detail = f"no zone of {offer.region} has {name}, or not to this project"
        fix = f"choose another region; {Command('estimate', Option.ALL)} shows them"
        return refused("offered", detail, fix)
    return ok("offered", f"{name} in {', '.join(zones)}")


def _types(account: GcpAccount, ask_tpu: Ask, zone: str) -> frozenset[str]:
    request = {"parent": f"projects/{account.project}/locations/{zone}", "pageSize": PAGE}

    def look() -> frozenset[str]:
        rows = (
            row for page in pages(ask_tpu, "ListAcceleratorTypes", request) for row in page.get("acceleratorTypes", ())
        )
        try:
            return frozenset(str(row.get("type") or row["name"].rpartition("/")[2]) for row in rows)
        except CapacityError:
            return frozenset()  # a zone that is not open to the project

    return frozenset(account.once(f"tpu types/{zone}", look))
