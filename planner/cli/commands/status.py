"""`plan status`: how runs stand; one that nobody follows any more is taken on from where it is."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from planner.api import build
from planner.cli import completion, options
from planner.cli.foreign_runs import others_line
from planner.cli.live_view import bills_line
from planner.cli.screen import render, screen_of, show
from planner.cli.streams import unfiltered
from planner.errors import PlanError, TeardownUnverifiedError, ThisMachineError
from planner.home.client import Client
from planner.report.page import Column, Page, Table
from planner.runs.directory.progress import story_of, unreadable_text
from planner.runs.journal.journal import Journal
from planner.runs.money.spending import spending
from planner.runs.run import Phase, Run
from planner.runs.sweeping.last_sweep import last_sweep, no_run_text
from planner.settings import Settings
from pricing.money import format_usd, format_usd_per_hour
from providers.base import Provider
from providers.errors import CredentialsError, PermissionDeniedError, ProviderError
from providers.registry import is_here, is_simulated

WATCH_SECONDS = 2.0
_COLUMNS = (
    Column("run"), Column("job", rank_of_need=2), Column("where", rank_of_need=3), Column("phase"),
    Column("progress", shrinks=True), Column("so far", right=True), Column("costs", right=True, rank_of_need=1),
    Column("ends by"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """A run as it stands, and why it could not be brought further (None: it could)."""

    run: Run
    progress: str
    usd: float
    error: PlanError | None


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
        typer.Argument(metavar="[RUN]", help="A run, or the beginning of its id", autocompletion=completion.runs),
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
        if watch and not as_json:
            standings = _watch(name, desk, standings)
        budgets = spending(journal, settings).budgets()
        others = [run for run in journal.live(desk.unreadable.add) if not desk.client.owns(run)]
    if as_json:
        sys.stdout.write(json.dumps([_json(run_status) for run_status in standings]) + "\n")
    elif standings or not desk.unreadable:
        show(_page(standings, settings.home), wide=wide)
    if budgets and not as_json:
        show([budget.text for budget in budgets])
    if others:
        sys.stderr.write(f"{others_line(others, desk.client)}\n")
    for run_status in standings:
        # Raised below the table: one run's trouble does not keep the others from being shown.
        if run_status.error is not None:
            raise run_status.error
    if desk.unreadable:
        hint = "it may be running and billing; plan sweep lists what exists"
        raise ThisMachineError("; ".join(sorted(desk.unreadable)), hint)


def _standings(name: str | None, desk: _Desk) -> list[RunStatus]:
    runs = (
        [desk.journal.run(name)]
        if name
        else [run for run in desk.journal.live(desk.unreadable.add) if desk.client.owns(run)]
    )
    return [_brought_up(run, desk) for run in runs]


def _watch(name: str | None, desk: _Desk, first: list[RunStatus]) -> list[RunStatus]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    standings = first
    console = Console(file=unfiltered(sys.stdout))

    def drawn(standings: list[RunStatus]) -> Text:
        return Text.from_ansi(render(_page(standings, desk.settings.home), screen_of(sys.stdout, os.environ)))

    with Live(drawn(first), console=console, auto_refresh=False) as live:
        while any(run_status.run.live for run_status in standings):
            build.clock().sleep(WATCH_SECONDS)
            standings = _standings(name, desk)
            live.update(drawn(standings), refresh=True)
        live.update(Text(""), refresh=True)
    return standings


def _brought_up(run: Run, desk: _Desk) -> RunStatus:
    """Bring one run up to date. An error is kept in the result, so that the other runs are still read."""
    error: PlanError | None = None
    journal = desk.journal
    if desk.client.owns(run) and (run.live or journal.owes_receipt(run)):
        runner = build.runner(journal, desk.settings, lambda _: None, run.provider, make_provider=desk.make_provider)
        try:
            run = runner.settle(run)
        except PlanError as trouble:
            error, run = trouble, runner.with_end(journal.run(run.run_id))
    receipt = journal.receipt(run.run_id) if run.phase is Phase.DONE else None
    now = build.clock_of(desk.make_provider(run.provider)).now() if run.live else None
    usd = receipt.get("actual_usd", 0.0) if receipt else float(run.total_usd(now)) if now else 0.0
    progress, blind = _progress(run, desk.make_provider)
    return RunStatus(run=run, progress=progress, usd=usd, error=error or blind)


def _progress(run: Run, factory: Callable[[str], Provider]) -> tuple[str, PlanError | None]:
    """How far it has come, and the error where nobody is signed in any more to the cloud that it may be billing at."""
    if not run.attempts:
        return run.outcome or "-", None
    if run.live and run.attempts[-1].queued:
        return "waits for a machine", None
    try:
        story = story_of(factory(run.provider).store(run.run_id), run.attempts[-1].number)
    except (CredentialsError, PermissionDeniedError) as error:
        text = f"run {run.run_id} may still exist, but its provider cannot be read: {error.message}"
        return run.outcome or "no answer", TeardownUnverifiedError(text, error.hint) if run.live else None
    except ProviderError:
        return run.outcome or "no answer", None
    steps = f"step {story.step} of {'?' if story.total_steps is None else story.total_steps}"
    if story.unreadable:
        steps += f", {unreadable_text(story.unreadable)}"
    return f"{run.outcome}, {steps}" if run.outcome else steps, None


def _page(standings: list[RunStatus], home: Path) -> Page:
    if not standings:
        return [no_run_text(last_sweep(home))]
    lines: list[str | Table] = [Table(_COLUMNS, [_row(run_status) for run_status in standings])]
    for run_status in standings:
        if run_status.run.unverified is not None:
            lines.append(run_status.run.unverified)
        elif run_status.run.live or len(standings) == 1:
            lines.append(bills_line(run_status.run))
        if run_status.run.message and not run_status.run.live:
            lines.append(f"run {run_status.run.run_id}: {run_status.run.message}")
    return lines


def _row(run_status: RunStatus) -> tuple[str, ...]:
    run = run_status.run
    ends = f"{run.deadline.astimezone():%Y-%m-%d %H:%M}" if run.live else "-"
    target = run.attempt.target if run.attempt else None
    where = target.where if target and not is_here(run.provider) else run.provider
    if is_simulated(run.provider):
        where += " (simulated)"
    costs = format_usd_per_hour(run.bills_usd_per_hour) if run.bills else "-"
    so_far = format_usd(Decimal(str(run_status.usd)))
    return (run.run_id, run.job_name, where, run.phase, run_status.progress, so_far, costs, ends)


def _json(run_status: RunStatus) -> dict[str, object]:
    run = run_status.run
    return {
        "run_id": run.run_id,
        "job_name": run.job_name,
        "provider": run.provider,
        "phase": run.phase,
        "outcome": run.outcome,
        "message": run.message,
        "progress": run_status.progress,
        "deadline": run.deadline.isoformat(),
        "attempts": len(run.attempts),
        "usd_so_far": run_status.usd,
        "bills_usd_per_hour": float(run.bills_usd_per_hour),
        "unverified": run.unverified,
    }
