"""A machine that was told to stop and goes on has its limit; then the command that was asked to stop it ends it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from tests.builders import a_run, an_instance
from tests.doubles.clock import NOON
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import PENDING, RATE, RUNNING, SIGHTING_OF_END, STOPPING, FakeMachine, Sighting
from tests.unit.planner.runs.directory.test_signs import LONG, alive, heartbeat, launched
from trainplan.planner.runs.decision.next_action import AskToStop, End, Look, next_action
from trainplan.planner.runs.directory.signs import FAREWELL_LIMIT, STOP_LIMIT, Sign
from trainplan.planner.runs.run import Outcome, Phase
from trainplan.planner.runs.runner import FOLLOWER_PATIENCE
from trainplan.pricing.offers import Market
from trainplan.providers.agent import container, watch
from trainplan.providers.base import EndKind, InstanceState
from trainplan.providers.errors import TransientError
from trainplan.workloads.job import OnSlow

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
DEAF = alive("running", trains=True)
STOP_REQUEST = {"stop_asked": NOON}


# --- the decision ------------------------------------------------------------------------------------------------


def look(now_after: timedelta, *, stops: bool = False, **changes: Any) -> Look:
    sign = Sign(NOON + now_after, trains=True, stops=stops)
    seen: dict[str, Any] = {"sign": sign, "told_to_stop_at": NOON}
    return Look(instance=an_instance(InstanceState.RUNNING), **seen | changes)


def test_the_limit_is_a_checkpoints_time_and_grace() -> None:
    checkpoint = timedelta(seconds=watch.STOP_SECONDS + container.STOP_SECONDS)
    assert 2 * checkpoint < STOP_LIMIT < FAREWELL_LIMIT


@pytest.mark.parametrize("phase", [Phase.BOOTING, Phase.RUNNING])
@pytest.mark.parametrize(
    ("limit", "changes"),
    [
        (STOP_LIMIT, {}),
        (STOP_LIMIT, {"sign": None}),  # it boots: nothing has come out of it yet
        (FAREWELL_LIMIT, {"stops": True}),  # it says that it brings its results home
        (FAREWELL_LIMIT, {"sign": None, "knows_ages": False}),  # its store is away: so it is for the machine
    ],
)
def test_a_machine_that_goes_on_is_ended_after_its_limit(
    phase: Phase, limit: timedelta, changes: dict[str, Any]
) -> None:
    run = a_run(phase, attempts=1, deadline=NOON + timedelta(days=5), **STOP_REQUEST)
    assert next_action(run, look(limit, **changes), NOON + limit) == AskToStop()
    action = next_action(run, look(limit + SECOND, **changes), NOON + limit + SECOND)
    assert isinstance(action, End)
    assert action.outcome is Outcome.STOPPED
    minutes = int(limit / MINUTE)
    assert f"told to stop at 2026-11-21 12:00 UTC and had not ended {minutes} minutes later" in action.message


@pytest.mark.parametrize(
    ("run_changes", "look_changes"),
    [
        (STOP_REQUEST, {"told_to_stop_at": None}),  # nobody came to tell it
        (STOP_REQUEST, {"tells_time": False}),  # on this computer, which may have slept
        ({"moving": Market.SPOT}, {}),  # its training is wanted: only the placement was to change
        ({"slow": OnSlow.REPLAN}, {}),
    ],
)
def test_a_machine_that_no_person_wants_to_stop_has_no_limit(
    run_changes: dict[str, Any], look_changes: dict[str, Any]
) -> None:
    run = a_run(Phase.RUNNING, attempts=1, deadline=NOON + timedelta(days=5), **run_changes)
    late = FAREWELL_LIMIT + MINUTE
    assert next_action(run, look(late, **look_changes), NOON + late) == AskToStop()


# --- what the commands make of it --------------------------------------------------------------------------------


def test_stop_ends_a_machine_that_reports_progress_and_never_obeys(desk: Desk) -> None:
    run = launched(desk, DEAF)
    desk.clock.advance(3 * 3600)
    asked_at = desk.clock.now()
    stopped, receipt = desk.runner().stop(desk.runner().settle(run))
    assert (stopped.outcome, receipt.outcome, desk.leaked) == (Outcome.STOPPED, "stopped", [])
    assert STOP_LIMIT < desk.clock.now() - asked_at < STOP_LIMIT + MINUTE
    assert "had not ended 10 minutes later: plan ended it" in str(stopped.message)
    assert desk.provider.count("launch") == 1


@pytest.mark.parametrize("sighting", [RUNNING, STOPPING])  # at AWS and on this computer one that was asked is shown so
def test_whoever_waits_for_a_machine_that_obeys_is_seen_to_react(desk: Desk, sighting: Sighting) -> None:
    """Another terminal's `plan stop` would take it for one that hangs, and end the machine without its checkpoint."""
    run = launched(desk, obeys_late(sighting))
    desk.runner().stop(desk.runner().settle(run))
    with closing(sqlite3.connect(desk.settings.journal)) as db:
        times = [datetime.fromisoformat(at) for (at,) in db.execute("SELECT at FROM events ORDER BY id")]
    assert times[-1] - times[0] > 3 * STOP_LIMIT
    assert max(later - at for at, later in pairwise(times)) < FOLLOWER_PATIENCE / 2


