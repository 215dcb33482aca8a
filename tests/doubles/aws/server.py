"""The double's server: AWS under every path but /double/, where a test steers it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.doubles import in_turn
from tests.doubles.aws import backends, functions, patches, quick
from tests.doubles.aws.front import Environ, Front, Organisation, Start
from tests.doubles.aws.ledger import ledger
from tests.doubles.aws.scenario import Fault, Scenario, scenario_of
from tests.doubles.aws.world import World

if TYPE_CHECKING:
    from tests.doubles.aws.machines import Machine
    from tests.doubles.shown_time import ShownTime

STEER = "/double/"


class Server:
    """One world at a time, one request at a time. `shown` always has the world's time."""

    def __init__(self, shown_clock: ShownTime | None = None) -> None:
        self._shown_clock = shown_clock
        self._lock = threading.Lock()
        aws = quick.application()
        organised = Organisation(aws, lambda: self.front.world)
        self.front = Front(organised, World(Scenario()))
        functions.install(organised)
        patches.install(lambda: self.front.world)
        quick.install()
        self.reset(Scenario())

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if self.front.world.scenario.latency and not path.startswith(STEER):
            threading.Event().wait(self.front.world.scenario.latency)
        with self._lock:
            try:
                return self._answered(path, environ, start)
            finally:
                if self._shown_clock is not None:
                    self._shown_clock.show(self.front.world.now)

    def _answered(self, path: str, environ: Environ, start: Start) -> Iterable[bytes]:
        if not path.startswith(STEER):
            return self.front(environ, start)
        given = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        told = self.steered(path.removeprefix(STEER), json.loads(given or b"{}"))
        data = json.dumps(told, default=str).encode()
        start("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(data)))])
        return [data]

    def reset(self, scenario: Scenario) -> None:
        """A new account in a new world."""
        backends.reset()
        self.front.world = World(scenario)
        self.front.armed.clear()
        self.front.forget_calls()
        self.front.arm(scenario.faults)
        backends.set_up(self.front.world)

    def permit(self, policies: list[str], withheld: Sequence[str] = ()) -> None:
        """From now on whoever calls may do what these policies say, less what is withheld."""
        rights = {"policies": tuple(policies), "withheld": tuple(withheld)}
        self.front.world.scenario = self.front.world.scenario.model_copy(update=rights)

    def steered(self, what: str, steering: dict[str, Any]) -> Any:
        world = self.front.world
        if what != "reset":
            world.catch_up()
        verbs: dict[str, Callable[[], Any]] = {
            "reset": lambda: self.reset(scenario_of(steering)),
            "now": world.now.isoformat,
            "advance": lambda: world.advance(datetime.fromisoformat(steering["until"])),
            "sleep": lambda: world.advance(world.now + timedelta(seconds=steering["seconds"])),
            "script": lambda: self.front.arm(Fault.model_validate(row) for row in steering["faults"]),
            "unpermitted": lambda: self.front.judge.refused,
            "needed": lambda: [asdict(need) for need in self.front.judge.needed.values()],
            "permit": lambda: self.permit(**steering),
            "refusals": lambda: self.front.refusals,
            "unmet": lambda: [at.isoformat() for at in world.unmet.refused_at],
            "mend": self.front.armed.clear,
            "ledger": lambda: ledger(world),
            "calls": lambda: [call.to_json() for call in self.front.calls],
            "forget": self.front.forget_calls,
            "spend": lambda: world.actions.spend(**steering),
            "mails": lambda: world.actions.mails,
            "reclaim": lambda: world.take(world.machines[steering["id"]], "reclaim"),
            "real": lambda: [_real(row) for row in world.machines.values()],
            "off": lambda: world.off(world.machines[steering["id"]]),
            "trains_until": lambda: _trains_until(world, steering["run"]),
            **in_turn.VERBS,
        }
        return verbs[what]()


def _real(machine: Machine) -> dict[str, Any]:
    return {
        "id": machine.id,
        "region": machine.region,
        "user_data": machine.user_data,
        "booted": machine.booted,
        "ended": machine.ended_at is not None,
    }


def _trains_until(world: World, run: str) -> str | None:
    for machine in world.machines.values():
        if machine.run == run and machine.ended_at is None and machine.ending is not None:
            return machine.ending.at.isoformat()
    return None
