"""The double's machines as real ones: what is to be booted, what is to lose its power, what is off."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tests.e2e.yard.machine import Machine
from tests.faults.harness import EndedBy

if TYPE_CHECKING:
    from tests.doubles.azure.server import AzureServer
    from tests.doubles.azure.values import Thing


class Rented:
    """`tests.e2e.yard.watcher.CloudDouble` over a server of this process, whose rules say `real`."""

    def __init__(self, server: AzureServer) -> None:
        self._server = server
        self._booted: dict[str, Thing] = {}

    def to_boot(self) -> Sequence[Machine]:
        with self._server.lock:
            new = [vm for vm in self._server.world.machines() if vm.name not in self._booted and not vm.error]
            self._booted |= {vm.name: vm for vm in new}
            for vm in new:
                vm.power = "running"
            return [self._machine(vm) for vm in new]

    def to_kill(self) -> Sequence[str]:
        with self._server.lock:
            return [name for name, vm in self._booted.items() if vm.stopped_at or vm.ended_at or vm.goes_at]

    def machine_ended(self, name: str) -> None:
        """Spot that was taken back is deleted; a guest that is off bills on."""
        with self._server.lock:
            vm = self._booted[name]
            if vm.evicted:
                self._server.world.remove(vm, EndedBy.PROVIDER, "eviction")
            elif vm.stopped_at is None:
                vm.power = "stopped"

    def _machine(self, vm: Thing) -> Machine:
        text = base64.b64decode(vm.body["properties"]["osProfile"]["customData"]).decode()
        token = self._server.world.rules.machine_token
        return Machine(name=vm.name, cloud="azure", user_data=text, region=vm.location, token=token)
