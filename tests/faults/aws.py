"""AWS as the fault harness uses it: its double in a process of its own, beside each worker of the harness."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore import useragent

from tests.contract.aws import HOME, OFFER, Client, TimedAws
from tests.doubles.aws.remote import Double, sign_in
from tests.doubles.clock import NOON
from tests.doubles.endings import fields_of
from tests.faults.cases import SILENT_HOURS
from tests.faults.harness import Lived
from tests.faults.points import Pointed, Points
from trainplan.planner.runs.targets import Target
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.offers import OfferQuery
from trainplan.providers.aws import store
from trainplan.providers.aws.api import Api, SdkApi
from trainplan.providers.base import LABEL_ATTEMPT, LABEL_CLIENT, LABEL_DEADLINE, LABEL_RUN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.faults.harness import Ask
    from trainplan.providers.base import LaunchRequest, OwnedResource, Provider, RunId
    from trainplan.providers.stores.bucket import Bucket

REGIONS: dict[str, tuple[str, ...]] = {
    "us-east-1": ("us-east-1a", "us-east-1b"),
    "us-west-2": ("us-west-2a", "us-west-2b"),
    "eu-west-1": ("eu-west-1a", "eu-west-1b"),
}
QUICK: dict[str, Any] = {"regions": list(REGIONS), "page_size": 1, "listing_lag": 30, "images_per_second": 4000}
OTHERS = "another computer"
_THROTTLED: dict[str, Any] = {"code": "RequestLimitExceeded", "status": 503}
_SLOW_DOWN: dict[str, Any] = {"code": "SlowDown", "status": 503}
_AWAY: dict[str, Any] = {"code": "Unavailable", "status": 503}
_WHAT_SHOWS_IT = ("DescribeInstances", "DescribeVolumes", "DescribeNetworkInterfaces")
_FIRST = "us-east-1"
_OFTEN: dict[str, Any] = {"times": None, "chance": 0.2}

SCENARIOS: dict[str, dict[str, Any]] = {
    "plain": {},
    "late replay": {},
    "failover": {
        "placements": [{"region": _FIRST, "stock": 0}],
        "quotas": [{"region": "us-west-2", "code": "L-DB2E81BA", "vcpus": 0}],
    },
    "reclaim": {
        "incidents": [{"event": "reclaim", "attempt": 1, "after": 50}],
        "disks_stay": True,
    },
    "throttled": {
        "faults": [
            {"operation": "RunInstances", **_THROTTLED, "times": 3},
            {"operation": "DescribeInstances", **_THROTTLED, **_OFTEN},
            {"operation": "DescribeVolumes", **_THROTTLED, **_OFTEN},
            {"operation": "GetObject", **_SLOW_DOWN, **_OFTEN},
            {"operation": "DeleteVolume", **_THROTTLED},
            {"operation": "TerminateInstances", **_THROTTLED},
        ],
        "disks_stay": True,
    },
    "lost reply": {
        "setup": "schedule",
        "faults": [
            {"operation": "CreateSecurityGroup", "effect": "lost_reply"},
            {"operation": "RunInstances", "effect": "lost_request"},
            {"operation": "RunInstances", "effect": "lost_reply", "skip": 1},
            {"operation": "CreateSchedule", "effect": "lost_reply"},
            {"operation": "TerminateInstances", "effect": "lost_reply"},
            {"operation": "DeleteSchedule", "effect": "lost_reply"},
            {"operation": "DeleteVolume", "effect": "lost_request"},
            {"operation": "DescribeVolumes", "effect": "lost_reply", **_OFTEN},
            {"operation": "DescribeInstances", "effect": "lost_reply", "times": None, "chance": 0.1},
            {"operation": "PutObject", "effect": "lost_reply", "times": None, "chance": 0.3},
        ],
        "disks_stay": True,
    },
    # Five creates in a row without an answer, and then nobody lists the region where they were sent to, for longer than
    # a new machine may stay hidden.
    "unclear": {
        "images_per_second": 1000,
        "faults": [
            {"operation": "RunInstances", "effect": "lost_reply", "times": 5},
            *({"operation": name, "region": _FIRST, **_AWAY, "times": None, "end": 330} for name in _WHAT_SHOWS_IT),
        ],
    },
    # The answer comes back for a machine whose host has failed meanwhile.
    "dead replay": {
        "faults": [{"operation": "RunInstances", "effect": "lost_reply", "times": 4}],
        "boot": [1, 1],
        "incidents": [{"event": "crash", "attempt": 1, "after": 3}],
    },
    # While EC2 does not know who asks, the run directory is read again, and the machine is no longer a new one.
    "expired": {
        "images_per_second": 1500,
        "faults": [
            {"service": "ec2", "code": "RequestExpired", "start": 130, "end": 260, "times": None},
            {"code": "ExpiredToken", "start": 130, "end": 170, "times": None},
        ],
        "disks_stay": True,
    },
    "silent placement": {
        "faults": [
            {"operation": "DescribeInstances", "region": _FIRST, **_AWAY, "start": 15, "end": 300, "times": None},
        ],
    },
    "machine's timer": {"cloud_timer_works": False, "trainer": "hung"},
    "cloud's timer": {"machine_timer_works": False, "trainer": "hung"},
    "cleanup": {"disks_stay": True, "trainer": "hung"},
    "left alone": {"images_per_second": 30, "disks_stay": True, "reaper_every": 3600},
    "left hung": {"images_per_second": 60, "trainer": "hung", "reaper_every": 3600},
}
_SILENT = {"start": SILENT_HOURS[0] * 3600, "end": SILENT_HOURS[1] * 3600, "times": None}
SCENARIOS |= {
    "no answer at the end": {
        **SCENARIOS["left alone"],
        "faults": [
            {"service": "ec2", "code": "RequestExpired", **_SILENT},
            {"code": "ExpiredToken", "status": 400, **_SILENT},
        ],
    },
    "silent store at the end": {
        **SCENARIOS["left alone"],
        "faults": [{"operation": "GetObject", "code": "InternalError", "status": 500, **_SILENT}],
    },
}
SCENARIOS |= {
    "sweep, reclaim": SCENARIOS["reclaim"],
    # An epoch takes two minutes: the budget ends some trials before the last rung.
    "sweep, budget": {"images_per_second": 400, "disks_stay": True},
}
SCENARIOS |= {
    "two at once": SCENARIOS["left alone"],
    "signal": SCENARIOS["left alone"],
    "shared home": SCENARIOS["left alone"],
    "pilot": SCENARIOS["plain"],
    "pilot, settings": SCENARIOS["plain"],
    "pilot, lost reply": SCENARIOS["lost reply"],
    "pilot, hung": {"trainer": "hung"},
    "goes straight on": {"images_per_second": 2000},
    "goes on elsewhere": {"images_per_second": 2000},
}
POLICIES = ["client", "setup"]
"""All that clients may do: the first of them makes the bucket."""
_DOUBLES: dict[int, tuple[Double, SdkApi, Bucket]] = {}


class AwsCloud:
    """The world of one case. The double's process outlives it, and serves the next one."""

    cases = frozenset(SCENARIOS)
    in_harness = False

    def __init__(self, case: str, **more: Any) -> None:
        self.double, self._sdk, self._bucket = own()
        self.double.reset(**{"policies": POLICIES, **QUICK, **SCENARIOS.get(case, {}), **more})

    def provider(self, ask: Ask, points: Points) -> Provider:
        client = Client(
            self.double,
            Path(),
            api=lambda _: PointedApi(self._sdk, points),
            bucket=lambda _: Pointed(self._bucket, points),
            threads=1,
        )
        made = client.provider()
        given = {name: getattr(made, name) for name in TimedAws.__dataclass_fields__}
        return PointedAws(**given, points=points, alive=lambda: ask(("alive",)))

    def answer(self, message: tuple[Any, ...]) -> Any:
        """Clients ask the double themselves; here they only tell that they are at work."""
        assert message == ("alive",)

    def let_go(self) -> None:
        """What clients are given of the SDK has no open connection then. It keeps what it has read and looked up."""
        for client in self._sdk._clients.values():
            client.close()
        self._bucket.close()

    def put_aside(self) -> None:
        self.double.put_aside()

    def take_up(self) -> None:
        self.double.take_up()

    def targets(self, market: str) -> tuple[Target, ...]:
        return targets_of(market)

    def plant(self) -> None:
        """Another computer's machine, and a stranger's, made by somebody who may make any."""
        theirs = {
            LABEL_RUN: "261121-ffffffff",
            LABEL_ATTEMPT: "1",
            LABEL_DEADLINE: (NOON + timedelta(days=3)).isoformat(),
            LABEL_CLIENT: OTHERS,
        }
        self.double.ask("permit", policies=[])
        api = SdkApi(HOME, self.double.url)
        for region in (_FIRST, "us-west-2"):  # where the run's machine comes to be as well, on the same lists
            for number, labels in enumerate((theirs, {"team": "others"})):
                api.call("ec2", region, "RunInstances", _foreign(number, labels))
        api.close()
        self.double.ask("permit", policies=POLICIES)

    def now(self) -> datetime:
        return self.double.now()

    def pass_time(self, until: datetime) -> None:
        self.double.advance(until)

    def ledger(self) -> list[Lived]:
        return [_lived(row) for row in self.double.ask("ledger")]

    def trains_until(self, run: str) -> datetime | None:
        told = self.double.ask("trains_until", run=run)
        return datetime.fromisoformat(told) if told else None


