"""What each call to AWS needs of a policy, as the Service Authorization Reference has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.doubles.iam_policy import Need

Parameters = Mapping[str, Any]
OURS = {"aws:ResourceTag/trainplan": "1"}
_TARGETS = {
    "TerminateInstances": ("instance", "InstanceIds"),
    "GetConsoleOutput": ("instance", "InstanceId"),
    "DeleteVolume": ("volume", "VolumeId"),
    "DeleteNetworkInterface": ("network-interface", "NetworkInterfaceId"),
    "CancelSpotInstanceRequests": ("spot-instances-request", "SpotInstanceRequestIds"),
    "DeleteSecurityGroup": ("security-group", "GroupId"),
}
_ON_OBJECTS = {
    "PutObject": "s3:PutObject", "CreateMultipartUpload": "s3:PutObject", "UploadPart": "s3:PutObject",
    "CompleteMultipartUpload": "s3:PutObject", "GetObject": "s3:GetObject", "HeadObject": "s3:GetObject",
    "ListParts": "s3:ListMultipartUploadParts", "DeleteObject": "s3:DeleteObject",
}  # fmt: skip
_ON_BUCKETS = {
    "HeadBucket": "s3:ListBucket", "ListObjectsV2": "s3:ListBucket", "GetBucketTagging": "s3:GetBucketTagging",
    "CreateBucket": "s3:CreateBucket", "DeleteBucket": "s3:DeleteBucket",
    "PutPublicAccessBlock": "s3:PutBucketPublicAccessBlock", "PutBucketTagging": "s3:PutBucketTagging",
    "PutBucketLifecycleConfiguration": "s3:PutLifecycleConfiguration",
}  # fmt: skip
_SERVICES = {"service-quotas": "servicequotas"}


@dataclass(frozen=True)
class Sent:
    """A call as it was sent, whatever came of it."""

    service: str
    region: str
    operation: str
    parameters: Parameters


def needs(sent: Sent, account: str) -> list[Need]:
    """Every action and resource that IAM asks a policy about for this call."""
    special: dict[str, Callable[[Sent, str], Iterator[Need]]] = {
        "ec2": _of_ec2, "s3": _of_s3, "iam": _of_iam, "scheduler": _of_scheduler, "lambda": _of_lambda,
        "ssm": _of_ssm,
    }  # fmt: skip
    service = _SERVICES.get(sent.service, sent.service)
    if service in special:
        return list(special[service](sent, account))
    return [Need(f"{service}:{sent.operation}")]


def _of_ec2(sent: Sent, account: str) -> Iterator[Need]:
    given, operation = sent.parameters, sent.operation

    def arn(kind: str, name: str) -> str:
        owner = "" if kind == "image" else account
        return f"arn:aws:ec2:{sent.region}:{owner}:{kind}/{name}"

    if operation == "RunInstances":
        yield from _of_run_instances(given, arn, account)
    elif operation == "CreateSecurityGroup":
        tags = _request_tags(given).get("security-group", {})
        yield Need("ec2:CreateSecurityGroup", arn("vpc", given["VpcId"]))
        yield Need("ec2:CreateSecurityGroup", arn("security-group", "*"), tags)
        yield Need("ec2:CreateTags", arn("security-group", "*"), {"ec2:CreateAction": operation, **tags})
    elif operation in _TARGETS:
        kind, key = _TARGETS[operation]
        names = given[key] if isinstance(given[key], list) else [given[key]]
        for name in names:
            yield Need(f"ec2:{operation}", arn(kind, name), OURS)
    else:
        yield Need(f"ec2:{operation}")


def _of_run_instances(parameters: Parameters, arn: Callable[[str, str], str], account: str) -> Iterator[Need]:
    tags = _request_tags(parameters)
    yield Need("ec2:RunInstances", arn("image", parameters["ImageId"]))
    interfaces = parameters.get("NetworkInterfaces", [{"SubnetId": parameters.get("SubnetId"), "Groups": []}])
    for interface in interfaces:
        yield Need("ec2:RunInstances", arn("subnet", interface["SubnetId"]))
        for group in interface["Groups"] or ["*"]:
            yield Need("ec2:RunInstances", arn("security-group", group), OURS)
    kinds = ["instance", "network-interface", "volume"]
    if "InstanceMarketOptions" in parameters:
        kinds.append("spot-instances-request")
    for kind in kinds:
        yield Need("ec2:RunInstances", arn(kind, "*"), tags.get(kind, {}))
    for kind, own in tags.items():
        yield Need("ec2:CreateTags", arn(kind, "*"), {"ec2:CreateAction": "RunInstances", **own})
    role = f"arn:aws:iam::{account}:role/{parameters['IamInstanceProfile']['Name']}"
    yield Need("iam:PassRole", role, {"iam:PassedToService": "ec2.amazonaws.com"})


def _request_tags(parameters: Parameters) -> dict[str, dict[str, str]]:
    return {
        row["ResourceType"]: {f"aws:RequestTag/{tag['Key']}": tag["Value"] for tag in row["Tags"]}
        for row in parameters.get("TagSpecifications", ())
    }


def _of_s3(sent: Sent, account: str) -> Iterator[Need]:
    del account
    given, bucket = sent.parameters, f"arn:aws:s3:::{sent.parameters['Bucket']}"
    if sent.operation in _ON_BUCKETS:
        prefix = {"s3:prefix": given["Prefix"]} if given.get("Prefix") else {}
        yield Need(_ON_BUCKETS[sent.operation], bucket, prefix)
    elif sent.operation == "DeleteObjects":
        for row in given["Delete"]["Objects"]:
            yield Need("s3:DeleteObject", f"{bucket}/{row['Key']}")
    else:
        yield Need(_ON_OBJECTS[sent.operation], f"{bucket}/{given['Key']}")


def _of_iam(sent: Sent, account: str) -> Iterator[Need]:
    given, operation = sent.parameters, sent.operation
    base = f"arn:aws:iam::{account}"
    if operation == "CreateServiceLinkedRole":
        yield Need(
            "iam:CreateServiceLinkedRole", f"{base}:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot"
        )
        return
    profile = "InstanceProfileName" in given
    name = given["InstanceProfileName"] if profile else given["RoleName"]
    path = "aws-service-role/spot.amazonaws.com/" if name == "AWSServiceRoleForEC2Spot" else ""
    resource = f"{base}:instance-profile/{name}" if profile else f"{base}:role/{path}{name}"
    yield Need(f"iam:{operation}", resource)
    if given.get("Tags"):
        yield Need("iam:TagInstanceProfile" if profile else "iam:TagRole", resource)
    if operation == "AddRoleToInstanceProfile":
        role = f"{base}:role/{given['RoleName']}"
        yield Need("iam:PassRole", role, {"iam:PassedToService": "ec2.amazonaws.com"})


def _of_scheduler(sent: Sent, account: str) -> Iterator[Need]:
    given, operation = sent.parameters, sent.operation
    if operation == "ListSchedules":
        yield Need("scheduler:ListSchedules")
        return
    base = f"arn:aws:scheduler:{sent.region}:{account}"
    if operation.endswith("Group"):
        yield Need(f"scheduler:{operation}", f"{base}:schedule-group/{given['Name']}")
        if given.get("Tags"):
            yield Need("scheduler:TagResource", f"{base}:schedule-group/{given['Name']}")
        return
    yield Need(f"scheduler:{operation}", f"{base}:schedule/{given['GroupName']}/{given['Name']}")
    if operation == "CreateSchedule":
        yield Need("iam:PassRole", given["Target"]["RoleArn"], {"iam:PassedToService": "scheduler.amazonaws.com"})


def _of_lambda(sent: Sent, account: str) -> Iterator[Need]:
    resource = f"arn:aws:lambda:{sent.region}:{account}:function:{sent.parameters['FunctionName']}"
    yield Need(f"lambda:{sent.operation}", resource)
    if sent.operation == "CreateFunction":
        yield Need("lambda:TagResource", resource)
        yield Need("iam:PassRole", sent.parameters["Role"], {"iam:PassedToService": "lambda.amazonaws.com"})


def _of_ssm(sent: Sent, account: str) -> Iterator[Need]:
    del account  # these parameters are AWS' own
    yield Need("ssm:GetParameter", f"arn:aws:ssm:{sent.region}::parameter{sent.parameters['Name']}")
