"""Two commands on one run: wherever one of them stands, another may act on the run as a whole and be gone again.

The second command runs within the first, at a call of a function of the launch engine or of what commands share: the
first goes on with what it had read before. Judged by the provider's own count of machines and by the journal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

import trainplan
import trainplan.planner.api
import trainplan.planner.runs
from tests.desk import TINY, own_home
from tests.doubles import fake_provider
from tests.doubles.clock import FakeClock
from tests.doubles.fake_machine import done_at_once
from tests.doubles.fake_provider import FakeProvider
from tests.unit.planner.api.test_living_run import trains_until_asked
from tests.unit.planner.cli.command import plan
from trainplan.planner.clock import SystemClock
from trainplan.planner.errors import PlanError
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.journal.locks import RunLocks
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.providers.base import InstanceState, LaunchRequest, RunId
from trainplan.providers.errors import TransientError

ROOMS = tuple(str(Path(str(room.__file__)).parent) for room in (trainplan.planner.runs, trainplan.planner.api))
MOST_SLEEPS = 6
"""Then whoever sits at a command that waits for the other one presses Ctrl-C."""
IS_WHOLE = os.environ.get("TRAINPLAN_PAIRS") == "all"
"""Every pair in every state; else each pair in one state or two, drawn by the seed of the fault suites."""
POINTS = 5
"""Of each pair of commands in each state of the run, drawn; one where it is not the whole."""


class Clock(FakeClock):
    """Its time may be broken off by Ctrl-C."""

    def __init__(self) -> None:
        super().__init__()
        self.left = MOST_SLEEPS

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.left -= 1
        if self.left <= 0:
            raise KeyboardInterrupt


class Counting(FakeProvider):
    """How many machines there were, and how many at one time."""

    at_once = 0

    def launch(self, request: LaunchRequest) -> Any:
        made = super().launch(request)
        alive = [
            one
            for one in self.machines.values()
            if one.sighting.state is not InstanceState.ENDED and one.request.max_steps is None  # no pilot
        ]
        self.at_once = max(self.at_once, len(alive))
        return made

    @property
    def attempts(self) -> set[tuple[RunId, int]]:
        return {(request.run_id, request.attempt) for request in self.received}


class World:
    """A home, a provider, and one run of the job in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = Clock()
        self.provider = Counting(self.clock, [done_at_once], tidy=True)
        self.succeeded: set[RunId] = set()
        self.may_train_anew = False

    @property
    def runs(self) -> list[Run]:
        with Journal.open(self.folder / "home" / "journal.sqlite") as journal:
            return list(journal.runs())

    def run(self) -> Run:
        return self.runs[-1]

    def typed(self, command: str) -> None:
        """One command from its beginning to its end, whose exit code has to be what the journal says then."""
        before, self.clock.left = self.clock.left, MOST_SLEEPS
        if command == "launch" and self.run().outcome is Outcome.SUCCEEDED:
            self.may_train_anew = True  # whoever launches a job that has succeeded wants it trained anew
        try:
            code = COMMANDS[command](self.run().run_id)
        finally:
            self.clock.left = before
        run = self.run()
        allowed = {
            0: {Outcome.SUCCEEDED},
            6: {Outcome.FAILED, Outcome.INTERRUPTED},
            8: {Outcome.DEADLINE, Outcome.BUDGET},
        }.get(code)
        if command in ("launch", "attach", "wait") and allowed is not None and run.phase is Phase.DONE:
            assert run.outcome in allowed, f"{command} left with {code}, and the journal has {run.outcome}"
        self.succeeded |= {run.run_id for run in self.runs if run.outcome is Outcome.SUCCEEDED}


def _launch(run_id: RunId) -> int:
    return plan("launch", "job.yaml", "--provider", "local", "--yes", "--json").code


def _python(act: Callable[[trainplan.Run], object]) -> Callable[[RunId], int]:
    def called(run_id: RunId) -> int:
        try:
            act(trainplan.Run(run_id))
        except PlanError as error:
            return int(error.exit_code)
        except KeyboardInterrupt:
            return 130
        return 130 if trainplan.Run(run_id).status().outcome == "stopped" else 0

    return called


COMMANDS: dict[str, Callable[[RunId], int]] = {
    "launch": _launch,
    "attach": lambda run_id: plan("attach", run_id, "--json").code,
    "status": lambda run_id: plan("status", "--json").code,
    "stop": lambda run_id: plan("stop", run_id, "--json").code,
    "cleanup": lambda run_id: plan("cleanup", "--provider", "local", "--yes", "--json").code,
    "pilot": lambda run_id: plan("pilot", "job.yaml", "--provider", "local", "--budget", "1", "--yes", "--json").code,
    "wait": _python(lambda run: run.wait(quiet=True)),
    "Run.stop": _python(lambda run: run.stop(quiet=True)),
}


def trained(world: World) -> None:
    """Trained to its end while nobody looked."""
    (machine,) = world.provider.machines.values()
    machine.live()
    world.provider.machines.clear()


