"""Machines of Compute Engine over its double: asked for once, found dead or alive, ended whatever happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.contract.gcp import OFFER, PROJECT, Client
from tests.unit.providers.gcp.conftest import World
from tests.unit.providers.gcp.placements import ZONE, an_offer, in_zone, spot
from trainplan.pricing.offers import OfferQuery
from trainplan.providers.base import EndKind, InstanceRef, InstanceState, LaunchRequest, ProviderSettings, RunId
from trainplan.providers.errors import (
    BadRequestError,
    CapacityError,
    IncompleteListingError,
    InstanceNotFoundError,
    QuotaError,
    TransientError,
)
from trainplan.providers.gcp.account import GcpAccount
from trainplan.providers.gcp.api import GoogleApi
from trainplan.providers.gcp.provider import make
from trainplan.providers.gcp.settings import GcpSettings

INSERT, LIST = "compute.instances.insert", "compute.instances.aggregatedList"


def launched(world: World, request: LaunchRequest) -> InstanceRef:
    ref = world.provider.launch(request).ref
    world.google.sleep(30)
    return ref


def is_gone(world: World, ref: InstanceRef) -> bool:
    try:
        world.another().get(ref)
    except InstanceNotFoundError:
        return True
    return False


# --- asking for a machine --------------------------------------------------------------------------------------------


def test_a_stockout_recommends_zones_and_leaves_nothing(make_world: Callable[..., World]) -> None:
    world = make_world(stock={"us-central1-a": 0, "us-central1-b": 0})
    with pytest.raises(CapacityError) as caught:
        world.provider.launch(in_zone(world))
    assert caught.value.elsewhere == ("us-central1-c", "us-central1-f")
    assert caught.value.code == "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"
    world.google.sleep(60)
    assert world.provider.list_owned() == []


def test_the_same_answer_comes_for_the_same_attempt(make_world: Callable[..., World]) -> None:
    """Also where there is room by now: another placement, or another attempt, is what the caller asks for next."""
    world = make_world(stock={"us-central1": 0})
    run = in_zone(world)
    for _ in range(2):
        with pytest.raises(CapacityError):
            world.provider.launch(run)
    assert len(world.calls(INSERT)) == 1


def test_a_quota_is_named(make_world: Callable[..., World]) -> None:
    world = make_world(quotas={"us-central1": {"NVIDIA_T4_GPUS": 0}})
    with pytest.raises(QuotaError) as caught:
        world.provider.launch(in_zone(world))
    assert caught.value.quota == "NVIDIA_T4_GPUS"


def test_spot_counts_in_its_own_quota(make_world: Callable[..., World]) -> None:
    world = make_world(quotas={"us-central1": {"NVIDIA_T4_GPUS": 0, "PREEMPTIBLE_NVIDIA_T4_GPUS": 1}})
    assert world.provider.launch(spot(world)).state is InstanceState.RUNNING


@pytest.mark.parametrize("effect", ["lost_reply", "lost_request"])
def test_a_create_without_an_answer_is_sent_again_and_made_once(world: World, effect: str) -> None:
    run = in_zone(world)
    world.script(INSERT, effect=effect)
    with pytest.raises(TransientError):
        world.provider.launch(run)
    made = world.another().launch(run)
    world.google.sleep(60)
    assert [owned.id for owned in world.provider.list_owned() if owned.instance] == [made.ref.id]


def test_a_machine_of_that_name_which_is_another_is_not_taken_for_ours(world: World) -> None:
    run = in_zone(world)
    account = GcpAccount(GcpSettings(project=PROJECT, endpoint=world.google.url))
    body = dict(run_body(world, run), labels={"team": "others"})
    GoogleApi(account).insert(PROJECT, ZONE, body, "6ba7b810-9dad-11d1-80b4-00c04fd430c8")
    with pytest.raises(BadRequestError) as caught:
        world.provider.launch(run)
    assert caught.value.code == "alreadyExists"


def test_a_machine_of_that_name_which_is_this_attempts_is_taken(world: World) -> None:
    """Its operation is forgotten, as Google forgets them: the name alone is left."""
    run = in_zone(world)
    account = GcpAccount(GcpSettings(project=PROJECT, endpoint=world.google.url))
    GoogleApi(account).insert(PROJECT, ZONE, run_body(world, run), "6ba7b810-9dad-11d1-80b4-00c04fd430c8")
    made = world.provider.launch(run)
    assert (made.attempt, made.state) == (1, InstanceState.PENDING)


def run_body(world: World, run: LaunchRequest) -> dict[str, Any]:
    parameters: Any = world.provider.requests(run)[-1].parameters
    return dict(parameters["body"])


def test_a_dead_attempt_stays_dead_when_its_token_is_forgotten(make_world: Callable[..., World]) -> None:
    world = make_world(token_seconds=60)
    run = in_zone(world, behaviour="finish")
    ref = launched(world, run)
    world.google.sleep(7200)
    assert is_gone(world, ref)
    again = world.another().launch(run)
    assert (again.ref, again.state, again.end) == (ref, InstanceState.ENDED, None)
    assert len(world.calls(INSERT)) == 1


def test_where_operations_cannot_be_filtered_all_are_looked_through(world: World) -> None:
    run = in_zone(world)
    world.script("compute.zoneOperations.list", status=400, code="invalid")
    assert world.provider.launch(run).state is InstanceState.RUNNING
    world.script("compute.zoneOperations.list", status=400, code="invalid")
    assert world.another().launch(run).state is InstanceState.RUNNING
    assert len(world.calls(INSERT)) == 1


def test_a_network_that_is_not_there_is_a_wrong_request(make_world: Callable[..., World]) -> None:
    world = make_world(networks=())
    with pytest.raises(BadRequestError) as caught:
        world.provider.launch(in_zone(world))
    assert "networks/trainplan" in caught.value.message
    assert "plan doctor gcp" in caught.value.hint


def test_what_the_machine_fetches_is_there_before_it_is_made(world: World) -> None:
    world.provider.launch(in_zone(world))
    told = [call["method"] for call in world.google.control("calls")["calls"]]
    assert max(n for n, name in enumerate(told) if name == "storage.objects.insert") < told.index(INSERT)


def test_an_operation_that_takes_long_is_not_waited_for_without_end(make_world: Callable[..., World]) -> None:
    world = make_world(operation_seconds=3600)
    made = world.provider.launch(in_zone(world))
    assert made.state is InstanceState.PENDING
    assert len(world.calls("compute.zoneOperations.wait")) == 3


# --- where -----------------------------------------------------------------------------------------------------------


def test_where_the_plan_names_no_zone_each_attempt_takes_another(world: World) -> None:
    offer = an_offer(OFFER)
    zones = []
    for attempt in (1, 2, 3, 4, 5):
        run = replace(world.request(attempt=attempt), offer=offer, zone=None, resolution=None)
        zones.append(world.provider.resolve(run).resolution.zone)
    assert zones == [f"us-central1-{letter}" for letter in "abcfa"]


def test_a_region_that_does_not_have_it_has_no_room(world: World) -> None:
    offer = replace(an_offer(OFFER), region="europe-north9")
    with pytest.raises(CapacityError) as caught:
        world.provider.resolve(replace(world.request(), offer=offer, resolution=None))
    assert "nvidia-tesla-t4" in caught.value.message


def test_live_zones_replace_what_the_catalog_says(make_world: Callable[..., World]) -> None:
    world = make_world(closed_zones=("us-central1-a",))
    here, nowhere = an_offer(OFFER), replace(an_offer(OFFER), region="europe-north9")
    (refined,) = world.provider.refine([here, nowhere])
    assert refined.zones == ("us-central1-b", "us-central1-c", "us-central1-f")
    assert refined.usd_per_hour == here.usd_per_hour


def test_the_image_is_the_newest_of_its_family_and_is_written_down(world: World) -> None:
    resolution = in_zone(world).resolution
    assert resolution.image.startswith("projects/deeplearning-platform-release/global/images/common-cu129-")
    assert "/family/" not in resolution.image
    assert len(world.calls("compute.images.getFromFamily")) == 1


# --- how it goes -----------------------------------------------------------------------------------------------------


def test_a_machine_that_was_stopped_for_maintenance_is_interrupted_and_can_be_deleted(
    make_world: Callable[..., World],
) -> None:
    world = make_world(incidents=({"event": "maintenance", "after": 20},))
    ref = launched(world, in_zone(world))
    world.google.sleep(30)
    seen = world.provider.get(ref)
    assert (seen.state, seen.end) == (InstanceState.ENDED, EndKind.RECLAIMED)
    assert seen.ended_at is not None
    assert "maintenance" in str(seen.reason)
    world.google.sleep(3 * 3600)  # Google's timer was cleared by the stop
    assert [owned.kind for owned in world.provider.list_owned()] == ["instance", "disk"]
    _end_machines(world)


def test_spot_that_was_taken_back_says_so_when_it_is_gone(make_world: Callable[..., World]) -> None:
    world = make_world(incidents=({"event": "preempt", "after": 30},))
    ref = launched(world, spot(world))
    world.google.sleep(60)
    seen = world.provider.get(ref)
    assert (seen.state, seen.end, seen.run_id, seen.attempt) == (InstanceState.ENDED, EndKind.RECLAIMED, "r1", 1)
    status = world.provider.store(RunId("r1")).get("attempts/1/status.json")
    assert b"interrupted" in status
    _end_machines(world)


def test_a_host_that_failed_lost_its_machine(make_world: Callable[..., World]) -> None:
    world = make_world(incidents=({"event": "crash", "after": 5},))
    ref = launched(world, in_zone(world))
    assert world.provider.get(ref).end is EndKind.LOST
    _end_machines(world)


def test_googles_operations_tell_for_two_weeks_when_a_machine_that_is_gone_ended(world: World) -> None:
    ref = launched(world, in_zone(world))
    world.provider.delete(ref)
    world.google.sleep(3 * 86_400)
    assert is_gone(world, ref)
    told_at = world.provider.ended_at(ref)
    assert told_at is not None
    assert abs(told_at - (world.google.now() - timedelta(days=3))) < timedelta(minutes=1)
    world.google.sleep(12 * 86_400)
    assert world.provider.ended_at(ref) is None


def test_a_machine_that_vanished_is_not_found(make_world: Callable[..., World]) -> None:
    world = make_world(incidents=({"event": "vanish", "after": 5},))
    ref = launched(world, in_zone(world))
    assert is_gone(world, ref)
    with pytest.raises(InstanceNotFoundError):
        list(world.provider.logs(ref))


def test_the_machine_deletes_itself_by_its_name(world: World) -> None:
    ref = launched(world, in_zone(world, behaviour="finish"))
    world.google.sleep(60)
    assert is_gone(world, ref)
    assert world.provider.list_owned() == []
    assert world.calls("compute.instances.delete") == [], "nobody else has deleted it"


@pytest.mark.parametrize("works", ["machine_timer_works", "cloud_timer_works"])
def test_either_timer_ends_it_alone(make_world: Callable[..., World], works: str) -> None:
    other = {"machine_timer_works": "cloud_timer_works", "cloud_timer_works": "machine_timer_works"}[works]
    world = make_world(trainer="hung", **{other: False})
    ref = launched(world, in_zone(world, lasting=timedelta(minutes=10)))
    world.google.sleep(8 * 60)
    assert not is_gone(world, ref)
    world.google.sleep(8 * 60)
    assert is_gone(world, ref)
    assert world.provider.list_owned() == []


def test_what_has_not_come_to_be_yet_is_pending(make_world: Callable[..., World]) -> None:
    """Nothing shows it but its operation."""
    world = make_world(operation_seconds=3600)
    made = world.provider.launch(in_zone(world))
    world.script("compute.instances.get", status=404, code="notFound", times=None)
    seen = world.provider.get(made.ref)
    assert (seen.state, seen.run_id, seen.attempt) == (InstanceState.PENDING, "r1", 1)


def test_stop_without_a_machine_is_no_error(world: World) -> None:
    run = in_zone(world)
    ref = launched(world, run)
    world.provider.delete(ref)
    world.google.sleep(60)
    world.provider.stop(ref)


# --- what there is ---------------------------------------------------------------------------------------------------


def test_everything_is_listed_on_every_page(make_world: Callable[..., World]) -> None:
    world = make_world(page_size=1)
    for attempt in (1, 2, 3):
        world.provider.launch(in_zone(world, attempt=attempt))
    world.google.sleep(60)
    kinds = [owned.kind for owned in world.provider.list_owned(RunId("r1"))]
    assert sorted(kinds) == ["disk"] * 3 + ["instance"] * 3


def test_what_is_listed_has_a_price(world: World) -> None:
    launched(world, in_zone(world))
    world.google.sleep(60)
    machine, disk = world.provider.list_owned()
    assert machine.usd_per_hour == an_offer(OFFER).usd_per_hour
    assert disk.usd_per_hour is not None
    assert round(disk.usd_per_hour, 4) == round(Decimal(100) * Decimal("0.10") / 730, 4)


@pytest.mark.parametrize(
    "rule",
    [
        {"operation": LIST, "effect": "warning", "placement": "us-east1-b"},
        {"operation": "compute.disks.aggregatedList", "status": 503},
        {"operation": "compute.addresses.aggregatedList", "effect": "lost_reply"},
    ],
)
def test_a_list_that_is_not_whole_is_told_with_what_came(world: World, rule: dict[str, Any]) -> None:
    ref = launched(world, in_zone(world))
    world.google.sleep(60)
    world.script(**{**rule, "times": None})
    with pytest.raises(IncompleteListingError) as caught:
        world.provider.list_owned()
    assert ref.id in {owned.id for owned in caught.value.resources}
    assert caught.value.unanswered


def test_an_api_that_is_off_has_nothing(world: World) -> None:
    world.script("*", status=403, code="accessNotConfigured", times=None)
    assert world.provider.list_owned() == []


def test_a_zone_without_results_takes_nothing_away(world: World) -> None:
    assert world.provider.list_owned() == []


def test_a_disk_that_a_machine_holds_goes_with_it(world: World) -> None:
    launched(world, in_zone(world))
    world.google.sleep(60)
    disk = next(owned for owned in world.provider.list_owned() if owned.kind == "disk")
    world.provider.delete(disk)
    assert disk in world.provider.list_owned()
    _end_machines(world)


def test_a_disk_that_stayed_is_deleted(make_world: Callable[..., World]) -> None:
    world = make_world(disks_stay=True)
    launched(world, in_zone(world, behaviour="finish"))
    world.google.sleep(60)
    (disk,) = world.provider.list_owned()
    assert (disk.kind, disk.instance, disk.attempt) == ("disk", False, 1)
    world.provider.delete(disk)
    world.google.sleep(30)
    assert world.provider.list_owned() == []
    world.provider.delete(disk)


def _end_machines(world: World) -> None:
    """What a teardown does, and that nothing is left by it."""
    for _ in range(4):
        for owned in world.provider.list_owned():
            world.provider.delete(owned)
        world.google.sleep(30)
    assert world.provider.list_owned() == []


# --- being made ------------------------------------------------------------------------------------------------------


def test_a_provider_without_a_sign_in_can_be_made_and_offers(world: World) -> None:
    settings = replace(world_settings(world), options={}, environment={})
    assert make(settings).offers(OfferQuery(devices=frozenset({"T4"})))


@pytest.mark.parametrize(
    ("option", "value"),
    [("network", "No Such"), ("service_account", "me@example.com"), ("subnetwork", "A"), ("colour", "blue")],
)
def test_an_option_that_is_wrong_is_named(world: World, option: str, value: str) -> None:
    settings = replace(world_settings(world), options={option: value})
    with pytest.raises(BadRequestError, match=option):
        make(settings)


def test_nothing_is_done_without_a_project(world: World) -> None:
    settings = replace(world_settings(world), options={"endpoint": world.google.url})
    with pytest.raises(BadRequestError, match="project"):
        make(settings).list_owned()


def world_settings(world: World) -> ProviderSettings:
    return Client(world.google, world.home).settings()


def test_a_disk_is_no_machine_to_ask_for(world: World) -> None:
    disk = InstanceRef(provider="gcp", region="us-central1", id="gce-disk/us-central1-a/x")
    with pytest.raises(InstanceNotFoundError):
        world.provider.get(disk)
