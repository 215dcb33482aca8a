"""Which regions are listed, and which of them the organisation has closed."""

from __future__ import annotations

import pytest

from tests.contract.aws import TimedAws
from tests.contract.harness import launched, request
from tests.doubles.aws import remote
from tests.unit.providers.aws.ec2.placements import offer, the
from trainplan.providers.base import PreflightState, RunId
from trainplan.providers.errors import (
    CapacityError,
    IncompleteListingError,
)


def test_every_region_of_the_account_is_listed_and_no_other(provider: TimedAws, double: remote.Double) -> None:
    double.ask("forget")
    provider.list_owned()
    asked = {call["region"] for call in double.ask("calls") if call["operation"] == "DescribeVolumes"}
    assert asked == {"af-south-1", "eu-west-1", "us-east-1", "us-west-2"}


DENIED = {
    "region": "eu-west-1", "code": "UnauthorizedOperation", "status": 403, "times": None,
    "message": "You are not authorized to perform this operation with an explicit deny in a service control policy",
}  # fmt: skip


def test_a_region_that_the_organisation_has_closed_holds_nothing(provider: TimedAws, double: remote.Double) -> None:
    """Control Tower's policies that deny regions: lists and creates are refused there, whatever the account allows."""
    made = launched(provider, request(provider))
    double.script(**DENIED)
    found = provider.list_owned()
    assert {owned.region for owned in found} == {"us-east-1"}
    assert made.ref.id in {owned.id for owned in found}


def test_a_region_is_tried_with_an_image_that_exists(provider: TimedAws, double: remote.Double) -> None:
    """Where EC2 looks for the image before it denies, one that does not exist would hide that the region is closed."""
    double.reset(image_first=True, setup="none")
    for service in ("ec2", "scheduler"):
        double.script(**DENIED | {"service": service, "operation": "RunInstances (dry run)"})
    assert provider.account.is_closed("eu-west-1")
    assert not provider.account.is_closed("us-west-2")


def test_where_no_image_may_be_looked_up_what_ec2_does_not_deny_may_hold_something(
    provider: TimedAws, double: remote.Double
) -> None:
    double.reset(denied_regions=["eu-west-1"])
    assert provider.account.is_closed("eu-west-1")
    provider.account.forget()
    double.reset(denied_regions=["eu-west-1"], image_first=True)
    assert not provider.account.is_closed("eu-west-1")


@pytest.mark.parametrize(
    ("scenario", "state", "detail"),
    [
        ({"policies": ["client"]}, PreflightState.OK, "denied before the image was looked up"),
        ({"policies": ["client"], "image_first": True}, PreflightState.REFUSED, "InvalidAMIID.NotFound"),
        ({}, PreflightState.UNKNOWN, "nothing is denied to it"),
    ],
)
def test_a_drill_asks_whether_a_create_is_denied_before_its_image_is_looked_up(
    provider: TimedAws, double: remote.Double, scenario: dict[str, object], state: PreflightState, detail: str
) -> None:
    double.reset(bucket=True, **scenario)
    check = provider.probes()["denial"]()
    assert check.state is state
    assert detail in check.detail


def test_a_region_whose_creates_are_not_denied_may_hold_something(provider: TimedAws, double: remote.Double) -> None:
    for operation in ("DescribeInstances", "DescribeVolumes", "DescribeNetworkInterfaces", "ListSchedules",
                      "DescribeSpotInstanceRequests"):  # fmt: skip
        double.script(**DENIED | {"operation": operation})
    with pytest.raises(IncompleteListingError, match="eu-west-1 instances"):
        provider.list_owned()


def test_a_refusal_that_is_not_the_organisations_is_no_absence(provider: TimedAws, double: remote.Double) -> None:
    told = "no identity-based policy allows the ec2:DescribeInstances action"
    double.script(**DENIED | {"message": f"You are not authorized to perform this operation because {told}"})
    with pytest.raises(IncompleteListingError, match="eu-west-1 instances"):
        provider.list_owned()


def test_a_closed_region_is_a_placement_that_is_passed_over(provider: TimedAws, double: remote.Double) -> None:
    double.script(**DENIED)
    asked = offer(provider, "g4dn.xlarge", region="eu-west-1")
    check = the(provider, asked, "network")
    assert (check.state, check.fix) == (PreflightState.REFUSED, "choose another region")
    with pytest.raises(CapacityError, match="eu-west-1 is closed to this account by its organisation"):
        provider.account.network("eu-west-1")


def test_regions_that_cannot_be_listed_are_no_absence(provider: TimedAws, double: remote.Double) -> None:
    double.script(operation="DescribeRegions", code="Unavailable", status=503)
    with pytest.raises(IncompleteListingError, match="the list of regions"):
        provider.list_owned(RunId("r1"))
