"""Pilots of a job: proposed, agreed to, run one after another, and ranked again by what they told. `plan pilot`, the
pilots of `plan launch` and those of Python are all this."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.api import build
from trainplan.planner.api.ask import confirm
from trainplan.planner.api.data_steps import bring, send_brought
from trainplan.planner.api.job_files import usd_of
from trainplan.planner.api.launching import Desk, Limits
from trainplan.planner.api.pilot_page import PilotAnswer, proposal_page, result_page
from trainplan.planner.errors import BadInputError, DeclinedError, TrainingFailedError
from trainplan.planner.report.page import Page
from trainplan.planner.runs.directory.run_keys import RunKeys
from trainplan.planner.runs.events import Message
from trainplan.planner.runs.execution.executor import ended_error
from trainplan.planner.runs.journal.locks import RunLocks
from trainplan.planner.runs.pilot import PilotResult, PilotSeries, must_be_alone, run_pilot, run_tries
from trainplan.planner.runs.proposal.agreed import Agreed, agreed_to, high_usd
from trainplan.planner.runs.proposal.consent import foreign_parts, readers
from trainplan.planner.runs.proposal.live_prices import Watchful
from trainplan.planner.runs.proposal.make_proposal import (
    Surroundings,
    limit_lines,
    make_proposal_with_data,
    only_providers,
)
from trainplan.planner.runs.proposal.pilots import Cap, PilotProposal, pilot_placements, propose_pilots, propose_tries
from trainplan.planner.runs.proposal.proposal import further_text, within
from trainplan.planner.runs.run import Outcome
from trainplan.planner.runs.runner import request_for
from trainplan.pricing.money import format_usd
from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from trainplan.planner.datasets.transfer import DataTransfer
    from trainplan.planner.errors import PlanError
    from trainplan.planner.planning.build_plan import PlanQuery
    from trainplan.planner.runs.proposal.pilots import PilotPlacement
    from trainplan.pricing.offers import Offer
    from trainplan.workloads.job import TrainingJob

DEFAULT_PILOTS = 3
MEASURES = (
    "the run measures its own speed first: it stays where nothing is cheaper by that, else it goes on from its "
    "checkpoint where its rest is"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotDesk:
    """What pilots act with: `show` shows a page to the person, before the question and at the end. `opened` is the rest
    of it, from the moment where somebody has agreed (`is_agreed`: before anything is asked)."""

    around: Surroundings
    show: Callable[[Page], None]
    opened: Callable[[], AbstractContextManager[Desk]]
    is_agreed: bool


class RunToFollow(NamedTuple):
    """What a person agrees to before a launch runs its pilots: the limits of the run that follows, the lines that
    describe it, and the placements that it may use."""

    agreed: Agreed
    lines: Sequence[str]
    offers: Sequence[Offer]


def cap_of(option: Option, text: str) -> Cap:
    """The most that all pilots together may cost. Raises BadInputError."""
    return Cap(usd_of(option, text), option)


def answer_with_pilots(job: TrainingJob, query: PlanQuery, cap: Cap, most: int, desk: PilotDesk) -> PilotAnswer:
    """The pilots that are worth it, once somebody has agreed, and what they told. Raises PlanError, and Detached where
    the person lets go of one of them."""
    _refuse_sweep(job)
    query = _narrowed(job, query)
    proposal = propose_pilots(job, query, desk.around, cap, most)
    if not proposal.pilots.indices:
        return PilotAnswer(proposal)
    return _answered(proposal, query, desk)


def answer_with_tries(job: TrainingJob, query: PlanQuery, cap: Cap, desk: PilotDesk) -> PilotAnswer:
    """One pilot that tries micro-batches and XLA, once somebody has agreed, and what it told. Raises PlanError, and
    Detached where the person lets go of it."""
    query = _narrowed(job, query)
    return _answered(propose_tries(job, query, desk.around, cap), query, desk)


def nothing_measured(answer: PilotAnswer) -> PlanError | None:
    """The error that `plan pilot` ends with where pilots were run and none of them measured anything: that of a job
    which failed before that of a machine which was not to be had. None where one did, where none was worth its cost,
    and where a person has stopped one."""
    if answer.was_stopped or any(result.measured is not None for result in answer.results):
        return None
    errors = [_error_of(result) for result in answer.results]
    return next((error for error in errors if isinstance(error, TrainingFailedError)), next(iter(errors), None))


def _error_of(result: PilotResult) -> PlanError:
    """Why one measured nothing, as the error that ends a command."""
    if result.run is None:
        assert result.refusal is not None  # it was refused before there was a run
        return result.refusal
    if result.run.outcome is not Outcome.SUCCEEDED:
        return ended_error(result.run)
    run_id = result.run.run_id
    return TrainingFailedError(
        f"run {run_id} ended before it reported a steady rate", f"plan logs {run_id} shows its output"
    )


def limits_after_pilots(job: TrainingJob, query: PlanQuery, cap: Cap, limits: Limits, desk: PilotDesk) -> Limits:
    """Run the pilots of a launch as far as they are worth it, and return the limits of the run: what they measured is
    in this home when the launch is proposed. The machine that ranks first has none: the run measures it.

    Whoever agreed to the pilots has agreed to the run; where none was run, nobody was asked. Raises PlanError before
    any pilot where the job costs more than the limits let it, DeclinedError where the person has stopped a pilot, and
    Detached where the person lets go of one.
    """
    if job.sweep is not None:
        all_pilots_first(job, query, cap, desk)
        return limits
    query = _narrowed(job, query)
    proposal = propose_pilots(job, query, desk.around, cap, DEFAULT_PILOTS)
    limits = limits._replace(measures=True)
    if not any(index > 0 for index in proposal.pilots.indices):  # the first one is measured by the run
        none_page = ["no other machine is worth a pilot"] if proposal.pilots.indices else proposal_page(proposal)
        desk.show([*none_page, f"  {MEASURES}"])
        return limits
    follows = _run_to_follow(job, query, cap, limits, desk.around)
    _tell(_answered(proposal, query, desk, follows), desk)
    return limits._replace(agreed=follows.agreed)


def all_pilots_first(job: TrainingJob, query: PlanQuery, cap: Cap, desk: PilotDesk) -> None:
    """Run the pilots of a launch whose run does not measure itself: a detached one, or a sweep. The machine that ranks
    first then has a pilot as well, and the launch asks its own question afterwards."""
    _tell(answer_with_pilots(job, query, cap, DEFAULT_PILOTS, desk), desk)


def _tell(answer: PilotAnswer, desk: PilotDesk) -> None:
    """What the pilots of a launch told. Raises DeclinedError where the person has stopped one, and TrainingFailedError
    where each that got a machine has failed: the job would."""
    desk.show(result_page(answer) if answer.results else proposal_page(answer.proposal))
    if answer.was_stopped:
        raise DeclinedError("a pilot was stopped: nothing was launched")
    runs = [result.run for result in answer.results if result.run is not None]
    trained = [run for run in runs if run.outcome not in (Outcome.NO_CAPACITY, Outcome.REFUSED)]
    if trained and all(run.outcome is Outcome.FAILED for run in trained):
        error = ended_error(trained[0])
        raise TrainingFailedError(f"every pilot that ran has failed, nothing was launched: {error.message}", error.hint)


def _refuse_sweep(job: TrainingJob) -> None:
    """Raises BadInputError for one over keys of our trainer, of which the model knows what they change."""
    if job.sweep is not None and job.script is None:
        raise BadInputError(
            "a pilot measures one job, and this one has a sweep", "leave out sweep to pilot one of its trials"
        )


def _narrowed(job: TrainingJob, query: PlanQuery) -> PlanQuery:
    """The query with the only providers that can read the job's data, where there are such."""
    if query.providers or job.constraints.providers:
        return query
    return query._replace(providers=only_providers(job))


