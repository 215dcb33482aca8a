"""`plan export`: a job as the files that Slurm's sbatch, SkyPilot or JobSet run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from planner.cli import completion, options
from planner.errors import BadInputError, ThisMachineError
from planner.export.engine_files import Accelerators, Engine, EngineFiles, engine_files
from pricing.catalog import find_device
from pricing.devices import Architecture, UnknownDeviceError


def command(
    job_file: options.NeededJobFile,
    to: Annotated[Engine, typer.Option("--to", help="Who runs the job")],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where the files are written")],
    device: Annotated[
        str | None,
        typer.Option("--device", help="The accelerator; without: processors", autocompletion=completion.devices),
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, help="Accelerators of each machine")] = 1,
    image: Annotated[str | None, typer.Option("--image", help="A container image, where the job names none")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there")] = False,
    as_json: options.Json = False,
) -> None:
    """Write the files, and print the command that starts the job. Deadline, teardown and bill are the engine's then."""
    job = options.read_job_file(job_file)
    accelerators = None if device is None else Accelerators(device=_device(device), count=count)
    folder = out.absolute()
    export = engine_files(job, to, folder.as_posix(), accelerators, image)
    _write(export, folder, force=force)
    promises = f"deadline, teardown and bill are those of {to}, not of plan (docs/several-machines.md)"
    notes = [*export.notes, promises]
    result = {"engine": to, "folder": str(folder), "files": sorted(export.files), "command": export.command}
    sys.stdout.write((json.dumps({**result, "notes": notes}) if as_json else export.command) + "\n")
    for note in notes:
        sys.stderr.write(f"{note}\n")


def _device(spelling: str) -> str:
    try:
        device = find_device(spelling)
    except UnknownDeviceError as error:
        raise BadInputError(str(error), error.hint) from None
    if device.architecture is Architecture.TPU:
        raise BadInputError(f"{device.name} is not exported", "name a GPU; plan launch --device TPU rents a TPU")
    return device.name


def _write(export: EngineFiles, folder: Path, *, force: bool) -> None:
    there = [name for name in export.files if (folder / name).exists()]
    if there and not force:
        raise BadInputError(f"{folder / there[0]} is there already", "give another folder, or --force to overwrite it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in export.files.items():
            (folder / name).write_bytes(data)
    except OSError as error:
        raise ThisMachineError(f"{folder}: {error.strerror or error}", "give another folder with --out") from None
