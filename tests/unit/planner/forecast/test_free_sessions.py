"""Sessions of places that cost nothing: how many, what they add to the time, and when they are advised."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_job, a_rental, a_world, rented
from trainplan.planner.forecast.advice import Findings, advice
from trainplan.planner.forecast.choose import Filters, choose
from trainplan.planner.forecast.free_sessions import in_sessions, sessions_text
from trainplan.planner.forecast.plan import Candidate, Choice, Estimate, Reason
from trainplan.planner.forecast.times import RunTime
from trainplan.pricing.free_places import free_place
from trainplan.pricing.offers import Rental
from trainplan.workloads.sessions.needed import STOP_BEFORE_SECONDS

if TYPE_CHECKING:
    from trainplan.workloads.job import TrainingJob

FREE = a_rental(provider="kaggle", instance_type="NvidiaTeslaT4", device="T4", device_count=1)
EVERY = timedelta(minutes=10)
"""A job's checkpoints."""


def hours(count: float) -> timedelta:
    return timedelta(hours=count)


@cache
def of_a_machine() -> Estimate:
    choice = choose(a_job(precision="amp_fp16"), [rented(a_rental())], a_world(), Filters(), every_placement=True)
    return choice.candidates[0].estimate


def estimated(rental: Rental = FREE, *, train: float = 1.0, setup: float = 0.5, after: float = 0.0) -> Estimate:
    """An estimate of so many hours, as of a machine that can be kept as long as it takes."""
    time = RunTime(
        setup=hours(setup), train=hours(train), train_low=hours(train / 2), train_high=hours(train * 2),
        after=hours(after),
    )  # fmt: skip
    return replace(of_a_machine(), rental=rental, time=time)


def of_sessions(train: float, setup: float = 0.5, after: float = 0.0) -> Estimate:
    result = in_sessions(estimated(train=train, setup=setup, after=after), EVERY)
    assert isinstance(result, Estimate)
    return result


def test_what_costs_money_ends_when_it_is_done() -> None:
    before = estimated(a_rental())
    assert in_sessions(before, EVERY) is before


@pytest.mark.parametrize(
    ("train", "needed"), [(1.0, 1), (11.3, 1), (11.4, 2), (22.6, 2), (22.7, 3)], ids=lambda value: str(value)
)
def test_each_session_sets_up_and_stops_before_its_end(train: float, needed: int) -> None:
    """12 hours less 10 minutes less half an hour of setup are 11 h 20 min of training."""
    result = of_sessions(train)
    assert result.sessions is not None
    assert result.sessions.needed == needed
    if result.sessions.weeks == 1:
        assert result.time.total == hours(train) + needed * hours(0.5)


def test_the_next_week_is_waited_for_and_said() -> None:
    """40 hours and four setups are 42: 30 in the first week, 12 in the second."""
    result = of_sessions(40.0)
    assert result.sessions is not None
    assert (result.sessions.needed, result.sessions.weeks) == (4, 2)
    assert result.time.total == timedelta(days=7) + hours(12)
    assert "sessions needed: 4 (2 to 8) of 12h 00m at most; more than a week has (30 h): 2 weeks" in sessions_text(
        result.sessions
    )


def test_a_session_that_ends_before_the_first_step_is_none() -> None:
    assert in_sessions(estimated(setup=11.9), EVERY) is Reason.SESSION_TOO_SHORT


def test_what_is_assumed_is_said() -> None:
    result = in_sessions(estimated(a_rental(provider="colab", instance_type="T4"), train=9.0), EVERY)
    assert isinstance(result, Estimate)
    assert result.sessions is not None
    assert sessions_text(result.sessions) == "sessions needed: 4 (2 to 7) of 4h 00m on average, assumed"


@given(st.floats(0.01, 700), st.floats(0.01, 11), st.floats(0, 2))
def test_all_work_is_done_within_the_sessions(train: float, setup: float, after: float) -> None:
    result = of_sessions(train, setup, after)
    place = free_place("kaggle", "NvidiaTeslaT4")
    assert result.sessions is not None
    assert place is not None
    working = place.session - timedelta(seconds=STOP_BEFORE_SECONDS) - result.time.setup
    work = hours(train) + result.time.after
    assert (result.sessions.needed - 1) * working < work <= result.sessions.needed * working
    assert result.sessions.low <= result.sessions.needed <= result.sessions.high
    used = work + result.sessions.needed * result.time.setup
    assert (result.sessions.weeks - 1) * place.week < used <= result.sessions.weeks * place.week
    assert result.time.low <= result.time.total <= result.time.high
    assert result.time.total >= used


def free_candidate(train: float, rental: Rental = FREE) -> Candidate:
    choice = choose(a_job(precision="amp_fp16"), [rented(a_rental())], a_world(), Filters(), every_placement=True)
    result = in_sessions(estimated(rental, train=train), EVERY)
    assert isinstance(result, Estimate)
    return choice.candidates[0]._replace(estimate=result)


def told(*free: Candidate, macs: int = 1_000_000_000, job: TrainingJob | None = None) -> list[str]:
    asked = job or a_job(precision="amp_fp16")
    choice = choose(asked, [rented(a_rental())], a_world(), Filters(), every_placement=True)
    findings = Findings(job=asked, macs=macs, choice=choice, machine=None, on_same=lambda *_: None, free=free)
    return [line for line in advice(findings) if "at no cost" in line]


def test_a_place_that_finishes_within_three_sessions_is_advised() -> None:
    assert told(free_candidate(1.0)) == ["kaggle has T4 at no cost: 1h 30m in 1 session (--free)"]
    assert told(free_candidate(25.0)) == ["kaggle has T4 at no cost: 1d in 3 sessions (--free)"]


def test_one_that_takes_more_sessions_or_another_week_is_not() -> None:
    assert told(free_candidate(40.0)) == []
    assert told() == []


def test_the_fewest_sessions_are_named_first() -> None:
    colab = a_rental(provider="colab", instance_type="T4", device="T4")
    assert "kaggle" in told(free_candidate(4.0, colab), free_candidate(4.0))[0]


def test_no_tpu_is_advised_where_a_tpu_is_wrong_for_the_job() -> None:
    tpu = a_rental(provider="kaggle", instance_type="TpuV5E8", device="TPU v5e", device_count=8)
    assert told(free_candidate(1.0, tpu), macs=5_000_000) == []
    assert len(told(free_candidate(1.0, tpu))) == 1


def test_where_nothing_can_be_rented_it_is_said_too() -> None:
    asked = a_job(precision="amp_fp16")
    nothing = Choice(candidates=(), rejections={})
    findings = Findings(
        job=asked,
        macs=1_000_000_000,
        choice=nothing,
        machine=None,
        on_same=lambda *_: None,
        free=(free_candidate(1.0),),
    )
    assert advice(findings) == ("kaggle has T4 at no cost: 1h 30m in 1 session (--free)",)
