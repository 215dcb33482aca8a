"""Launch requests as the journal keeps them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import pytest

from tests.builders import BILLING, RUN_ID, a_job, an_offer
from tests.doubles.clock import NOON, FakeClock
from tests.doubles.fake_provider import FakeProvider
from tests.unit.providers.aws import test_requests as aws
from tests.unit.providers.azure import test_requests as azure
from tests.unit.providers.gcp import test_requests as gcp
from tests.unit.providers.gcp.tpu import test_requests as gcp_tpu
from trainplan.planner.runs.journal.records import request_from_record, request_record
from trainplan.pricing.grades import PriceGrade
from trainplan.pricing.offers import Lifecycle, LifecycleState, Market, Offer
from trainplan.providers.base import LaunchRequest, Provider
from trainplan.providers.gcp.provider import GcpProvider
from trainplan.providers.sim.api import Api
from trainplan.providers.sim.provider import SimProvider
from trainplan.providers.sim.scenario import Scenario
from trainplan.providers.sim.translate import SimResolution

EVERYTHING = replace(
    an_offer(),
    provider="gcp", region="us-central1", zones=("us-central1-a", "us-central1-b"), market=Market.SPOT,
    usd_per_hour=Decimal("0.123456"), planning_usd_per_hour=None, price_grade=PriceGrade.STALE, price_as_of=None,
    price_as_of_text="2026-H1", device="L4", device_fraction=Fraction(1, 8), device_memory_gib=2.8, hosts=2,
    on_demand_usd_per_hour=Decimal("0.7"), host_usd_per_hour=Decimal("0.1"), device_usd_per_hour=Decimal("0.6"),
    interruption_bucket=3, billing=BILLING, note="ü",
    lifecycle=Lifecycle(state=LifecycleState.DEPRECATED, date=date(2027, 1, 1), successor="g2"),
)  # fmt: skip


@pytest.mark.parametrize("offer", [an_offer(), EVERYTHING], ids=["here", "everything"])
@pytest.mark.parametrize("max_steps", [None, 40])
def test_a_request_survives_the_journal(offer: Offer, max_steps: int | None) -> None:
    request = LaunchRequest(
        run_id=RUN_ID, attempt=2, offer=offer, job=a_job(), deadline=NOON, max_steps=max_steps,
        vcpus=2, memory_gib=4.5,
    )  # fmt: skip
    assert request_from_record(json.loads(json.dumps(request_record(request))), FakeProvider(FakeClock())) == request


REQUESTS: dict[str, LaunchRequest] = {
    "aws": aws.a_request("g4dn.xlarge", Market.SPOT, "us-east-1"),
    "azure": azure.a_request(azure.offer_of("Standard_NC4as_T4_v3", Market.ON_DEMAND)),
    "gcp": gcp.t4(),
    "gcp-tpu": gcp_tpu.a_request(),
    "sim": LaunchRequest(
        run_id=RUN_ID, attempt=1, offer=an_offer(), job=a_job(), deadline=NOON,
        resolution=SimResolution(image="img-0123456789ab"),
    ),
}  # fmt: skip


def provider_of(name: str, home: Path) -> Provider:
    """Nobody is there to ask."""
    match name.partition("-")[0]:
        case "aws":
            return aws.provider()
        case "azure":
            return azure.a_pure_provider(home)
        case "gcp":
            parts = (gcp.machines(), gcp_tpu.machines())
            return GcpProvider(account=parts[0].account, parts=parts, stores=cast("Any", None), now=lambda: NOON)
        case _:
            return SimProvider(Scenario(), cast("Api", None))


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_a_request_of_each_cloud_survives_the_journal_with_what_was_looked_up(name: str, tmp_path: Path) -> None:
    request = REQUESTS[name]
    assert request.resolution is not None
    record = json.loads(json.dumps(request_record(request)))
    assert request_from_record(record, provider_of(name, tmp_path)) == request


@pytest.mark.parametrize(
    ("field", "value"), [("subnet", None), ("boot_deadline", "soon"), ("reaper", "somebody"), ("root_gib", "many")]
)
def test_a_resolution_that_cannot_be_read_is_an_error(field: str, value: str | None) -> None:
    record = json.loads(json.dumps(request_record(REQUESTS["aws"])))
    record["resolved"][field] = value
    with pytest.raises(ValueError, match=field):
        request_from_record(record, aws.provider())