def obeys_late(sighting: Sighting) -> Callable[[FakeMachine], Iterator[Sighting]]:
    """A machine that says that it is stopping, and takes half an hour to bring its checkpoint home."""

    def script(machine: FakeMachine) -> Iterator[Sighting]:
        machine.start()
        while not machine.stop_asked:
            machine.train(1, RATE)
            heartbeat(machine, "running")
            yield RUNNING
        since = machine.clock.now()
        while machine.clock.now() - since < 3 * STOP_LIMIT:
            machine.say("warning", message="sending the checkpoint")
            heartbeat(machine, "stopping")
            yield sighting
        machine.checkpoint()
        machine.end("stopped", RATE)
        yield SIGHTING_OF_END[EndKind.STOPPED]

    return script


def test_a_machine_that_obeys_late_keeps_its_last_checkpoint(desk: Desk) -> None:
    run = launched(desk, obeys_late(RUNNING))
    stopped, _ = desk.runner().stop(desk.runner().settle(run))
    assert (stopped.outcome, stopped.message) == (Outcome.STOPPED, "stopped, with a checkpoint")
    assert desk.provider.store(run.run_id).list("checkpoints")


def test_a_machine_that_still_boots_when_it_is_told_has_the_same_limit(desk: Desk) -> None:
    def boots(machine: FakeMachine) -> Iterator[Sighting]:
        del machine
        while True:
            yield PENDING

    run = launched(desk, boots)
    stopped, _ = desk.runner().stop(run)
    assert (stopped.outcome, desk.leaked) == (Outcome.STOPPED, [])
    assert STOP_LIMIT < desk.clock.now() - NOON < STOP_LIMIT + MINUTE


def test_the_next_command_ends_what_a_stop_that_died_has_told(desk: Desk) -> None:
    run = launched(desk, DEAF)
    desk.journal.ask_to_stop(run.run_id, desk.clock.now())
    told = desk.runner().settle(desk.journal.run(run.run_id))
    assert (told.phase, desk.provider.count("stop")) == (Phase.RUNNING, 1), "status passes the wish on"
    desk.clock.advance(STOP_LIMIT.total_seconds() / 2)
    assert desk.runner().settle(told).phase is Phase.RUNNING
    desk.clock.advance(STOP_LIMIT.total_seconds() / 2 + 1)
    ended = desk.runner().settle(told)
    assert (ended.outcome, desk.leaked) == (Outcome.STOPPED, [])


def test_a_machine_that_was_never_told_has_its_time_from_the_first_look_on(desk: Desk) -> None:
    """Whoever typed `plan stop` died before the machine was told, and nobody came for hours."""
    run = launched(desk, DEAF)
    desk.journal.ask_to_stop(run.run_id, desk.clock.now())
    desk.clock.advance(3 * 3600)
    assert desk.runner().settle(desk.journal.run(run.run_id)).phase is Phase.RUNNING
    assert (desk.provider.count("stop"), desk.provider.count("delete")) == (1, 0)


def test_a_machine_that_cannot_be_told_is_ended_all_the_same(desk: Desk) -> None:
    run = launched(desk, DEAF)
    desk.provider.down["stop"] = TransientError("the store refuses the wish")
    stopped, _ = desk.runner().stop(run)
    assert (stopped.outcome, desk.leaked) == (Outcome.STOPPED, [])


def test_an_attempt_that_is_launched_after_a_stop_has_a_limit_of_its_own(desk: Desk) -> None:
    run = launched(desk, DEAF)
    desk.journal.told_to_stop(run.run_id, 1, NOON)
    assert desk.journal.told_to_stop_at(run.run_id, 1) == NOON
    assert desk.journal.told_to_stop_at(run.run_id, 2) is None
    desk.journal.told_to_stop(run.run_id, 1, NOON + MINUTE)
    assert desk.journal.told_to_stop_at(run.run_id, 1) == NOON, "the first counts"


def test_a_journal_that_cannot_be_written_does_not_prolong_it(desk: Desk) -> None:
    run = launched(desk, DEAF)
    desk.journal.ask_to_stop(run.run_id, desk.clock.now())
    desk.journal._db.execute("PRAGMA query_only = ON")
    ended = desk.executor().follow(desk.journal.run(run.run_id), desk.request(LONG))
    desk.journal._db.execute("PRAGMA query_only = OFF")
    assert (ended.outcome, desk.leaked) == (Outcome.STOPPED, [])
    assert desk.clock.now() - NOON < STOP_LIMIT + 2 * MINUTE
