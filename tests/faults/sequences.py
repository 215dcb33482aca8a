"""Random sequences of commands and faults in one cloud, and whether all that is promised holds whatever happens."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import tempfile
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.builders import LARGE_DATA, a_job
from tests.doubles.clock import NOON
from tests.faults.clients import long_job_values
from tests.faults.clouds import random_cloud, row_of
from tests.faults.commands import Command, Computer, installed
from tests.faults.forks import lines_in_turn
from tests.faults.holding import MOST_CALLS, Holding, Limits
from tests.faults.hours import PAUSES
from trainplan.planner.home.client import client_of
from trainplan.planner.home.computer import this_computer
from trainplan.planner.runs.directory.run_keys import RunKeys
from trainplan.planner.runs.journal.journal import Journal
from trainplan.pricing.offers import Market
from trainplan.workloads.job import TrainingJob

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainplan.planner.runs.targets import Target

SHORT = tuple(timedelta(seconds=seconds) for seconds in (5, 60, 400, 1500))
_HOURS = PAUSES
LARGE_SHARE = 0.8
"""Of the jobs in a world where data may need a disk of its own, those whose data does."""
_LONG = timedelta(days=1)
"""A run that may take longer is left alone for hours."""


@dataclass
class Sequence:
    """One seed's world, computer and what was typed there. `told` is what a failing seed prints."""

    seed: int
    home: Path
    name: str = "sim"
    messages: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)
        self.never_back = self.chance.random() < 0.4
        self.cloud = random_cloud(self.name)(self.chance, never_back=self.never_back)
        self.computer = Computer(self.home, self.cloud, row_of(self.name).provider, self.messages)
        self.holding = Holding(self.cloud, self.computer)
        self.launched = self.holding.launched
        self.depth = 0

    def play(self) -> None:
        """Raises AssertionError where something does not hold."""
        if self.chance.random() < 0.3:
            self.cloud.plant()
        for _ in range(self.chance.choice((1, 2, 2, 3, 4))):
            self._step()
        self.holding.cleanup_finds_all_and_only_ours()
        if self.never_back:
            self.holding.nobody_comes_back()
        else:
            self.holding.somebody_comes_back()
        self.holding.machines_kept_their_limits()
        self.holding.nothing_healthy_was_destroyed()

    def _step(self) -> None:
        kind = self.chance.random()
        if not self.launched or kind < 0.3:
            self._launch()
        elif kind < 0.5:
            self.computer.status(self._command())
        elif kind < 0.6:
            self._stop(self._command())
        elif kind < 0.75:
            self.computer.attach(self._command(), self._some_run())
        elif kind < 0.85:
            self.computer.cleanup(self._command())
        elif kind < 0.93:
            self.cloud.break_more(self.chance)
        else:
            self._pass_time(SHORT)
        if any(known.lasting > _LONG for known in self.launched.values()) and self.chance.random() < 0.5:
            self._pass_time(_HOURS)

    def _pass_time(self, pauses: tuple[timedelta, ...]) -> None:
        self.cloud.pass_time(self.cloud.now() + self.chance.choice(pauses))

    def _stop(self, command: Command) -> None:
        name = self._some_run()
        self.holding.wished_at.setdefault(name, self.cloud.now())
        self.computer.stop(command, name)

    def _launch(self) -> None:
        kind, market = self.chance.choice((0, 0, 1, 2, 3)), self.chance.choice(tuple(Market))
        job = _job(kind, large_data=self.cloud.has_disks and self.chance.random() < LARGE_SHARE)
        name = f"261121-{len(self.launched) + 1:08}"
        targets = _within(self.cloud.targets(market), regions=self.chance.choice((1, 2, 3)))
        run = self.computer.draft(name, job, targets)
        lasting = run.deadline - run.created_at
        self.launched[name] = Limits(lasting=lasting, budget_usd=run.budget_usd, targets=targets)
        detach = lasting > _LONG and self.chance.random() < 0.6
        self.computer.launch(self._command(), run, job, detach=detach)

    def _some_run(self) -> str:
        return self.chance.choice(list(self.launched))

    def _command(self) -> Command:
        """Killed at a random call, or in the end; others are typed while it works."""
        early, late = self.chance.randrange(1, 20), self.chance.randrange(10, 150)
        dies_at = self.chance.choice((early, late, MOST_CALLS, MOST_CALLS))
        return Command(dies_at, self._meanwhile)

    def _meanwhile(self) -> None:
        if self.depth or self.chance.random() > 0.01:
            return
        self.depth = 1
        try:
            self.chance.choice((self._look, self._stopped, self._cleaned, self._broke))()
        finally:
            self.depth = 0

    def _look(self) -> None:
        self.computer.status(Command(self.chance.choice((6, 40))))

    def _stopped(self) -> None:
        self._stop(Command(self.chance.choice((3, 20))))

    def _cleaned(self) -> None:
        self.computer.cleanup(Command(self.chance.choice((20, 60))))

    def _broke(self) -> None:
        self.cloud.break_more(self.chance)


@cache
def _job(kind: int, *, large_data: bool) -> TrainingJob:
    limits = ({"deadline": "20m"}, {"deadline": "15m", "budget_usd": "0.15"}, {"deadline": "1h", "budget_usd": "0.2"})
    if kind == len(limits):
        return TrainingJob.model_validate(long_job_values({"deadline": "5d"}, large_data=large_data))
    large = LARGE_DATA if large_data else {}
    if kind == len(limits) - 1:  # the budget of a sweep is a run's
        deadline, budget_usd = limits[kind].values()
        large |= {"sweep": {"optimizer.learning_rate": [0.1, 0.03, 0.01], "budget_usd": budget_usd}}
        return a_job(epochs=2, checkpoint_every="10s", constraints={"deadline": deadline}, **large)
    return a_job(epochs=2, checkpoint_every="10s", constraints=limits[kind], **large)


def _within(targets: tuple[Target, ...], *, regions: int) -> tuple[Target, ...]:
    """Those of the first regions."""
    first = list(dict.fromkeys(target.offer.region for target in targets))[:regions]
    return tuple(target for target in targets if target.offer.region in first)


@contextlib.contextmanager
def _home(seed: int, empty: Path) -> Iterator[Path]:
    """A home whose client id and secret, and with them labels and keys, depend on the seed alone."""
    folder = empty.parent / f"seed-{seed}"
    folder.mkdir()
    try:
        shutil.copyfile(empty, folder / "journal.sqlite")
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(secrets, "token_hex", lambda size: Random(seed).randbytes(size).hex())
            client_of(folder, this_computer())
            RunKeys(folder)._secret(NOON)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def template() -> Iterator[Path]:
    """An empty journal, made once, in a folder that goes with the block."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="plan-sequences-", dir=memory if memory.is_dir() else None) as folder:
        made = Path(folder) / "journal.sqlite"
        Journal.open(made).close()
        yield made


def played(seed: int, empty: Path, name: str = "sim", kind: type[Sequence] = Sequence) -> Sequence:
    """One sequence of a kind. Raises AssertionError naming the seed where something does not hold."""
    with _home(seed, empty) as home, installed(home, row_of(name).provider), lines_in_turn():
        sequence = kind(seed, home, name)
        try:
            sequence.play()
        except Exception as error:
            said = "\n".join(sequence.messages[-12:])
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}\nlast said:\n{said}") from error
        return sequence
