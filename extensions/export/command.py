"""`plan export`: a job as the files that another engine or place runs."""

from __future__ import annotations

import json
import os
import platform
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainplan.extensions.export.engine_files import Accelerators, Engine, Place, engine_files
from trainplan.extensions.export.export_files import ExportFiles, write_export
from trainplan.extensions.export.time_limit import most_minutes
from trainplan.planner.api.data_steps import refuse_among_images
from trainplan.planner.api.job_files import read_job_file
from trainplan.planner.cli import completion, options
from trainplan.planner.errors import BadInputError
from trainplan.planner.settings import load_settings
from trainplan.pricing.catalog import find_device
from trainplan.pricing.devices import Architecture, UnknownDeviceError
from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from trainplan.workloads.job import TrainingJob


class Where(StrEnum):
    """Who runs the job: an engine on machines of the person's own, or a place that has machines."""

    SBATCH = "sbatch"
    SKYPILOT = "skypilot"
    JOBSET = "jobset"
    COLAB = "colab"
    KAGGLE = "kaggle"
    HF = "hf"
    IBM = "ibm"


def command(
    job_file: options.NeededJobFile,
    to: Annotated[Where, typer.Option("--to", help="Who runs the job")],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where the files are written")],
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            help="The accelerator; without: processors (sbatch, skypilot, jobset), what takes the fewest sessions "
            "(colab, kaggle), or the cheapest GPU there",
            autocompletion=completion.devices,
        ),
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, help="Accelerators of each machine")] = 1,
    image: Annotated[str | None, typer.Option("--image", help="A container image, where the job names none")] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="NAME", help="Your name there (kaggle, hf)")] = None,
    drive: Annotated[
        str | None, typer.Option("--drive", metavar="FOLDER", help="Where the folder will be in Google Drive (colab)")
    ] = None,
    address: Annotated[
        str | None, typer.Option("--address", metavar="https://...", help="Where you put the files (ibm)")
    ] = None,
    weeks: Annotated[
        int, typer.Option("--weeks", min=1, help="Over how many weeks the sessions may be spread (colab, kaggle)")
    ] = 1,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there")] = False,
    as_json: options.Json = False,
) -> None:
    """Write the job as files that somebody else runs, and print the commands that start it there. Nothing is sent.

    Deadline, teardown and bill are theirs then. The model of a finished run in another format is plan convert, or
    export: in the job file.
    """
    job = read_job_file(job_file)
    folder = out.absolute()
    refuse_among_images(folder, job.data.path, Option.OUT)
    if to.value in {engine.value for engine in Engine}:
        export = _for_engine(job, Engine(to), folder, device, count, image)
    else:
        from trainplan.extensions.export.place_command import PlaceOptions, for_place

        typed = PlaceOptions(device=device, user=user, drive=drive, address=address, weeks=weeks)
        export = for_place(job, to, folder, typed)
    files = write_export(export, folder, force=force, report=lambda _: None)
    if as_json:
        where = {"to": to, "folder": str(folder), "files": files}
        what = {"commands": export.commands, "sessions": export.sessions, "notes": export.notes}
        sys.stdout.write(json.dumps({**where, **what}) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in export.commands)
    sys.stderr.writelines(f"{note}\n" for note in export.notes)


_ENDS = {
    Engine.SBATCH: "Slurm, not plan, ends this job; plan history does not list it",
    Engine.SKYPILOT: "SkyPilot, not plan, ends the machines of this job; you must delete its bucket",
    Engine.JOBSET: "JobSet, not plan, ends this job; you must delete its pods and volume",
}
"""Who ends the job, and what is left to the person."""


def _for_engine(
    job: TrainingJob, engine: Engine, folder: Path, device: str | None, count: int, image: str | None
) -> ExportFiles:
    accelerators = None if device is None else Accelerators(device=_device(device), count=count)
    minutes = most_minutes(job, accelerators, load_settings(os.environ)) if engine is Engine.SBATCH else None
    place = Place(folder=folder.as_posix(), host=platform.node(), image=image, minutes=minutes)
    made = engine_files(job, engine, place, accelerators)
    promises = f"{_ENDS[engine]} (docs/several-machines.md)"
    return ExportFiles(files=made.files, commands=(made.command,), notes=(*made.notes, promises))


def _device(spelling: str) -> str:
    try:
        device = find_device(spelling)
    except UnknownDeviceError as error:
        raise BadInputError(str(error), error.hint) from None
    if device.architecture is Architecture.TPU:
        raise BadInputError(f"{device.name} is not exported", "name a GPU; plan launch --device TPU rents a TPU")
    return device.name