@dataclass(frozen=True)
class PointedApi:
    """Each call that changes something, or looks at one instance, has its two points. Reading for a list or a
    look-up has those of the whole: nothing changes between two reads."""

    inner: Api
    points: Points

    @property
    def home(self) -> str:
        return self.inner.home

    def call(self, service: str, region: str, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        reads = operation.startswith(("Describe", "Get", "List")) and "InstanceIds" not in parameters
        if reads or parameters.get("DryRun"):
            return self.inner.call(service, region, operation, parameters)
        with self.points.around(operation):
            return self.inner.call(service, region, operation, parameters)


@dataclass(frozen=True)
class PointedAws(TimedAws):
    """Listings and look-ups as a whole have their two points."""

    points: Points = field(kw_only=True, default_factory=Points)
    alive: Callable[[], None] = field(kw_only=True)

    def sleep(self, seconds: float) -> None:
        self.alive()
        super().sleep(seconds)

    def list_owned(self, run_id: RunId | None = None) -> Sequence[OwnedResource]:
        with self.points.around("list_owned"):
            return super().list_owned(run_id)

    def resolve(self, request: LaunchRequest) -> LaunchRequest:
        with self.points.around("resolve"):
            return super().resolve(request)


def own() -> tuple[Double, SdkApi, Bucket]:
    """This process's own double; the SDK's clients are made here and first used by the clients that are forked."""
    sign_in()  # for each cloud anew: between two tests this process is signed out (tests/faults/conftest.py)
    pid = os.getpid()
    if pid not in _DOUBLES:
        # The SDK cleans the same few words of its name letter by letter for each request: a quarter of a client's time.
        useragent.sanitize_user_agent_string_component = cache(useragent.sanitize_user_agent_string_component)
        double = Double(in_turn=True)
        sdk = SdkApi(HOME, double.url)
        _prepare(sdk)
        _DOUBLES[pid] = double, sdk, store.make(Client(double, Path()).settings())
        atexit.register(_close, pid)
    return _DOUBLES[pid]


def _prepare(sdk: SdkApi) -> None:
    for region in REGIONS:
        for service in ("ec2", "scheduler", "ssm"):
            sdk.prepare(service, region)
    for service in ("sts", "iam"):
        sdk.prepare(service, HOME)


@cache
def targets_of(market: str) -> tuple[Target, ...]:
    """Two zones of each region, in their order."""
    asked = OfferQuery(providers=frozenset({"aws"}), instance_types=frozenset({OFFER}), markets=frozenset({market}))
    with Catalog.open() as catalog:
        offers = {offer.region: offer for offer in catalog.offers(asked, NOON.date())}
    return tuple(
        Target(offer=offers[region], zone=zone, seconds=300.0, overhead_seconds=60.0, fixed_usd=Decimal("0.01"))
        for region, zones in REGIONS.items()
        for zone in zones
    )


def _foreign(number: int, labels: Mapping[str, str]) -> dict[str, Any]:
    tags = [{"Key": key, "Value": value} for key, value in labels.items()]
    return {
        "ImageId": "ami-0cafe000000000001",
        "InstanceType": OFFER,
        "MinCount": 1,
        "MaxCount": 1,
        "ClientToken": f"foreign-{number}",
        "TagSpecifications": [{"ResourceType": kind, "Tags": tags} for kind in ("instance", "volume")],
    }


def _lived(row: Mapping[str, Any]) -> Lived:
    return Lived(
        id=row["id"],
        run=row["run"],
        machine=row["kind"] == "instance",
        ours=row["ours"],
        created_at=datetime.fromisoformat(row["created_at"]),
        ended_at=datetime.fromisoformat(row["ended_at"]) if row["ended_at"] else None,
        remaining=row["left"],
        usd_per_hour=float(row["bills"]),
        usd=0.0,
        **(fields_of(row) if row["kind"] == "instance" else {}),
    )


def _close(pid: int) -> None:
    if os.getpid() == pid:
        _DOUBLES[pid][0].close()
