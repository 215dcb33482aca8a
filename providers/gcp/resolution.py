"""What a launch at Google looks up before anything is sent, and of that what a machine of Compute Engine needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainplan.providers.cloud.images import host_image
from trainplan.providers.cloud.launch import Rented, hardware
from trainplan.providers.errors import BadRequestError, CapacityError
from trainplan.providers.gcp.kinds import kind_of
from trainplan.providers.gcp.request import ComputeResolution

if TYPE_CHECKING:
    from trainplan.providers.base import LaunchRequest
    from trainplan.providers.gcp.api import Api, Json
    from trainplan.providers.gcp.listing import Lists


def resolve(request: LaunchRequest, rented: Rented, lists: Lists) -> ComputeResolution:
    """Look up what a request with its data leaves open; creates nothing. Raises ProviderError."""
    machine, account = rented.resolve(request), lists.account
    host = host_image(hardware(request.offer))
    if host.kind != "gce_family":
        raise BadRequestError(f"{request.offer.instance_type}: {host.reason or host.source}", hint="choose another")
    zone = request.zone or _zone(request, lists)
    image = account.once(host.image, lambda: _newest(lists.api, host.image))
    link = str(image["selfLink"])
    return ComputeResolution(
        image_digest=machine.image_digest,
        run_uri=machine.run_uri,
        run_region=machine.run_region,
        boot_deadline=machine.boot_deadline,
        project=account.project,
        machine_account=account.machine_account,
        zone=zone,
        image=link[link.index("projects/") :],
        image_gib=int(image.get("diskSizeGb", 0)),
        least_disk_gib=host.least_disk_gib,
    )


def _newest(api: Api, path: str) -> Json:
    """The newest image of a family that is named as projects/PROJECT/global/images/family/FAMILY."""
    _, project, *_, family = path.split("/")
    return api.newest_image(project, family)


def _zone(request: LaunchRequest, lists: Lists) -> str:
    """Another one for each attempt, where the plan names none."""
    zones = lists.zones(request.offer)
    if not zones:
        kind, region = kind_of(request.offer), request.offer.region
        raise CapacityError(
            f"no zone of {region} has {kind.machine_type}{f' with {kind.accelerator}' if kind.accelerator else ''}",
            hint="choose another region",
        )
    return zones[(request.attempt - 1) % len(zones)]
