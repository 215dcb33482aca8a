"""The double's machines as they live: boot, train, write their run directory, end. The simulated cloud's own."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.doubles.machine_command import measuring_of
from trainplan.providers.base import LABEL_ATTEMPT, LABEL_RUN
from trainplan.providers.sim.calls import call
from trainplan.providers.sim.life import ended_machine
from trainplan.providers.sim.training import Simulated, Trainer
from trainplan.providers.sim.values import MachineState, SimMachine, Why
from trainplan.providers.sim.world import World as Physics

if TYPE_CHECKING:
    from tests.doubles.azure.rules import Rules

_REGION = "sim-east"
_TYPES = {"Standard_NC4as_T4_v3": "t4.one", "Standard_NC24ads_A100_v4": "a100.one"}
_DEADLINE = re.compile(r"\[ \"\$now\" -lt (\d+) \] \|\| systemctl --no-block start trainplan-deadline")
_BOOT = re.compile(r"/etc/trainplan/boot\.json\n  content: (\".*\")")
_KEY = re.compile("[0-9a-f]{64}")
_RUN = re.compile(r"/runs/([^/\"]+)$")


class Life:
    """Machines by name. Time is moved by whoever has it."""

    def __init__(self, rules: Rules, trainer: Trainer | None) -> None:
        self.trainer = trainer or Simulated()
        self.physics = Physics(rules.physics(), rules.start, self.trainer)

    def begin(self, name: str, body: dict[str, Any]) -> SimMachine:
        """A machine of this create. Raises ValueError for a start-up text that is not one of ours."""
        read = start_up_of(body)
        spec = self.physics.state.objects.get(f"{read['run']}/attempts/{read['attempt']}/machine/spec.json")
        if spec:
            read["trains_until"] = json.loads(spec)["deadline"]
        measuring = measuring_of(spec)
        if measuring.max_steps is not None:
            read["max_steps"] = str(measuring.max_steps)
        if measuring.until_steady:
            read["until_steady"] = "yes"
        if measuring.try_settings:
            read["try_settings"] = "yes"
        asked = {
            "region": _REGION,
            "zone": None,
            "instanceType": _type_of(body["properties"]["hardwareProfile"]["vmSize"]),
            "market": "spot" if body["properties"].get("priority") == "Spot" else "on_demand",
            "image": "img-azure",
            "clientToken": name,
            "labels": {LABEL_RUN: read["run"], LABEL_ATTEMPT: read["attempt"]},
            "userData": read,
        }
        made = call(self.physics, "RunInstance", asked)
        return self.physics.state.machines[str(made["id"])]

    def of(self, name: str) -> SimMachine:
        return self.physics.state.machines[name]

    def end(self, name: str, why: Why) -> None:
        """It is switched off; what it has written by then is written."""
        machine = self.of(name)
        if machine.state in (MachineState.TERMINATED, MachineState.SHUTTING_DOWN):
            return
        self.physics.tell(machine.labels[LABEL_RUN])
        machine = self.of(name)
        self.physics.put(ended_machine(machine, self.physics.now, why, self.physics.scenario))

    def next_at(self) -> datetime | None:
        """When something happens to a machine next."""
        found = self.physics._next()
        return found[1].at if found else None

    def ask_to_stop(self, run: str) -> None:
        """What a machine sees that looks into control/."""
        for machine in list(self.physics.state.machines.values()):
            if machine.labels.get(LABEL_RUN) == run and machine.live and machine.asked_at is None:
                self.physics.put(replace(machine, asked_at=self.physics.now))


def _type_of(size: str) -> str:
    """The simulated cloud's type that trains as a size does: sizes that do not begin with N have no accelerator."""
    return _TYPES.get(size, "t4.one" if size.startswith("Standard_N") else "cpu.eight")


def start_up_of(body: dict[str, Any]) -> dict[str, str]:
    """Run, attempt and deadline out of custom data, as a booting machine would read them."""
    text = base64.b64decode(body["properties"]["osProfile"].get("customData", "")).decode()
    boot, armed = _BOOT.search(text), _DEADLINE.search(text)
    if boot is None:
        raise ValueError("the custom data is no start-up text")
    values = json.loads(json.loads(boot[1]))
    run = _RUN.search(values["run_uri"])
    if run is None:
        raise ValueError(f"{values['run_uri']} is no run directory")
    read = {"run": run[1], "attempt": str(values["attempt"])}
    if _KEY.fullmatch(values.get("run_key", "")):
        read["run_key"] = values["run_key"]
    if armed is not None:
        read["deadline"] = datetime.fromtimestamp(int(armed[1]), UTC).isoformat()
    return read
