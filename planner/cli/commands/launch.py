"""`plan launch`: train a job for real, from the question to the receipt."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from planner.api import build
from planner.api.ask import confirm
from planner.api.data_steps import bring, check_at_launch, send_brought
from planner.api.living_run import Beside, Joined
from planner.cli import options
from planner.cli.live_view import LiveView
from planner.cli.person import person
from planner.cli.pilots import run_all_pilots_first, run_pilots_first
from planner.cli.run_end import follow, print_ended_receipt
from planner.cli.screen import show
from planner.datasets.transfer import DataTransfer
from planner.errors import RefusedError
from planner.planning.build_plan import PlanQuery
from planner.runs.directory.run_keys import RunKeys
from planner.runs.proposal.agreed import Agreed
from planner.runs.proposal.consent import brought_lines, foreign_parts, readers
from planner.runs.proposal.dry_run import DryRun
from planner.runs.proposal.live_prices import Watchful
from planner.runs.proposal.make_proposal import (
    Surroundings,
    at_current_prices,
    limit_lines,
    make_proposal_with_data,
)
from planner.runs.proposal.proposal import Proposal, further_text, most_usd, within
from planner.runs.run import Phase, Run
from planner.runs.runner import Runner, request_for
from planner.runs.telling.news import News
from planner.settings import Settings
from workloads import terms
from workloads.job import TrainingJob


def command(
    job_file: options.NeededJobFile,
    provider: options.Providers = None,
    region: options.Regions = None,
    device: options.Devices = None,
    market: options.Markets = None,
    assume_available: options.AssumeAvailable = False,
    deadline: options.Deadline = None,
    budget: options.Budget = None,
    objective: options.Objective = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start again instead of continuing from an earlier checkpoint")
    ] = False,
    allow_retired: Annotated[
        bool, typer.Option("--allow-retired", help="Also launch on machine types that the vendor has retired")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the requests that would be sent")] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Do not follow the run")] = False,
    max_cost: Annotated[
        str | None,
        typer.Option("--max-cost", help="Only regions and zones where the job is planned to cost at most this, in USD"),
    ] = None,
    another: Annotated[
        bool,
        typer.Option(
            "--another", help="Launch although a run of this job is live; without it, --yes attaches to that run"
        ),
    ] = False,
    pilot: Annotated[
        str | None,
        typer.Option(
            "--pilot", metavar="USD", help="First run the pilots that are worth it within this cap; then compare again"
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", help="Folder for the model")] = None,
    as_json: options.Json = False,
) -> None:
    """Parse, plan, ask, follow, receipt."""
    job, told = _checked(options.read_job_file(job_file, may_ask=not yes), deadline, budget, objective)
    query = _query_of(provider, region, device, options.markets(market), allow_retired, assume_available)
    around = build.surroundings(settings := options.settings(), calibrates=not dry_run)
    factory = around.provider_of
    limits = _Limits(None if max_cost is None else options.max_cost(max_cost), is_agreed=yes)
    if pilot is not None and not dry_run:
        limits = limits.after_pilots(job, query, around, pilot, detach=detach, as_json=as_json)
    proposal, transfer = make_proposal_with_data(job, query, around, lambda at: bring(job, at, settings))
    limits = limits.of(proposal)
    proposal = within(proposal, most := limits.most_usd(proposal))
    # Of the job as it was written: a folder that was sent to our own storage has an address there.
    foreign, job = [*foreign_parts(job), *readers(job, proposal.offers)], transfer.job
    if dry_run:
        _print_requests(transfer, proposal, settings, as_json)
        return
    with LiveView(sys.stderr, build.clock().now, told) as view, build.journal(settings) as journal:
        first_at = factory(proposal.targets[0].offer.provider)
        clock = build.clock_of(first_at)
        client = person(view, News(journal, factory, build.clock()))
        runner = build.runner(journal, settings, view.show, first_at.name, client, factory)
        beside = Beside(runner, job, view, assume_yes=yes, another=another)
        try:
            beside.look()
            draft = limits.draft(runner.draft(job, proposal.targets, proposal.slow_end, output))
            earlier = None if fresh else runner.resumable(job, _names_of(proposal))
            key, client_id = RunKeys(settings.home).key, build.client(settings).id
            request = request_for(job, clock, client=client_id, data=transfer.files, key=key)
            watchful = Watchful(factory, clock.now, proposal.offers)
            lines = (*brought_lines(job), *transfer.lines, *limit_lines(draft, request, first_at, clock.now()))
            lines += _beginning(runner, job, _names_of(proposal), earlier, fresh=fresh)
            view.pause_for(lambda: _ask(job.name, proposal, lines, foreign, assume_yes=limits.is_agreed))
            if transfer.is_missing:  # the time of the run begins with its data
                view.pause_for(lambda: send_brought(transfer, first_at))
                draft = limits.draft(runner.draft(job, proposal.targets, proposal.slow_end, output))
            if watchful.is_stale() and proposal.plan is not None:
                proposal = _agreed_again(at_current_prices(proposal.plan, around), view, most, limits.most_usd)
                draft = limits.draft(replace(draft, targets=proposal.targets))
                watchful = Watchful(factory, clock.now, proposal.offers)
            runner.prepare(request(draft, 1, draft.targets[0]))
            run = beside.begin(
                lambda: runner.again(earlier, draft, output) if earlier else runner.record(draft, job, proposal.record)
            )
            make_request = watchful.over(request)
        except Joined as joined:
            if joined.run.phase is Phase.DONE:
                print_ended_receipt(joined.run, journal, as_json)
                return
            run, runner = joined.run, build.runner(journal, settings, view.show, joined.run.provider, client, factory)
            make_request = build.further_requests(runner, run, factory, settings)
        follow(runner, run, make_request, as_json, until_launched=detach, images=transfer.folder)


class _Limits(NamedTuple):
    """What the person has agreed to before the launch asks: --max-cost, and whether anything is asked at all.

    `agreed` are the limits of the run that were agreed to with its pilots, and `measures` whether it measures its own
    speed.
    """

    max_cost_usd: Decimal | None
    is_agreed: bool
    agreed: Agreed | None = None
    measures: bool = False

    def after_pilots(
        self, job: TrainingJob, query: PlanQuery, around: Surroundings, cap: str, *, detach: bool, as_json: bool
    ) -> _Limits:
        """Run the pilots that are worth their cost, and return the limits of the run that follows. `cap` is the text of
        --pilot. With `detach` no command follows the run, so that it cannot compare machines: then the machine that
        ranks first gets a pilot too, and the launch asks its own question."""
        if detach:
            run_all_pilots_first(job, query, around, cap, assume_yes=self.is_agreed, as_json=as_json)
            return self
        agreed = run_pilots_first(job, query, around, cap, assume_yes=self.is_agreed, as_json=as_json)
        return self._replace(agreed=agreed, measures=True)

    def of(self, proposal: Proposal) -> _Limits:
        """The same for a proposal: whoever agreed to pilots and run is asked again where the job turned out dearer."""
        if self.agreed is None or not (self.is_agreed or self.agreed.covers(proposal)):
            return self._replace(agreed=None)
        return self._replace(is_agreed=True)

    def most_usd(self, proposal: Proposal) -> Decimal | None:
        """What the job may be planned to cost at a placement that the run takes; None: a person agrees to each."""
        if self.agreed is not None and self.max_cost_usd is None:
            return self.agreed.ceiling_usd(proposal)
        return most_usd(proposal, self.max_cost_usd, assume_yes=self.is_agreed)

    def draft(self, draft: Run) -> Run:
        """The draft within these limits."""
        draft = replace(draft, measures_first=self.measures)
        return self.agreed.limited(draft) if self.agreed else draft


def _checked(
    job: TrainingJob, deadline: str | None, budget: str | None, objective: terms.Objective | None
) -> tuple[TrainingJob, list[str]]:
    """The job with the limits of the command line and what its data folder says of it, and the lines that stderr got of
    that folder."""
    told: list[str] = []
    return check_at_launch(options.with_limits(job, deadline, budget, objective), told), told


def _beginning(
    runner: Runner, job: TrainingJob, providers: Sequence[str], earlier: Run | None, *, fresh: bool
) -> tuple[str, ...]:
    """What the run begins with: the checkpoint of an earlier one, or nothing although one waits."""
    if earlier is not None:
        return (f"continuing run {earlier.run_id} from its newest checkpoint (--fresh starts again)",)
    waiting = "" if fresh else runner.waiting(job, providers)
    return (waiting,) if waiting else ()


def _query_of(
    providers: Sequence[str] | None,
    regions: Sequence[str] | None,
    devices: Sequence[str] | None,
    markets: Sequence[str],
    allow_retired: bool,
    assume_available: bool,
) -> PlanQuery:
    """What the options ask for; an option that is not given asks for everything."""
    query = PlanQuery(tuple(providers or ()), tuple(regions or ()), tuple(devices or ()), tuple(markets))
    return query._replace(include_retired=allow_retired, assume_available=assume_available)


def _ask(
    title: str,
    proposal: Proposal,
    limits: Sequence[str],
    foreign: Sequence[str],
    *,
    assume_yes: bool,
) -> None:
    """Show what would be launched, and return where somebody agrees. `foreign` are the job's parts made elsewhere."""
    lines = [f"{title} on {proposal.text}", *filter(None, (further_text(proposal), proposal.left_out)), *limits]
    show([*lines, *foreign], stream=sys.stderr)
    if proposal.dearer:
        _ask_price(proposal.dearer)
        return
    if proposal.late:
        show([proposal.late], stream=sys.stderr)
    if assume_yes:
        return
    question = "launch with the image, data and secrets above?" if foreign else "launch?"
    question = "launch it all the same?" if proposal.late and not foreign else question
    hint = "--yes launches without asking"
    # Enter alone agrees neither to parts that others made nor to a run that will not get to its end.
    confirm(question, default=not (foreign or proposal.late), hint=hint, left_alone="nothing was launched")


