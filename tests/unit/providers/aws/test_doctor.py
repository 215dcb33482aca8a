"""What the doctor says of an account on AWS: what is there, what is missing with its fix, what nobody can tell."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest

from tests.doubles.aws.remote import Double
from tests.unit.providers.aws.account_side import BUCKET, HOME, Desk, signed_in
from trainplan.providers.aws.api import SdkApi
from trainplan.providers.aws.doctor import examine
from trainplan.providers.aws.settings import AwsSettings
from trainplan.providers.base import Check, PreflightState
from trainplan.providers.stores.settings import StoreSettings

OK, REFUSED, UNKNOWN = PreflightState
LINES = [
    "quotas",
    "plan",
    "identity",
    "regions",
    "network",
    "listing",
    "bucket",
    "machine role",
    "scope",
    "timer",
    "alarm",
]


@pytest.fixture
def double(aws_process: Double) -> Double:
    return aws_process


@pytest.fixture(autouse=True)
def somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    signed_in(monkeypatch)


def checks_of(double: Double, sends: SdkApi, **settings: Any) -> dict[str, Check]:
    return {check.name: check for check in examine(Desk(double, sends, **settings).at)}


def set_up(double: Double, sends: SdkApi) -> None:
    desk = Desk(double, sends)
    desk.carry_out(list(desk.set_up.lacking()))
    double.sleep(600)  # the reaper has had its first turn


def test_an_account_that_is_set_up_is_ready(double: Double, sends: SdkApi) -> None:
    double.reset(setup="none")
    set_up(double, sends)
    told = checks_of(double, sends)
    assert list(told) == LINES
    assert {check.state for check in told.values()} == {OK}
    assert told["identity"].detail == "account 123456789012, user/moto"
    assert told["regions"].detail == "4 looked at; open: af-south-1, eu-west-1, us-east-1, us-west-2"
    assert told["bucket"].detail == f"{BUCKET} in {HOME}"
    assert told["timer"].detail == "the standing reaper looks every 10 minutes"


def test_a_bare_account_is_told_what_to_do(double: Double, sends: SdkApi) -> None:
    double.reset(setup="none", no_default_network=[HOME])
    told = checks_of(double, sends)
    states = {name: check.state for name, check in told.items()}
    assert states == dict.fromkeys(LINES, OK) | {
        "network": UNKNOWN, "bucket": UNKNOWN, "machine role": REFUSED, "timer": REFUSED
    }  # fmt: skip
    assert told["network"].detail == "us-east-1 has no default network; launches in other regions may have one"
    assert told["network"].fix.startswith("aws ec2 create-default-vpc --region us-east-1")
    assert {told[name].fix for name in ("bucket", "machine role", "timer")} == {"plan setup aws"}


def test_the_free_plan_is_told_with_what_ec2_creates_on_it(double: Double, sends: SdkApi) -> None:
    double.reset(plan="FREE")
    told = checks_of(double, sends)
    plan = told["plan"]
    assert plan.state is OK
    assert plan.detail.startswith(
        "free until 2027-05-20, or until the $100.00 of credits are used up, if sooner: AWS then closes the account, "
        "and what runs ends, unless it is upgraded; EC2 creates c7i-flex.large, m7i-"
    )
    assert plan.detail.endswith(" alone in us-east-1")
    assert "g4dn" not in plan.detail
    assert "upgrade-account-plan" in plan.fix
    assert told["quotas"].fix.endswith("those that the line `plan` names") or not told["quotas"].fix


@pytest.mark.parametrize(
    ("changes", "state", "words"),
    [
        ({}, OK, "not the free plan"),
        ({"plan": "none"}, OK, "not the free plan"),
        ({"plan": "FREE", "plan_has_ended": True}, REFUSED, "the free plan has ended on 2027-05-20"),
        (
            {"plan": "FREE", "policies": ["client"], "withheld": ["freetier:GetAccountPlanState"]},
            UNKNOWN,
            "freetier:Get",
        ),
        ({"plan": "FREE", "policies": ["client"], "withheld": ["ec2:DescribeInstanceTypes"]}, UNKNOWN, "free until"),
    ],
)
def test_who_may_not_ask_for_the_plan_is_not_told_no(
    double: Double, sends: SdkApi, changes: dict[str, Any], state: PreflightState, words: str
) -> None:
    double.reset(bucket=True, **changes)
    plan = checks_of(double, sends)["plan"]
    assert (plan.state, words in plan.detail) == (state, True), plan


def test_a_new_account_is_told_its_quotas_first(double: Double, sends: SdkApi) -> None:
    """5 vCPUs without accelerators: what takes hours to days to change, where it is asked for, what can be had now."""
    none = ("L-417A185B", "L-DB2E81BA", "L-7212CCBC", "L-3819A6DF", "L-C4BD4855")
    quotas = [{"code": code, "vcpus": 0} for code in none]
    double.reset(setup="none", vcpus=5, quotas=quotas)
    quota, *_ = checks_of(double, sends).values()
    assert (quota.name, quota.state) == ("quotas", OK)
    assert quota.detail == (
        "in us-east-1, vCPUs on demand / on spot: processors 5 (L-1216C47A) / 5 (L-34B43A08), "
        "G and VT 0 (L-DB2E81BA) / 0 (L-3819A6DF), P 0 (L-417A185B) / 0 (L-7212CCBC)"
    )
    assert "quotas/L-DB2E81BA?region=us-east-1" in quota.fix
    assert "hours to days" in quota.fix
    assert quota.fix.endswith("up to 5 vCPUs (--device cpu)")


def test_an_account_without_any_quota_here_may_have_some_in_another_region(double: Double, sends: SdkApi) -> None:
    double.reset(vcpus=0)
    quota = checks_of(double, sends)["quotas"]
    assert quota.state is UNKNOWN
    assert "quotas/L-1216C47A" in quota.fix
    double.reset()
    double.script(operation="GetServiceQuota", code="AccessDeniedException", times=None)
    assert checks_of(double, sends)["quotas"].state is UNKNOWN


def test_without_the_reaper_schedules_do(double: Double, sends: SdkApi) -> None:
    double.reset(setup="schedule")
    timer = checks_of(double, sends)["timer"]
    assert (timer.state, timer.fix) == (OK, "plan setup aws installs the reaper")
    assert timer.detail.startswith("no standing reaper (it has no schedule that is on): each machine gets a schedule")


ROLE_POLICY = {"PolicyName": "trainplan"}
BROKEN = [
    ("lambda", "DeleteFunction", {"FunctionName": "trainplan-reaper"}, "its function trainplan-reaper"),
    ("iam", "DeleteRolePolicy", {"RoleName": "trainplan-reaper", **ROLE_POLICY}, "the role trainplan-reaper"),
    ("iam", "DeleteRolePolicy", {"RoleName": "trainplan-schedule", **ROLE_POLICY}, "the role trainplan-schedule"),
]


@pytest.mark.parametrize(("service", "operation", "names", "says"), BROKEN)
def test_a_reaper_of_which_a_part_is_gone_is_none(
    double: Double, sends: SdkApi, service: str, operation: str, names: dict[str, str], says: str
) -> None:
    """Its schedule alone ends nothing: launches make a schedule of their own for each machine."""
    double.reset()
    assert not Desk(double, sends).account.reaper_lacks()
    sends.call(service, HOME, operation, names)
    timer = checks_of(double, sends)["timer"]
    assert timer.detail.startswith(f"no standing reaper ({says}")
    assert timer.fix == "plan setup aws installs the reaper"
    assert not Desk(double, sends).account.has_reaper()
    assert Desk(double, sends).lacking()


def test_a_reaper_whose_turns_fail_is_none(double: Double, sends: SdkApi) -> None:
    """Launches then make a schedule for each machine (ec2/test_ec2.py)."""
    double.reset(setup="none")
    set_up(double, sends)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("reaper.py", "def handler(event, context):\n    raise RuntimeError('refused')\n")
    sends.call(
        "lambda", HOME, "UpdateFunctionCode", {"FunctionName": "trainplan-reaper", "ZipFile": archive.getvalue()}
    )
    double.sleep(900)
    assert Desk(double, sends).account.has_reaper(), "one turn within the last half hour has succeeded"
    double.sleep(1500)
    lacks = Desk(double, sends).account.reaper_lacks()
    assert lacks.endswith("turns within 30 minutes failed; its log /aws/lambda/trainplan-reaper in us-east-1 says why")
    timer = checks_of(double, sends)["timer"]
    assert (timer.state, timer.fix) == (OK, "plan setup aws installs the reaper")
    assert timer.detail.startswith("no standing reaper (each of its ")


def test_a_new_reaper_counts_from_its_first_turn_on(double: Double, sends: SdkApi) -> None:
    double.reset(setup="none")
    desk = Desk(double, sends)
    desk.carry_out(list(desk.set_up.lacking()))
    assert "a new one has its first within 10" in Desk(double, sends).account.reaper_lacks()
    double.sleep(600)
    assert Desk(double, sends).account.reaper_lacks() == ""


def test_turns_that_may_not_be_looked_up_are_not_counted_on(double: Double, sends: SdkApi) -> None:
    double.reset()
    double.script(operation="GetMetricStatistics", code="AccessDeniedException", status=403, times=None)
    assert "may not be looked up (cloudwatch" in Desk(double, sends).account.reaper_lacks()


def test_a_reaper_that_may_not_be_looked_up_is_not_counted_on(double: Double, sends: SdkApi) -> None:
    double.reset()
    double.script(operation="GetRolePolicy", code="AccessDenied", status=403, times=None)
    assert not Desk(double, sends).account.has_reaper()
    assert checks_of(double, sends)["machine role"].state is OK


def test_machines_whose_role_names_another_bucket_are_refused(double: Double, sends: SdkApi) -> None:
    """Every fetch of such a machine is answered with 403, while it bills."""
    double.reset()
    role = checks_of(double, sends, store=StoreSettings(bucket="another-bucket"))["machine role"]
    assert (role.state, role.fix) == (REFUSED, "plan setup aws")
    assert role.detail == "the role trainplan-machine does not let machines use the bucket another-bucket"
    sends.call("iam", HOME, "DeleteRolePolicy", {"RoleName": "trainplan-machine", **ROLE_POLICY})
    assert checks_of(double, sends)["machine role"].state is REFUSED


def test_what_was_cut_off_is_seen(double: Double, sends: SdkApi) -> None:
    double.reset()
    sends.call("s3", HOME, "CreateBucket", {"Bucket": BUCKET})
    bucket = checks_of(double, sends)["bucket"]
    assert (bucket.state, bucket.detail) == (UNKNOWN, f"{BUCKET} is half made: the next launch goes on where it may")
    own = checks_of(double, sends, store=StoreSettings(bucket=BUCKET))["bucket"]
    assert (own.state, own.detail) == (OK, f"{BUCKET} in {HOME}")


def test_a_profile_of_ones_own_is_ones_own_to_make(double: Double, sends: SdkApi) -> None:
    double.reset()
    role = checks_of(double, sends, settings=AwsSettings(instance_profile="mine"))["machine role"]
    assert (role.state, role.fix) == (REFUSED, "make it, or take the setting instance_profile away")


def test_machines_of_somebody_else_are_counted(double: Double, sends: SdkApi) -> None:
    double.reset(setup="none")
    assert checks_of(double, sends)["scope"].detail == f"{HOME} holds no machines but those of runs"
    machine = {"ImageId": "ami-0cafe000000000001", "InstanceType": "c5.large", "MinCount": 1, "MaxCount": 1}
    sends.call("ec2", HOME, "RunInstances", machine)
    double.sleep(120)  # EC2 shows it a little later
    told = checks_of(double, sends)["scope"]
    assert told.detail.startswith(f"machines in {HOME} that are not of runs: 1; ")
    assert "account for these runs alone" in told.fix


def test_every_regions_answer_is_in_one_line(double: Double, sends: SdkApi) -> None:
    double.reset(denied_regions=["af-south-1"])
    regions = checks_of(double, sends)["regions"]
    assert (regions.state, regions.detail) == (
        OK,
        "4 looked at; closed by the account's organisation: af-south-1; open: eu-west-1, us-east-1, us-west-2",
    )
    double.script(region="us-west-2", code="Unavailable", status=503, times=None)
    regions = checks_of(double, sends)["regions"]
    assert regions.state is UNKNOWN
    assert regions.detail.endswith("open: eu-west-1, us-east-1; no answer (as the test wants it): us-west-2")


def test_the_setting_regions_is_part_of_every_regions_answer(double: Double, sends: SdkApi) -> None:
    double.reset(denied_regions=["af-south-1"])
    double.script(region="us-west-2", code="UnauthorizedOperation", status=403, message="no", times=None)
    used = AwsSettings(regions=frozenset({"eu-west-1", "eu-west-9"}))
    told = checks_of(double, sends, settings=used)
    assert told["regions"].detail == (
        "4 looked at; closed by the account's organisation: af-south-1; open: eu-west-1; "
        "open, not in the setting `regions`: us-east-1; refused, not in the setting `regions`: us-west-2; "
        "set, but not open to this account: eu-west-9"
    )
    assert told["quotas"].detail.startswith("in eu-west-1, ")


@pytest.mark.parametrize(
    ("operation", "code", "line", "state"),
    [
        ("GetCallerIdentity", "ExpiredToken", "identity", REFUSED),
        ("DescribeRegions", "UnauthorizedOperation", "regions", REFUSED),
        ("DescribeVpcs", "RequestLimitExceeded", "network", UNKNOWN),
        ("DescribeInstances (dry run)", "UnauthorizedOperation", "listing", REFUSED),
        ("DescribeInstances (dry run)", "InternalError", "listing", UNKNOWN),
        ("HeadBucket", "403", "bucket", REFUSED),
        ("GetInstanceProfile", "AccessDenied", "machine role", UNKNOWN),
        ("GetInstanceProfile", "ServiceFailure", "machine role", UNKNOWN),
    ],
)
def test_what_is_refused_or_not_answered_is_one_line(
    double: Double, sends: SdkApi, operation: str, code: str, line: str, state: PreflightState
) -> None:
    double.reset()
    double.script(operation=operation, code=code, status=403 if code == "403" else 400, times=None)
    told = checks_of(double, sends, **({"store": StoreSettings(bucket="not-mine")} if code == "403" else {}))
    assert told[line].state is state
    assert told[line].detail
    # The account's number and its bucket are in what roles may do; regions are asked what the listing is.
    also = {
        "identity": ("machine role", "timer", "alarm"),
        "bucket": ("machine role", "timer"),
        "listing": ("regions",),
    }
    others = {name: check.state for name, check in told.items() if name not in (line, "bucket", *also.get(line, ()))}
    assert set(others.values()) == {OK}
