"""What the doctor says of an account on AWS: what is there, what is missing with its fix, what nobody can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from providers.aws.api import SdkApi
from providers.aws.doctor import examine
from providers.aws.settings import AwsSettings
from providers.base import Check, PreflightState
from providers.stores.settings import StoreSettings
from tests.doubles.aws.remote import Double
from tests.unit.providers.aws.account_side import BUCKET, HOME, Desk, signed_in

if TYPE_CHECKING:
    from collections.abc import Iterator

OK, REFUSED, UNKNOWN = PreflightState
LINES = ["identity", "regions", "network", "listing", "bucket", "machine role", "timer"]


@pytest.fixture(scope="module")
def double() -> Iterator[Double]:
    made = Double()
    yield made
    made.close()


@pytest.fixture(scope="module")
def sends(double: Double) -> Iterator[SdkApi]:
    made = SdkApi(HOME, double.url)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    signed_in(monkeypatch)


def looked(double: Double, sends: SdkApi, **settings: Any) -> dict[str, Check]:
    return {check.name: check for check in examine(Desk(double, sends, **settings).at)}


def set_up(double: Double, sends: SdkApi) -> None:
    desk = Desk(double, sends)
    desk.carry_out(list(desk.set_up.lacking()))


def test_an_account_that_is_set_up_is_ready(double: Double, sends: SdkApi) -> None:
    double.reset(setup="none")
    set_up(double, sends)
    told = looked(double, sends)
    assert list(told) == LINES
    assert {check.state for check in told.values()} == {OK}
    assert told["identity"].detail == "account 123456789012, user/moto"
    assert told["regions"].detail == "4 are open: af-south-1, eu-west-1, us-east-1, us-west-2"
    assert told["bucket"].detail == f"{BUCKET} in {HOME}"
    assert told["timer"].detail == "the standing reaper looks every 10 minutes"


def test_a_bare_account_is_told_what_to_do(double: Double, sends: SdkApi) -> None:
    double.reset(setup="none", no_default_network=[HOME])
    told = looked(double, sends)
    states = {name: check.state for name, check in told.items()}
    assert states == dict.fromkeys(LINES, OK) | {
        "network": UNKNOWN, "bucket": UNKNOWN, "machine role": REFUSED, "timer": REFUSED
    }  # fmt: skip
    assert told["network"].detail == "us-east-1 has no default network; launches in other regions may have one"
    assert told["network"].fix.startswith("aws ec2 create-default-vpc --region us-east-1")
    assert {told[name].fix for name in ("bucket", "machine role", "timer")} == {"plan setup aws"}


def test_without_the_reaper_schedules_do(double: Double, sends: SdkApi) -> None:
    double.reset(setup="schedule")
    timer = looked(double, sends)["timer"]
    assert (timer.state, timer.fix) == (OK, "plan setup aws installs the reaper")
    assert timer.detail.startswith("no standing reaper: each machine gets a schedule")


def test_what_was_cut_off_is_seen(double: Double, sends: SdkApi) -> None:
    double.reset()
    sends.call("s3", HOME, "CreateBucket", {"Bucket": BUCKET})
    bucket = looked(double, sends)["bucket"]
    assert (bucket.state, bucket.detail) == (UNKNOWN, f"{BUCKET} is half made: the next launch goes on where it may")
    own = looked(double, sends, store=StoreSettings(bucket=BUCKET))["bucket"]
    assert (own.state, own.detail) == (OK, f"{BUCKET} in {HOME}")


def test_a_profile_of_ones_own_is_ones_own_to_make(double: Double, sends: SdkApi) -> None:
    double.reset()
    role = looked(double, sends, settings=AwsSettings(instance_profile="mine"))["machine role"]
    assert (role.state, role.fix) == (REFUSED, "make it, or take the setting instance_profile away")


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
    told = looked(double, sends, **({"store": StoreSettings(bucket="not-mine")} if code == "403" else {}))
    assert told[line].state is state
    assert told[line].detail
    others = {name: check.state for name, check in told.items() if name not in (line, "bucket")}
    assert set(others.values()) == {OK}
