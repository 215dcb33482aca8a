"""A clock that is wrong: the provider's answers tell the time, and nothing is ended on this computer's clock alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import pytest

from tests.builders import RUN_ID, a_job
from tests.doubles.clock import NOON, FakeClock
from tests.doubles.desk import Desk
from tests.doubles.fake_cloud import FakeCloud
from tests.doubles.fake_machine import FakeMachine, Sighting, stubborn
from tests.doubles.fake_provider import FakeProvider
from trainplan.planner.runs.cleanup.cleanup import Fate, fate_of, look
from trainplan.planner.runs.execution.executor import Detached, Executor
from trainplan.planner.runs.provider_clock import ProviderClock, disagreement, tells_time
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.providers.base import Instance, InstanceRef, OwnedResource
from trainplan.providers.cloud.server_time import TOLERANCE, ServerClock
from trainplan.providers.errors import TransientError
from trainplan.workloads.steady import anchored, steady_seconds

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
JOB = a_job(constraints={"deadline": "10h"})


# --- what an answer tells ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("date", "offset"),
    [
        ("Sat, 21 Nov 2026 12:00:00 GMT", timedelta(0)),
        ("Fri, 20 Nov 2026 12:00:00 GMT", -DAY),
        ("Sat, 21 Nov 2026 13:30:00 GMT", 1.5 * HOUR),
        ("Sat, 21 Nov 2026 12:00:00 -0000", timedelta(0)),
        (None, None),
        ("", None),
        ("soon", None),
    ],
)
def test_the_date_of_an_answer_is_held_against_this_computers_clock(date: str | None, offset: timedelta | None) -> None:
    clock = ServerClock(lambda: NOON)
    clock.read_date(date)
    assert clock.offset == offset
    assert clock.now() == NOON + (offset or timedelta(0))


def test_an_answer_without_a_date_leaves_what_was_known() -> None:
    clock = ServerClock(lambda: NOON, offset=-DAY)
    clock.read_date("soon")
    assert clock.offset == -DAY


@pytest.mark.parametrize("sign", [1, -1])
def test_clocks_that_are_two_minutes_apart_agree(sign: int) -> None:
    told: list[tuple[str, str]] = []
    provider = FakeProvider(FakeClock(), offset=sign * TOLERANCE)
    clock = ProviderClock(provider, FakeClock(), lambda *words: told.append(words))
    assert (clock.now(), told) == (NOON, [])
    provider.offset = sign * (TOLERANCE + timedelta(seconds=1))
    assert clock.now() == NOON + sign * (TOLERANCE + timedelta(seconds=1))
    assert [name for name, _ in told] == ["local"]


def test_a_disagreement_is_a_sentence() -> None:
    assert disagreement("aws", -DAY).startswith("this computer's clock is 24 hours ahead of that of aws:")
    assert disagreement("gcp", timedelta(minutes=5)).startswith(
        "this computer's clock is 5 minutes behind that of gcp:"
    )


def test_a_provider_with_a_time_of_its_own_needs_no_answer() -> None:
    assert tells_time(FakeCloud(FakeClock(), offset=None))
    assert not tells_time(FakeProvider(FakeClock(), offset=None))
    assert tells_time(FakeProvider(FakeClock(), offset=DAY))


# --- what is ended -----------------------------------------------------------------------------------------------


class Distant(FakeProvider):
    """A provider of which nothing is known before its first answer."""

    def __init__(self, clock: FakeClock, ahead: timedelta) -> None:
        super().__init__(clock, [alive])
        self.offset = None
        self._ahead = ahead

    def get(self, ref: InstanceRef) -> Instance:
        self.offset = self._ahead
        return super().get(ref)


def alive(machine: FakeMachine) -> Iterator[Sighting]:
    """Trains, and writes with each look, by the provider's time."""
    for seen in stubborn(machine):
        machine.say("warning", message="still there")
        yield seen


