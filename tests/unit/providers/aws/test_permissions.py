"""The policies of docs/permissions/aws: each allows exactly what is called by whoever has it, no more and no less."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders import an_offer
from tests.conftest import ROOT
from tests.contract.aws import Client, TimedAws
from tests.doubles.aws.permissions import OURS
from tests.doubles.aws.remote import Double
from tests.doubles.iam_policy import Policy
from tests.doubles.needs import Need, needs
from tests.unit.providers.aws.account_side import ACCOUNT, BUCKET, HOME, Desk, name_the_spot_role, signed_in
from trainplan.planner.cli.main import run as plan
from trainplan.planner.errors import ExitCode
from trainplan.providers import registry
from trainplan.providers.aws import deadline, store
from trainplan.providers.aws.api import SdkApi
from trainplan.providers.aws.permissions import Identity, policy, trust
from trainplan.providers.aws.settings import REAPER_LOG
from trainplan.providers.base import InstanceRef, OwnedResource, ProviderSettings, RunId
from trainplan.providers.cloud.alarm import wanted as wanted_alarm
from trainplan.providers.errors import PermissionDeniedError
from trainplan.providers.stores.bucket import ObjectPart

DOCS = ROOT / "docs" / "permissions" / "aws"
JOB = """\
name: train
model: {layers: [8, M, 16, M], dense: [16]}
data: {name: digits}
epochs: 2
global_batch_size: 32
constraints: {devices: [T4], regions: [us-east-1, eu-west-1], providers: [aws], deadline: 2h}
"""


@pytest.fixture
def double(aws_process: Double, monkeypatch: pytest.MonkeyPatch) -> Double:
    signed_in(monkeypatch)
    return aws_process


def held_policy(name: str) -> Policy:
    return Policy.read(DOCS / f"{name}.json", ACCOUNT, BUCKET)


def needed(double: Double) -> list[Need]:
    """Everything that the calls of this world needed, as the double has judged them."""
    assert double.ask("unpermitted") == []
    return [Need(**row) for row in double.ask("needed")]


def judged(name: str, wanted: list[Need]) -> tuple[list[str], set[tuple[str, str]]]:
    """What was needed and is not allowed, and what is allowed and was not needed."""
    found = held_policy(name)
    return found.refused(wanted), found.unused()


# --- the person who launches -------------------------------------------------------------------------------------


@pytest.fixture
def command(double: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command line in the double's time, with a job; everything of `plan setup` stands."""
    made: list[TimedAws] = []

    def make(settings: ProviderSettings) -> TimedAws:
        made.append(Client(double, settings.home).provider())
        return made[-1]

    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PLAN_AWS_ENDPOINT", double.url)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(f"{__name__}.made_here", make, raising=False)
    monkeypatch.setitem(registry.FACTORIES, "aws", f"{__name__}:made_here")
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path


