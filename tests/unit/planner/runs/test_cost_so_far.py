"""What a run has cost is counted no further than the end of its machine, whoever looks, and whenever."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal

import pytest

from tests.builders import a_job, a_target
from tests.doubles.clock import NOON
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import RATE, RUNNING, FakeMachine, Sighting, disappears, stubborn, trains_well
from trainplan.planner.api.event_lines import bills_line
from trainplan.planner.errors import TeardownUnverifiedError
from trainplan.planner.runs.directory.run_directory import LAST_WORDS
from trainplan.planner.runs.events import Progressed
from trainplan.planner.runs.execution.executor import Detached
from trainplan.planner.runs.journal.locks import RunLocks
from trainplan.planner.runs.run import Phase, Run
from trainplan.providers.errors import TransientError

HOUR = timedelta(hours=1)
DEAR = a_target("3.6")
"""A tenth of a cent a second."""
LONG = a_job(constraints={"deadline": "30h"})


def launched(desk: Desk, script: Callable[[FakeMachine], Iterator[Sighting]]) -> Run:
    """A run that was launched at noon and left at once."""
    desk.scripts(script)
    run = desk.planned(LONG, targets=[DEAR])
    with pytest.raises(Detached):
        desk.executor().follow(run, desk.request(LONG), until_launched=True)
    return desk.journal.run(run.run_id)


def test_a_run_that_another_process_holds_costs_no_more_once_its_machine_is_gone(desk: Desk) -> None:
    """That process may sit at a question, and the journal know nothing of the end."""
    run = launched(desk, disappears)
    with RunLocks(desk.settings.home / "locks").holding(run.run_id) as mine:
        assert mine
        alive = desk.runner().settle(run)
        assert (alive.attempts[0].ended_at, alive.bills_usd_per_hour) == (None, Decimal("3.6"))
        desk.clock.advance(3 * 3600)
        shown = desk.runner().settle(run)
    assert (shown.phase, shown.attempts[0].ended_at) == (Phase.BOOTING, NOON + LAST_WORDS)
    assert shown.cost_usd(desk.clock.now()) == Decimal("0.3")
    assert (shown.bills, shown.bills_usd_per_hour) == (True, 0)
    when = f"{(NOON + LAST_WORDS).astimezone():%Y-%m-%d %H:%M}"
    assert bills_line(shown).startswith(f"the machine of run {run.run_id} ended at {when}; a disk or an address may")
    assert desk.journal.run(run.run_id).attempts[0].ended_at is None, "who looks writes nothing"


def test_a_machine_that_ended_while_its_teardown_was_given_up_is_not_charged_until_the_next_command(
    desk: Desk,
) -> None:
    """Its delete was refused, it ended itself at its deadline, and somebody came back two days later."""
    run = launched(desk, stubborn)
    desk.journal.ask_to_stop(run.run_id, desk.clock.now())
    away = TransientError("away")
    desk.provider.down |= {"delete": away, "list_owned": away}
    desk.clock.advance(31 * 3600)  # past its deadline: the run is to be ended
    with pytest.raises(TeardownUnverifiedError):
        desk.runner().settle(desk.journal.run(run.run_id))
    desk.provider.machines.clear()
    desk.provider.down.clear()
    desk.clock.advance(48 * 3600)
    done = desk.runner().settle(desk.journal.run(run.run_id))
    ended_at = done.attempts[0].ended_at
    assert done.phase is Phase.DONE
    assert ended_at is not None
    assert NOON + 31 * HOUR < ended_at < NOON + 32 * HOUR


def test_steps_that_are_read_late_show_what_the_run_had_cost_when_they_were_written(desk: Desk) -> None:
    def away_for_hours(machine: FakeMachine) -> Iterator[Sighting]:
        machine.start()
        for _ in range(3):
            machine.clock.advance(1000)
            machine.train(1, RATE)
        machine.clock.advance(600)
        yield RUNNING
        yield from trains_well(machine)

    run = launched(desk, away_for_hours)
    desk.runner().settle(run)
    shown = [event.usd_so_far for event in desk.events_of(Progressed)]
    assert [round(usd) for usd in shown] == [1, 2, 3]
