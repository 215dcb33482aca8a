"""A rented machine is taken back at moments of chance, three times over: every epoch is trained, little of it twice."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.doubles.waiting import until
from tests.e2e.test_rented_machine import digits, home_files, written
from tests.e2e.yard.machine import Running
from tests.e2e.yard.provider import now
from tests.e2e.yard.stores import Store
from tests.e2e.yard.trial import Client, Trial
from tests.e2e.yard.yard import Yard

pytestmark = [pytest.mark.container, pytest.mark.train, pytest.mark.e2e]
SEED = 20261121
INTERRUPTIONS = 3
EPOCHS, STEPS = 40, 44
INTERVAL = timedelta(seconds=5)
ALLOWED = INTERVAL + timedelta(seconds=30)
"""Work that one interruption may cost."""
LONGEST_NOTICE = {"aws": 40.0, "gcp": 30.0, "azure": 30.0}
"""Seconds from the notice to the end of the power. EC2 gives 120; nobody waits for them here."""
PATIENCE = 1800.0


@pytest.mark.parametrize("store", ["aws", "gcp", "azure"], indirect=True)
def test_three_interruptions_cost_little(yard: Yard, store: Store, trainer_image: str, tmp_path: Path) -> None:
    chance = Random(f"{SEED} {store.cloud}")
    with Trial(yard, store, tmp_path) as trial:
        job = digits(epochs=EPOCHS, checkpoint_every=f"{INTERVAL.total_seconds():.0f}s")
        client = trial.launch(job, trainer_image, deadline_seconds=3600)
        for number in range(1, INTERRUPTIONS + 1):
            beyond = max((line["step"] for line in steps(trial, client, number - 1)), default=0)
            goal = beyond + chance.randrange(20, EPOCHS * STEPS // 5)
            reach(trial, client, number, goal)
            take_back(trial.machine(number), timedelta(seconds=chance.uniform(1, LONGEST_NOTICE[store.cloud])))
        receipt = client.wait(PATIENCE)

        assert receipt["outcome"] == "succeeded", receipt
        assert (receipt["attempts"], receipt["interruptions"]) == (INTERRUPTIONS + 1, INTERRUPTIONS)
        assert receipt["steps"] == receipt["total_steps"] == EPOCHS * STEPS
        assert 0 <= receipt["lost_steps"] <= sum(repeated(trial, client, number) for number in range(1, 4)) + 3 * STEPS
        for number in range(1, INTERRUPTIONS + 1):
            assert lost(trial, client, number) <= ALLOWED
        assert home_files(tmp_path / "model") == written(trial.machine(INTERRUPTIONS + 1)) != {}
        assert all(machine.is_off() for machine in trial.machines())


def reach(trial: Trial, client: Client, number: int, step: int) -> None:
    """Attempt `number` has trained so far, in the middle of whatever it does there."""
    text = f"attempt {number} trains beyond step {step}"
    client.until(lambda: any(line["step"] >= step for line in steps(trial, client, number)), text, PATIENCE)


def take_back(machine: Running, after: timedelta) -> None:
    """The notice, and so long later the end of its power; a machine that has gone by itself is left alone."""
    gone = machine.raise_notice(after)
    until(lambda: now() >= gone or machine.is_off(), "the notice is over", seconds=PATIENCE)
    machine.kill()


def steps(trial: Trial, client: Client, number: int) -> list[dict[str, Any]]:
    return [line for line in trial.progress(client.run_id, number) if line["event"] == "step"] if number else []


def repeated(trial: Trial, client: Client, number: int) -> int:
    """Steps of an attempt that the next one trained again, as far as its progress was told."""
    done = max(line["step"] for line in steps(trial, client, number))
    return max(0, done - int(resumed(trial, client, number + 1)["resumed_from_step"]))


def lost(trial: Trial, client: Client, number: int) -> timedelta:
    """From the checkpoint that the next attempt went on from to the last step that this one told of."""
    kept = int(resumed(trial, client, number + 1)["resumed_from_step"])
    lines = trial.progress(client.run_id, number)
    last = max(_time(line) for line in lines if line["event"] == "step")
    saved = [_time(line) for line in lines if line["event"] == "checkpoint" and line["step"] == kept]
    began = _time(next(line for line in lines if line["event"] == "start"))
    return last - (saved[0] if saved else began)


def resumed(trial: Trial, client: Client, number: int) -> dict[str, Any]:
    """The first word of an attempt's trainer."""
    return next(line for line in trial.progress(client.run_id, number) if line["event"] == "start")


def _time(line: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(line["time"])
