"""What a launch at the Cloud TPU API looks up before anything is sent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainplan.providers.cloud.images import host_image
from trainplan.providers.cloud.launch import Rented, hardware
from trainplan.providers.errors import BadRequestError
from trainplan.providers.gcp.request import GoogleResolution
from trainplan.providers.gcp.tpu.api import PAGE, TPU, Ask, pages

if TYPE_CHECKING:
    from trainplan.pricing.offers import Offer
    from trainplan.providers.base import LaunchRequest
    from trainplan.providers.gcp.account import GcpAccount


_BASE = re.compile(r"tpu-ubuntu(\d{4})-base")
"""Ubuntu with Docker and nothing of a framework; what trains is in the container."""


def runtime_for(ask: Ask, project: str, zone: str, offer: Offer) -> str:
    """The version to ask for. Raises BadRequestError where the zone lists none that is known, with what it lists."""
    name = host_image(hardware(offer)).image
    request = {"parent": f"projects/{project}/locations/{zone}", "pageSize": PAGE}
    names = [
        str(row.get("version") or row["name"].rpartition("/")[2])
        for page in pages(ask, "ListRuntimeVersions", request)
        for row in page.get("runtimeVersions", ())
    ]
    value = choose_version(name, names)
    if value is None:
        raise BadRequestError(
            f"{zone} does not list the runtime version {name}, but {', '.join(sorted(names)) or 'none'}",
            hint="choose another zone or machine",
        )
    return value


def choose_version(wanted_name: str, names: list[str]) -> str | None:
    """`wanted_name`, where it is listed; else the newest of Ubuntu's base versions, if that is what was wanted."""
    if wanted_name in names:
        return wanted_name
    if not _BASE.fullmatch(wanted_name):
        return None
    return max((name for name in names if _BASE.fullmatch(name)), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TpuResolution(GoogleResolution):
    """`tpu_address` and `compute_address` are where the APIs answer, for the tasks that end the machine and its data
    disk. A request that was recorded before there were such disks lacks the second.
    """

    runtime_version: str
    tpu_address: str
    compute_address: str = ""


def resolve(request: LaunchRequest, zone: str, rented: Rented, account: GcpAccount, ask: Ask) -> TpuResolution:
    """Look up what a request with its data leaves open; creates nothing. `ask` calls the API. Raises ProviderError."""
    machine = rented.resolve(request)
    return TpuResolution(
        image_digest=machine.image_digest,
        run_uri=machine.run_uri,
        run_region=machine.run_region,
        boot_deadline=machine.boot_deadline,
        project=account.project,
        machine_account=account.machine_account,
        zone=zone,
        runtime_version=runtime_for(ask, account.project, zone, request.offer),
        tpu_address=account.address(TPU),
        compute_address=account.address("compute"),
    )
