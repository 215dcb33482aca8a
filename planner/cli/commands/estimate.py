"""`plan estimate`: what a job takes and costs everywhere."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from trainplan.planner.api import planning
from trainplan.planner.api.counted_images import with_counted_images
from trainplan.planner.api.job_files import with_limits
from trainplan.planner.api.told import tell
from trainplan.planner.cli import job_options, options
from trainplan.planner.cli.document_form import DocumentForm
from trainplan.planner.cli.job_options import AskedJob
from trainplan.planner.cli.output_file import PAGE, PLOT
from trainplan.planner.cli.screen import PLAIN, Screen, columns_that_fit, lines_on, rows_that_fit, screen_of, show
from trainplan.planner.errors import BadInputError
from trainplan.planner.planning.build_plan import PlanQuery, make_plan, nothing_left
from trainplan.planner.report.page import joined
from trainplan.pricing.free_places import free_providers
from trainplan.workloads.terminal_text import wrapped

if TYPE_CHECKING:
    from datetime import datetime

    from trainplan.planner.forecast.plan import Plan
    from trainplan.planner.planning.check import Judged
    from trainplan.planner.report.page import Page
    from trainplan.planner.settings import Settings
    from trainplan.workloads.job import TrainingJob

DEFAULT_ROWS = 15


def command(
    job_file: options.JobFile = None,
    model: job_options.Model = None,
    dataset: job_options.Dataset = None,
    data: job_options.DataFolder = None,
    epochs: job_options.Epochs = None,
    batch: job_options.Batch = None,
    precision: job_options.PrecisionName = None,
    image_size: job_options.ImageSize = None,
    framework: job_options.FrameworkName = None,
    xla: job_options.Xla = None,
    provider: options.Providers = None,
    free: options.Free = False,
    region: options.Regions = None,
    device: options.Devices = None,
    count: options.Counts = None,
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
        typer.Option(
            "--limit",
            min=1,
            help=f"The most rows (default: what the screen holds, {DEFAULT_ROWS} in a pipe, all in JSON)",
        ),
    ] = None,
    include_retired: Annotated[
        bool, typer.Option("--include-retired", help="Include retired machines, marked as such")
    ] = False,
    explain_row: Annotated[
        str | None,
        typer.Option("--explain", metavar="N", help="Show where the figures of row N come from (6, or 6.2 of --all)"),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Ask the providers what this account can launch")] = False,
    catalog: Annotated[Path | None, typer.Option("--catalog", help="Another catalog file", hidden=True)] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Also draw cost against time with their intervals, as PNG")
    ] = None,
    notes: Annotated[
        bool, typer.Option("--notes", help="At a terminal, also show the chart and every note on the rows")
    ] = False,
    levers: Annotated[
        bool, typer.Option("--levers", help="Show what one change of the job or of the offer would save")
    ] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write the answer as a page for a browser: one file")
    ] = None,
    format_name: Annotated[
        str | None, typer.Option("--format", metavar="text|markdown", help="markdown: for a comment on GitHub")
    ] = None,
    run_file: Annotated[
        bool,
        typer.Option("--run-file", help="Run the Python file of model.python to read its network, without a question"),
    ] = False,
    wide: options.Wide = False,
    as_json: options.Json = False,
) -> None:
    """Read the job, plan, print."""
    PAGE.refuse_other(html)
    PLOT.refuse_other(plot)
    as_markdown = options.is_markdown(format_name, as_json=as_json)
    document = DocumentForm(as_json, html, levers, limit, wide, as_markdown)
    if explain_row is not None:
        _refuse_row(explain_row, document)
    every = every or "." in (explain_row or "")
    values = {
        **{"model": model, "dataset": dataset, "epochs": epochs, "batch": batch, "precision": precision},
        **{"image_size": image_size, "framework": framework, "xla": xla},
    }
    asked_job = job_options.job_of(job_file, values, data, run_file=run_file)
    asked_job = asked_job._replace(job=with_counted_images(asked_job.job))
    job = with_limits(asked_job.job, deadline, budget, objective)
    settings = options.settings()
    if catalog is None:
        options.refresh_daily(settings)
    form = _Form(limit, explain_row, every, check, notes, wide, document, plot)
    query = PlanQuery(
        providers=(*(provider or ()), *(free_providers() if free else ())),
        regions=tuple(region or ()),
        devices=tuple(device or ()),
        counts=tuple(count or ()),
        markets=options.markets(market),
        include_retired=include_retired,
        assume_available=assume_available,
        every_placement=document.is_wanted or every,
        limit=form.rows_looked_up(screen_of(sys.stdout, os.environ)),
        prices=document.is_wanted or plot is not None,
        nodes=options.nodes(nodes),
        explain_row=explain_row or "",
        catalog=catalog,
    )
    if comparison:
        from trainplan.planner.cli import compare

        beside = {"all": every, "limit": limit, "explain": explain_row, "check": check, "nodes": nodes, "plot": plot}
        compare.refuse_beside({**beside, "notes": notes, "levers": levers, "html": html})
        other = compare.second_job(asked_job, comparison, values)
        if other.job.data.images is None:  # A number that was typed to compare with need not be that of the folder.
            other = other._replace(job=with_counted_images(other.job))
        other = other._replace(job=with_limits(other.job, deadline, budget, objective))
        compare.print_comparison((asked_job._replace(job=job), other), query, settings, document)
        return
    plan = _answered(
        asked_job._replace(job=job), query, settings, form, may_ask=not document.is_wanted and catalog is None
    )
    if not plan.ranking and not planning.is_answered_here(plan, query):
        raise nothing_left(plan, is_shown=not document.is_wanted)


class _Form(NamedTuple):
    """How the answer is wanted; the options of these names."""

    limit: int | None
    explain_row: str | None
    every: bool
    check: bool
    notes: bool
    wide: bool
    document: DocumentForm
    plot: Path | None

    def rows_looked_up(self, screen: Screen) -> int | None:
        """How many rows are looked up in full; None: all. Of the document those alone that are asked about."""
        fitting = screen.terminal.lines if screen.terminal is not None and not self.check else DEFAULT_ROWS
        rows = self.limit or fitting
        if self.document.is_wanted:
            return rows if self.check else 0
        if self.every and (self.explain_row or not self.limit):
            return None
        return max(rows, int(self.explain_row or 0))

    def is_brief(self, screen: Screen) -> bool:
        """Whether the answer is to fit the screen: at a terminal, unless everything is asked for."""
        return screen.terminal is not None and not self.every and not self.document.as_markdown


def _refuse_row(explain_row: str, document: DocumentForm) -> None:
    """Raises BadInputError where the row to explain is no number of the table, or the answer has no table."""
    if document.is_wanted:
        name = "json" if document.as_json else "html" if document.html is not None else "levers"
        raise BadInputError(f"--explain and --{name} cannot be combined", "give one of the two")
    if not re.fullmatch(r"[1-9][0-9]{0,5}(\.[1-9][0-9]{0,5})?", explain_row):
        raise BadInputError(f"--explain {explain_row}: there is no such row", "write a number of the column #")


def _answered(asked_job: AskedJob, query: PlanQuery, settings: Settings, form: _Form, *, may_ask: bool) -> Plan:
    """Plan and show; the plan.

    `may_ask`: a person who sits there is asked, once in a home and below the answer, whether the price lists may be
    read. Where they were read, the answer is given again.
    """
    full_query, now = planning.completed(query, settings)
    plan, full_query = planning.planned(asked_job.job, full_query, settings, now)
    if form.check:
        plan = _scored(plan, full_query, settings, now)
    judged = _judged(plan, settings) if form.check else None
    asks = may_ask and _is_to_ask(plan, settings)
    if form.document.is_wanted:
        from trainplan.planner.cli.estimate_document import answer_with_document

        def plan_of(changed: TrainingJob, nodes: Sequence[int]) -> Plan:
            asked = full_query._replace(limit=0).in_numbers(nodes, plan)
            return planning.planned(changed, asked, settings, now)[0]

        answer_with_document(plan, judged, form.document, asked_job, plan_of)
    else:
        page = _page(plan, form, judged, asked_job.page, asks=asks)
        show(page, wide=form.wide, as_markdown=form.document.as_markdown)
    if form.plot is not None and plan.ranking:
        from trainplan.planner.cli.plot import draw_front

        draw_front(plan, form.plot)
    if asks:
        from trainplan.planner.cli.first_refresh import refreshed_at_first

        if refreshed_at_first(settings.home):
            return _answered(asked_job, query, settings, form, may_ask=False)
    return plan


def _is_to_ask(plan: Plan, settings: Settings) -> bool:
    if not sys.stdout.isatty():
        return False
    from trainplan.planner.cli.first_refresh import is_to_ask

    return is_to_ask(plan._replace(candidates=plan.candidates[:DEFAULT_ROWS]), settings.home)


def _scored(plan: Plan, query: PlanQuery, settings: Settings, now: datetime) -> Plan:
    """The plan with what vendors tell this account of its first offers. The JSON's rows are looked up for that."""
    from trainplan.planner.api import build
    from trainplan.planner.planning.scores import ScoreReader, with_scores

    ask = ScoreReader(build.providers(settings), partial(build.is_used, settings=settings), tell)
    plan, _ = with_scores(
        plan, lambda scores: make_plan(plan.job, query._replace(scores=scores), settings, now, tell), ask
    )
    return plan


