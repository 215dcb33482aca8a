"""What a launch at AWS looks up before anything is sent: zone, network, image, and what ends a machine that hangs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from trainplan.providers.aws.settings import SCHEDULE_GROUP, SCHEDULE_ROLE
from trainplan.providers.aws.setup_steps import StandingResources, role_arn
from trainplan.providers.cloud.launch import MachineResolution, Rented
from trainplan.providers.errors import CapacityError, PermissionDeniedError

if TYPE_CHECKING:
    from trainplan.providers.aws.account import AwsAccount
    from trainplan.providers.base import LaunchRequest


class Reaper(StrEnum):
    """What ends a machine that hangs. STANDING: a function of `plan setup aws` that looks at all machines."""

    STANDING = "standing"
    SCHEDULE = "schedule"
    """One for each machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsResolution(MachineResolution):
    """`security_group` and `schedule_group` are "" where the launch makes them first; `schedule_role`, an ARN, is ""
    where no schedule is made. `image_from` says in words how the image was found.
    """

    zone: str
    subnet: str
    vpc: str
    security_group: str
    image: str
    image_from: str
    root_device: str
    root_gib: int
    instance_profile: str
    reaper: Reaper
    schedule_role: str = ""
    schedule_group: str = ""


def resolve(
    request: LaunchRequest, rented: Rented, account: AwsAccount, standing_resources: StandingResources
) -> AwsResolution:
    """Look up what a request with its data leaves open; creates nothing. Raises ProviderError."""
    machine = rented.resolve(request)
    region, part = request.offer.region, rented.launchable(request)
    network = account.network(region)
    zone = _zone(request, account, network.subnets)
    image = account.image(region, part.host.image)
    end = _end(account, standing_resources, region)
    return AwsResolution(
        image_digest=machine.image_digest,
        run_uri=machine.run_uri,
        run_region=machine.run_region,
        boot_deadline=machine.boot_deadline,
        zone=zone,
        subnet=network.subnets[zone],
        vpc=network.vpc,
        security_group=network.security_group,
        image=image.id,
        image_from=image.how,
        root_device=image.root_device,
        root_gib=max(image.root_gib, part.host.least_disk_gib) + _data_gib(request),
        instance_profile=account.settings.instance_profile,
        reaper=end.reaper,
        schedule_role=end.schedule_role,
        schedule_group=end.schedule_group,
    )


def _zone(request: LaunchRequest, account: AwsAccount, subnets: Mapping[str, str]) -> str:
    """The request's zone, or the first that has the machine. Raises CapacityError where none has."""
    offer = request.offer
    zones = account.zones(offer.region, offer.instance_type)
    item = [request.zone] if request.zone else zones
    for zone in item:
        if zone in zones and zone in subnets:
            return zone
    raise CapacityError(
        f"{request.zone or offer.region} does not have {offer.instance_type}",
        elsewhere=tuple(zone for zone in zones if zone in subnets),
        hint=f"use {offer.lifecycle.successor}" if offer.lifecycle.successor else "choose another placement or machine",
    )


class _End(NamedTuple):
    """The fields of AwsResolution that tell what ends a machine that hangs."""

    reaper: Reaper
    schedule_role: str = ""
    schedule_group: str = ""


def _end(account: AwsAccount, standing_resources: StandingResources, region: str) -> _End:
    """Raises PermissionDeniedError where nothing would end a machine that hangs, or machines have no role."""
    if account.has_instance_profile() is False:
        raise PermissionDeniedError(
            f"there is no instance profile {account.settings.instance_profile} for the machines", hint="plan setup aws"
        )
    if lacks := standing_resources.machine_role_lacks():
        raise PermissionDeniedError(lacks, hint="plan setup aws")
    if account.has_reaper():
        return _End(Reaper.STANDING)
    if account.has_schedule_role() is False:
        raise PermissionDeniedError("no standing reaper would end a machine that hangs", hint="plan setup aws")
    group = SCHEDULE_GROUP if account.has_schedule_group(region) else ""
    return _End(Reaper.SCHEDULE, role_arn(account.identity(), SCHEDULE_ROLE), group)


def _data_gib(request: LaunchRequest) -> int:
    """Twice the data set, packed and unpacked."""
    return -(-2 * sum(file.size_bytes for file in request.data) // 1024**3)
