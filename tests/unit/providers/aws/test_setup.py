"""The set-up of an account on AWS: what it makes and in which order, cut off anywhere, mended, and removed again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT, Golden
from tests.doubles.aws.remote import Double
from tests.doubles.iam_policy import Policy
from tests.unit.providers.aws.account_side import ACCOUNT, BUCKET, HOME, Desk, name_the_spot_role, signed_in
from trainplan.providers.aws.api import SdkApi
from trainplan.providers.aws.permissions import Identity, trust
from trainplan.providers.aws.settings import AwsSettings
from trainplan.providers.aws.setup import SETTLES_SECONDS
from trainplan.providers.aws.setup_steps import packed
from trainplan.providers.errors import BadRequestError, PermissionDeniedError
from trainplan.providers.stores.settings import StoreSettings

ALL = ["bucket", "machine role", "spot role", "schedule role", "schedule group", "reaper"]
OTHER = '{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}}'
OTHERS = json.dumps(trust("ec2", Identity(account=ACCOUNT, arn="", partition="aws")))
ROLES = ("trainplan-machine", "trainplan-schedule", "trainplan-reaper")


@pytest.fixture
def bare(aws_process: Double, monkeypatch: pytest.MonkeyPatch) -> Double:
    """An account in which nothing was ever set up."""
    signed_in(monkeypatch)
    aws_process.reset(setup="none")
    return aws_process


@pytest.fixture
def desk(bare: Double, sends: SdkApi) -> Callable[..., Desk]:
    """Makes views of the account."""
    return lambda **changes: Desk(bare, sends, **changes)


@pytest.fixture
def ready(bare: Double, desk: Callable[..., Desk]) -> Callable[..., Desk]:
    """An account that is set up."""
    first = desk()
    first.carry_out(list(first.set_up.lacking()))
    name_the_spot_role(first.sends)
    return desk


# --- making ------------------------------------------------------------------------------------------------------


def test_a_bare_account_gets_everything_once(ready: Callable[..., Desk]) -> None:
    again = ready()
    assert again.lacking() == []
    assert again.api.calls == []


def test_the_steps_come_in_an_order_in_which_each_finds_what_it_needs(desk: Callable[..., Desk]) -> None:
    assert desk().lacking() == ALL


def test_what_is_sent_can_be_read(desk: Callable[..., Desk], golden: Golden) -> None:
    """Every call of a set-up; the function's code and the policies that a page shows are named, not spelled out."""
    told = []
    for step in desk().set_up.lacking():
        calls = [{"service": c.service, "operation": c.operation, **_readable(c.parameters)} for c in step.calls]
        told.append({"step": step.name, "detail": step.detail, "calls": calls})
    golden.check("aws/setup.json", json.dumps(told, indent=2) + "\n")


def _readable(parameters: object) -> dict[str, object]:
    opened = json.loads(json.dumps(parameters))
    for key in ("PolicyDocument", "AssumeRolePolicyDocument"):
        if key in opened:
            opened[key] = _page_of(json.loads(opened[key]))
    if "Code" in opened:
        opened["Code"] = {"ZipFile": "providers/aws/deadline.py, packed"}
    return {"parameters": opened}


def _page_of(policy: dict[str, object]) -> object:
    """The page that shows the policy; itself where none does."""
    pages = (Path("docs/permissions/aws") / f"{name}.json" for name in ("machine", "reaper", "schedule"))
    return next((f"{page}" for page in pages if Policy.read(ROOT / page, ACCOUNT, BUCKET).document == policy), policy)


def test_a_default_network_is_made_where_launches_go(desk: Callable[..., Desk], bare: Double) -> None:
    bare.reset(setup="none", no_default_network=[HOME, "eu-west-1", "us-west-2"])
    assert desk().lacking() == ["network", *ALL]
    used = AwsSettings(regions=frozenset({"eu-west-1", "us-east-1", "mx-central-1"}))
    one = desk(settings=used)
    (network, *_) = one.set_up.lacking()
    assert [call.service for call in network.calls] == ["ec2.eu-west-1", "ec2.us-east-1"]
    one.carry_out([network])
    assert "network" not in desk(settings=used).lacking()
    assert desk().account.network("eu-west-1").subnets


def test_the_bucket_is_what_the_store_would_have_made(ready: Callable[..., Desk]) -> None:
    """The store that finds it has nothing to add."""
    from tests.doubles.clock import NOON
    from trainplan.providers.aws.store import make
    from trainplan.providers.base import ProviderSettings

    desk = ready()
    settings = ProviderSettings(
        home=Path("/nowhere"), options={"endpoint": desk.double.url}, environment={},
        now=lambda: NOON,
    )  # fmt: skip
    bucket = make(settings)
    desk.double.ask("forget")
    bucket.make()
    bucket.close()
    assert [row["operation"] for row in desk.double.ask("calls")] == ["HeadBucket", "GetBucketTagging"]
    assert desk.at.bucket == bucket.name == BUCKET


