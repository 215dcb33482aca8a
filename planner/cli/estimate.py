"""`plan estimate`: what a job takes and costs everywhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import job_options, options, planning
from planner.cli.job_options import AskedJob
from planner.cli.screen import show
from planner.errors import BadInputError
from planner.forecast.build_plan import PlanQuery, make_plan, nothing_left
from planner.report.page import joined

if TYPE_CHECKING:
    from datetime import datetime

    from planner.forecast.check import Judged
    from planner.forecast.plan import Plan
    from planner.report.page import Page
    from planner.settings import Settings

DEFAULT_ROWS = 15


def command(
    job_file: options.JobFile = None,
    model: job_options.Model = None,
    dataset: job_options.Dataset = None,
    epochs: job_options.Epochs = None,
    batch: job_options.Batch = None,
    precision: job_options.PrecisionName = None,
    image_size: job_options.ImageSize = None,
    framework: job_options.FrameworkName = None,
    xla: job_options.Xla = None,
    provider: options.Providers = None,
    region: options.Regions = None,
    device: options.Devices = None,
    market: options.Markets = None,
    assume_available: options.AssumeAvailable = False,
    deadline: options.Deadline = None,
    budget: options.Budget = None,
    objective: options.Objective = None,
    nodes: options.Nodes = None,
    comparison: job_options.Compare = None,
    every: Annotated[bool, typer.Option("--all", help="One row for every offer in every region and zone")] = False,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, help=f"The most rows (default: {DEFAULT_ROWS} in the table, all in JSON)"),
    ] = None,
    include_retired: Annotated[
        bool, typer.Option("--include-retired", help="Include retired machines, marked as such")
    ] = False,
    explain_row: Annotated[
        int | None, typer.Option("--explain", min=1, help="Show where the figures of row N come from")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Ask the providers what this account can launch")] = False,
    catalog: Annotated[Path | None, typer.Option("--catalog", help="Another catalog file", hidden=True)] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Also draw cost against time with their intervals, as PNG")
    ] = None,
    wide: options.Wide = False,
    as_json: options.Json = False,
) -> None:
    """Read the job, plan, print."""
    if as_json and explain_row is not None:
        raise BadInputError("--explain and --json cannot be combined", "give one of the two")
    values = {
        **{"model": model, "dataset": dataset, "epochs": epochs, "batch": batch, "precision": precision},
        **{"image_size": image_size, "framework": framework, "xla": xla},
    }
    asked_job = job_options.job_of(job_file, values)
    job = options.with_limits(asked_job.job, deadline, budget, objective)
    settings = options.settings()
    # How many rows are looked up in full: those of the table, or those of the JSON that are asked about.
    rows = limit or DEFAULT_ROWS
    rows_of_json, rows_of_table = rows if check else 0, None if every and not limit else max(rows, explain_row or 0)
    query = PlanQuery(
        providers=tuple(provider or ()),
        regions=tuple(region or ()),
        devices=tuple(device or ()),
        markets=options.markets(market),
        include_retired=include_retired,
        assume_available=assume_available,
        every_place=as_json or every,
        limit=rows_of_json if as_json else rows_of_table,
        prices=as_json or plot is not None,
        nodes=options.nodes(nodes),
        catalog=catalog,
    )
    if comparison:
        from planner.cli import compare

        beside = {"all": every, "limit": limit, "explain": explain_row, "check": check, "nodes": nodes, "plot": plot}
        compare.refuse_beside(beside)
        other = compare.second_job(asked_job, comparison, values)
        other = other._replace(job=options.with_limits(other.job, deadline, budget, objective))
        compare.print_comparison((asked_job._replace(job=job), other), query, settings, as_json=as_json, wide=wide)
        return
    query, now = planning.completed(query, settings)
    plan, query = planning.planned(job, query, settings, now, may_ask=not as_json and catalog is None)
    if check:
        plan = _scored(plan, query, settings, now)
    judged = _judged(plan, settings) if check else None
    if as_json:
        sys.stdout.write(_json(plan, judged, limit, asked_job) + "\n")
    else:
        show(joined([asked_job.page, _page(plan, explain_row, judged)]), wide=wide)
    if plot is not None and plan.ranking:
        from planner.cli.plot import draw_front

        draw_front(plan, plot)
    if not plan.ranking and not planning.is_answered_here(plan, query):
        raise nothing_left(plan, is_shown=not as_json)


def _scored(plan: Plan, query: PlanQuery, settings: Settings, now: datetime) -> Plan:
    """The plan with what vendors tell this account of its first offers. The JSON's rows are looked up for that."""
    from planner.cli import build
    from planner.forecast.scores import ScoreReader, with_scores

    ask = ScoreReader(build.providers(settings), partial(build.is_used, settings=settings), planning.tell)
    plan, _ = with_scores(
        plan, lambda scores: make_plan(plan.job, query._replace(scores=scores), settings, now, planning.tell), ask
    )
    return plan


def _judged(plan: Plan, settings: Settings) -> Mapping[int, Judged]:
    from planner.cli import build
    from planner.forecast.check import judge_rows

    return judge_rows(plan.candidates, build.providers(settings), partial(build.is_used, settings=settings))


def _json(plan: Plan, judged: Mapping[int, Judged] | None, limit: int | None, asked_job: AskedJob) -> str:
    from planner.report.estimate_json import estimate_json

    return estimate_json(plan, judged, limit, asked_job.differences)


def _page(plan: Plan, explain_row: int | None, judged: Mapping[int, Judged] | None) -> Page:
    from planner.report.estimate_page import estimate_page
    from planner.report.machines import machines_page
    from planner.report.queue_lines import queue_text

    if explain_row is None or not plan.ranking:
        queue = queue_text(plan)
        return joined([estimate_page(plan, judged), [queue] if queue else [], machines_page(plan)])
    if explain_row > len(plan.candidates):
        raise BadInputError(f"--explain {explain_row}: there are {len(plan.candidates)} rows")
    from planner.report.explain import explain

    return [explain(plan, plan.candidates[explain_row - 1])]
