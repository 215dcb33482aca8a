"""Google's advice on capacity, from the double, which holds requests and replies to Google's description."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.contract.gcp import OFFER
from tests.unit.providers.gcp.conftest import World
from tests.unit.providers.gcp.placements import an_offer
from trainplan.pricing.obtainability import MachinePlacement
from trainplan.pricing.offers import Market
from trainplan.providers.abilities import ObtainabilityTeller
from trainplan.providers.errors import PermissionDeniedError

L4 = "g2-standard-4"
METHOD = "compute.advice.capacity"


def test_spot_offers_have_the_score_of_their_region(make_world: Callable[..., World]) -> None:
    world = make_world(advice={"us-central1/g2-standard-4": 0.1, "us-east1": 0.5})
    offers = [an_offer(L4, Market.SPOT, region) for region in ("us-central1", "us-east1", "europe-west4")]
    assert isinstance(world.provider, ObtainabilityTeller)
    told = world.provider.obtainability([*offers, an_offer(L4)])
    assert {placement.region: known.grade for placement, known in told.items()} == {
        "us-central1": "poor", "us-east1": "uncertain", "europe-west4": "good",
    }  # fmt: skip
    known = told[MachinePlacement("gcp", "us-central1", L4, "spot")]
    since = world.provider.now() - timedelta(days=2)
    assert known.ground == (
        "obtainability 0.10 of 1 for one spot machine in the region; most run 2.0 h and more before they are "
        f"preempted; of those that stopped since {since:%Y-%m-%d}, 30% were preempted (mean of 2)"
    )
    assert known.as_of == world.provider.now().date()
    assert len(world.calls(METHOD)) == 3


def test_an_attached_accelerator_is_part_of_the_request(world: World) -> None:
    assert len(world.provider.obtainability([an_offer(OFFER, Market.SPOT)])) == 1
    (call,) = world.calls(METHOD)
    ((_, selection),) = call["body"]["instanceFlexibilityPolicy"]["instanceSelections"].items()
    accelerator = {"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": 1}
    assert selection == {"machineTypes": ["n1-standard-4"], "guestAccelerators": [accelerator]}


def test_a_history_that_is_refused_is_told_and_the_score_stays(world: World) -> None:
    world.script("compute.advice.capacityHistory", status=403, code="forbidden", message="no history", times=None)
    (known,) = world.provider.obtainability([an_offer(L4, Market.SPOT)]).values()
    assert known.grade == "good"
    assert "; its preemptions are not known: " in known.ground


def test_tpus_of_the_other_api_and_on_demand_are_not_asked_about(world: World) -> None:
    assert world.provider.obtainability([an_offer("tpu-v5litepod-1", Market.SPOT), an_offer(L4)]) == {}
    assert world.calls(METHOD) == []


def test_no_score_leaves_an_offer_out(make_world: Callable[..., World]) -> None:
    world = make_world(advice={"us-central1": None})
    assert world.provider.obtainability([an_offer(L4, Market.SPOT)]) == {}


def test_a_refusal_of_all_is_an_error_and_of_one_leaves_it_out(world: World) -> None:
    asked = [an_offer(L4, Market.SPOT)]
    world.script(METHOD, status=403, code="forbidden", message="Required 'compute.advice.capacity'", times=None)
    with pytest.raises(PermissionDeniedError):
        world.provider.obtainability(asked)
    world.google.control("mend")
    world.script(METHOD, status=400, code="invalid", message="not this machine type")
    told = world.provider.obtainability([*asked, an_offer(L4, Market.SPOT, "us-east1")])
    assert len(told) == 1
