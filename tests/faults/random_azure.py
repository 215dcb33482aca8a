"""Azure in the random sequences: what Resource Manager refuses with, and a world out of chance."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import trainplan.providers.azure.listing as listing
from tests.doubles.azure.arm import Arm
from tests.doubles.azure.rules import SUBSCRIPTION, Rules
from tests.doubles.azure.world import World
from tests.faults.azure import BASE, REGIONS, TYPE, AzureCloud
from tests.faults.chance import ANY, TIMER_GRACE, Drawn, Kind, Trouble, a_trouble, a_world
from tests.faults.sim import Hung
from trainplan.providers.azure.names import machine_path
from trainplan.providers.sim.scenario import Script

if TYPE_CHECKING:
    from random import Random

    from tests.faults.harness import Lived
    from trainplan.providers.base import OwnedResource

_CREATES = ("PUT virtualMachines",)
_LISTS = ("GET resourcegroups", "GET resources", "GET roleAssignments")
_CALLS = (
    *_CREATES, *_LISTS, "PUT resourceGroups", "PUT networkSecurityGroups", "PUT virtualNetworks", "PUT roleAssignments",
    "GET resourceGroups", "GET virtualMachines", "POST virtualMachinesSubmitDeallocate", "DELETE resourceGroups",
    "DELETE virtualMachines", "DELETE networkSecurityGroups", "DELETE virtualNetworks", "DELETE roleAssignments",
)  # fmt: skip
_STORE = ("GetObject", "PutObject", "ListObjects")

KINDS = (
    Kind(calls=(*_CALLS, *_STORE), how=({"code": "TooManyRequests"},), often=2),
    Kind(calls=_CALLS, how=({"code": "InternalServerError"}, {"code": "ServiceUnavailable"})),
    Kind(
        calls=_CREATES,
        how=(
            {"code": "SkuNotAvailable"},
            {"code": "ZonalAllocationFailed"},
            {"code": "SpotPriceGreaterThanProvidedMaxPrice"},
            {"code": "QuotaExceeded"},
            {"code": "NobodyKnowsThisCode"},
        ),
        often=2,
    ),
    Kind(calls=(*_CALLS, *_STORE), how=({"effect": "lost_request"},), often=2),
    Kind(calls=(*_CALLS, *_STORE), how=({"effect": "lost_reply"},), often=2),
    Kind(calls=_CREATES, how=({"effect": "lost_reply"},)),
    Kind(calls=_CALLS, how=({"effect": "slow", "takes": "8s"},)),
    Kind(calls=ANY, how=({"code": "ExpiredAuthenticationToken"},), lasts=True),
    Kind(calls=_LISTS, how=({"code": "InternalServerError"},), lasts=True),
)
ENDING, STOPPED = ("reclaim", "crash", "vanish", "lose_device"), ("maintenance",)
"""What befalls machines: they are gone, or end themselves, or they are deallocated, and disk and address stay."""
_CORES = 4
"""Of one machine."""


class RandomAzure(AzureCloud):
    """`tests.faults.random_cloud.RandomCloud` over Azure's double.

    The machine's own timer always works: Azure's is a call of its own, and only deallocates.
    """

    has_disks = False
    timer_grace = TIMER_GRACE

    def __init__(self, chance: Random, *, never_back: bool) -> None:
        # One list after the other: the same calls in the same order for a seed.
        listing._WORKERS = 1
        events = ENDING if never_back else (*ENDING, *STOPPED)
        drawn = a_world(chance, KINDS, events, never_back=never_back)
        # A create that fails by its operation leaves disk and address until somebody comes.
        refuses = "sync" if never_back else chance.choice(("sync", "lro"))
        self.world = World(_rules(drawn, refuses), Hung() if drawn.hung else None)
        self.world.life.physics.play(Script.model_validate({"faults": [_fault(known) for known in drawn.troubles]}))
        self.arm = Arm(self.world, BASE)
        self.listing_lag = timedelta(seconds=drawn.lag)

    def break_more(self, chance: Random) -> None:
        self.world.life.physics.play(Script.model_validate({"faults": [_fault(a_trouble(chance, KINDS))]}))

    def mend(self) -> None:
        self.world.life.physics.state.faults.clear()

    def name_of(self, resource: OwnedResource) -> str:
        return machine_path(SUBSCRIPTION, resource.id) if resource.instance else resource.id

    def region_of(self, row: Lived) -> str:
        return REGIONS[0]  # a price has no region here

    def timed(self, row: Lived) -> bool:
        return True


def _rules(drawn: Drawn, refuses: str) -> Rules:
    return Rules(
        listing_lag=timedelta(seconds=drawn.lag),
        deletion=timedelta(seconds=3 * drawn.deletion),
        notice=timedelta(seconds=drawn.notice),
        page_size=drawn.page_size,
        full=tuple((REGIONS[placement], TYPE, "*") for placement in drawn.full),
        refuses=refuses,
        limits={
            (REGIONS[placement], name): count * _CORES
            for placement, count in drawn.narrow.items()
            for name in ("standardNCASv3_T4Family", "lowPriorityCores")
        },
        forgets_delete_option=drawn.stay,
        leaves_rights=drawn.stay,
        cloud_timer_works=drawn.cloud_timer,
        incidents=tuple(_incident(one.event, one.attempt, one.after) for one in drawn.befalls),
    )


def _incident(event: str, attempt: int | None, after: float) -> dict[str, Any]:
    return {"event": event, "attempt": attempt, "after": f"{after}s"}


def _fault(trouble: Trouble) -> dict[str, Any]:
    """As the double is told of it."""
    return {
        "operation": trouble.call,
        "skip": trouble.skip,
        "times": trouble.times,
        "chance": trouble.chance,
        "start": timedelta(seconds=trouble.begin),
        "end": None if trouble.end is None else timedelta(seconds=trouble.end),
        **trouble.how,
    }
