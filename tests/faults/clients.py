"""What people type, as the processes of the harness do it: launch, status, stop, sweep."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from planner.cli import attach as attach_command
from planner.cli import build
from planner.cli import status as status_command
from planner.cli import sweep as sweep_command
from planner.cli.person import Nobody
from planner.errors import PlanError
from planner.journal import Journal
from planner.run import Phase
from planner.runner import request_for
from planner.settings import Settings
from providers import registry
from providers.base import RunId
from tests.builders import a_job
from tests.faults.cases import Case
from tests.faults.harness import Cloud
from tests.faults.points import PointedJournal, Points

if TYPE_CHECKING:
    from planner.run import Run
    from providers.base import Provider, ProviderSettings
    from tests.faults.harness import Ask

RUN_ID = RunId("261121-00000001")
LOOK_SECONDS = (15.0, 30.0, 60.0, 120.0, 240.0)
MOST_LOOKS = 60
PAST_DEADLINE = timedelta(hours=1)
_WANTED: list[Provider] = []


@dataclass(frozen=True)
class Desk:
    """One person's computer: a state folder, and a cloud to ask."""

    home: Path
    case: Case
    cloud: Cloud

    @property
    def settings(self) -> Settings:
        return Settings(home=self.home)

    def recorded(self) -> Run | None:
        """The run as the journal has it; None where it is not there."""
        if not self.settings.journal.exists():
            return None
        with Journal.open(self.settings.journal) as journal:
            return next((run for run in journal.runs() if run.run_id == RUN_ID), None)


def make(settings: ProviderSettings) -> Provider:
    """What the registry calls in a client."""
    del settings
    return _WANTED[-1]


def launch(desk: Desk, ask: Ask, points: Points) -> None:
    """From the question to the receipt. Ends with what was reached, told as ("points", names)."""
    provider = _arrive(desk, ask, points)
    case, settings = desk.case, desk.settings
    job = a_job(
        epochs=4,
        checkpoint_every="20s",
        constraints={"deadline": case.deadline, **({"budget_usd": case.budget_usd} if case.budget_usd else {})},
    )
    with PointedJournal.open(settings.journal) as journal:
        runner = build.runner(journal, settings, lambda _: None, provider.name, Nobody())
        targets = desk.cloud.targets(case.market)
        draft = runner.draft(job, targets, timedelta(minutes=10), desk.home / "model")
        run = replace(draft, run_id=RUN_ID)
        request = request_for(job, build.clock_of(provider), client=settings.client)
        try:
            runner.prepare(request(run, 1, targets[0]))
            runner.record(run, job, {})
            runner.follow(run, request)
        except PlanError as error:
            ask(("said", error.message))
    ask(("points", points.names))


def status(desk: Desk, ask: Ask, points: Points) -> None:
    """`plan status`, again and again while time passes, until nothing is live or the deadline is long over."""
    provider = _arrive(desk, ask, points)
    clock = build.clock_of(provider)
    for number in range(MOST_LOOKS):
        _look(ask)
        run = desk.recorded()
        if run is None or not run.live or clock.now() > run.deadline + PAST_DEADLINE:
            return
        clock.sleep(LOOK_SECONDS[min(number, len(LOOK_SECONDS) - 1)])


def attach(desk: Desk, ask: Ask) -> None:
    """`plan attach`, which follows the run to its end; a run that never began is none to attach to."""
    _arrive(desk, ask, Points())
    try:
        attach_command.command(name=RUN_ID, as_json=True)
    except (PlanError, typer.Exit) as error:
        ask(("said", str(error)))


def look_once(desk: Desk, ask: Ask) -> None:
    """`plan status`, while another command is at work."""
    _arrive(desk, ask, Points())
    _look(ask)


def ask_to_stop(desk: Desk, ask: Ask) -> None:
    """What `plan stop` does before it looks on."""
    clock = build.clock_of(_arrive(desk, ask, Points()))
    run = desk.recorded()
    if run is not None and run.phase is not Phase.DONE:
        with Journal.open(desk.settings.journal) as journal:
            journal.ask_to_stop(RUN_ID, clock.now())


def sweep(desk: Desk, ask: Ask) -> None:
    """`plan sweep --yes`, as cron runs it."""
    provider = _arrive(desk, ask, Points())
    try:
        sweep_command.command(provider=provider.name, dry_run=False, everything=False, yes=True, as_json=True)
    except (PlanError, typer.Exit) as error:
        ask(("said", str(error)))


def _arrive(desk: Desk, ask: Ask, points: Points) -> Provider:
    """A newly started command: its provider, and nothing that another one had in its memory."""
    desk.case.break_code()
    provider = desk.cloud.provider(ask, points)
    PointedJournal.points = points
    build.Journal = PointedJournal  # type: ignore[attr-defined]
    _WANTED.append(provider)
    registry.FACTORIES[provider.name] = f"{__name__}:make"
    os.environ["PLAN_HOME"] = str(desk.home)
    return provider


def _look(ask: Ask) -> None:
    try:
        status_command.command(name=None, watch=False, as_json=True)
    except (PlanError, typer.Exit) as error:
        ask(("said", str(error)))
    except sqlite3.Error as error:
        ask(("said", f"sqlite: {error}"))
