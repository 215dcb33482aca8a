"""Launch requests as the journal keeps them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import pytest

from planner.runs.journal.records import request_from_record, request_record
from pricing.grades import PriceGrade
from pricing.offers import Lifecycle, LifecycleState, Market, Offer
from providers.azure.resolution import DiskController, TrustedLaunch
from providers.base import LaunchRequest
from providers.gcp.provider import GcpProvider
from providers.sim.provider import SimProvider
from providers.sim.scenario import Scenario
from providers.sim.translate import SimResolution
from tests.builders import BILLING, RUN_ID, a_job, an_offer
from tests.conftest import ROOT
from tests.contract.local import EngineDoubleHarness
from tests.doubles.clock import NOON, FakeClock
from tests.doubles.fake_provider import FakeProvider
from tests.unit.providers.aws import test_requests as aws
from tests.unit.providers.azure import test_requests as azure
from tests.unit.providers.gcp import test_requests as gcp
from tests.unit.providers.gcp.tpu import test_requests as gcp_tpu

if TYPE_CHECKING:
    from pathlib import Path

    from providers.base import Provider
    from providers.sim.api import Api
    from providers.values import Resolution

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


# --- rows of journals that commit c4f35f3 wrote, before each cloud's look-ups had a class -----------------------------

WRITTEN = ROOT / "tests" / "data" / "requests_c4f35f3"
RESOLUTIONS: dict[str, Resolution | None] = {
    "aws": aws.RESOLUTION,
    "aws-schedule": aws.NOTHING_STANDS,
    "azure": azure.RESOLUTION,
    "azure-nvme": replace(
        azure.RESOLUTION, machine_role="", trusted_launch=TrustedLaunch.NONE, disk_controller=DiskController.NVME
    ),
    "gcp": gcp.RESOLUTION,
    "gcp-tpu": gcp_tpu.RESOLUTION,
    "local": None,
    "sim": SimResolution(image="img-0123456789ab"),
}


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
        case "sim":
            return SimProvider(Scenario(), cast("Api", None))
        case _:
            return EngineDoubleHarness(home).provider()


def restricted_to(older: Any, newer: Any) -> Any:
    """What a newer record has of the fields of an older one: later versions may add fields, and lose none."""
    if not isinstance(older, dict):
        return newer
    return {key: restricted_to(value, newer[key]) if key != "resolved" else newer[key] for key, value in older.items()}


@pytest.mark.parametrize("name", sorted(RESOLUTIONS))
def test_a_request_that_an_older_version_recorded_is_sent_as_it_was(name: str, tmp_path: Path) -> None:
    record = json.loads((WRITTEN / f"{name}.json").read_text(encoding="utf-8"))
    request = request_from_record(record, provider_of(name, tmp_path))
    assert request.resolution == RESOLUTIONS[name]
    assert request.job.to_json() == record["job_json"]
    again = json.loads(json.dumps(request_record(request)))
    assert {**record, "resolved": again["resolved"]} == restricted_to(record, again)
    sent = [json.dumps(call.parameters) for call in request.calls]
    assert sent == [json.dumps(call["parameters"]) for call in record["calls"]]
    assert sent
    assert request_from_record(again, provider_of(name, tmp_path)) == request


@pytest.mark.parametrize(
    ("field", "value"), [("subnet", None), ("boot_deadline", "soon"), ("reaper", "somebody"), ("root_gib", "many")]
)
def test_a_resolution_that_cannot_be_read_is_an_error(field: str, value: str | None) -> None:
    record = json.loads((WRITTEN / "aws.json").read_text(encoding="utf-8"))
    record["resolved"][field] = value
    with pytest.raises(ValueError, match=field):
        request_from_record(record, aws.provider())
