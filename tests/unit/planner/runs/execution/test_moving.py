"""A run under a deadline that leaves its market: decided once, kept in the journal, never decided while it stops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.builders import a_job, a_run, a_target, an_instance
from tests.doubles.clock import NOON
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import RUNNING, SIGHTING_OF_END, STOPPING, FakeMachine, Sighting, trains_well
from trainplan.planner.runs.decision.market import Trained
from trainplan.planner.runs.decision.next_action import Look, Move, Wait, next_action
from trainplan.planner.runs.directory.signs import Sign
from trainplan.planner.runs.events import Message
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.pricing.offers import Market
from trainplan.providers.base import EndKind, InstanceState
from trainplan.workloads.job import OnSlow

HOUR = 3600.0
SPOT = a_target(
    "0.3", market=Market.SPOT, on_demand_usd_per_hour=Decimal(1), zone="a", seconds=10 * HOUR, overhead_seconds=300.0
)
ON_DEMAND = a_target("1.0", market=Market.ON_DEMAND, zone="a", seconds=10 * HOUR, overhead_seconds=300.0)
ONE_STEP_IN_TEN_MINUTES = 128 / 600


def _too_slow_for_its_deadline(machine: FakeMachine) -> Iterator[Sighting]:
    """A step in ten minutes until it is asked to end; then five looks pass before its checkpoint is there."""
    machine.start()
    while not machine.stop_asked:
        machine.train(1, ONE_STEP_IN_TEN_MINUTES)
        yield RUNNING
    yield from [STOPPING] * 5
    machine.checkpoint()
    machine.end("stopped", ONE_STEP_IN_TEN_MINUTES)
    yield SIGHTING_OF_END[EndKind.STOPPED]


def moved(desk: Desk) -> tuple[Run, list[Market | None]]:
    """A run that leaves spot for on demand, at its end; and what the journal said of the move at each wish to stop."""
    kept: list[Market | None] = []

    def look(operation: str) -> None:
        if operation == "stop":
            with desk.reopened() as journal:
                kept.append(journal.runs()[0].moving)

    desk.provider.before = look
    desk.scripts(_too_slow_for_its_deadline, trains_well)
    run, _ = desk.launch(a_job(constraints={"deadline": "12h"}), [SPOT, ON_DEMAND])
    return run, kept


def test_a_move_that_was_decided_is_in_the_journal_before_the_trainer_is_asked_to_stop(desk: Desk) -> None:
    run, kept = moved(desk)
    assert kept == [Market.ON_DEMAND]
    assert run.outcome is Outcome.SUCCEEDED
    assert [attempt.target and attempt.target.offer.market for attempt in run.attempts] == [
        Market.SPOT,
        Market.ON_DEMAND,
    ]
    assert run.attempts[0].end is EndKind.STOPPED
    assert run.moving is None, "it has arrived"


def test_a_move_is_decided_once(desk: Desk) -> None:
    moved(desk)
    assert len([said for said in desk.events_of(Message) if said.text.startswith("leaving for on demand")]) == 1


@pytest.mark.parametrize(
    "wish",
    [
        {"stop_asked": NOON},
        {"slow": OnSlow.STOP},
        {"slow": OnSlow.REPLAN},
        {"moving": Market.ON_DEMAND},
    ],
)
def test_nothing_is_decided_of_the_market_of_a_run_that_stops(wish: dict[str, Any]) -> None:
    """A move that is decided now would have the run go on, and bill, after it has stopped."""
    run = a_run(
        Phase.RUNNING, attempts=1, target=SPOT, targets=(SPOT, ON_DEMAND), deadline=NOON + timedelta(hours=12),
        deadline_given=True, total_steps=1000, checkpoint_seconds=600.0,
    )  # fmt: skip
    some = Trained(step=40, checkpoint_step=30)
    late = NOON + timedelta(hours=2, minutes=16)
    trains, stops = (an_instance(state) for state in (InstanceState.RUNNING, InstanceState.STOPPING))
    look = Look(instance=trains, trained=some, sign=Sign(late, trains=True), told_to_stop_at=late)
    assert isinstance(next_action(run, look, late), Move), "without the wish it would leave"
    assert next_action(replace(run, **wish), replace(look, instance=stops), late) == Wait()