@pytest.mark.slow
def test_whoever_launches_may_do_exactly_what_launches_do(
    double: Double, command: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Doctor, estimate, launch (on demand, spot that is reclaimed, by schedules, without stock), status, logs, stop,
    data sets, cleanup; and by hand what only a cloud that leaves things behind makes one call."""
    double.reset(plan="FREE", bucket=True)
    owner = Client(double, command).provider()
    for step in owner.alarm_steps(wanted_alarm("20", ["me@example.com"])):
        owner.carry_out(step, print)
    double.ask("permit", policies=["client"])
    assert plan(["doctor", "aws"]) == ExitCode.REFUSED, "the job's T4 is not let in"
    wanted = needed(double)
    for setup, market in (("reaper", "on_demand"), ("schedule", "spot")):
        incidents = [{"event": "reclaim", "attempt": 1, "after": 30}] if market == "spot" else []
        double.reset(setup=setup, incidents=incidents, disks_stay=market == "spot", bucket=True, policies=["client"])
        assert (
            plan(["launch", "job.yaml", "--market", market, "--yes", "--fresh", "--output", f"{setup}-{market}"]) == 0
        )
        wanted += needed(double)
    assert plan(["doctor", "aws", "job.yaml"]) == 0
    assert plan(["estimate", "job.yaml", "--check", "--limit", "3"]) == 0
    double.script(operation="GetServiceQuota", code="NoSuchResourceException", times=None)
    assert plan(["estimate", "job.yaml", "--check", "--limit", "1", "--device", "cpu"]) == 0
    (command / "images").mkdir()
    (command / "images" / "one.png").write_bytes(b"x" * 1000)
    assert plan(["data", "upload", "images", "--provider", "aws", "--yes"]) == 0
    assert plan(["status"]) == 0
    assert plan(["cleanup", "--provider", "aws", "--yes"]) == 0
    by_hand(double, command)
    assert judged("client", [*wanted, *needed(double)]) == ([], set())


def by_hand(double: Double, home: Path) -> None:
    provider = Client(double, home).provider()
    for kind, name in (("volume", "vol-0123456789abcdef0"), ("network interface", "eni-0123456789abcdef0")):
        provider.delete(OwnedResource(provider="aws", region=HOME, kind=kind, id=name, run_id=RunId("r")))
    provider.delete(OwnedResource(provider="aws", region=HOME, kind="spot", id="sir-01234567", run_id=RunId("r")))
    provider.has_spot(an_offer(provider="aws", region=HOME, instance_type="g4dn.xlarge"), None)
    gone = InstanceRef(provider="aws", region=HOME, id="i-0123456789abcdef0")
    with pytest.raises(Exception, match="i-0123456789abcdef0"):
        list(provider.logs(gone))
    assert provider.ended_at(gone) is None
    provider.delete(gone)
    provider.close()
    bucket = store.make(Client(double, home).settings())
    begun = bucket.begin("data/large", 10)
    begun.send(ObjectPart(0, 0, b"x" * 10))
    bucket.resume("data/large", 10, begun.token)
    bucket.close()


# --- the person who sets an account up ---------------------------------------------------------------------------


def test_whoever_sets_an_account_up_may_do_exactly_what_that_takes(double: Double, sends: SdkApi) -> None:
    """Made, mended, looked at again, and removed with what launches elsewhere have left."""
    double.reset(setup="none", no_default_network=[HOME], policies=["setup"])
    first = Desk(double, sends)
    first.carry_out(list(first.set_up.lacking()))
    wanted = needed(double)
    double.ask("permit", policies=[])
    name_the_spot_role(sends)
    for operation, changes in SPOILS.items():
        service = "lambda" if "Function" in operation else "iam"
        sends.call(service, HOME, operation, changes)
    vpc = first.account.network("eu-west-1").vpc
    tags = [{"ResourceType": "security-group", "Tags": [{"Key": "trainplan", "Value": "1"}]}]
    group = {"GroupName": "trainplan", "Description": "x", "VpcId": vpc, "TagSpecifications": tags}
    sends.call("ec2", "eu-west-1", "CreateSecurityGroup", group)
    double.ask("permit", policies=["setup"])
    again = Desk(double, sends)
    again.carry_out(list(again.set_up.lacking()))
    again.carry_out(list(again.set_up.removable()))
    assert judged("setup", [*wanted, *needed(double)]) == ([], set())


@pytest.mark.parametrize(
    "action",
    [
        "s3:CreateBucket", "s3:PutLifecycleConfiguration", "iam:TagRole", "iam:PassRole", "iam:PutRolePolicy",
        "logs:CreateLogGroup", "logs:PutRetentionPolicy", "lambda:CreateFunction", "scheduler:TagResource",
    ],
)  # fmt: skip
def test_a_set_up_whose_policy_lacks_an_action_says_which_and_goes_on_later(
    double: Double, sends: SdkApi, action: str
) -> None:
    double.reset(setup="none", policies=["setup"], withheld=[action])
    first = Desk(double, sends)
    with pytest.raises(PermissionDeniedError, match=f"not authorized to perform: {action}") as caught:
        first.carry_out(list(first.set_up.lacking()))
    assert "docs/permissions/aws" in caught.value.hint
    double.ask("permit", policies=["setup"])
    again = Desk(double, sends)
    again.carry_out(list(again.set_up.lacking()))
    name_the_spot_role_by_its_owner(double, sends)
    assert Desk(double, sends).lacking() == []


def name_the_spot_role_by_its_owner(double: Double, sends: SdkApi) -> None:
    double.ask("permit", policies=[])
    name_the_spot_role(sends)
    double.ask("permit", policies=["setup"])


SPOILS: dict[str, dict[str, object]] = {
    "UpdateAssumeRolePolicy": {
        "RoleName": "trainplan-machine",
        "PolicyDocument": json.dumps(trust("lambda", Identity(account=ACCOUNT, arn="", partition="aws"))),
    },
    "UpdateFunctionCode": {"FunctionName": "trainplan-reaper", "ZipFile": b"an older one"},
}


# --- the roles that stand in the account -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["machine", "reaper", "schedule", "stop", "alarm-role"])
def test_what_a_set_up_gives_is_what_the_page_shows(name: str) -> None:
    who = Identity(account=ACCOUNT, arn="", partition="aws")
    assert policy(name, who, BUCKET) == held_policy(name).document
    assert "arn:aws-cn:" in json.dumps(policy(name, Identity(account=ACCOUNT, arn="", partition="aws-cn"), BUCKET))


def test_the_reaper_may_do_exactly_what_it_does(double: Double, sends: SdkApi, monkeypatch: pytest.MonkeyPatch) -> None:
    double.reset(setup="reaper", cloud_timer_works=False, listing_lag=0.0)
    monkeypatch.setenv("AWS_ENDPOINT_URL", double.url)
    tags = [{"Key": "trainplan", "Value": "1"}, {"Key": "expires-at", "Value": "2020-01-01T00:00:00+00:00"}]
    machine = {"ImageId": "ami-0cafe000000000001", "InstanceType": "m5.large", "MinCount": 1, "MaxCount": 1}
    sends.call(
        "ec2", HOME, "RunInstances", {**machine, "TagSpecifications": [{"ResourceType": "instance", "Tags": tags}]}
    )
    double.ask("permit", policies=["reaper"])
    assert deadline.handler({"time": "2026-11-21T12:00:00Z"}, None)["terminated"]
    stream = {"logGroupName": REAPER_LOG, "logStreamName": "2026/11/21/[$LATEST]0123"}
    known = {"region": HOME, "account": ACCOUNT}
    written = [
        need
        for operation, parameters in (("CreateLogStream", stream), ("PutLogEvents", {**stream, "logEvents": []}))
        for need in needs("aws", f"logs:{operation}", parameters, known)
    ]  # by Lambda, in the role's name
    assert judged("reaper", [*needed(double), *written]) == ([], set())


def test_the_reapers_role_makes_no_log_group() -> None:
    """One that Lambda made would be kept for good, and come back after its removal."""
    group = {"logGroupName": REAPER_LOG}
    wanted = needs("aws", "logs:CreateLogGroup", group, {"region": HOME, "account": ACCOUNT})
    assert not held_policy("reaper").allows(wanted[0])
    assert held_policy("setup").refused(wanted) == []


@pytest.mark.parametrize("context", [{}, {"aws:ResourceTag/expires-at": "x"}, {"aws:ResourceTag/trainplan": "1"}])
def test_the_reaper_ends_nothing_that_is_not_marked_twice(context: dict[str, str]) -> None:
    anothers = Need("ec2:TerminateInstances", f"arn:aws:ec2:eu-west-1:{ACCOUNT}:instance/i-1", context)
    assert not held_policy("reaper").allows(anothers)


def test_a_schedule_ends_machines_of_ours_and_starts_the_reaper() -> None:
    found = held_policy("schedule")
    machine = f"arn:aws:ec2:eu-west-1:{ACCOUNT}:instance/i-1"
    assert found.allows(Need("ec2:TerminateInstances", machine, OURS))
    assert found.allows(Need("lambda:InvokeFunction", f"arn:aws:lambda:{HOME}:{ACCOUNT}:function:trainplan-reaper"))
    assert found.unused() == set()
    assert not found.allows(Need("ec2:TerminateInstances", machine))
    assert not found.allows(Need("lambda:InvokeFunction", f"arn:aws:lambda:{HOME}:{ACCOUNT}:function:another"))


RUN = f"arn:aws:s3:::{BUCKET}/runs/261121-0badcafe"
MACHINE = [
    Need("s3:GetObject", f"{RUN}/job.json"),
    Need("s3:GetObject", f"arn:aws:s3:::{BUCKET}/data/0123/shard-00000.tar"),
    Need("s3:PutObject", f"{RUN}/attempts/1/status.json"),
    Need("s3:DeleteObject", f"{RUN}/checkpoints/step-00000010/model.keras"),
    Need("s3:ListBucket", f"arn:aws:s3:::{BUCKET}", {"s3:prefix": "runs/261121-0badcafe/checkpoints/"}),
    Need("ecr:GetAuthorizationToken"),
    Need("ecr:BatchGetImage", f"arn:aws:ecr:{HOME}:{ACCOUNT}:repository/mine"),
    Need("ecr:GetDownloadUrlForLayer", f"arn:aws:ecr:{HOME}:{ACCOUNT}:repository/mine"),
    Need("secretsmanager:GetSecretValue", f"arn:aws:secretsmanager:{HOME}:{ACCOUNT}:secret:trainplan/token-a1b2c3"),
]
"""What providers/agent does: s3.py, checkpoints.py, registries.py, vault.py, and docker's pull."""


def test_a_machine_may_do_exactly_what_its_agent_does() -> None:
    found = held_policy("machine")
    assert found.refused(MACHINE) == []
    assert found.unused() == set()


@pytest.mark.parametrize(
    "need",
    [
        Need("s3:PutObject", f"arn:aws:s3:::{BUCKET}/data/0123/shard-00000.tar"),
        Need("s3:DeleteObject", f"{RUN}/job.json"),
        Need("s3:DeleteObject", f"{RUN}/output/model.keras"),
        Need("s3:ListBucket", f"arn:aws:s3:::{BUCKET}", {"s3:prefix": "data/"}),
        Need("s3:ListBucket", f"arn:aws:s3:::{BUCKET}"),
        Need("s3:GetObject", "arn:aws:s3:::another/runs/x"),
        Need("secretsmanager:GetSecretValue", f"arn:aws:secretsmanager:{HOME}:{ACCOUNT}:secret:payroll-a1b2c3"),
        Need("ec2:TerminateInstances", f"arn:aws:ec2:{HOME}:{ACCOUNT}:instance/i-1", OURS),
    ],
    ids=str,
)
def test_a_machine_may_do_nothing_else(need: Need) -> None:
    assert not held_policy("machine").allows(need)
