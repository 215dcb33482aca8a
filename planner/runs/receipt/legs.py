"""Where a run has trained, machine by machine, and the estimate that fits these placements. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from trainplan.planner.runs.run import INTERRUPTIONS
from trainplan.planner.runs.targets import Target

if TYPE_CHECKING:
    from trainplan.planner.runs.directory.progress import Story
    from trainplan.planner.runs.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One machine of a run: `steps` are those that it added to what was kept before, `usd` what it cost."""

    attempt: int
    target: Target
    steps: int
    usd: Decimal

    def to_json(self) -> dict[str, Any]:
        """Estimates are of the whole job at this placement."""
        return {
            "attempt": self.attempt,
            "where": self.target.where,
            "steps": self.steps,
            "actual_usd": float(self.usd),
            "estimated_seconds": self.target.seconds,
            "estimated_low_seconds": self.target.low_seconds,
            "estimated_high_seconds": self.target.high_seconds,
            "estimated_usd": _estimated_usd(self.target),
            "estimated_images_per_second": self.target.images_per_second,
        }


def legs_of(run: Run, last_step: int, now: datetime) -> tuple[Leg, ...]:
    """The machines that the run has had, in order; the last of them reached `last_step`."""
    attempts = [attempt for attempt in run.attempts if attempt.had_instance and attempt.target is not None]
    legs, kept_count, usds = [], 0, run.attempt_usds(now)
    for attempt in attempts:
        # At least the step that was kept before: an attempt that ended before its first checkpoint added none.
        newest_step = max(kept_count, attempt.step or 0, last_step if attempt is attempts[-1] else 0)
        assert attempt.target is not None
        legs.append(
            Leg(attempt=attempt.number, target=attempt.target, steps=newest_step - kept_count, usd=usds[attempt.number])
        )
        kept_count = newest_step
    return tuple(legs)


def with_passed_over(run: Run, stories: Mapping[int, Story]) -> Run:
    """The run whose machines kept no more than the next one went on from: where it began below the newest checkpoint in
    the store, that was damaged, and its steps were trained again. `stories` are what the attempts have told, by number.
    """
    machines = [attempt for attempt in run.attempts if attempt.had_instance]
    for before, after in pairwise(machines):
        began_at = stories[after.number].resumed_from if after.number in stories else None
        passed_over = (before.step or 0) - began_at if began_at is not None else 0
        if before.end in INTERRUPTIONS and passed_over > 0:
            lost_steps = (before.lost_steps or 0) + passed_over
            attempts = [
                replace(one, step=began_at, lost_steps=lost_steps) if one is before else one for one in run.attempts
            ]
            run = replace(run, attempts=tuple(attempts))
    return run


def estimate_of(legs: Sequence[Leg], launch_estimate: dict[str, Any]) -> dict[str, Any]:
    """The estimate that a run is held against: seconds and USD of each placement by the share of the steps trained
    there.

    Images per second and their basis are those of the last placement, whose rate the receipt has. Where a placement has
    no figure of its own (this machine, a run of an earlier version), that of the launch counts (`launch_estimate`).
    """
    if not legs:
        return launch_estimate
    last = legs[-1].target
    figures = {
        "seconds": _shared(legs, lambda target: target.seconds),
        "low_seconds": _shared(legs, lambda target: target.low_seconds),
        "high_seconds": _shared(legs, lambda target: target.high_seconds),
        "usd": _shared(legs, _estimated_usd),
        "images_per_second": last.images_per_second,
        "basis": last.basis,
    }
    return {**launch_estimate, **{name: value for name, value in figures.items() if value is not None}}


def _shared(legs: Sequence[Leg], figure: Callable[[Target], float | None]) -> float | None:
    """The figure of each placement, weighted by its steps; of the last placement where none were trained."""
    steps = sum(leg.steps for leg in legs)
    shares = [(leg.steps, figure(leg.target)) for leg in legs if leg.steps] or [(1, figure(legs[-1].target))]
    if any(value is None for _, value in shares):
        return None
    return sum(share * (value or 0.0) for share, value in shares) / (steps or 1)


def _estimated_usd(target: Target) -> float | None:
    """None where nothing was estimated: what a script that nobody has measured may cost is a limit."""
    return None if target.usd is None or target.seconds is None else float(target.usd)
