"""The simulated cloud of a home folder: one SQLite file that each call moves to the present, changes and commits.

No process stands behind it. Its time passes whether or not anybody looks, since every call first does what was due
meanwhile; a client that is killed inside a call leaves the file as it was before the call.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainplan.providers import interrupts
from trainplan.providers.errors import MachineError
from trainplan.providers.sim.api import RefusedError, canonical
from trainplan.providers.sim.calls import call
from trainplan.providers.sim.ledger import ledger
from trainplan.providers.sim.persistence import Keeper
from trainplan.providers.sim.scenario import Scenario, Script
from trainplan.providers.sim.values import Code
from trainplan.providers.sim.world import SCENARIO, World

if TYPE_CHECKING:
    from trainplan.providers.sim.tables import State
    from trainplan.providers.sim.training import Trainer

WORLD = "world.sqlite"
_SPEED, _AS_OF = "speed", "as of"
"""Notes of the file: simulated seconds in a real one, and the real instant (Unix seconds) of the world's present."""

_LAST_INSTANT = datetime(9000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How a world is run: its rules, and how many of its seconds pass in a real one (0: only when somebody sleeps)."""

    scenario: Scenario
    speed: float


class SimCloud:
    """The cloud in `folder`, made on first use. `now` is when a new world begins; `unix_seconds` and `pause` are real
    time, and how to wait for it. The first call of each object puts its `setup` in force. Use from one thread."""

    def __init__(
        self,
        folder: Path,
        setup: Setup,
        now: Callable[[], datetime],
        *,
        trainer: Trainer | None = None,
        unix_seconds: Callable[[], float] = time.time,
        pause: Callable[[float], None] = interrupts.wait,
    ) -> None:
        self._folder, self._setup, self._begin, self._trainer = folder, setup, now, trainer
        self._unix_seconds, self._pause = unix_seconds, pause
        self._keeper: Keeper | None = None
        self._world: World | None = None

    def call(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Send one call. Raises RefusedError or DisconnectedError, or MachineError where the file is not usable."""
        with self._present() as world:
            try:
                return call(world, operation, json.loads(canonical(parameters)))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise RefusedError(Code.BAD_PARAMETER, f"{type(error).__name__}: {error}") from error

    def now(self) -> datetime:
        """The time in the simulated cloud. Raises MachineError."""
        with self._present() as world:
            return world.now

    def sleep(self, seconds: float) -> None:
        """Wait for so many seconds of the simulated time; where it stands still, move it. Raises MachineError."""
        speed = self._setup.speed
        if not speed:
            self.advance(seconds)
            return
        until = self.now() + timedelta(seconds=seconds)
        while (remaining := (until - self.now()).total_seconds()) > 0:
            self._pause(remaining / speed)

    def advance(self, seconds: float) -> datetime:
        """Move the simulated time by so many seconds at once, and return it."""
        with self._present() as world:
            world.advance(world.now + timedelta(seconds=seconds))
            return world.now

    def play(self, script: Script) -> list[str]:
        """Faults and incidents besides those of the scenario. Returns the faults' ids."""
        with self._present() as world:
            return world.play(script)

    def ledger(self) -> dict[str, Any]:
        """All that ever was in the cloud, and what it cost (trainplan.providers.sim.ledger)."""
        with self._present() as world:
            return ledger(world.state, world.now)

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        if self._keeper is not None:
            self._keeper.close()
        self._keeper = self._world = None

    @contextlib.contextmanager
    def _present(self) -> Iterator[World]:
        """The world as it is now, changed by one client at a time; what is changed is saved when the block ends.

        A refusal is a change too: the cloud counts calls and faults. A signal that breaks into the block leaves none.
        """
        try:
            keeper = self._opened()
            with keeper.changing() as others_changed_it:
                world = self._brought_up(keeper, anew=others_changed_it)
                try:
                    yield world
                except Exception:
                    keeper.save(world.state)
                    raise
                keeper.save(world.state)
        except (OSError, sqlite3.Error) as error:
            self.close()
            text = f"the simulated cloud in {self._folder} cannot be used: {error}"
            raise MachineError(text, hint=_hint_of(error)) from error
        except Exception:
            raise
        except BaseException:
            self.close()  # what was changed in memory is not in the file
            raise

    def _opened(self) -> Keeper:
        if self._keeper is None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._keeper = Keeper(self._folder / WORLD)
        return self._keeper

    def _brought_up(self, keeper: Keeper, *, anew: bool) -> World:
        """The world of the file, after everything that was due by now."""
        world, is_first = self._world, self._world is None
        if world is None or anew:
            state = keeper.load()
            world = self._world = World(self._rules_of(state), self._begin(), self._trainer, state)
        self._pass_time(world)
        if is_first:
            if world.scenario != self._setup.scenario:
                world.follow(self._setup.scenario)
            world.state.notes[_SPEED] = str(self._setup.speed)
        return world

    def _rules_of(self, state: State) -> Scenario:
        """Those that hold in the file until this client's are in force; another client may have put in others since."""
        try:
            return Scenario.model_validate_json(state.notes[SCENARIO])
        except (KeyError, ValueError):
            return self._setup.scenario

    def _pass_time(self, world: World) -> None:
        """Do what was due since the last call, at the speed that held then."""
        notes, real = world.state.notes, self._unix_seconds()
        seconds = (real - float(notes.get(_AS_OF, real))) * float(notes.get(_SPEED, "0"))
        if seconds > 0:
            # A clock that is years off, or a year of absence at a high speed, would leave the calendar.
            until_last = (_LAST_INSTANT - world.now).total_seconds()
            world.advance(world.now + timedelta(seconds=max(0.0, min(seconds, until_last))))
        notes[_AS_OF] = repr(real)


def _hint_of(error: OSError | sqlite3.Error) -> str:
    """What to do about a file that cannot be used: one that is damaged is of no use any more, a full disk is."""
    if getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return "removing that folder begins a new simulated cloud"
    return "make room on its disk, or give the folder to your user: what is in it stays"
