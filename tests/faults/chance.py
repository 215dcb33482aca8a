"""What chance makes of a world: stock, quota, reclaims, and calls that are throttled, lost, slow or refused."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from providers.sim.scenario import Scenario, Script

if TYPE_CHECKING:
    from random import Random

REGIONS = ("sim-east", "sim-west", "sim-north")
_LISTS = ("ListInstances", "ListDisks", "ListAddresses", "ListSchedules")
_CALLS = (
    "*", "RunInstance", "DescribeInstance", "DeleteInstance", "GetObject", "ListObjects", "PutObject",
    "CreateSchedule", "GetImage", "DeleteDisk", *_LISTS,
)  # fmt: skip
TIMER_GRACE = timedelta(minutes=5)


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
        places=tuple({"region": region, "stock": 0} for region in REGIONS if chance.random() < 0.25),
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
        wrong = {"effect": "warning"} if chance.random() < 0.5 else {"code": "PlaceUnavailable"}
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
