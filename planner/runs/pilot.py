"""Pilots one after another, each a run of the engine with a journal, a deadline, a budget, a teardown and a receipt.

A pilot is a measuring run: it has no folder for a model, and trains a number of steps. All pilots of a command share
one cap. Before each, what the earlier ones cost and the most that this one can cost are within it; so the cap holds
wherever a pilot or the command ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from trainplan.planner.errors import PlanError, TeardownUnverifiedError, ThisMachineError
from trainplan.planner.forecast.pilots import Choice, next_pilot
from trainplan.planner.forecast.script_work import known_rate
from trainplan.planner.planning.own_measurements import OwnMeasurement
from trainplan.planner.runs.proposal.pilots import PilotPlacement, PilotProposal, bounded, limit_within, most_usd
from trainplan.planner.runs.run import Outcome, Run
from trainplan.pricing.money import format_usd
from trainplan.workloads.job import OnSlow, TrainingJob
from trainplan.workloads.wording import Command

if TYPE_CHECKING:
    from trainplan.planner.runs.execution.create import MakeRequest
    from trainplan.planner.runs.journal.journal import Journal
    from trainplan.planner.runs.runner import Runner

UNOBTAINABLE = 1e12
"""What a machine that refused counts in the ranking: nothing is dearer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotResult:
    """What became of one pilot. `run` is None where it was refused before anything was recorded, with this `refusal`.
    `measured` is what it told (None: nothing), and `why` says why nothing. `receipt` is the record of its receipt, {}
    without one."""

    placement: PilotPlacement
    run: Run | None
    measured: OwnMeasurement | None
    usd: Decimal
    why: str = ""
    refusal: PlanError | None = None
    receipt: Mapping[str, Any] = field(default_factory=dict)

    @property
    def was_stopped(self) -> bool:
        """Whether a person has ended it: no further one follows."""
        return self.run is not None and self.run.outcome is Outcome.STOPPED

    @property
    def times(self) -> float | None:
        """The measured speed over the predicted one; None where nothing was measured."""
        if self.measured is None:
            return None
        times = self.measured.images_per_second / self.placement.throughput.images_per_second
        # A script that nobody had measured counted as one image.
        return times * self.placement.images / self.measured.total_images if self.measured.total_images else times


RunOne = Callable[["PilotPlacement", "timedelta"], PilotResult]


class PilotSeries:
    """Runs the pilots that a person has agreed to, the most worthwhile first, as long as one is worth its cost.

    `run_one` runs a pilot that ends within a time, and `say` hears why one is left out. The cap is never passed.
    `goes_on`: a run follows that measures the machine that ranks first by then, so that no pilot of it is run.
    """

    def __init__(
        self, proposal: PilotProposal, run_one: RunOne, say: Callable[[str], None], *, goes_on: bool = False
    ) -> None:
        self._placements = proposal.placements
        self._agreed = set(proposal.pilots.indices)
        self._choices = [placement.choice for placement in proposal.placements]
        self._run_one = run_one
        self._say = say
        self._goes_on = goes_on
        self._left_usd = proposal.cap_usd
        self.results: list[PilotResult] = []

    def run(self) -> None:
        """Run them. What has become of each is in `results`, also where an error ends the series.

        Raises Detached where the person lets go of one, TeardownUnverifiedError where it is not sure that nothing is
        left of one, and other errors of a run that is not done.
        """
        while (number := self._next()) is not None:
            placement = self._placements[number]
            self._agreed.discard(number)
            limit = limit_within(placement, self._left_usd)
            if limit is None:
                self._say(f"{placement.target.where}: no pilot: {format_usd(self._left_usd)} of the cap are left")
                continue
            result = self._run_one(placement, limit)
            self.results.append(result)
            self._left_usd -= result.usd
            self._choices[number] = _after(self._choices[number], result)
            if result.was_stopped:
                break

    def _next(self) -> int | None:
        """The next pilot by what is known now; None where none is worth its cost any more."""
        number = next_pilot(self._choices, self._agreed, float(self._left_usd), without_first=self._goes_on)
        if number is None and self._agreed and not self._goes_on:
            self._say("no further pilot is worth its cost, by what is known now")
        return number


