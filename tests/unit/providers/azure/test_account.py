"""What the account says before a launch: preflight and doctor, line by line, and that it is asked only once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from threading import Event
from typing import Any, NoReturn

import pytest

from tests.contract.harness import Ask, request
from tests.doubles.azure.rules import PERSON, STUDENTS, SUBSCRIPTION
from tests.doubles.clock import NOON
from tests.doubles.limit import limit_after
from tests.faults.azure import an_offer
from tests.unit.providers.azure.conftest import Client
from trainplan.pricing.offers import Lifecycle, LifecycleState, Market
from trainplan.providers.azure import doctor, preflight
from trainplan.providers.azure.api import ArmClient, Call, claims, kind_of, namespace_of
from trainplan.providers.azure.provider import make
from trainplan.providers.azure.settings import AzureSettings
from trainplan.providers.base import Check, PreflightState, ProviderSettings
from trainplan.providers.errors import (
    BadRequestError,
    CapacityError,
    CredentialsError,
    InstanceNotFoundError,
    MachineError,
    PermissionDeniedError,
    TransientError,
)

MakeWorld = Callable[..., "Client"]
OK, REFUSED, UNKNOWN = PreflightState.OK, PreflightState.REFUSED, PreflightState.UNKNOWN
CONTRIBUTOR = {
    "actions": ["*"],
    "notActions": ["Microsoft.Authorization/*/Delete", "Microsoft.Authorization/*/Write"],
}
READER = {"actions": ["*/read"], "notActions": []}


def line(world: Client, name: str, market: Market = Market.ON_DEMAND) -> Check:
    (found,) = [one for one in world.provider.preflight(an_offer("eastus", market)).checks if one.name == name]
    return found


def test_an_account_that_is_ready_lets_a_launch_in(world: Client) -> None:
    for market in Market:
        preflight = world.provider.preflight(an_offer("eastus", market))
        assert preflight.state is OK, preflight


@pytest.mark.parametrize(
    ("rules", "name", "state", "says", "fix"),
    [
        ({"state": "Disabled"}, "subscription", REFUSED, "Disabled", "https://"),
        ({"unregistered": ["Microsoft.ComputeSchedule"]}, "resource providers", REFUSED, "ComputeSchedule", "setup"),
        ({"granted": [READER]}, "permission", REFUSED, "virtualMachines/write", "docs/permissions/azure"),
        ({"granted": [CONTRIBUTOR]}, "permission", OK, "may launch", ""),
        ({"granted": [CONTRIBUTOR]}, "self-deletion", UNKNOWN, "Contributor may not", "Administrator"),
        ({"restricted": [["eastus", "Standard_NC4as_T4_v3"]]}, "offered here", REFUSED, "NotAvailable", "region"),
        ({"limits": {"eastus/standardNCASv3_T4Family": 3}}, "quota", REFUSED, "0 of 3 used", "to at least 4"),
        ({"limits": {"eastus/cores": 0}}, "quota", REFUSED, "cores", "https://"),
    ],
)
def test_each_line_says_what_is_wrong_and_what_to_do(
    make_world: MakeWorld, rules: dict[str, Any], name: str, state: PreflightState, says: str, fix: str
) -> None:
    found = line(make_world(**rules), name)
    assert found.state is state
    assert says in found.detail
    assert fix in found.fix


def test_spot_counts_its_own_quota_alone(make_world: MakeWorld) -> None:
    world = make_world(limits={"eastus/lowPriorityCores": 2})
    assert line(world, "quota", Market.SPOT).state is REFUSED
    assert "lowPriorityCores" in line(world, "quota", Market.SPOT).detail
    assert line(world, "quota").state is OK


@pytest.mark.parametrize(
    ("quota_id", "name", "is_fixed"),
    [
        ("FreeTrial_2014-09-01", "a free trial", True),
        (STUDENTS, "Azure for Students", True),
        ("AzurePass_2014-09-01", "an Azure Pass", False),
        ("Sponsored_2016-01-01", "", False),
        ("Internal_2014-09-01", "", False),
        ("", "", False),
    ],
)
def test_what_a_subscription_on_a_credit_may_not_get_is_told_before_a_create(
    make_world: MakeWorld, quota_id: str, name: str, is_fixed: bool
) -> None:
    """Sponsored subscriptions are on Microsoft's list of those with spot; of what is unknown nothing is said."""
    world = make_world(quota_id=quota_id, limits={"eastus/standardNCASv3_T4Family": 0})
    on_demand, spot = an_offer("eastus", Market.ON_DEMAND), an_offer("eastus", Market.SPOT)
    told = world.provider.doubts([on_demand, spot])
    assert told[0] == ""
    assert told[1].startswith(name) if name else told[1] == ""
    lines = {one.name: one for one in world.provider.preflight(spot).checks}
    assert (lines["spot"].state is UNKNOWN) if name else ("spot" not in lines)
    assert name in lines["subscription"].detail
    assert lines["subscription"].state is OK
    raised = line(world, "quota").fix
    assert ("make it pay-as-you-go first" in raised) is is_fixed
    assert "at least 4" in raised


