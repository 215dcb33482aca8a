"""The calls of a launch to EC2 and to EventBridge Scheduler. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Any

from trainplan.pricing.offers import Market
from trainplan.providers.aws.resolution import AwsResolution
from trainplan.providers.aws.settings import SCHEDULE_GROUP, SECURITY_GROUP
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

OURS = "trainplan"
"""The tag on everything that is made here, also on what no run owns."""
EXPIRES = "expires-at"
"""The tag that the standing reaper reads: the attempt's deadline, as ISO 8601 in UTC."""
REAPER_EVERY = timedelta(minutes=10)
SCHEDULE_GRACE = timedelta(minutes=5)
"""The one-time schedule ends the machine this long after the machine's own timer, if that timer did not."""
INSTANCE_ID = "${InstanceId}"
GROUP_ID = "${SecurityGroupId}"
"""Placeholders in recorded calls for ids that earlier calls of the same launch return (`filled`)."""
_NOT_IN_A_TAG = re.compile(r"[^\w +\-=.:/@]")
_NOT_IN_A_NAME = re.compile(r"[^0-9A-Za-z_-]")
_MOST_IN_A_NAME = 16


def ec2(region: str, operation: str, parameters: Mapping[str, object]) -> VendorRequest:
    """A call of EC2 in a region, as it is recorded."""
    return VendorRequest(service=f"ec2.{region}", operation=operation, parameters=parameters)


def token_of(request: LaunchRequest) -> str:
    """The idempotency token of an attempt. EC2 refuses the same token with other parameters
    (docs/maintainers/fidelity.md)."""
    return hashlib.sha256(f"{request.run_id}\n{request.attempt}".encode()).hexdigest()


