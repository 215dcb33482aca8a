"""What `plan convert` and the end of a run share: the exports of a run's model, and which images it is checked on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.planner.api import build
from trainplan.planner.api.data_steps import refuse_among_images
from trainplan.planner.api.told import tell
from trainplan.planner.errors import BadInputError
from trainplan.planner.runs.exports import FOLDER, Export, ExportQuery, doubt, export_model
from trainplan.planner.runs.journal.reader import recorded_job
from trainplan.planner.runs.predictions import kept_model
from trainplan.planner.runs.sweep_table import best_trial
from trainplan.providers.hardware import this_machine
from trainplan.workloads.terms import ExportFormat
from trainplan.workloads.wording import Command, Option

if TYPE_CHECKING:
    from trainplan.planner.runs.run import Run
    from trainplan.planner.settings import Settings
    from trainplan.workloads.job import TrainingJob

MOST_LOSS_POINTS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportChoice:
    """What a person asks for. `data` has the images where they are not where the job has them; `out` None: beside the
    model. `loss_points` of top-1 are allowed."""

    formats: tuple[ExportFormat, ...]
    data: Path | None = None
    out: Path | None = None
    images: int
    loss_points: float = MOST_LOSS_POINTS


def export_run(run: Run, job: TrainingJob, choice: ExportChoice, settings: Settings) -> list[Export]:
    """Export the model of a run. Raises BadInputError where there is none, or its images are elsewhere."""
    if not run.model_folder:
        raise BadInputError(
            f"run {run.run_id} measured this machine, and leaves no model", f"{Command('history')} lists runs"
        )
    if choice.data is None:
        _refuse_far_images(job, run.run_id)
    best = best_trial(Path(run.model_folder), job)  # its images may have another size than the job says
    return _exported(_query(Path(run.model_folder), choice, settings, job if best is None else best.job))


def export_named(name: str, choice: ExportChoice, settings: Settings) -> list[Export]:
    """The same of a run by its name, or of a folder with a model. Raises BadInputError."""
    if (Path(name) / "model.keras").is_file():
        if choice.data is None:
            raise BadInputError(
                f"no record has the images that the model in {name} was tested on",
                f"{Option.DATA('FOLDER')} names them",
            )
        return _exported(_query(Path(name), choice, settings, None))
    with build.journal(settings) as journal:
        run = journal.run(name)
        job = recorded_job(journal, run.run_id)
    return export_run(run, job, choice, settings)


def _exported(query: ExportQuery) -> list[Export]:
    exports = export_model(query, _tell)
    for text in dict.fromkeys(doubt(query.model, export) for export in exports):
        if text:
            tell(text)
    return exports


def _query(folder: Path, choice: ExportChoice, settings: Settings, job: TrainingJob | None) -> ExportQuery:
    if choice.data is not None and not choice.data.is_dir():
        raise BadInputError(
            f"there is no folder {choice.data}", f"{Option.DATA} names the images that the run trained on"
        )
    images = choice.data if choice.data is not None or job is None else job.data.path
    if choice.out is not None:
        refuse_among_images(choice.out, images, Option.OUT)
    return ExportQuery(
        model=kept_model(folder),
        formats=choice.formats,
        to=choice.out or folder / FOLDER,
        job="" if job is None else job.to_json(),
        data=choice.data,
        first_label=0 if job is None else job.data.first_label,
        data_dir=settings.home / "datasets",
        images=choice.images,
        allowed_loss=choice.loss_points / 100,
        processor=this_machine().cpu_name,
    )


def _refuse_far_images(job: TrainingJob, run_id: str) -> None:
    """The images are only read here: nothing is fetched from an address that may bill for it."""
    hint = (
        f"{Option.DATA('FOLDER')} names the folder that they came from; some of its images are held out as the run did"
    )
    if job.data.url is not None:
        raise BadInputError(f"the images of run {run_id} are not on this computer, but where the job has them", hint)
    if job.data.path is not None and not Path(job.data.path).is_dir():
        raise BadInputError(f"the images of run {run_id} are no longer in {job.data.path}", hint)


def _tell(export: Export) -> None:
    text = f"not kept: {export.error}" if export.error else f"written to {export.folder}"
    tell(f"{export.format}: {text}")
