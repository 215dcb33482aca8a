"""A new subscription: 10 cores in a region, none with accelerators, nothing registered and nothing set up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.contract.harness import Ask, request
from tests.unit.providers.azure.conftest import Client
from tests.unit.providers.azure.test_requests import offer_of
from tests.unit.providers.azure.test_setup import set_up
from trainplan.pricing.offers import Market
from trainplan.providers.azure.api import replayed
from trainplan.providers.azure.names import NAMESPACES
from trainplan.providers.base import Check, InstanceState, PreflightState
from trainplan.providers.errors import PermissionDeniedError

MakeWorld = Callable[..., "Client"]


@pytest.fixture
def new(make_world: MakeWorld) -> Client:
    world = make_world()
    world.azure.control("reset", first_day=True)
    return world


def quotas(world: Client, **options: str) -> Check:
    first = world.another(**options).doctor()[0]
    assert first.name == "quotas"
    return first


def test_nothing_is_made_before_its_provider_is_registered(new: Client) -> None:
    with pytest.raises(PermissionDeniedError) as caught:
        new.provider.account.quotas("eastus")
    assert caught.value.code == "MissingSubscriptionRegistration"
    assert "plan setup azure" in caught.value.hint


def test_the_doctor_names_quotas_first_with_where_to_ask_and_what_works_meanwhile(new: Client) -> None:
    assert "`region`" in quotas(new).fix
    assert "plan setup azure" in quotas(new, region="eastus").fix
    set_up(new)
    told = quotas(new)
    assert told.state is PreflightState.UNKNOWN
    assert "eastus: 10 cores in all, 0 on spot; none of standardNCASv3_T4Family vCPUs" in told.detail
    assert "https://portal.azure.com/" in told.fix
    assert "days" in told.fix
    assert "up to 10 cores: --device cpu" in told.fix


def state_of_registration(world: Client) -> Check:
    return next(check for check in world.another(region="eastus").doctor() if check.name == "resource providers")


def test_registration_takes_minutes_and_the_doctor_says_so(new: Client) -> None:
    assert state_of_registration(new).state is PreflightState.REFUSED
    provider = new.another(region="eastus")
    (first, *_) = provider.lacking()
    account = provider.account
    for call in first.calls:
        account.arm.send(replayed(call))
    told = state_of_registration(new)
    assert told.state is PreflightState.UNKNOWN
    assert "being registered, region by region: Microsoft.Compute" in told.detail
    assert "wait some minutes" in told.fix
    with pytest.raises(PermissionDeniedError):
        account.quotas("eastus")
    assert "resource providers" not in [step.name for step in new.another(region="eastus").lacking()]
    new.provider.sleep(90)
    assert state_of_registration(new).state is PreflightState.OK


def test_set_up_asks_for_all_resource_providers_at_once_and_waits_with_one_line(new: Client) -> None:
    said: list[str] = []
    provider = new.another(region="eastus")
    (first, *_) = provider.lacking()
    began = new.azure.now()
    provider.carry_out(first, said.append)
    assert timedelta(seconds=90) <= new.azure.now() - began < timedelta(seconds=120)
    (line,) = said
    assert all(name in line for name in NAMESPACES)
    assert "Registering" in line


def test_set_up_does_not_wait_for_registration_without_an_end(make_world: MakeWorld) -> None:
    """Some subscriptions are `Registering` for hours, and in use meanwhile (Microsoft's page on resource providers)."""
    world = make_world()
    world.azure.control("reset", first_day=True)
    world.rules(registration=24 * 3600)
    said: list[str] = []
    provider = world.another(region="eastus")
    (first, *_) = provider.lacking()
    began = world.azure.now()
    provider.carry_out(first, said.append)
    assert world.azure.now() - began <= timedelta(minutes=6)
    assert "still Registering" in said[-1]


def test_a_grown_subscription_has_no_such_trouble(world: Client) -> None:
    told = quotas(world)
    assert told.state is PreflightState.OK
    assert "1000 of standardNCASv3_T4Family vCPUs" in told.detail


def test_placements_whose_quota_is_too_small_are_told_without_a_create(new: Client) -> None:
    set_up(new)
    offers = [
        offer_of("Standard_NC4as_T4_v3", Market.ON_DEMAND),
        offer_of("Standard_NC4as_T4_v3", Market.SPOT),
        offer_of("Standard_D4as_v5", Market.ON_DEMAND),
        offer_of("Standard_NC4as_T4_v3", Market.ON_DEMAND, "westeurope"),
    ]
    told = new.provider.shortfalls(offers)
    assert list(told) == [
        "standardNCASv3_T4Family vCPUs in eastus: 0 cores",
        "lowPriorityCores vCPUs in eastus: 0 cores",
        "",
        "standardNCASv3_T4Family vCPUs in westeurope: 0 cores",
    ]
    assert not [call for call in new.calls("PUT") if "virtualMachines" in call]


def test_who_does_not_tell_leaves_nothing_out(world: Client) -> None:
    world.script("GET usages", code="AuthorizationFailed", times=None)
    assert list(world.provider.shortfalls([offer_of("Standard_NC4as_T4_v3", Market.ON_DEMAND)])) == [""]


def test_after_set_up_a_small_machine_is_launched(new: Client) -> None:
    set_up(new)
    provider = replace(new).provider
    small = offer_of("Standard_D2as_v5", Market.ON_DEMAND)
    run = provider.resolve(replace(request(provider, Ask()), offer=small, resolution=None))
    assert provider.launch(run).state is InstanceState.RUNNING
