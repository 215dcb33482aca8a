"""Attempts whose object store is away, lets nobody in, or comes back late."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.providers.agent.machine import NOON, Rented
from tests.unit.providers.agent.stored import checkpoints
from trainplan.providers.agent.store import DeniedError


def test_a_store_that_is_away_for_minutes_costs_nothing(rented: Rented) -> None:
    rented.trainer.total_steps = 900
    rented.at(100, lambda: setattr(rented.store, "away", True))
    rented.at(500, lambda: setattr(rented.store, "away", False))
    assert rented.run().state == "done"
    assert rented.status["state"] == "done"
    assert checkpoints(rented.store) == ["step-00000840", "step-00000870"]
    steps = rented.store.objects["attempts/1/progress.jsonl"].count(b'"step"')
    assert steps > 80


def test_a_store_that_stays_away_does_not_keep_the_machine(tmp_path: Path) -> None:
    rented = Rented(tmp_path, store_patience_seconds=900)
    rented.at(100, lambda: setattr(rented.store, "away", True))
    ending = rented.run()
    assert (ending.state, ending.reason) == ("failed", "RESULTS_NOT_STORED")
    assert rented.clock.instant < NOON + 120 + 1900
    assert json.loads((rented.paths.root / "status.json").read_text())["reason"] == "RESULTS_NOT_STORED"


def test_a_store_that_never_answers_is_a_boot_deadline(rented: Rented) -> None:
    rented.store.away = True
    assert rented.run().reason == "BOOT_DEADLINE"
    assert rented.clock.instant < NOON + 1800 + 1900


# --- a store that lets nobody in ---------------------------------------------------------------------------------


def denied(path: str) -> None:
    if path.endswith("/status.json"):
        raise DeniedError(f"{path}: 403 AccessDenied")


@pytest.mark.parametrize("pull_seconds", [0.0, 400.0])
def test_a_store_that_refuses_every_write_ends_the_machine_within_minutes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], pull_seconds: float
) -> None:
    """It can tell nobody but its console: planner/runs/execution/observe.py reads that."""
    rented = Rented(tmp_path, refused_seconds=120.0)
    rented.docker.pull_seconds = pull_seconds
    rented.trainer.total_steps = 900
    rented.store.at_put = denied
    ending = rented.run()
    assert (ending.state, ending.reason) == ("failed", "STORE_REFUSED")
    assert 120 <= rented.clock.instant - NOON < 180
    (line,) = [line for line in capfd.readouterr().err.splitlines() if "STORE_REFUSED" in line]
    assert line.startswith("trainplan: STORE_REFUSED: this machine may not write its run directory: attempts/1/status")


def test_a_right_that_comes_late_is_waited_for(tmp_path: Path) -> None:
    rented = Rented(tmp_path, refused_seconds=120.0)
    rented.docker.pull_seconds = 400.0
    rented.store.at_put = denied
    rented.at(100, lambda: setattr(rented.store, "at_put", lambda path: None))
    assert rented.run().state == "done"


def test_a_right_that_is_lost_while_it_trains_does_not_end_the_training(tmp_path: Path) -> None:
    rented = Rented(tmp_path, refused_seconds=120.0)
    rented.trainer.total_steps = 900
    rented.at(100, lambda: setattr(rented.store, "at_put", denied))
    rented.at(600, lambda: setattr(rented.store, "at_put", lambda path: None))
    assert rented.run().state == "done"
