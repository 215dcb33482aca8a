"""`plan launch`: train a job for real, from the question to the receipt."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from planner.cli import build, options
from planner.cli.live import LiveView
from planner.errors import (
    BadInputError,
    ExitCode,
    LimitReachedError,
    NotBuiltYetError,
    TrainingFailedError,
)
from planner.gather import Wanted, make_plan
from planner.plan import MachineEstimate
from planner.receipt import Receipt, receipt_text
from planner.render import machine_line
from planner.run import Outcome, Run
from planner.runner import request_for
from planner.settings import Settings
from pricing.offers import Offer, OfferQuery
from providers.base import LaunchRequest, Provider
from workloads.job import TrainingJob

LOCAL = "local"


def command(
    job_file: options.NeededJobFile,
    provider: Annotated[str | None, typer.Option("--provider", help="local: this machine")] = None,
    deadline: options.Deadline = None,
    budget: options.Budget = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not go on from an earlier checkpoint")] = False,
    allow_retired: Annotated[
        bool, typer.Option("--allow-retired", help="Retired machines too, on rented ones")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the requests that would be sent")] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Do not follow the run")] = False,
    output: Annotated[Path | None, typer.Option("--output", help="Folder for the model")] = None,
    as_json: options.Json = False,
) -> None:
    """Parse, plan, ask, follow, receipt."""
    if provider != LOCAL:
        what = f"provider {provider}" if provider else "launching without --provider"
        raise NotBuiltYetError(f"{what}: only this machine can be launched on yet", "plan launch JOB --provider local")
    if detach or allow_retired:
        raise NotBuiltYetError(
            "--detach and --allow-retired are for rented machines, and none can be rented yet", "leave it out"
        )
    job = options.with_limits(options.read_job_file(job_file), deadline, budget, None)
    settings = options.settings()
    asked = build.provider(LOCAL, settings)
    quote, offer = this_machine_offer(job, settings, asked)
    if dry_run:
        _print_requests(asked, request_for(job, offer)(_draft(asked, settings, job, offer, quote), 1), as_json)
        return
    with LiveView(sys.stderr, build.clock().now) as view, build.journal(settings) as journal:
        runner = build.runner(asked, journal, settings, view.show)
        draft = runner.draft(job, offer, quote, output)
        earlier = None if fresh else runner.resumable(job)
        run = runner.again(earlier, draft.deadline, output) if earlier else draft
        view.pause_for(lambda: _ask(job, quote, earlier, run, assume_yes=yes))
        request = request_for(job, offer)
        runner.prepare(request(run, len(run.attempts) + 1))
        if earlier is None:
            runner.record(run, job, quote)
        run, receipt = runner.follow(run, request)
    print_receipt(receipt, as_json)
    finish(run)


def this_machine_offer(job: TrainingJob, settings: Settings, asked: Provider) -> tuple[MachineEstimate, Offer]:
    """What the job takes here, and this machine as an offer. Raises BadInputError where it does not fit."""
    wanted = Wanted(providers=(LOCAL,), limit=0)
    quote = make_plan(job, wanted, settings, build.clock().now()).this_machine
    assert quote is not None
    if not quote.fits:
        raise BadInputError(f"{job.name} cannot train on this machine: {quote.reason}", "a smaller global_batch_size")
    offers = asked.offers(OfferQuery())
    fitting = [offer for offer in offers if (offer.device, offer.device_count) == (quote.device, quote.device_count)]
    return quote, (fitting or list(offers))[0]


def print_receipt(receipt: Receipt, as_json: bool) -> None:
    sys.stdout.write((json.dumps(receipt.to_json()) if as_json else receipt_text(receipt)) + "\n")


def finish(run: Run) -> None:
    """Leave with the run's exit code: nothing for a success, an error that says how to go on for the rest."""
    again = "plan launch JOB.yaml goes on from the newest checkpoint, --fresh starts anew"
    match run.outcome:
        case Outcome.SUCCEEDED:
            return
        case Outcome.STOPPED:
            sys.stderr.write(f"stopped; {again}\n")
            raise typer.Exit(int(ExitCode.INTERRUPTED))
        case Outcome.DEADLINE:
            raise LimitReachedError(f"run {run.run_id}: {run.message}", again)
        case _:
            raise TrainingFailedError(f"run {run.run_id}: {run.message}", f"plan logs {run.run_id} shows what it said")


def _draft(asked: Provider, settings: Settings, job: TrainingJob, offer: Offer, quote: MachineEstimate) -> Run:
    with build.journal(settings) as journal:
        return build.runner(asked, journal, settings, lambda _: None).draft(job, offer, quote, None)


def _ask(job: TrainingJob, quote: MachineEstimate, earlier: Run | None, run: Run, *, assume_yes: bool) -> None:
    sys.stderr.write(f"{job.name} on this machine: {machine_line(quote)}\n")
    sys.stderr.write(f"it ends itself by {run.deadline.astimezone():%Y-%m-%d %H:%M} at the latest\n")
    if earlier is not None:
        sys.stderr.write(f"going on with run {earlier.run_id} from its newest checkpoint (--fresh starts anew)\n")
    if assume_yes:
        return
    if not sys.stdin.isatty():
        raise BadInputError("nobody is there to ask", "--yes launches without asking")
    if not typer.confirm("launch?", default=True, err=True):
        raise typer.Abort


def _print_requests(asked: Provider, request: LaunchRequest, as_json: bool) -> None:
    sent = asked.requests(request)
    if as_json:
        rows = [
            {"service": row.service, "operation": row.operation, "parameters": dict(row.parameters)} for row in sent
        ]
        sys.stdout.write(json.dumps(rows, default=str) + "\n")
        return
    for row in sent:
        sys.stdout.write(f"{row.service} {row.operation}\n{json.dumps(dict(row.parameters), indent=2, default=str)}\n")
