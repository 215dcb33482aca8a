"""Ending what a run has made: it is gone when every placement has said so, and not before."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from tests.builders import RUN_ID, a_job, a_run, a_target, an_attempt
from tests.doubles.clock import NOON, FakeClock
from tests.doubles.fake_machine import stubborn
from tests.doubles.fake_provider import FakeProvider
from trainplan.planner.errors import TeardownUnverifiedError
from trainplan.planner.runs.execution.end import TEARDOWN_PATIENCE
from trainplan.planner.runs.execution.teardown import LONGEST_PAUSE_SECONDS, Teardown
from trainplan.planner.runs.run import Attempt, Phase
from trainplan.planner.runs.runner import request_for
from trainplan.providers.base import Instance, InstanceState, LaunchRequest, OwnedResource, RunId
from trainplan.providers.errors import (
    CredentialsError,
    IncompleteListingError,
    PermissionDeniedError,
    ProviderError,
    ThrottledError,
    TransientError,
    UnrecognizedError,
)

PATIENCE = timedelta(minutes=5)
EXPIRED = CredentialsError("token expired", hint="Sign in again")


@dataclass
class World:
    """A provider with the machine of a run's only attempt, and what was said."""

    clock: FakeClock = field(default_factory=FakeClock)
    messages: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.provider = FakeProvider(self.clock, [stubborn])

    def launched(self, number: int = 1) -> Instance:
        return self.provider.launch(a_request(number=number))

    def clear(self, *attempts: Attempt, patience: timedelta = PATIENCE) -> None:
        run = a_run(Phase.TEARING_DOWN, made=attempts or (an_attempt(),))
        Teardown(self.provider, self.clock, self.messages.append, patience).clear(run)

    def incomplete(self, *resources: OwnedResource, unanswered: tuple[str, ...] = ("us-east-1c",)) -> ProviderError:
        return IncompleteListingError("a zone is away", resources=resources, unanswered=unanswered)

    @property
    def remaining(self) -> list[str]:
        return [*self.provider.machines, *self.provider.attached]


def a_request(run_id: str = RUN_ID, number: int = 1) -> LaunchRequest:
    return request_for(a_job(), FakeClock())(a_run(run_id=RunId(run_id)), number, a_target())


@pytest.fixture
def world() -> World:
    return World()


def test_nothing_there_is_nothing_to_do(world: World) -> None:
    world.clear(an_attempt(ref=None))
    assert world.provider.count("delete") == 0
    assert world.clock.sleeps == []


@pytest.mark.parametrize("is_known", [True, False])
def test_a_machine_is_deleted_and_looked_for_until_it_is_gone(world: World, is_known: bool) -> None:
    """By its label, also where its create never answered."""
    ref = world.launched().ref
    world.provider.slow_deletes = 3
    world.clear(an_attempt(ref=ref if is_known else None))
    assert world.remaining == []
    assert world.provider.count("list_owned") >= 4


def test_what_comes_with_a_machine_is_deleted_too(world: World) -> None:
    world.provider.disks = True
    ref = world.launched().ref
    world.clear(an_attempt(ref=ref))
    assert world.remaining == []
    assert ("delete", f"{ref.id}-disk") in world.provider.calls


def test_a_disk_that_its_machine_left_behind_is_deleted(world: World) -> None:
    world.provider.disks = True
    ref = world.launched().ref
    del world.provider.machines[ref.id]
    world.clear(an_attempt(ref=ref))
    assert world.remaining == []


def test_what_belongs_to_another_run_is_left_alone(world: World) -> None:
    other = world.provider.launch(a_request("261121-ffffffff")).ref
    world.launched()
    world.clear(an_attempt())
    assert world.remaining == [other.id]


def test_what_does_not_go_is_named_and_not_called_gone(world: World) -> None:
    world.launched()
    world.provider.slow_deletes = None
    with pytest.raises(TeardownUnverifiedError) as caught:
        world.clear()
    assert caught.value.exit_code == 7
    assert f"machine {RUN_ID}-1" in caught.value.message
    assert "teardown unverified" in caught.value.message
    assert "plan cleanup" in caught.value.hint
    waited = world.clock.now() - NOON
    assert PATIENCE < waited < PATIENCE + timedelta(seconds=2 * LONGEST_PAUSE_SECONDS)
    assert max(world.clock.sleeps) == LONGEST_PAUSE_SECONDS


# --- absence counts only when every placement has answered -----------------------------------------------------------


def test_a_placement_that_does_not_answer_keeps_it_open(world: World) -> None:
    """Nothing is listed by those that answer; the machine is in the one that does not."""
    world.provider.down["list_owned"] = world.incomplete()
    with pytest.raises(TeardownUnverifiedError, match="whatever is in us-east-1c of run"):
        world.clear(an_attempt(ref=None))


