"""`plan launch`: train a job for real, from the question to the receipt."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from trainplan.planner.api import build
from trainplan.planner.api.data_steps import check_at_launch
from trainplan.planner.api.job_files import read_job_file, with_limits
from trainplan.planner.api.launching import (
    Begun,
    Choices,
    Desk,
    Limits,
    Offered,
    begin,
    instead_of_pilots,
    offered,
)
from trainplan.planner.api.living_run import Known
from trainplan.planner.api.piloting import all_pilots_first, cap_of, limits_after_pilots
from trainplan.planner.cli import options
from trainplan.planner.cli.live_view import LiveView
from trainplan.planner.cli.person import person
from trainplan.planner.cli.pilot_desk import pilot_desk, show_aside
from trainplan.planner.cli.run_end import follow, print_ended_receipt, print_left
from trainplan.planner.errors import ExitCode
from trainplan.planner.planning.build_plan import PlanQuery
from trainplan.planner.runs.execution.executor import Detached
from trainplan.planner.runs.proposal.dry_run import DryRun
from trainplan.planner.runs.proposal.make_proposal import Surroundings
from trainplan.planner.runs.proposal.pilots import Cap
from trainplan.planner.runs.runner import request_for
from trainplan.planner.runs.telling.news import News
from trainplan.planner.settings import Settings
from trainplan.workloads import terms
from trainplan.workloads.job import TrainingJob
from trainplan.workloads.wording import Option


def command(
    job_file: options.NeededJobFile,
    provider: options.Providers = None,
    region: options.Regions = None,
    device: options.Devices = None,
    count: options.Counts = None,
    market: options.Markets = None,
    assume_available: options.AssumeAvailable = False,
    deadline: options.Deadline = None,
    budget: options.Budget = None,
    objective: options.Objective = None,
    yes: options.Yes = False,
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
    quiet: Annotated[bool, typer.Option("--quiet", help="Leave out what a script prints")] = False,
    as_json: options.Json = False,
) -> None:
    """Parse, plan, ask, follow, receipt."""
    job, told = _checked(read_job_file(job_file, may_ask=not yes), deadline, budget, objective)
    query = options.where(provider, region, device, market)._replace(
        counts=tuple(count or ()), include_retired=allow_retired, assume_available=assume_available
    )
    options.refresh_daily(settings := options.settings())
    around = build.surroundings(settings, calibrates=not dry_run)
    limits = Limits(None if max_cost is None else options.max_cost(max_cost), is_agreed=yes)
    choices = Choices(fresh=fresh, another=another, output=output)
    known: Known | None = None
    if pilot is not None and not dry_run:
        cap, offer = cap_of(Option.PILOT, pilot), offered(job, query, around, limits)
        with _desk(around, told, quiet=quiet) as desk:
            found = instead_of_pilots(offer, choices, desk)
            if isinstance(found, Begun):
                _follow(found, desk, as_json, detach=detach)
                return
        known = found
        try:
            limits = _after_pilots(limits, job, query, around, cap, detach=detach)
        except Detached as left:
            print_left(left.run, as_json)
            raise typer.Exit(int(ExitCode.INTERRUPTED)) from None
    offer = offered(job, query, around, limits, known)
    if dry_run:
        _print_requests(offer, settings, as_json)
        return
    with _desk(around, told, quiet=quiet) as desk:
        _follow(begin(offer, choices, desk), desk, as_json, detach=detach)


@contextmanager
def _desk(around: Surroundings, told: list[str], *, quiet: bool) -> Iterator[Desk]:
    with LiveView(sys.stderr, build.clock().now, told, quiet=quiet) as view, build.journal(around.settings) as journal:
        client = person(view, News(journal, around.provider_of, build.clock()))
        yield Desk(around=around, journal=journal, view=view, person=client, show=show_aside)


def _follow(begun: Begun, desk: Desk, as_json: bool, *, detach: bool) -> None:
    if begun.has_ended:
        print_ended_receipt(begun.run, desk.journal, as_json)
        return
    follow(begun.runner, begun.run, begun.make_request, as_json, until_launched=detach, images=begun.images)


def _after_pilots(
    limits: Limits, job: TrainingJob, query: PlanQuery, around: Surroundings, cap: Cap, *, detach: bool
) -> Limits:
    """Run the pilots that are worth their cost, and return the limits of the run that follows. With `detach` no command
    follows the run, so that it cannot compare machines: then the machine that ranks first gets a pilot too, and the
    launch asks its own question."""
    desk = pilot_desk(around, is_agreed=limits.is_agreed)
    if detach:
        all_pilots_first(job, query, cap, desk)
        return limits
    return limits_after_pilots(job, query, cap, limits, desk)


def _checked(
    job: TrainingJob, deadline: str | None, budget: str | None, objective: terms.Objective | None
) -> tuple[TrainingJob, list[str]]:
    """The job with the limits of the command line and what its data folder says of it, and the lines that stderr got of
    that folder."""
    told: list[str] = []
    return check_at_launch(with_limits(job, deadline, budget, objective), told), told


def _print_requests(offer: Offered, settings: Settings, as_json: bool) -> None:
    transfer, proposal = offer.transfer, offer.proposal
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
