"""The job and the wishes that the options of several commands add up to; imports no typer."""

from __future__ import annotations

import os
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from planner.errors import BadInputError
from planner.settings import Settings, load_settings
from workloads.durations import parse_duration
from workloads.terms import MAX_USD, DataName, Preset

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from pathlib import Path

    from workloads.job import TrainingJob
    from workloads.terms import Objective

DEFAULT_EPOCHS = 90
DEFAULT_BATCH = 128


def settings() -> Settings:
    return load_settings(os.environ)


def read_job_file(path: Path, *, to_estimate: bool = False) -> TrainingJob:
    """The job in the file; with `to_estimate` for an estimate only, and quickly. Raises BadInputError."""
    from workloads.jobfile import JobFileError, read_job

    try:
        return read_job(path, to_estimate=to_estimate)
    except JobFileError as error:
        raise BadInputError(error.message, error.hint) from None


def job_from_options(
    model: str | None, dataset: str | None, epochs: int | None, batch: int | None, *, to_estimate: bool = False
) -> TrainingJob:
    """A job without a file; with `to_estimate` for an estimate only, and quickly. Raises BadInputError naming the
    option."""
    if model is None or dataset is None:
        raise BadInputError(
            "give a job file, or --model and --dataset", "plan estimate --model vgg16 --dataset cifar10"
        )
    _one_of("--model", model, list(Preset))
    _one_of("--dataset", dataset, list(DataName))
    values = {
        "name": f"{model}-{dataset}".replace("_", "-"),
        "model": {"preset": model},
        "data": {"name": dataset},
        "epochs": epochs or DEFAULT_EPOCHS,
        "global_batch_size": batch or DEFAULT_BATCH,
    }
    if to_estimate:
        from workloads.plain_job import plain_job

        if (job := plain_job(values)) is not None:
            return job
    from pydantic import ValidationError  # takes longer to import than a whole estimate

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


def with_limits(job: TrainingJob, deadline: str | None, budget: str | None, objective: Objective | None) -> TrainingJob:
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


def markets(given: Sequence[str] | None) -> tuple[str, ...]:
    """`on-demand` and `on_demand` are the same. Raises BadInputError."""
    names = tuple(name.replace("-", "_") for name in given or ())
    for name in names:
        _one_of("--market", name, ["on_demand", "spot"])
    return names


def _deadline(text: str) -> timedelta:
    try:
        deadline = parse_duration(text)
    except ValueError as error:
        raise BadInputError(f"--deadline: {error}") from None
    if not deadline:
        raise BadInputError("--deadline: no time at all")
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


def any_client(given: str | None) -> bool:
    """Whether `--client any` was typed, the one value it has. Raises BadInputError."""
    if given is not None:
        _one_of("--client", given, ["any"])
    return given is not None


def _one_of(option: str, given: str, known: Sequence[str]) -> None:
    if given in known:
        return
    import difflib

    near = difflib.get_close_matches(given, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
    raise BadInputError(f"{option}: there is no {given!r}", hint)
