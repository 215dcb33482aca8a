"""`plan burn aws`: everything that bills in the account, whoever made it, and what could not be read."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest

from tests.conftest import ROOT
from tests.doubles.aws import remote
from tests.doubles.iam_policy import Policy
from tests.doubles.needs import Need
from tests.unit.planner.cli.command import plan
from tests.unit.providers.aws.account_side import ACCOUNT, BUCKET

REGION = "us-east-1"


def client(double: remote.Double, service: str, region: str = REGION) -> Any:
    return boto3.client(service, region_name=region, endpoint_url=double.url)


def somebody_elses(double: remote.Double) -> None:
    """What a person forgets in an account."""
    ec2 = client(double, "ec2")
    volume = ec2.create_volume(AvailabilityZone=f"{REGION}a", Size=100, VolumeType="gp2")
    ec2.create_snapshot(VolumeId=volume["VolumeId"])
    ec2.allocate_address(Domain="vpc")
    subnets = [row["SubnetId"] for row in ec2.describe_subnets()["Subnets"]]
    ec2.create_nat_gateway(SubnetId=subnets[0], ConnectivityType="private")
    client(double, "elbv2").create_load_balancer(Name="web", Subnets=subnets[:2])
    listener = {"Protocol": "http", "LoadBalancerPort": 80, "InstancePort": 80}
    client(double, "elb").create_load_balancer(
        LoadBalancerName="old", Listeners=[listener], AvailabilityZones=[f"{REGION}a"]
    )
    store = client(double, "s3")
    store.create_bucket(Bucket="photos")
    store.put_object(Bucket="photos", Key="a", Body=b"x" * 5000)
    client(double, "ec2", "us-west-2").create_volume(AvailabilityZone="us-west-2a", Size=10, VolumeType="gp3")
    client(double, "ec2", "eu-west-1").create_volume(AvailabilityZone="eu-west-1a", Size=10, VolumeType="gp3")


def test_whoever_asks_may_do_exactly_what_that_takes(double: remote.Double) -> None:
    somebody_elses(double)
    double.ask("permit", policies=["burn"])
    told = plan("burn", "aws", "--json").json
    assert (told["unread"], len(told["things"])) == ([], 9)
    assert double.ask("unpermitted") == []
    held = Policy.read(ROOT / "docs" / "permissions" / "aws" / "burn.json", ACCOUNT, BUCKET)
    assert (held.refused([Need(**row) for row in double.ask("needed")]), held.unused()) == ([], set())


@pytest.mark.parametrize(
    "action", ["ec2:DescribeNatGateways", "s3:GetBucketLocation", "cloudwatch:GetMetricStatistics"]
)
def test_what_may_not_be_read_is_named_and_the_rest_is_shown(double: remote.Double, action: str) -> None:
    somebody_elses(double)
    double.ask("permit", policies=["burn"], withheld=[action])
    told = plan("burn", "aws", "--json").json
    assert action in json.dumps(told)
    assert "disk" in {row["kind"] for row in told["things"]}


def test_an_empty_account_costs_nothing(double: remote.Double) -> None:
    said = plan("burn", "aws")
    assert (said.code, said.out) == (0, "Nothing bills at aws.\n")


def test_everything_that_bills_is_listed_with_what_it_costs_a_month(double: remote.Double) -> None:
    somebody_elses(double)
    told = plan("burn", "aws", "--json").json
    rows = {(row["kind"], row["region"]): row["usd_per_month"] for row in told["things"] if row["kind"] != "bucket"}
    balancers = sorted(row["usd_per_month"] for row in told["things"] if row["kind"] == "load balancer")
    assert balancers == pytest.approx([0.0225 * 730, 0.025 * 730])
    del rows["load balancer", REGION]
    assert rows == {
        ("disk", REGION): pytest.approx(10.0),
        ("snapshot", REGION): pytest.approx(5.0),
        ("address", REGION): pytest.approx(3.65),
        ("NAT gateway", REGION): pytest.approx(32.85),
        ("disk", "us-west-2"): pytest.approx(0.8),
        ("disk", "eu-west-1"): pytest.approx(0.88),
    }
    assert all(row["whose"] is None and row["price_ground"] for row in told["things"])
    assert told["unread"] == []
    assert told["usd_per_month"] == pytest.approx(sum(row["usd_per_month"] for row in told["things"]))
    text = plan("burn", "aws").out
    assert "gp2 100 GiB, attached to nothing" in text
    assert "of trainplan $0.00" in text


def test_a_machine_of_ours_is_named_with_its_run_and_only_looked_at(double: remote.Double) -> None:
    double.reset(images_per_second=1.0)
    words = ("--provider", "aws", "--device", "T4", "--market", "on_demand", "--region", REGION)
    assert plan("launch", "job.yaml", *words, "--yes", "--detach").code == 0
    double.sleep(120)  # EC2 shows a new machine a little later
    told = plan("burn", "aws", "--json").json
    (machine,) = [row for row in told["things"] if row["kind"] == "machine"]
    run = machine["whose"].removeprefix("run ")
    assert machine["usd_per_month"] == pytest.approx(0.526 * 730)
    assert {row["kind"] for row in told["things"] if row["whose"] == f"run {run}"} >= {"machine", "disk", "address"}
    (bucket,) = [row for row in told["things"] if row["kind"] == "bucket"]
    assert bucket["whose"] == "run directories"
    assert len(double.remaining()) > 0


def test_what_may_not_be_read_is_named_and_hides_nothing_else(double: remote.Double) -> None:
    somebody_elses(double)
    for operation in ("DescribeSnapshots", "DescribeAddresses"):
        double.script(operation=operation, code="UnauthorizedOperation", status=403, times=None, region=REGION)
    said = plan("burn", "aws")
    assert said.code == 0
    assert f"not read: {REGION} snapshots: " in said.out
    assert f"not read: {REGION} public addresses: " in said.out
    assert "NAT gateway" in said.out


def test_nothing_is_changed(double: remote.Double) -> None:
    somebody_elses(double)
    double.ask("forget")
    plan("burn", "aws")
    sent = {row["operation"] for row in double.ask("calls")}
    reads = ("Describe", "List", "Get", "HeadBucket")
    assert sent
    assert not [name for name in sent if not name.startswith(reads)]


def test_what_may_not_be_listed_is_told_beside_what_may(double: remote.Double) -> None:
    somebody_elses(double)
    double.script(service="elasticloadbalancing", code="AccessDenied", status=403, times=None)
    said = plan("burn", "aws")
    assert "NAT gateway" in said.out
    assert f"not read: {REGION} load balancers: elbv2 DescribeLoadBalancers in {REGION}" in said.out
