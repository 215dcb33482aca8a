"""Google Cloud in the random sequences: what Compute Engine and its storage refuse with, and a world out of chance."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tests.doubles.clock import NOON
from tests.doubles.google.process import Google
from tests.doubles.google.scenario import FaultRule, Scenario
from tests.faults.chance import ANY, TIMER_GRACE, Drawn, Kind, Trouble, a_trouble, a_world
from tests.faults.gcp import REGIONS, GcpCloud, server
from trainplan.providers.errors import ProviderError

if TYPE_CHECKING:
    from random import Random

    from tests.faults.harness import Lived
    from trainplan.providers.base import OwnedResource

_C = "compute"
_LISTS = (f"{_C}.instances.aggregatedList", f"{_C}.disks.aggregatedList", f"{_C}.addresses.aggregatedList")
_CREATES = (f"{_C}.instances.insert",)
_CALLS = (
    *_CREATES, *_LISTS, f"{_C}.instances.get", f"{_C}.instances.delete", f"{_C}.disks.delete",
    f"{_C}.zoneOperations.list", f"{_C}.zoneOperations.wait", f"{_C}.images.getFromFamily",
)  # fmt: skip
STORAGE = ("storage.objects.get", "storage.objects.insert", "storage.objects.list")
EXPIRED: Mapping[str, Any] = {"status": 401, "code": "authError"}

KINDS = (
    Kind(
        calls=_CALLS, how=({"status": 403, "code": "rateLimitExceeded"}, {"status": 429, "code": "rateLimitExceeded"})
    ),
    Kind(calls=STORAGE, how=({"status": 429, "code": "rateLimitExceeded"}, {"status": 503, "code": "backendError"})),
    Kind(calls=_CALLS, how=({"status": 503, "code": "backendError"}, {"status": 500, "code": "internalError"})),
    Kind(
        calls=_CREATES,
        how=(
            {"effect": "operation_error", "status": 503, "code": "ZONE_RESOURCE_POOL_EXHAUSTED"},
            {"effect": "operation_error", "status": 403, "code": "QUOTA_EXCEEDED"},
            {"effect": "operation_error", "status": 500, "code": "INTERNAL_ERROR"},
            {"status": 403, "code": "quotaExceeded"},
            {"status": 400, "code": "nobodyKnowsThisCode"},
        ),
        often=2,
    ),
    Kind(calls=(*_CALLS, *STORAGE), how=({"effect": "lost_request"},), often=2),
    Kind(calls=(*_CALLS, *STORAGE), how=({"effect": "lost_reply"},), often=2),
    Kind(calls=_CREATES, how=({"effect": "lost_reply"},)),
    Kind(calls=ANY, how=(EXPIRED,), lasts=True),
    Kind(
        calls=_LISTS[:2],
        how=tuple({"effect": "warning", "placement": zone} for zones in REGIONS.values() for zone in zones),
        lasts=True,
    ),
)
ENDING, STOPPED = ("preempt", "vanish"), ("maintenance", "crash")
"""What befalls machines: they are gone with their disks, or they stop, which clears Google's timer, and disks stay."""
_REGIONS = tuple(REGIONS)
_QUOTAS = ("NVIDIA_T4_GPUS", "PREEMPTIBLE_NVIDIA_T4_GPUS")


class RandomGcp(GcpCloud):
    """`tests.faults.random_cloud.RandomCloud` over the double of Google Cloud, of which machines are asked."""

    has_disks = False
    timer_grace = TIMER_GRACE
    kinds: Sequence[Kind] = KINDS

    def __init__(self, chance: Random, *, never_back: bool) -> None:
        events = ENDING if never_back else (*ENDING, *STOPPED)
        drawn = a_world(chance, self.kinds, events, never_back=never_back)
        self.google = Google(server().url)  # type: ignore[assignment]
        self.google.reset(Scenario.model_validate({**scenario(drawn), **self.placements(drawn)}))
        self.make_ready()
        for trouble in drawn.troubles:
            self.google.script(_rule(trouble, 0.0))
        self.listing_lag = timedelta(seconds=drawn.lag)

    def make_ready(self) -> None:
        """What `plan setup` makes beforehand: for machines nothing."""

    def placements(self, drawn: Drawn) -> dict[str, Any]:
        """Stock and quotas: of Compute Engine by region."""
        full = {region: 0 if placement in drawn.full else drawn.stock for placement, region in enumerate(_REGIONS)}
        quotas = {_REGIONS[placement]: dict.fromkeys(_QUOTAS, count) for placement, count in drawn.narrow.items()}
        return {"stock": full, "quotas": quotas}

    def plant(self) -> None:
        with contextlib.suppress(ProviderError):  # no stock, no quota, a fault: then nothing is planted
            super().plant()

    def break_more(self, chance: Random) -> None:
        age = (self.now() - NOON).total_seconds()
        self.google.script(_rule(a_trouble(chance, self.kinds), age))

    def mend(self) -> None:
        self.google.control("mend")

    def name_of(self, resource: OwnedResource) -> str:
        return resource.id.partition("/")[2]

    def region_of(self, row: Lived) -> str:
        return row.id.partition("/")[0].rpartition("-")[0]

    def timed(self, row: Lived) -> bool:
        return True


def scenario(drawn: Drawn) -> dict[str, Any]:
    """All of a world but its placements and its troubles."""
    return {
        "began": NOON,
        "seed": drawn.seed,
        "trainer": "hung" if drawn.hung else "simulated",
        "boot_seconds": drawn.boot,
        "deletion_seconds": drawn.deletion,
        "lag_seconds": drawn.lag,
        "notice_seconds": drawn.notice,
        "page_size": drawn.page_size,
        "machine_timer_works": drawn.machine_timer,
        "cloud_timer_works": drawn.cloud_timer,
        "disks_stay": drawn.stay,
        "incidents": [{"event": one.event, "attempt": one.attempt, "after": one.after} for one in drawn.befalls],
    }


def _rule(trouble: Trouble, age: float) -> FaultRule:
    """As the double is told of it; `age` is how old its world is in seconds."""
    told = {
        "operation": trouble.call,
        "skip": trouble.skip,
        "times": trouble.times,
        "chance": trouble.chance,
        "after": age + trouble.begin,
        "until": None if trouble.end is None else age + trouble.end,
        **trouble.how,
    }
    return FaultRule.model_validate(told)
