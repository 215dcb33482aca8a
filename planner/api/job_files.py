"""A job from its file, and the limits that are given beside it. What reads a job is imported when one is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainplan.planner.errors import BadInputError
from trainplan.planner.settings import load_settings
from trainplan.pricing.money import written_amount
from trainplan.workloads.durations import duration_of
from trainplan.workloads.terms import MAX_USD
from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from decimal import Decimal

    from trainplan.workloads import terms
    from trainplan.workloads.job import TrainingJob


def read_job_file(path: Path, *, may_ask: bool = True, run_file: bool = False) -> TrainingJob:
    """The job in the file, with the network of the person's own file where it names one, and the project of the
    settings where it names none. Raises BadInputError.

    `run_file`: the person has agreed that this file runs; without `may_ask` nobody is asked.
    """
    from trainplan.workloads.jobfile import JobFileError, read_job

    try:
        job = read_job(path)
    except JobFileError as error:
        raise BadInputError(error.message, error.hint) from None
    if job.read_script is not None and job.read_script.requires_python:
        from trainplan.planner.planning.locked_script import THIS_PYTHON, pythons_of, refuse_python

        refuse_python(job, sorted({THIS_PYTHON.python, *pythons_of(job)}))
    return _whole(job, may_ask=may_ask, run_file=run_file)


def job_of_keys(keys: Mapping[str, Any], *, run_file: bool = False) -> TrainingJob:
    """The same of the keys of a job file; paths are taken from the current folder. Raises BadInputError."""
    from trainplan.workloads.job_mistakes import validated_job
    from trainplan.workloads.jobfile import JobFileError, with_paths

    source = Path("the job")
    if not isinstance(keys, Mapping):
        raise BadInputError(f"the keys of a job are expected, not {keys!r}", "Job.read(path) reads a file")
    if keys.get("script") is not None:
        raise BadInputError(f"{source}: a script is read with its job file", "read the file in place of its keys")
    try:
        job = with_paths(validated_job(keys, str(source)), source)
    except JobFileError as error:
        raise BadInputError(error.message, error.hint) from None
    return _whole(job, may_ask=True, run_file=run_file)


def _whole(job: TrainingJob, *, may_ask: bool, run_file: bool) -> TrainingJob:
    from trainplan.planner.api.own_network import with_network

    job = job if job.project else job.model_copy(update={"project": load_settings(os.environ).project})
    return with_network(job, may_ask=may_ask, agreed=run_file)


def with_limits(
    job: TrainingJob, deadline: str | timedelta | None, budget: str | None, objective: terms.Objective | None
) -> TrainingJob:
    """The job with these limits in the place of its own. Raises BadInputError."""
    limits: dict[str, Any] = {}
    if deadline is not None:
        limits["deadline"] = _deadline(deadline)
    if budget is not None:
        limits["budget_usd"] = usd_of(Option.BUDGET, budget)
    update: dict[str, Any] = {"constraints": job.constraints.model_copy(update=limits)}
    if objective is not None:
        update["objective"] = objective
    return job.model_copy(update=update)


def _deadline(written: str | timedelta) -> timedelta:
    try:
        deadline = duration_of(written)
    except ValueError as error:
        raise BadInputError(f"{Option.DEADLINE}: {error}", field=Option.DEADLINE) from None
    if deadline <= timedelta(0):
        raise BadInputError(f"{Option.DEADLINE}: the time must be longer than zero", field=Option.DEADLINE)
    return deadline


def usd_of(option: Option, text: str) -> Decimal:
    """An amount of dollars above zero. Raises BadInputError, which names the option."""
    amount = written_amount(text.removeprefix("$"), MAX_USD)
    if not amount:
        raise BadInputError(
            f"{option}: {text!r} is not an amount of dollars", f"for example {option(20)}", field=option
        )
    return amount