def _run_to_follow(job: TrainingJob, query: PlanQuery, cap: Cap, limits: Limits, around: Surroundings) -> RunToFollow:
    settings = around.settings
    proposal, transfer = make_proposal_with_data(job, query, around, lambda at: bring(job, at, settings))
    proposal = within(proposal, limits.max_cost_usd)  # no pilot is paid for a run that may not begin
    proposal = within(proposal, high_usd(proposal))
    first_at = around.provider_of(proposal.targets[0].offer.provider)
    clock = build.clock_of(first_at)
    with build.journal(settings) as journal:
        runner = build.runner(journal, settings, lambda _: None, first_at.name)
        draft = runner.draft(transfer.job, proposal.targets, proposal.slow_end, None)
    agreed = agreed_to(proposal, draft)
    request = request_for(transfer.job, clock, client=build.client(settings).id, data=transfer.files)
    most_usd = cap.usd + agreed.most_usd
    lines = [
        f"then, as it is estimated now, {job.name} on {proposal.text}",
        *filter(None, [further_text(proposal), proposal.left_out]),
        f"  {MEASURES}",
        *limit_lines(agreed.limited(draft), request, first_at, clock.now()),
        f"pilots and run together never cost more than {format_usd(most_usd)}: {format_usd(cap.usd)} for the pilots, "
        f"{format_usd(agreed.most_usd)} for the run",
    ]
    return RunToFollow(agreed, lines, proposal.offers)


