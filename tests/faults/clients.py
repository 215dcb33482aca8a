"""What people type, as the processes of the harness do it: launch, status, stop, cleanup."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tests.builders import LARGE_DATA, job_values
from tests.faults.cases import Case
from tests.faults.forks import die
from tests.faults.harness import Ask, Cloud
from tests.faults.pilots import as_comparing, as_pilot
from tests.faults.points import PointedJournal, Points
from trainplan.planner.api import build
from trainplan.planner.cli.commands import attach as attach_command
from trainplan.planner.cli.commands import cleanup as cleanup_command
from trainplan.planner.cli.commands import launch as launch_command
from trainplan.planner.cli.commands import status as status_command
from trainplan.planner.cli.commands import stop as stop_command
from trainplan.planner.clock import Clock
from trainplan.planner.errors import PlanError
from trainplan.planner.runs.directory.run_keys import RunKeys
from trainplan.planner.runs.execution.executor import Detached
from trainplan.planner.runs.execution.nobody import Nobody
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.journal.locks import RunLocks
from trainplan.planner.runs.run import Phase
from trainplan.planner.runs.runner import request_for
from trainplan.planner.settings import Settings
from trainplan.providers import interrupts, registry
from trainplan.providers.base import RunId
from trainplan.providers.errors import ProviderError
from trainplan.workloads.job import TrainingJob

if TYPE_CHECKING:
    from trainplan.planner.runs.run import Run
    from trainplan.providers.base import Provider, ProviderSettings

try:
    from trainplan.planner.home.client import own_client
except ImportError:  # the product of an older checkout (benchmarks/left_alone.py --code)
    own_client = None

RUN_ID = RunId("261121-00000001")
LOOK_SECONDS = (15.0, 30.0, 60.0, 120.0, 240.0)
MOST_LOOKS = 60
PAST_DEADLINE = timedelta(hours=1)
PRESSED_AT = 20
"""The point of a command at which somebody presses Ctrl-C."""
READ_SECONDS = 1.0
TRAINS = timedelta(hours=60)
"""How long the job of a case with hours in it trains on the doubles' machines."""
_PROVIDERS: list[Provider] = []


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
    return _PROVIDERS[-1]


def label_of(settings: Settings) -> str:
    """What machines carry that are launched from this home."""
    return own_client(settings).id if own_client is not None else settings.client


def job_of(case: Case) -> dict[str, Any]:
    """What the case trains, as a job file has it: some seconds, or 60 hours on the doubles' machines."""
    limits = {"deadline": case.deadline, **({"budget_usd": case.budget_usd} if case.budget_usd else {})}
    if case.hours:
        values = long_job_values(limits, large_data=case.large_data)
        return {**values, "sweep": {"optimizer.learning_rate": [0.1, 0.03, 0.01]}} if case.sweep else values
    large = LARGE_DATA if case.large_data else {}
    if case.sweep:
        limits = {"deadline": case.deadline}
        sweep = {"optimizer.learning_rate": [0.1, 0.03, 0.01, 0.003], "budget_usd": case.budget_usd}
        return job_values(epochs=4, checkpoint_every="20s", constraints=limits, sweep=sweep, **large)
    return job_values(epochs=4, checkpoint_every="20s", constraints=limits, **large)


def long_job_values(limits: dict[str, str], *, large_data: bool = False) -> dict[str, Any]:
    """A job file of something that trains for 60 hours on a T4 of the simulated cloud."""
    large = LARGE_DATA if large_data else {}
    net = {**large.get("model", {}), "preset": "vgg16", "image_size": 320}
    values = {"global_batch_size": 16, "epochs": 130, "checkpoint_every": "30m", "constraints": limits}
    return job_values(**{**large, **values, "model": net})


def launch(desk: Desk, ask: Ask, points: Points) -> None:
    """From the question to the receipt. Ends with what was reached, told as ("points", names)."""
    provider = _arrive(desk, ask, points)
    case, settings = desk.case, desk.settings
    job = TrainingJob.model_validate(job_of(case))
    with PointedJournal.open(settings.journal) as journal:
        runner = build.runner(journal, settings, lambda _: None, provider.name, Nobody())
        targets = desk.cloud.targets(case.market)
        if case.hours:
            targets = tuple(replace(target, seconds=TRAINS.total_seconds()) for target in targets)
        draft = runner.draft(job, targets, timedelta(minutes=10), desk.home / "model")
        run = replace(draft, run_id=RUN_ID)
        run = as_pilot(run, try_settings=case.settings) or run if case.pilot else run
        run = as_comparing(run, leaves=case.machines > 1)[0] if case.compares else run
        request = request_for(job, build.clock_of(provider), client=label_of(settings), key=RunKeys(settings.home).key)
        try:
            runner.prepare(request(run, 1, run.targets[0]))
            runner.record(run, job, {})
            runner.follow(run, request, until_launched=case.hours)
        except Detached:
            pass
        except PlanError as error:
            ask(("said", error.message))
    ask(("points", points.names))


def launch_again(desk: Desk, ask: Ask, points: Points, *, detach: bool) -> None:
    """`plan launch JOB --yes`, with the very job that was launched before."""
    provider = _arrive(desk, ask, points)
    file = desk.home / "job.yaml"
    file.write_text(json.dumps(job_of(desk.case)))
    try:
        launch_command.command(
            job_file=file, provider=[provider.name], yes=True, detach=detach, as_json=True, market=[desk.case.market],
            device=[desk.cloud.targets(desk.case.market)[0].offer.device], output=desk.home / f"again-{os.getpid()}",
        )  # fmt: skip
    except (PlanError, ProviderError, typer.Exit, SystemExit) as error:
        ask(("said", str(error)))


