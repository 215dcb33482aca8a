"""Google Cloud as the fault harness uses it: its double in a process of its own, beside each worker of the harness."""

from __future__ import annotations

import atexit
import os
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.contract.gcp import OFFER, PROJECT, Client
from tests.doubles.clock import NOON
from tests.doubles.endings import fields_of
from tests.doubles.google.process import Google, Process, Steady
from tests.doubles.google.scenario import Scenario
from tests.doubles.google.world import is_ours
from tests.faults.cases import SILENT_HOURS
from tests.faults.harness import Lived
from tests.faults.points import Pointed, Points
from trainplan.planner.runs.targets import Target
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.offers import OfferQuery
from trainplan.providers.base import LABEL_ATTEMPT, LABEL_CLIENT, LABEL_DEADLINE, LABEL_RUN
from trainplan.providers.gcp.account import GcpAccount
from trainplan.providers.gcp.api import GoogleApi
from trainplan.providers.gcp.settings import GcpSettings

if TYPE_CHECKING:
    from tests.faults.harness import Ask
    from trainplan.providers.base import Provider

REGIONS: dict[str, tuple[str, ...]] = {
    "us-central1": ("us-central1-a", "us-central1-b"),
    "us-east1": ("us-east1-c", "us-east1-d"),
    "europe-west4": ("europe-west4-b", "europe-west4-c"),
}
QUICK: dict[str, Any] = {"page_size": 1}
_INSERT, _GET, _DELETE = "compute.instances.insert", "compute.instances.get", "compute.instances.delete"
_LIST, _DISKS, _DROP = "compute.instances.aggregatedList", "compute.disks.aggregatedList", "compute.disks.delete"
_FIND, _READ, _WRITE = "compute.zoneOperations.list", "storage.objects.get", "storage.objects.insert"
_THROTTLED: dict[str, Any] = {"status": 403, "code": "rateLimitExceeded"}
_FIRST = "us-central1-a"
ALIVE = ("alive",)

for _name in ("google.cloud.compute_v1", "google.cloud.tpu_v2", "google.auth.transport.requests", "yaml"):
    import_module(_name)  # what clients import, once for all workers: before these are forked

SCENARIOS: dict[str, dict[str, Any]] = {
    "plain": {},
    "late replay": {},
    "failover": {
        "stock": {"us-central1": 0},
        "quotas": {"us-east1": {"NVIDIA_T4_GPUS": 0}},
    },
    "reclaim": {
        "incidents": [{"event": "preempt", "attempt": 1, "after": 50}],
        "notice_seconds": 15,
        "disks_stay": True,
    },
    "maintenance": {"incidents": [{"event": "maintenance", "attempt": 1, "after": 50}]},
    "throttled": {
        "faults": [
            {"operation": _INSERT, **_THROTTLED, "times": 3},
            {"operation": _LIST, **_THROTTLED, "times": None, "chance": 0.2},
            {"operation": _GET, **_THROTTLED, "times": None, "chance": 0.2},
            {"operation": _READ, "status": 429, "code": "rateLimitExceeded", "times": None, "chance": 0.2},
            {"operation": _DROP, **_THROTTLED},
            {"operation": _DELETE, **_THROTTLED},
        ],
        "disks_stay": True,
    },
    "lost reply": {
        "faults": [
            {"operation": _INSERT, "effect": "lost_request"},
            {"operation": _INSERT, "effect": "lost_reply", "skip": 1},
            {"operation": "compute.zoneOperations.wait", "effect": "lost_reply"},
            {"operation": _DROP, "effect": "lost_request"},
            {"operation": _DELETE, "effect": "lost_reply"},
            {"operation": _DISKS, "effect": "lost_reply", "times": None, "chance": 0.2},
            {"operation": _GET, "effect": "lost_reply", "times": None, "chance": 0.1},
            {"operation": _WRITE, "effect": "lost_reply", "times": None, "chance": 0.3},
        ],
        "disks_stay": True,
    },
    # The create arrives without an answer, then nobody tells of its operation, and then nobody lists its zone.
    "unclear": {
        "faults": [
            {"operation": _INSERT, "effect": "lost_reply"},
            {"operation": _FIND, "skip": 1, "times": 4},
            {"operation": _LIST, "effect": "warning", "placement": _FIRST, "times": None, "until": 200},
            {"operation": _DISKS, "effect": "warning", "placement": _FIRST, "times": None, "chance": 0.3},
        ],
    },
    # The answer comes back for a machine whose host has failed meanwhile.
    "dead replay": {
        "faults": [{"operation": _INSERT, "effect": "lost_reply"}, {"operation": _FIND, "skip": 1, "times": 3}],
        "boot_seconds": 1,
        "incidents": [{"event": "crash", "attempt": 1, "after": 1}],
    },
    "expired": {
        "faults": [{"status": 401, "code": "authError", "after": 30, "until": 150, "times": None}],
        "disks_stay": True,
    },
    "silent placement": {
        "faults": [
            {"operation": _LIST, "effect": "warning", "placement": _FIRST, "after": 15, "until": 300, "times": None}
        ],
    },
    "machine's timer": {"cloud_timer_works": False, "trainer": "hung"},
    "cloud's timer": {"machine_timer_works": False, "trainer": "hung"},
    "cleanup": {"disks_stay": True, "trainer": "hung"},
    "left alone": {"disks_stay": True},
    "left hung": {"trainer": "hung"},
}
_SILENT = {"after": SILENT_HOURS[0] * 3600, "until": SILENT_HOURS[1] * 3600, "times": None}
SCENARIOS |= {
    "no answer at the end": {"disks_stay": True, "faults": [{"status": 401, "code": "authError", **_SILENT}]},
    "silent store at the end": {
        "disks_stay": True,
        "faults": [{"operation": "storage.objects.get", "status": 503, "code": "backendError", **_SILENT}],
    },
}
SCENARIOS |= {
    "pilot": SCENARIOS["plain"],
    "pilot, settings": SCENARIOS["plain"],
    "pilot, lost reply": SCENARIOS["lost reply"],
    "pilot, hung": {"trainer": "hung"},
    "two at once": SCENARIOS["left alone"],
    "signal": SCENARIOS["left alone"],
    "shared home": SCENARIOS["left alone"],
    "goes straight on": SCENARIOS["plain"],
    "goes on elsewhere": SCENARIOS["plain"],
}
_SERVERS: dict[int, Process] = {}


