"""`plan init`: write a job file to start from."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from planner.cli import job_options, options
from planner.errors import BadInputError, ThisMachineError
from planner.home.files import persons_files

_FILE = """\
# yaml-language-server: $schema={schema}
name: {name}
model: {{preset: {model}}}      # or {{layers: [64, 64, M, 128, M], batch_norm: true, dense: [256]}}
data: {{name: {data}}}          # or {{path: ./images}}, with model.image_size and model.classes
epochs: {epochs}
global_batch_size: {batch}      # split evenly over the devices
accumulate: 1                   # parts of each batch, trained one after another where it does not fit at once
precision: fp32                 # fp32 | tf32 | amp_fp16 | amp_bf16
xla: false
# framework: tensorflow         # tensorflow | jax | torch; left out: tensorflow, and jax on a TPU
optimizer: {{name: sgd, learning_rate: 0.01, momentum: 0.9, weight_decay: 0.0005}}
seed: 0
checkpoint_every: 10m
# constraints: {{deadline: 8h, budget_usd: 20}}
objective: cost                 # cost | time | balanced
"""


def command(
    target: Annotated[Path, typer.Argument(metavar="[JOB.yaml]", help="Where to write it")] = Path("job.yaml"),
    model: job_options.Model = "vgg16",
    dataset: job_options.Dataset = "cifar10",
    epochs: job_options.Epochs = job_options.DEFAULT_EPOCHS,
    batch: job_options.Batch = job_options.DEFAULT_BATCH,
    recipe: Annotated[
        str, typer.Option(metavar="NAME", help="Write a recipe with a reported accuracy instead: vgg16-imagenet")
    ] = "",
    as_json: options.Json = False,
) -> None:
    """Write the file; never over another."""
    if recipe:
        answers = (model, dataset, epochs, batch)
        if answers != ("vgg16", "cifar10", job_options.DEFAULT_EPOCHS, job_options.DEFAULT_BATCH):
            raise BadInputError("a recipe has a model, data, epochs and a batch", "leave these out beside --recipe")
        _write(target, _recipe(recipe), as_json=as_json)
        return
    job = job_options.job_from_options({"model": model, "dataset": dataset, "epochs": epochs, "batch": batch})
    text = _FILE.format(
        schema=_schema(), name=job.name, model=model, data=dataset, epochs=job.epochs, batch=job.global_batch_size
    )
    _write(target, text, as_json=as_json)


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
        # The person's own umask: the file lies outside the home, which alone is private.
        with persons_files(), target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise BadInputError(f"{target} is already there", "choose another name") from None
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
    import workloads

    return Path(workloads.__file__).parent / "data"
