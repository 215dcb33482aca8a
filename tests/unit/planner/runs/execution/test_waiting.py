"""A request that waits for a machine: what it costs, and what becomes of a run that waited in vain."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from tests.builders import a_job, a_target, an_attempt, an_instance
from tests.doubles.clock import NOON
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import disappears, ends_after, in_vain, silent, trains_well, waits
from tests.unit.planner.runs.execution.followed import placements
from trainplan.planner.errors import TeardownUnverifiedError
from trainplan.planner.runs.execution.executor import Detached, ended_error
from trainplan.planner.runs.execution.observe import Observer
from trainplan.planner.runs.execution.recorder import Recorder
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.run import Outcome, Phase
from trainplan.providers.base import EndKind, InstanceState
from trainplan.providers.errors import InstanceNotFoundError, TransientError
from trainplan.workloads.durations import parse_duration

MINUTE = timedelta(minutes=1)
A, B, C = (a_target("3.6", zone=zone, instance_type="v3") for zone in "abc")
LONG = a_job(constraints={"deadline": "5h"})
QUEUED = an_instance(InstanceState.PENDING, bills=False)
WORKS = an_instance(InstanceState.RUNNING)


def an_observer(desk: Desk) -> Observer:
    """That of a process which has seen nothing yet."""
    return Observer(Recorder(desk.journal, desk.clock, desk.events.append))


# --- what it costs ------------------------------------------------------------------------------------------------


def test_waiting_costs_nothing(desk: Desk) -> None:
    desk.scripts(waits(1800, trains_well))
    run, receipt = desk.launch(LONG, targets=[A])
    (attempt,) = run.attempts
    assert run.outcome is Outcome.SUCCEEDED
    assert attempt.bills_from is not None
    assert attempt.ended_at is not None
    assert attempt.bills_from - NOON > 28 * MINUTE
    billed = attempt.ended_at - attempt.bills_from
    assert receipt.actual_usd == pytest.approx(0.001 * billed.total_seconds(), abs=0.001)
    assert billed < 4 * MINUTE


def test_a_run_that_waits_has_cost_nothing_so_far_whoever_looks(desk: Desk) -> None:
    desk.scripts(waits(1800, trains_well))
    run = desk.planned(LONG, targets=[A])
    with pytest.raises(Detached):
        desk.executor().follow(run, desk.request(LONG), until_launched=True)
    desk.clock.advance(600)
    settled = desk.executor().settle(desk.journal.run(run.run_id))
    assert (settled.phase, settled.attempts[0].queued) == (Phase.BOOTING, True)
    with desk.reopened() as journal:
        assert journal.run(run.run_id).cost_usd(desk.clock.now()) == 0


def test_a_machine_that_came_and_went_while_nobody_looked_is_charged_for(desk: Desk) -> None:
    """The last look had found the run waiting: a receipt of $0 for hours of training."""
    desk.scripts(waits(1800, trains_well))
    run = desk.planned(LONG, targets=[A])
    with pytest.raises(Detached):
        desk.executor().follow(run, desk.request(LONG), until_launched=True)
    waiting = desk.executor().settle(desk.journal.run(run.run_id)).attempts[0]
    assert waiting.queued
    assert waiting.ref is not None
    for _ in range(20):  # it lives on
        desk.clock.advance(120)
        desk.provider.get(waiting.ref)
    desk.clock.advance(6 * 3600)
    desk.provider.down["get"] = TransientError("no answer", hint="try again")
    with pytest.raises(TeardownUnverifiedError):
        desk.executor().settle(desk.journal.run(run.run_id))
    desk.provider.down["get"] = InstanceNotFoundError("it is gone")
    settled = desk.executor().settle(desk.journal.run(run.run_id))
    (attempt,) = settled.attempts
    assert (settled.outcome, attempt.queued) == (Outcome.SUCCEEDED, False)
    assert attempt.bills_by is not None
    assert settled.cost_usd(desk.clock.now()) > settled.uncertain_usd.compute > 0, "from the request on, at most"


@pytest.mark.parametrize("is_start_told", [True, False])
def test_where_nobody_tells_since_when_it_is_charged_it_is_since_the_first_look_at_most(
    desk: Desk, *, is_start_told: bool
) -> None:
    observer = an_observer(desk)
    made_at, seen_at = NOON + timedelta(seconds=5), NOON + 3 * MINUTE
    shown = replace(WORKS, bills_from=made_at, is_start_told=is_start_told)
    attempt = observer.with_billing(an_attempt(), shown, seen_at)
    assert (attempt.bills_from, attempt.bills_by) == (made_at, None if is_start_told else seen_at)
    assert observer.with_billing(attempt, shown, NOON + 300 * MINUTE) == attempt


@pytest.mark.parametrize(("seconds", "is_told"), [(20, False), (400, True)])
def test_a_machine_of_a_create_that_was_sent_again_is_charged_since_it_was_made(
    desk: Desk, *, seconds: int, is_told: bool
) -> None:
    """It was counted from the first create on, whose client had died."""
    made_at = NOON + timedelta(seconds=seconds)
    attempt = an_observer(desk).with_billing(an_attempt(), replace(WORKS, launched_at=made_at), NOON + 20 * MINUTE)
    assert attempt.bills_from == (made_at if is_told else None)


def test_a_deletion_that_was_seen_is_the_latest_end_of_a_machine(desk: Desk) -> None:
    observer, shown = an_observer(desk), replace(WORKS, state=InstanceState.STOPPING, is_deleted=True)
    attempt = observer.with_billing(an_attempt(), shown, NOON)
    assert attempt.deleted_by == NOON
    assert observer.with_billing(attempt, shown, NOON + MINUTE).deleted_by == NOON


def test_a_look_without_an_answer_does_not_end_the_wait(desk: Desk) -> None:
    desk.scripts(waits(1800, trains_well))
    run = desk.planned(LONG, targets=[A])
    with pytest.raises(Detached):
        desk.executor().follow(run, desk.request(LONG), until_launched=True)
    assert desk.executor().settle(desk.journal.run(run.run_id)).attempts[0].queued
    desk.provider.down["get"] = TransientError("no answer", hint="try again")
    settled = desk.executor().settle(desk.journal.run(run.run_id))
    assert (settled.phase, settled.attempts[0].queued) == (Phase.BOOTING, True)


def test_a_run_in_boot_is_not_running_before_its_trainer_is(desk: Desk) -> None:
    desk.scripts(silent)
    run = desk.planned(LONG, targets=[A])
    with pytest.raises(Detached):
        desk.executor().follow(run, desk.request(LONG), until_launched=True)
    assert desk.executor().settle(desk.journal.run(run.run_id)).phase is Phase.BOOTING
    for state, phase in (("fetching", Phase.BOOTING), ("running", Phase.RUNNING)):
        status = {"state": state, "time": desk.clock.now().isoformat()}
        desk.provider.store(run.run_id).put("attempts/1/status.json", json.dumps(status).encode())
        assert desk.executor().settle(desk.journal.run(run.run_id)).phase is phase


def test_the_instant_is_kept_in_the_journal(desk: Desk) -> None:
    desk.scripts(waits(120, trains_well))
    run, _ = desk.launch(LONG, targets=[A])
    with Journal.open(desk.settings.journal) as journal:
        kept = journal.run(run.run_id).attempts[0]
    assert (kept.bills_from, kept.queued) == (run.attempts[0].bills_from, False)


def test_what_went_while_nobody_looked_is_counted_from_its_request(desk: Desk) -> None:
    desk.scripts(waits(60, disappears))
    run = desk.planned(LONG, targets=[A])
    with pytest.raises(Detached):
        desk.executor().follow(run, desk.request(LONG), until_launched=True)
    assert desk.executor().settle(desk.journal.run(run.run_id)).attempts[0].queued
    desk.provider.machines.clear()
    desk.clock.advance(3600)
    settled = desk.executor().settle(desk.journal.run(run.run_id))
    assert (settled.phase, settled.attempts[0].queued) == (Phase.DONE, False)
    assert settled.cost_usd(desk.clock.now()) > Decimal("3.5")


@pytest.mark.parametrize(
    ("looks", "since"),
    [
        ([WORKS], None),
        ([an_instance(InstanceState.RUNNING, bills_from=NOON + 9 * MINUTE)], NOON + 9 * MINUTE),
        ([QUEUED, WORKS], NOON),
        ([QUEUED, QUEUED, WORKS, WORKS], NOON + MINUTE),
        # The provider tells when it was made, and the looks that it was not ready afterwards.
        ([QUEUED, QUEUED, an_instance(InstanceState.RUNNING, bills_from=NOON)], NOON + MINUTE),
        # Once known it stays, whatever is told later.
        ([QUEUED, WORKS, an_instance(InstanceState.ENDED, bills_from=NOON + 9 * MINUTE), None], NOON),
        ([QUEUED, None], NOON),
    ],
)
def test_it_bills_from_the_last_look_that_found_it_waiting(desk: Desk, looks: list, since: object) -> None:  # type: ignore[type-arg]
    observer, attempt = an_observer(desk), an_attempt()
    for number, seen in enumerate(looks):
        attempt = observer.with_billing(attempt, seen, NOON + number * MINUTE)
    assert (attempt.queued, attempt.bills_from) == (False, since)


def test_another_process_takes_the_earliest_instant_that_the_provider_tells(desk: Desk) -> None:
    attempt = an_observer(desk).with_billing(an_attempt(), QUEUED, NOON + 20 * MINUTE)
    told = an_instance(InstanceState.RUNNING, bills_from=NOON + 21 * MINUTE)
    assert an_observer(desk).with_billing(attempt, told, NOON + 60 * MINUTE).bills_from == NOON + 21 * MINUTE
    assert an_observer(desk).with_billing(attempt, WORKS, NOON + 60 * MINUTE).bills_from is None


# --- in vain ------------------------------------------------------------------------------------------------------


def test_where_it_waited_in_vain_the_run_goes_to_the_next_placement(desk: Desk) -> None:
    desk.scripts(waits(600, in_vain), waits(600, in_vain), trains_well)
    run, receipt = desk.launch(LONG, targets=[A, B, C])
    assert (run.outcome, placements(run)) == (Outcome.SUCCEEDED, ["a", "b", "c"])
    assert [attempt.end for attempt in run.attempts[:2]] == [EndKind.NO_CAPACITY] * 2
    assert (receipt.attempts, receipt.interruptions, receipt.lost_steps) == (3, 0, 0)
    assert [refusal.zone for refusal in desk.journal.refusals(desk.clock.now())] == ["a", "b"]
    assert run.attempts[0].cost_usd(desk.clock.now()) == 0
    assert desk.leaked == []


def test_a_run_that_waited_in_vain_everywhere_found_no_capacity(desk: Desk) -> None:
    desk.scripts(waits(120, in_vain))
    run, receipt = desk.launch(LONG, targets=[A, B])
    assert run.outcome is Outcome.NO_CAPACITY
    assert placements(run) == ["a", "b"] * (receipt.attempts // 2)
    asked = f"2 placements were asked in {receipt.attempts // 2} passes with {receipt.attempts} creates"
    assert run.message == f"{asked}, none has room: it waited in vain"
    assert ended_error(run).exit_code == 5
    assert (receipt.actual_usd, desk.leaked) == (0, [])


def test_waits_in_vain_are_not_counted_as_interruptions_without_progress(desk: Desk) -> None:
    """Four in a row, after a machine that was taken back."""
    vain = waits(60, in_vain)
    desk.scripts(ends_after(EndKind.KILLED, 10), vain, vain, vain, vain, trains_well)
    targets = [a_target(zone=zone, instance_type="v3") for zone in "abcdef"]
    run, receipt = desk.launch(LONG, targets=targets)
    assert (run.outcome, receipt.interruptions, receipt.lost_steps) == (Outcome.SUCCEEDED, 1, 3)


def test_a_run_that_waits_is_stopped_at_once(desk: Desk) -> None:
    desk.scripts(waits(1800, trains_well))

    def stop() -> None:
        with desk.reopened() as journal:
            journal.ask_to_stop(journal.live()[0].run_id, desk.clock.now())

    desk.clock.at_sleep[3] = stop
    run, receipt = desk.launch(LONG, targets=[A, B])
    assert (run.outcome, run.message) == (Outcome.STOPPED, "stopped while it waited for a machine")
    assert timedelta(seconds=receipt.actual_seconds) < parse_duration("10m")
    assert (receipt.actual_usd, desk.leaked) == (0, [])
