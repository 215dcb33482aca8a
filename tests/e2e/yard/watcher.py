"""Between a cloud's double and the yard: what was created is booted, what was deleted loses its power, what is off has
ended."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tests.e2e.yard.machine import Machine, Running
    from tests.e2e.yard.yard import Yard

_LOOK_SECONDS = 0.5


class CloudDouble(Protocol):
    """What a double of a cloud's API tells, and is told. The watcher's thread calls all three."""

    def to_boot(self) -> Sequence[Machine]:
        """Instances that were created and have not been booted; each is given once."""
        ...

    def to_kill(self) -> Sequence[str]:
        """Names of instances that somebody has deleted, the machine itself included; given as often as wanted."""
        ...

    def machine_ended(self, name: str) -> None:
        """The machine is off, by itself or killed: stopped or terminated, as the instance was asked for."""


class Watcher:
    """`with Watcher(yard, double)`: `machines` are those that were booted, by name, also when they are off."""

    def __init__(self, yard: Yard, double: CloudDouble) -> None:
        self.machines: dict[str, Running] = {}
        self.failed: list[Exception] = []
        self._yard = yard
        self._double = double
        self._off: set[str] = set()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        for error in self.failed:
            raise error

    def _watch(self) -> None:
        while not self._end.wait(_LOOK_SECONDS):
            try:
                self._look()
            except Exception as error:  # noqa: BLE001  raised where the test ends
                self.failed.append(error)
                return

    def _look(self) -> None:
        for machine in self._double.to_boot():
            self.machines[machine.name] = self._yard.boot(machine)
        deleted = set(self._double.to_kill())
        for name, running in tuple(self.machines.items()):
            if name in self._off:
                continue
            if name in deleted:
                running.kill()
            if running.is_off():
                self._off.add(name)
                self._double.machine_ended(name)
