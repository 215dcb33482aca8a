"""The options that stand for keys of a job file: on top of a file, or of the defaults where there is none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from trainplan.planner.api.job_files import read_job_file
from trainplan.planner.api.names import one_of
from trainplan.planner.api.own_network import with_network
from trainplan.planner.cli import completion
from trainplan.planner.errors import BadInputError
from trainplan.workloads.terms import MAX_IMAGE_SIZE_PX, DataName, Framework, Precision, Preset, own_name

if TYPE_CHECKING:
    from trainplan.planner.report.page import Page
    from trainplan.workloads.job import TrainingJob
    from trainplan.workloads.job_changes import Difference
    from trainplan.workloads.key_changes import Change

DEFAULT_EPOCHS = 90
DEFAULT_BATCH = 128
SMALL, SMALL_TEXT = "cnn", "a small network"
"""What the network of a folder without --model is called: in the name of its job, and in messages."""

Model = Annotated[
    str | None,
    typer.Option(
        "--model", help=f"The net: FILE.py:FUNCTION, FILE.onnx, {', '.join(Preset)}", autocompletion=completion.presets
    ),
]
Dataset = Annotated[
    str | None, typer.Option("--dataset", help=f"The data: {', '.join(DataName)}", autocompletion=completion.data_sets)
]
DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="FOLDER",
        help="Folder of images, one sub-folder per class; sizes, classes and a fitting network are read from it",
    ),
]
Epochs = Annotated[int | None, typer.Option("--epochs", min=1, help="Times that each training image is used")]
Batch = Annotated[int | None, typer.Option("--batch", min=1, help="Global batch size")]
PrecisionName = Annotated[
    str | None, typer.Option("--precision", help=", ".join(Precision), autocompletion=completion.precisions)
]
ImageSize = Annotated[
    int | None, typer.Option("--image-size", min=1, max=MAX_IMAGE_SIZE_PX, help="Pixels a side that the net sees")
]
FrameworkName = Annotated[
    str | None, typer.Option("--framework", help=", ".join(Framework), autocompletion=completion.frameworks)
]
Xla = Annotated[bool | None, typer.Option("--xla/--no-xla", help="Compile the step with XLA, or not")]

Compare = Annotated[
    list[str] | None,
    typer.Option(
        "--compare",
        metavar="B.yaml|KEY=VALUE",
        help="Show a second job beside this one: another file, or this job with a key changed; repeat for more keys",
    ),
]

OF_A_JOB: dict[str, tuple[str, ...]] = {
    "model": ("model", "preset"),
    "dataset": ("data", "name"),
    "epochs": ("epochs",),
    "batch": ("global_batch_size",),
    "precision": ("precision",),
    "image_size": ("model", "image_size"),
    "framework": ("framework",),
    "xla": ("xla",),
}
"""The options that say a job, and where the value of each stands in a job file."""
NETWORKS = tuple(("model", key) for key in ("preset", "python", "onnx"))
_ENUMS = {"model": Preset, "dataset": DataName, "precision": Precision, "framework": Framework}


class AskedJob(NamedTuple):
    """The job that a command is about: what names it in messages, and the keys in which options changed its file."""

    job: TrainingJob
    source: str
    differences: tuple[Difference, ...] = ()

    @property
    def page(self) -> Page:
        """`changed from job.yaml: epochs 3 -> 5`; empty where nothing is changed."""
        if not self.differences:
            return []
        from trainplan.workloads.job_changes import differences_text

        return [f"changed from {self.source}: {differences_text(self.differences)}"]


def job_of(
    job_file: Path | None, values: Mapping[str, object], folder: Path | None = None, *, run_file: bool = False
) -> AskedJob:
    """The job in the file, or that of the defaults, with the options of `OF_A_JOB` by name (None: not given), on the
    images of `folder`. `run_file`: the person has agreed that a Python file of its network runs.

    Raises BadInputError.
    """
    _refuse_two_sets(values, folder)
    if job_file is None:
        job = job_from_options(values, folder)
        source = f"{values['model'] or SMALL_TEXT} on {values['dataset'] or folder}"
        return AskedJob(with_network(job, agreed=run_file), source)
    # The file by itself first: its own mistakes are told with their lines.
    job = read_job_file(job_file, run_file=run_file)
    changes = (*_of_folder(folder, values, job), *changes_of(values))
    if not changes:
        return AskedJob(job, str(job_file))
    from trainplan.workloads.job_changes import changed_job, differences
    from trainplan.workloads.jobfile import JobFileError

    try:
        changed = changed_job(job, changes, str(job_file))
    except JobFileError as error:
        raise BadInputError(error.message, error.hint) from None
    return AskedJob(with_network(changed, agreed=run_file), str(job_file), differences(job, changed))


def _refuse_two_sets(values: Mapping[str, object], folder: Path | None) -> None:
    if folder is not None and values.get("dataset") is not None:
        raise BadInputError("--data and --dataset name two sets of images", "give one of the two")


def job_from_options(values: Mapping[str, object], folder: Path | None = None) -> TrainingJob:
    """A job without a file, from its options by name (None: not given), on a data set or the images of a folder.

    Raises BadInputError naming the option.
    """
    _refuse_two_sets(values, folder)
    model, dataset = values.get("model"), values.get("dataset")
    if folder is None and (model is None or dataset is None):
        raise BadInputError(
            "give a job file, --data FOLDER (your own images), or --model and --dataset",
            "plan estimate --data ./flowers, or --model vgg16 --dataset cifar10",
        )
    own = changes_of(values)
    net = SMALL if model is None else _named(str(model))
    if folder is None:
        name = f"{net}-{_canonical('dataset', dataset)}".replace("_", "-")
    else:
        from trainplan.planner.cli.own_folder import name_of

        name = name_of(net, folder)
        dataset = folder
    least: dict[str, Any] = {"name": name, "epochs": DEFAULT_EPOCHS, "global_batch_size": DEFAULT_BATCH}
    changes = (*_of_folder(folder, values), *own)
    from trainplan.workloads.job_mistakes import JobFileError, validated_job
    from trainplan.workloads.key_changes import with_changes

    named = (*NETWORKS, OF_A_JOB["dataset"])
    more = [one.text for one in own if one.where not in named and least.get(one.where[0]) != one.value]
    source = " ".join((f"{model or SMALL_TEXT} on {dataset}", *(("with", *more) if more else ())))
    try:
        return validated_job(with_changes(dict(least), changes), source)
    except JobFileError as error:
        too_small = "another net, or --image-size (model.image_size in a job file)"
        raise BadInputError(error.message, too_small if "model.image_size" in error.message else error.hint) from None


def changes_of(values: Mapping[str, object]) -> tuple[Change, ...]:
    """The options that are given, by name, as changes of a job. Raises BadInputError for a name that nothing has."""
    given = {name: value for name, value in values.items() if value is not None}
    for name, kind in _ENUMS.items():
        if name in given and not (name == "model" and _file_key(str(given[name]))):
            one_of(_option(name), str(given[name]), list(kind))
    from trainplan.workloads.key_changes import Change

    return tuple(Change(*_kept(name, value), _typed(name, value)) for name, value in given.items())


def _kept(name: str, value: object) -> tuple[tuple[str, ...], object]:
    """Where in a job the value of an option stands, and what stands there: the whole path of a file."""
    where = _file_key(str(value)) if name == "model" else None
    return (OF_A_JOB[name], value) if where is None else (where, str(Path(str(value)).expanduser().absolute()))


def _file_key(model: str) -> tuple[str, ...] | None:
    """Where in a job a file of `--model` stands; None for the name of a net."""
    if model.endswith(".onnx"):
        return ("model", "onnx")
    file, _, function = model.rpartition(":")
    return ("model", "python") if file.endswith(".py") and function.isidentifier() else None


def _named(model: str) -> str:
    """What a job with this net is called: one of a file by its own name, in the letters that the name of a job has."""
    if _file_key(model) is None:
        return _canonical("model", model)
    return re.sub(r"[^a-z0-9]+", "-", own_name(model).lower()).strip("-") or "net"


def _of_folder(folder: Path | None, values: Mapping[str, object], job: TrainingJob | None = None) -> tuple[Change, ...]:
    """What the folder of `--data` says, as changes; of a job file the net and the batch stay."""
    if folder is None:
        return ()
    from trainplan.planner.cli.own_folder import job_of_folder

    named = values.get("model") or (None if job is None else job.model.preset or "")
    # Of the network of a file, or of a job file's layers, the sizes are not known here.
    preset = None if named is None else "" if _file_key(str(named)) else str(named)
    if preset:  # capitals and dashes do not matter
        with suppress(ValueError):  # the job's own check says that there is no such network
            preset = str(Preset(preset))
    size, batch = values.get("image_size"), values.get("batch")
    looked_at = job_of_folder(
        folder,
        preset,
        image_size=int(str(size)) if size else job.model.image_size if job is not None else None,
        batch=int(str(batch)) if batch else job.global_batch_size if job is not None else None,
        with_defaults=job is None,
    )
    return looked_at.changes(f"--data {folder}")


def _canonical(name: str, value: object) -> str:
    """A word as a job file has it: VGG16 is vgg16."""
    return str(_ENUMS[name](str(value)))


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _typed(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return f"--{'' if value else 'no-'}{name}"
    return f"{_option(name)} {value}"
