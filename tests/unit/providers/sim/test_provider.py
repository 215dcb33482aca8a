"""The provider over the simulated cloud: every code has its error, every list is whole or says that it is not."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.contract.harness import Ask, launched, request
from tests.contract.sim import DirectApi, NamedTrainer
from tests.doubles.clock import NOON
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.devices import CPU_DEVICE
from trainplan.pricing.grades import PriceGrade
from trainplan.pricing.offers import OfferQuery
from trainplan.providers.abilities import Resolver, Timekeeper
from trainplan.providers.base import EndKind, InstanceState, PreflightState, RunId
from trainplan.providers.errors import (
    BadRequestError,
    CapacityError,
    CredentialsError,
    IncompleteListingError,
    InstanceNotFoundError,
    PermissionDeniedError,
    ProviderError,
    QuotaError,
    ThrottledError,
    TransientError,
    UnrecognizedError,
)
from trainplan.providers.sim.calls import call
from trainplan.providers.sim.catalogue import TYPES, ZONES
from trainplan.providers.sim.provider import SimProvider
from trainplan.providers.sim.scenario import Scenario, Script
from trainplan.providers.sim.values import Code, Kind
from trainplan.providers.sim.world import World

ERRORS = {
    Code.BAD_PARAMETER: BadRequestError,
    Code.UNKNOWN_OPERATION: BadRequestError,
    Code.TOKEN_MISMATCH: BadRequestError,
    Code.NO_CAPACITY: CapacityError,
    Code.QUOTA: QuotaError,
    Code.THROTTLED: ThrottledError,
    Code.EXPIRED: CredentialsError,
    Code.DENIED: PermissionDeniedError,
    Code.INTERNAL: TransientError,
    Code.UNAVAILABLE: TransientError,
    Code.NO_INSTANCE: InstanceNotFoundError,
}
FROM_ELSEWHERE = {Code.NO_OBJECT: "a KeyError of the store", Code.IN_USE: "no error: it goes with its machine"}


class Cloud:
    """A provider and the world behind it."""

    def __init__(self, **scenario: Any) -> None:
        rules = Scenario.model_validate({"reclaims_per_hour": 0} | scenario)
        self.world = World(rules, NOON, NamedTrainer())
        self.provider = SimProvider(rules, DirectApi(self.world))

    def script(self, **fault: Any) -> None:
        self.world.play(Script.model_validate({"faults": [fault]}))

    def befall(self, event: str) -> None:
        self.world.play(Script.model_validate({"incidents": [{"event": event, "after": "1m"}]}))


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


def test_every_code_has_its_error_or_a_reason_to_have_none() -> None:
    assert set(ERRORS) | set(FROM_ELSEWHERE) == set(Code)


@pytest.mark.parametrize(("code", "error"), [*ERRORS.items(), ("SomethingNew", UnrecognizedError)])
def test_a_code_becomes_its_error(cloud: Cloud, code: str, error: type[ProviderError]) -> None:
    run = request(cloud.provider)
    cloud.script(operation="RunInstance", code=code)
    with pytest.raises(error) as caught:
        cloud.provider.launch(run)
    assert type(caught.value) is error
    assert caught.value.code == code
    assert caught.value.hint or error is InstanceNotFoundError


def test_capacity_and_quota_name_what_helps() -> None:
    cloud = Cloud(stock=1, quotas=[{"market": "spot", "devices": 0}])
    run = replace(request(cloud.provider), zone="sim-east-a")
    cloud.provider.launch(run)
    with pytest.raises(CapacityError) as caught:
        cloud.provider.launch(replace(run, attempt=2))
    assert caught.value.elsewhere == ("sim-east-b", "sim-east-c")
    spot = next(offer for offer in cloud.provider.offers(OfferQuery(markets=frozenset({"spot"}))))
    assert cloud.provider.preflight(spot).state is PreflightState.REFUSED
    with pytest.raises(QuotaError) as refused:
        cloud.provider.launch(replace(run, offer=spot, attempt=3))
    assert refused.value.quota == "t4-spot-devices/sim-east"


@pytest.mark.parametrize(
    ("code", "state"),
    [("ExpiredCredentials", PreflightState.REFUSED), ("AccessDenied", PreflightState.REFUSED),
     ("InternalError", PreflightState.UNKNOWN)],
)  # fmt: skip
def test_preflight_tells_no_from_perhaps(cloud: Cloud, code: str, state: PreflightState) -> None:
    cloud.script(operation="GetIdentity", code=code)
    assert cloud.provider.preflight(cloud.provider.offers(OfferQuery())[0]).state is state


@pytest.mark.parametrize(
    "fault",
    [
        {"operation": "ListInstances", "where": {"region": "sim-west"}, "code": "PlacementUnavailable"},
        {"operation": "ListInstances", "where": {"pageToken": "*"}},
        {"operation": "ListDisks", "where": {"region": "sim-north"}, "code": "AccessDenied"},
        {"operation": "ListSchedules", "effect": "lost_reply"},
        {"operation": "ListAddresses", "effect": "warning"},
        {"operation": "ListInstances", "code": "Throttled", "skip": 2},
    ],
)
def test_a_list_that_is_not_whole_says_so(fault: dict[str, Any]) -> None:
    cloud = Cloud(page_size=1)
    for number in (1, 2, 3):
        launched(cloud.provider, request(cloud.provider, Ask(attempt=number)))
    whole = {owned.id for owned in cloud.provider.list_owned()}
    cloud.script(**fault)
    with pytest.raises(IncompleteListingError) as caught:
        cloud.provider.list_owned()
    assert len(caught.value.unanswered) == 1
    assert {owned.id for owned in caught.value.resources} <= whole
    assert caught.value.resources
    assert len(whole) == 9


def test_expired_credentials_are_no_unanswered_placement(cloud: Cloud) -> None:
    cloud.script(operation="ListDisks", code="ExpiredCredentials")
    with pytest.raises(CredentialsError):
        cloud.provider.list_owned()


def test_what_outlives_its_instance_is_found_and_deleted() -> None:
    cloud = Cloud(disks_stay=True, addresses_stay=True, standing_reaper=False)
    provider = cloud.provider
    ref = launched(provider, request(provider)).ref
    provider.delete(ref)
    provider.sleep(600)
    left = provider.list_owned(RunId("r1"))
    assert {owned.kind for owned in left} == set(Kind)
    assert not any(owned.instance for owned in left)
    for owned in (*left, *left):
        provider.delete(owned)
    provider.sleep(10)
    assert provider.list_owned() == []


def test_what_is_not_ours_is_not_listed(cloud: Cloud) -> None:
    provider = cloud.provider
    asked = dict(
        next(call for call in provider.requests(request(provider)) if call.operation == "RunInstance").parameters
    )
    call(cloud.world, "RunInstance", {**asked, "clientToken": "theirs", "labels": {"team": "other"}})
    provider.sleep(60)
    assert provider.list_owned() == []
    assert call(cloud.world, "ListInstances", {"region": "sim-east"})["items"]


def test_a_cloud_without_a_reaper_has_a_gap_and_names_it() -> None:
    provider = Cloud(standing_reaper=False).provider
    run = request(provider)
    assert [call.operation for call in provider.requests(run)] == ["PutObject", "RunInstance", "CreateSchedule"]
    assert provider.timers(run).gap
    assert not Cloud().provider.timers(run).gap
    assert provider.timers(run).cloud == run.deadline + timedelta(minutes=5)


def test_a_replay_makes_good_for_a_schedule_that_is_missing() -> None:
    cloud = Cloud(standing_reaper=False)
    run = request(cloud.provider)
    cloud.script(operation="CreateSchedule")
    with pytest.raises(TransientError):
        cloud.provider.launch(run)
    launched(cloud.provider, run)
    assert {owned.kind for owned in cloud.provider.list_owned()} == {"instance", *Kind}


@pytest.mark.parametrize(
    ("event", "end"),
    [
        ("reclaim", EndKind.RECLAIMED),
        ("maintenance", EndKind.RECLAIMED),
        ("lose_device", EndKind.DEVICE_LOST),
        ("crash", EndKind.LOST),
    ],
)
def test_how_an_interruption_is_told(cloud: Cloud, event: str, end: EndKind) -> None:
    provider = cloud.provider
    ref = provider.launch(request(provider)).ref
    cloud.befall(event)
    provider.sleep(600)
    told = provider.get(ref)
    assert (told.state, told.end) == (InstanceState.ENDED, end)
    assert told.reason
    listed = [owned.id for owned in provider.list_owned() if owned.instance]
    assert listed == ([ref.id] if event == "maintenance" else [])


def test_a_stopped_machine_costs_nothing_and_its_disk_does(cloud: Cloud) -> None:
    provider = cloud.provider
    launched(provider, request(provider))
    prices = {owned.kind: owned.usd_per_hour for owned in provider.list_owned()}
    assert prices["instance"] == provider.offers(OfferQuery())[0].usd_per_hour
    cloud.befall("maintenance")
    provider.sleep(600)
    later = {owned.kind: owned.usd_per_hour for owned in provider.list_owned()}
    assert later == prices | {"instance": 0}


def test_logs_and_files_are_there_while_it_trains(cloud: Cloud) -> None:
    provider = cloud.provider
    run = request(provider, Ask(behaviour="a-real-job"))
    ref = provider.launch(run).ref
    provider.sleep(100)
    assert "training a-real-job" in list(provider.logs(ref))
    assert provider.store(run.run_id).get("attempts/1/log/output.log").startswith(b"training")


def test_calls_that_make_nothing_are_no_launch(cloud: Cloud) -> None:
    run = request(cloud.provider)
    with pytest.raises(BadRequestError):
        cloud.provider.launch(replace(run, calls=tuple(cloud.provider.requests(run))[:1]))


def test_it_keeps_its_own_time_and_looks_things_up(cloud: Cloud) -> None:
    assert isinstance(cloud.provider, Timekeeper)
    assert isinstance(cloud.provider, Resolver)


def test_offers_are_of_devices_that_exist_and_say_that_they_are_simulated(cloud: Cloud) -> None:
    offers = cloud.provider.offers(OfferQuery())
    assert len(offers) == len(TYPES) * len(ZONES) * 2
    with Catalog.open() as catalog:
        devices = catalog.devices
    for offer in offers:
        assert offer.device == CPU_DEVICE or offer.device in devices
        assert (offer.price_grade, offer.price_source) == (PriceGrade.ESTIMATED, "simulated")
        assert offer.usd_per_hour == offer.planning_usd_per_hour <= offer.on_demand_usd_per_hour  # type: ignore[operator]
        assert offer.zones == ZONES[offer.region]
