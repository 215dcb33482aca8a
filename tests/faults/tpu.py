"""Google's TPUs as the fault harness uses them: the double of Google Cloud, of which only the TPU API is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.contract.tpu import CREATE, OFFER, DiskClient, TpuClient, make_ready
from tests.doubles.clock import NOON
from tests.doubles.google import tpu
from tests.doubles.google.process import Google, Steady
from tests.doubles.google.scenario import Scenario
from tests.faults.gcp import ALIVE, QUICK, GcpCloud, server
from tests.faults.points import Pointed
from trainplan.planner.runs.targets import Target
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.offers import Market, OfferQuery
from trainplan.providers.base import LABEL_ATTEMPT, LABEL_CLIENT, LABEL_DEADLINE, LABEL_RUN
from trainplan.providers.gcp.api import GoogleApi
from trainplan.providers.gcp.tpu.api import TpuCalls

if TYPE_CHECKING:
    from tests.faults.harness import Ask
    from tests.faults.points import Points
    from trainplan.providers.base import Provider
    from trainplan.providers.gcp.api import Api
    from trainplan.providers.gcp.tpu.api import Calls

ZONES = ("us-central1-a", "us-central1-b", "europe-west4-a")
_CLOSED = tuple(zone for zone in tpu.ZONES if zone not in ZONES)
USD_PER_HOUR = {Market.ON_DEMAND: Decimal("0.50"), Market.SPOT: Decimal("0.16")}
"""Not a TPU's prices: as those of the other clouds here, so that the cases' budgets last as long."""
_API = "tpu.projects.locations"
_GET, _LIST, _NODES = f"{_API}.queuedResources.get", f"{_API}.queuedResources.list", f"{_API}.nodes.list"
_DELETE, _DROP = f"{_API}.queuedResources.delete", f"{_API}.nodes.delete"
_QUEUE = "cloudtasks.projects.locations.queues.tasks"
_DISK, _DROP_DISK = "compute.disks.insert", "compute.disks.delete"
_READ, _WRITE = "storage.objects.get", "storage.objects.insert"
_THROTTLED: dict[str, Any] = {"status": 429, "message": "Quota exceeded: requests per minute"}
_FULL: dict[str, Any] = {"status": 429, "message": "There is no more capacity in the zone"}

SCENARIOS: dict[str, dict[str, Any]] = {
    "plain": {},
    "late replay": {},
    "failover": {
        "faults": [
            # In the first zone the request waits, and none comes; in the second it is refused at once.
            {"operation": CREATE, "skip": 1, **_FULL},
        ],
        "stock": {"us-central1-a": 0},
        "quotas": {"us-central1": {"TPUS": 9}},
    },
    "reclaim": {
        "incidents": [{"event": "preempt", "attempt": 1, "after": 50}],
        "notice_seconds": 15,
        "disks_stay": True,
    },
    "maintenance": {"incidents": [{"event": "maintenance", "attempt": 1, "after": 50}]},
    "throttled": {
        "faults": [
            {"operation": CREATE, **_THROTTLED, "times": 3},
            {"operation": f"{_QUEUE}.create", **_THROTTLED, "times": 2},
            {"operation": _LIST, **_THROTTLED, "times": None, "chance": 0.2},
            {"operation": f"{_QUEUE}.list", **_THROTTLED, "times": None, "chance": 0.2},
            {"operation": _GET, **_THROTTLED, "times": None, "chance": 0.2},
            {"operation": _READ, "status": 429, "code": "rateLimitExceeded", "times": None, "chance": 0.2},
            {"operation": _DROP, **_THROTTLED},
            {"operation": _DELETE, **_THROTTLED},
        ],
        "disks_stay": True,
    },
    "lost reply": {
        "faults": [
            {"operation": CREATE, "effect": "lost_request"},
            {"operation": CREATE, "effect": "lost_reply", "skip": 1},
            {"operation": f"{_QUEUE}.create", "effect": "lost_request"},
            {"operation": f"{_QUEUE}.create", "effect": "lost_reply", "skip": 1},
            {"operation": f"{_QUEUE}.delete", "effect": "lost_reply"},
            {"operation": _DROP, "effect": "lost_request"},
            {"operation": _DELETE, "effect": "lost_reply"},
            {"operation": _NODES, "effect": "lost_reply", "times": None, "chance": 0.2},
            {"operation": _GET, "effect": "lost_reply", "times": None, "chance": 0.1},
            {"operation": _WRITE, "effect": "lost_reply", "times": None, "chance": 0.3},
        ],
        "disks_stay": True,
    },
    # Five creates in a row without an answer, of which nobody tells; then nobody lists the zone they were sent to.
    "unclear": {
        "faults": [
            {"operation": CREATE, "effect": "lost_reply"},
            {"operation": _GET, "skip": 1, "times": 4},
            {"operation": _LIST, "effect": "warning", "placement": ZONES[0], "times": 2},
            {"operation": _NODES, "effect": "warning", "placement": ZONES[0], "times": None, "chance": 0.3},
        ],
    },
    # The answer comes back for a node that Google repairs by then.
    "dead replay": {
        "faults": [{"operation": CREATE, "effect": "lost_reply"}, {"operation": _GET, "skip": 1, "times": 3}],
        "boot_seconds": 1,
        "operation_seconds": 1,
        "incidents": [{"event": "crash", "attempt": 1, "after": 1}],
    },
    "expired": {
        "faults": [{"status": 401, "code": "authError", "after": 30, "until": 150, "times": None}],
        "disks_stay": True,
    },
    "silent placement": {
        "faults": [
            {"operation": _LIST, "effect": "warning", "placement": ZONES[0], "after": 15, "until": 300, "times": None}
        ],
    },
    "machine's timer": {"cloud_timer_works": False, "trainer": "hung"},
    "cloud's timer": {"machine_timer_works": False, "trainer": "hung"},
    "cleanup": {"disks_stay": True, "trainer": "hung"},
    "data disk": {},
    "data disk, failover": {
        "faults": [
            # The first zone has no room for the disk, the second for the disk alone.
            {"operation": _DISK, "effect": "operation_error", "code": "ZONE_RESOURCE_POOL_EXHAUSTED"},
            {"operation": CREATE, **_FULL},
        ],
    },
    "data disk, reclaim": {
        "incidents": [{"event": "preempt", "attempt": 1, "after": 50}],
        "notice_seconds": 15,
        "disks_stay": True,
    },
    "data disk, lost reply": {
        "faults": [
            {"operation": _DISK, "effect": "lost_request"},
            {"operation": _DISK, "effect": "lost_reply", "skip": 1},
            {"operation": "compute.zoneOperations.wait", "effect": "lost_reply"},
            {"operation": CREATE, "effect": "lost_reply"},
            {"operation": _DROP_DISK, "effect": "lost_request"},
            {"operation": _DROP_DISK, "effect": "lost_reply", "skip": 1},
            {"operation": "compute.disks.get", "effect": "lost_reply", "times": None, "chance": 0.3},
            {"operation": "compute.disks.aggregatedList", "effect": "lost_reply", "times": None, "chance": 0.2},
            {"operation": f"{_QUEUE}.delete", "effect": "lost_reply"},
        ],
        "disks_stay": True,
    },
    "data disk, cloud's timer": {"machine_timer_works": False, "trainer": "hung"},
    # Spot takes the node back, and nobody looks: the disk is not left.
    "data disk, taken back": {"incidents": [{"event": "preempt", "attempt": 1, "after": 50}], "trainer": "hung"},
    "data disk, cleanup": {"disks_stay": True, "trainer": "hung"},
    "left alone": {"disks_stay": True},
    "left hung": {"trainer": "hung"},
    "data disk, left alone": {"disks_stay": True},
}
SCENARIOS |= {
    "two at once": SCENARIOS["left alone"],
    "signal": SCENARIOS["left alone"],
    "shared home": SCENARIOS["left alone"],
    "pilot": SCENARIOS["plain"],
    "pilot, settings": SCENARIOS["plain"],
    "pilot, lost reply": SCENARIOS["lost reply"],
    "pilot, hung": {"trainer": "hung"},
}


class TpuCloud(GcpCloud):
    """The world of one case."""

    cases = frozenset(SCENARIOS)
    has_disks = False

    def __init__(self, case: str) -> None:
        self.has_disks = case.startswith("data disk")
        self.google = Steady(server())
        closed = {"closed_zones": _CLOSED}  # every zone more is four points more in each look
        self.google.reset(Scenario.model_validate({**QUICK, **closed, **SCENARIOS[case], "began": NOON}))
        make_ready(TpuClient(self.google, Path()))

    def provider(self, ask: Ask, points: Points) -> Provider:
        look = Look(points)

        def slept() -> None:
            look.over()
            ask(ALIVE)

        kind = DiskClient if self.has_disks else TpuClient
        return kind(
            self.google,
            Path(),
            slept=slept,
            api=lambda api: PointedApi(api, points, look),
            bucket=lambda bucket: Pointed(bucket, points),
            tpu=lambda calls: PointedCalls(calls, points, look),
            tasks=lambda calls: PointedCalls(calls, points, look),
        ).provider()

    def targets(self, market: str) -> tuple[Target, ...]:
        return targets_of(market)

    def plant(self) -> None:
        plant(self.google)
        if self.has_disks:
            plant_disks(self.google)


class Look:
    """Lists right after one another: zone by zone, and of the timers."""

    def __init__(self, points: Points) -> None:
        self._points = points
        self._over_at = 0

    def over(self) -> None:
        """Time passes: what is listed now may be different."""
        self._over_at = len(self._points.names)

    def goes_on(self, operation: str) -> bool:
        names = self._points.names
        right_after = bool(names) and names[-1].startswith("after List") and self._over_at < len(names)
        return operation.startswith("List") and right_after


class PointedCalls:
    """One service, of which every call has its two points, under its own name. The lists of one look have two points
    together: nothing changes between them."""

    def __init__(self, inner: Calls, points: Points, look: Look) -> None:
        self._inner = inner
        self._points = points
        self._look = look

    def call(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        if self._look.goes_on(operation):
            return self._inner.call(operation, parameters)
        with self._points.around(operation):
            return self._inner.call(operation, parameters)


class PointedApi:
    """Compute Engine, of which every call has its two points. Its lists belong to the same look as those of TPUs."""

    def __init__(self, inner: Api, points: Points, look: Look) -> None:
        self._inner = inner
        self._points = points
        self._look = look

    def everywhere(self, *words: str) -> Any:
        if self._look.goes_on("ListEverywhere"):
            return self._inner.everywhere(*words)
        with self._points.around("ListEverywhere"):
            return self._inner.everywhere(*words)

    def __getattr__(self, name: str) -> Any:
        return getattr(Pointed(self._inner, self._points), name)


@cache
def targets_of(market: str) -> tuple[Target, ...]:
    """The zones in their order."""
    asked = OfferQuery(providers=frozenset({"gcp"}), instance_types=frozenset({OFFER}), markets=frozenset({market}))
    with Catalog.open() as catalog:
        offers = {
            offer.region: replace(
                offer,
                usd_per_hour=USD_PER_HOUR[offer.market],
                on_demand_usd_per_hour=USD_PER_HOUR[Market.ON_DEMAND],
            )
            for offer in catalog.offers(asked, NOON.date())
        }
    return tuple(
        Target(
            offer=offers[zone.rpartition("-")[0]],
            zone=zone,
            seconds=300.0,
            overhead_seconds=60.0,
            fixed_usd=Decimal("0.01"),
        )
        for zone in ZONES
    )


_THEIRS = {
    LABEL_RUN: "261121-ffffffff",
    LABEL_ATTEMPT: "1",
    LABEL_DEADLINE: "20261124t120000z",
    LABEL_CLIENT: "another-computer",
    "trainplan": "1",
}


def plant_disks(google: Google) -> None:
    """Another computer's data disk, and a stranger's disk."""
    account = TpuClient(google, Path()).account()
    api = GoogleApi(account)
    for number, labels in enumerate((_THEIRS, {"team": "others"})):
        kind = f"projects/{account.project}/zones/{ZONES[0]}/diskTypes/pd-balanced"
        body = {"name": f"foreign-{number}", "sizeGb": "100", "type": kind, "labels": labels}
        made = api.insert_disk(account.project, ZONES[0], body, f"6ba7b810-9dad-11d1-80b4-00c04fd430c{number}")
        api.wait(account.project, ZONES[0], made["name"])
    account.close()


def plant(google: Google) -> None:
    """Another computer's node, and a stranger's."""
    account = TpuClient(google, Path()).account()
    home = f"projects/{account.project}/locations/{ZONES[0]}"  # before ours, page by page
    for number, labels in enumerate((_THEIRS, {"team": "others"})):
        node = {"acceleratorType": "v3-8", "runtimeVersion": "tpu-ubuntu2204-base", "labels": labels}
        spec = {"parent": home, "nodeId": f"foreign-{number}", "node": node}
        asked = {
            "parent": home,
            "queuedResourceId": f"foreign-{number}",
            "requestId": f"foreign-{number}",
            "queuedResource": {"tpu": {"nodeSpec": [spec]}},
        }
        TpuCalls(account).call("CreateQueuedResource", asked)
