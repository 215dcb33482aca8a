"""What a machine's signs of life decide: nothing is concluded from age before the run directory was read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.builders import a_job, a_run, a_target, an_attempt, an_instance
from tests.doubles.clock import NOON
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import (
    PENDING,
    RATE,
    RUNNING,
    FakeMachine,
    FakeStore,
    Sighting,
    trains_well,
    until_asked,
)
from tests.rows import each_row
from trainplan.planner.runs.decision.next_action import Interrupt, Look, Wait, next_action
from trainplan.planner.runs.directory.progress import Story
from trainplan.planner.runs.directory.signs import BOOT_LIMIT, FRESH, SILENCE_LIMIT, Sign, newest_sign
from trainplan.planner.runs.events import Message, PhaseReached
from trainplan.planner.runs.execution.executor import Detached
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.providers.base import EndKind, InstanceState
from trainplan.providers.errors import TransientError

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)
LONG = a_job(constraints={"deadline": "30h"})
A, B = (a_target(zone=zone, instance_type="g4") for zone in "ab")


def heartbeat(machine: FakeMachine, state: str) -> None:
    """What the agent of a rented machine writes every 20 seconds."""
    text = json.dumps({"state": state, "time": machine.clock.now().isoformat()})
    machine.store.files[f"attempts/{machine.request.attempt}/status.json"] = text.encode()


def alive(state: str, *, trains: bool) -> Callable[[FakeMachine], Iterator[Sighting]]:
    """Its agent lives, whenever somebody looks; with `trains`, its trainer has begun long ago."""

    def script(machine: FakeMachine) -> Iterator[Sighting]:
        if trains:
            machine.start()
            machine.train(1, RATE)
        while True:
            heartbeat(machine, state)
            yield RUNNING

    return script


def hangs(machine: FakeMachine) -> Iterator[Sighting]:
    """Begins to train, writes a checkpoint, and is never heard of again."""
    machine.start()
    machine.train(100, RATE)
    machine.checkpoint()
    while True:
        yield RUNNING


def launched(desk: Desk, script: Callable[[FakeMachine], Iterator[Sighting]], *further: Any) -> Run:
    """A run that was launched and left at once."""
    desk.scripts(script, *further)
    run = desk.planned(LONG, targets=[A, B])
    with pytest.raises(Detached):
        desk.executor().follow(run, desk.request(LONG), until_launched=True)
    return desk.journal.run(run.run_id)


# --- the decision ------------------------------------------------------------------------------------------------


def look(at: datetime | None, **changes: Any) -> Look:
    seen = an_instance(InstanceState.RUNNING, **changes)
    return Look(instance=seen, sign=None if at is None else Sign(at, trains=True))


@each_row("phase", [Phase.BOOTING, Phase.RUNNING])
@each_row(
    ("look", "after", "hung"),
    [
        (look(NOON + 9 * HOUR), 9 * HOUR + SILENCE_LIMIT, False),
        (look(NOON + 9 * HOUR), 9 * HOUR + SILENCE_LIMIT + SECOND, True),
        (look(NOON + 30 * HOUR), 20 * HOUR, False),  # the machine's clock is fast
        # What an earlier attempt's clock said does not count against a machine that was only just made.
        (look(NOON - HOUR), SILENCE_LIMIT, False),
        (look(NOON - HOUR), SILENCE_LIMIT + SECOND, True),
        (look(None), BOOT_LIMIT, False),
        (look(None), BOOT_LIMIT + SECOND, True),
        (look(None, launched_at=NOON + HOUR), HOUR + BOOT_LIMIT, False),
        (look(None, bills=False), 9 * HOUR, False),  # it waits in its provider's queue
        (Look(instance=an_instance(InstanceState.RUNNING), knows_ages=False), 9 * HOUR, False),
    ],
)
def test_a_machine_counts_as_hung_by_its_newest_sign_of_life_alone(
    phase: Phase, look: Look, after: timedelta, hung: bool
) -> None:
    run = a_run(phase, made=(an_attempt(),), deadline=NOON + 100 * HOUR)
    action = next_action(run, look, NOON + after)
    assert isinstance(action, Interrupt) if hung else action == Wait()


def test_a_hung_machine_that_is_to_stop_is_not_waited_for() -> None:
    run = a_run(Phase.RUNNING, attempts=1, deadline=NOON + 9 * HOUR, stop_asked=NOON)
    action = next_action(run, look(NOON), NOON + 2 * HOUR)
    assert getattr(action, "outcome", None) is Outcome.STOPPED


# --- what counts as a sign ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "status", "sign"),
    [
        (None, None, None),
        (None, {"state": "booting", "time": NOON.isoformat()}, Sign(NOON, trains=False)),
        (None, {"state": "fetching", "time": NOON.isoformat()}, Sign(NOON, trains=False)),
        (None, {"state": "running", "time": NOON.isoformat()}, Sign(NOON, trains=True)),
        (None, {"state": "stopping", "time": NOON.isoformat()}, Sign(NOON, trains=True, stops=True)),
        (NOON, None, Sign(NOON, trains=True)),
        (NOON, {"state": "running", "time": (NOON + HOUR).isoformat()}, Sign(NOON + HOUR, trains=True)),
        (NOON + HOUR, {"state": "running", "time": NOON.isoformat()}, Sign(NOON + HOUR, trains=True)),
        (None, {"state": "running", "time": "2026-11-21T12:00:00"}, None),  # no time zone
        (None, {"state": "running", "time": "soon"}, None),
        (NOON, {"state": "running"}, Sign(NOON, trains=True)),
    ],
)
def test_the_newest_of_progress_and_heartbeat_is_the_sign(
    line: datetime | None, status: dict[str, str] | None, sign: Sign | None
) -> None:
    store, story = FakeStore(), Story()
    if line is not None:
        story.add({"event": "phase", "name": "data", "seconds": 1.0, "time": line.isoformat()})
    if status is not None:
        store.put("attempts/1/status.json", json.dumps(status).encode())
    assert newest_sign(store, 1, story, NOON + 9 * HOUR) == sign


def test_a_line_that_is_just_written_saves_the_read_of_the_status() -> None:
    store, story = FakeStore(), Story()
    store.down = TransientError("must not be asked")
    story.add({"event": "checkpoint", "step": 1, "time": NOON.isoformat()})
    assert newest_sign(store, 1, story, NOON + FRESH - SECOND) == Sign(NOON, trains=True)
    with pytest.raises(TransientError):
        newest_sign(store, 1, story, NOON + FRESH)


# --- what the executor makes of it -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "trains", "phase"),
    [
        ("running", True, Phase.RUNNING),  # it trains; steps are told rarely
        ("stopping", True, Phase.RUNNING),  # it brings its results home
        ("fetching", False, Phase.BOOTING),  # a large data set
        ("preparing", False, Phase.BOOTING),
    ],
)
@pytest.mark.parametrize("away", [10 * 60, 50 * 60, 3 * 3600, 25 * 3600])
def test_the_first_look_after_hours_leaves_a_living_machine_alone(
    desk: Desk, state: str, trains: bool, phase: Phase, away: float
) -> None:
    run = launched(desk, alive(state, trains=trains))
    (machine,) = desk.provider.machines
    desk.clock.advance(away)
    settled = desk.runner().settle(run)
    assert (settled.phase, [*desk.provider.machines]) == (phase, [machine])
    assert (desk.provider.count("delete"), desk.provider.count("stop")) == (0, 0)


@pytest.mark.parametrize("away", [50 * 60, 3 * 3600])
def test_a_run_that_is_stopped_after_hours_stops_its_trainer(desk: Desk, away: float) -> None:
    def trains(machine: FakeMachine) -> Iterator[Sighting]:
        for seen in until_asked(machine):
            heartbeat(machine, "running")
            yield seen

    run = launched(desk, trains)
    desk.clock.advance(away)
    stopped, _ = desk.runner().stop(desk.runner().settle(run))
    assert (stopped.outcome, len(stopped.attempts), desk.provider.count("launch")) == (Outcome.STOPPED, 1, 1)
    assert desk.provider.store(run.run_id).list("checkpoints"), "with a checkpoint"


def test_a_run_that_is_attached_to_after_hours_goes_on_where_it_is(desk: Desk) -> None:
    def after_hours(machine: FakeMachine) -> Iterator[Sighting]:
        heartbeat(machine, "fetching")
        yield PENDING
        machine.clock.advance(3 * 3600)
        yield from trains_well(machine)

    run = launched(desk, after_hours)
    followed, receipt = desk.runner().follow(run, desk.request(LONG))
    assert (followed.outcome, receipt.attempts, desk.provider.count("launch")) == (Outcome.SUCCEEDED, 1, 1)


def test_a_machine_that_hangs_is_replaced_and_goes_on_from_its_checkpoint(desk: Desk) -> None:
    run = launched(desk, hangs, trains_well)
    followed, receipt = desk.runner().follow(run, desk.request(LONG))
    assert (followed.outcome, receipt.interruptions, desk.leaked) == (Outcome.SUCCEEDED, 1, [])
    first = followed.attempts[0]
    assert (first.end, first.step) == (EndKind.LOST, 100)
    assert str(first.reason).startswith("no sign of life since 2026-11-21 12:00 UTC: the machine hangs")
    assert first.ended_at is not None
    assert SILENCE_LIMIT < first.ended_at - NOON < SILENCE_LIMIT + timedelta(minutes=1)
    told = [event.detail for event in desk.events_of(PhaseReached) if event.phase is Phase.INTERRUPTED]
    assert told == [first.reason]


def test_a_machine_that_hung_while_nobody_looked_is_ended_by_the_first_look(desk: Desk) -> None:
    run = launched(desk, hangs)
    desk.runner().settle(run)
    desk.clock.advance(3 * 3600)
    settled = desk.runner().settle(desk.journal.run(run.run_id))
    assert (settled.outcome, desk.leaked) == (Outcome.INTERRUPTED, [])
    assert "no sign of life since" in str(settled.message)
    assert "plan attach goes on from step 100" in str(settled.message)


def test_where_the_store_does_not_answer_nothing_is_concluded_from_age(desk: Desk) -> None:
    run = launched(desk, hangs)
    store = desk.provider.store(run.run_id)
    store.down = TransientError("away")
    desk.clock.advance(3 * 3600)
    settled = desk.runner().settle(run)
    assert (settled.phase, len(desk.provider.machines)) == (Phase.BOOTING, 1)


def test_silence_is_counted_from_the_end_of_an_outage_of_the_store(desk: Desk) -> None:
    """The machine could not write either: it gets as long as ever once the store is back."""
    wanted = {"back": False}

    def waits_for_its_store(machine: FakeMachine) -> Iterator[Sighting]:
        machine.start()
        while not wanted["back"]:
            yield RUNNING
        for _ in range(30):
            yield RUNNING
        yield from trains_well(machine)

    run = launched(desk, waits_for_its_store)
    store = desk.provider.store(run.run_id)

    def away() -> None:
        store.down = TransientError("away")
        desk.clock.advance(2 * 3600)

    def back() -> None:
        store.down = None
        wanted["back"] = True

    before = len(desk.clock.sleeps)
    desk.clock.at_sleep |= {before + 2: away, before + 4: back}
    # The clock jumps in the second sleep: the store was found away before and after it.
    desk.clock.at_sleep[before + 1] = lambda: setattr(store, "down", TransientError("away"))
    followed, receipt = desk.runner().follow(run, desk.request(LONG))
    assert (followed.outcome, receipt.attempts) == (Outcome.SUCCEEDED, 1)
    assert any(event.text.startswith("no answer: away") for event in desk.events_of(Message))


def test_where_nobody_knows_the_providers_time_nothing_is_concluded_from_age(desk: Desk) -> None:
    """This machine: its computer may have slept all night, with the trainer in it."""
    desk.provider.offset = None
    run = launched(desk, hangs)
    desk.clock.advance(9 * 3600)
    assert desk.runner().settle(run).phase is Phase.RUNNING
    assert len(desk.provider.machines) == 1
