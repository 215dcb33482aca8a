"""`plan status`: how runs stand; one that nobody follows any more is taken on from where it is."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from trainplan.planner.api import build
from trainplan.planner.api.event_lines import bills_line
from trainplan.planner.api.standing import Standing, ask_records_again, standing_of
from trainplan.planner.cli import completion, options
from trainplan.planner.cli.foreign_runs import others_line
from trainplan.planner.cli.screen import render, screen_of, show
from trainplan.planner.cli.streams import unfiltered
from trainplan.planner.errors import ThisMachineError
from trainplan.planner.home.client import Client
from trainplan.planner.report.page import Column, Page, Table
from trainplan.planner.runs.cleanup.last_cleanup import last_cleanup, no_run_text
from trainplan.planner.runs.events import Event, Message
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.money.spending import spending
from trainplan.planner.settings import Settings
from trainplan.pricing.money import format_usd, format_usd_per_hour
from trainplan.providers.base import Provider
from trainplan.providers.registry import is_here, is_simulated

WATCH_SECONDS = 2.0
_COLUMNS = (
    Column("run"), Column("job", rank_of_need=2), Column("where", rank_of_need=3), Column("phase"),
    Column("progress", shrinks=True), Column("so far", right=True), Column("costs", right=True, rank_of_need=1),
    Column("ends by"),
)  # fmt: skip


class _Desk(NamedTuple):
    """What every look needs: the journal, whose it is, and the providers that were made for this command."""

    journal: Journal
    settings: Settings
    client: Client
    make_provider: Callable[[str], Provider]
    unreadable: set[str]
    """A line for each run whose row in the journal cannot be read."""


def command(
    name: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="A run, or the beginning of its id", autocompletion=completion.runs),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep showing it until no run is live")] = False,
    wide: options.Wide = False,
    as_json: options.Json = False,
) -> None:
    """Look what became of the runs that are not done, then print them."""
    settings = options.settings()
    with build.journal(settings) as journal:
        desk = _Desk(journal, settings, build.client(settings), build.providers(settings), set())
        standings = _standings(name, desk)
        ask_records_again(journal, settings, desk.make_provider, _tell)
        if watch and not as_json:
            standings = _watch(name, desk, standings)
        budgets = spending(journal, settings).budgets()
        others = [run for run in journal.live(desk.unreadable.add) if not desk.client.owns(run)]
    if as_json:
        sys.stdout.write(json.dumps([_json(standing) for standing in standings]) + "\n")
    elif standings or not desk.unreadable:
        show(_page(standings, settings.home), wide=wide)
    if budgets and not as_json:
        show([budget.text for budget in budgets])
    if others:
        sys.stderr.write(f"{others_line(others, desk.client)}\n")
    for standing in standings:
        # Raised below the table: one run's trouble does not keep the others from being shown.
        if standing.error is not None:
            raise standing.error
    if desk.unreadable:
        hint = "it may be running and billing; plan cleanup lists what exists"
        raise ThisMachineError("; ".join(sorted(desk.unreadable)), hint)


def _tell(event: Event) -> None:
    if isinstance(event, Message):
        sys.stderr.write(f"{event.text}\n")


def _standings(name: str | None, desk: _Desk) -> list[Standing]:
    runs = (
        [desk.journal.run(name)]
        if name
        else [run for run in desk.journal.live(desk.unreadable.add) if desk.client.owns(run)]
    )
    return [standing_of(run, desk.journal, desk.settings, desk.client, desk.make_provider) for run in runs]


def _watch(name: str | None, desk: _Desk, first: list[Standing]) -> list[Standing]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    standings = first
    console = Console(file=unfiltered(sys.stdout))

    def drawn(standings: list[Standing]) -> Text:
        return Text.from_ansi(render(_page(standings, desk.settings.home), screen_of(sys.stdout, os.environ)))

    with Live(drawn(first), console=console, auto_refresh=False) as live:
        while any(standing.run.live for standing in standings):
            build.clock().sleep(WATCH_SECONDS)
            standings = _standings(name, desk)
            live.update(drawn(standings), refresh=True)
        live.update(Text(""), refresh=True)
    return standings


def _page(standings: list[Standing], home: Path) -> Page:
    if not standings:
        return [no_run_text(last_cleanup(home))]
    lines: list[str | Table] = [Table(_COLUMNS, [_row(standing) for standing in standings])]
    for standing in standings:
        if standing.run.unverified is not None:
            lines.append(standing.run.unverified)
        elif standing.run.live or len(standings) == 1:
            lines.append(bills_line(standing.run))
        if standing.run.message and not standing.run.live:
            lines.append(f"run {standing.run.run_id}: {standing.run.message}")
    return lines


def _row(standing: Standing) -> tuple[str, ...]:
    run = standing.run
    ends = f"{run.deadline.astimezone():%Y-%m-%d %H:%M}" if run.live else "-"
    target = run.attempt.target if run.attempt else None
    where = target.where if target and not is_here(run.provider) else run.provider
    if is_simulated(run.provider):
        where += " (simulated)"
    costs = format_usd_per_hour(run.bills_usd_per_hour) if run.bills else "-"
    so_far = ("at most " if standing.is_at_most else "") + format_usd(Decimal(str(standing.usd)))
    return (run.run_id, run.job_name, where, run.phase, standing.progress.text, so_far, costs, ends)


def _json(standing: Standing) -> dict[str, object]:
    run = standing.run
    return {
        "run_id": run.run_id,
        "job_name": run.job_name,
        "provider": run.provider,
        "phase": run.phase,
        "outcome": run.outcome,
        "message": run.message,
        "progress": standing.progress.text,
        "deadline": run.deadline.isoformat(),
        "attempts": len(run.attempts),
        "usd_so_far": standing.usd,
        "usd_is_at_most": standing.is_at_most,
        "bills_usd_per_hour": float(run.bills_usd_per_hour),
        "unverified": run.unverified,
    }
