"""Commands within one process, for very many of them: each has its own provider and journal, and may be cut off."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tests.faults.harness import Cloud
from tests.faults.points import Points
from trainplan.planner.api import build
from trainplan.planner.cli.commands import attach as attach_command
from trainplan.planner.cli.commands import cleanup as cleanup_command
from trainplan.planner.cli.commands import status as status_command
from trainplan.planner.cli.commands import stop as stop_command
from trainplan.planner.errors import PlanError
from trainplan.planner.home.client import own_client
from trainplan.planner.runs.directory.run_keys import RunKeys
from trainplan.planner.runs.execution.executor import Detached
from trainplan.planner.runs.execution.nobody import Nobody
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.runner import request_for
from trainplan.planner.settings import Settings
from trainplan.providers import registry
from trainplan.providers.errors import ProviderError

if TYPE_CHECKING:
    import sqlite3

    from trainplan.planner.runs.run import Run
    from trainplan.planner.runs.targets import Target
    from trainplan.providers.base import Provider, ProviderSettings
    from trainplan.workloads.job import TrainingJob

SIGN = f"{__name__}:make"
_TIME = ("sleep", "alive")
"""What a client tells the harness when it sleeps."""
_AT_WORK: list[Command] = []


class Killed(BaseException):
    """The process of a command has gone. Nothing of it reaches the cloud or the journal any more."""


@dataclass
class Command:
    """One process: dies at its call or write number `dies_at`; `meanwhile` is told of each before it is made."""

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


@dataclass
class CommandPoints(Points):
    """The points of one command: what happens there, the command knows."""

    command: Command = field(kw_only=True)

    def _reach(self, name: str) -> None:
        self.command.reach()


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
    """One person's computer: its state folder, the cloud it reaches, and the commands that are typed there."""

    home: Path
    cloud: Cloud
    provider: str = "sim"
    messages: list[str] = field(default_factory=list)

    @property
    def settings(self) -> Settings:
        return Settings(home=self.home)

    def asks(self, command: Command) -> Provider:
        """The provider as this command makes it."""

        def ask(message: tuple[Any, ...]) -> Any:
            if message[0] in _TIME:
                command.reach()
            return self.cloud.answer(message)

        return self.cloud.provider(ask, CommandPoints(command=command))

    @contextlib.contextmanager
    def at_work(self, command: Command) -> Iterator[None]:
        """Whatever is typed meanwhile is this command; it leaves by itself, by an error for people, or killed."""
        others = list(build._OPEN)
        build._OPEN.clear()
        _AT_WORK.append(command)
        _PROVIDERS.append(self.asks(command))
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                yield
        except (PlanError, typer.Exit, Killed, Detached) as end:
            self.messages.append(f"{type(end).__name__} {end}")
        except ProviderError as error:
            # plan cleanup and plan status translate these at the edge (trainplan.planner.cli.main).
            self.messages.append(f"{type(error).__name__} {error}")
        finally:
            command.dead = True
            _PROVIDERS.pop()
            _AT_WORK.pop()
            build.let_go()
            build._OPEN.extend(others)

    def launch(self, command: Command, run: Run, job: TrainingJob, *, detach: bool = False) -> None:
        with self.at_work(command), CommandJournal.open(self.settings.journal) as journal:
            runner = build.runner(journal, self.settings, self._hear, self.provider, Nobody())
            request = request_for(
                job,
                build.clock_of(_PROVIDERS[-1]),
                client=own_client(self.settings).id,
                key=RunKeys(self.settings.home).key,
            )
            runner.prepare(request(run, 1, run.targets[0]))
            runner.record(run, job, {})
            runner.follow(run, request, until_launched=detach)

    def draft(self, name: str, job: TrainingJob, targets: tuple[Target, ...]) -> Run:
        with self.at_work(Command(None)), CommandJournal.open(self.settings.journal) as journal:
            runner = build.runner(journal, self.settings, self._hear, self.provider, Nobody())
            made = runner.draft(job, targets, timedelta(minutes=20), self.model_of(name))
        return replace(made, run_id=type(made.run_id)(name))

    def model_of(self, name: str) -> Path:
        """Where the model of a run comes to."""
        return self.home / f"model-{name}"

    def status(self, command: Command) -> None:
        with self.at_work(command):
            status_command.command(name=None, watch=False, as_json=True)

    def stop(self, command: Command, name: str) -> None:
        with self.at_work(command):
            stop_command.command(name=name, as_json=True)

    def attach(self, command: Command, name: str) -> None:
        with self.at_work(command):
            attach_command.command(name=name, as_json=True)

    def cleanup(self, command: Command) -> None:
        with self.at_work(command):
            cleanup_command.command(provider=self.provider, dry_run=False, everything=False, yes=True, as_json=True)

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
def installed(home: Path, provider: str = "sim") -> Iterator[None]:
    """The command line on this computer: its state folder, its provider, a journal that can be cut off."""
    before = registry.FACTORIES[provider], os.environ.get("PLAN_HOME"), build.Journal  # type: ignore[attr-defined]
    registry.FACTORIES[provider], os.environ["PLAN_HOME"] = SIGN, str(home)
    build.Journal = CommandJournal  # type: ignore[attr-defined]
    try:
        yield
    finally:
        registry.FACTORIES[provider], build.Journal = before[0], before[2]  # type: ignore[attr-defined]
        if before[1] is None:
            del os.environ["PLAN_HOME"]
        else:
            os.environ["PLAN_HOME"] = before[1]
