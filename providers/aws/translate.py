"""A launch as EC2's calls, and what EC2 shows as ours. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pricing.offers import Market
from providers.aws.settings import PROVIDER, SCHEDULE_GROUP, SECURITY_GROUP
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
    VendorRequest,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.base import LaunchRequest

OURS = "trainplan"
"""The tag on everything that is made here, also on what no run owns."""
EXPIRES = "expires-at"
"""The tag that the standing reaper reads: the attempt's deadline, as ISO 8601 in UTC."""
REAPER_EVERY = timedelta(minutes=10)
SCHEDULE_GRACE = timedelta(minutes=5)
"""How long after the machine's own timer the one-time schedule ends it."""
INSTANCE_ID = "${InstanceId}"
GROUP_ID = "${SecurityGroupId}"
"""Stand in recorded calls for what an earlier call of the same launch answers."""
SCHEDULE = "schedule/"
"""Before the name of a schedule in our ids: EC2's own begin otherwise."""
# Names in a request's `resolved`.
ZONE, SUBNET, VPC, GROUP = "zone", "subnet", "vpc", "security_group"
IMAGE, IMAGE_FROM, ROOT_DEVICE, ROOT_GIB = "image", "image_from", "root_device", "root_gib"
PROFILE, REAPER, GROUP_OF_SCHEDULES, ROLE_ARN = "instance_profile", "reaper", "schedule_group", "schedule_role"
STANDING, BY_SCHEDULE = "standing", "schedule"

_STATES = {
    "pending": InstanceState.PENDING,
    "running": InstanceState.RUNNING,
    "shutting-down": InstanceState.STOPPING,
    "stopping": InstanceState.STOPPING,
    "stopped": InstanceState.ENDED,
    "terminated": InstanceState.ENDED,
}
# StateReason's code -> how it ended as far as EC2 knows: how training ended stands in the run directory.
_ENDS: Mapping[str, tuple[EndKind | None, str]] = {
    "Client.InstanceInitiatedShutdown": (None, "the machine ended itself"),
    "Client.UserInitiatedShutdown": (EndKind.KILLED, "it was terminated by a call"),
    "Server.SpotInstanceTermination": (EndKind.RECLAIMED, "spot took it back"),
    "Server.SpotInstanceShutdown": (EndKind.RECLAIMED, "spot took it back"),
    "Server.ScheduledStop": (EndKind.RECLAIMED, "AWS stopped it: its host is taken out of service"),
    "Server.InsufficientInstanceCapacity": (EndKind.NO_CAPACITY, "there was no capacity left to start it"),
    "Server.InternalError": (EndKind.LOST, "an error within AWS ended it"),
    "Client.InternalError": (EndKind.LOST, "it could not start: its disk or the key of it could not be used"),
    "Client.VolumeLimitExceeded": (EndKind.LOST, "it could not start: the account's quota of disk is too small"),
    "Client.InvalidSnapshot.NotFound": (EndKind.LOST, "it could not start: the disk of its image is gone"),
}
_NOT_IN_A_TAG = re.compile(r"[^\w +\-=.:/@]")
_NOT_IN_A_NAME = re.compile(r"[^0-9A-Za-z_-]")
_MOST_IN_A_NAME = 16


def ec2(region: str, operation: str, parameters: Mapping[str, object]) -> VendorRequest:
    """A call of EC2 in a region, as it is recorded."""
    return VendorRequest(service=f"ec2.{region}", operation=operation, parameters=parameters)


def token_of(request: LaunchRequest) -> str:
    """The idempotency token of an attempt: the same attempt asked for otherwise is refused, not made twice."""
    return hashlib.sha256(f"{request.run_id}\n{request.attempt}".encode()).hexdigest()


def tags_of(request: LaunchRequest) -> list[dict[str, str]]:
    """By key."""
    deadline = request.deadline.astimezone(UTC).isoformat(timespec="seconds")
    tags = {
        "Name": f"trainplan {request.run_id}",
        EXPIRES: deadline,
        OURS: "1",
        LABEL_ATTEMPT: str(request.attempt),
        LABEL_CLIENT: request.client,
        LABEL_DEADLINE: deadline,
        LABEL_RUN: request.run_id,
    }
    return [{"Key": key, "Value": _NOT_IN_A_TAG.sub("_", value)[:255]} for key, value in sorted(tags.items())]