def test_a_spending_limit_is_told_and_spot_is_refused_by_the_double(make_world: MakeWorld) -> None:
    world = make_world(quota_id=STUDENTS)
    assert "Azure stops what runs when the credit is used up" in line(world, "subscription").detail
    with pytest.raises(BadRequestError, match="Spot"):
        world.provider.launch(world.request(market=Market.SPOT))


def test_what_is_not_offered_in_a_region_is_refused(world: Client) -> None:
    there = replace(an_offer("eastus", Market.ON_DEMAND), instance_type="Standard_ND96asr_v4")
    (found,) = [one for one in world.provider.preflight(there).checks if one.name == "offered here"]
    assert (found.state, "Standard_ND96asr_v4 in eastus" in found.detail) == (REFUSED, True)


def test_a_retired_size_is_told_with_date_and_successor(world: Client) -> None:
    """plan estimate leaves it out; --allow-retired comes this far."""
    gone = Lifecycle(state=LifecycleState.RETIRED, date=date(2025, 9, 30), successor="Standard_NC24ads_A100_v4")
    there = replace(an_offer("eastus", Market.ON_DEMAND), instance_type="Standard_NC6s_v3", lifecycle=gone, vcpus=6)
    (found,) = [one for one in world.provider.preflight(there).checks if one.name == "lifecycle"]
    assert found.state is UNKNOWN
    assert "2025-09-30" in found.detail
    assert "Standard_NC24ads_A100_v4" in found.detail


def test_the_second_offer_costs_no_call(world: Client) -> None:
    world.provider.preflight(an_offer("eastus", Market.ON_DEMAND))
    asked = len(world.calls())
    world.provider.preflight(replace(an_offer("eastus", Market.SPOT), instance_type="Standard_NC40ads_H100_v5"))
    assert len(world.calls()) == asked


def test_what_does_not_answer_is_unknown_and_asked_again(world: Client) -> None:
    world.script("GET usages", code="InternalServerError")
    assert line(world, "quota").state is UNKNOWN
    assert line(world, "quota").state is OK


def test_a_look_up_that_failed_for_a_moment_does_not_stop_a_launch(world: Client) -> None:
    world.script("GET userAssignedIdentities", code="InternalServerError")
    with pytest.raises(TransientError):
        world.request()
    assert world.request().resolution.identity


def test_a_sign_in_that_has_ended_is_refused(world: Client) -> None:
    world.script("*", code="ExpiredAuthenticationToken", times=None)
    found = line(world, "subscription")
    assert (found.state, found.fix) == (REFUSED, "az login")


def test_a_region_without_scheduled_deallocates_is_a_placement_without_room(make_world: MakeWorld) -> None:
    """Its machines would have no timer of Azure's behind them; another placement of the plan may."""
    world = make_world(no_timers_in=["eastus"])
    with pytest.raises(CapacityError, match="ComputeSchedule") as caught:
        world.request()
    assert "cloud_timer" in caught.value.hint
    assert world.remaining() == []
    found = line(world, "deadline timer")
    assert (found.state, found.fix) == (REFUSED, caught.value.hint)
    alone = world.another(cloud_timer="none")
    assert request(alone, Ask()).resolution.identity


def test_a_region_with_them_has_the_line_and_no_trouble(world: Client) -> None:
    assert line(world, "deadline timer").state is OK


