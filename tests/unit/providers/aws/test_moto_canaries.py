"""moto as it comes, in a process of its own: each gap that the double closes is still there.

A canary that fails says that moto has changed: look whether its patch (tests/doubles/aws/patches.py) is still needed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.doubles.aws.patches import PATCHES
from tests.doubles.aws.remote import ENVIRONMENT
from tests.rows import each_row

pytestmark = pytest.mark.slow

# Prints, by the name of a patch, whether moto still has the gap.
_CODE = """
import inspect, json, boto3
from moto.budgets.models import Budget
from botocore.exceptions import ClientError
from moto import mock_aws

def refused(call, **given):
    try:
        call(**given)
    except ClientError as error:
        return error.response["Error"]["Code"]
    except Exception as error:
        return type(error).__name__
    return ""

with mock_aws():
    region = "us-east-1"
    ec2, ssm = boto3.client("ec2", region), boto3.client("ssm", region)
    quotas, scheduler = boto3.client("service-quotas", region), boto3.client("scheduler", region)
    iam = boto3.client("iam", region)
    group = {"ImageId": "ami-12c6146b", "MinCount": 1, "MaxCount": 1, "InstanceType": "g4dn.xlarge"}
    spot = {"InstanceMarketOptions": {"MarketType": "spot"}}
    made = [ec2.run_instances(**group, ClientToken="t", **spot)["Instances"][0] for _ in range(2)]
    one = made[0]["InstanceId"]
    shown = ec2.describe_instances(InstanceIds=[one])["Reservations"][0]["Instances"][0]
    interface = shown["NetworkInterfaces"][0]["NetworkInterfaceId"]
    iam.create_instance_profile(InstanceProfileName="p")
    ec2.associate_iam_instance_profile(InstanceId=one, IamInstanceProfile={"Name": "p"})
    again = refused(ec2.associate_iam_instance_profile, InstanceId=one, IamInstanceProfile={"Name": "p"})
    prices = ec2.describe_spot_price_history(InstanceTypes=["g4dn.xlarge"])["SpotPriceHistory"]
    offered = ec2.describe_instance_type_offerings(
        LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": ["p3.2xlarge", "p2.xlarge"]}]
    )["InstanceTypeOfferings"]
    target = {"Arn": "arn:aws:scheduler:::aws-sdk:ec2:terminateInstances", "RoleArn": "arn:aws:iam::1:role/r"}
    schedule = {"GroupName": "none", "Name": "n", "ScheduleExpression": "at(2030-01-01T00:00:00)", "Target": target}
    console = ec2.get_console_output(InstanceId=one)["Output"]
    ec2.terminate_instances(InstanceIds=[made[1]["InstanceId"]])
    ended = ec2.describe_instances(InstanceIds=[made[1]["InstanceId"]])["Reservations"][0]["Instances"][0]
    found = {
        "create_keeps_to_token_stock_and_quota": made[0]["InstanceId"] != made[1]["InstanceId"],
        "a_replay_associates_nothing_anew": again == "IncorrectState",
        "terminate_takes_its_time": ended["State"]["Name"] == "terminated",
        "new_things_are_not_shown_at_once": shown["State"]["Name"] == "running",
        "spot_requests_are_shown_and_cancelled": not ec2.describe_spot_instance_requests()["SpotInstanceRequests"]
        and refused(ec2.cancel_spot_instance_requests, SpotInstanceRequestIds=["sir-1"]) == "KeyError",
        "regions_are_those_of_the_account": len(ec2.describe_regions()["Regions"]) > 20,
        "old_types_are_offered_where_the_account_has_them": offered == [],
        "spot_has_prices_and_scores": {row["SpotPrice"] for row in prices} == {"0.00001"}
        and refused(ec2.get_spot_placement_scores, TargetCapacity=1) == "NotImplementedError",
        "ec2_has_quotas": refused(quotas.get_service_quota, ServiceCode="ec2", QuotaCode="L-DB2E81BA")
        == "NoSuchResourceException",
        "schedules_need_their_group": refused(
            scheduler.create_schedule, FlexibleTimeWindow={"Mode": "OFF"}, **schedule
        ) == "KeyError",
        "the_console_is_the_machines_own": "Linux version" in console,
        "public_parameters_name_images": refused(
            ssm.get_parameter,
            Name="/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id",
        ) == "ParameterNotFound",
        "budgets_tell_who_is_notified": refused(
            boto3.client("budgets", region).describe_subscribers_for_notification,
            AccountId="123456789012", BudgetName="b",
            Notification={"NotificationType": "ACTUAL", "ComparisonOperator": "GREATER_THAN", "Threshold": 1},
        ) == "NotImplementedError",
        "budgets_have_actions": refused(
            boto3.client("budgets", region).describe_budget_actions_for_budget,
            AccountId="123456789012", BudgetName="b",
        ) == "NotImplementedError",
        "budgets_begin_with_their_month": "datetime.now()" in inspect.getsource(Budget),
        "an_interface_in_use_cannot_be_deleted": refused(ec2.delete_network_interface, NetworkInterfaceId=interface)
        == "",
    }
    print(json.dumps(found))
"""


@cache
def gaps() -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, "-P", "-c", _CODE],
        cwd=ROOT,
        env={**os.environ, **ENVIRONMENT, "MOTO_EC2_LOAD_DEFAULT_AMIS": "true"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return dict(json.loads(ran.stdout.splitlines()[-1]))


@each_row("name", sorted(PATCHES))
def test_moto_still_has_the_gap_that_is_closed(name: str) -> None:
    assert gaps()[name] is True


def test_every_patch_has_its_canary() -> None:
    assert set(gaps()) == set(PATCHES)