def trained_late(world: World) -> None:
    """The same, and its deadline is over."""
    trained(world)
    world.clock.advance(5 * 86_400)


def unread(world: World) -> None:
    """The same, and its store does not answer the first command."""
    trained_late(world)
    store = world.provider.store(world.run().run_id)
    store.down = TransientError("connection lost")
    world.typed("status")
    store.down = None


def training(world: World) -> None:
    """Nothing has happened."""


def interrupted(world: World) -> None:
    """Its machine is lost, a checkpoint is there."""
    (machine,) = world.provider.machines.values()
    machine.start()
    machine.train(3, 4000.0)
    machine.checkpoint()
    world.provider.machines.clear()
    world.typed("status")


STATES: dict[str, tuple[Callable[[World], None], Any, int]] = {
    "trained": (trained, done_at_once, 1),
    "trained, late": (trained_late, done_at_once, 1),
    "unread": (unread, done_at_once, 1),
    "training": (training, trains_until_asked, 1),
    "interrupted": (interrupted, done_at_once, 2),
}
"""How a run stands, what its machines do, and how many the job may come to take."""


class Meanwhile:
    """Runs the other command in the `number`th call of a function that commands share, counted from 1; 0: in none."""

    def __init__(self, number: int, act: Callable[[], None], db: Callable[[], bool]) -> None:
        self.seen = 0
        self._number = number
        self._act = act
        self._is_writing = db

    def __call__(self, frame: Any, event: str, argument: object) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(ROOMS):
            return
        self.seen += 1
        # Within such a block the other process waits for its end.
        if self._number and self.seen >= self._number and not self._is_writing():
            self._number = 0
            sys.setprofile(None)
            self._act()

    @contextmanager
    def during(self) -> Iterator[None]:
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)


@pytest.fixture
def writing(monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Whether this process does what others wait for: it writes the journal, or decides on a launch."""
    depth = 0

    def counted(kind: type, name: str) -> None:
        real = getattr(kind, name)

        @contextmanager
        def block(*given: Any) -> Iterator[Any]:
            nonlocal depth
            depth += 1
            try:
                with real(*given) as value:
                    yield value
            finally:
                depth -= 1

        monkeypatch.setattr(kind, name, block)

    counted(Journal, "_write")
    counted(RunLocks, "deciding")
    return lambda: depth > 0


@contextmanager
def world_of(state: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    folder.mkdir()
    own_home(folder, monkeypatch)
    (folder / "job.yaml").write_text(TINY)
    prepare, script, _ = STATES[state]
    world = World(folder)
    world.provider.scripts = [script]
    monkeypatch.setattr(SystemClock, "now", lambda _: world.clock.now())
    monkeypatch.setattr(SystemClock, "sleep", lambda _, seconds: world.clock.sleep(seconds))
    with fake_provider.as_this_machine(world.provider, monkeypatch):
        plan("launch", "job.yaml", "--provider", "local", "--yes", "--detach", "--json")
        prepare(world)
        yield world


@pytest.mark.slow
@pytest.mark.parametrize("first", ["launch", "attach", "status", "stop", "cleanup", "wait"])
def test_two_commands_never_take_a_second_machine_nor_undo_an_end(
    first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writing: Callable[[], bool]
) -> None:
    chance = Random(f"{first} {os.environ.get('TRAINPLAN_FAULTS_SEED', '')}")
    states = list(STATES) if IS_WHOLE else [chance.choice(list(STATES)) for _ in range(2)]
    for state in dict.fromkeys(states):
        with world_of(state, tmp_path / state, monkeypatch) as world:
            alone = Meanwhile(0, lambda: None, writing)
            with alone.during(), suppress(KeyboardInterrupt):
                world.typed(first)
        for second in COMMANDS:
            for number in chance.sample(range(1, alone.seen), POINTS if IS_WHOLE else 1):
                folder = tmp_path / f"{state} {second} {number}"
                with world_of(state, folder, monkeypatch) as world:
                    meanwhile(world, first, Meanwhile(number, partial(world.typed, second), writing))
                    judge(world, state, f"{state}: {second} at call {number} of {first}")


def meanwhile(world: World, first: str, other: Meanwhile) -> None:
    """The first command with another one within it, then a look."""
    with other.during(), suppress(KeyboardInterrupt):
        world.typed(first)
    world.typed("status")


def judge(world: World, state: str, where: str) -> None:
    provider, runs = world.provider, [run for run in world.runs if run.model_folder]
    first = runs[-1]
    assert provider.at_once <= 1, where
    assert len(runs) == 1 or world.may_train_anew, where
    assert len([run_id for run_id, _ in provider.attempts if run_id == first.run_id]) <= STATES[state][2], where
    for run in runs:
        if run.run_id in world.succeeded:
            assert run.outcome is Outcome.SUCCEEDED, f"{where}: {run.outcome} ({run.message})"
    if state.startswith(("trained", "unread")):
        assert first.outcome is Outcome.SUCCEEDED, f"{where}: {first.outcome} ({first.message})"
        assert (Path(first.model_folder) / "model.keras").is_file(), where
