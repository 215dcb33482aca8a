"""A launch whose client never comes back: what ends its machine then, and what does when each timer is switched off."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.builders import a_job
from tests.doubles.clock import NOON
from tests.faults.commands import Command, Computer, installed
from tests.faults.random_sim import SimOf
from tests.faults.sim import QUICK, Hung, targets_of
from trainplan.pricing.offers import Market
from trainplan.providers.sim.scenario import Scenario
from trainplan.providers.sim.values import MachineState, SimMachine, Why

DEADLINE = timedelta(minutes=20)
GRACE = timedelta(minutes=5)
BEFORE_THE_SCHEDULE, TRAINING = 12, 40
"""Calls and writes after which the client is killed: its machine has just been made, or trains."""


def abandoned(home: Path, dies_at: int, **scenario: Any) -> SimMachine:
    """The machine of a client that was killed, two hours later. Its trainer hangs, so that only timers end it."""
    cloud = SimOf(Scenario.model_validate({**QUICK, **scenario}), Hung())
    computer, world = Computer(home, cloud), cloud.world
    job = a_job(constraints={"deadline": "20m"})
    with installed(home):
        run = computer.draft("261121-00000001", job, targets_of(Market.ON_DEMAND))
        computer.launch(Command(dies_at), run, job)
    assert [machine.live for machine in world.state.machines.values()] == [True], "it dies while its machine lives"
    world.advance(NOON + timedelta(hours=2))
    (machine,) = world.state.machines.values()
    if machine.state is MachineState.TERMINATED:
        assert all(thing.ended_at is not None for thing in world.state.things.values() if thing.usd_per_hour)
    return machine


@pytest.mark.parametrize("dies_at", [BEFORE_THE_SCHEDULE, TRAINING])
@pytest.mark.parametrize(
    ("works", "why", "latest"),
    [
        ({}, Why.MACHINE_TIMER, DEADLINE),
        ({"cloud_timer_works": False}, Why.MACHINE_TIMER, DEADLINE),
        ({"machine_timer_works": False}, Why.CLOUD_TIMER, DEADLINE + GRACE),
    ],
)
def test_a_machine_ends_without_its_client(
    tmp_path: Path, dies_at: int, works: dict[str, bool], why: Why, latest: timedelta
) -> None:
    machine = abandoned(tmp_path, dies_at, **works)
    assert (machine.why, machine.state) == (why, MachineState.TERMINATED)
    assert machine.ended_at is not None
    assert machine.ended_at - NOON <= latest


def test_a_schedule_is_the_clouds_timer_where_the_create_arms_none(tmp_path: Path) -> None:
    machine = abandoned(tmp_path, TRAINING, machine_timer_works=False, standing_reaper=False)
    assert machine.why is Why.CLOUD_TIMER


def test_without_any_timer_the_machine_is_still_there(tmp_path: Path) -> None:
    """That is why both are armed, and what the other tests would see."""
    machine = abandoned(tmp_path, TRAINING, machine_timer_works=False, cloud_timer_works=False)
    assert machine.live
