"""Spot placement scores, from the double."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.faults.azure import an_offer
from tests.unit.providers.azure.conftest import Client
from trainplan.pricing.obtainability import MachinePlacement
from trainplan.pricing.offers import Market
from trainplan.providers.abilities import ObtainabilityTeller
from trainplan.providers.errors import PermissionDeniedError

MakeWorld = Callable[..., "Client"]
T4 = "Standard_NC4as_T4_v3"


def test_spot_offers_have_the_score_of_their_region(make_world: MakeWorld) -> None:
    world = make_world(spot_scores={f"eastus/{T4}": "High", f"westus3/{T4}": "Low", f"northeurope/{T4}": "Medium"})
    offers = [an_offer(region, Market.SPOT) for region in ("eastus", "westus3", "northeurope")]
    assert isinstance(world.provider, ObtainabilityTeller)
    told = world.provider.obtainability([*offers, an_offer("eastus", Market.ON_DEMAND)])
    assert {placement.region: known.grade for placement, known in told.items()} == {
        "eastus": "good", "westus3": "poor", "northeurope": "uncertain",
    }  # fmt: skip
    known = told[MachinePlacement("azure", "westus3", T4, "spot")]
    assert known.ground == "placement score Low for one spot machine in the region"
    assert known.as_of == world.provider.now().date()
    assert len(world.calls("POST")) == 1


@pytest.mark.parametrize("score", ["DataNotFoundOrStale", "RestrictedSkuNotAvailable"])
def test_a_score_that_tells_nothing_is_left_out(make_world: MakeWorld, score: str) -> None:
    world = make_world(spot_scores={f"eastus/{T4}": score})
    assert world.provider.obtainability([an_offer("eastus", Market.SPOT)]) == {}


def test_a_request_has_no_more_sizes_and_regions_than_azure_takes(make_world: MakeWorld) -> None:
    world = make_world()
    sizes = ["Standard_D2s_v3", "Standard_D4s_v3", "Standard_D8s_v3", "Standard_D2s_v5", "Standard_D4s_v5", T4]
    offers = [replace(an_offer("eastus", Market.SPOT), instance_type=size) for size in sizes]
    assert len(world.provider.obtainability(offers)) == 6
    assert len(world.calls("POST")) == 2


def test_on_demand_is_not_asked_about(make_world: MakeWorld) -> None:
    world = make_world()
    assert world.provider.obtainability([an_offer("eastus", Market.ON_DEMAND)]) == {}
    assert world.calls("POST") == []


def test_without_the_permission_it_is_an_error(make_world: MakeWorld) -> None:
    world = make_world(granted=[{"actions": ["*/read"], "notActions": []}])
    with pytest.raises(PermissionDeniedError, match="placementScores/generate/action"):
        world.provider.obtainability([an_offer("eastus", Market.SPOT)])
