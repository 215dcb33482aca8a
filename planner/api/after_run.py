"""What a job asks for once its run has ended, `export` and `track`: done on this computer, when nothing bills any more.

A run is what it is, whatever becomes of this: what fails is told with the command that tries it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainplan.planner.api.told import tell
from trainplan.planner.errors import PlanError
from trainplan.planner.extensions import tracker
from trainplan.planner.runs.journal.reader import recorded_job
from trainplan.planner.runs.run import Outcome
from trainplan.workloads.wording import Command, Option

if TYPE_CHECKING:
    from pathlib import Path

    from trainplan.planner.runs.journal.journal import Journal
    from trainplan.planner.runs.receipt.receipt import Receipt
    from trainplan.planner.runs.run import Run
    from trainplan.planner.settings import Settings
    from trainplan.workloads.job import TrainingJob


def after_run(run: Run, receipt: Receipt, journal: Journal, settings: Settings, images: Path | None = None) -> None:
    """Export and track a run that has ended, as its job says. `images`: where they are, if the job says an address."""
    try:
        job = recorded_job(journal, run.run_id)
    except PlanError as error:
        _tell(error)
        return
    if job.export and run.outcome is Outcome.SUCCEEDED and not receipt.simulated:
        _export(run, job, settings, images)
    for name in job.track:
        _track(job, receipt, name)


def _export(run: Run, job: TrainingJob, settings: Settings, images: Path | None) -> None:
    from trainplan.planner.api.exports import ExportChoice, export_run
    from trainplan.planner.runs.exports import IMAGES

    choice = ExportChoice(formats=job.export, data=images, images=IMAGES)
    try:
        failed = [export.format for export in export_run(run, job, choice, settings) if export.error]
    except PlanError as error:
        _tell(error)
        failed = [*job.export]
    if failed:
        tell(f"{Command('convert', run.run_id, Option.TO(','.join(failed)))} tries again")


def _track(job: TrainingJob, receipt: Receipt, name: str) -> None:
    try:
        where = tracker(name)(name, job, receipt)
    except PlanError as error:
        _tell(error)
        return
    tell(f"{name}: {where}")


def _tell(error: PlanError) -> None:
    tell(f"{error.message}{f'; {error.hint}' if error.hint else ''}")