def _answered(
    proposal: PilotProposal, query: PlanQuery, desk: PilotDesk, follows: RunToFollow | None = None
) -> PilotAnswer:
    """The pilots of a proposal once somebody has agreed to them, and to the run that follows."""
    job, around = proposal.job, desk.around
    data = {name: bring(proposal.piloted, around.provider_of(name), around.settings) for name in _providers(proposal)}
    _agree(proposal, data, follows, desk)
    for name, transfer in data.items():
        if transfer.is_missing:
            send_brought(transfer, around.provider_of(name))
    results = _run(proposal, data, desk, goes_on=follows is not None)
    return PilotAnswer(proposal, results, () if proposal.try_settings else pilot_placements(job, query, around))


def _providers(proposal: PilotProposal) -> list[str]:
    """Where pilots are proposed, each provider once."""
    return list(dict.fromkeys(placement.target.offer.provider for placement in proposal.chosen))


def _agree(
    proposal: PilotProposal, data: dict[str, DataTransfer], follows: RunToFollow | None, desk: PilotDesk
) -> None:
    job, offers = proposal.job, [placement.target.offer for placement in proposal.chosen]
    foreign = [*foreign_parts(job), *readers(job, [*offers, *(follows.offers if follows else ())])]
    sent = [line for transfer in data.values() for line in transfer.lines]
    lines = follows.lines if follows else ()
    desk.show([*proposal_page(proposal), *lines, *sent, *foreign])
    if desk.is_agreed:
        return
    what = "run them, and then the job" if follows else "run them"
    question = f"{what}, with the image, data and secrets above?" if foreign else f"{what}?"
    hint = f"{Option.YES} runs them without asking"
    confirm(question, default=not foreign, hint=hint, left_alone="nothing was launched")


def _run(
    proposal: PilotProposal, data: dict[str, DataTransfer], desk: PilotDesk, *, goes_on: bool
) -> list[PilotResult]:
    """What became of each of them."""
    job = proposal.piloted
    locks = RunLocks(desk.around.settings.home / "locks")
    with locks.piloting(job.digest()), desk.opened() as opened:
        must_be_alone(opened.journal, opened.runner, job)
        run_one = partial(_run_one, data=data, desk=opened)
        if proposal.try_settings:
            return _some_run(run_tries(proposal, run_one))
        series = PilotSeries(proposal, run_one, lambda line: opened.view.show(Message(line)), goes_on=goes_on)
        series.run()
        return _some_run(series.results)


def _some_run(results: list[PilotResult]) -> list[PilotResult]:
    """The results. Where every pilot was refused before it began (nobody is signed in, for example), raises the first
    refusal."""
    refusals = [result.refusal for result in results]
    if refusals and all(refusals) and refusals[0] is not None:
        raise refusals[0]
    return results


def _run_one(placement: PilotPlacement, limit: timedelta, data: dict[str, DataTransfer], desk: Desk) -> PilotResult:
    around, name = desk.around, placement.target.offer.provider
    settings, transfer = around.settings, data[name]
    desk.view.show(Message(f"pilot on {placement.target.where}"))
    clock = build.clock_of(around.provider_of(name))
    request = request_for(
        transfer.job, clock, client=build.client(settings).id, data=transfer.files, key=RunKeys(settings.home).key
    )
    watchful = Watchful(around.provider_of, clock.now, [target.offer for target in placement.targets])
    return run_pilot(desk.runner(name), transfer.job, placement, limit, watchful.over(request))