def test_launches_find_what_they_look_for(ready: Callable[..., Desk]) -> None:
    desk = ready()
    desk.double.sleep(600)  # the reaper has had its first turn
    account = desk.account
    assert account.has_instance_profile()
    assert account.has_schedule_role()
    assert account.has_reaper()
    assert account.has_schedule_group(HOME)


def test_only_the_services_that_need_them_may_take_the_roles(ready: Callable[..., Desk]) -> None:
    desk = ready()
    told = {name: desk.at.role(name)["Role"]["AssumeRolePolicyDocument"]["Statement"] for name in ROLES}
    assert {name: row["Principal"]["Service"] for name, (row,) in told.items()} == {
        "trainplan-machine": "ec2.amazonaws.com",
        "trainplan-schedule": "scheduler.amazonaws.com",
        "trainplan-reaper": "lambda.amazonaws.com",
    }
    assert told["trainplan-schedule"][0]["Condition"] == {"StringEquals": {"aws:SourceAccount": ACCOUNT}}


def test_the_function_has_the_projects_own_code(ready: Callable[..., Desk]) -> None:
    made = ready().at.find("lambda", "GetFunctionConfiguration", {"FunctionName": "trainplan-reaper"})
    assert (made["Handler"], made["Runtime"], made["CodeSize"]) == ("reaper.handler", "python3.13", len(packed()))
    assert packed() == packed()


def test_it_waits_where_a_new_role_has_to_be_known_first(desk: Callable[..., Desk]) -> None:
    one = desk()
    one.carry_out(list(one.set_up.lacking()))
    assert one.waited == [SETTLES_SECONDS] * 3
    assert one.messages == [f"waiting {SETTLES_SECONDS:.0f} s until every part of AWS knows it"] * 3


def test_cut_off_anywhere_it_goes_on(bare: Double, desk: Callable[..., Desk]) -> None:
    """Killed before every other of its calls; whoever comes after makes the rest, and nothing twice."""
    whole = desk()
    whole.carry_out(list(whole.set_up.lacking()))
    creates = [call for call in whole.api.calls if _makes(call)]
    for most in range(0, whole.api.writes, 2):
        bare.reset(setup="none")
        cut = desk(most=most)
        with pytest.raises(KeyboardInterrupt):
            cut.carry_out(list(cut.set_up.lacking()))
        rest = desk()
        rest.carry_out(list(rest.set_up.lacking()))
        name_the_spot_role(whole.sends)
        assert desk().lacking() == []
        made = [call for call in (*cut.api.calls, *rest.api.calls) if _makes(call)]
        assert sorted(made) == sorted(creates), f"cut off before call {most}"


def _makes(call: tuple[str, str, str]) -> bool:
    """The spot role is found again only by the name that AWS gives it."""
    return call[2].startswith("Create") and call[2] != "CreateServiceLinkedRole"


def test_a_call_that_had_been_carried_out_is_no_error(ready: Callable[..., Desk], bare: Double) -> None:
    """Its answer was lost, or another computer was quicker."""
    bare.reset(setup="none")
    one, other = ready(), ready()
    steps = list(one.set_up.lacking())
    other.carry_out(steps)
    one.carry_out(steps)
    name_the_spot_role(one.sends)
    assert ready().lacking() == []


@pytest.mark.parametrize(
    ("operation", "changes", "step", "mends"),
    [
        (
            "PutRolePolicy",
            {"RoleName": "trainplan-machine", "PolicyName": "trainplan", "PolicyDocument": OTHER},
            "machine role",
            "PutRolePolicy",
        ),
        (
            "UpdateAssumeRolePolicy",
            {"RoleName": "trainplan-reaper", "PolicyDocument": OTHERS},
            "reaper",
            "UpdateAssumeRolePolicy",
        ),
        (
            "UpdateFunctionCode",
            {"FunctionName": "trainplan-reaper", "ZipFile": b"an older one"},
            "reaper",
            "UpdateFunctionCode",
        ),
        ("DeleteSchedule", {"GroupName": "trainplan", "Name": "trainplan-reaper"}, "reaper", "CreateSchedule"),
        (
            "RemoveRoleFromInstanceProfile",
            {"InstanceProfileName": "trainplan-machine", "RoleName": "trainplan-machine"},
            "machine role",
            "AddRoleToInstanceProfile",
        ),
    ],
)
def test_what_is_not_as_it_has_to_be_is_mended(
    ready: Callable[..., Desk], operation: str, changes: dict[str, object], step: str, mends: str
) -> None:
    service = "lambda" if "Function" in operation else "scheduler" if "Schedule" in operation else "iam"
    ready().api.call(service, HOME, operation, changes)
    desk = ready()
    (lacking,) = desk.set_up.lacking()
    assert (lacking.name, [call.operation for call in lacking.calls]) == (step, [mends])
    desk.carry_out([lacking])
    assert ready().lacking() == []


