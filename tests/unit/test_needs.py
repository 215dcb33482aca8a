"""tests/doubles/needs.csv, the one table of what calls need: every row has its ground, and nothing unknown passes."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import jmespath
import pytest

from tests.doubles import needs
from tests.doubles.needs import Need, UnknownCallError

ACCOUNT = {"account": "123456789012", "region": "us-east-1"}
MACHINE: dict[str, Any] = {"ImageId": "ami-1", "InstanceType": "c5.large", "MinCount": 1, "MaxCount": 1}


def test_every_row_has_a_ground_with_its_placement_and_date() -> None:
    assert {row.ground for row in needs.rows()} == set(needs.grounds())
    for name, ground in needs.grounds().items():
        assert ground["what"], name
        assert re.search(r"https://|botocore|iam-dataset", ground["where"]), name
        assert date.fromisoformat(ground["read"]) <= date(2026, 11, 28), name


def test_every_expression_can_be_read() -> None:
    for row in needs.rows():
        if row.permission:
            for text in filter(None, (row.when, *re.findall(r"\{([^}]+)\}", row.on))):
                jmespath.compile(text)
    assert len(needs.rows()) == len(set(needs.rows()))


def needed(call: str, **parameters: Any) -> set[str]:
    return {f"{need.action} {need.resource}" for need in needs.needs("aws", call, parameters, ACCOUNT)}


def test_a_header_needs_a_permission_of_its_own() -> None:
    assert needed("s3:CreateBucket", Bucket="b") == {"s3:CreateBucket arn:aws:s3:::b"}
    with_owner = needed("s3:CreateBucket", Bucket="b", ObjectOwnership="BucketOwnerEnforced")
    assert "s3:PutBucketOwnershipControls arn:aws:s3:::b" in with_owner


def test_a_create_without_a_group_needs_the_default_one() -> None:
    group = "ec2:RunInstances arn:aws:ec2:us-east-1:123456789012:security-group/{}"
    assert group.format("default") in needed("ec2:RunInstances", **MACHINE)
    named = needed("ec2:RunInstances", **MACHINE, NetworkInterfaces=[{"SubnetId": "s", "Groups": ["sg-1"]}])
    assert group.format("sg-1") in named
    assert group.format("default") not in named


def test_tags_roles_and_keys_need_theirs() -> None:
    plain = needed("ec2:RunInstances", **MACHINE)
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "trainplan", "Value": "1"}]}]
    assert any(
        row.startswith("ec2:CreateTags") for row in needed("ec2:RunInstances", **MACHINE, TagSpecifications=tags)
    )
    profile = needed("ec2:RunInstances", **MACHINE, IamInstanceProfile={"Name": "m"})
    assert profile - plain == {"iam:PassRole arn:aws:iam::123456789012:role/m"}
    disk = [{"Ebs": {"Encrypted": True, "KmsKeyId": "arn:aws:kms:us-east-1:1:key/k"}}]
    assert any(
        row.startswith("kms:CreateGrant") for row in needed("ec2:RunInstances", **MACHINE, BlockDeviceMappings=disk)
    )


def test_a_condition_sees_the_tags_of_the_request_and_of_the_resource() -> None:
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "trainplan", "Value": "1"}]}]
    found = needs.needs("aws", "ec2:RunInstances", {**MACHINE, "TagSpecifications": tags}, ACCOUNT)
    (instance,) = [row for row in found if ":instance/" in row.resource and row.action == "ec2:RunInstances"]
    assert instance.context == {"aws:RequestTag/trainplan": "1"}
    end = needs.needs("aws", "ec2:TerminateInstances", {"InstanceIds": ["i-1", "i-2"]}, ACCOUNT, lambda _: {"a": "b"})
    assert [row.resource.rpartition("/")[2] for row in end] == ["i-1", "i-2"]
    assert {str(dict(row.context)) for row in end} == {"{'a': 'b'}"}


def test_what_is_within_a_request_counts_at_google_and_azure() -> None:
    machine = {"project": "p", "zone": "z", "machineType": "m"}

    def google(**more: Any) -> set[str]:
        return {need.action for need in needs.needs("google", "compute.instances.insert", {**machine, **more})}

    assert "iam.serviceAccounts.actAs" not in google()
    assert "iam.serviceAccounts.actAs" in google(serviceAccounts=[{"email": "a"}])
    assert "compute.subnetworks.useExternalIp" in google(networkInterfaces=[{"accessConfigs": [{"name": "x"}]}])
    call = "PUT Microsoft.Compute/virtualMachines"
    assert needs.needs("azure", call, {}) == [Need("Microsoft.Compute/virtualMachines/write")]
    with_disk = {need.action for need in needs.needs("azure", call, {"storageProfile": {"osDisk": {"x": 1}}})}
    assert "Microsoft.Compute/disks/write" in with_disk


@pytest.mark.parametrize(
    ("cloud", "call", "parameters"),
    [
        ("aws", "s3:CreateBucket", {"Bucket": "b", "BucketNamespace": "x"}),
        ("aws", "ec2:RunInstances", {**MACHINE, "EnclaveOptions": {}}),
        ("aws", "ec2:CreateImage", {}),
        ("google", "compute.instances.insert", {"project": "p", "networkPerformanceConfig": {}}),
        ("azure", "PUT Microsoft.Compute/virtualMachines", {"capacityReservation": {}}),
    ],
)
def test_what_is_in_no_row_is_not_known(cloud: str, call: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(UnknownCallError, match=r"needs\.csv"):
        needs.needs(cloud, call, parameters)
