"""A command that follows a run may be left by a signal at any of its steps: nothing is lost, and it says so."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import trainplan.planner.runs
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import done_at_once
from trainplan.planner.runs.execution.executor import Detached
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.providers.interrupts import HungUp

ROOM = str(Path(trainplan.planner.runs.__file__).parent)
STEPS = 25
"""So many of the calls of a whole launch are broken off, evenly spread."""


class At:
    """Raises in the `number`th call of a function of the launch engine, counted from 1; 0: in none."""

    def __init__(self, number: int, error: type[BaseException]) -> None:
        self.seen = 0
        self._number = number
        self._error = error

    def __call__(self, frame: Any, event: str, argument: object) -> None:
        code = frame.f_code
        # What a generator raises while it is thrown away is told by Python, and reaches nobody.
        if event == "call" and code.co_filename.startswith(ROOM) and not code.co_flags & inspect.CO_GENERATOR:
            self.seen += 1
            if self.seen == self._number:
                raise self._error

    def during(self, act: Callable[[], object]) -> None:
        sys.setprofile(self)
        try:
            act()
        finally:
            sys.setprofile(None)


@pytest.mark.parametrize("error", [HungUp, KeyboardInterrupt])
def test_a_signal_at_any_step_lets_go_of_the_run_and_another_command_ends_it(
    tmp_path: Path, error: type[BaseException]
) -> None:
    homes = (tmp_path / str(number) for number in count())
    whole = At(0, error)
    run, launch = launched(desk := Desk(next(homes)))
    whole.during(launch)
    desk.close()
    assert whole.seen > 10 * STEPS
    for number in range(1, whole.seen + 1, whole.seen // STEPS):
        run, launch = launched(desk := Desk(next(homes)))
        signal = At(number, error)
        try:
            signal.during(launch)
        except Detached:
            pass
        except error:
            assert number < FIRST_STEPS, f"call {number} of {whole.seen}"
        if desk.journal.run(run.run_id).phase is Phase.DONE:
            desk.runner().settle(run)
        else:
            desk.runner().follow(desk.journal.run(run.run_id), desk.request())
        ended = desk.journal.run(run.run_id)
        assert (ended.phase, desk.leaked) == (Phase.DONE, []), number
        assert ended.outcome in (Outcome.SUCCEEDED, Outcome.STOPPED), number
        assert desk.journal.receipt(run.run_id) is not None, number
        desk.close()


FIRST_STEPS = 3
"""The run is not followed yet."""


def launched(desk: Desk) -> tuple[Run, Callable[[], object]]:
    """A planned run on a machine that is rented, and the command that follows it."""
    desk.scripts(done_at_once, done_at_once)
    desk.provider.name = "aws"
    run = desk.planned(provider="aws")
    return run, lambda: desk.runner().follow(run, desk.request())