def _agreed_again(
    proposal: Proposal, view: LiveView, most: Decimal | None, ceiling: Callable[[Proposal], Decimal | None]
) -> Proposal:
    """The proposal at the prices of now, since the answer took its time; what is dearer is asked about again.

    Whoever agrees to a dearer first placement agrees to what --yes covers around it.
    """
    if proposal.dearer:
        view.pause_for(lambda: _ask_price(proposal.dearer))
    return within(proposal, ceiling(proposal) if proposal.dearer else most)


def _names_of(proposal: Proposal) -> list[str]:
    """The providers of its placements, each once, in their order."""
    return list(dict.fromkeys(target.offer.provider for target in proposal.targets))


def _ask_price(dearer: str) -> None:
    """A price that is well above the one that was shown is agreed to by a person, whatever was typed."""
    hint = "--yes does not cover that: launch from a terminal, or plan prices refresh and plan estimate first"
    question = f"{dearer}. Launch at this price?"
    nobody = RefusedError(dearer, hint)
    confirm(question, default=False, hint=hint, left_alone="nothing was launched", nobody=nobody)


def _print_requests(transfer: DataTransfer, proposal: Proposal, settings: Settings, as_json: bool) -> None:
    first_at = build.provider(proposal.targets[0].offer.provider, settings)
    clock = build.clock_of(first_at)
    with build.journal(settings) as journal:
        runner = build.runner(journal, settings, lambda _: None, first_at.name)
        draft = runner.draft(transfer.job, proposal.targets, proposal.slow_end, None)
        dry = DryRun(build.providers(settings), clock, journal.refusals(clock.now()))
    request = request_for(transfer.job, clock, client=build.client(settings).id, data=transfer.files)
    target, requests = dry.calls(draft, request)
    sys.stderr.write(f"would be sent to {target.where}:\n")
    if as_json:
        rows = [
            {"service": row.service, "operation": row.operation, "parameters": dict(row.parameters)} for row in requests
        ]
        sys.stdout.write(json.dumps(rows, default=str) + "\n")
        return
    for row in requests:
        sys.stdout.write(f"{row.service} {row.operation}\n{json.dumps(dict(row.parameters), indent=2, default=str)}\n")
