"""Google's TPUs in the random sequences: what the TPU API and Cloud Tasks refuse with, and a world out of chance."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.contract.gcp import PROJECT
from tests.contract.tpu import CREATE, NO_CAPACITY, TpuClient, make_ready
from tests.doubles.google import tpu
from tests.faults.chance import ANY, Drawn, Kind
from tests.faults.random_gcp import EXPIRED, STORAGE, RandomGcp
from tests.faults.tpu import ZONES, TpuCloud, plant, plant_disks
from trainplan.providers.errors import ProviderError
from trainplan.providers.gcp.reply import KINDS as COMPUTE_KINDS
from trainplan.providers.gcp.tpu.api import Refused
from trainplan.providers.gcp.tpu.reply import TASK

if TYPE_CHECKING:
    from random import Random

    from tests.faults.harness import Lived
    from trainplan.providers.base import OwnedResource

_API, _TASKS = "tpu.projects.locations", "cloudtasks.projects.locations.queues.tasks"
_CLOSED = tuple(zone for zone in tpu.ZONES if zone not in ZONES)
_CREATES = (CREATE,)
_LISTS = (f"{_API}.queuedResources.list", f"{_API}.nodes.list")
_CALLS = (
    *_CREATES, *_LISTS, f"{_API}.queuedResources.get", f"{_API}.queuedResources.delete", f"{_API}.nodes.get",
    f"{_API}.nodes.delete", f"{_API}.runtimeVersions.list", f"{_TASKS}.create", f"{_TASKS}.delete", f"{_TASKS}.list",
)  # fmt: skip

KINDS = (
    Kind(calls=_CALLS, how=({"status": 429, "message": "Quota exceeded: requests per minute"},)),
    Kind(calls=STORAGE, how=({"status": 429, "code": "rateLimitExceeded"}, {"status": 503, "code": "backendError"})),
    Kind(calls=_CALLS, how=({"status": 503}, {"status": 500})),
    Kind(
        calls=_CREATES,
        how=(
            {"status": 429, "message": NO_CAPACITY},
            {"effect": "operation_error", "message": NO_CAPACITY},
            {"status": 429, "message": "Quota limit 'TPUV3sPerProjectPerRegionForTPUAPI' has been exceeded. Limit: 0"},
            {"status": 418, "message": "nobody knows this"},
        ),
        often=2,
    ),
    Kind(calls=(*_CALLS, *STORAGE), how=({"effect": "lost_request"},), often=2),
    Kind(calls=(*_CALLS, *STORAGE), how=({"effect": "lost_reply"},), often=2),
    Kind(calls=_CREATES, how=({"effect": "lost_reply"},)),
    Kind(calls=ANY, how=(EXPIRED,), lasts=True),
    Kind(calls=_LISTS, how=tuple({"effect": "warning", "placement": zone} for zone in ZONES), lasts=True),
)
_DISK = COMPUTE_KINDS["disks"][0]
_INSERT, _LIST_DISKS = "compute.disks.insert", "compute.disks.aggregatedList"
_DISK_CALLS = (_INSERT, _LIST_DISKS, "compute.disks.get", "compute.disks.delete", "compute.zoneOperations.wait")
DISK_KINDS = (
    *KINDS,
    Kind(
        calls=_DISK_CALLS, how=({"status": 403, "code": "rateLimitExceeded"}, {"status": 503, "code": "backendError"})
    ),
    Kind(
        calls=(_INSERT,),
        how=(
            {"effect": "operation_error", "status": 503, "code": "ZONE_RESOURCE_POOL_EXHAUSTED"},
            {"status": 403, "code": "quotaExceeded"},
        ),
        often=2,
    ),
    Kind(calls=_DISK_CALLS, how=({"effect": "lost_request"}, {"effect": "lost_reply"}), often=2),
    Kind(calls=(_LIST_DISKS,), how=tuple({"effect": "warning", "placement": zone} for zone in ZONES), lasts=True),
)
"""Where jobs need disks, what befalls those comes on top."""
WITH_DISKS = 0.5
"""The share of the worlds in which jobs may need a data disk."""


class RandomTpu(TpuCloud, RandomGcp):
    """`tests.faults.random_cloud.RandomCloud` over the double of Google Cloud, of which TPUs are asked."""

    def __init__(self, chance: Random, *, never_back: bool) -> None:
        self.has_disks = chance.random() < WITH_DISKS
        self.kinds = DISK_KINDS if self.has_disks else KINDS
        RandomGcp.__init__(self, chance, never_back=never_back)

    def make_ready(self) -> None:
        make_ready(TpuClient(self.google, Path()))

    def placements(self, drawn: Drawn) -> dict[str, Any]:
        """Stock by zone, quotas by region: of two zones that are one's, the last counts."""
        self._cloud_timer = drawn.cloud_timer
        stock = {zone: 0 if placement in drawn.full else drawn.stock for placement, zone in enumerate(ZONES)}
        quotas = {ZONES[placement].rpartition("-")[0]: {"TPUS": count} for placement, count in drawn.narrow.items()}
        return {"stock": stock, "quotas": quotas, "closed_zones": _CLOSED}

    def plant(self) -> None:
        with contextlib.suppress(ProviderError, Refused):
            plant(self.google)
            if self.has_disks:
                plant_disks(self.google)

    def name_of(self, resource: OwnedResource) -> str:
        word, _, rest = resource.id.partition("/")
        zone, _, name = rest.partition("/")
        return rest if word in (TASK, _DISK) else f"projects/{PROJECT}/locations/{zone}/queuedResources/{name}"

    def region_of(self, row: Lived) -> str:
        return row.id.split("/")[3].rpartition("-")[0]

    def timed(self, row: Lived) -> bool:
        """A disk has no timer but the cloud's; a node has its own besides."""
        return row.machine or self._cloud_timer
