"""AWS in the random sequences: what its calls are refused with, and what chance makes of stock, quotas and timers."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tests.faults.aws import REGIONS, AwsCloud
from tests.faults.chance import ANY, TIMER_GRACE, Drawn, Kind, Trouble, a_trouble, a_world
from trainplan.providers.aws.reply import SCHEDULE
from trainplan.providers.errors import ProviderError

if TYPE_CHECKING:
    from random import Random

    from tests.faults.harness import Lived
    from trainplan.providers.base import OwnedResource

_REGIONS = tuple(REGIONS)
_LISTS = ("DescribeInstances", "DescribeVolumes", "DescribeNetworkInterfaces", "DescribeSpotInstanceRequests")
_EC2 = (*_LISTS, "DescribeImages", "CreateSecurityGroup", "RunInstances", "TerminateInstances", "DeleteVolume")
_S3 = ("GetObject", "PutObject", "ListObjectsV2")
_SCHEDULER = ("CreateSchedule", "DeleteSchedule", "ListSchedules")
_CREATES = ("RunInstances",)

KINDS = (
    Kind(calls=_EC2, how=({"code": "RequestLimitExceeded", "status": 503},)),
    Kind(calls=_SCHEDULER, how=({"code": "ThrottlingException", "status": 429},)),
    Kind(calls=_S3, how=({"code": "SlowDown", "status": 503}, {"code": "InternalError", "status": 500})),
    Kind(calls=_EC2, how=({"code": "InternalError", "status": 500}, {"code": "Unavailable", "status": 503})),
    Kind(
        calls=_CREATES,
        how=(
            {"code": "InsufficientInstanceCapacity", "status": 500},
            {"code": "VcpuLimitExceeded"},
            {"code": "MaxSpotInstanceCountExceeded"},
            {"code": "SpotMaxPriceTooLow"},
            {"code": "NobodyKnowsThisCode"},
        ),
        often=2,
    ),
    Kind(calls=(*_EC2, *_SCHEDULER, *_S3), how=({"effect": "lost_request"},), often=2),
    Kind(calls=(*_EC2, *_SCHEDULER, *_S3), how=({"effect": "lost_reply"},), often=2),
    Kind(calls=_CREATES, how=({"effect": "lost_reply"},)),
    Kind(calls=ANY, how=({"code": "ExpiredToken"}, {"service": "ec2", "code": "RequestExpired"}), lasts=True),
    Kind(
        calls=_LISTS,
        how=tuple({"region": region, "code": "Unavailable", "status": 503} for region in _REGIONS),
        lasts=True,
    ),
)
EVENTS = ("reclaim", "crash")
_QUOTAS = ("L-DB2E81BA", "L-3819A6DF")
_VCPUS = 4
"""Of one machine."""


class RandomAws(AwsCloud):
    """`tests.faults.random_cloud.RandomCloud` over AWS's double."""

    has_disks = False
    timer_grace = TIMER_GRACE

    def __init__(self, chance: Random, *, never_back: bool) -> None:
        drawn = a_world(chance, KINDS, EVENTS, never_back=never_back)
        super().__init__("", **_scenario(drawn))
        self._began = self.now()
        self.listing_lag = timedelta(seconds=drawn.lag)

    def plant(self) -> None:
        with contextlib.suppress(ProviderError):  # no stock, no quota, a fault: then nothing is planted
            super().plant()

    def break_more(self, chance: Random) -> None:
        age = (self.now() - self._began).total_seconds()
        self.double.ask("script", faults=[_fault(a_trouble(chance, KINDS), age)])

    def mend(self) -> None:
        self.double.ask("mend")

    def name_of(self, resource: OwnedResource) -> str:
        return resource.id.removeprefix(SCHEDULE)

    def region_of(self, row: Lived) -> str:
        return next(str(known["region"]) for known in self.double.ask("ledger") if known["id"] == row.id)

    def timed(self, row: Lived) -> bool:
        return True


def _scenario(drawn: Drawn) -> dict[str, Any]:
    placements = [{"region": _REGIONS[placement], "stock": 0} for placement in drawn.full]
    quotas = [
        {"region": _REGIONS[placement], "code": code, "vcpus": count * _VCPUS}
        for placement, count in drawn.narrow.items()
        for code in _QUOTAS
    ]
    return {
        "seed": drawn.seed,
        "setup": "reaper" if drawn.is_standing else "schedule",
        "trainer": "hung" if drawn.hung else "named",
        "boot": [drawn.boot, 2 * drawn.boot],
        "deletion": [drawn.deletion, 2 * drawn.deletion],
        "listing_lag": drawn.lag,
        "notice": drawn.notice,
        "page_size": drawn.page_size,
        "machine_timer_works": drawn.machine_timer,
        "cloud_timer_works": drawn.cloud_timer,
        "disks_stay": drawn.stay,
        "stock": drawn.stock,
        "placements": placements,
        "quotas": quotas,
        "incidents": [{"event": one.event, "attempt": one.attempt, "after": one.after} for one in drawn.befalls],
        "faults": [_fault(trouble, 0.0) for trouble in drawn.troubles],
    }


def _fault(trouble: Trouble, age: float) -> dict[str, Any]:
    """As the double is told of it; `age` is how old its world is in seconds."""
    return {
        "operation": trouble.call,
        "skip": trouble.skip,
        "times": trouble.times,
        "chance": trouble.chance,
        "start": age + trouble.begin,
        "end": None if trouble.end is None else age + trouble.end,
        **trouble.how,
    }
