"""A run whose first minutes are its pilot: it stays where it is the cheapest, else it goes on elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders import a_job, a_target
from tests.doubles.fake_machine import RUNNING, SIGHTING_OF_END, STOPPING, FakeMachine, Sighting
from trainplan.planner.planning.own_measurements import load_measurements
from trainplan.planner.runs.events import Message
from trainplan.planner.runs.execution.executor import Detached
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.pricing.offers import Market
from trainplan.providers.base import Check, EndKind, PreflightState
from trainplan.providers.interrupts import HungUp

if TYPE_CHECKING:
    from tests.doubles.desk import Desk
    from tests.doubles.fake_machine import Script
    from trainplan.planner.runs.targets import Target

JOB = a_job(epochs=40, constraints={"deadline": "20h"})  # 2 million images
AWAY = {"market": Market.ON_DEMAND, "seconds": 2300.0, "overhead_seconds": 300.0, "images_per_second": 1000.0}


def at(device: str, usd: str, **changes: Any) -> Target:
    return a_target(usd, device=device, zone=device, instance_type=f"{device}.one", **{**AWAY, **changes})


FIRST, SECOND, THIRD = at("T4", "1.0"), at("V100", "1.1"), at("A100-40GB", "1.5")


def at_a_rate(rate: float, look_seconds: float = 8) -> Script:
    """Trains at this rate, so many seconds a look, until it is done or asked to end."""

    def script(machine: FakeMachine) -> Iterator[Sighting]:
        machine.start()
        machine.say("phase", name="compile", seconds=1.0)
        while machine.step < machine.total_steps:
            machine.train(min(max(1, round(look_seconds * rate / 128)), machine.total_steps - machine.step), rate)
            yield RUNNING
            if machine.stop_asked:
                yield STOPPING
                machine.checkpoint()
                machine.end("stopped", rate)
                yield SIGHTING_OF_END[EndKind.STOPPED]
                return
        machine.end("done", rate)
        machine.write_output({"model.keras": b"a model", "metrics.json": b"{}"})
        yield SIGHTING_OF_END[EndKind.DONE]

    return script


def launched(desk: Desk, *scripts: Script, targets: tuple[Target, ...] = (FIRST, SECOND, THIRD)) -> Run:
    """The run as it ended."""
    desk.scripts(*scripts)
    runner = desk.runner()
    run = replace(runner.draft(JOB, targets, None, desk.folder / "model"), measures_first=True)
    runner.record(run, JOB, {})
    run, _ = runner.follow(run, desk.request(JOB))
    return run


def devices(run: Run) -> list[str]:
    return [attempt.target.offer.device for attempt in run.attempts if attempt.target]


def said(desk: Desk) -> list[str]:
    return [event.text for event in desk.events if isinstance(event, Message) and event.text.startswith("measured")]


def test_the_machine_that_is_the_cheapest_goes_straight_on(desk: Desk) -> None:
    run = launched(desk, at_a_rate(1000.0))
    assert (run.outcome, devices(run)) == (Outcome.SUCCEEDED, ["T4"])
    assert run.attempts[0].speed is not None
    assert not run.attempts[0].leaves
    (line,) = said(desk)
    assert line.startswith("measured 1,000 images/s ± 0.0%: the rest costs $")
    assert "it stays" in line
    assert desk.provider.count("launch") == 1
    assert desk.leaked == []


def test_one_that_is_not_is_left_with_a_checkpoint_and_the_run_goes_on_where_it_is_cheaper(desk: Desk) -> None:
    run = launched(desk, at_a_rate(400.0), at_a_rate(1000.0))
    assert (run.outcome, devices(run)) == (Outcome.SUCCEEDED, ["T4", "V100"])
    first, second = run.attempts
    assert first.end is EndKind.STOPPED
    assert first.step
    assert first.lost_steps == 0
    assert first.leaves
    assert second.speed is not None
    assert desk.leaked == []
    assert len(said(desk)) == 2


def test_where_the_next_disappoints_as_well_it_goes_back_to_what_is_known(desk: Desk) -> None:
    run = launched(desk, at_a_rate(600.0), at_a_rate(100.0), at_a_rate(600.0), targets=(FIRST, SECOND))
    assert (run.outcome, devices(run)) == (Outcome.SUCCEEDED, ["T4", "V100", "T4"])
    assert len(said(desk)) == 2, "what is known of a device is not measured again"


def test_what_was_measured_is_kept_of_each_machine(desk: Desk) -> None:
    desk.provider.name = "sim"
    there = tuple(replace(target, offer=replace(target.offer, provider="sim")) for target in (FIRST, SECOND))
    launched(desk, at_a_rate(400.0), at_a_rate(1000.0), targets=there)
    rows = load_measurements(desk.settings.measurements)
    assert [(row.machine, row.device, row.images_per_second) for row in rows] == [
        ("sim/T4.one", "T4", 400.0), ("sim/V100.one", "V100", 1000.0),
    ]  # fmt: skip
    assert rows[0].half_width == pytest.approx(0.0)


def test_whoever_lets_go_leaves_it_where_it_is(desk: Desk) -> None:
    """No machine waits for a word of anybody: it trains the whole job, within its limits, wherever the command is."""
    desk.scripts(at_a_rate(400.0, look_seconds=60))
    runner = desk.runner()
    run = replace(runner.draft(JOB, (FIRST, SECOND), None, desk.folder / "model"), measures_first=True)
    runner.record(run, JOB, {})
    with pytest.raises(Detached):
        runner.follow(run, desk.request(JOB), until_launched=True)
    for _ in range(120):
        desk.clock.sleep(60)
        run = desk.runner().settle(desk.journal.run(run.run_id))
        if run.phase is Phase.DONE:
            break
    assert (run.outcome, devices(run), said(desk)) == (Outcome.SUCCEEDED, ["T4"], [])


def test_a_decision_to_leave_outlives_the_command_that_took_it(desk: Desk) -> None:
    """Killed before the machine is told: the next command tells it, and compares nothing again."""
    desk.scripts(at_a_rate(400.0), at_a_rate(1000.0))
    runner = desk.runner()
    run = replace(runner.draft(JOB, (FIRST, SECOND), None, desk.folder / "model"), measures_first=True)
    runner.record(run, JOB, {})

    def die(operation: str) -> None:
        if operation == "stop":
            raise HungUp

    desk.provider.before = die
    with pytest.raises(Detached):
        runner.follow(run, desk.request(JOB))
    desk.provider.before = lambda _: None
    assert desk.journal.run(run.run_id).attempts[0].leaves
    run, _ = desk.runner().follow(desk.journal.run(run.run_id), desk.request(JOB))
    assert (run.outcome, devices(run)) == (Outcome.SUCCEEDED, ["T4", "V100"])
    assert len(said(desk)) == 2


def test_a_place_that_would_not_take_it_is_no_reason_to_leave(desk: Desk) -> None:
    desk.provider.checks = (Check(name="permission", state=PreflightState.REFUSED, detail="not allowed"),)
    run = launched(desk, at_a_rate(400.0))
    assert (run.outcome, devices(run)) == (Outcome.SUCCEEDED, ["T4"])
    assert said(desk)[0].endswith("it stays: no other placement can take it")
