"""EC2 through the adapter, against the double: look-ups, launches, schedules, deaths and deletes."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.contract.aws import TimedAws, sdk
from tests.contract.harness import Ask, eventually, launched, request, state_of
from tests.doubles.aws import remote
from tests.unit.providers.aws.ec2.placements import another, offer, on, the
from trainplan.pricing.offers import Market
from trainplan.providers.aws.prices import usd_per_hour_of
from trainplan.providers.base import EndKind, Instance, InstanceState, LaunchRequest, PreflightState
from trainplan.providers.errors import (
    CapacityError,
    CredentialsError,
    PermissionDeniedError,
    ProviderError,
    QuotaError,
    ThrottledError,
    TransientError,
)

# --- look-ups ----------------------------------------------------------------------------------------------------


def test_a_placement_is_looked_up_whole(provider: TimedAws) -> None:
    resolution = request(provider).resolution
    assert resolution.zone.startswith("us-east-1")
    assert resolution.subnet.startswith("subnet-")
    assert (resolution.image, resolution.root_device) == ("ami-0d1a0000000000001", "/dev/sda1")
    assert resolution.root_gib == 100
    assert resolution.image_from.startswith("parameter /aws/service/deeplearning/")
    assert (resolution.reaper, resolution.instance_profile) == ("standing", "trainplan-machine")


def test_an_image_is_found_by_its_name_where_the_parameter_is_not_there(
    provider: TimedAws, double: remote.Double
) -> None:
    double.script(operation="GetParameter", code="ParameterNotFound", times=None)
    resolution = request(provider).resolution
    assert resolution.image == "ami-0d1a0000000000001"
    assert resolution.image_from.startswith("newest 'Deep Learning Base OSS Nvidia Driver GPU AMI")
    assert sum(call["operation"] == "GetParameter" for call in double.ask("calls")) == 2


def test_a_region_without_a_default_network_is_passed_over(double: remote.Double, provider: TimedAws) -> None:
    double.reset(no_default_network=["us-east-1"])
    with pytest.raises(CapacityError, match="us-east-1 has no default network") as caught:
        request(provider)
    assert "create-default-vpc --region us-east-1" in caught.value.hint


def test_a_zone_that_does_not_have_it_is_passed_over(provider: TimedAws) -> None:
    with pytest.raises(CapacityError, match=r"us-east-1zz does not have g4dn\.xlarge") as caught:
        on(provider, "g4dn.xlarge", "on_demand", "us-east-1zz")
    assert caught.value.elsewhere


def test_without_a_set_up_nothing_is_launched(double: remote.Double, provider: TimedAws) -> None:
    double.reset(setup="none")
    with pytest.raises(PermissionDeniedError, match="no instance profile") as caught:
        request(provider)
    assert caught.value.hint == "plan setup aws"


def test_a_role_for_another_bucket_launches_nothing(double: remote.Double, provider: TimedAws) -> None:
    named = {"RoleName": "trainplan-machine", "PolicyName": "trainplan"}
    sdk(double.url).call("iam", "us-east-1", "DeleteRolePolicy", named)
    with pytest.raises(PermissionDeniedError, match="does not let machines use the bucket trainplan-") as caught:
        request(provider)
    assert caught.value.hint == "plan setup aws"
    assert the(provider, offer(provider, "g4dn.xlarge"), "set-up").state is PreflightState.REFUSED


def test_a_reaper_without_its_function_is_replaced_by_a_schedule(double: remote.Double, provider: TimedAws) -> None:
    sdk(double.url).call("lambda", "us-east-1", "DeleteFunction", {"FunctionName": "trainplan-reaper"})
    assert request(provider).resolution.reaper == "schedule"


def test_looking_up_twice_asks_once(provider: TimedAws, double: remote.Double) -> None:
    provider.preflight(offer(provider, "g4dn.xlarge"))
    asked = len(double.ask("calls"))
    assert asked <= 19
    provider.preflight(offer(provider, "g4dn.xlarge", "spot"))
    again = [call["operation"] for call in double.ask("calls")[asked:]]
    assert sorted(again) == ["GetServiceQuota", "RunInstances (dry run)"]


# --- launches ----------------------------------------------------------------------------------------------------


def test_spot_is_asked_for_once_and_ends_by_termination(provider: TimedAws, double: remote.Double) -> None:
    asked = on(provider, "g4dn.xlarge", "spot")
    made = launched(provider, asked)
    kinds = {owned.kind for owned in provider.list_owned(asked.run_id)}
    assert kinds == {"instance", "volume", "network interface", "spot request"}
    told = sdk(double.url).call("ec2", "us-east-1", "DescribeInstances", {"InstanceIds": [made.ref.id]})
    assert told["Reservations"][0]["Instances"][0]["InstanceLifecycle"] == "spot"


@pytest.mark.parametrize(("market", "usd"), [("on_demand", "0.526"), ("spot", None)])
def test_what_is_found_has_the_price_that_the_catalog_lists(provider: TimedAws, market: str, usd: str | None) -> None:
    asked = on(provider, "g4dn.xlarge", market)
    made = launched(provider, asked)
    costs = {owned.kind: owned.usd_per_hour for owned in provider.list_owned(asked.run_id)}
    assert costs["instance"] == (Decimal(usd) if usd else asked.offer.usd_per_hour)
    assert costs["network interface"] == Decimal("0.005")
    assert costs["volume"] is not None
    assert round(costs["volume"], 4) == Decimal("0.0110")  # 100 GB of gp3 at $0.08 a month
    provider.delete(made.ref)
    ending = {owned.kind: owned.usd_per_hour for owned in provider.list_owned(asked.run_id)}
    assert ending["instance"] == 0


def test_nothing_is_left_out_of_a_list_for_want_of_a_price() -> None:
    assert usd_per_hour_of("instance", "us-east-1", {"InstanceType": "x9.huge"}, None) is None
    assert usd_per_hour_of("network interface", "us-east-1", {}, None) == 0
    assert usd_per_hour_of("schedule", "us-east-1", {}, None) is None


def test_what_is_made_is_closed_encrypted_and_goes_with_the_machine(provider: TimedAws, double: remote.Double) -> None:
    made = launched(provider, request(provider))
    api, region = sdk(double.url), "us-east-1"
    row = api.call("ec2", region, "DescribeInstances", {"InstanceIds": [made.ref.id]})["Reservations"][0]["Instances"][
        0
    ]
    assert row["MetadataOptions"]["HttpTokens"] == "required"
    assert row["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
    assert row["IamInstanceProfile"]["Arn"].endswith("/trainplan-machine")
    (group,) = api.call("ec2", region, "DescribeSecurityGroups", {"GroupNames": ["trainplan"]})["SecurityGroups"]
    assert group["IpPermissions"] == []
    volumes = api.call("ec2", region, "DescribeVolumes", {})["Volumes"]
    (volume,) = [one for one in volumes if one["Attachments"]]
    assert (volume["Encrypted"], volume["VolumeType"], volume["Size"]) == (True, "gp3", 100)
    assert row["BlockDeviceMappings"][0]["Ebs"]["DeleteOnTermination"] is True
    asked = {"InstanceId": made.ref.id, "Attribute": "instanceInitiatedShutdownBehavior"}
    told = api.call("ec2", region, "DescribeInstanceAttribute", asked)
    assert told["InstanceInitiatedShutdownBehavior"]["Value"] == "terminate"


def test_a_refused_quota_is_named(double: remote.Double, provider: TimedAws) -> None:
    double.reset(quotas=[{"code": "L-DB2E81BA", "vcpus": 0}])
    with pytest.raises(QuotaError) as caught:
        provider.launch(request(provider))
    assert caught.value.quota == (
        "L-DB2E81BA (Running On-Demand G and VT instances): 4 vCPUs for g4dn.xlarge in us-east-1"
    )


def test_no_stock_names_the_zones_that_have_some(double: remote.Double, provider: TimedAws) -> None:
    double.reset(placements=[{"zone": "us-east-1a", "stock": 0}])
    with pytest.raises(CapacityError) as caught:
        provider.launch(on(provider, "g4dn.xlarge", "on_demand", "us-east-1a"))
    assert "us-east-1b" in caught.value.elsewhere


def test_reclaimed_spot_says_so(provider: TimedAws, double: remote.Double) -> None:
    made = launched(provider, on(provider, "g4dn.xlarge", "spot"))
    double.sleep(60)
    double.ask("reclaim", id=made.ref.id)
    eventually(provider, lambda: state_of(provider, made.ref) is InstanceState.ENDED, "it is gone")
    ended = provider.get(made.ref)
    assert (ended.end, ended.reason) == (EndKind.RECLAIMED, "spot took it back")


def test_an_ended_machine_says_when(provider: TimedAws, double: remote.Double) -> None:
    made = launched(provider, request(provider, Ask(behaviour="finish")))
    eventually(provider, lambda: state_of(provider, made.ref) is InstanceState.ENDED, "it is gone")
    ended = provider.get(made.ref)
    assert ended.end is None
    assert ended.ended_at is not None
    assert made.launched_at is not None
    assert timedelta(0) < ended.ended_at - made.launched_at < timedelta(minutes=1)


# --- schedules ---------------------------------------------------------------------------------------------------


def by_schedule(double: remote.Double, provider: TimedAws) -> tuple[LaunchRequest, Instance]:
    double.reset(setup="schedule", trainer="hung", machine_timer_works=False)
    asked = request(provider, Ask(lasting=timedelta(minutes=30)))
    return asked, launched(provider, asked)


def test_without_the_reaper_a_schedule_is_made_right_after_the_create(
    double: remote.Double, provider: TimedAws
) -> None:
    asked, made = by_schedule(double, provider)
    (schedule,) = [owned for owned in provider.list_owned(asked.run_id) if owned.kind == "schedule"]
    assert (schedule.attempt, schedule.deadline, schedule.instance) == (1, asked.deadline, False)
    operations = [call["operation"] for call in double.ask("calls")]
    create = operations.index("RunInstances")
    assert operations[create : create + 2] == ["RunInstances", "CreateSchedule"]
    assert operations.index("CreateScheduleGroup") < create
    provider.delete(schedule)
    provider.delete(schedule)
    assert not [owned for owned in provider.list_owned(asked.run_id) if owned.kind == "schedule"]
    assert provider.launch(asked).ref == made.ref


def test_the_schedule_ends_a_machine_that_hangs_and_then_itself(double: remote.Double, provider: TimedAws) -> None:
    asked, made = by_schedule(double, provider)
    double.advance(asked.deadline + timedelta(minutes=4))
    assert provider.get(made.ref).state is InstanceState.RUNNING
    double.advance(asked.deadline + timedelta(minutes=6))
    assert provider.get(made.ref).state is InstanceState.ENDED
    assert provider.list_owned(asked.run_id) == []


def test_the_standing_reaper_ends_a_machine_that_hangs(double: remote.Double, provider: TimedAws) -> None:
    double.reset(trainer="hung", machine_timer_works=False, reaper_every=600)
    asked = request(provider, Ask(lasting=timedelta(minutes=30)))
    made = launched(provider, asked)
    double.advance(asked.deadline + timedelta(minutes=11))
    assert provider.get(made.ref).state is InstanceState.ENDED
    assert double.remaining() == []


# --- what goes wrong ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["CreateSecurityGroup", "CreateScheduleGroup", "CreateSchedule"])
def test_a_call_that_makes_no_machine_is_sent_again_within_the_launch(
    provider: TimedAws, double: remote.Double, operation: str
) -> None:
    """A try of the engine's is a create: on an unsteady line five would be gone before the machine is known."""
    double.reset(setup="schedule")
    asked = request(provider)
    double.script(operation=operation, effect="lost_reply", times=3)
    made = provider.launch(asked)
    assert made.state is not InstanceState.ENDED
    sent = [call["operation"] for call in double.ask("calls")]
    assert (sent.count(operation), sent.count("RunInstances")) == (4, 1)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"code": "RequestLimitExceeded", "status": 503}, ThrottledError),
        ({"code": "InternalError", "status": 500}, TransientError),
        ({"code": "Unavailable", "status": 503}, TransientError),
        ({"effect": "lost_request"}, TransientError),
        ({"effect": "lost_reply"}, TransientError),
        ({"code": "RequestExpired"}, CredentialsError),
        ({"code": "UnauthorizedOperation", "status": 403}, PermissionDeniedError),
    ],
)
def test_a_create_that_goes_wrong_is_sent_once(
    provider: TimedAws, double: remote.Double, fault: dict[str, Any], kind: type[ProviderError]
) -> None:
    asked = request(provider)
    double.script(operation="RunInstances", times=None, **fault)
    with pytest.raises(kind):
        provider.launch(asked)
    assert [call["operation"] for call in double.ask("calls")].count("RunInstances") == 1