def _after(choice: Choice, result: PilotResult) -> Choice:
    if result.times is not None:
        return choice.measured(result.times)
    if result.run is None or result.run.outcome in (Outcome.NO_CAPACITY, Outcome.REFUSED):
        return choice._replace(pilot_usd=None, weight=UNOBTAINABLE)
    return choice._replace(pilot_usd=None)


def run_tries(proposal: PilotProposal, run_one: RunOne) -> list[PilotResult]:
    """Run the one pilot of a proposal that tries settings. Raises what `run_pilot` raises."""
    (placement,) = proposal.chosen
    limit = limit_within(placement, proposal.cap_usd)
    assert limit is not None  # it was proposed within the cap
    return [run_one(placement, limit)]


def run_pilot(
    runner: Runner, job: TrainingJob, placement: PilotPlacement, limit: timedelta, make_request: MakeRequest
) -> PilotResult:
    """One pilot from the preflight to the receipt. A refusal is a result too, and stays in the journal as knowledge of
    what is to be had.

    Raises Detached, TeardownUnverifiedError, and the error of a run that is not done.
    """
    run = pilot_of(runner.draft(job, placement.targets, None, None), placement, limit)
    try:
        runner.prepare(make_request(run, 1, run.targets[0]))
        runner.record(run, job, _record(placement))
    except PlanError as error:
        return PilotResult(
            placement=placement, run=None, measured=None, usd=Decimal(0), why=error.message, refusal=error
        )
    try:
        run, measured = runner.measure(run, make_request)
    except TeardownUnverifiedError:
        raise
    except PlanError as error:
        run, measured = runner.now(run), None
        if run.live:
            raise
        result = _result(placement, runner.now(run), measured, error.message)
    else:
        result = _result(placement, run, measured, run.message or "")
    return replace(result, receipt=runner.journal.receipt(run.run_id) or {})


def pilot_of(draft: Run, placement: PilotPlacement, limit: timedelta) -> Run:
    """The run of a pilot: one that measures, within its limit of time and the budget that this makes."""
    bounds = [bounded(target, limit) for target in draft.targets]
    budget_usd = min(budget for _, budget in bounds)
    return replace(
        draft, model_folder="", max_steps=placement.steps, until_steady=True, try_settings=placement.try_settings,
        targets=tuple(target for target, _ in bounds),
        deadline=draft.created_at + limit, deadline_given=False, budget_usd=budget_usd or None,
        on_slow=OnSlow.CONTINUE,
    )  # fmt: skip


def must_be_alone(journal: Journal, runner_of: Callable[[str], Runner], job: TrainingJob) -> None:
    """Settle earlier pilots of the job that nobody follows. Raises ThisMachineError where one goes on: its cost is
    within no cap of this command."""
    for run in _measuring(journal.live(lambda _: None), job):
        run = runner_of(run.provider).settle(run)
        if run.live:
            raise ThisMachineError(
                f"run {run.run_id} of an earlier pilot or measurement of this job goes on",
                f"{Command('attach', run.run_id)} follows it to its end, {Command('stop', run.run_id)} ends it",
            )


def _measuring(runs: Sequence[Run], job: TrainingJob) -> list[Run]:
    digest = job.digest()
    return [run for run in runs if run.live and run.max_steps is not None and run.job_digest == digest]


def _result(placement: PilotPlacement, run: Run, measured: OwnMeasurement | None, why: str) -> PilotResult:
    if measured is None and run.outcome is Outcome.SUCCEEDED:
        why = "it reported no rate"
    why = "" if measured is not None else why or f"ended: {run.outcome}"
    return PilotResult(placement=placement, run=run, measured=measured, usd=spent_usd(run), why=why)


def spent_usd(run: Run) -> Decimal:
    """What a pilot that is done has cost, its disk, its address and its data traffic included."""
    ends = [end for attempt in run.attempts for end in (attempt.ended_at, attempt.gone_at) if end is not None]
    return run.total_usd(max(ends)) if ends else Decimal(0)


def _record(placement: PilotPlacement) -> dict[str, object]:
    return {
        "seconds": placement.seconds,
        "usd": float(placement.pilot_usd),
        "images_per_second": known_rate(placement.throughput),
        "basis": placement.throughput.basis,
    }


def most_of(placement: PilotPlacement, left_usd: Decimal) -> Decimal | None:
    """The most that a pilot there can cost within what is left of the cap; None: there can be none."""
    limit = limit_within(placement, left_usd)
    return None if limit is None else most_usd(placement.target, limit)