def test_the_doctor_looks_at_everything_and_makes_nothing(world: Client) -> None:
    checks = world.provider.doctor()
    assert [check.state for check in checks] == [OK] * len(checks)
    assert {check.name for check in checks} >= {"subscription", "set-up", "run directories", "granting"}
    assert [call for call in world.calls() if not call.startswith("GET")] == []


def test_machines_without_any_right_to_the_container_are_not_made(make_world: MakeWorld) -> None:
    """Such a machine was taken for a lost one, at its boot deadline, and tried again in the next placement."""
    world = make_world()
    world.azure.control("reset", set_up=False)
    for step in world.another(region="eastus").lacking()[:-2]:
        world.another(region="eastus").carry_out(step, lambda _: None)
    with pytest.raises(PermissionDeniedError, match="nobody has granted the machines' identity a right") as caught:
        world.request()
    assert "plan setup azure" in caught.value.hint
    world.script("GET roleAssignments", code="AuthorizationFailed", times=None)
    assert replace(world).request().resolution.identity


def test_the_doctor_misses_what_machines_write_with(make_world: MakeWorld) -> None:
    world = make_world()
    world.azure.control("reset", set_up=False)
    found = {check.name: check for check in world.another(region="eastus").doctor()}
    assert found["set-up"].state is found["machines' data"].state is REFUSED
    for step in world.another(region="eastus").lacking()[:-2]:
        world.another(region="eastus").carry_out(step, lambda _: None)
    found = {check.name: check for check in world.another(region="eastus").doctor()}
    assert (found["set-up"].state, found["machines' data"].state) == (OK, REFUSED)
    assert "plan setup azure" in found["machines' data"].fix


def test_the_doctor_waits_for_nobody(world: Client) -> None:
    held = Event()

    class Silent:
        uri = "azblob://a/b/runs/doctor"

        def list(self) -> list[str]:
            held.wait(600)
            return []

    silent = replace(world.provider.rented, store=lambda _: Silent())  # type: ignore[arg-type, return-value]
    lines = len(world.provider.doctor())
    checks = doctor.examine(world.provider.account, silent, lambda: True, lambda: None, limit_after(lines - 1))
    held.set()
    assert [check.name for check in checks if check.detail == "no answer within 600 s"] == ["run directories"]
    assert {check.name: check.state for check in checks}["run directories"] is UNKNOWN
    assert len(checks) == lines


def test_the_preflight_waits_for_no_line_that_hangs(world: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    held, account, offer = Event(), world.provider.account, an_offer("eastus", Market.ON_DEMAND)
    lines = [check.name for check in world.provider.preflight(offer).checks]

    def silent(region: str) -> NoReturn:
        held.wait(600)
        raise TransientError("too late")

    monkeypatch.setattr(account, "quotas", silent)
    checks = preflight.checks(account, offer, limit_after(len(lines)))  # the region's line is there and says nothing
    held.set()
    assert [check.name for check in checks] == lines
    assert {check.name: check.state for check in checks} == {name: UNKNOWN if name == "quota" else OK for name in lines}


def test_the_doctor_says_what_a_contributor_cannot_have(make_world: MakeWorld) -> None:
    world = make_world(granted=[CONTRIBUTOR])
    granting = next(check for check in world.provider.doctor() if check.name == "granting")
    assert granting.state is UNKNOWN
    assert "cannot delete their groups" in granting.detail
    assert "owner" in granting.fix


def test_a_contributor_launches_without_the_right_to_grant(make_world: MakeWorld) -> None:
    world = make_world(granted=[CONTRIBUTOR])
    world.provider.launch(world.request())
    assert "role_assignment" not in world.remaining()
    assert "machine" in world.remaining()


def test_the_sign_in_is_the_environments_service_principal(world: Client) -> None:
    """Through azure-identity, against the double's directory."""
    assert world.provider.account.arm.person() == PERSON


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "a.e30.c", "a.W10.c"])
def test_a_token_that_tells_nothing_tells_nothing(token: str) -> None:
    assert claims(token) == {}


def test_the_only_subscription_is_taken(world: Client, tmp_path: Path) -> None:
    given = {key: value for key, value in world.azure.options.items() if key != "subscription"}
    settings = ProviderSettings(home=tmp_path, options=given, environment=world.azure.environment, now=lambda: NOON)
    assert make(settings).account.subscription == SUBSCRIPTION


