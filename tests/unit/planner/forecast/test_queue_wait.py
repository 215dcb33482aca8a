"""The wait in a cluster's queue: what it rests on, and what it does to time, rank and deadline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from threading import Event
from typing import Any

import pytest

from tests.builders import a_job, a_rental, a_world, rented
from trainplan.planner.forecast.choose import Filters, choose
from trainplan.planner.forecast.plan import Choice, Reason
from trainplan.planner.forecast.queue_wait import QueueWait, queue_wait
from trainplan.planner.planning.queue_reader import FIRST_PLACEMENTS, QueueReader, with_queue_waits
from trainplan.pricing.obtainability import MachinePlacement
from trainplan.providers.abilities import QueueAnswer, QueueQuestion
from trainplan.providers.errors import TransientError

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
WAIT = QueueWait(2 * HOUR, HOUR, 3 * HOUR, "a test")


def past(*minutes: int) -> tuple[timedelta, ...]:
    return tuple(number * MINUTE for number in minutes)


def choice_of(waits: dict[str, QueueWait], objective: str = "time", **options: Any) -> Choice:
    rental = a_rental()
    world = a_world()._replace(
        queue_waits={
            MachinePlacement(rental.provider, region, rental.instance_type, rental.market): wait
            for region, wait in waits.items()
        }
    )
    rows = [rented(rental, ("us-east-1", "1"), ("eu-west-1", "1"))]
    return choose(a_job(objective=objective), rows, world, Filters(**options), every_placement=True)


def test_the_scheduler_says_what_is_expected_and_the_past_widens_it() -> None:
    wait = queue_wait(QueueAnswer(starts_in=20 * MINUTE, past=past(*range(101))), HOUR, past(999))
    assert wait is not None
    assert (wait.expected, wait.low, wait.high) == (20 * MINUTE, 10 * MINUTE, 90 * MINUTE)
    assert "a job of 1h 00m would begin in 20m 00s; 101 jobs" in wait.ground
    assert "waited 50m 00s (10m 00s to 1h 30m)" in wait.ground


def test_a_wait_that_is_longer_than_all_of_the_past_is_an_end() -> None:
    wait = queue_wait(QueueAnswer(starts_in=5 * HOUR, past=past(1, 2)), HOUR, ())
    assert wait is not None
    assert (wait.expected, wait.high) == (5 * HOUR, 5 * HOUR)


def test_without_the_schedulers_word_the_median_of_the_past_counts() -> None:
    wait = queue_wait(QueueAnswer(starts_in=None, refusal="no such thing", past=past(1, 5, 9)), HOUR, ())
    assert wait is not None
    assert wait.expected == 5 * MINUTE
    assert "refuses a job of 1h 00m: no such thing" in wait.ground


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (QueueAnswer(starts_in=None), "the cluster has no accounting that can be read"),
        (QueueAnswer(starts_in=None, past=()), "its accounting has no job that began there lately"),
    ],
)
def test_this_homes_own_runs_count_where_the_accounting_tells_nothing(answer: QueueAnswer, says: str) -> None:
    wait = queue_wait(answer, HOUR, past(7))
    assert wait is not None
    assert (wait.expected, wait.low, wait.high) == (7 * MINUTE, 7 * MINUTE, 7 * MINUTE)
    assert "1 run of this home in this partition waited 7m 00s" in wait.ground
    assert says in wait.ground


def test_where_nobody_knows_anything_nothing_is_counted() -> None:
    assert queue_wait(QueueAnswer(starts_in=None), HOUR, ()) is None


def test_a_wait_adds_to_the_time_and_its_ends_and_not_to_the_cost() -> None:
    first, second = choice_of({"us-east-1": WAIT}).candidates
    assert (first.placement.region, second.placement.region) == ("eu-west-1", "us-east-1")
    assert second.estimate.time.total - first.estimate.time.total == 2 * HOUR
    assert second.estimate.time.low - first.estimate.time.low == HOUR
    assert second.estimate.time.high - first.estimate.time.high == 3 * HOUR
    assert second.cost_micro_usd == first.cost_micro_usd


def test_a_wait_past_the_deadline_rejects_the_placement() -> None:
    deadline = choice_of({}).candidates[0].estimate.time.total + HOUR
    choice = choice_of({"us-east-1": WAIT}, deadline=deadline)
    assert [one.placement.region for one in choice.candidates] == ["eu-west-1"]
    assert {key.reason for key in choice.rejections} == {Reason.OVER_DEADLINE}


@dataclass
class Cluster:
    """A provider that tells what it is given; `hangs` until the test lets it go."""

    answer: QueueAnswer | TransientError
    hangs: Event | None = None

    def queue_answers(self, questions: Sequence[QueueQuestion]) -> Sequence[QueueAnswer]:
        if self.hangs is not None:
            self.hangs.wait(10)
        if isinstance(self.answer, TransientError):
            raise self.answer
        return [self.answer] * len(questions)


@dataclass
class Ranking:
    """What of a plan is asked about."""

    ranking: tuple[Any, ...]


def test_each_placement_is_asked_about_once_with_the_high_end_of_its_time() -> None:
    rental = a_rental(provider="slurm")
    world = a_world()._replace(rates={"slurm": a_world().rates["aws"]})
    rows = [rented(rental, *((f"p{number}", "1") for number in range(20)))]
    plan: Any = Ranking(choose(a_job(), rows, world, Filters(), every_placement=True).candidates)
    asked: list[QueueQuestion] = []

    def ask(questions: Sequence[QueueQuestion]) -> Sequence[QueueAnswer]:
        asked.extend(questions)
        return [QueueAnswer(starts_in=MINUTE)] * len(questions)

    _, waits = with_queue_waits(plan, lambda _: plan, ask, {})
    assert len(waits) == len(asked) == len({question.region for question in asked}) == 2 * FIRST_PLACEMENTS
    assert {question.lasting for question in asked} == {plan.ranking[0].estimate.time.high}


@pytest.mark.parametrize("is_slow", [False, True])
def test_a_cluster_that_fails_or_is_slow_is_told_in_a_line_and_counts_nothing(is_slow: bool) -> None:
    lines: list[str] = []
    held = Event()
    cluster: Any = Cluster(TransientError("the controller does not answer"), held if is_slow else None)
    reader = QueueReader(lambda _: cluster, lines.append, 50 * timedelta(milliseconds=1) if is_slow else HOUR)
    question = QueueQuestion(a_rental(provider="slurm"), "two", HOUR)
    try:
        assert reader([question]) == ()
    finally:
        held.set()
    why = "no answer within 0.05 s" if is_slow else "the controller does not answer"
    assert lines == [f"slurm: the wait in the queue is not known and not counted: {why}"]
