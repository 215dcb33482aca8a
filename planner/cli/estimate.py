"""`plan estimate`: what a job takes and costs everywhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from planner.cli import options
from planner.clock import SystemClock
from planner.errors import BadInputError, NotBuiltYetError
from planner.gather import Wanted, make_plan, nothing_left
from planner.plan import Plan
from planner.render import estimate_table
from planner.render_json import estimate_json
from workloads.job import TrainingJob

DEFAULT_ROWS = 15


def command(
    job_file: options.JobFile = None,
    model: options.Model = None,
    dataset: options.Dataset = None,
    epochs: options.Epochs = None,
    batch: options.Batch = None,
    provider: options.Providers = None,
    region: options.Regions = None,
    device: options.Devices = None,
    market: options.Markets = None,
    deadline: options.Deadline = None,
    budget: options.Budget = None,
    objective: options.Goal = None,
    every: Annotated[bool, typer.Option("--all", help="Every offer of every place")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Rows of the table")] = DEFAULT_ROWS,
    include_retired: Annotated[bool, typer.Option("--include-retired", help="Retired machines too, marked")] = False,
    explain_row: Annotated[int | None, typer.Option("--explain", min=1, help="Where row N's numbers come from")] = None,
    check: Annotated[bool, typer.Option("--check", help="Ask the providers what this account can launch")] = False,
    catalog: Annotated[Path | None, typer.Option("--catalog", help="Another catalog file", hidden=True)] = None,
    as_json: options.Json = False,
) -> None:
    """Parse, plan, print."""
    if check:
        raise NotBuiltYetError("--check asks providers, and none can be asked yet", "leave it out")
    if as_json and explain_row is not None:
        raise BadInputError("--explain is words and --json is figures", "give one of the two")
    job = _job(job_file, model, dataset, epochs, batch)
    job = options.with_limits(job, deadline, budget, objective)
    rows = 0 if as_json else None if every else max(limit, explain_row or 0)
    wanted = Wanted(
        providers=tuple(provider or ()),
        regions=tuple(region or ()),
        devices=tuple(device or ()),
        markets=options.markets(market),
        include_retired=include_retired,
        every_place=as_json or every,
        limit=rows,
        prices=as_json,
        catalog=catalog,
    )
    plan = make_plan(job, wanted, options.settings(), SystemClock().now())
    sys.stdout.write(_text(plan, explain_row, as_json=as_json) + "\n")
    if not plan.ranking and not _answered_here(plan, wanted):
        raise nothing_left(plan)


def _answered_here(plan: Plan, wanted: Wanted) -> bool:
    """Whether only this machine was asked about, and its line says what it takes."""
    return wanted.providers == ("local",) and plan.this_machine is not None and plan.this_machine.time is not None


def _text(plan: Plan, explain_row: int | None, *, as_json: bool) -> str:
    if as_json:
        return estimate_json(plan)
    if explain_row is None or not plan.ranking:
        return estimate_table(plan)
    if explain_row > len(plan.candidates):
        raise BadInputError(f"--explain {explain_row}: there are {len(plan.candidates)} rows")
    from planner.explain import explain

    return explain(plan, plan.candidates[explain_row - 1])


def _job(
    job_file: Path | None, model: str | None, dataset: str | None, epochs: int | None, batch: int | None
) -> TrainingJob:
    if job_file is None:
        return options.job_from_options(model, dataset, epochs, batch)
    if (model, dataset, epochs, batch) != (None, None, None, None):
        raise BadInputError("--model, --dataset, --epochs and --batch are for estimates without a job file")
    return options.read_job_file(job_file)
