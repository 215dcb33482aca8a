"""Compute Engine's machines as real ones: what is to be booted, what is to lose its power, what is off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tests.doubles.google.machines import table_of
from tests.e2e.yard.machine import Machine

if TYPE_CHECKING:
    from tests.doubles.google.server import Host

TOKEN = "token-of-the-machine"


class Rented:
    """`tests.e2e.yard.watcher.CloudDouble` over a server of this process, whose scenario is `real`."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._booted: set[str] = set()

    def to_boot(self) -> Sequence[Machine]:
        with self._host.lock:
            made = [known for known in table_of(self._host.world).machines if known.is_created and not known.is_gone]
            new = [known for known in made if known.name not in self._booted]
            self._booted |= {known.name for known in new}
            return [
                Machine(
                    name=known.name,
                    cloud="gcp",
                    user_data=known.user_data,
                    region=known.zone.rpartition("-")[0],
                    token=TOKEN,
                )
                for known in new
            ]

    def to_kill(self) -> Sequence[str]:
        with self._host.lock:
            return [known.name for known in table_of(self._host.world).machines if known.status == "STOPPING"]

    def machine_ended(self, name: str) -> None:
        with self._host.lock:
            table = table_of(self._host.world)
            for known in table.machines:
                if known.name == name:
                    table.off(known)