NO_PROFILE = (
    "Value (trainplan-machine) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"
)
NO_TRUST = "The execution role you provide must allow AWS EventBridge Scheduler to assume the role."
TOO_NEW = [
    ("RunInstances", "InvalidGroup.NotFound", "The security group 'sg-0123' does not exist"),
    ("RunInstances", "InvalidParameterValue", NO_PROFILE),
    ("CreateSchedule", "ResourceNotFoundException", "Schedule group trainplan does not exist."),
    ("CreateSchedule", "ValidationException", NO_TRUST),
]


@pytest.mark.parametrize(("operation", "code", "message"), TOO_NEW)
def test_what_was_made_a_moment_ago_is_waited_for(
    provider: TimedAws, double: remote.Double, operation: str, code: str, message: str
) -> None:
    """EC2's page on eventual consistency names a new security group that a launch does not find."""
    double.reset(setup="schedule")
    double.script(operation=operation, code=code, message=message, end=110, times=None)
    began = double.now()
    made = provider.launch(request(provider))
    assert made.state is not InstanceState.ENDED
    assert timedelta(seconds=100) < double.now() - began < timedelta(seconds=125)
    assert len({row["id"] for row in double.ask("ledger") if row["kind"] == "instance"}) == 1


@pytest.mark.parametrize(("operation", "code", "message"), TOO_NEW[:2])
def test_what_is_not_there_for_good_is_refused_within_minutes(
    provider: TimedAws, double: remote.Double, operation: str, code: str, message: str
) -> None:
    asked = request(provider)
    double.script(operation=operation, code=code, message=message, times=None)
    began = double.now()
    with pytest.raises(ProviderError) as caught:
        provider.launch(asked)
    assert not isinstance(caught.value, CapacityError | QuotaError | TransientError)
    assert "plan setup" not in caught.value.hint
    assert double.now() - began < timedelta(minutes=5)
    assert double.remaining() == []


