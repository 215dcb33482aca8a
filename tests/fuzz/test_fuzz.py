"""A share of `make fuzz`, and that it can fail."""

from __future__ import annotations

import time

import pytest

from tests.fuzz import commands, run_directory
from tests.fuzz.mutations import Crash, no_longer_than

pytestmark = pytest.mark.slow


def test_mutated_run_directories() -> None:
    outcomes = run_directory.run(500, seed=2)
    assert outcomes["status: 0"] + outcomes["logs: 0"] == 500
    assert outcomes["stop: 0"] == 500 // run_directory.INPUTS_OF_A_RUN
    assert min(outcomes["launch: 0"], outcomes["launch: 6"]) > 5
    assert min(outcomes["collect: whole"], outcomes["collect: refused"]) > 100


def test_mutated_commands_and_job_files() -> None:
    outcomes = commands.run(200, seed=2)
    assert sum(outcomes.values()) == 200
    assert min(outcomes["code 0"], outcomes["code 2"]) > 20


def test_an_error_that_nobody_expects_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(*_: object) -> None:
        raise KeyError("step")

    monkeypatch.setattr(run_directory.Bench, "look", careless)
    with pytest.raises(Crash, match=r"seed 1/0: KeyError"):
        run_directory.run(1, seed=1)
    monkeypatch.setattr(commands, "plan", careless)
    with pytest.raises((Crash, KeyError), match=r"step"):
        commands.run(1, seed=1)


def test_a_hang_is_found() -> None:
    def loop() -> None:
        until = time.monotonic() + 20
        with no_longer_than(0.05, "a loop"):
            while time.monotonic() < until:
                pass

    with pytest.raises(Crash, match=r"a loop: it took longer"):
        loop()
