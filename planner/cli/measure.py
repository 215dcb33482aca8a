"""`plan measure`: a short run on this machine that only measures throughput."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import build, options
from planner.cli.ask import confirm
from planner.cli.live_view import LiveView
from planner.cli.person import hang_up_detaches
from planner.cli.run_end import finish, print_left
from planner.errors import TrainingFailedError
from planner.forecast.build_plan import PlanQuery
from planner.runs.consent import foreign_parts, readers
from planner.runs.execution.executor import Detached
from planner.runs.make_proposal import make_proposal
from planner.runs.run import Outcome
from planner.runs.runner import request_for
from providers.registry import THIS_MACHINE

if TYPE_CHECKING:
    from planner.runs.proposal import Proposal
    from workloads.job import TrainingJob

DEFAULT_STEPS = 40


def command(
    job_file: options.NeededJobFile,
    steps: Annotated[int, typer.Option("--steps", min=5, help="Training steps to measure over")] = DEFAULT_STEPS,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")] = False,
    as_json: options.Json = False,
) -> None:
    """Train a few steps, keep the rate as a measurement, leave no model behind."""
    job = options.read_job_file(job_file)
    settings = options.settings()
    proposal = make_proposal(job, PlanQuery(providers=(THIS_MACHINE,)), build.surroundings(settings))
    if not yes:
        _agree(job, proposal)
    with LiveView(sys.stderr, build.clock().now) as view, build.journal(settings) as journal:
        runner = build.runner(journal, settings, view.show, THIS_MACHINE)
        # Without a folder for the model a run counts as one that only measures.
        run = replace(runner.draft(job, proposal.targets, proposal.slow_end, None), model_folder="")
        request = request_for(job, build.clock(), client=build.client(settings).id, max_steps=steps)
        runner.prepare(request(run, 1, run.targets[0]))
        runner.record(run, job, proposal.record)
        try:
            with hang_up_detaches():
                run, measured = runner.measure(run, request)
        except Detached as left:
            print_left(left.run, as_json)
            return
    if run.outcome is not Outcome.SUCCEEDED:
        finish(run)
    if measured is None:
        raise TrainingFailedError(f"{steps} steps were too few for a steady rate", "--steps takes more")
    if as_json:
        sys.stdout.write(json.dumps(asdict(measured), default=str) + "\n")
        return
    rate = measured.images_per_second
    sys.stdout.write(f"{job.name}: {rate:,.1f} images/s on this machine, {measured.framework}; kept as a measurement\n")


def _agree(job: TrainingJob, proposal: Proposal) -> None:
    """A job of known parts is measured without a question; a stranger's image runs here once somebody agrees."""
    foreign = [*foreign_parts(job), *readers(job, proposal.offers)]
    for line in foreign:
        sys.stderr.write(f"{line}\n")
    if foreign:
        question = "measure with the image, data and secrets above, on this machine?"
        confirm(question, default=False, hint="--yes measures without asking", left_alone="nothing was started")
