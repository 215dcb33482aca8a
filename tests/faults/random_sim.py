"""The simulated cloud in the random sequences: what chance makes of its stock, quotas, reclaims, timers and calls."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tests.doubles.clock import NOON
from tests.faults.sim import FirstFallsSilent, FirstNeverBegins, Hung, SimCloud
from trainplan.providers.base import LABEL_ATTEMPT, LABEL_CLIENT, LABEL_DEADLINE, LABEL_RUN, OwnedResource
from trainplan.providers.sim.calls import call
from trainplan.providers.sim.scenario import Scenario, Script
from trainplan.providers.sim.values import Why
from trainplan.providers.sim.world import World

if TYPE_CHECKING:
    from random import Random

    from tests.faults.harness import Lived
    from trainplan.providers.sim.training import Trainer

REGIONS = ("sim-east", "sim-west", "sim-north")
_LISTS = ("ListInstances", "ListDisks", "ListAddresses", "ListSchedules")
_CALLS = (
    "*", "RunInstance", "DescribeInstance", "DeleteInstance", "GetObject", "ListObjects", "PutObject",
    "CreateSchedule", "GetImage", "DeleteDisk", *_LISTS,
)  # fmt: skip
_HANG = (Hung, FirstFallsSilent, FirstNeverBegins)
TIMER_GRACE = timedelta(minutes=5)


class SimOf(SimCloud):
    """The simulated cloud in a scenario of one's own."""

    def __init__(self, scenario: Scenario, trainer: Trainer | None = None) -> None:
        self.scenario = scenario
        self.world = World(scenario, NOON, trainer)


class RandomSim(SimOf):
    """`tests.faults.random_cloud.RandomCloud` over the simulated cloud."""

    has_disks = False
    timer_grace = TIMER_GRACE

    def __init__(self, chance: Random, *, never_back: bool) -> None:
        scenario = a_scenario(chance, leaves_disks=not never_back)
        super().__init__(scenario, chance.choice(_HANG)() if chance.random() < 0.2 else None)
        self.listing_lag = scenario.listing_lag

    def plant(self) -> None:
        theirs = {
            LABEL_RUN: "261121-ffffffff", LABEL_ATTEMPT: "1", LABEL_CLIENT: "another computer",
            LABEL_DEADLINE: (NOON + timedelta(days=3)).isoformat(),
        }  # fmt: skip
        for number, labels in enumerate((theirs, {"team": "others"})):
            given = {
                "region": "sim-west", "zone": "sim-west-b", "instanceType": "a100.one", "market": "on_demand",
                "image": "img-planted", "clientToken": f"planted-{number}", "labels": labels, "userData": {},
            }  # fmt: skip
            with contextlib.suppress(Exception):  # no stock, no quota, a fault: then nothing is planted
                call(self.world, "RunInstance", given)

    def break_more(self, chance: Random) -> None:
        self.world.play(a_script(chance))

    def mend(self) -> None:
        self.world.state.faults.clear()

    def name_of(self, resource: OwnedResource) -> str:
        return resource.id

    def region_of(self, row: Lived) -> str:
        state = self.world.state
        return state.machines[row.id].region if row.machine else state.things[row.id].region

    def timed(self, row: Lived) -> bool:
        """The timer of a machine that the provider has stopped does not run any more, and what is left then is its
        disk (docs/maintainers/reliability.md)."""
        state = self.world.state
        machine = state.machines[row.id if row.machine else state.things[row.id].machine]
        by_cloud = machine.cloud_timer_at is not None and self.scenario.cloud_timer_works
        return by_cloud or machine.why is not Why.MAINTENANCE


def a_scenario(chance: Random, *, leaves_disks: bool) -> Scenario:
    """A world in which at least one timer always works."""
    boot, deletion = chance.choice((5, 30)), chance.choice((2, 30))
    machine_timer = chance.random() < 0.7
    return Scenario(
        seed=chance.randrange(2**32),
        boot=(timedelta(seconds=boot), timedelta(seconds=3 * boot)),
        deletion=(timedelta(seconds=deletion), timedelta(seconds=2 * deletion)),
        clean_up=(timedelta(seconds=1), timedelta(seconds=chance.choice((3, 40)))),
        listing_lag=timedelta(seconds=chance.choice((0, 5, 12))),
        notice=timedelta(seconds=chance.choice((0, 20, 120))),
        timer_grace=TIMER_GRACE,
        page_size=chance.choice((1, 2, 20)),
        standing_reaper=not machine_timer or chance.random() < 0.5,
        machine_timer_works=machine_timer,
        cloud_timer_works=not machine_timer or chance.random() < 0.7,
        disks_stay=leaves_disks and chance.random() < 0.5,
        addresses_stay=leaves_disks and chance.random() < 0.5,
        stock=chance.choice((1, 1, 2, 8)),
        reclaims_per_hour=chance.choice((0.0, 0.0, 5.0, 30.0)),
        placements=tuple({"region": region, "stock": 0} for region in REGIONS if chance.random() < 0.25),
        quotas=tuple(
            {"region": region, "devices": chance.choice((0, 1))} for region in REGIONS if chance.random() < 0.1
        ),
        **_script(chance, chance.randrange(4)),
    )


def a_script(chance: Random) -> Script:
    """Something more that goes wrong, from now on."""
    return Script.model_validate(_script(chance, 1))


def _script(chance: Random, count: int) -> dict[str, Any]:
    faults, incidents = [], []
    for _ in range(count):
        if chance.random() < 0.8:
            faults.append(_fault(chance))
        else:
            incidents.append({"event": chance.choice(_BEFALLS), "after": f"{chance.choice((1, 20, 50))}s"})
    return {"faults": faults, "incidents": incidents}


_BEFALLS = ("reclaim", "maintenance", "lose_device", "crash", "vanish")


def _fault(chance: Random) -> dict[str, Any]:
    kind = chance.random()
    if kind < 0.15:
        begin = chance.choice((0, 20, 60, 120))
        return {"code": "ExpiredCredentials", "times": None, "start": f"{begin}s", "end": f"{begin + 90}s"}
    if kind < 0.3:
        where = {"region": chance.choice(REGIONS)}
        wrong = {"effect": "warning"} if chance.random() < 0.5 else {"code": "PlacementUnavailable"}
        return {"operation": chance.choice(_LISTS), "where": where, "times": None, "end": "150s", **wrong}
    how: dict[str, Any] = chance.choice((
        {"code": "Throttled"},
        {"code": "InternalError"},
        {"code": "InsufficientCapacity", "operation": "RunInstance"},
        {"effect": "lost_reply"},
        {"effect": "lost_reply"},
        {"effect": "lost_request"},
        {"effect": "slow", "takes": "8s"},
    ))  # fmt: skip
    often: dict[str, Any] = chance.choice(({"times": 1}, {"times": 5}, {"times": None, "chance": 0.2, "end": "240s"}))
    return {"operation": chance.choice(_CALLS), "skip": chance.choice((0, 0, 1, 4)), **often, **how}
