"""Asking a cluster how long the first placements of a ranking would wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from trainplan.planner.forecast.queue_wait import QueueWait, queue_wait
from trainplan.planner.planning.check import PATIENCE, at_once
from trainplan.pricing.obtainability import MachinePlacement
from trainplan.providers.abilities import QueueAnswer, QueueQuestion, QueueTeller
from trainplan.providers.errors import ProviderError
from trainplan.providers.registry import CLUSTER

if TYPE_CHECKING:
    from trainplan.planner.forecast.plan import Candidate, Plan
    from trainplan.providers.base import Provider

    QueueWaits = Mapping[MachinePlacement, QueueWait]
    OwnWaits = Mapping[str, Sequence[timedelta]]

FIRST_PLACEMENTS = 6
"""First placements of the cluster in a ranking that are asked about: one command each."""
MOST_ROUNDS = 2
"""After a round the ranking may begin with placements that were not asked about."""


def with_queue_waits(
    plan: Plan,
    again: Callable[[QueueWaits], Plan],
    ask: Callable[[Sequence[QueueQuestion]], Sequence[QueueAnswer]],
    own: OwnWaits,
) -> tuple[Plan, QueueWaits]:
    """The plan with the waits that `ask` returns for its first placements of the cluster, made `again` with them, and
    the waits. `own` are this home's own waits by partition."""
    waits: dict[MachinePlacement, QueueWait] = {}
    asked_placements: set[MachinePlacement] = set()
    for _ in range(MOST_ROUNDS):
        open_ones = [one for one in plan.ranking if _is_open(one, asked_placements)][:FIRST_PLACEMENTS]
        questions = [
            QueueQuestion(one.estimate.rental, one.placement.region, one.estimate.time.high, one.estimate.machines)
            for one in open_ones
        ]
        answers = ask(questions) if questions else ()
        if not answers:
            break
        for one, question, answer in zip(open_ones, questions, answers, strict=True):
            asked_placements.add(_placement(one))
            wait = queue_wait(answer, question.lasting, own.get(one.placement.region, ()))
            if wait is not None:
                waits[_placement(one)] = wait
        plan = again(waits)
    return plan, waits


class QueueReader:
    """Asks the cluster; one that fails or is too slow is told to `say` in one line, and its waits stay unknown."""

    def __init__(
        self, provider_of: Callable[[str], Provider], say: Callable[[str], None], patience: timedelta = PATIENCE
    ) -> None:
        self._provider_of = provider_of
        self._say = say
        self._patience = patience

    def __call__(self, questions: Sequence[QueueQuestion]) -> Sequence[QueueAnswer]:
        """The answers; () where there are none."""
        teller = self._provider_of(CLUSTER)
        if not isinstance(teller, QueueTeller):
            return ()
        (answer,) = at_once([partial(_answers, teller, questions)], self._patience)
        if answer is None or isinstance(answer, str):
            why = answer or f"no answer within {self._patience.total_seconds():g} s"
            self._say(f"{CLUSTER}: the wait in the queue is not known and not counted: {why}")
            return ()
        return answer


def _answers(teller: QueueTeller, questions: Sequence[QueueQuestion]) -> Sequence[QueueAnswer] | str:
    try:
        return teller.queue_answers(questions)
    except ProviderError as error:
        return error.message


def _placement(candidate: Candidate) -> MachinePlacement:
    rental = candidate.estimate.rental
    return MachinePlacement(rental.provider, candidate.placement.region, rental.instance_type, rental.market)


def _is_open(candidate: Candidate, asked_placements: set[MachinePlacement]) -> bool:
    return candidate.estimate.rental.provider == CLUSTER and _placement(candidate) not in asked_placements
