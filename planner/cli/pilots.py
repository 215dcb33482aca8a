"""Pilots on behalf of a command: proposed, agreed to, run one after another, and ranked again by what they told."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import typer

from trainplan.planner.api import build
from trainplan.planner.api.ask import confirm
from trainplan.planner.api.data_steps import bring, send_brought
from trainplan.planner.cli import options
from trainplan.planner.cli.live_view import LiveView
from trainplan.planner.cli.person import hang_up_detaches, person
from trainplan.planner.cli.pilot_page import PilotAnswer, proposal_page, result_page
from trainplan.planner.cli.run_end import print_left
from trainplan.planner.cli.screen import show
from trainplan.planner.errors import BadInputError, ExitCode
from trainplan.planner.planning.build_plan import PlanQuery
from trainplan.planner.runs.directory.run_keys import RunKeys
from trainplan.planner.runs.execution.executor import Detached
from trainplan.planner.runs.journal.locks import RunLocks
from trainplan.planner.runs.pilot import PilotResult, PilotSeries, must_be_alone, run_pilot, run_tries
from trainplan.planner.runs.proposal.agreed import Agreed, agreed_to, high_usd
from trainplan.planner.runs.proposal.consent import foreign_parts, readers
from trainplan.planner.runs.proposal.live_prices import Watchful
from trainplan.planner.runs.proposal.make_proposal import limit_lines, make_proposal_with_data, only_providers
from trainplan.planner.runs.proposal.pilots import PilotProposal, pilot_placements, propose_pilots, propose_tries
from trainplan.planner.runs.proposal.proposal import further_text, within
from trainplan.planner.runs.runner import Runner, request_for
from trainplan.planner.runs.telling.news import News
from trainplan.pricing.money import format_usd

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta
    from decimal import Decimal

    from trainplan.planner.datasets.transfer import DataTransfer
    from trainplan.planner.runs.journal.journal import Journal
    from trainplan.planner.runs.proposal.make_proposal import Surroundings
    from trainplan.planner.runs.proposal.pilots import PilotPlacement
    from trainplan.pricing.offers import Offer
    from trainplan.workloads.job import TrainingJob

DEFAULT_PILOTS = 3
MEASURES = (
    "the run measures its own speed first: it stays where nothing is cheaper by that, else it goes on from its "
    "checkpoint where its rest is"
)


class RunToFollow(NamedTuple):
    """The run that a launch proposes after its pilots: its limits, what is told of it before the question, and where it
    may go."""

    agreed: Agreed
    lines: Sequence[str]
    offers: Sequence[Offer]


def answer_with_pilots(
    job: TrainingJob, query: PlanQuery, cap_usd: Decimal, most: int, around: Surroundings, *, assume_yes: bool
) -> PilotAnswer:
    """The pilots that are worth it, once somebody has agreed, and what they told. Raises PlanError, and Detached where
    the person lets go of one of them."""
    _must_be_one(job)
    query = _narrowed(job, query)
    proposal = propose_pilots(job, query, around, cap_usd, most)
    if not proposal.pilots.indices:
        return PilotAnswer(proposal)
    return _answered(proposal, query, around, assume_yes=assume_yes)


def answer_with_tries(
    job: TrainingJob, query: PlanQuery, cap_usd: Decimal, around: Surroundings, *, assume_yes: bool
) -> PilotAnswer:
    """One pilot that tries micro-batches and XLA, once somebody has agreed, and what it told. Raises PlanError, and
    Detached where the person lets go of it."""
    query = _narrowed(job, query)
    return _answered(propose_tries(job, query, around, cap_usd), query, around, assume_yes=assume_yes)


def run_pilots_first(
    job: TrainingJob, query: PlanQuery, around: Surroundings, cap: str, *, assume_yes: bool, as_json: bool
) -> Agreed | None:
    """The pilots of a launch within a cap as it was typed, as far as they are worth it, all told on stderr: what they
    measured is in this home when the launch is proposed. The machine that ranks first has none: the run measures it.

    The limits of the run that a person has agreed to together with the pilots; None where no pilot was run, so that
    nobody was asked. Leaves the command where the person has stopped a pilot or let go of it.
    """
    _must_be_one(job)
    query = _narrowed(job, query)
    proposal = propose_pilots(job, query, around, options.cap("--pilot", cap), DEFAULT_PILOTS)
    if not proposal.pilots.indices:
        show(proposal_page(proposal), stream=sys.stderr)
    if not any(index > 0 for index in proposal.pilots.indices):  # the first one is measured by the run
        return None
    follows = _run_to_follow(job, query, around, proposal.cap_usd)
    _tell(_unless_left(lambda: _answered(proposal, query, around, follows, assume_yes=assume_yes), as_json))
    return follows.agreed


def run_all_pilots_first(
    job: TrainingJob, query: PlanQuery, around: Surroundings, cap: str, *, assume_yes: bool, as_json: bool
) -> None:
    """The same before a run that nobody follows, and that therefore measures nothing: the machine that ranks first has
    a pilot too, and the launch asks by itself."""
    cap_usd = options.cap("--pilot", cap)
    _tell(
        _unless_left(
            lambda: answer_with_pilots(job, query, cap_usd, DEFAULT_PILOTS, around, assume_yes=assume_yes), as_json
        )
    )


def _unless_left(answer: Callable[[], PilotAnswer], as_json: bool) -> PilotAnswer:
    """The answer; leaves the command where the person lets go of a pilot."""
    try:
        return answer()
    except Detached as left:
        print_left(left.run, as_json)
        raise typer.Exit from None


def _tell(answer: PilotAnswer) -> None:
    """What the pilots told, to stderr; leaves the command where the person has stopped one."""
    show(result_page(answer) if answer.results else proposal_page(answer.proposal), stream=sys.stderr)
    if any(result.was_stopped for result in answer.results):
        sys.stderr.write("a pilot was stopped: nothing is launched\n")
        raise typer.Exit(int(ExitCode.INTERRUPTED))


def _must_be_one(job: TrainingJob) -> None:
    if job.sweep is not None:
        raise BadInputError(
            "a pilot measures one job, and this one has a sweep", "leave out sweep to pilot one of its trials"
        )


def _narrowed(job: TrainingJob, query: PlanQuery) -> PlanQuery:
    """The query with the only providers that can read the job's data, where there are such."""
    if query.providers or job.constraints.providers:
        return query
    return query._replace(providers=only_providers(job))


