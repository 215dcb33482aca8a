"""What a launch sends, whole, as a person reads it: golden files for each kind of machine."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import validate_parameters

from tests.builders import TODAY, a_job
from tests.conftest import Golden
from tests.doubles.clock import NOON
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.offers import Market, Offer, OfferQuery
from trainplan.providers.aws import reply
from trainplan.providers.aws import request as ec2_request
from trainplan.providers.aws.account import AwsAccount
from trainplan.providers.aws.provider import AwsProvider
from trainplan.providers.aws.resolution import AwsResolution, Reaper
from trainplan.providers.aws.settings import AwsSettings
from trainplan.providers.base import LaunchRequest, RunId, VendorRequest
from trainplan.providers.cloud.launch import Rented
from trainplan.providers.errors import BadRequestError

RESOLUTION = AwsResolution(
    image_digest=f"sha256:{'5' * 64}",
    run_uri="s3://trainplan-123456789012-us-east-1/runs/261121-0badcafe",
    run_region="us-east-1",
    boot_deadline=NOON + timedelta(minutes=45),
    zone="us-east-1b",
    subnet="subnet-0123456789abcdef0",
    vpc="vpc-0123456789abcdef0",
    security_group="sg-0123456789abcdef0",
    image="ami-0123456789abcdef0",
    image_from="parameter /aws/service/…",
    root_device="/dev/sda1",
    root_gib=100,
    instance_profile="trainplan-machine",
    reaper=Reaper.STANDING,
)
NOTHING_STANDS = replace(
    RESOLUTION,
    security_group="",
    reaper=Reaper.SCHEDULE,
    schedule_role="arn:aws:iam::123456789012:role/trainplan-schedule",
)
KINDS: list[tuple[str, str, Market, str, AwsResolution]] = [
    ("g4dn", "g4dn.xlarge", Market.ON_DEMAND, "us-east-1", RESOLUTION),
    ("g4dn-first-in-region", "g4dn.xlarge", Market.ON_DEMAND, "us-east-1", NOTHING_STANDS),
    ("g6-spot", "g6.xlarge", Market.SPOT, "us-east-1", RESOLUTION),
    ("p2-own-image", "p2.xlarge", Market.ON_DEMAND, "us-east-1", RESOLUTION),
    ("p3-own-image", "p3.2xlarge", Market.ON_DEMAND, "us-east-1", RESOLUTION),
    ("p3-spot-own-image", "p3.2xlarge", Market.SPOT, "us-east-1", RESOLUTION),
    ("p3dn-own-image", "p3dn.24xlarge", Market.ON_DEMAND, "us-east-1", RESOLUTION),
    ("cpu", "c7i.2xlarge", Market.ON_DEMAND, "us-east-1", RESOLUTION),
]
BASE = "aws/g4dn.json"


@cache
def offer_of(instance_type: str, market: Market, region: str) -> Offer:
    asked = OfferQuery(
        providers=frozenset({"aws"}),
        instance_types=frozenset({instance_type}),
        markets=frozenset({str(market)}),
        include_retired=True,
    )
    with Catalog.open() as catalog:
        offers = catalog.offers(asked, TODAY)
    return next((offer for offer in offers if offer.region == region), replace(offers[0], region=region))


@cache
def model(service: str) -> ServiceModel:
    """AWS's own description of a service, as the SDK has it."""
    return ServiceModel(Loader().load_service_model(service, "service-2"))


def provider(image: str = "") -> AwsProvider:
    """Nobody is there to ask: what is tried here is pure."""
    nobody: Any = None
    rented = Rented(
        cloud="aws", service="s3", store=nobody, region=lambda: "us-east-1", now=lambda: NOON, own_image=image
    )
    account = AwsAccount(nobody, AwsSettings(image=image), lambda: NOON)
    return AwsProvider(
        api=nobody, account=account, rented=rented, now_of=lambda: NOON, standing_resources=nobody, let_go=lambda: None
    )


def a_request(
    instance_type: str, market: Market, region: str, resolution: AwsResolution | None = RESOLUTION
) -> LaunchRequest:
    return LaunchRequest(
        run_id=RunId("261121-0badcafe"),
        attempt=2,
        offer=offer_of(instance_type, market, region),
        job=a_job(),
        deadline=NOON + timedelta(hours=2),
        client="0123456789abcdef",
        resolution=resolution,
    )


def readable(call: VendorRequest) -> dict[str, Any]:
    """User data and objects by what they say or by their length: their contents are checked elsewhere."""
    parameters: dict[str, Any] = dict(call.parameters)
    if "UserData" in parameters:
        parameters["UserData"] = {"run": _boot(parameters["UserData"]), "form": "cloud-init, test_bootstrap.py"}
    if "Body" in parameters:
        body = base64.b64decode(parameters.pop("Body"))
        assert parameters["SHA256"] == hashlib.sha256(body).hexdigest()
        parameters["Body"] = "in the journal"
    for changing in ("SHA256", "Bytes"):
        if changing in parameters:
            parameters[changing] = "…"
    return {"service": call.service, "operation": call.operation, "parameters": parameters}


