"""Whether EC2 would let one in, and at which price: quotas, rights, live prices, asked before a launch."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from tests.contract.aws import TimedAws, sdk
from tests.contract.harness import request
from tests.doubles.aws import remote
from tests.unit.providers.aws.account_side import HOME
from tests.unit.providers.aws.ec2.placements import another, offer, states, the
from trainplan.pricing.obtainability import MachinePlacement
from trainplan.pricing.offers import PriceGrade
from trainplan.pricing.planning import AS_LISTED, PlannedAs
from trainplan.providers.aws.preflight import quota
from trainplan.providers.aws.request import create_security_group
from trainplan.providers.base import PreflightState
from trainplan.providers.errors import CredentialsError, PermissionDeniedError


def test_a_ready_account_is_let_in(provider: TimedAws) -> None:
    found = states(provider, offer(provider, "g4dn.xlarge"))
    assert set(found.values()) == {PreflightState.OK}
    assert set(found) == {"identity", "image", "network", "offered", "plan", "quota", "permission", "set-up"}


@pytest.mark.parametrize(
    ("instance_type", "market", "code", "vcpus"),
    [
        ("p4d.24xlarge", "on_demand", "L-417A185B", 96),
        ("g4dn.xlarge", "on_demand", "L-DB2E81BA", 4),
        ("p4d.24xlarge", "spot", "L-7212CCBC", 96),
        ("p5.48xlarge", "on_demand", "L-417A185B", 192),
        ("p5.48xlarge", "spot", "L-C4BD4855", 192),
        ("g5.xlarge", "spot", "L-3819A6DF", 4),
        ("c5.2xlarge", "on_demand", "L-1216C47A", 8),
        ("m5.2xlarge", "spot", "L-34B43A08", 8),
    ],
)
def test_a_quota_that_is_too_small_is_named_with_what_to_ask_for(
    double: remote.Double, provider: TimedAws, instance_type: str, market: str, code: str, vcpus: int
) -> None:
    double.reset(quotas=[{"code": code, "vcpus": vcpus - 1}])
    check = the(provider, offer(provider, instance_type, market), "quota")
    assert check.state is PreflightState.REFUSED
    assert check.detail.startswith(code)
    assert f"{vcpus - 1} vCPUs, {vcpus} needed" in check.detail
    assert check.fix.startswith(f"ask for {vcpus} at https://console.aws.amazon.com/servicequotas/")
    assert code in check.fix


def test_a_quota_that_nobody_knows_is_unknown(double: remote.Double, provider: TimedAws) -> None:
    newest = replace(offer(provider, "p5.48xlarge", "spot"), instance_type="p6-b200.48xlarge")
    check = quota(provider.account, newest)
    assert (check.state, check.detail) == (
        PreflightState.UNKNOWN,
        "which quota p6-b200.48xlarge counts in on spot is not known",
    )
    assert check.fix.endswith("/servicequotas/home/services/ec2/quotas?region=us-east-1")
    double.script(operation="GetServiceQuota", code="AccessDeniedException", times=None)
    assert the(provider, offer(provider, "g4dn.xlarge"), "quota").state is PreflightState.UNKNOWN


@pytest.mark.parametrize("instance_type", ["p2.xlarge", "p3.2xlarge"])
def test_what_is_retired_is_refused_with_its_successor(provider: TimedAws, instance_type: str) -> None:
    check = the(provider, offer(provider, instance_type), "offered")
    assert check.state is PreflightState.REFUSED
    assert check.detail == f"{instance_type} is retired"
    assert check.fix.startswith("use ")


def test_an_old_gpu_wants_an_image_of_ones_own(double: remote.Double, provider: TimedAws) -> None:
    double.reset(retired=["p3.2xlarge"])
    check = the(provider, offer(provider, "p3.2xlarge"), "image")
    assert check.state is PreflightState.REFUSED
    assert "[aws] image" in check.fix


@pytest.mark.parametrize(
    ("operation", "code", "line"),
    [
        ("*", "UnauthorizedOperation", "permission"),
        ("GetCallerIdentity", "ExpiredToken", "identity"),
    ],
)
def test_what_is_not_allowed_is_refused(
    provider: TimedAws, double: remote.Double, operation: str, code: str, line: str
) -> None:
    double.script(operation=operation, code=code, status=403, times=None)
    check = the(provider, offer(provider, "g4dn.xlarge"), line)
    assert check.state is PreflightState.REFUSED
    assert check.fix


def test_before_the_first_launch_a_policy_that_allows_our_group_alone_is_no_refusal(
    double: remote.Double, provider: TimedAws
) -> None:
    """EC2 takes the default security group where none is named, and nobody has put our tag on that."""
    double.reset(bucket=True, policies=["client"])
    check = the(provider, offer(provider, "g4dn.xlarge"), "permission")
    assert check.state is PreflightState.UNKNOWN
    assert "once the first launch has made our security group" in check.detail


@pytest.mark.parametrize(
    ("withheld", "made", "state"),
    [
        ("", True, PreflightState.OK),
        ("ec2:RunInstances", True, PreflightState.REFUSED),
        ("iam:PassRole", True, PreflightState.REFUSED),
        ("ec2:CreateTags", True, PreflightState.REFUSED),
        ("ec2:CreateSecurityGroup", False, PreflightState.REFUSED),
    ],
)
def test_the_dry_run_needs_what_a_launch_needs(
    double: remote.Double, provider: TimedAws, withheld: str, made: bool, state: PreflightState
) -> None:
    double.reset(bucket=True)
    if made:
        asked = request(provider)
        group = create_security_group(HOME, asked.resolution.vpc)
        sdk(double.url).call("ec2", HOME, group.operation, group.parameters)
        provider.account.forget()
    double.ask("permit", policies=["client"], withheld=[withheld])
    check = the(provider, offer(provider, "g4dn.xlarge", "spot"), "permission")
    assert check.state is state
    assert withheld in check.detail


def test_a_service_that_is_away_leaves_its_lines_unknown(provider: TimedAws, double: remote.Double) -> None:
    double.script(operation="DescribeVpcs", code="Unavailable", status=503, times=None)
    found = states(provider, offer(provider, "g4dn.xlarge"))
    assert (found["network"], found["permission"]) == (PreflightState.UNKNOWN, PreflightState.UNKNOWN)
    assert found["quota"] is PreflightState.OK


# --- live prices -------------------------------------------------------------------------------------------------


def test_spot_is_several_offers_where_zones_differ_in_price(double: remote.Double, provider: TimedAws) -> None:
    placements = [
        {"zone": "us-east-1a", "spot_price": "0.21"},
        {"zone": "us-east-1b", "spot_price": "0.19"},
        {"zone": "us-east-1c", "spot_price": "0.21"},
        {"zone": "us-east-1d", "spot_price": "none"},
        {"zone": "us-east-1f", "spot_price": "none"},
    ]
    double.reset(placements=placements)
    found = provider.refine([offer(provider, "g4dn.xlarge", "spot")])
    assert [(row.usd_per_hour, row.zones) for row in found] == [
        (Decimal("0.19"), ("us-east-1b",)),
        (Decimal("0.21"), ("us-east-1a", "us-east-1c")),
    ]
    assert {(row.price_grade, row.price_as_of) for row in found} == {(PriceGrade.OBSERVED, double.now().date())}
    assert all(row.planning_usd_per_hour == row.usd_per_hour for row in found)
    assert {(row.planned_as, row.price_spread) for row in found} == {(PlannedAs.LISTED, AS_LISTED)}, "not the list's"


def test_on_demand_gets_its_zones_and_keeps_its_price(provider: TimedAws) -> None:
    asked = offer(provider, "g4dn.xlarge")
    (found,) = provider.refine([asked])
    assert found == replace(asked, zones=found.zones)
    assert len(found.zones) >= 3


def test_what_is_not_to_be_had_is_left_out(provider: TimedAws) -> None:
    retired = offer(provider, "p3.2xlarge")
    closed = replace(offer(provider, "g4dn.xlarge"), region="ap-east-1")
    assert provider.refine([retired, closed]) == []
    assert provider.refine([]) == []


def test_what_cannot_be_looked_up_stays_as_it_is(provider: TimedAws, double: remote.Double, tmp_path: Path) -> None:
    asked = [offer(provider, "g4dn.xlarge", "spot"), offer(provider, "g4dn.xlarge")]
    double.script(operation="DescribeSpotPriceHistory", code="UnauthorizedOperation", times=None)
    assert [row.usd_per_hour for row in provider.refine(asked)] == [row.usd_per_hour for row in asked]
    double.script(operation="DescribeRegions", code="ExpiredToken", times=None)
    with pytest.raises(CredentialsError):
        another(double, tmp_path).refine(asked)


@pytest.mark.parametrize(("score", "says"), [(9, True), (7, True), (5, None), (3, False), (1, False)])
def test_a_placement_score_hints_of_spot(
    double: remote.Double, provider: TimedAws, score: int, says: bool | None
) -> None:
    double.reset(placements=[{"zone": "us-east-1a", "score": score}])
    asked = offer(provider, "g4dn.xlarge", "spot")
    assert provider.has_spot(asked, "us-east-1a") is says
    double.script(operation="GetSpotPlacementScores", code="MaxConfigLimitExceeded", times=None)
    assert provider.has_spot(asked, "us-east-1a") is None


# --- placement scores --------------------------------------------------------------------------------------------


def test_offers_have_the_placement_score_of_their_region(double: remote.Double, provider: TimedAws) -> None:
    double.reset(placements=[{"region": "us-east-1", "score": 9}, {"region": "us-west-2", "score": 2}])
    east, west = (offer(provider, "g4dn.xlarge", "spot", region) for region in ("us-east-1", "us-west-2"))
    told = provider.obtainability([east, west, offer(provider, "g4dn.xlarge")])
    assert {placement.region: known.grade for placement, known in told.items()} == {
        "us-east-1": "good",
        "us-west-2": "poor",
    }
    assert {placement.market for placement in told} == {"spot"}
    known = told[MachinePlacement("aws", "us-west-2", "g4dn.xlarge", "spot")]
    assert known.ground == ("placement score 2 of 10 for one spot machine of g4dn.xlarge, g4dn.2xlarge, g4dn.4xlarge")
    assert known.as_of == provider.now().date()


def test_a_type_whose_family_has_fewer_than_three_is_not_scored(double: remote.Double, provider: TimedAws) -> None:
    """EC2 scores one or two types low, whatever there is."""
    asked = offer(provider, "p4d.24xlarge", "spot")
    assert provider.obtainability([asked]) == {}
    assert provider.has_spot(asked, "us-east-1a") is None
    alone = {"InstanceTypes": ["g4dn.xlarge"], "TargetCapacity": 1, "RegionNames": ["us-east-1"]}
    (row,) = provider.account.api.call("ec2", "us-east-1", "GetSpotPlacementScores", alone)["SpotPlacementScores"]
    assert row["Score"] == 1


def test_what_ec2_refuses_to_score_is_an_error(double: remote.Double, provider: TimedAws) -> None:
    double.script(operation="GetSpotPlacementScores", code="UnauthorizedOperation", times=None)
    with pytest.raises(PermissionDeniedError):
        provider.obtainability([offer(provider, "g4dn.xlarge", "spot")])