def _judged(plan: Plan, settings: Settings) -> Mapping[str, Judged]:
    from trainplan.planner.api import build
    from trainplan.planner.planning.check import judge_rows

    return judge_rows(plan.candidates, build.providers(settings), partial(build.is_used, settings=settings))


def _page(
    plan: Plan,
    form: _Form,
    judged: Mapping[str, Judged] | None,
    above: Page,
    *,
    asks: bool,
) -> Page:
    """The answer below what stands `above` it; at a terminal no more than the screen holds, with the question about the
    price lists where that `asks`, unless more is asked for."""
    from trainplan.planner.report.estimate_page import estimate_page
    from trainplan.planner.report.front import front_chart
    from trainplan.planner.report.machines import machines_page
    from trainplan.planner.report.queue_lines import queue_text

    if form.explain_row is not None and plan.ranking:
        return joined([above, _explanation(plan, form.explain_row)])
    screen = screen_of(sys.stdout, os.environ, wide=form.wide)
    if form.document.as_markdown and not form.notes:
        # It is read elsewhere than on this machine.
        few = _first(plan, form.limit or DEFAULT_ROWS)._replace(this_machine=None)
        return joined([above, _brief(few, judged, PLAIN, has_chart=bool(front_chart(plan)))])
    if form.is_brief(screen):
        has_chart = bool(front_chart(plan))

        def page_of(rows: int) -> Page:
            return joined([above, _brief(_first(plan, rows), judged, screen, has_chart=has_chart)])

        reserved = _lines_of_the_question(screen) if asks else 0
        fitting = rows_that_fit(page_of, len(plan.candidates), screen, reserved)
        # The table of several machines speaks of rows: they are shown, however high the page becomes.
        rows = form.limit or max(fitting, *(group.rank for group in plan.groups), 1)
        if not form.notes:
            return page_of(rows)
        plan = _first(plan, rows)
    queue = queue_text(plan)
    return joined([above, estimate_page(plan, judged), [queue] if queue else [], machines_page(plan)])