def launch_elsewhere(desk: Desk, ask: Ask, points: Points) -> None:
    """The same by a person at another computer that has this home: a login node."""
    os.environ["PLAN_COMPUTER"] = "another-login-node"
    launch_again(desk, ask, points, detach=True)


def stop(desk: Desk, ask: Ask, points: Points, *, gives_up: bool = False) -> None:
    """`plan stop RUN`, to the receipt; `gives_up` with --give-up-results."""
    _arrive(desk, ask, points)
    try:
        stop_command.command(name=RUN_ID, give_up_results=gives_up, as_json=True)
    except (PlanError, typer.Exit) as error:
        ask(("said", str(error)))


def status(desk: Desk, ask: Ask, points: Points) -> None:
    """`plan status`, again and again while time passes, until nothing is live or the deadline is long over."""
    provider = _arrive(desk, ask, points)
    clock = build.clock_of(provider)
    for number in range(MOST_LOOKS):
        ask(("looking",))
        _look(ask)
        ask(("looked",))
        run = desk.recorded()
        if run is None or not run.live or clock.now() > run.deadline + PAST_DEADLINE:
            return
        clock.sleep(LOOK_SECONDS[min(number, len(LOOK_SECONDS) - 1)])


def attach(desk: Desk, ask: Ask, points: Points | None = None) -> None:
    """`plan attach`, which follows the run to its end; a run that never began is none to attach to."""
    _arrive(desk, ask, points or Points())
    try:
        attach_command.command(name=RUN_ID, as_json=True)
    except (PlanError, ProviderError, typer.Exit) as error:
        ask(("said", str(error)))


def attach_after_a_look(desk: Desk, ask: Ask, points: Points) -> None:
    """`plan attach`, and the whole of a `plan status` after it has read the run and before it has the run's lock."""
    real = RunLocks.holding

    def holding(self: RunLocks, run_id: RunId) -> AbstractContextManager[bool]:
        RunLocks.holding = real
        ask(("meanwhile",))
        return real(self, run_id)

    RunLocks.holding = holding
    attach(desk, ask, points)


def attach_until_a_signal(desk: Desk, ask: Ask, points: Points) -> None:
    """`plan attach`, to a signal that comes at `points.at`. It goes on at `points.stops` where it has not heard it."""

    def unheard(number: int) -> None:
        ask(("unheard", points.names[number]))
        die()

    points.stopped = unheard
    try:
        with interrupts.noted():
            attach(desk, ask, points)
    except interrupts.HungUp:
        pass


def signal_where_errors_are_dropped() -> None:
    """A signal to this process within a `__del__`, whose exceptions Python ignores."""

    class Last:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    Last()


def question(desk: Desk, ask: Ask, points: Points) -> None:
    """`plan attach` where somebody presses Ctrl-C, and then leaves the terminal without an answer.

    `points` are those of what happens after that.
    """
    from trainplan.planner.api.ask import ask as put
    from trainplan.planner.cli.person import AtTerminal

    provider = _arrive(desk, ask, points)
    clock, terminal = build.clock_of(provider), _EmptyChair(build.clock_of(provider))
    attach_command.person = lambda view, news: AtTerminal(
        view, lambda text, run: put(text, terminal, clock, news=lambda: news.of(run))
    )
    last, dies = points.at, points.happens

    def pressed() -> None:
        points.at, points.happens = last, dies
        raise KeyboardInterrupt

    points.at, points.happens = PRESSED_AT, pressed
    try:
        attach_command.command(name=RUN_ID, as_json=True)
    except (PlanError, ProviderError, typer.Exit, KeyboardInterrupt) as error:
        ask(("said", str(error)))


@dataclass(frozen=True)
class _EmptyChair:
    """A terminal at which nobody sits any more; time passes all the same."""

    clock: Clock

    def is_there(self) -> bool:
        return True

    def write(self, text: str) -> None:
        """Nobody reads it."""

    def read(self, seconds: float) -> str | None:
        self.clock.sleep(max(seconds, READ_SECONDS))
        return None


def look_once(desk: Desk, ask: Ask, points: Points | None = None) -> None:
    """`plan status`, once."""
    _arrive(desk, ask, points or Points())
    _look(ask)


def ask_to_stop(desk: Desk, ask: Ask) -> None:
    """What `plan stop` does before it looks on."""
    clock = build.clock_of(_arrive(desk, ask, Points()))
    run = desk.recorded()
    if run is not None and run.phase is not Phase.DONE:
        with Journal.open(desk.settings.journal) as journal:
            journal.ask_to_stop(RUN_ID, clock.now())


def cleanup(desk: Desk, ask: Ask, points: Points | None = None) -> None:
    """`plan cleanup --yes`, as cron runs it."""
    provider = _arrive(desk, ask, points or Points())
    try:
        cleanup_command.command(provider=provider.name, dry_run=False, everything=False, yes=True, as_json=True)
    except (PlanError, typer.Exit) as error:
        ask(("said", str(error)))


def _arrive(desk: Desk, ask: Ask, points: Points) -> Provider:
    """A newly started command: its provider, and nothing that another one had in its memory."""
    desk.case.break_code()
    provider = desk.cloud.provider(ask, points)
    PointedJournal.points = points
    build.Journal = PointedJournal
    _PROVIDERS.append(provider)
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
