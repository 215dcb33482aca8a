"""`plan init`: write a job file to start from."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainplan.planner.cli import completion, job_options, options
from trainplan.planner.cli.output_file import write_new, write_over
from trainplan.planner.errors import BadInputError, ThisMachineError

if TYPE_CHECKING:
    from trainplan.workloads.job import TrainingJob
    from trainplan.workloads.values import Value

_FILE = """\
# yaml-language-server: $schema={schema}
{looked_at}name: {name}
model: {{{model}}}{or_layers}
data: {{{data}}}
epochs: {epochs}
global_batch_size: {batch}      # split evenly over the devices
accumulate: 1                   # parts of each batch, trained one after another where it does not fit at once
precision: fp32                 # fp32 | tf32 | amp_fp16 | amp_bf16
xla: false
# framework: tensorflow         # tensorflow | jax | torch; left out: tensorflow, and jax on a TPU
optimizer: {optimizer}
{of_folder}seed: 0
checkpoint_every: 10m
# constraints: {{deadline: 8h, budget_usd: 20}}
objective: cost                 # cost | time | balanced
"""
_OR_LAYERS = "      # or {layers: [64, 64, M, 128, M], batch_norm: true, dense: [256]}"
_OPTIMIZER = "{name: sgd, learning_rate: 0.01, momentum: 0.9, weight_decay: 0.0005}"
_OF_FOLDER = """\
augment: {augment}   # flip: true mirrors images, where left and right do not matter
validation: {validation}   # after each epoch; the best model is kept
"""
_PLAIN = re.compile(r"[\w./][\w./-]*")
"""A path that YAML reads as text without quotes."""


def command(
    target: Annotated[Path, typer.Argument(metavar="JOB.yaml", help="Where to write it")] = Path("job.yaml"),
    data: job_options.DataFolder = None,
    model: job_options.Model = None,
    dataset: job_options.Dataset = None,
    image_size: job_options.ImageSize = None,
    epochs: job_options.Epochs = None,
    batch: job_options.Batch = None,
    recipe: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Write a recipe with a reported accuracy instead: vgg16-imagenet",
            autocompletion=completion.recipes,
        ),
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists")] = False,
    as_json: options.Json = False,
) -> None:
    """Write the file; over another only with --force."""
    if target.is_dir():
        todo = f"plan init job.yaml --data {shlex.quote(str(target))} writes a job for a folder of images"
        raise BadInputError(f"{target} is a folder; name the file to write", todo)
    if data is not None and not force and os.path.lexists(target):  # before a folder is looked at, which takes seconds
        raise _is_there(target)
    values = {"model": model, "dataset": dataset, "image_size": image_size, "epochs": epochs, "batch": batch}
    if recipe:
        if data is not None or any(value is not None for value in values.values()):
            raise BadInputError("a recipe has a model, data, epochs and a batch", "leave these out beside --recipe")
        _write(target, _recipe(recipe), force=force, as_json=as_json)
        return
    if dataset is not None and os.path.isdir(dataset):  # noqa: PTH112  # Path.is_dir raises for a name that is too long
        raise BadInputError(f"--dataset: {dataset} is a folder", f"--data {shlex.quote(dataset)} trains on its images")
    values["model"] = model or ("vgg16" if data is None else None)
    values["dataset"] = dataset or (None if data is not None else "cifar10")
    job = job_options.job_from_options(values, data)
    if job.model.file is not None and not job.model.file.is_file():
        raise BadInputError(f"--model: there is no file {job.model.file}", "FILE.py:FUNCTION, FILE.onnx, or a preset")
    _write(target, _text(job, target), force=force, as_json=as_json)


def _text(job: TrainingJob, target: Path) -> str:
    """The job as a file in the place of `target`, with every key that people change."""
    model, data = [*_network(job, target)], [f"name: {job.data.name}"]
    looked_at = of_folder = ""
    optimizer = _OPTIMIZER
    if job.model.image_size is not None:
        model += [f"image_size: {job.model.image_size}"]
    if job.data.path is not None:
        model += [f"classes: {job.classes}"]
        data = [f"path: {_path_from(target, job.data.path)}", f"channels: {job.channels}"]
        data += [f"first_label: {job.data.first_label}"] if job.data.first_label else []
        looked_at = "# image_size, classes and channels are those of the images at data.path\n"
        optimizer = _flow({"name": str(job.optimizer.name), **_changed(job.optimizer)})
        of_folder = _OF_FOLDER.format(augment=_flow(_changed(job.augment)), validation=_flow(_changed(job.validation)))
    return _FILE.format(
        schema=_schema(),
        looked_at=looked_at,
        name=job.name,
        model=", ".join(model),
        data=", ".join(data),
        epochs=job.epochs,
        batch=job.global_batch_size,
        optimizer=optimizer,
        or_layers=_OR_LAYERS if job.data.path is None else "",
        of_folder=of_folder,
    )


def _network(job: TrainingJob, target: Path) -> list[str]:
    """The keys of the net and their values: a file as the job file names it."""
    if job.model.python is not None:
        return [f"python: {_path_from(target, job.model.python)}"]
    if job.model.onnx is not None:
        return [f"onnx: {_path_from(target, job.model.onnx)}"]
    kept = {key: value for key, value in _changed(job.model).items() if key not in ("image_size", "classes")}
    return [f"{key}: {_flow(value)}" for key, value in kept.items()]


def _changed(part: Value) -> dict[str, Any]:
    """The keys of a part of a job that are not their defaults."""
    return part.model_dump(mode="json", exclude_defaults=True)


def _flow(value: object) -> str:
    """A value as YAML in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _path_from(target: Path, folder: str) -> str:
    """The folder as the job file names it: from its own place, in quotes where YAML needs them."""
    try:
        path = os.path.relpath(folder, target.resolve().parent)
    except ValueError:  # on another drive
        path = folder
    path = path if path.startswith("..") or Path(path).is_absolute() else f"./{path}"
    return path if _PLAIN.fullmatch(path) else json.dumps(path, ensure_ascii=False)


def _is_there(target: Path) -> BadInputError:
    return BadInputError(f"{target} already exists", "choose another name, or --force replaces it")


def _recipe(name: str) -> str:
    """The text of a shipped recipe, linked to the installed schema."""
    folder = _data() / "recipes"
    names = sorted(path.stem for path in folder.glob("*.yaml"))
    if name not in names:
        raise BadInputError(f"there is no recipe {name!r}", f"known: {', '.join(names)}")
    _, rest = (folder / f"{name}.yaml").read_text(encoding="utf-8").split("\n", 1)
    return f"# yaml-language-server: $schema={_schema()}\n{rest}"


def _write(target: Path, text: str, *, force: bool, as_json: bool) -> None:
    try:
        write_over(text, target) if force else write_new(text, target)
    except FileExistsError:
        raise _is_there(target) from None
    except OSError as error:
        raise ThisMachineError(f"cannot write {target}: {error.strerror}", "choose another place") from None
    after = f"plan estimate {shlex.quote(str(target))}"
    done = json.dumps({"file": str(target), "next": after}) if as_json else f"wrote {target}; next: {after}"
    sys.stdout.write(f"{done}\n")


def _schema() -> str:
    """Where an editor finds the job schema: the file that was installed with this command."""
    return (_data() / "job.schema.json").as_uri()


def _data() -> Path:
    """The data of what is trained, as it was installed with this command."""
    from trainplan import workloads

    return Path(workloads.__file__).parent / "data"
