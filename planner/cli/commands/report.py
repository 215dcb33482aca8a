"""`plan report`: what a run took, cost and reached, as a page of HTML, as JSON or in a few lines."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from trainplan.planner import __version__
from trainplan.planner.api import build
from trainplan.planner.cli import options
from trainplan.planner.cli.output_file import PAGE, write_page
from trainplan.planner.cli.screen import show
from trainplan.planner.cli.typed import whole
from trainplan.planner.errors import PlanError
from trainplan.planner.report.page import Cell, Chart, Page, Table
from trainplan.planner.report.run_answer import answer, bills_text, trials_of
from trainplan.planner.report.sweep_page import sweep_page
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.receipt.receipt import receipt_from
from trainplan.planner.runs.receipt.receipt_text import receipt_text
from trainplan.planner.runs.report.document import Sources, run_document
from trainplan.planner.runs.run import Run
from trainplan.planner.settings import Settings
from trainplan.providers.errors import ProviderError

_MOST_CLASSES = 5


def command(
    name: options.RunName,
    page: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page of HTML: one file that loads nothing")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show what a run took, cost and reached, beside its estimate: curves, machines, classes, receipt.

    Reads the journal, the run directory and the model's folder, and changes nothing.
    """
    PAGE.refuse_other(page)
    settings = options.settings()
    with build.journal(settings) as journal:
        report = _document(journal.run(name), journal, settings)
    if page is not None:
        from trainplan.planner.report.run_page import run_page  # 20 ms that the other forms need not pay

        write_page(run_page(report), page)
        sys.stderr.write(f"{page} is written\n")
    if as_json:
        sys.stdout.write(json.dumps(report) + "\n")
    elif page is None:
        show(_lines(report))


def _document(run: Run, journal: Journal, settings: Settings) -> dict[str, Any]:
    store, why = build.store_of(run, settings)
    now = build.clock().now()
    if store is not None and run.live:
        with suppress(PlanError, ProviderError):  # who cannot be asked leaves the run as the journal has it
            runner = build.runner(journal, settings, lambda _: None, run.provider)
            now = build.clock_of(build.provider(run.provider, settings)).now()
            run = runner.with_end(run)
    sources = Sources(journal=journal, store=store, now=now, why_no_store=why)
    return run_document(run, sources) | {"made_by": {"command": whole(), "version": __version__}}


def _lines(report: dict[str, Any]) -> Page:
    lines: list[str | Cell | Table | Chart] = [answer(report)]
    if bills := bills_text(report):
        lines.append(bills)
    for stop in report["interruptions"]:
        lines.append(f"attempt {stop['attempt']} was interrupted ({stop['end']}) at {stop['where']}")
    if report["receipt"] is not None:
        lines += ["", receipt_text(receipt_from(report["receipt"]))]
    if (trials := trials_of(report)) is not None:
        lines += ["", *sweep_page(trials, "")]
    classes = [one for one in (report["held_out"] or {}).get("classes") or [] if one["accuracy"] is not None]
    if classes:
        lowest = sorted(classes, key=lambda one: one["accuracy"])[:_MOST_CLASSES]
        lines.append("lowest accuracy: " + ", ".join(f"{one['name']} {one['accuracy']:.1%}" for one in lowest))
    lines += [f"note: {gap}" for gap in report["gaps"]]
    return [*lines, f"plan report {report['run']['run_id']} --html report.html has the curves and all classes"]
