"""The command of agent.pyz: `run` the attempt and end the machine, only `end` it, or `say` how start-up failed."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, Callable

from trainplan.providers.agent.agent import Agent
from trainplan.providers.agent.clock import Clock
from trainplan.providers.agent.container import container_memory_gib
from trainplan.providers.agent.end import End
from trainplan.providers.agent.endings import RESTARTING, Ending, failed
from trainplan.providers.agent.loop import drive, until
from trainplan.providers.agent.machine import AgentMachine, memory_bytes
from trainplan.providers.agent.processes import MachineProcesses, Processes
from trainplan.providers.agent.requests import Access
from trainplan.providers.agent.spec import Paths, SpecError, read_spec
from trainplan.providers.agent.status import FINAL, Status, last_said
from trainplan.providers.agent.store import RefusedError, patiently
from trainplan.providers.agent.stores import open_store
from trainplan.providers.agent.vault import Redactor

BOOT = Path("/etc/trainplan/boot.json")
SPEC = Path("/usr/local/lib/trainplan/spec.json")
_SAY_SECONDS = 20.0
_WHY = {
    "deadline": Ending("deadline", "DEADLINE", "the machine's deadline was reached"),
    "boot": failed("BOOT_DEADLINE", "training had not begun by the boot deadline"),
    "crashes": failed("MACHINE_CRASHES", "four times in a row the machine went down before the next checkpoint"),
    "after": failed("AGENT_DIED", "the machine's own program ended without a word"),
}


def main(arguments: list[str]) -> int:
    """`run`, `end [deadline|boot|crashes|after]` or `say REASON MESSAGE`; exit code 0 for what was done, else 2."""
    try:
        return act(arguments, machine(BOOT, SPEC, Paths(), Clock(), MachineProcesses()))
    except (SpecError, OSError) as error:
        sys.stderr.write(f"trainplan: {error}\n")
        return 2


def machine(boot: Path, spec: Path, paths: Paths, clock: Clock, processes: Processes) -> AgentMachine:
    """What the files say. Raises SpecError and OSError."""
    try:
        entries: dict[str, Any] = json.loads(boot.read_text(encoding="utf-8"))
        access = Access(entries, now=clock.now)
    except (ValueError, KeyError) as error:
        raise SpecError(f"{boot}: {error}") from error
    store = open_store(access)
    asked = read_spec(spec.read_text(encoding="utf-8"))
    asked = replace(asked, memory_gib=asked.memory_gib or container_memory_gib(memory_bytes()))
    return AgentMachine(asked, paths, clock, processes, access, store)


def act(arguments: list[str], here: AgentMachine) -> int:
    """What was asked for, on this machine."""
    verb = arguments[0] if arguments else ""
    if verb == "run":
        agent = Agent(here)
        signal.signal(signal.SIGTERM, _goes_down(agent))
        ending = agent.run()
        # From here on the end of the system is our own doing.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if ending.state == RESTARTING:
            return 0
    elif verb == "end":
        speak(here, _WHY.get(arguments[1] if len(arguments) > 1 else "deadline", _WHY["after"]))
    elif verb == "say" and len(arguments) == 3:
        _, reason, message = arguments
        more = _kernels_end(here.processes) if reason == "MACHINE_CRASHES" else []
        speak(here, failed(reason, "; ".join([message, *more])))
        return 0
    else:
        sys.stderr.write(f"{main.__doc__}\n")
        return 2
    end(here)
    return 0


def speak(here: AgentMachine, ending: Ending) -> None:
    """The last status, where no last word was said before."""
    here.paths.make()
    copy = here.paths.root / "status.json"
    earlier = last_said(copy)
    if earlier.get("state") in FINAL and earlier.get("attempt") == here.spec.attempt:
        return
    status = Status(here.store, here.spec, here.clock, copy, Redactor())
    status.set(ending.state, ending.message, ending.reason)
    try:
        telling = until(here.clock, here.clock.now() + _SAY_SECONDS, patiently(status.write))
        drive(telling, lambda: False, here.clock)
    except RefusedError as error:
        sys.stderr.write(f"trainplan: {error}\n")


def _kernels_end(processes: Processes) -> list[str]:
    """What the kernel said last before this boot, as far as the disk has it."""
    ran = processes.run(("journalctl", "-qkb-1", "-n5", "-ocat"), _SAY_SECONDS)
    return [] if ran.code else ran.output.splitlines()


def end(here: AgentMachine) -> None:
    """End this machine, as the specification of its run says."""
    End(here.spec.end, here.access, here.processes, here.clock).machine()


def _goes_down(agent: Agent) -> Callable[[int, FrameType | None], None]:
    def on_signal(number: int, frame: FrameType | None) -> None:
        del number, frame
        agent.watch.going_down = True

    return on_signal


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
