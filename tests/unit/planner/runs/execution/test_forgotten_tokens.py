"""A create that was cut off and is looked at again when the vendor has forgotten its token: it is never sent blindly.

The same request would make a second machine then: for a run that has long been trained, or with an old deadline.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.builders import a_job, a_target
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import done_at_once, stubborn, trains_well
from trainplan.planner.runs.events import Message, PhaseReached
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.providers.errors import TransientError

JOB = a_job(constraints={"deadline": "120h"})
A, B = (a_target(zone=zone) for zone in "ab")
HOUR = timedelta(hours=1)
LATE = [3 * HOUR, 48 * HOUR]


class Crash(BaseException):
    """The process is gone."""


def crash(operation: str) -> None:
    if operation == "launch":
        raise Crash


def cut_off(desk: Desk, *, arrived: bool) -> Run:
    """A run whose process died as it sent its create, before that took effect or after."""
    desk.provider.token_memory = HOUR
    if arrived:
        desk.provider.after = crash
    else:
        desk.provider.before = crash
    run = desk.planned(JOB, [A, B])
    with pytest.raises(Crash):
        desk.executor().follow(run, desk.request(JOB))
    desk.provider.before = desk.provider.after = lambda _: None
    (left,) = desk.journal.live()
    assert left.phase is Phase.LAUNCHING
    return left


def has_begun(desk: Desk) -> None:
    """The machine boots late and has just said its first words."""
    (machine,) = desk.provider.machines.values()
    machine.live()
    machine.live()


def attempts(desk: Desk) -> list[int]:
    """Of each create that was sent."""
    return [request.attempt for request in desk.provider.received]


@pytest.mark.parametrize("pause", LATE)
def test_a_machine_that_has_done_its_work_and_is_gone_is_not_made_again(desk: Desk, pause: timedelta) -> None:
    desk.scripts(done_at_once)
    run = cut_off(desk, arrived=True)
    (machine,) = desk.provider.machines.values()
    machine.live()
    machine.store.put("attempts/1/status.json", b'{"state": "done"}')
    desk.provider.machines.clear()  # its agent has ended it; the vendor shows it no more
    desk.clock.advance(pause.total_seconds())
    run, receipt = desk.runner().follow(run, desk.request(JOB))
    assert (run.outcome, attempts(desk)) == (Outcome.SUCCEEDED, [1])
    assert receipt.attempts == 1
    assert desk.leaked == []


@pytest.mark.parametrize("pause", LATE)
def test_a_machine_that_still_trains_is_taken_over(desk: Desk, pause: timedelta) -> None:
    desk.scripts(trains_well)
    run = cut_off(desk, arrived=True)
    desk.clock.advance(pause.total_seconds())
    has_begun(desk)
    run, _ = desk.runner().follow(run, desk.request(JOB))
    assert (run.outcome, attempts(desk)) == (Outcome.SUCCEEDED, [1])


@pytest.mark.parametrize("pause", LATE)
def test_a_create_that_made_nothing_is_given_up_and_a_new_one_is_sent(desk: Desk, pause: timedelta) -> None:
    """With a token and a deadline of its own, once a list must have shown what the old one made."""
    desk.provider.lag = timedelta(seconds=90)
    run = cut_off(desk, arrived=False)
    desk.clock.advance(pause.total_seconds())
    before = desk.clock.now()
    run, receipt = desk.runner().follow(run, desk.request(JOB))
    assert run.outcome is Outcome.SUCCEEDED
    assert attempts(desk) == [1, 2]
    first, second = run.attempts
    assert (first.ref, first.end, first.cleared) == (None, None, True)
    assert first.reason is not None
    assert "forgotten" in first.reason
    assert [told.detail for told in desk.events_of(PhaseReached) if told.phase is Phase.INTERRUPTED] == [first.reason]
    assert first.cost_usd(desk.clock.now()) == 0
    assert second.asked_at is not None
    assert second.asked_at - before >= timedelta(seconds=90)
    assert receipt.interruptions == 0
    assert desk.leaked == []


def test_as_long_as_the_token_is_known_the_same_request_is_sent(desk: Desk) -> None:
    run = cut_off(desk, arrived=True)
    desk.clock.advance(59 * 60)
    run, _ = desk.runner().follow(run, desk.request(JOB))
    assert (run.outcome, attempts(desk)) == (Outcome.SUCCEEDED, [1, 1])
    assert [attempt.tries for attempt in run.attempts] == [1]


def test_a_provider_that_does_not_answer_gets_no_create_until_it_does(desk: Desk) -> None:
    desk.scripts(trains_well)
    run = cut_off(desk, arrived=True)
    desk.clock.advance(48 * 3600)
    has_begun(desk)
    desk.provider.down["list_owned"] = TransientError("away")
    desk.clock.at_sleep[len(desk.clock.sleeps) + 5] = desk.provider.down.clear
    run, _ = desk.runner().follow(run, desk.request(JOB))
    assert (run.outcome, attempts(desk)) == (Outcome.SUCCEEDED, [1])
    assert [said.text for said in desk.events_of(Message) if "away" in said.text]


def test_a_wish_to_stop_ends_it_without_another_create(desk: Desk) -> None:
    desk.scripts(stubborn)
    run = cut_off(desk, arrived=True)
    desk.clock.advance(48 * 3600)
    desk.journal.ask_to_stop(run.run_id, desk.clock.now())
    run, _ = desk.runner().follow(desk.journal.run(run.run_id), desk.request(JOB))
    assert (run.outcome, attempts(desk)) == (Outcome.STOPPED, [1])
    assert desk.leaked == []
