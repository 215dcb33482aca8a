"""Pilots one after another: under one cap, as long as one is worth it, and never beside one that goes on."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_job, a_run, a_target, a_throughput
from tests.doubles.clock import NOON
from tests.doubles.fake_machine import done_at_once, ended_at_once, until_asked
from tests.unit.planner.runs.builders_of_pilots import a_placement
from trainplan.planner.errors import TeardownUnverifiedError, ThisMachineError
from trainplan.planner.forecast.pilots import Choice, worthwhile
from trainplan.planner.planning.own_measurements import OwnMeasurement
from trainplan.planner.runs.execution.executor import Detached
from trainplan.planner.runs.pilot import PilotResult, PilotSeries, must_be_alone, pilot_of, run_pilot
from trainplan.planner.runs.proposal.pilots import PilotPlacement, PilotProposal, most_usd
from trainplan.planner.runs.run import Outcome, Phase
from trainplan.providers.base import EndKind
from trainplan.providers.errors import CapacityError, PermissionDeniedError

if TYPE_CHECKING:
    from tests.doubles.desk import Desk
    from trainplan.planner.runs.run import Run

JOB = a_job()


def measured(times: float) -> OwnMeasurement:
    return OwnMeasurement(
        machine="m", shape="s", images_per_second=1000.0 * times, setup_seconds=None, per_epoch_seconds=None,
        after_seconds=None, measured_at=NOON, run_id="r", framework="f",
    )  # fmt: skip


def proposed(choices: list[Choice], cap_usd: Decimal, price: str = "0.50") -> PilotProposal:
    placements = tuple(
        replace(a_placement(price), choice=choice, rank=rank) for rank, choice in enumerate(choices, start=1)
    )
    pilots = worthwhile(choices, 5, float(cap_usd))
    return PilotProposal(job=JOB, cap_usd=cap_usd, placements=placements, pilots=pilots)


def a_series(proposal: PilotProposal, run_one: Any) -> tuple[PilotSeries, list[str]]:
    said: list[str] = []
    return PilotSeries(proposal, run_one, said.append), said


some = st.lists(
    st.builds(
        Choice, st.floats(5, 100), st.just(0.0), st.floats(0.1, 0.6), st.floats(0.01, 0.3)
    ),
    min_size=2,
    max_size=6,
).map(lambda rows: sorted(rows, key=lambda row: row.usd))  # fmt: skip


@given(some, st.decimals("0.1", "5", places=2), st.data())
def test_no_series_costs_more_than_its_cap(choices: list[Choice], cap_usd: Decimal, data: st.DataObject) -> None:
    """Each pilot costs anything up to the most that its limit lets it cost, and ends in any way."""
    spent = Decimal(0)

    def run_one(placement: PilotPlacement, limit: timedelta) -> PilotResult:
        nonlocal spent
        usd = most_usd(placement.target, limit) * Decimal(data.draw(st.sampled_from(("0", "0.3", "1"))))
        spent += usd
        assert spent <= cap_usd
        outcome = data.draw(st.sampled_from((Outcome.SUCCEEDED, Outcome.NO_CAPACITY, Outcome.FAILED, Outcome.DEADLINE)))
        told = measured(data.draw(st.floats(0.3, 3))) if outcome is Outcome.SUCCEEDED else None
        return PilotResult(placement=placement, run=a_run(outcome=outcome), measured=told, usd=usd)

    proposal = proposed(choices, cap_usd)
    series, _ = a_series(proposal, run_one)
    series.run()
    assert spent <= cap_usd
    ranks = [result.placement.rank for result in series.results]
    assert len(set(ranks)) == len(ranks) <= len(proposal.pilots.indices)
    assert {placement.rank for placement in proposal.chosen} >= set(ranks)


def test_what_one_told_may_make_the_others_pointless() -> None:
    choices = [Choice(20.0, 0.0, 0.3, 0.1), Choice(21.0, 0.0, 0.3, 0.1)]
    proposal = proposed(choices, Decimal(5))
    assert len(proposal.pilots.indices) == 2
    series, said = a_series(
        proposal,
        lambda placement, _: PilotResult(placement=placement, run=a_run(), measured=measured(3.0), usd=Decimal(0)),
    )
    series.run()
    assert len(series.results) == 1
    assert said == ["no further pilot is worth its cost, by what is known now"]


def test_a_stopped_pilot_is_the_last() -> None:
    proposal = proposed([Choice(20.0, 0.0, 0.3, 0.1), Choice(21.0, 0.0, 0.3, 0.1)], Decimal(5))
    stopped = a_run(outcome=Outcome.STOPPED)
    series, _ = a_series(
        proposal, lambda placement, _: PilotResult(placement=placement, run=stopped, measured=None, usd=Decimal(0))
    )
    series.run()
    assert len(series.results) == 1


def test_where_the_cap_is_used_up_the_rest_is_left_out() -> None:
    proposal = proposed([Choice(20.0, 0.0, 0.3, 0.1), Choice(21.0, 0.0, 0.3, 0.1)], Decimal("0.40"))

    def run_one(placement: PilotPlacement, limit: timedelta) -> PilotResult:
        return PilotResult(
            placement=placement, run=a_run(), measured=measured(1.0), usd=most_usd(placement.target, limit)
        )

    series, said = a_series(proposal, run_one)
    series.run()
    assert len(series.results) == 1
    assert said[0].endswith("of the cap are left") or said == [
        "no further pilot is worth its cost, by what is known now"
    ]


# --- by the engine -----------------------------------------------------------------------------------------------


def one(desk: Desk, **changes: Any) -> PilotResult:
    placement = a_placement("0.36", **changes)
    return run_pilot(desk.runner(), JOB, placement, timedelta(minutes=20), desk.request())


def test_a_pilot_is_measured_and_has_a_receipt(desk: Desk) -> None:
    desk.scripts(done_at_once)
    result = one(desk)
    assert result.run is not None
    assert (result.run.phase, result.run.outcome, result.why) == (Phase.DONE, Outcome.SUCCEEDED, "")
    assert result.measured is not None
    assert result.times == pytest.approx(4.0)
    assert result.measured.boot_seconds == 2
    assert desk.journal.receipt(result.run.run_id) is not None
    assert [request.until_steady for request in desk.provider.received] == [True]


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (EndKind.FAILED, Outcome.FAILED),
        (EndKind.OUT_OF_MEMORY, Outcome.FAILED),
        (EndKind.DEADLINE, Outcome.DEADLINE),
        (EndKind.RECLAIMED, Outcome.FAILED),
    ],
)
def test_a_pilot_that_tells_nothing_says_why(desk: Desk, end: EndKind, outcome: Outcome) -> None:
    desk.scripts(ended_at_once(end))
    result = one(desk)
    assert result.run is not None
    assert (result.run.outcome, result.measured) == (outcome, None)
    assert result.why


def test_a_refused_pilot_costs_nothing_and_is_remembered(desk: Desk) -> None:
    desk.provider.refuse["launch", 1] = CapacityError("no such machine today")
    began = desk.clock.now()
    result = one(desk)
    assert desk.clock.now() - began < timedelta(minutes=1)  # it does not wait for room
    assert result.run is not None
    assert (result.run.outcome, result.usd, result.measured) == (Outcome.NO_CAPACITY, 0, None)
    (refusal,) = desk.journal.refusals(desk.clock.now())
    assert refusal.lacks_capacity


def test_a_pilot_that_may_not_be_launched_is_a_result(desk: Desk) -> None:
    desk.provider.refuse["launch", 1] = PermissionDeniedError("not allowed")
    result = one(desk)
    assert result.run is not None
    assert (result.run.outcome, result.why) == (Outcome.REFUSED, "not allowed")


def test_a_teardown_that_is_not_sure_ends_the_series(desk: Desk) -> None:
    desk.scripts(done_at_once)
    desk.provider.slow_deletes, desk.provider.tidy = None, False
    with pytest.raises(TeardownUnverifiedError):
        one(desk)


def left_running(desk: Desk) -> Run:
    """A pilot whose command has died."""
    desk.scripts(until_asked)
    runner = desk.runner()
    run = pilot_of(runner.draft(JOB, [a_target()], None, None), a_placement("0.36"), timedelta(minutes=20))
    runner.record(run, JOB, {})
    with pytest.raises(Detached):
        runner.follow(run, desk.request(), until_launched=True)
    return run


def test_an_earlier_pilot_that_goes_on_is_refused_to_be_joined(desk: Desk) -> None:
    run = left_running(desk)
    with pytest.raises(ThisMachineError, match=f"run {run.run_id} of an earlier pilot") as told:
        must_be_alone(desk.journal, lambda _: desk.runner(), JOB)
    assert f"plan stop {run.run_id} ends it" in told.value.hint


def test_an_earlier_pilot_that_has_ended_is_settled(desk: Desk) -> None:
    run = left_running(desk)
    desk.runner().stop(desk.journal.run(run.run_id))
    must_be_alone(desk.journal, lambda _: desk.runner(), JOB)
    assert desk.journal.run(run.run_id).phase is Phase.DONE


def test_another_jobs_pilot_is_left_alone(desk: Desk) -> None:
    left_running(desk)
    must_be_alone(desk.journal, lambda _: desk.runner(), a_job(seed=7))


def test_a_pilot_that_is_attached_to_never_trains_the_whole_job(desk: Desk) -> None:
    """The request of a later attempt knows that the run measures."""
    run = left_running(desk)
    make = desk.runner().request_maker(desk.journal.run(run.run_id), client="")
    request = make(desk.journal.run(run.run_id), 2, run.targets[0])
    assert (request.max_steps, request.until_steady) == (run.max_steps, True)
    assert run.max_steps is not None


def test_the_throughput_that_a_result_is_held_against_is_the_estimate() -> None:
    placement = replace(a_placement("0.36"), throughput=a_throughput(500.0))
    assert PilotResult(placement=placement, run=None, measured=measured(1.0), usd=Decimal(0)).times == 2.0
