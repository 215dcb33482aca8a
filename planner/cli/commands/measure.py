"""`plan measure`: a short run on this machine that only measures throughput."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainplan.planner.api import build
from trainplan.planner.api.ask import confirm
from trainplan.planner.api.job_files import read_job_file
from trainplan.planner.cli import options
from trainplan.planner.cli.live_view import LiveView
from trainplan.planner.cli.output_file import write_new
from trainplan.planner.cli.run_end import finish, print_left
from trainplan.planner.cli.screen import show
from trainplan.planner.errors import BadInputError, ThisMachineError, TrainingFailedError
from trainplan.planner.planning.build_plan import PlanQuery
from trainplan.planner.planning.own_measurements import MOST_OTHERS
from trainplan.planner.runs.directory.progress import ProgressReader, Story
from trainplan.planner.runs.execution.executor import Detached
from trainplan.planner.runs.proposal.consent import foreign_parts, readers
from trainplan.planner.runs.proposal.make_proposal import make_proposal
from trainplan.planner.runs.receipt.measured_row import Measured, measured_row, row_text
from trainplan.planner.runs.run import Outcome
from trainplan.planner.runs.runner import request_for
from trainplan.planner.throughput.names import finder
from trainplan.pricing.catalog import Catalog, CatalogError
from trainplan.providers import interrupts
from trainplan.providers.hardware import driver_version, this_machine
from trainplan.providers.registry import THIS_MACHINE

if TYPE_CHECKING:
    from trainplan.planner.planning.own_measurements import OwnMeasurement
    from trainplan.planner.runs.proposal.proposal import Proposal
    from trainplan.planner.runs.run import Run
    from trainplan.planner.settings import Settings
    from trainplan.workloads.job import TrainingJob

DEFAULT_STEPS = 40


def command(
    job_file: options.NeededJobFile,
    steps: Annotated[int, typer.Option("--steps", min=5, help="Training steps to measure over")] = DEFAULT_STEPS,
    yes: options.Yes = False,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export", metavar="FILE.csv", help="Also write it as a row that can be handed in, naming nobody"
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Train a few steps, keep the rate as a measurement, leave no model behind."""
    job = read_job_file(job_file, may_ask=not yes)
    _refuse_other_work(job)
    if export is not None:
        _check_export(export, job)
    settings = options.settings()
    proposal = make_proposal(job, PlanQuery(providers=(THIS_MACHINE,)), build.surroundings(settings))
    if not yes:
        _agree(job, proposal)
    with LiveView(sys.stderr, build.clock().now) as view, build.journal(settings) as journal:
        runner = build.runner(journal, settings, view.show, THIS_MACHINE)
        # Without a folder for the model a run counts as one that only measures.
        draft = runner.draft(job, proposal.targets, proposal.slow_end, None)
        run = replace(draft, model_folder="", max_steps=steps)
        request = request_for(job, build.clock(), client=build.client(settings).id)
        runner.prepare(request(run, 1, run.targets[0]))
        runner.record(run, job, proposal.record)
        try:
            with interrupts.noted():
                run, measured = runner.measure(run, request)
        except Detached as left:
            print_left(left.run, as_json)
            return
    if run.outcome is not Outcome.SUCCEEDED:
        finish(run)
    if measured is None:
        raise TrainingFailedError(f"{steps} steps were too few for a steady rate", "--steps takes more")
    if export is not None:
        _export(export, job, run, settings)
    busy = [busy_line(measured)] if measured.others > MOST_OTHERS else []
    if as_json or export is not None:
        sys.stderr.writelines(f"{line}\n" for line in busy)
    if as_json:
        sys.stdout.write(json.dumps(asdict(measured), default=str) + "\n")
        return
    rate = measured.images_per_second
    show([f"{job.name}: {rate:,.1f} images/s on this machine, {measured.framework}; kept as a measurement", *busy])


def _refuse_other_work(job: TrainingJob) -> None:
    """Raises BadInputError for what is not one training of our trainer."""
    if job.script is not None:
        raise BadInputError(f"{job.name} runs a script of your own", "plan pilot --provider local measures it")
    if job.sweep is not None:
        raise BadInputError(
            "plan measure measures one job, and this one has a sweep", "leave out sweep to measure one of its trials"
        )


def busy_line(measured: OwnMeasurement) -> str:
    """Say what other programs had of the machine, and what that makes of the measurement."""
    return (
        f"other programs used {measured.others:.0%} of the CPU meanwhile: this counts until the machine is measured "
        "when idle, and is not fit to be shared"
    )


def _check_export(target: Path, job: TrainingJob) -> None:
    """Before anything is trained: where the row cannot be written, or says nothing of this trainer."""
    if job.container is not None:
        raise BadInputError(
            "--export takes no job with a container: nobody knows what that trains", "leave one of them out"
        )
    if target.exists():
        raise BadInputError(f"{target} is already there", "choose another name")
    if not target.absolute().parent.is_dir():
        raise BadInputError(f"{target}: there is no such folder", "make it, or choose another place")


def _export(target: Path, job: TrainingJob, run: Run, settings: Settings) -> None:
    """Write the row of a run that has been measured. Raises ThisMachineError."""
    store = build.provider(THIS_MACHINE, settings).store(run.run_id)
    lines = list(ProgressReader(store, run.attempts[-1].number).new_lines())
    story = Story()
    for line in lines:
        story.add(line)
    laps = [
        float(line["images_per_second"]) for line in lines if line["event"] == "step" and line.get("images_per_second")
    ]
    measured = Measured(
        story.start or {}, story.images_per_second or 0.0, laps, build.clock().now().date(), driver_version()
    )
    try:
        with Catalog.open() as catalog:
            row = measured_row(job, measured, this_machine(), finder(catalog.devices))
        write_new(row_text(row), target)
    except CatalogError as error:
        raise ThisMachineError(str(error), error.hint) from None
    except OSError as error:
        raise ThisMachineError(f"cannot write {target}: {error.strerror}", "the measurement itself is kept") from None
    sys.stderr.write(f"wrote {target}; CONTRIBUTING.md describes how to hand it in\n")


def _agree(job: TrainingJob, proposal: Proposal) -> None:
    """A job of known parts is measured without a question; a stranger's image runs here once somebody agrees."""
    foreign = [*foreign_parts(job), *readers(job, proposal.offers)]
    for line in foreign:
        sys.stderr.write(f"{line}\n")
    if foreign:
        question = "measure with the image, data and secrets above, on this machine?"
        confirm(question, default=False, hint="--yes measures without asking", left_alone="nothing was started")
