"""A create at the double: whether it is let in, and the machine that it makes with all that comes with it."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from tests.doubles.aws import backends
from tests.doubles.aws.machines import Machine
from tests.doubles.aws.world import Thing, World, code_of

MOST_USER_DATA = 16 * 1024
OLD_TYPES = {"p2.xlarge": 4, "p2.8xlarge": 32, "p2.16xlarge": 64, "p3.2xlarge": 8, "p3.8xlarge": 32, "p3.16xlarge": 64}
"""Of which moto knows nothing any more, and their vCPUs."""
_LABEL, _CLIENT, _ATTEMPT = "trainplan-run", "trainplan-client", "trainplan-attempt"


TOKEN_MEMORY = timedelta(hours=24)
"""EC2 says "at least": it may be longer, and nobody may rely on that."""


def has_forgotten(w: World, resource: Any) -> bool:
    """Whether the token of this reservation names nothing any more."""
    gone = [w.machines[row.id].gone_at for row in resource.instances if w.machines[row.id].is_gone]
    return len(gone) == len(resource.instances) and all(at is not None and w.now - at >= TOKEN_MEMORY for at in gone)


def let_in(w: World, region: str, zone: str, kind: str, market: str, user_data: Any) -> None:
    if w.scenario.plan == "FREE" and not is_eligible(kind):
        raise refused(
            "InvalidParameterCombination",
            "The specified instance type is not eligible for Free Tier. For a list of Free Tier instance types, run "
            "'describe-instance-types' with the filter 'free-tier-eligible=true'.",
        )
    if user_data is not None and len(raw(user_data)) > MOST_USER_DATA:
        raise refused("InvalidParameterValue", "User data is limited to 16384 bytes")
    offered = backends.ec2(region).describe_instance_type_offerings("availability-zone", {"instance-type": [kind]})
    zones = [row["Location"] for row in offered]
    if zone not in zones:
        others = ", ".join(zones)
        raise refused(
            "Unsupported",
            f"Your requested instance type ({kind}) is not supported in your requested Availability Zone ({zone}). "
            f"Please retry your request by not specifying an Availability Zone or choosing {others}.",
        )
    code = code_of(kind, market)
    allowed = w.vcpus_allowed(region, code)
    if w.vcpus_used(region, code) + vcpus_of(region, kind) > allowed:
        name = "MaxSpotInstanceCountExceeded" if market == "spot" else "VcpuLimitExceeded"
        text = f"You have requested more vCPU capacity than your current vCPU limit of {allowed:.0f} allows"
        raise refused(name, f"{text} for the instance bucket that the specified instance type belongs to.")
    if w.stock(region, zone, kind, market) <= 0:
        full = f"We currently do not have sufficient {kind} capacity in the Availability Zone you requested ({zone})."
        other_zones = [other for other in zones if other != zone and w.stock(region, other, kind, market) > 0]
        where = f" or choosing {', '.join(other_zones)}" if other_zones else ""
        more = f" You can currently get {kind} capacity by not specifying an Availability Zone in your request{where}."
        raise refused("InsufficientInstanceCapacity", full + (more if other_zones else ""))


def is_eligible(kind: str) -> bool:
    """Whether EC2 creates it on the free plan: as recorded from AWS, by moto."""
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    return bool(INSTANCE_TYPES.get(kind, {}).get("FreeTierEligible"))


def born(w: World, b: Any, resource: Any, parameters: dict[str, Any], market: str) -> None:
    """The new machine, and what it brings: disks, interfaces, on spot a request; each with its tags and its time."""
    tags = parameters.get("tags") or {}
    labels = {tag["key"]: tag["value"] for tag in resource.get_tags()}
    resource.launch_time = w.now
    resource._state.name, resource._state.code = "pending", 0
    region, run, client = b.region_name, labels.get(_LABEL), labels.get(_CLIENT)
    things = []
    for _, device in resource.get_block_device_mapping:
        volume = b.volumes[device.volume_id]
        volume.create_time = w.now
        things.append(Thing(volume.id, "volume", region, run, client, w.now))
    for interface in resource.nics.values():
        interface.add_tags(tags.get("network-interface", {}))
        things.append(Thing(interface.id, "network interface", region, run, client, w.now))
    if market == "spot":
        request = spot_request(b, resource, tags.get("spot-instances-request", {}))
        things.append(Thing(request.id, "spot request", region, run, client, w.now))
    machine = Machine(
        id=resource.id, region=region, zone=resource.placement.zone, instance_type=resource.instance_type,
        market=market,
        vcpus=vcpus_of(region, resource.instance_type), run=run, client=client,
        attempt=int(labels[_ATTEMPT]) if _ATTEMPT in labels else None,
        user_data=raw(resource.user_data).decode() if resource.user_data else "",
        profile=parameters.get("iam_instance_profile_name") or None,
    )  # fmt: skip
    w.born(machine, things)


def spot_request(b: Any, resource: Any, tags: dict[str, str]) -> Any:
    """moto's own class would launch a second machine."""
    from moto.ec2.models.spot_requests import LaunchSpecification, SpotInstanceRequest
    from moto.ec2.utils import random_spot_request_id

    request = object.__new__(SpotInstanceRequest)
    request.ec2_backend, request.id = b, random_spot_request_id()
    request.launch_specification = LaunchSpecification(
        kernel_id=None, ramdisk_id=None, image_id=resource.image_id, key_name=None,
        instance_type=resource.instance_type,
        placement=resource.placement.zone, monitored=False, subnet_id=resource.subnet_id,
    )  # fmt: skip
    request.state, request._status_code, request.status_message = "active", "fulfilled", ""
    request.price, request.type = "1.0", "one-time"
    request.valid_from = request.valid_until = request.launch_group = request.availability_zone_group = None
    request.instance_interruption_behaviour, request.user_data, request.spot_fleet_id = "terminate", None, None
    request.instance = resource
    b.spot_instance_requests[request.id] = request
    request.add_tags(tags)
    return request


def scheduled(w: World, region: str, resource: Any) -> None:
    run, _, rest = resource.name.partition(".")
    if not rest:
        return
    client = resource.name.rpartition(".")[2]
    w.things[resource.name] = Thing(resource.name, "schedule", region, run, client, w.now)


def zone(b: Any, parameters: dict[str, Any]) -> str:
    named = parameters.get("subnet_id") or next(
        (nic["SubnetId"] for nic in parameters["nics"] if "SubnetId" in nic), None
    )
    if named:
        return str(b.get_subnet(named).availability_zone)
    return str(parameters.get("placement") or f"{b.region_name}a")


def vcpus_of(region: str, kind: str) -> float:
    """What the machine counts for in its quota."""
    if kind in OLD_TYPES:
        return OLD_TYPES[kind]
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    known = INSTANCE_TYPES.get(kind)
    if known is None:
        found = re.search(r"(\d*)xlarge", kind)
        return 4.0 * int(found.group(1) or 1) if found else 2.0
    return float(known["VCpuInfo"]["DefaultVCpus"])


def raw(user_data: Any) -> bytes:
    return bytes(user_data.decode().encode())


def refused(code: str, message: str) -> Exception:
    from moto.ec2.exceptions import EC2ClientError

    return EC2ClientError(code, message)