def _run_to_follow(job: TrainingJob, query: PlanQuery, around: Surroundings, cap_usd: Decimal) -> RunToFollow:
    settings = around.settings
    proposal, transfer = make_proposal_with_data(job, query, around, lambda at: bring(job, at, settings))
    proposal = within(proposal, high_usd(proposal))
    first_at = around.provider_of(proposal.targets[0].offer.provider)
    clock = build.clock_of(first_at)
    with build.journal(settings) as journal:
        runner = build.runner(journal, settings, lambda _: None, first_at.name)
        draft = runner.draft(transfer.job, proposal.targets, proposal.slow_end, None)
    agreed = agreed_to(proposal, draft)
    request = request_for(transfer.job, clock, client=build.client(settings).id, data=transfer.files)
    most_usd = cap_usd + agreed.most_usd
    lines = [
        f"then, as it is estimated now, {job.name} on {proposal.text}",
        *filter(None, [further_text(proposal), proposal.left_out]),
        f"  {MEASURES}",
        *limit_lines(agreed.limited(draft), request, first_at, clock.now()),
        f"pilots and run together never cost more than {format_usd(most_usd)}: {format_usd(cap_usd)} for the pilots, "
        f"{format_usd(agreed.most_usd)} for the run",
    ]
    return RunToFollow(agreed, lines, proposal.offers)


def _answered(
    proposal: PilotProposal,
    query: PlanQuery,
    around: Surroundings,
    follows: RunToFollow | None = None,
    *,
    assume_yes: bool,
) -> PilotAnswer:
    """The pilots of a proposal once somebody has agreed to them, and to the run that follows."""
    job = proposal.job
    data = {name: bring(job, around.provider_of(name), around.settings) for name in _providers(proposal)}
    _agree(proposal, data, follows, assume_yes=assume_yes)
    for name, transfer in data.items():
        if transfer.is_missing:
            send_brought(transfer, around.provider_of(name))
    results = _run(proposal, data, around, goes_on=follows is not None)
    return PilotAnswer(proposal, results, () if proposal.try_settings else pilot_placements(job, query, around))


def _providers(proposal: PilotProposal) -> list[str]:
    """Where pilots are proposed, each provider once."""
    return list(dict.fromkeys(placement.target.offer.provider for placement in proposal.chosen))


def _agree(
    proposal: PilotProposal, data: dict[str, DataTransfer], follows: RunToFollow | None, *, assume_yes: bool
) -> None:
    job, offers = proposal.job, [placement.target.offer for placement in proposal.chosen]
    foreign = [*foreign_parts(job), *readers(job, [*offers, *(follows.offers if follows else ())])]
    sent = [line for transfer in data.values() for line in transfer.lines]
    lines = follows.lines if follows else ()
    show([*proposal_page(proposal), *lines, *sent, *foreign], stream=sys.stderr)
    if assume_yes:
        return
    what = "run them, and then the job" if follows else "run them"
    question = f"{what}, with the image, data and secrets above?" if foreign else f"{what}?"
    hint = "--yes runs them without asking"
    confirm(question, default=not foreign, hint=hint, left_alone="nothing was launched")


def _run(
    proposal: PilotProposal, data: dict[str, DataTransfer], around: Surroundings, *, goes_on: bool
) -> list[PilotResult]:
    """What became of each of them."""
    settings, job = around.settings, proposal.job
    locks = RunLocks(settings.home / "locks")
    with (
        locks.piloting(job.digest()),
        LiveView(sys.stderr, build.clock().now) as view,
        build.journal(settings) as journal,
        hang_up_detaches(),
    ):
        must_be_alone(journal, partial(_runner, journal=journal, around=around, view=view), job)
        run_one = partial(_run_one, data=data, journal=journal, around=around, view=view)
        if proposal.try_settings:
            return run_tries(proposal, run_one)
        series = PilotSeries(proposal, run_one, lambda line: around.say(line), goes_on=goes_on)
        series.run()
        return series.results


def _run_one(
    placement: PilotPlacement,
    limit: timedelta,
    data: dict[str, DataTransfer],
    journal: Journal,
    around: Surroundings,
    view: LiveView,
) -> PilotResult:
    name, settings = placement.target.offer.provider, around.settings
    around.say(f"pilot on {placement.target.where}")
    clock = build.clock_of(around.provider_of(name))
    transfer = data[name]
    request = request_for(
        transfer.job, clock, client=build.client(settings).id, data=transfer.files, key=RunKeys(settings.home).key
    )
    watchful = Watchful(around.provider_of, clock.now, [target.offer for target in placement.targets])
    runner = _runner(name, journal=journal, around=around, view=view)
    return run_pilot(runner, transfer.job, placement, limit, watchful.over(request))


def _runner(name: str, *, journal: Journal, around: Surroundings, view: LiveView) -> Runner:
    client = person(view, News(journal, around.provider_of, build.clock()))
    return build.runner(journal, around.settings, view.show, name, client, around.provider_of)
