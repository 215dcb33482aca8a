"""The contract of the seam (providers/base.py), held against every provider in every world."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.contract.conftest import HARNESSES
from tests.contract.harness import (
    Ask,
    Harness,
    Silent,
    eventually,
    how_it_ended,
    launched,
    let_show,
    owned_resources,
    request,
    state_of,
    wait_for,
    wait_until_it_trains,
)
from tests.contract.levels import Level, providers_at
from trainplan.planner.runs.journal.records import request_from_record, request_record
from trainplan.pricing.offers import OfferQuery
from trainplan.providers.base import EndKind, InstanceRef, InstanceState, PreflightState, Provider, RunId
from trainplan.providers.errors import (
    BadRequestError,
    IncompleteListingError,
    InstanceNotFoundError,
    ProviderError,
    TransientError,
)
from trainplan.workloads.job import job_from_json


@pytest.fixture
def run_id() -> str:
    return f"contract-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def provider(harness: Harness, run_id: str) -> Iterator[Provider]:
    made = harness.provider()
    yield made
    for owned in owned_resources(made, run_id):
        made.delete(owned)


def ids(provider: Provider, run_id: str) -> list[str]:
    """The instances of the run, without what comes with them."""
    return [owned.id for owned in provider.list_owned(RunId(run_id)) if owned.instance]


def nothing_left(provider: Provider, run_id: str) -> None:
    """Wait until the provider says that nothing of the run is there."""
    eventually(provider, lambda: not provider.list_owned(RunId(run_id)), f"nothing of {run_id} is left")


def gone_by_itself(provider: Provider, run_id: str) -> None:
    """Wait until no instance of the run is there; what came with it (a timer) goes at the latest when it is deleted."""
    eventually(provider, lambda: not ids(provider, run_id), f"no instance of {run_id} is left")
    for owned in provider.list_owned(RunId(run_id)):
        provider.delete(owned)
    nothing_left(provider, run_id)


def test_every_provider_has_a_harness() -> None:
    launching = {*providers_at(Level.LAUNCHES), *providers_at(Level.PROVEN)}
    assert {harness.provider_name for harness in HARNESSES.values()} == launching  # type: ignore[attr-defined]


def test_offers_are_its_own_and_follow_the_query(provider: Provider) -> None:
    offers = provider.offers(OfferQuery())
    assert offers
    assert {offer.provider for offer in offers} == {provider.name}
    assert not provider.offers(OfferQuery(regions=frozenset({"nowhere"})))
    wanted = OfferQuery(devices=frozenset({offers[0].device}))
    assert {offer.device for offer in provider.offers(wanted)} == {offers[0].device}


def test_preflight_and_requests_create_nothing(provider: Provider, harness: Harness, run_id: str) -> None:
    run = request(provider, Ask(run_id=run_id))
    assert provider.preflight(run.offer).state is not PreflightState.REFUSED
    assert provider.requests(run) == provider.requests(run)
    assert ids(provider, run_id) == []
    assert harness.sent() == []


def test_launch_sends_what_requests_shows(provider: Provider, harness: Harness, run_id: str) -> None:
    run = request(provider, Ask(run_id=run_id))
    shown = list(provider.requests(run))
    provider.launch(run)
    assert list(harness.sent()) == shown


def test_launch_is_idempotent_also_for_a_new_client(provider: Provider, harness: Harness, run_id: str) -> None:
    run = request(provider, Ask(run_id=run_id))
    first = launched(provider, run)
    assert (first.run_id, first.attempt) == (run_id, 1)
    assert provider.launch(run).ref == first.ref
    assert harness.provider().launch(run).ref == first.ref
    assert ids(provider, run_id) == [first.ref.id]


def test_each_attempt_is_an_instance_of_its_own(provider: Provider, run_id: str) -> None:
    refs = [launched(provider, request(provider, Ask(run_id=run_id, attempt=number))).ref for number in (1, 2)]
    assert refs[0] != refs[1]
    assert sorted(ids(provider, run_id)) == sorted(ref.id for ref in refs)


def test_a_new_client_finds_the_instance(provider: Provider, harness: Harness, run_id: str) -> None:
    run = request(provider, Ask(run_id=run_id))
    ref = provider.launch(run).ref
    wait_until_it_trains(provider, run)
    found = harness.provider().get(ref)
    assert (found.run_id, found.attempt, found.state) == (run_id, 1, InstanceState.RUNNING)
    assert found.launched_at is not None
    assert found.launched_at.tzinfo is not None


@pytest.mark.parametrize(
    ("behaviour", "end", "exit_code"),
    [("finish", EndKind.DONE, 0), ("fail", EndKind.FAILED, 70), ("bad-job", EndKind.BAD_JOB, 65)],
)
def test_how_it_ended_is_told(
    provider: Provider, harness: Harness, run_id: str, behaviour: str, end: EndKind, exit_code: int
) -> None:
    run = request(provider, Ask(behaviour=behaviour, run_id=run_id))
    ref = provider.launch(run).ref
    assert how_it_ended(harness, provider, run, ref) is end
    if harness.tells_training:
        ended = provider.get(ref)
        assert (ended.end, ended.exit_code) == (end, exit_code)
        assert ended.reason
        assert provider.get(ref) == ended
    if harness.keeps_ended:
        assert ids(provider, run_id) == [ref.id]
    else:
        gone_by_itself(provider, run_id)


def test_a_dead_attempt_is_not_started_again(provider: Provider, harness: Harness, run_id: str) -> None:
    run = request(provider, Ask(behaviour="finish", run_id=run_id))
    ref = provider.launch(run).ref
    assert how_it_ended(harness, provider, run, ref) is EndKind.DONE
    sent = len(harness.sent())
    again = harness.provider().launch(run)
    assert (again.ref, again.state) == (ref, InstanceState.ENDED)
    assert again.end is (EndKind.DONE if harness.tells_training else None)
    assert len(harness.sent()) == sent


def test_stop_lets_the_trainer_end_itself(provider: Provider, harness: Harness, run_id: str) -> None:
    run = request(provider, Ask(run_id=run_id))
    ref = provider.launch(run).ref
    wait_until_it_trains(provider, run)
    provider.stop(ref)
    provider.stop(ref)
    assert how_it_ended(harness, provider, run, ref) is EndKind.STOPPED
    if harness.tells_training:
        assert provider.get(ref).exit_code == 75
    provider.stop(ref)


def test_what_is_asked_to_stop_says_so(provider: Provider, harness: Harness, run_id: str) -> None:
    run = request(provider, Ask(behaviour="stubborn", run_id=run_id))
    ref = provider.launch(run).ref
    wait_until_it_trains(provider, run)
    provider.stop(ref)
    if harness.tells_training:
        assert provider.get(ref).state is InstanceState.STOPPING
    else:
        assert provider.store(run.run_id).get("control/stop")


def test_the_instance_ends_itself_at_its_deadline(provider: Provider, harness: Harness, run_id: str) -> None:
    run = request(provider, Ask(run_id=run_id, lasting=timedelta(seconds=-1)))
    ref = launched(provider, run).ref
    eventually(provider, lambda: state_of(provider, ref) in (None, InstanceState.ENDED), f"{ref.id} has ended")
    if harness.tells_training:
        assert provider.get(ref).end is EndKind.DEADLINE


def test_delete_ends_and_removes_it(provider: Provider, harness: Harness, run_id: str) -> None:
    run = request(provider, Ask(behaviour="stubborn", run_id=run_id))
    ref = provider.launch(run).ref
    wait_until_it_trains(provider, run)
    provider.delete(ref)
    provider.delete(ref)
    nothing_left(harness.provider(), run_id)
    assert state_of(provider, ref) in (None, InstanceState.ENDED)
    provider.delete(ref)


def test_what_is_listed_can_be_deleted(provider: Provider, harness: Harness, run_id: str) -> None:
    for number in (1, 2):
        launched(provider, request(provider, Ask(run_id=run_id, attempt=number)))
    cleaner = harness.provider()
    for owned in cleaner.list_owned(RunId(run_id)):
        cleaner.delete(owned)
        cleaner.delete(owned)
    nothing_left(cleaner, run_id)


def test_list_owned_tells_runs_apart(provider: Provider, run_id: str) -> None:
    launched(provider, request(provider, Ask(run_id=run_id)))
    assert ids(provider, f"{run_id}x") == []
    assert run_id in {owned.run_id for owned in provider.list_owned()}


def test_what_never_was_is_not_found_and_needs_no_deleting(provider: Provider) -> None:
    for provider_id in ("nonsense", "process:trainplan-never-1", "sausage:trainplan-never-1"):
        ref = InstanceRef(provider=provider.name, region="this-machine", id=provider_id)
        with pytest.raises(InstanceNotFoundError):
            provider.get(ref)
        provider.delete(ref)


def test_a_launch_that_fails_leaves_nothing(provider: Provider, harness: Harness, run_id: str) -> None:
    run = request(provider, Ask(run_id=run_id))
    harness.break_launch()
    with pytest.raises(ProviderError) as caught:
        harness.provider().launch(run)
    assert caught.value.hint
    let_show(provider)
    assert provider.list_owned(RunId(run_id)) == []


def test_logs_are_what_the_instance_printed(provider: Provider, harness: Harness, run_id: str) -> None:
    if isinstance(harness, Silent):
        pytest.skip("its instances have no console that could be read")
    run = request(provider, Ask(behaviour="finish" if harness.tells_training else "wait", run_id=run_id))
    ref = provider.launch(run).ref
    if harness.tells_training:
        wait_for(provider, ref, InstanceState.ENDED)
    else:
        wait_until_it_trains(provider, run)
    assert f"training {run.job.name}" in list(provider.logs(ref))


def test_a_request_survives_the_journal(provider: Provider, run_id: str) -> None:
    run = request(provider, Ask(run_id=run_id))
    run = replace(run, calls=tuple(provider.requests(run)))
    assert request_from_record(json.loads(json.dumps(request_record(run))), provider) == run


def test_the_store_is_what_the_trainer_sees(provider: Provider, run_id: str) -> None:
    run = request(provider, Ask(run_id=run_id))
    provider.launch(run)
    wait_until_it_trains(provider, run)
    store = provider.store(run.run_id)
    assert b'"running"' in store.get("attempts/1/status.json")
    # A rented machine's trainer reads the framework that runs there.
    framework = job_from_json(store.get("job.json").decode()).framework
    asked = run.job.model_copy(update={"framework": framework})
    assert job_from_json(store.get("job.json").decode()) == asked


def test_store_puts_gets_lists_and_deletes(provider: Provider, run_id: str) -> None:
    store = provider.store(RunId(run_id))
    assert list(store.list()) == []
    store.put("output/a.txt", b"12345")
    store.put("output/b/c.txt", b"x")
    store.put("output-2/d.txt", b"y")
    store.put("output/a.txt", b"123456")
    assert store.get("output/a.txt") == b"123456"
    assert store.get("output/a.txt", start=4) == b"56"
    assert store.get("output/a.txt", start=99) == b""
    assert list(store.list("output")) == ["output/a.txt", "output/b/c.txt"]
    store.delete("output")
    store.delete("output")
    assert list(store.list()) == ["output-2/d.txt"]
    with pytest.raises(KeyError):
        store.get("output/a.txt")
    store.delete("")
    assert list(store.list()) == []


def test_store_keeps_to_its_run(provider: Provider, run_id: str) -> None:
    store = provider.store(RunId(run_id))
    of_windows = ("a\\b",) if os.name == "nt" else ()
    for path in ("/etc/passwd", "../other", "a/../../b", "", ".", *of_windows):
        with pytest.raises(BadRequestError):
            store.put(path, b"x")
        with pytest.raises(BadRequestError):
            store.get(path)


def test_a_list_that_is_not_whole_is_no_absence(provider: Provider, harness: Harness, run_id: str) -> None:
    launched(provider, request(provider, Ask(run_id=run_id)))
    there = provider.list_owned(RunId(run_id))
    assert there
    harness.break_listing()
    for asked, told in ((run_id, there), ("never-launched", [])):
        with pytest.raises(IncompleteListingError) as caught:
            provider.list_owned(RunId(asked))
        assert {owned.id for owned in caught.value.resources} <= {owned.id for owned in told}
        assert caught.value.unanswered
        assert caught.value.hint


def test_a_launch_whose_reply_was_lost_is_made_good_by_launching_again(
    provider: Provider, harness: Harness, run_id: str
) -> None:
    run = request(provider, Ask(run_id=run_id))
    harness.lose_reply()
    with pytest.raises(TransientError):
        harness.provider().launch(run)
    let_show(provider)
    (made,) = ids(provider, run_id)
    assert launched(provider, run).ref.id == made
    assert ids(provider, run_id) == [made]


def test_a_launch_replays_the_calls_it_is_given(provider: Provider, harness: Harness, run_id: str) -> None:
    run = request(provider, Ask(run_id=run_id))
    kept = replace(run, calls=tuple(provider.requests(run)))
    first = launched(provider, kept)
    assert provider.launch(kept).ref == first.ref
    assert list(harness.sent()) == list(kept.calls)


def test_a_replay_after_the_death_tells_of_it(provider: Provider, harness: Harness, run_id: str) -> None:
    """Also when nothing of it is listed any more."""
    run = request(provider, Ask(behaviour="fail", run_id=run_id))
    ref = provider.launch(run).ref
    assert how_it_ended(harness, provider, run, ref) is EndKind.FAILED
    if not harness.keeps_ended:
        gone_by_itself(provider, run_id)
    again = harness.provider().launch(run)
    assert (again.ref, again.state) == (ref, InstanceState.ENDED)
    if harness.tells_training:
        assert (again.end, again.exit_code) == (EndKind.FAILED, 70)


def test_everything_that_comes_with_it_is_listed_with_its_labels(provider: Provider, run_id: str) -> None:
    run = replace(request(provider, Ask(run_id=run_id)), client="this-computer")
    ref = launched(provider, run).ref
    for owned in provider.list_owned(RunId(run_id)):
        assert (owned.run_id, owned.attempt) == (run_id, 1)
        assert owned.instance is (owned.id == ref.id)
        assert owned.deadline in (None, run.deadline)
        assert owned.client in (None, "this-computer")


def test_its_timers_end_it_no_earlier_than_its_deadline(provider: Provider, run_id: str) -> None:
    run = request(provider, Ask(run_id=run_id))
    timers = provider.timers(run)
    assert timers == provider.timers(run)
    assert run.deadline in (timers.machine, timers.cloud)
    assert min(timer for timer in (timers.machine, timers.cloud) if timer) == run.deadline