def launched(desk: Desk, script: Callable[[FakeMachine], Iterator[Sighting]] = stubborn) -> Run:
    desk.scripts(script)
    run = desk.planned(JOB)
    with pytest.raises(Detached):
        desk.executor().follow(run, desk.request(JOB), until_launched=True)
    return desk.journal.run(run.run_id)


def test_a_run_on_this_machine_outlives_a_clock_that_was_set_a_day_ahead(desk: Desk) -> None:
    """Its supervisor keeps the deadline, by a time that nobody sets."""
    desk.provider.offset = None
    run = launched(desk)
    desk.clock.advance(DAY.total_seconds())
    assert desk.runner().settle(run).phase is Phase.RUNNING
    assert (desk.provider.count("delete"), len(desk.provider.machines)) == (0, 1)


def test_the_same_clock_at_a_provider_that_tells_the_time_means_that_the_deadline_has_passed(desk: Desk) -> None:
    run = launched(desk)
    desk.clock.advance(DAY.total_seconds())
    assert desk.runner().settle(run).outcome is Outcome.DEADLINE


def test_a_clock_a_day_ahead_ends_nothing_at_a_provider_whose_first_answer_tells(desk: Desk) -> None:
    """The instant that the command began with is set right by the answer that it decides upon."""
    run = launched(desk)
    told: list[str] = []
    distant = Distant(desk.clock, ahead=-DAY)
    distant.machines, distant.stores = desk.provider.machines, desk.provider.stores
    for machine in distant.machines.values():
        machine.script = alive
    desk.clock.advance(HOUR.total_seconds())
    wrong = FakeClock(NOON + DAY + HOUR)
    clock = ProviderClock(distant, wrong, lambda _, text: told.append(text))
    executor = Executor(lambda _: distant, desk.journal, clock, desk.events.append, desk.person)
    assert executor.settle(run).phase is Phase.RUNNING
    assert distant.count("delete") == 0
    assert told
    assert told[0].startswith("this computer's clock is 24 hours ahead of that of local")


def test_without_an_answer_that_tells_the_time_a_deadline_ends_nothing(desk: Desk) -> None:
    run = launched(desk)
    desk.provider.offset = None
    desk.provider.down["get"] = TransientError("no network")
    desk.clock.advance(DAY.total_seconds())
    assert desk.runner().settle(run).live
    assert desk.provider.count("delete") == 0


@pytest.mark.parametrize(
    ("now", "fate"),
    [(NOON + HOUR, Fate.FOREIGN), (NOON + DAY, Fate.EXPIRED), (None, Fate.FOREIGN)],
)
def test_a_cleanup_takes_nothing_for_expired_by_this_computers_clock(now: datetime | None, fate: Fate) -> None:
    theirs = OwnedResource(
        provider="aws", region="here", kind="instance", id="i-1", run_id=RUN_ID, created_at=NOON,
        deadline=NOON + 2 * HOUR, client="another",
    )  # fmt: skip
    assert fate_of(theirs, {}, {"mine"}, now) is fate


def test_a_cleanup_asks_for_the_time_after_the_provider_has_answered(desk: Desk) -> None:
    launched(desk)
    calls: list[int] = []

    def time() -> datetime:
        calls.append(desk.provider.count("list_owned"))
        return NOON

    look(desk.provider, dict, {"mine"}, time)
    assert calls == [1]


# --- the deadline that a process holds by itself -----------------------------------------------------------------


def test_time_that_was_anchored_does_not_follow_a_clock_that_is_set() -> None:
    wall, steady = [1_000_000.0], [50.0]
    now = anchored(lambda: wall[0], lambda: steady[0])
    wall[0] += 86_400
    assert now() == 1_000_000.0
    steady[0] += 10
    assert now() == 1_000_010.0


def test_steady_seconds_never_go_back() -> None:
    first = steady_seconds()
    assert steady_seconds() >= first
