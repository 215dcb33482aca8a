"""`plan init`: write a job file to start from."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainplan.planner.cli import completion, job_options, options
from trainplan.planner.cli.output_file import write_new
from trainplan.planner.errors import BadInputError, ThisMachineError

if TYPE_CHECKING:
    from trainplan.workloads.job import TrainingJob

_FILE = """\
# yaml-language-server: $schema={schema}
{looked_at}name: {name}
model: {{{model}}}      # or {{layers: [64, 64, M, 128, M], batch_norm: true, dense: [256]}}
data: {{{data}}}
epochs: {epochs}
global_batch_size: {batch}      # split evenly over the devices
accumulate: 1                   # parts of each batch, trained one after another where it does not fit at once
precision: fp32                 # fp32 | tf32 | amp_fp16 | amp_bf16
xla: false
# framework: tensorflow         # tensorflow | jax | torch; left out: tensorflow, and jax on a TPU
optimizer: {{name: sgd, learning_rate: 0.01, momentum: 0.9, weight_decay: 0.0005}}
{validation}seed: 0
checkpoint_every: 10m
# constraints: {{deadline: 8h, budget_usd: 20}}
objective: cost                 # cost | time | balanced
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
    as_json: options.Json = False,
) -> None:
    """Write the file; never over another."""
    if data is not None and os.path.lexists(target):  # before a folder is looked at, which takes seconds
        raise _is_there(target)
    values = {"model": model, "dataset": dataset, "image_size": image_size, "epochs": epochs, "batch": batch}
    if recipe:
        if data is not None or any(value is not None for value in values.values()):
            raise BadInputError("a recipe has a model, data, epochs and a batch", "leave these out beside --recipe")
        _write(target, _recipe(recipe), as_json=as_json)
        return
    if dataset is not None and os.path.isdir(dataset):  # noqa: PTH112  # Path.is_dir raises for a name that is too long
        raise BadInputError(f"--dataset: {dataset} is a folder", f"--data {shlex.quote(dataset)} trains on its images")
    values["model"] = model or "vgg16"
    values["dataset"] = dataset or (None if data is not None else "cifar10")
    job = job_options.job_from_options(values, data)
    _write(target, _text(job, target), as_json=as_json)


def _text(job: TrainingJob, target: Path) -> str:
    """The job as a file in the place of `target`, with every key that people change."""
    model, data = [_network(job, target)], [f"name: {job.data.name}"]
    looked_at = validation = ""
    if job.model.image_size is not None:
        model += [f"image_size: {job.model.image_size}"]
    if job.data.path is not None:
        model += [f"classes: {job.classes}"]
        data = [f"path: {_path_from(target, job.data.path)}", f"channels: {job.channels}"]
        data += [f"first_label: {job.data.first_label}"] if job.data.first_label else []
        looked_at = "# image_size, classes and channels are those of the images at data.path\n"
        validation = "validation: {every_epochs: 1}   # tests on the held-out images after each epoch\n"
    return _FILE.format(
        schema=_schema(),
        looked_at=looked_at,
        name=job.name,
        model=", ".join(model),
        data=", ".join(data),
        epochs=job.epochs,
        batch=job.global_batch_size,
        validation=validation,
    )


def _network(job: TrainingJob, target: Path) -> str:
    """The key of the net and its value: a file as the job file names it."""
    if job.model.python is not None:
        return f"python: {_path_from(target, job.model.python)}"
    if job.model.onnx is not None:
        return f"onnx: {_path_from(target, job.model.onnx)}"
    return f"preset: {job.model.preset}"


def _path_from(target: Path, folder: str) -> str:
    """The folder as the job file names it: from its own place, in quotes where YAML needs them."""
    try:
        path = os.path.relpath(folder, target.resolve().parent)
    except ValueError:  # on another drive
        path = folder
    path = path if path.startswith("..") or Path(path).is_absolute() else f"./{path}"
    return path if _PLAIN.fullmatch(path) else json.dumps(path, ensure_ascii=False)


def _is_there(target: Path) -> BadInputError:
    return BadInputError(f"{target} is already there", "choose another name")


def _recipe(name: str) -> str:
    """The text of a shipped recipe, linked to the installed schema."""
    folder = _data() / "recipes"
    names = sorted(path.stem for path in folder.glob("*.yaml"))
    if name not in names:
        raise BadInputError(f"there is no recipe {name!r}", f"known: {', '.join(names)}")
    _, rest = (folder / f"{name}.yaml").read_text(encoding="utf-8").split("\n", 1)
    return f"# yaml-language-server: $schema={_schema()}\n{rest}"


def _write(target: Path, text: str, *, as_json: bool) -> None:
    try:
        write_new(text, target)
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