def tags_of(request: LaunchRequest) -> list[dict[str, str]]:
    """The tags of everything that an attempt creates, sorted by key."""
    deadline = request.deadline.astimezone(UTC).isoformat(timespec="seconds")
    tags = {
        "Name": f"trainplan {request.run_id}",
        EXPIRES: deadline,
        OURS: "1",
        LABEL_ATTEMPT: str(request.attempt),
        LABEL_CLIENT: request.client,
        LABEL_DEADLINE: deadline,
        LABEL_RUN: request.run_id,
        **project_of(request),
    }
    return [{"Key": key, "Value": _NOT_IN_A_TAG.sub("_", value)[:255]} for key, value in sorted(tags.items())]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a create says of a machine, whatever run it is for: the dry run of the preflight says the same.

    `security_group` is "" for a dry run where there is none of ours yet.
    """

    instance_type: str
    spot: bool
    subnet: str
    security_group: str
    image: str
    root_device: str
    root_gib: int
    instance_profile: str

    def parameters(self, tags: Sequence[Mapping[str, str]]) -> dict[str, object]:
        """The parameters of RunInstances; every value that has a default is stated."""
        # Every kind gets the tags: teardown and cleanup find resources by their tags alone.
        kinds = ["instance", "volume", "network-interface", *(["spot-instances-request"] if self.spot else [])]
        interface = {
            "DeviceIndex": 0,
            "SubnetId": self.subnet,
            **({"Groups": [self.security_group]} if self.security_group else {}),
            "AssociatePublicIpAddress": True,
            "DeleteOnTermination": True,
        }
        disk = {"VolumeSize": self.root_gib, "VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True}
        parameters: dict[str, object] = {
            "ImageId": self.image,
            "InstanceType": self.instance_type,
            "MinCount": 1,
            "MaxCount": 1,
            "NetworkInterfaces": [interface],
            "BlockDeviceMappings": [{"DeviceName": self.root_device, "Ebs": disk}],
            "MetadataOptions": {
                "HttpEndpoint": "enabled",
                # IMDSv2 only. With a hop limit of 1 a token does not reach past the machine itself
                # (docs/maintainers/fidelity.md).
                "HttpTokens": "required",
                "HttpPutResponseHopLimit": 1,
                "InstanceMetadataTags": "disabled",
            },
            "IamInstanceProfile": {"Name": self.instance_profile},
            # The machine ends itself by a power-off: stopped and not terminated, it would keep its disk, which bills.
            "InstanceInitiatedShutdownBehavior": "terminate",
            # The schedule, the standing reaper and `delete` all end the machine through the API.
            "DisableApiTermination": False,
            "Monitoring": {"Enabled": False},
            "TagSpecifications": [{"ResourceType": kind, "Tags": list(tags)} for kind in kinds],
        }
        if self.spot:
            parameters["InstanceMarketOptions"] = {
                "MarketType": "spot",
                # No MaxPrice: up to the price of on demand, as AWS advises; deadline and budget are the limit.
                "SpotOptions": {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"},
            }
        return parameters


def create_security_group(region: str, vpc: str) -> VendorRequest:
    """A new group lets everything out and nothing in."""
    parameters: dict[str, object] = {
        "GroupName": SECURITY_GROUP,
        "Description": "trainplan: machines that nobody connects to",
        "VpcId": vpc,
        "TagSpecifications": [{"ResourceType": "security-group", "Tags": [{"Key": OURS, "Value": "1"}]}],
    }
    return ec2(region, "CreateSecurityGroup", parameters)


def run_instances(request: LaunchRequest, user_data: str) -> VendorRequest:
    """The call that creates the machine. `user_data` is base64-encoded."""
    resolution = resolution_of(request, AwsResolution)
    machine = Machine(
        instance_type=request.offer.instance_type,
        spot=request.offer.market is Market.SPOT,
        subnet=resolution.subnet,
        security_group=resolution.security_group or GROUP_ID,
        image=resolution.image,
        root_device=resolution.root_device,
        root_gib=resolution.root_gib,
        instance_profile=resolution.instance_profile,
    )
    own = {"ClientToken": token_of(request), "UserData": user_data}
    return ec2(request.offer.region, "RunInstances", {**machine.parameters(tags_of(request)), **own})


def schedule_calls(request: LaunchRequest) -> tuple[VendorRequest | None, VendorRequest]:
    """The create of the schedule group, None if it exists, and the create of the schedule that ends the machine."""
    resolution, service = resolution_of(request, AwsResolution), f"scheduler.{request.offer.region}"
    at = (request.deadline + SCHEDULE_GRACE).astimezone(UTC)
    group = None
    if not resolution.schedule_group:
        tags = [{"Key": OURS, "Value": "1"}]
        by_name: dict[str, object] = {"Name": SCHEDULE_GROUP, "Tags": tags}
        group = VendorRequest(service=service, operation="CreateScheduleGroup", parameters=by_name)
    parameters: dict[str, object] = {
        "GroupName": SCHEDULE_GROUP,
        "Name": schedule_name(request),
        "ClientToken": token_of(request),
        "Description": f"ends the machine of trainplan run {request.run_id}, attempt {request.attempt}",
        "ScheduleExpression": f"at({at:%Y-%m-%dT%H:%M:%S})",
        "ScheduleExpressionTimezone": "UTC",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        # A schedule that has fired deletes itself (docs/maintainers/fidelity.md): nobody may be there to delete it.
        "ActionAfterCompletion": "DELETE",
        "Target": {
            "Arn": "arn:aws:scheduler:::aws-sdk:ec2:terminateInstances",
            "RoleArn": resolution.schedule_role,
            "Input": json.dumps({"InstanceIds": [INSTANCE_ID]}),
        },
    }
    return group, VendorRequest(service=service, operation="CreateSchedule", parameters=parameters)


def schedule_name(request: LaunchRequest) -> str:
    """The name of a schedule. It has no tags, so the name states run, attempt, deadline (Unix seconds) and client."""
    client = _NOT_IN_A_NAME.sub("_", request.client)[:_MOST_IN_A_NAME]
    return f"{request.run_id}.{request.attempt}.{request.deadline.timestamp():.0f}.{client}"


def filled(parameters: Mapping[str, object], entries: Mapping[str, str]) -> dict[str, Any]:
    """The parameters with each placeholder replaced by the id that an earlier call of the launch returned."""
    text = json.dumps(parameters)
    for placeholder, value in entries.items():
        text = text.replace(placeholder, value)
    return dict(json.loads(text))
