"""The options that several commands share, as typer reads them, and the job and the limits that they add up to.

What reads a job is imported when one is read: most commands read none.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.errors import BadInputError
from planner.settings import Settings, load_settings
from workloads import terms
from workloads.durations import parse_duration
from workloads.nearest import nearest_names
from workloads.terms import MAX_NODES, MAX_USD, DataName, Preset

if TYPE_CHECKING:
    from workloads.job import TrainingJob

DEFAULT_EPOCHS = 90
DEFAULT_BATCH = 128

JobFile = Annotated[Path | None, typer.Argument(metavar="[JOB.yaml]", help="A job file; plan init writes one")]
NeededJobFile = Annotated[Path, typer.Argument(metavar="JOB.yaml", help="A job file; plan init writes one")]
Model = Annotated[str | None, typer.Option("--model", help=f"Without a job file: {', '.join(Preset)}")]
Dataset = Annotated[str | None, typer.Option("--dataset", help=f"Without a job file: {', '.join(DataName)}")]
Epochs = Annotated[int | None, typer.Option("--epochs", min=1, help="Times that each training image is used")]
Batch = Annotated[int | None, typer.Option("--batch", min=1, help="Global batch size")]
Providers = Annotated[list[str] | None, typer.Option("--provider", help="Only this one; repeat for more")]
Regions = Annotated[list[str] | None, typer.Option("--region", help="Only this one; repeat for more")]
Devices = Annotated[list[str] | None, typer.Option("--device", help="Only this (T4, A100, cpu); repeat for more")]
Markets = Annotated[list[str] | None, typer.Option("--market", help="on_demand or spot")]
AssumeAvailable = Annotated[
    bool, typer.Option("--assume-available", help="Use spot prices as listed, even far below those of other regions")
]
Deadline = Annotated[str | None, typer.Option("--deadline", help="The longest time for the whole run, e.g. 8h")]
Budget = Annotated[str | None, typer.Option("--budget", help="The most that the whole run may cost, in USD")]
Objective = Annotated[
    terms.Objective | None,
    typer.Option("--objective", help="How offers are ranked (default: the objective of the job)"),
]
Nodes = Annotated[
    str | None, typer.Option("--nodes", help="Also estimate several machines together, for example 1,2,4,8")
]
Client = Annotated[
    str | None,
    typer.Option("--client", metavar="any", help="any: act on the run even if another client launched it"),
]
Wide = Annotated[bool, typer.Option("--wide", help="Show all columns, however wide the table becomes")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON to stdout")]


def settings() -> Settings:
    """The settings of the environment and of the settings files. Raises BadInputError."""
    return load_settings(os.environ)


def read_job_file(path: Path) -> TrainingJob:
    """The job in the file. Raises BadInputError."""
    from workloads.jobfile import JobFileError, read_job

    try:
        return read_job(path)
    except JobFileError as error:
        raise BadInputError(error.message, error.hint) from None


OF_A_JOB = {
    "model": ("model", "preset"),
    "dataset": ("data", "name"),
    "epochs": ("epochs",),
    "batch": ("global_batch_size",),
}
"""The options that say a job without a file, and where its value stands in a job file."""
_LEAST = {"epochs": DEFAULT_EPOCHS, "batch": DEFAULT_BATCH}
_ENUMS = {"model": Preset, "dataset": DataName}


def job_of(job_file: Path | None, **options: object) -> TrainingJob:
    """The job in the file, or the one that the options of `OF_A_JOB` say. Raises BadInputError."""
    if job_file is None:
        return job_from_options(options)
    names = [f"--{name}" for name, value in options.items() if value is not None]
    if names:
        are = "is" if len(names) == 1 else "are"
        raise BadInputError(f"{' and '.join(names)} {are} for estimates without a job file", "change the file instead")
    return read_job_file(job_file)


def job_from_options(options_given: Mapping[str, object]) -> TrainingJob:
    """A job without a file, from its options by name (None: not given). Raises BadInputError naming the option."""
    model, dataset = options_given.get("model"), options_given.get("dataset")
    if model is None or dataset is None:
        raise BadInputError(
            "give a job file, or --model and --dataset", "plan estimate --model vgg16 --dataset cifar10"
        )
    for option, names in _ENUMS.items():
        if options_given.get(option) is not None:
            _one_of(f"--{option}", str(options_given[option]), list(names))
    values: dict[str, Any] = {"name": f"{model}-{dataset}".replace("_", "-")}
    for option, (key, *within) in OF_A_JOB.items():
        value = options_given.get(option) or _LEAST.get(option)
        if value is not None:
            values[key] = {within[0]: value} if within else value
    from pydantic import ValidationError

    from workloads.job import TrainingJob

    try:
        return TrainingJob.model_validate(values)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        message = str(problem.get("ctx", {}).get("error", problem["msg"]))
        if problem["loc"]:
            raise BadInputError(f"{problem['loc'][0]}: {message[0].lower()}{message[1:]}") from None
        raise BadInputError(
            f"{model} on {dataset}: {message}", "another net, or a job file with model.image_size"
        ) from None


def with_limits(
    job: TrainingJob, deadline: str | None, budget: str | None, objective: terms.Objective | None
) -> TrainingJob:
    """The job with the limits given on the command line in the place of its own. Raises BadInputError."""
    limits: dict[str, Any] = {}
    if deadline is not None:
        limits["deadline"] = _deadline(deadline)
    if budget is not None:
        limits["budget_usd"] = _usd("--budget", budget)
    update: dict[str, Any] = {"constraints": job.constraints.model_copy(update=limits)}
    if objective is not None:
        update["objective"] = objective
    return job.model_copy(update=update)


def nodes(text: str | None) -> tuple[int, ...]:
    """The numbers of machines of `--nodes 1,2,4`, in order; empty where none are given. Raises BadInputError."""
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",")]
    numbers = sorted(
        {int(part) for part in parts if part.isascii() and part.isdigit() and len(part) <= len(str(MAX_NODES))}
    )
    if len({*parts}) != len(numbers) or not all(1 <= number <= MAX_NODES for number in numbers):
        raise BadInputError(
            f"--nodes: {text!r} is not a list of numbers of machines from 1 to {MAX_NODES}",
            "for example --nodes 1,2,4,8",
        )
    return tuple(numbers)


def markets(values: Sequence[str] | None) -> tuple[str, ...]:
    """`on-demand` and `on_demand` are the same. Raises BadInputError."""
    names = tuple(name.replace("-", "_") for name in values or ())
    for name in names:
        _one_of("--market", name, ["on_demand", "spot"])
    return names


def _deadline(text: str) -> timedelta:
    try:
        deadline = parse_duration(text)
    except ValueError as error:
        raise BadInputError(f"--deadline: {error}") from None
    if not deadline:
        raise BadInputError("--deadline: the time must be longer than zero")
    return deadline


def max_cost(text: str) -> Decimal:
    """--max-cost in USD. Raises BadInputError."""
    return _usd("--max-cost", text)


def _usd(option: str, text: str) -> Decimal:
    try:
        budget = Decimal(text.removeprefix("$"))
    except InvalidOperation:
        budget = Decimal(-1)
    if not budget.is_finite() or not 0 < budget <= MAX_USD:
        raise BadInputError(f"{option}: {text!r} is not an amount of dollars", f"for example {option} 20")
    return budget


def any_client(value: str | None) -> bool:
    """Whether `--client any` was typed, the one value it has. Raises BadInputError."""
    if value is not None:
        _one_of("--client", value, ["any"])
    return value is not None


def _one_of(option: str, value: str, names: Sequence[str]) -> None:
    if value in names:
        return
    near = nearest_names(value, names)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}"
    raise BadInputError(f"{option}: there is no {value!r}", hint)
