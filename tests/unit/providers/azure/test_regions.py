"""Regions that are closed to a subscription, and what each of the others answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.doubles.azure.rules import REGIONS
from tests.faults.azure import an_offer
from tests.unit.providers.azure.conftest import Client
from trainplan.pricing.offers import Market
from trainplan.providers.base import Check, PreflightState
from trainplan.providers.errors import CapacityError

MakeWorld = Callable[..., "Client"]
FIVE = ["eastus", "westus3", "northeurope", "westeurope", "australiacentral"]


def regions_of(world: Client) -> Check:
    return next(check for check in world.another(region="eastus").doctor() if check.name == "regions")


def test_the_doctor_lists_every_regions_answer_in_one_line(make_world: MakeWorld) -> None:
    world = make_world(limits={"*/cores": 10, "westeurope/cores": 0})
    told = regions_of(world)
    assert told.state is PreflightState.OK
    assert told.detail == "10 cores: australiacentral, eastus, northeurope, westus3; 0 cores: westeurope"


def test_a_region_that_refuses_is_in_the_line_with_its_code(world: Client) -> None:
    world.script("GET usages", code="AuthorizationFailed", times=None)
    told = regions_of(world)
    assert told.detail == f"AuthorizationFailed: {', '.join(sorted(FIVE))}"
    assert told.state is PreflightState.UNKNOWN


def test_regions_beyond_a_policy_of_the_subscription_are_told_and_not_asked(make_world: MakeWorld) -> None:
    world = make_world(allowed_regions=["eastus", "westus3"])
    told = regions_of(world)
    assert told.detail == (
        "1000 cores: eastus, westus3; closed: 3 others (a policy of the subscription allows eastus, westus3 alone)"
    )
    assert "`region`" in told.fix
    assert not [call for call in world.calls("GET") if "westeurope/usages" in call]


def test_the_setting_leaves_regions_out(world: Client) -> None:
    provider = world.another(regions="eastus,westus3")
    told = next(check for check in provider.doctor() if check.name == "regions")
    assert told.detail == "1000 cores: eastus, westus3"
    run = replace(world.request(), offer=an_offer("westeurope", Market.ON_DEMAND), resolution=None)
    with pytest.raises(CapacityError, match="westeurope is not in the setting `regions`"):
        provider.resolve(run)


def test_preflight_refuses_a_region_that_a_policy_closes(make_world: MakeWorld) -> None:
    world = make_world(allowed_regions=["westus3"])
    told = world.provider.preflight(an_offer("eastus", Market.ON_DEMAND))
    (check,) = [check for check in told.checks if check.name == "region"]
    assert (told.state, check.state) == (PreflightState.REFUSED, PreflightState.REFUSED)
    assert check.detail == "eastus: a policy of the subscription allows westus3 alone"
    there = world.provider.preflight(an_offer("westus3", Market.ON_DEMAND))
    assert "region" not in [check.name for check in there.checks]


def test_closed_regions_are_told_by_the_policy_alone(make_world: MakeWorld) -> None:
    world = make_world(allowed_regions=["eastus"])
    assert set(world.provider.closed_regions(FIVE)) == {*FIVE} - {"eastus"}
    assert make_world().provider.closed_regions(list(REGIONS)) == {}


def test_who_may_not_read_policies_keeps_every_region(make_world: MakeWorld) -> None:
    world = make_world(allowed_regions=["eastus"])
    world.script("GET policyAssignments", code="AuthorizationFailed", times=None)
    assert world.provider.closed_regions(FIVE) == {}


def test_a_region_that_azure_closes_is_a_placement_without_room_and_nothing_is_left(make_world: MakeWorld) -> None:
    """Some regions take no new customers, and no policy says so (reported of West Europe): another region may do."""
    world = make_world(allowed_regions=["westus3"])
    with pytest.raises(CapacityError, match="disallowed by Azure") as caught:
        world.provider.launch(world.request())
    assert caught.value.code == "RequestDisallowedByAzure"
    assert world.remaining() == []
    run = world.request()
    elsewhere = replace(run, attempt=2, offer=an_offer("westus3", Market.ON_DEMAND), resolution=None)
    provider = world.another()
    assert provider.launch(provider.resolve(elsewhere)).run_id == run.run_id