def _text(calls: Sequence[VendorRequest]) -> str:
    return json.dumps([readable(call) for call in calls], indent=2, ensure_ascii=False) + "\n"


def _boot(user_data: str) -> dict[str, Any]:
    found = re.search(r"content: (\"\{.*\}\\n\")", user_data) or re.search(r'content: "(.*)"\n', user_data)
    assert found is not None
    text = json.loads(found.group(1)) if found.group(1).startswith('"') else json.loads(f'"{found.group(1)}"')
    return dict(json.loads(text))


@pytest.mark.parametrize(
    ("name", "instance_type", "market", "region", "resolution"), KINDS, ids=[row[0] for row in KINDS]
)
def test_what_a_launch_sends(
    golden: Golden, name: str, instance_type: str, market: Market, region: str, resolution: AwsResolution
) -> None:
    asked = a_request(instance_type, market, region, resolution)
    calls = provider("ami-0123456789abcdef0" if "own-image" in name else "").requests(asked)
    base = _text(provider().requests(a_request(*KINDS[0][1:])))
    if name == KINDS[0][0]:
        golden.check(BASE, base)
    else:
        golden.check_difference(f"aws/{name}.diff", _text(calls), BASE, base)
    for call in calls:
        service = call.service.partition(".")[0]
        if service != "s3":
            shape = model(service).operation_model(call.operation).input_shape
            found = {ec2_request.GROUP_ID: "sg-1", ec2_request.INSTANCE_ID: "i-1"}
            validate_parameters(ec2_request.filled(call.parameters, found), shape)


@pytest.mark.parametrize("instance_type", ["p2.xlarge", "p3.2xlarge", "p3dn.24xlarge"])
def test_without_an_image_of_ones_own_nothing_is_launched_on_the_oldest(instance_type: str) -> None:
    with pytest.raises(BadRequestError, match="nothing can be launched on it"):
        provider().requests(a_request(instance_type, Market.ON_DEMAND, "us-east-1"))


def test_the_token_is_the_attempts_own() -> None:
    first = a_request("g4dn.xlarge", Market.ON_DEMAND, "us-east-1")
    tokens = {ec2_request.token_of(replace(first, attempt=number)) for number in range(1, 5)}
    assert len(tokens) == 4
    assert {len(token) for token in tokens} == {64}
    elsewhere = replace(first, zone="us-east-1c", deadline=NOON + timedelta(hours=9))
    assert ec2_request.token_of(elsewhere) == ec2_request.token_of(first)


def test_user_data_fits_with_much_to_spare() -> None:
    create = provider().requests(a_request("g4dn.xlarge", Market.ON_DEMAND, "us-east-1"))[-1]
    assert len(str(create.parameters["UserData"])) < 16_384 - 2_000


def test_what_the_cloud_would_do_by_itself_is_said_to_the_person() -> None:
    asked = a_request("g4dn.xlarge", Market.ON_DEMAND, "us-east-1")
    standing = provider().timers(asked)
    assert (standing.machine, standing.cloud, standing.gap) == (
        asked.deadline,
        asked.deadline + timedelta(minutes=10),
        "",
    )
    scheduled = provider().timers(replace(asked, resolution=NOTHING_STANDS))
    assert scheduled.cloud == asked.deadline + timedelta(minutes=5)
    assert "from the create to the call that makes the schedule" in scheduled.gap
    assert "where no standing reaper is installed" in provider().timers(replace(asked, resolution=None)).gap


def test_a_request_that_was_not_looked_up_is_not_sent() -> None:
    asked = a_request("g4dn.xlarge", Market.ON_DEMAND, "us-east-1", None)
    with pytest.raises(BadRequestError, match="was not looked up"):
        provider().requests(asked)


def test_a_tag_has_only_what_a_tag_may_have() -> None:
    asked = replace(a_request("g4dn.xlarge", Market.ON_DEMAND, "us-east-1"), client='a "strange" computer; $(x)')
    tags = {tag["Key"]: tag["Value"] for tag in ec2_request.tags_of(asked)}
    assert tags["trainplan-client"] == "a _strange_ computer_ __x_"
    assert tags["expires-at"] == "2026-11-21T14:00:00+00:00"


def test_a_schedule_says_in_its_name_what_others_say_in_tags() -> None:
    asked = a_request("g4dn.xlarge", Market.ON_DEMAND, "us-east-1")
    found = reply.owned_schedule({"Name": ec2_request.schedule_name(asked)}, "us-east-1")
    assert found is not None
    assert (found.run_id, found.attempt, found.client) == (asked.run_id, 2, asked.client)
    assert (found.deadline, found.kind, found.instance) == (asked.deadline, "schedule", False)
    assert reply.owned_schedule({"Name": "trainplan-reaper"}, "us-east-1") is None
