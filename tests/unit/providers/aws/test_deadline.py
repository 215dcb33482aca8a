"""The standing reaper, as Lambda runs it: what it ends, what it leaves alone, and what it says of refusals."""

from __future__ import annotations

import importlib.util
import io
import zipfile
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.builders import a_job, an_offer
from tests.conftest import ROOT
from tests.doubles.aws.remote import Double
from tests.unit.providers.aws.account_side import HOME, Desk, signed_in
from trainplan.providers.aws import deadline
from trainplan.providers.aws.api import SdkApi
from trainplan.providers.aws.request import EXPIRES, OURS, tags_of
from trainplan.providers.aws.settings import PROVIDER, REAPER
from trainplan.providers.aws.setup_steps import packed
from trainplan.providers.base import LaunchRequest, RunId

MOST_LINES = 75


@pytest.fixture
def double(aws_process: Double, monkeypatch: pytest.MonkeyPatch) -> Double:
    """The function's own calls go to the double."""
    signed_in(monkeypatch)
    monkeypatch.setenv("AWS_ENDPOINT_URL", aws_process.url)
    aws_process.reset(setup="reaper", listing_lag=0.0, cloud_timer_works=False, machine_timer_works=False)
    return aws_process


@pytest.fixture
def api(double: Double, sends: SdkApi) -> SdkApi:
    return sends


def at(now: datetime) -> dict[str, str]:
    """What the schedule hands over."""
    return {"time": f"{now:%Y-%m-%dT%H:%M:%SZ}"}


def machine(api: SdkApi, region: str, **tags: str) -> str:
    asked = {
        "ImageId": "ami-0cafe000000000001",
        "InstanceType": "m5.large",
        "MinCount": 1,
        "MaxCount": 1,
        "TagSpecifications": [
            {
                "ResourceType": "instance",
                "Tags": [{"Key": key.replace("_", "-"), "Value": text} for key, text in tags.items()],
            }
        ],
    }
    return str(api.call("ec2", region, "RunInstances", asked)["Instances"][0]["InstanceId"])


def state(api: SdkApi, region: str, name: str) -> str:
    told = api.call("ec2", region, "DescribeInstances", {"InstanceIds": [name]})
    return str(told["Reservations"][0]["Instances"][0]["State"]["Name"])


def run(double: Double) -> dict[str, Any]:
    return deadline.handler(at(double.now()), None)


def test_whatever_is_over_ends_in_every_region_and_nothing_else(double: Double, api: SdkApi) -> None:
    now = double.now()
    over, later = (now - timedelta(seconds=1)).isoformat(), (now + timedelta(minutes=1)).isoformat()
    ended = [machine(api, region, trainplan="1", expires_at=over) for region in (HOME, "eu-west-1", "us-west-2")]
    kept = [
        machine(api, HOME, trainplan="1", expires_at=later),
        machine(api, HOME, trainplan="1"),
        machine(api, HOME, expires_at=over),
        machine(api, "eu-west-1", Name="somebody's"),
    ]
    told = run(double)
    assert sorted(told["terminated"]) == sorted(ended)
    placements = [HOME, HOME, HOME, "eu-west-1"]
    assert all(state(api, region, name) == "pending" for region, name in zip(placements, kept, strict=True))
    for region, name in zip((HOME, "eu-west-1", "us-west-2"), ended, strict=True):
        assert state(api, region, name) in ("shutting-down", "terminated")
    assert run(double) == {"terminated": []}


def test_the_instant_counts_in_its_own_zone(double: Double, api: SdkApi) -> None:
    now = double.now()
    east = now.astimezone(timezone(timedelta(hours=5)))
    over = machine(api, HOME, trainplan="1", expires_at=(east - timedelta(seconds=1)).isoformat())
    machine(api, HOME, trainplan="1", expires_at=(east + timedelta(minutes=1)).isoformat())
    assert run(double)["terminated"] == [over]


def test_many_are_found_on_every_page(double: Double, api: SdkApi) -> None:
    double.reset(setup="reaper", listing_lag=0.0, page_size=5, stock=40, vcpus=1000.0)
    over = (double.now() - timedelta(seconds=1)).isoformat()
    made = [machine(api, HOME, trainplan="1", expires_at=over) for _ in range(12)]
    assert sorted(run(double)["terminated"]) == sorted(made)