def create_security_group(request: LaunchRequest) -> VendorRequest:
    """A new group lets everything out and nothing in."""
    parameters: dict[str, object] = {
        "GroupName": SECURITY_GROUP,
        "Description": "trainplan: machines that nobody connects to",
        "VpcId": request.resolved[VPC],
        "TagSpecifications": [{"ResourceType": "security-group", "Tags": [{"Key": OURS, "Value": "1"}]}],
    }
    return ec2(request.offer.region, "CreateSecurityGroup", parameters)


def run_instances(request: LaunchRequest, user_data: str) -> VendorRequest:
    """The call that makes the machine, with everything said that has a default. `user_data` goes base64-encoded."""
    known, spot = request.resolved, request.offer.market is Market.SPOT
    kinds = ["instance", "volume", "network-interface", *(["spot-instances-request"] if spot else [])]
    interface = {
        "DeviceIndex": 0,
        "SubnetId": known[SUBNET],
        "Groups": [known[GROUP] or GROUP_ID],
        "AssociatePublicIpAddress": True,
        "DeleteOnTermination": True,
    }
    disk = {
        "VolumeSize": int(known[ROOT_GIB]),
        "VolumeType": "gp3",
        "Encrypted": True,
        "DeleteOnTermination": True,
    }
    parameters: dict[str, object] = {
        "ImageId": known[IMAGE],
        "InstanceType": request.offer.instance_type,
        "MinCount": 1,
        "MaxCount": 1,
        "ClientToken": token_of(request),
        "NetworkInterfaces": [interface],
        "BlockDeviceMappings": [{"DeviceName": known[ROOT_DEVICE], "Ebs": disk}],
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpTokens": "required",
            "HttpPutResponseHopLimit": 1,
            "InstanceMetadataTags": "disabled",
        },
        "IamInstanceProfile": {"Name": known[PROFILE]},
        "InstanceInitiatedShutdownBehavior": "terminate",
        "DisableApiTermination": False,
        "Monitoring": {"Enabled": False},
        "TagSpecifications": [{"ResourceType": kind, "Tags": tags_of(request)} for kind in kinds],
        "UserData": user_data,
    }
    if spot:
        parameters["InstanceMarketOptions"] = {
            "MarketType": "spot",
            # No MaxPrice: up to the price of on demand, as AWS advises; deadline and budget are the limit.
            "SpotOptions": {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"},
        }
    return ec2(request.offer.region, "RunInstances", parameters)


def schedule_calls(request: LaunchRequest) -> tuple[VendorRequest | None, VendorRequest]:
    """The group of schedules where it is not there yet, and the schedule that ends the machine."""
    service = f"scheduler.{request.offer.region}"
    at = (request.deadline + SCHEDULE_GRACE).astimezone(UTC)
    group = None
    if not request.resolved.get(GROUP_OF_SCHEDULES):
        tags = [{"Key": OURS, "Value": "1"}]
        named: dict[str, object] = {"Name": SCHEDULE_GROUP, "Tags": tags}
        group = VendorRequest(service=service, operation="CreateScheduleGroup", parameters=named)
    parameters: dict[str, object] = {
        "GroupName": SCHEDULE_GROUP,
        "Name": schedule_name(request),
        "ClientToken": token_of(request),
        "Description": f"ends the machine of trainplan run {request.run_id}, attempt {request.attempt}",
        "ScheduleExpression": f"at({at:%Y-%m-%dT%H:%M:%S})",
        "ScheduleExpressionTimezone": "UTC",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "ActionAfterCompletion": "DELETE",
        "Target": {
            "Arn": "arn:aws:scheduler:::aws-sdk:ec2:terminateInstances",
            "RoleArn": request.resolved[ROLE_ARN],
            "Input": json.dumps({"InstanceIds": [INSTANCE_ID]}),
        },
    }
    return group, VendorRequest(service=service, operation="CreateSchedule", parameters=parameters)


def schedule_name(request: LaunchRequest) -> str:
    """A schedule has no tags, so what they would say is in its name: run, attempt, deadline (Unix), computer."""
    client = _NOT_IN_A_NAME.sub("_", request.client)[:_MOST_IN_A_NAME]
    return f"{request.run_id}.{request.attempt}.{request.deadline.timestamp():.0f}.{client}"


def filled(parameters: Mapping[str, object], found: Mapping[str, str]) -> dict[str, Any]:
    """The parameters with what earlier calls of the launch have answered in its places."""
    text = json.dumps(parameters)
    for place, value in found.items():
        text = text.replace(place, value)
    return dict(json.loads(text))


def instance(told: Mapping[str, Any], region: str) -> Instance:
    """An instance as EC2 shows it. Its end is told as far as EC2 knows it."""
    tags = tags_in(told)
    state = _STATES.get(str(told.get("State", {}).get("Name")), InstanceState.PENDING)
    over = state is InstanceState.ENDED
    end, reason = _end(told) if over else (None, None)
    return Instance(
        ref=InstanceRef(provider=PROVIDER, region=region, id=str(told["InstanceId"])),
        state=state,
        run_id=RunId(tags.get(LABEL_RUN, "")),
        attempt=_number(tags.get(LABEL_ATTEMPT)) or 0,
        launched_at=told.get("LaunchTime"),
        end=end,
        reason=reason,
        ended_at=_ended_at(told) if over else None,
    )


def owned(kind: str, told: Mapping[str, Any], region: str, key: str, created: str) -> OwnedResource:
    """Something of ours as a list shows it: its id is under `key`, when it was made under `created`."""
    tags = tags_in(told)
    return OwnedResource(
        provider=PROVIDER,
        region=region,
        kind=kind,
        id=str(told[key]),
        run_id=RunId(tags.get(LABEL_RUN, "")),
        created_at=told.get(created),
        attempt=_number(tags.get(LABEL_ATTEMPT)),
        instance=kind == "instance",
        deadline=_instant(tags.get(LABEL_DEADLINE)),
        client=tags.get(LABEL_CLIENT) or None,
    )


def owned_schedule(told: Mapping[str, Any], region: str) -> OwnedResource | None:
    """A schedule of a run; None for another one of the group (the reaper's)."""
    parts = str(told["Name"]).split(".")
    if len(parts) != 4 or _number(parts[1]) is None or _number(parts[2]) is None:
        return None
    run, attempt, deadline, client = parts
    return OwnedResource(
        provider=PROVIDER,
        region=region,
        kind="schedule",
        id=f"{SCHEDULE}{told['Name']}",
        run_id=RunId(run),
        created_at=told.get("CreationDate"),
        attempt=int(attempt),
        instance=False,
        deadline=datetime.fromtimestamp(int(deadline), UTC),
        client=client or None,
    )


def tags_in(told: Mapping[str, Any]) -> dict[str, str]:
    """Interfaces have theirs under another name."""
    return {row["Key"]: row["Value"] for row in told.get("Tags") or told.get("TagSet") or ()}


def _end(told: Mapping[str, Any]) -> tuple[EndKind | None, str]:
    reason: Mapping[str, str] = told.get("StateReason") or {}
    code = reason.get("Code", "")
    if code not in _ENDS:
        return EndKind.LOST, reason.get("Message") or told.get("StateTransitionReason") or "AWS does not say why"
    end, text = _ENDS[code]
    if told.get("State", {}).get("Name") == "stopped" and end is None:
        return EndKind.LOST, "it was stopped"
    return end, text


def _ended_at(told: Mapping[str, Any]) -> datetime | None:
    """`User initiated (2026-11-21 12:00:00 GMT)`; spot's reasons have no time."""
    found = re.search(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (GMT|UTC)\)", told.get("StateTransitionReason") or "")
    return datetime.fromisoformat(found.group(1)).replace(tzinfo=UTC) if found else None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _instant(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