def test_what_is_the_persons_own_is_left_to_them(desk: Callable[..., Desk]) -> None:
    own = desk(store=StoreSettings(bucket="my-runs"), settings=AwsSettings(instance_profile="my-profile"))
    steps = {step.name: step for step in own.set_up.lacking()}
    assert "machine role" not in steps
    assert [call.operation for call in steps["bucket"].calls][-1] == "PutBucketLifecycleConfiguration"
    own.carry_out([steps["bucket"]])
    again = desk(store=StoreSettings(bucket="my-runs"), settings=AwsSettings(instance_profile="my-profile"))
    assert "bucket" not in again.lacking()


def test_a_bucket_of_somebody_else_is_told(desk: Callable[..., Desk]) -> None:
    one = desk(store=StoreSettings(bucket="not-mine"))
    one.double.script(operation="HeadBucket", code="403", status=403)
    with pytest.raises(PermissionDeniedError, match="not-mine is not yours") as caught:
        one.set_up.lacking()
    assert caught.value.hint == "name another bucket in the setting `bucket`"


def test_elsewhere_than_in_the_first_region_a_bucket_says_where(desk: Callable[..., Desk]) -> None:
    one = desk(home="eu-west-1")
    steps = {step.name: step for step in one.set_up.lacking()}
    create = steps["bucket"].calls[0].parameters
    assert create["CreateBucketConfiguration"] == {"LocationConstraint": "eu-west-1"}
    one.carry_out(list(steps.values()))
    assert one.account.reaper_lacks().startswith("it has had no turn"), "all else of it is there"


# --- removing ----------------------------------------------------------------------------------------------------


def test_all_of_it_can_be_removed_again(ready: Callable[..., Desk]) -> None:
    first = ready()
    steps = list(first.set_up.removable())
    assert [step.name for step in steps] == ["reaper", "schedule groups", "schedule role", "machine role", "bucket"]
    first.carry_out(steps)
    assert ready().removable() == []
    assert ready().lacking() == [name for name in ALL if name != "spot role"]  # which others may need


def test_groups_that_launches_have_made_elsewhere_go_too(ready: Callable[..., Desk]) -> None:
    one = ready()
    tagged = {"TagSpecifications": [{"ResourceType": "security-group", "Tags": [{"Key": "trainplan", "Value": "1"}]}]}
    for region in ("eu-west-1", "us-west-2"):
        vpc = one.account.network(region).vpc
        group = {"GroupName": "trainplan", "Description": "ours", "VpcId": vpc, **tagged}
        one.api.call("ec2", region, "CreateSecurityGroup", group)
        one.api.call("scheduler", region, "CreateScheduleGroup", {"Name": "trainplan"})
    vpc = one.account.network("af-south-1").vpc
    one.api.call(
        "ec2", "af-south-1", "CreateSecurityGroup", {"GroupName": "trainplan", "Description": "not", "VpcId": vpc}
    )
    steps = {step.name: step for step in one.set_up.removable()}
    assert steps["security groups"].detail == "trainplan in eu-west-1, us-west-2"
    assert steps["schedule groups"].detail == "trainplan in eu-west-1, us-east-1, us-west-2"
    one.carry_out(list(steps.values()))
    assert ready().removable() == []


def test_a_bucket_with_something_in_it_stays(ready: Callable[..., Desk]) -> None:
    one = ready()
    one.api.call("s3", HOME, "PutObject", {"Bucket": BUCKET, "Key": "runs/1/job.json", "Body": b"{}"})
    assert "bucket" not in one.removable()


def test_nothing_is_removed_while_a_machine_needs_it(ready: Callable[..., Desk]) -> None:
    one = ready()
    image = "ami-0cafe000000000001"
    tags = [{"Key": "trainplan-run", "Value": "r"}, {"Key": "trainplan", "Value": "1"}]
    machine = {
        "ImageId": image, "InstanceType": "m5.large", "MinCount": 1, "MaxCount": 1,
        "TagSpecifications": [{"ResourceType": "instance", "Tags": tags}],
    }  # fmt: skip
    one.api.call("ec2", "eu-west-1", "RunInstances", machine)
    one.double.sleep(10)  # until lists show it
    with pytest.raises(BadRequestError, match=r"resources of runs still exist: instance i-[0-9a-f]+ in eu-west-1"):
        one.set_up.removable()


def test_removing_that_was_cut_off_goes_on(bare: Double, ready: Callable[..., Desk], desk: Callable[..., Desk]) -> None:
    whole = ready()
    steps = list(whole.set_up.removable())
    count = sum(len(step.calls) for step in steps)
    for most in range(0, count, 4):
        bare.reset(setup="none")
        anew = desk()
        anew.carry_out(list(anew.set_up.lacking()))
        cut = desk(most=most)
        with pytest.raises(KeyboardInterrupt):
            cut.carry_out(list(cut.set_up.removable()))
        rest = desk()
        rest.carry_out(list(rest.set_up.removable()))
        assert desk().removable() == []
