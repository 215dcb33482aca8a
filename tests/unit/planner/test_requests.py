"""Launch requests as the journal keeps them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from decimal import Decimal
from fractions import Fraction

import pytest

from planner.requests import request_from_record, request_record
from pricing.grades import PriceGrade
from pricing.offers import Lifecycle, LifecycleState, Market, Offer
from providers.base import LaunchRequest
from tests.builders import BILLING, RUN_ID, a_job, an_offer
from tests.doubles.clock import NOON

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
        run_id=RUN_ID, attempt=2, offer=offer, job_json=a_job().to_json(), deadline=NOON, max_steps=max_steps,
        vcpus=2, memory_gib=4.5,
    )  # fmt: skip
    assert request_from_record(json.loads(json.dumps(request_record(request)))) == request