class GcpCloud:
    """The world of one case. The server outlives it, and serves the next one."""

    cases = frozenset(SCENARIOS)
    in_harness = False

    def __init__(self, case: str) -> None:
        self.google = Steady(server())
        self.google.reset(Scenario.model_validate({**QUICK, **SCENARIOS[case], "began": NOON}))

    def provider(self, ask: Ask, points: Points) -> Provider:
        """Clients ask the server themselves; that they are alive they tell with each wait."""
        client = Client(
            self.google,
            Path(),
            api=lambda api: Pointed(api, points),
            bucket=lambda bucket: Pointed(bucket, points),
            slept=lambda: ask(ALIVE),
        )
        return client.provider()

    def answer(self, message: tuple[Any, ...]) -> Any:
        assert message == ALIVE, message

    def let_go(self) -> None:
        """Each client makes its own connections; this is the harness's."""
        self.google.close()

    def put_aside(self) -> None:
        self.google.put_aside()

    def take_up(self) -> None:
        self.google.take_up()

    def targets(self, market: str) -> tuple[Target, ...]:
        return targets_of(market)

    def plant(self) -> None:
        plant(self.google)

    def now(self) -> datetime:
        return self.google.now()

    def pass_time(self, until: datetime) -> None:
        self.google.pass_to(until)

    def ledger(self) -> list[Lived]:
        return [_lived(row) for row in self.google.control("ledger")["rows"]]

    def trains_until(self, run: str) -> datetime | None:
        for row in self.google.control("ledger")["rows"]:
            if row["labels"].get(LABEL_RUN) == run and row.get("trains_until"):
                return datetime.fromisoformat(row["trains_until"])
        return None


def server() -> Process:
    """This process's own."""
    pid = os.getpid()
    if pid not in _SERVERS:
        _SERVERS[pid] = Process(in_turn=True)
        atexit.register(_close, pid)
    return _SERVERS[pid]


@cache
def targets_of(market: str) -> tuple[Target, ...]:
    """Two zones of each region, in their order."""
    asked = OfferQuery(providers=frozenset({"gcp"}), instance_types=frozenset({OFFER}), markets=frozenset({market}))
    with Catalog.open() as catalog:
        offers = {offer.region: offer for offer in catalog.offers(asked, NOON.date())}
    return tuple(
        Target(offer=offers[region], zone=zone, seconds=300.0, overhead_seconds=60.0, fixed_usd=Decimal("0.01"))
        for region, zones in REGIONS.items()
        for zone in zones
    )


def plant(google: Google) -> None:
    """Another computer's machine, and a stranger's."""
    theirs = {
        LABEL_RUN: "261121-ffffffff",
        LABEL_ATTEMPT: "1",
        LABEL_DEADLINE: f"{NOON + timedelta(days=3):%Y%m%dt%H%M%Sz}",
        LABEL_CLIENT: "another-computer",
        "trainplan": "1",
    }
    account = GcpAccount(GcpSettings(project=PROJECT, endpoint=google.url))
    api = GoogleApi(account)
    for number, labels in enumerate((theirs, {"team": "others"})):
        operation = api.insert(
            PROJECT, "us-east1-b", _foreign(number, labels), f"6ba7b810-9dad-11d1-80b4-00c04fd430c{number}"
        )
        api.wait(PROJECT, "us-east1-b", operation["name"])
    account.close()


def _foreign(number: int, labels: dict[str, str]) -> dict[str, Any]:
    image = "projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64"
    disk = {"sourceImage": image, "diskSizeGb": "50", "labels": labels}
    return {
        "name": f"foreign-{number}",
        "machineType": "zones/us-east1-b/machineTypes/n1-standard-4",
        "labels": labels,
        "disks": [{"boot": True, "autoDelete": True, "initializeParams": disk}],
        "networkInterfaces": [{"network": "global/networks/default"}],
    }


def _lived(row: dict[str, Any]) -> Lived:
    labels = row["labels"]
    return Lived(
        id=row["id"],
        run=labels.get(LABEL_RUN),
        machine=row["kind"] == "instance",
        ours=is_ours(labels),
        created_at=datetime.fromisoformat(row["created_at"]),
        ended_at=datetime.fromisoformat(row["ended_at"]) if row["ended_at"] else None,
        remaining=bool(row["left"]),
        usd_per_hour=float(row["usd_per_hour"]),
        usd=float(row["usd"]),
        **(fields_of(row) if row["kind"] == "instance" else {}),
    )


def _close(pid: int) -> None:
    if os.getpid() == pid:
        _SERVERS[pid].close()