def _explanation(plan: Plan, explain_row: str) -> Page:
    explained = next((ranked for ranked in plan.candidates if ranked.number == explain_row), None)
    if explained is None:
        raise BadInputError(
            f"--explain {explain_row}: there is no such row, of {plan.candidates[-1].number.partition('.')[0]}",
            "rows have the numbers of the column #",
        )
    from trainplan.planner.report.explain import explain

    return [explain(plan, explained)]


def _first(plan: Plan, rows: int) -> Plan:
    return plan._replace(candidates=plan.candidates[:rows])


def _brief(plan: Plan, judged: Mapping[str, Judged] | None, screen: Screen, *, has_chart: bool) -> Page:
    from trainplan.planner.report.estimate_page import LeftOut, brief_page, ranking_table
    from trainplan.planner.report.machines import machines_page
    from trainplan.planner.report.queue_lines import queue_text

    table = ranking_table(plan, judged)
    columns = len(table.columns) - len(columns_that_fit(table, screen.width))
    left_out = LeftOut(columns, lines=len(queue_text(plan).splitlines()), chart=has_chart)
    return joined([brief_page(plan, judged, left_out), machines_page(plan)])


def _lines_of_the_question(screen: Screen) -> int:
    """The lines of the screen that the question about the price lists takes."""
    if screen.terminal is None:
        return 0
    from trainplan.planner.cli.first_refresh import QUESTION

    return lines_on(wrapped(f"{QUESTION} [y/N]: ", screen.terminal.columns), screen.terminal.columns) - 1
