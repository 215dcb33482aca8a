"""Whatever takes a machine away, the run goes on from its checkpoint: in the next placement, within its limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.builders import a_job, a_target
from tests.doubles.clock import NOON
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import (
    MODEL,
    RATE,
    RUNNING,
    SIGHTING_OF_END,
    FakeMachine,
    Sighting,
    disappears,
    ends,
    ends_after,
    silent,
    stubborn,
    trains_at,
    trains_well,
)
from tests.doubles.fake_provider import FakeProvider
from tests.unit.planner.runs.execution.followed import placements
from trainplan.planner.runs.decision.next_action import TIMER_GRACE
from trainplan.planner.runs.directory.signs import BOOT_LIMIT
from trainplan.planner.runs.events import Message, PhaseReached, TrainerStarted
from trainplan.planner.runs.execution.executor import ended_error
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.planner.runs.targets import Target
from trainplan.pricing.grades import Market
from trainplan.providers.base import EndKind, InstanceRef
from trainplan.providers.errors import CapacityError, CredentialsError, TransientError
from trainplan.workloads.job import OnSlow
from trainplan.workloads.output_files import STOPPED_FOR_GOOD

A, B, C = (a_target(zone=zone, instance_type="g4") for zone in "abc")
INTERRUPTIONS = [EndKind.KILLED, EndKind.LOST, EndKind.RECLAIMED, EndKind.DEVICE_LOST]


def resumed_from(desk: Desk) -> list[int]:
    return [started.resumed_from_step for started in desk.events_of(TrainerStarted)]


# --- going on ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", INTERRUPTIONS)
def test_a_run_that_is_taken_away_goes_on_from_its_newest_checkpoint(desk: Desk, kind: EndKind) -> None:
    desk.scripts(ends_after(kind, 100), ends_after(kind, 50), trains_well)
    run, receipt = desk.launch(targets=[A, B, C])
    assert (run.outcome, len(run.attempts)) == (Outcome.SUCCEEDED, 3)
    assert resumed_from(desk) == [0, 100, 150]
    assert [(attempt.end, attempt.step, attempt.lost_steps) for attempt in run.attempts[:2]] == [
        (kind, 100, 3),
        (kind, 150, 3),
    ]
    assert (receipt.attempts, receipt.interruptions, receipt.lost_steps, receipt.steps) == (3, 2, 6, 780)
    assert (desk.folder / "model" / "model.keras").read_bytes() == MODEL["model.keras"]
    assert desk.leaked == []


def test_each_machine_is_gone_before_the_next_one_is_asked_for(desk: Desk) -> None:
    desk.provider.slow_deletes = 3
    desk.provider.disks = True

    def look(operation: str) -> None:
        assert operation != "launch" or desk.leaked == []

    desk.provider.before = look
    desk.scripts(ends_after(EndKind.KILLED, 10), disappears, trains_well)
    run, _ = desk.launch(targets=[A])
    assert run.outcome is Outcome.SUCCEEDED
    assert [event.phase for event in desk.events_of(PhaseReached)].count(Phase.INTERRUPTED) == 2


def test_where_spot_was_just_taken_back_the_run_does_not_go(desk: Desk) -> None:
    desk.scripts(ends_after(EndKind.RECLAIMED, 10), ends_after(EndKind.RECLAIMED, 10), trains_well)
    run, _ = desk.launch(targets=[A, B, C])
    assert placements(run) == ["a", "b", "c"]


class WithRecord(FakeProvider):
    """Has a record of what it took back."""

    def was_taken_back(self, ref: InstanceRef) -> bool:
        return ref.id.endswith("-1")


@pytest.mark.parametrize(("market", "end"), [("spot", EndKind.RECLAIMED), ("on_demand", EndKind.LOST)])
def test_a_spot_machine_that_is_gone_was_taken_back_where_a_record_says_so(
    tmp_path: Path, market: str, end: EndKind
) -> None:
    desk = Desk(tmp_path)
    desk.provider = WithRecord(desk.clock)
    desk.scripts(disappears, trains_well)
    run, _ = desk.launch(targets=[a_target(zone=zone, market=Market(market)) for zone in "ab"])
    assert (run.attempts[0].end, run.outcome) == (end, Outcome.SUCCEEDED)
    desk.close()


def test_with_one_placement_alone_it_waits_until_that_may_have_room_again(desk: Desk) -> None:
    desk.scripts(ends_after(EndKind.RECLAIMED, 10), trains_well)
    run, receipt = desk.launch(a_job(constraints={"deadline": "5h"}), targets=[A])
    assert (placements(run), run.outcome) == (["a", "a"], Outcome.SUCCEEDED)
    assert timedelta(minutes=14) < run.attempts[1].asked_at - NOON < timedelta(minutes=17)  # type: ignore[operator]
    assert any(text.startswith("no placement has capacity; trying again from") for text in messages(desk))
    assert receipt.actual_usd < 0.02, "waiting costs nothing"


def test_a_wait_for_room_ends_when_the_person_wants_it(desk: Desk) -> None:
    desk.scripts(ends_after(EndKind.RECLAIMED, 10), trains_well)

    def stop() -> None:
        with desk.reopened() as journal:
            journal.ask_to_stop(journal.live()[0].run_id, desk.clock.now())

    desk.clock.at_sleep[8] = stop
    run, _ = desk.launch(targets=[A])
    assert (run.phase, run.outcome, len(run.attempts)) == (Phase.DONE, Outcome.STOPPED, 1)
    assert desk.clock.now() - NOON < timedelta(minutes=10)


@pytest.mark.parametrize("script", [disappears, ends(EndKind.KILLED), ends(EndKind.DEVICE_LOST)])
def test_three_times_without_progress_is_enough(desk: Desk, script: Any) -> None:
    desk.scripts(script)
    run, receipt = desk.launch(targets=[A, B, C])
    assert (run.outcome, run.message) == (Outcome.FAILED, "interrupted 3 times without a newer checkpoint")
    assert (receipt.attempts, receipt.interruptions) == (3, 3)
    assert ended_error(run).exit_code == 6
    assert desk.leaked == []


def test_progress_starts_the_count_anew(desk: Desk) -> None:
    none, some = ends(EndKind.KILLED), ends_after(EndKind.KILLED, 10)
    desk.scripts(none, none, some, none, none, trains_well)
    run, receipt = desk.launch()
    assert (run.outcome, receipt.attempts) == (Outcome.SUCCEEDED, 6)


def test_refused_placements_in_between_are_no_interruptions(desk: Desk) -> None:
    desk.scripts(ends(EndKind.KILLED), trains_well, ends(EndKind.KILLED), trains_well)
    desk.provider.refuse |= {("launch", 2): CapacityError("no room")}
    run, receipt = desk.launch(targets=[A, B])
    assert (run.outcome, receipt.interruptions) == (Outcome.SUCCEEDED, 2)


def test_a_machine_that_never_boots_is_given_up_for_another(desk: Desk) -> None:
    desk.scripts(silent, trains_well)
    run, receipt = desk.launch(a_job(constraints={"deadline": "5h"}), targets=[A, B])
    assert (run.outcome, receipt.interruptions) == (Outcome.SUCCEEDED, 1)
    first = run.attempts[0]
    assert first.reason == "no sign of life within 45 minutes of the launch"
    assert first.ended_at is not None
    assert first.ended_at - NOON >= BOOT_LIMIT


# --- what the run directory knows better -------------------------------------------------------------------------


def vanishes_done(machine: FakeMachine) -> Iterator[Sighting]:
    """Ends itself as soon as its results are complete."""
    *looks, _ = trains_well(machine)
    yield from looks
    status(machine, "done")
    machine.vanished = True
    yield SIGHTING_OF_END[EndKind.LOST]


def vanishes(state: str) -> Any:
    def script(machine: FakeMachine) -> Iterator[Sighting]:
        machine.start()
        machine.train(5, RATE)
        yield RUNNING
        status(machine, state)
        machine.vanished = True
        yield SIGHTING_OF_END[EndKind.LOST]

    return script


def status(machine: FakeMachine, state: str) -> None:
    path = f"attempts/{machine.request.attempt}/status.json"
    machine.store.put(path, f'{{"state": "{state}"}}'.encode())


def test_a_machine_that_vanished_after_its_results_were_complete_has_done_its_work(desk: Desk) -> None:
    desk.scripts(vanishes_done)
    run, receipt = desk.launch()
    assert (run.outcome, receipt.attempts, receipt.accuracy) == (Outcome.SUCCEEDED, 1, 0.975)
    assert (desk.folder / "model" / "model.keras").exists()


def test_one_that_says_done_without_its_results_has_not(desk: Desk) -> None:
    desk.scripts(vanishes("done"), trains_well)
    run, receipt = desk.launch()
    assert (run.outcome, receipt.attempts, receipt.interruptions) == (Outcome.SUCCEEDED, 2, 1)


@pytest.mark.parametrize(("state", "outcome"), [("failed", Outcome.FAILED), ("deadline", Outcome.DEADLINE)])
def test_one_that_ended_in_another_way_is_not_launched_again(desk: Desk, state: str, outcome: Outcome) -> None:
    desk.scripts(vanishes(state), trains_well)
    run, _ = desk.launch()
    assert (run.outcome, len(run.attempts)) == (outcome, 1)


@pytest.mark.parametrize("state", ["running", "stopped", "nonsense"])
def test_one_that_was_still_at_it_is_launched_again(desk: Desk, state: str) -> None:
    desk.scripts(vanishes(state), trains_well)
    run, receipt = desk.launch()
    assert (run.outcome, receipt.interruptions) == (Outcome.SUCCEEDED, 1)


# --- limits ------------------------------------------------------------------------------------------------------


def test_the_deadline_is_the_whole_runs(desk: Desk) -> None:
    """However often it is taken away: no attempt gets more than what is left."""
    desk.scripts(ends_after(EndKind.KILLED, 10), ends_after(EndKind.KILLED, 10), stubborn)
    run, _ = desk.launch(a_job(constraints={"deadline": "30m"}))
    deadline = NOON + timedelta(minutes=30)
    assert [attempt.deadline for attempt in run.attempts] == [deadline] * 3
    assert (run.outcome, run.message) == (Outcome.DEADLINE, "the deadline has passed")
    assert deadline < desk.clock.now() < deadline + TIMER_GRACE + timedelta(minutes=1)


def test_a_wait_for_room_ends_at_the_deadline(desk: Desk) -> None:
    desk.scripts(ends_after(EndKind.RECLAIMED, 10))
    desk.provider.refuse |= {("launch", number): CapacityError("no room") for number in range(2, 99)}
    run, _ = desk.launch(a_job(constraints={"deadline": "3h"}), targets=[A, B])
    assert run.outcome in (Outcome.DEADLINE, Outcome.NO_CAPACITY)
    assert timedelta(minutes=105) < desk.clock.now() - NOON < timedelta(minutes=181)
    assert desk.provider.count("launch") > 4, "it went on asking"
    assert desk.leaked == []


def test_the_budget_is_the_whole_runs(desk: Desk) -> None:
    """$3.60 an hour and $1.80: half an hour in all, of which an attempt has used some."""
    dear = a_target("3.6")
    job = a_job(constraints={"deadline": "5h", "budget_usd": "1.80"})

    def ten_minutes(machine: FakeMachine) -> Iterator[Sighting]:
        machine.start()
        machine.checkpoint()
        yield RUNNING
        machine.clock.advance(600)
        machine.say("checkpoint", step=0)
        yield SIGHTING_OF_END[EndKind.KILLED]

    desk.scripts(ten_minutes, stubborn)
    run, receipt = desk.launch(job, targets=[dear])
    first, second = run.attempts
    assert first.deadline == NOON + timedelta(minutes=30)
    assert second.asked_at is not None
    assert second.deadline is not None
    left = second.deadline - second.asked_at
    assert timedelta(minutes=19) < left < timedelta(minutes=20)
    assert (run.outcome, run.message) == (Outcome.BUDGET, "the budget is used up")
    assert ended_error(run).exit_code == 8
    grace = Decimal("3.6") * Decimal(TIMER_GRACE.total_seconds() + 60) / 3600
    assert Decimal(receipt.actual_usd) <= Decimal("1.80") + grace


def test_a_machine_that_ends_itself_tells_the_budget_from_the_deadline(desk: Desk) -> None:
    desk.scripts(ends(EndKind.DEADLINE))
    by_budget, _ = desk.launch(a_job(constraints={"budget_usd": "0.01"}), targets=[a_target("1")])
    assert by_budget.outcome is Outcome.BUDGET
    by_deadline, _ = desk.launch(a_job(constraints={"budget_usd": "100"}), targets=[a_target("1")])
    assert by_deadline.outcome is Outcome.DEADLINE


def test_a_placement_that_the_rest_of_the_budget_does_not_pay_for_is_not_asked(desk: Desk) -> None:
    """A quarter of an hour passes before its first step."""
    slow_start = a_target("36", zone="a", overhead_seconds=900.0)
    run, _ = desk.launch(a_job(constraints={"budget_usd": "8"}), targets=[slow_start])
    assert (run.outcome, desk.provider.count("launch")) == (Outcome.BUDGET, 0)
    assert run.message == "the rest of the budget of $8 is not enough for any offer"


# --- slower than promised ----------------------------------------------------------------------------------------


SLOW_RATE = 100.0  # a step of 128 images takes 1.28 s; two minutes are a hundred of them


def promising(zone: str = "a", device: str = "cpu", **changes: Any) -> Target:
    """A placement that was said to train 500 to 2,000 images a second."""
    speed: dict[str, Any] = {"images_per_second": 1000.0, "images_per_second_low": 500.0, "seconds": 600.0}
    return replace(a_target(zone=zone, device=device, **changes), **speed)


def test_a_run_that_is_slower_than_its_estimate_goes_on_stops_or_goes_elsewhere_as_the_job_says(desk: Desk) -> None:
    outcomes, for_good = {}, []
    for on_slow in (OnSlow.CONTINUE, OnSlow.STOP, OnSlow.REPLAN):
        desk.scripts(trains_at(SLOW_RATE), trains_well)
        job = a_job(on_slow=on_slow, constraints={"deadline": "5h"})
        run, receipt = desk.launch(job, targets=[promising("a"), promising("b"), promising("c", device="T4")])
        outcomes[on_slow] = (run.outcome, placements(run), receipt.interruptions)
        if f"attempts/1/{STOPPED_FOR_GOOD}" in desk.provider.store(run.run_id).list("attempts"):
            for_good.append(on_slow)
    assert outcomes == {
        OnSlow.CONTINUE: (Outcome.SUCCEEDED, ["a"], 0),
        OnSlow.STOP: (Outcome.STOPPED, ["a"], 0),
        OnSlow.REPLAN: (Outcome.SUCCEEDED, ["a", "c"], 0),
    }
    assert for_good == [OnSlow.STOP]
    assert desk.leaked == []


def test_where_there_is_no_other_device_a_slow_run_stays(desk: Desk) -> None:
    desk.scripts(trains_at(SLOW_RATE))
    job = a_job(on_slow="replan", constraints={"deadline": "5h"})
    run, _ = desk.launch(job, targets=[promising("a"), promising("b")])
    assert run.outcome is Outcome.SUCCEEDED


def test_what_is_slow_is_said_in_figures_and_once(desk: Desk) -> None:
    desk.scripts(trains_at(SLOW_RATE))
    desk.launch(a_job(on_slow="continue", constraints={"deadline": "5h"}), targets=[promising()])
    (line,) = [text for text in messages(desk) if "the estimate was" in text]
    assert line.startswith("training at 100 images/s; the estimate was 1,000, at least 500: time and cost will be")
    assert "about 10.0 times the estimate" in line


def test_the_person_is_asked_once_and_their_answer_is_kept(desk: Desk) -> None:
    class Asked:
        texts: tuple[str, ...] = ()

        def pressed_ctrl_c(self, run: Run, times: int) -> Any:
            raise AssertionError(run)

        def runs_slow(self, run: Run, text: str) -> OnSlow:
            self.texts += (text,)
            return OnSlow.STOP

    person = desk.person = Asked()
    desk.scripts(trains_at(SLOW_RATE))
    run, _ = desk.launch(a_job(constraints={"deadline": "5h"}), targets=[promising()])
    assert (run.outcome, run.slow, len(person.texts)) == (Outcome.STOPPED, OnSlow.STOP, 1)
    assert desk.provider.store(run.run_id).list("checkpoints"), "with a checkpoint"


@pytest.mark.parametrize(
    ("rate", "target"),
    [
        (600.0, promising()),  # within the range
        (SLOW_RATE, a_target()),  # nothing was estimated
        (SLOW_RATE, replace(promising(), offer=a_target("0").offer)),  # it costs nothing
    ],
)
def test_nobody_is_asked_where_there_is_nothing_to_decide(desk: Desk, rate: float, target: Target) -> None:
    desk.scripts(trains_at(rate))
    run, _ = desk.launch(a_job(on_slow="stop", constraints={"deadline": "5h"}), targets=[target])
    assert run.outcome is Outcome.SUCCEEDED


# --- nobody answers for a while ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TransientError("connection lost"), "no answer: connection lost; trying again"),
        (CredentialsError("expired", hint="Sign in"), "THE SIGN-IN HAS ENDED: expired. What runs goes on, and ends"),
    ],
)
@pytest.mark.parametrize("operation", ["get", "store"])
def test_a_provider_that_does_not_answer_for_a_while_is_asked_again(
    desk: Desk, operation: str, error: Exception, text: str
) -> None:
    run = desk.planned()
    store = desk.provider.store(run.run_id)

    def away() -> None:
        desk.provider.down |= {"get": error} if operation == "get" else {}
        store.down = error if operation == "store" else None

    def back() -> None:
        desk.provider.down.clear()
        store.down = None

    desk.clock.at_sleep |= {1: away, 40: back}
    run, receipt = desk.runner().follow(run, desk.request())
    assert (run.outcome, receipt.attempts) == (Outcome.SUCCEEDED, 1)
    (line,) = [text for text in messages(desk) if text.startswith(text[:20])]
    assert line.startswith(text)


def test_credentials_that_end_while_it_trains_do_not_lose_the_machine(desk: Desk) -> None:
    """They never come back: loudly, to the deadline, through teardown, and the run is not called done."""
    desk.scripts(stubborn)
    run = desk.planned(a_job(constraints={"deadline": "10m"}))
    expired = CredentialsError("expired", hint="Sign in again")
    desk.clock.at_sleep[3] = lambda: desk.provider.down.update(get=expired, list_owned=expired, delete=expired)
    with pytest.raises(Exception, match="teardown unverified"):
        desk.runner().follow(run, desk.request())
    kept = desk.journal.run(run.run_id)
    assert (kept.phase, kept.outcome, kept.bills) == (Phase.TEARING_DOWN, Outcome.DEADLINE, True)
    assert kept.unverified is not None
    texts = messages(desk)
    assert any(text.startswith("THE SIGN-IN HAS ENDED: expired.") for text in texts)
    assert "CANNOT TEAR DOWN, still trying: expired. Sign in again" in texts
    # The person has signed in again; the next command settles it.
    desk.provider.down.clear()
    settled = desk.runner().settle(kept)
    assert (settled.phase, settled.unverified, desk.leaked) == (Phase.DONE, None, [])


def messages(desk: Desk) -> list[str]:
    return [event.text for event in desk.events_of(Message)]