def test_a_reaper_whose_turns_fail_is_not_relied_on(provider: TimedAws, double: remote.Double) -> None:
    double.reset(reaper_fails=True)
    asked = request(provider)
    assert [call.operation for call in provider.requests(asked)][-1] == "CreateSchedule"
    launched(provider, asked)
    assert "schedule" in {row["kind"] for row in double.ask("ledger")}


def test_a_check_tells_a_new_profile_from_one_that_is_missing(provider: TimedAws, double: remote.Double) -> None:
    double.script(operation="RunInstances (dry run)", code="InvalidParameterValue", message=NO_PROFILE, times=None)
    check = the(provider, offer(provider, "g4dn.xlarge"), "permission")
    assert (check.state, check.fix) == (PreflightState.UNKNOWN, "look again in two minutes")


def test_a_profile_that_is_gone_is_not_waited_for(provider: TimedAws, double: remote.Double, tmp_path: Path) -> None:
    asked = request(provider)
    double.script(operation="RunInstances", code="InvalidParameterValue", message=NO_PROFILE, times=None)
    double.script(operation="GetInstanceProfile", code="NoSuchEntity", status=404, times=None)
    began = double.now()
    with pytest.raises(PermissionDeniedError) as caught:
        another(double, tmp_path).launch(asked)
    assert double.now() == began
    assert caught.value.hint == "plan setup aws makes the instance profile"


def test_a_group_that_another_launch_has_just_made_is_found_once_it_is_shown(
    provider: TimedAws, double: remote.Double, tmp_path: Path
) -> None:
    asked = request(provider)
    launched(another(double, tmp_path), request(another(double, tmp_path)))
    double.ask("forget")
    moment = double.now()
    double.script(operation="DescribeSecurityGroups", code="InvalidGroup.NotFound", times=3)
    assert provider.launch(asked).state is not InstanceState.ENDED
    assert double.now() - moment >= timedelta(seconds=15)


def test_stopping_what_has_ended_asks_nobody(provider: TimedAws) -> None:
    asked = request(provider, Ask(behaviour="finish"))
    made = launched(provider, asked)
    eventually(provider, lambda: state_of(provider, made.ref) is InstanceState.ENDED, "it is gone")
    provider.stop(made.ref)
    assert "control/stop" not in provider.store(asked.run_id).list()


def test_an_offer_of_the_market_that_is_asked_for(provider: TimedAws) -> None:
    assert {offer(provider, "g4dn.xlarge", market).market for market in ("spot", "on_demand")} == set(Market)