def test_a_listing_that_is_incomplete_without_saying_where_keeps_it_open_too(world: World) -> None:
    world.provider.down["list_owned"] = world.incomplete(unanswered=())
    with pytest.raises(TeardownUnverifiedError):
        world.clear(an_attempt(ref=None))


def test_what_an_incomplete_listing_shows_is_deleted_all_the_same(world: World) -> None:
    ref = world.launched().ref
    (shown,) = world.provider.list_owned(a_run().run_id)
    world.provider.refuse[("list_owned", 2)] = world.incomplete(shown)
    world.clear(an_attempt(ref=ref))
    assert world.provider.calls[2:4] == [("list_owned", RUN_ID), ("delete", ref.id)]
    assert world.remaining == []


def test_a_placement_that_answers_later_is_believed_then(world: World) -> None:
    for number in (1, 2, 3):
        world.provider.refuse["list_owned", number] = world.incomplete()
    world.clear(an_attempt(ref=None))
    assert world.provider.count("list_owned") == 4


@pytest.mark.parametrize(
    "error", [TransientError("lost"), ThrottledError("slow down"), UnrecognizedError("what?"), EXPIRED]
)
@pytest.mark.parametrize("operation", ["list_owned", "delete", "get"])
def test_an_error_is_no_absence(world: World, operation: str, error: ProviderError) -> None:
    ref = world.launched().ref
    world.provider.down[operation] = error
    if operation == "get":  # asked only where no list shows it
        world.provider.lag = timedelta(days=1)
        with pytest.raises(TeardownUnverifiedError):
            world.clear(an_attempt(ref=ref, sent_at=NOON - timedelta(days=2)))
        return
    with pytest.raises(TeardownUnverifiedError):
        world.clear(an_attempt(ref=ref))
    assert world.remaining == [ref.id]


@pytest.mark.parametrize("operation", ["list_owned", "delete"])
def test_an_error_that_passes_is_waited_out(world: World, operation: str) -> None:
    ref = world.launched().ref
    world.provider.refuse |= {(operation, number): TransientError("lost") for number in (1, 2, 3)}
    world.clear(an_attempt(ref=ref))
    assert world.remaining == []
    assert world.messages == ["teardown: lost; trying again"], "once"


@pytest.mark.parametrize("error", [EXPIRED, PermissionDeniedError("not you", hint="Ask for delete")])
def test_a_refused_sign_in_is_said_loudly_and_tried_on(world: World, error: ProviderError) -> None:
    ref = world.launched().ref
    world.provider.down["list_owned"] = error
    world.clock.at_sleep[5] = world.provider.down.clear
    world.clear(an_attempt(ref=ref))
    assert world.messages == [f"CANNOT TEAR DOWN, still trying: {error.message}. {error.hint}"]
    assert world.remaining == []


# --- a machine that no list shows yet ----------------------------------------------------------------------------


@pytest.mark.parametrize("is_known", [True, False])
def test_a_newborn_is_waited_for_before_it_is_called_gone(world: World, is_known: bool) -> None:
    world.provider.lag = timedelta(seconds=90)
    ref = world.launched().ref
    world.clear(an_attempt(ref=ref if is_known else None, sent_at=NOON), patience=timedelta(seconds=30))
    assert world.remaining == []
    assert world.clock.now() - NOON >= timedelta(seconds=90)


def test_the_newest_try_counts_for_when_a_list_must_show_it(world: World) -> None:
    """Asked for first at noon; the try that made it was sent an hour later."""
    world.clock.advance(3600)
    world.provider.lag = timedelta(seconds=90)
    world.launched()
    world.clear(an_attempt(ref=None, sent_at=NOON + timedelta(hours=1), tries=5))
    assert world.remaining == []


def test_what_was_seen_off_before_is_not_waited_for_again(world: World) -> None:
    world.provider.lag = timedelta(hours=1)
    world.clear(an_attempt(1, cleared=True), an_attempt(2, ref=None, cleared=True))
    assert world.clock.sleeps == []
    assert world.provider.count("get") == 0


def test_a_machine_that_no_list_shows_but_that_answers_is_deleted(world: World) -> None:
    ref = world.launched().ref
    hidden = HidesEverything(world.clock, [stubborn])
    hidden.machines = world.provider.machines
    Teardown(hidden, world.clock, world.messages.append, PATIENCE).clear(
        a_run(Phase.TEARING_DOWN, made=(an_attempt(),))
    )
    assert ("delete", ref.id) in hidden.calls
    assert hidden.machines[ref.id].sighting.state is InstanceState.ENDED


class HidesEverything(FakeProvider):
    """Its list is always empty."""

    def list_owned(self, run_id: object = None) -> list[OwnedResource]:  # any run
        self.calls.append(("list_owned", ""))
        return []


def test_patience_of_a_real_run_outlasts_a_slow_cloud() -> None:
    assert timedelta(minutes=10) <= TEARDOWN_PATIENCE