def test_a_refusal_does_not_keep_the_others(double: Double, api: SdkApi) -> None:
    """It counts as an error of the function, once all is done that can be."""
    over = (double.now() - timedelta(seconds=1)).isoformat()
    broken = machine(api, HOME, trainplan="1", expires_at="tomorrow")
    first, far = (machine(api, region, trainplan="1", expires_at=over) for region in (HOME, "us-west-2"))
    double.script(operation="DescribeInstances", region="eu-west-1", code="UnauthorizedOperation")
    with pytest.raises(RuntimeError) as caught:
        run(double)
    assert f"us-east-1: {broken}: Invalid isoformat string: 'tomorrow'" in str(caught.value)
    assert "eu-west-1: An error occurred (UnauthorizedOperation)" in str(caught.value)
    assert state(api, HOME, first) in ("shutting-down", "terminated")
    assert state(api, "us-west-2", far) in ("shutting-down", "terminated")


def test_a_region_that_the_organisation_has_closed_is_no_failure(double: Double, api: SdkApi) -> None:
    over = machine(api, HOME, trainplan="1", expires_at=(double.now() - timedelta(seconds=1)).isoformat())
    told = "You are not authorized to perform this operation with an explicit deny in a service control policy"
    double.script(operation="DescribeInstances", region="eu-west-1", code="UnauthorizedOperation", message=told)
    assert run(double) == {"terminated": [over]}


def test_it_reads_the_tags_that_launches_write(double: Double) -> None:
    offer = an_offer(provider=PROVIDER, region=HOME)
    request = LaunchRequest(run_id=RunId("r"), attempt=1, offer=offer, job=a_job(), deadline=double.now())
    tags = tags_of(request)
    assert (deadline.OURS, deadline.EXPIRES) == (OURS, EXPIRES)
    assert {"Key": OURS, "Value": "1"} in tags
    assert deadline._is_over({"Tags": tags}, double.now())
    assert not deadline._is_over({"Tags": tags}, double.now() - timedelta(seconds=2))


def test_it_is_short_and_stands_alone(double: Double, api: SdkApi, tmp_path: Path) -> None:
    """What Lambda gets is one file that needs nothing of ours, and ends a machine just so."""
    source = (ROOT / "providers" / "aws" / "deadline.py").read_text(encoding="utf-8")
    assert len(source.splitlines()) <= MOST_LINES
    assert "providers." not in source.partition('"""\n')[2].replace("trainplan.providers.aws.setup_steps", "")
    with zipfile.ZipFile(io.BytesIO(packed())) as archive:
        assert archive.namelist() == ["reaper.py"]
        archive.extractall(tmp_path)
    spec = importlib.util.spec_from_file_location("reaper", tmp_path / "reaper.py")
    assert spec is not None
    assert spec.loader is not None
    alone = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(alone)
    over = machine(api, HOME, trainplan="1", expires_at=(double.now() - timedelta(seconds=1)).isoformat())
    assert alone.handler(at(double.now()), None) == {"terminated": [over]}


# --- at its schedule ---------------------------------------------------------------------------------------------


def uploaded(double: Double, api: SdkApi, source: str | None = None) -> None:
    """What `plan setup aws` installs, or another function in its place."""
    double.reset(setup="reaper", listing_lag=0.0, machine_timer_works=False)
    desk = Desk(double, api)
    desk.carry_out(list(desk.set_up.lacking()))
    if source is not None:
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as made:
            made.writestr("reaper.py", source)
        asked = {"FunctionName": REAPER, "ZipFile": archive.getvalue()}
        api.call("lambda", HOME, "UpdateFunctionCode", asked)


def test_the_schedule_runs_what_the_set_up_has_uploaded(double: Double, api: SdkApi) -> None:
    uploaded(double, api)
    over = (double.now() + timedelta(minutes=1)).isoformat()
    names = {region: machine(api, region, trainplan="1", expires_at=over) for region in (HOME, "eu-west-1")}
    kept = machine(api, HOME, Name="somebody's")
    double.sleep(630)
    states = {state(api, region, name) for region, name in names.items()}
    assert states <= {"shutting-down", "terminated"}
    assert state(api, HOME, kept) == "running"


@pytest.mark.parametrize("body", ["return {}", "raise RuntimeError('refused')"])
def test_another_function_in_its_placement_ends_nothing(double: Double, api: SdkApi, body: str) -> None:
    uploaded(double, api, f"def handler(event, context):\n    {body}\n")
    left = machine(api, HOME, trainplan="1", expires_at=(double.now() + timedelta(minutes=1)).isoformat())
    double.sleep(1500)
    assert state(api, HOME, left) == "running"
