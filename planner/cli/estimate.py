"""`plan estimate`: what a job takes and costs everywhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import options
from planner.cli.screen import show
from planner.clock import SystemClock
from planner.errors import BadInputError
from planner.forecast.build_plan import PlanQuery, make_plan, nothing_left, with_listed_offers
from planner.runs.queue_waits import with_queue
from providers.registry import THIS_MACHINE

if TYPE_CHECKING:
    from datetime import datetime

    from planner.forecast.check import Judged
    from planner.forecast.plan import Plan
    from planner.report.page import Page
    from planner.settings import Settings
    from pricing.obtainability import Evidence
    from providers.base import Provider

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
    assume_available: options.AssumeAvailable = False,
    deadline: options.Deadline = None,
    budget: options.Budget = None,
    objective: options.Objective = None,
    nodes: options.Nodes = None,
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
    wide: options.Wide = False,
    as_json: options.Json = False,
) -> None:
    """Read the job, plan, print."""
    if as_json and explain_row is not None:
        raise BadInputError("--explain and --json cannot be combined", "give one of the two")
    job = options.job_of(job_file, model=model, dataset=dataset, epochs=epochs, batch=batch)
    job = options.with_limits(job, deadline, budget, objective)
    settings = options.settings()
    # How many rows are looked up in full: those of the table, or those of the JSON that are asked about.
    rows = limit or DEFAULT_ROWS
    rows_of_json, rows_of_table = rows if check else 0, None if every else max(rows, explain_row or 0)
    query = PlanQuery(
        providers=tuple(provider or ()),
        regions=tuple(region or ()),
        devices=tuple(device or ()),
        markets=options.markets(market),
        include_retired=include_retired,
        assume_available=assume_available,
        every_place=as_json or every,
        limit=rows_of_json if as_json else rows_of_table,
        prices=as_json,
        nodes=options.nodes(nodes),
        catalog=catalog,
    )
    if settings.prices:
        from planner.runs.own_use import own_prices_now

        query = query._replace(own_prices=own_prices_now(settings, SystemClock().now()))
    query = with_listed_offers(query, lambda name: _provider(name, settings), settings, _tell)
    now = SystemClock().now()
    query = query._replace(evidence=_evidence(settings, now))
    plan = make_plan(job, query, settings, now, _tell)
    # Asked after the first plan: its rows tell which price lists would settle them.
    if not as_json and catalog is None and _is_refreshed(plan, settings):
        # At the time of now: the question and the lists took theirs.
        plan = make_plan(job, query, settings, SystemClock().now(), _tell)
    plan, query = with_queue(plan, query, settings, now, (lambda name: _provider(name, settings), _tell))
    if check:
        plan = _scored(plan, query, settings, now)
    judged = _judged(plan, settings) if check else None
    if as_json:
        sys.stdout.write(_json(plan, judged, limit) + "\n")
    else:
        show(_page(plan, explain_row, judged), wide=wide)
    if not plan.ranking and not _answered_here(plan, query):
        raise nothing_left(plan, is_shown=not as_json)


def _provider(name: str, settings: Settings) -> Provider:
    """Providers are imported for the simulated cloud and a cluster alone: the catalog has the offers of the others."""
    from planner.cli import build

    return build.provider(name, settings)


def _evidence(settings: Settings, now: datetime) -> tuple[Evidence, ...]:
    """What earlier launches of this home met; the journal's modules are imported where there is one."""
    if not settings.journal.exists():
        return ()
    from planner.runs.journal.evidence import read_evidence

    return read_evidence(settings.journal, now, _tell)


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _is_refreshed(plan: Plan, settings: Settings) -> bool:
    """Whether somebody was asked, once in a home, and has let the price lists be read."""
    if not sys.stdout.isatty():
        return False
    from planner.cli.first_refresh import may_ask, refreshed_at_first

    return may_ask() and refreshed_at_first(plan, settings.home)


def _answered_here(plan: Plan, query: PlanQuery) -> bool:
    """Whether only this machine was asked about, and its line says what it takes."""
    return query.providers == (THIS_MACHINE,) and plan.this_machine is not None and plan.this_machine.time is not None


def _scored(plan: Plan, query: PlanQuery, settings: Settings, now: datetime) -> Plan:
    """The plan with what vendors tell this account of its first offers. The JSON's rows are looked up for that."""
    from planner.cli import build
    from planner.forecast.scores import ScoreReader, with_scores

    ask = ScoreReader(build.providers(settings), partial(build.is_used, settings=settings), _tell)
    plan, _ = with_scores(
        plan, lambda scores: make_plan(plan.job, query._replace(scores=scores), settings, now, _tell), ask
    )
    return plan


def _judged(plan: Plan, settings: Settings) -> Mapping[int, Judged]:
    from planner.cli import build
    from planner.forecast.check import judge_rows

    return judge_rows(plan.candidates, build.providers(settings), partial(build.is_used, settings=settings))


def _json(plan: Plan, judged: Mapping[int, Judged] | None, limit: int | None) -> str:
    from planner.report.estimate_json import estimate_json

    return estimate_json(plan, judged, limit)


def _page(plan: Plan, explain_row: int | None, judged: Mapping[int, Judged] | None) -> Page:
    from planner.report.estimate_page import estimate_page
    from planner.report.machines import machines_page
    from planner.report.page import joined
    from planner.report.queue_lines import queue_text

    if explain_row is None or not plan.ranking:
        queue = queue_text(plan)
        return joined([estimate_page(plan, judged), [queue] if queue else [], machines_page(plan)])
    if explain_row > len(plan.candidates):
        raise BadInputError(f"--explain {explain_row}: there are {len(plan.candidates)} rows")
    from planner.report.explain import explain

    return [explain(plan, plan.candidates[explain_row - 1])]
