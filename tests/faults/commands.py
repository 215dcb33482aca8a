"""Commands within one process, for very many of them: each has its own provider and journal, and may be cut off."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from planner.cli import attach as attach_command
from planner.cli import build
from planner.cli import status as status_command
from planner.cli import stop as stop_command
from planner.cli import sweep as sweep_command
from planner.cli.person import Nobody
from planner.errors import PlanError
from planner.journal import Journal
from planner.launch import Detached
from planner.runner import request_for
from planner.settings import Settings
from providers import registry
from providers.errors import ProviderError
from providers.sim.provider import SimProvider
from providers.sim.world import World
from tests.contract.sim import DirectApi

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from planner.run import Run
    from planner.targets import Target
    from providers.base import Provider, ProviderSettings
    from workloads.job import TrainingJob

SIGN = f"{__name__}:make"
_AT_WORK: list[Command] = []


class Killed(BaseException):
    """The process of a command has gone. Nothing of it reaches the cloud or the journal any more."""


@dataclass
class Command:
    """One process: dies at its call or write number `dies_at`; `meanwhile` is told of each before it is made."""

    world: World
    dies_at: int | None
    meanwhile: Callable[[], None] = lambda: None
    count: int = 0
    dead: bool = False

    def reach(self) -> None:
        self.count += 1
        if self.dies_at is not None and self.count >= self.dies_at:
            self.dead = True
        if self.dead:
            raise Killed
        self.meanwhile()


@dataclass(frozen=True)
class CommandApi:
    """The simulated cloud's API as one command has it (providers.sim.api.Api)."""

    command: Command
    api: DirectApi

    def call(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        self.command.reach()
        reply = self.api.call(operation, parameters)
        self.command.reach()
        return reply

    def now(self) -> datetime:
        return self.api.now()

    def sleep(self, seconds: float) -> None:
        self.command.reach()
        self.api.sleep(seconds)


class CommandJournal(Journal):
    """The journal as the command at work has it."""

    @contextlib.contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        command = _AT_WORK[-1]
        command.reach()
        with super()._write() as db:
            yield db
        if command.dead:
            raise Killed


@dataclass
class Computer:
    """One person's computer: its state folder, and the commands that are typed there."""

    home: Path
    world: World
    said: list[str] = field(default_factory=list)

    @property
    def settings(self) -> Settings:
        return Settings(home=self.home)

    @contextlib.contextmanager
    def at_work(self, command: Command) -> Iterator[None]:
        """Whatever is typed meanwhile is this command; it leaves by itself, by an error for people, or killed."""
        api = CommandApi(command, DirectApi(self.world))
        _AT_WORK.append(command)
        _PROVIDERS.append(SimProvider(self.world.scenario, api))
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                yield
        except (PlanError, typer.Exit, Killed, Detached) as end:
            self.said.append(f"{type(end).__name__} {end}")
        except ProviderError as error:
            # plan sweep and plan status translate these at the edge (planner.cli.main).
            self.said.append(f"{type(error).__name__} {error}")
        finally:
            command.dead = True
            _PROVIDERS.pop()
            _AT_WORK.pop()

    def launch(self, command: Command, run: Run, job: TrainingJob) -> None:
        with self.at_work(command), CommandJournal.open(self.settings.journal) as journal:
            runner = build.runner(journal, self.settings, self._hear, "sim", Nobody())
            request = request_for(job, build.clock_of(_PROVIDERS[-1]), client=self.settings.client)
            runner.prepare(request(run, 1, run.targets[0]))
            runner.record(run, job, {})
            runner.follow(run, request)

    def draft(self, name: str, job: TrainingJob, targets: tuple[Target, ...]) -> Run:
        command = Command(self.world, None)
        with self.at_work(command), CommandJournal.open(self.settings.journal) as journal:
            runner = build.runner(journal, self.settings, self._hear, "sim", Nobody())
            made = runner.draft(job, targets, timedelta(minutes=20), self.home / f"model-{name}")
        return replace(made, run_id=type(made.run_id)(name))

    def status(self, command: Command) -> None:
        with self.at_work(command):
            status_command.command(name=None, watch=False, as_json=True)

    def stop(self, command: Command, name: str) -> None:
        with self.at_work(command):
            stop_command.command(name=name, as_json=True)

    def attach(self, command: Command, name: str) -> None:
        with self.at_work(command):
            attach_command.command(name=name, as_json=True)

    def sweep(self, command: Command) -> None:
        with self.at_work(command):
            sweep_command.command(provider="sim", dry_run=False, everything=False, yes=True, as_json=True)

    def recorded(self) -> list[Run]:
        with Journal.open(self.settings.journal) as journal:
            return list(journal.runs())

    def _hear(self, event: object) -> None:
        """Nobody reads what a command says here."""


_PROVIDERS: list[Provider] = []


def make(settings: ProviderSettings) -> Provider:
    """What the registry calls."""
    del settings
    return _PROVIDERS[-1]


@contextlib.contextmanager
def installed(home: Path) -> Iterator[None]:
    """The command line on this computer: its state folder, its provider, a journal that can be cut off."""
    before = registry.FACTORIES["sim"], os.environ.get("PLAN_HOME"), build.Journal
    registry.FACTORIES["sim"], os.environ["PLAN_HOME"] = SIGN, str(home)
    build.Journal = CommandJournal  # type: ignore[attr-defined]
    try:
        yield
    finally:
        registry.FACTORIES["sim"], build.Journal = before[0], before[2]  # type: ignore[attr-defined]
        if before[1] is None:
            del os.environ["PLAN_HOME"]
        else:
            os.environ["PLAN_HOME"] = before[1]