def test_nobody_answers(tmp_path: Path) -> None:
    class Nobody:
        def get_token(self, *_: str, **__: object) -> object:
            from azure.core.credentials import AccessToken

            return AccessToken("token", 2**40)

    arm = ArmClient(AzureSettings(subscription=SUBSCRIPTION, arm_endpoint="https://127.0.0.1:1"), credential=Nobody)
    with pytest.raises(TransientError, match="does not answer"):
        arm.send(Call(method="GET", path="/subscriptions", api="2022-12-01"))
    with pytest.raises(TransientError):
        arm.fetch("https://127.0.0.1:1/signed")


def test_a_console_whose_address_is_not_valid_any_more_is_not_asked_for_again(world: Client) -> None:
    with pytest.raises(InstanceNotFoundError, match="403"):
        world.provider.account.arm.fetch(f"{world.azure.url}/signed/i-1?sig=0")


def test_nobody_is_signed_in(world: Client) -> None:
    class Gone:
        def get_token(self, *_: str, **__: object) -> object:
            from azure.core.exceptions import ClientAuthenticationError

            raise ClientAuthenticationError("Please run 'az login' to set up an account\nand more")

    settings = AzureSettings(subscription=SUBSCRIPTION, arm_endpoint=world.azure.url)
    with pytest.raises(CredentialsError, match="there is no sign-in for Azure") as caught:
        ArmClient(settings, credential=Gone).send(Call(method="GET", path="/subscriptions", api="2022-12-01"))
    assert caught.value.hint == "az login"


def test_without_the_sdk_the_person_is_told(world: Client) -> None:
    def missing() -> object:
        raise ImportError("No module named 'azure.mgmt.compute'")

    with pytest.raises(MachineError, match="mgmt") as caught:
        ArmClient(AzureSettings(), credential=missing).send(Call(method="GET", path="/subscriptions"))
    assert "[azure]'" in caught.value.hint


@pytest.mark.parametrize(
    ("options", "setting"),
    [
        ({"subscription": "mine"}, "subscription"),
        ({"group": "a/b"}, "group"),
        ({"cloud_timer": "never"}, "cloud_timer"),
        ({"arm_endpoint": "http://127.0.0.1"}, "arm_endpoint"),
        ({"image": "mine"}, "image"),
        ({"machine_endpoints": "arm"}, "machine_endpoints"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_setting_that_is_wrong_is_named(options: dict[str, str], setting: str, tmp_path: Path) -> None:
    with pytest.raises(BadRequestError, match=setting):
        make(ProviderSettings(home=tmp_path, options=options, environment={}, now=lambda: NOON))


def test_a_provider_is_made_without_asking_anybody(tmp_path: Path) -> None:
    provider = make(ProviderSettings(home=tmp_path, options={}, environment={}, now=lambda: NOON))
    assert provider.name == "azure"


@pytest.mark.parametrize(
    ("path", "kind", "namespace"),
    [
        ("/subscriptions/S", "subscriptions", "Microsoft.Resources"),
        ("/subscriptions/S/resourceGroups/G", "resourceGroups", "Microsoft.Resources"),
        ("/subscriptions/S/resourcegroups", "resourcegroups", "Microsoft.Resources"),
        ("/subscriptions/S/resourceGroups/G/resources", "resources", "Microsoft.Resources"),
        ("/subscriptions/S/providers/Microsoft.Compute", "providers", "Microsoft.Compute"),
        ("/subscriptions/S/providers/Microsoft.Compute/register", "register", "Microsoft.Compute"),
        ("/s/S/resourceGroups/G/providers/Microsoft.Compute/virtualMachines/V", "virtualMachines", "Microsoft.Compute"),
        ("/s/S/resourceGroups/G/providers/Microsoft.Compute/virtualMachines/V/start", "start", "Microsoft.Compute"),
        ("/s/S/providers/Microsoft.Compute/locations/L/usages", "usages", "Microsoft.Compute"),
        ("/s/S/providers/A/b/B/providers/Microsoft.Authorization/roleAssignments/R", "roleAssignments",
         "Microsoft.Authorization"),
    ],
)  # fmt: skip
def test_a_call_is_named_by_what_it_is_about(path: str, kind: str, namespace: str) -> None:
    assert (kind_of(path), namespace_of(path)) == (kind, namespace)
