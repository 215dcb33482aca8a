"""In which order a run without a machine asks the placements of its plan: each of them once before any is asked again.

Everything is derived from the attempts in the journal, so a command that takes the run over continues the same pass.
Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.runs.targets import CAPACITY_MEMORY, Refusal, Target

if TYPE_CHECKING:
    from trainplan.planner.runs.run import Run

FIRST_PAUSE = CAPACITY_MEMORY
"""Between the end of the first pass and the second: what the last placement answered is believed for so long."""
LONGEST_PAUSE = timedelta(hours=1)
"""Each pause is twice the one before, up to this: stock that returns is not missed by more than an hour."""
MOST_CREATES = 600
"""Creates of one search, which ends when the run has a machine. Three passes over the longest plan (200 placements, see
runs/proposal/proposal.py); 20 passes over 29 placements, which take about 18 hours with the pauses. An attempt is a row
that every save of the run writes again, so the number has to be bounded. A placement that was not asked yet is asked in
any case."""


class CreateTarget(NamedTuple):
    """What a create asks for, whatever it costs there."""

    provider: str
    region: str
    zone: str | None
    instance_type: str
    market: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How far the search for a machine is in a group of placements.

    `placement_count` is the number of placements that were asked, `creates` how often they were in all, `passes` the
    number of passes that are over. `next_pass` is when the next one begins (None: before the first is over, or when no
    create is left). `refusals` are the placements whose next turn has not come, as refusals that end with it.
    """

    placement_count: int = 0
    creates: int = 0
    passes: int = 0
    next_pass: datetime | None = None
    refusals: tuple[Refusal, ...] = ()


def search(
    run: Run,
    placements: Sequence[Target],
    refusals: Sequence[Refusal],
    now: datetime,
    first_pause: timedelta = FIRST_PAUSE,
) -> Search:
    """How far the run's search is in these placements.

    A placement that a quota refuses, or that was not asked yet and refused another run, holds the others up no longer
    than its refusal stands: it is asked when that is over, before any placement has its next turn.
    """
    answers_of = _answers_of_placements(run)
    if not answers_of:
        return Search()
    # Offers that differ in their price alone are one placement: a create asks for the same machine.
    keys = [placement_of(placement) for placement in placements]
    answers = {key: answers_of.get(key, []) for key in keys}
    creates = sum(map(len, answers.values()))
    current_refusals = [refusal for refusal in refusals if refusal.until > now]
    waiting = [
        (placement, answers[key])
        for placement, key in zip(placements, keys, strict=True)
        if not _is_passed_over(placement, answers[key], current_refusals)
    ]
    passes = min((len(placement_answers) for _, placement_answers in waiting), default=0)
    next_pass = None
    if passes and creates < MOST_CREATES:
        ended_at = max(placement_answers[passes - 1].at for _, placement_answers in waiting)
        next_pass = ended_at + pause_after(passes, first_pause)
    held_placements = []
    for placement, placement_answers in waiting:
        if placement_answers:
            # A placement that is ahead of the others waits until they have caught up: for no instant that is known yet.
            until = next_pass if next_pass is not None and len(placement_answers) == passes else run.deadline
            held_placements.append(_refusal_until(placement, placement_answers[-1], until))
    count = sum(map(bool, answers.values()))
    return Search(
        placement_count=count, creates=creates, passes=passes, next_pass=next_pass, refusals=tuple(held_placements)
    )


def pause_after(passes: int, first_pause: timedelta = FIRST_PAUSE) -> timedelta:
    """How long nothing is asked after so many whole passes (from 1): twice as long each time, up to LONGEST_PAUSE."""
    pause = first_pause
    for _ in range(passes - 1):
        pause = min(pause * 2, LONGEST_PAUSE)
        if pause == LONGEST_PAUSE:
            break
    return pause


def placement_of(target: Target) -> CreateTarget:
    """What a create asks for at a target."""
    offer = target.offer
    return CreateTarget(offer.provider, offer.region, target.zone, offer.instance_type, offer.market)


class _Answer(NamedTuple):
    """When a placement refused a create, and what it said."""

    at: datetime
    why: str


def _answers_of_placements(run: Run) -> dict[CreateTarget, list[_Answer]]:
    """What each placement answered, oldest first, since the run last had a machine or was launched again."""
    entries: dict[CreateTarget, list[_Answer]] = {}
    for attempt in reversed(run.attempts):
        at = attempt.ended_at or attempt.sent_at or attempt.asked_at
        if attempt.had_instance or at is None or (run.again_at is not None and at < run.again_at):
            break
        if attempt.target is not None:
            entries.setdefault(placement_of(attempt.target), []).append(_Answer(at, attempt.reason or ""))
    return {placement: answers[::-1] for placement, answers in entries.items()}


def _is_passed_over(placement: Target, answers: list[_Answer], refusals: Sequence[Refusal]) -> bool:
    """Whether a quota, or before the placement's first answer any refusal, keeps the run from asking there."""
    return any((refusal.quota is not None or not answers) and refusal.covers(placement) for refusal in refusals)


def _refusal_until(placement: Target, answer: _Answer, until: datetime) -> Refusal:
    offer = placement.offer
    return Refusal(
        provider=offer.provider, region=offer.region, zone=placement.zone, instance_type=offer.instance_type,
        market=offer.market, at=answer.at, until=until, why=answer.why,
    )  # fmt: skip
