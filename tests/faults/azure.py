"""Azure as the fault harness uses it: the double in the harness, the real provider and Azure's pipeline in the client.

The client's connections end in the harness.
"""

from __future__ import annotations

import io
import threading
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import azure.mgmt.compute  # imported before the clients are forked
import azure.mgmt.core.policies
import requests
from azure.core.credentials import AccessToken
from azure.core.pipeline.transport import RequestsTransport
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict
from urllib3 import HTTPResponse

from tests.contract.azure import DIGEST, PUBLIC_KEY, AzureInItsTime
from tests.doubles.azure.arm import Arm
from tests.doubles.azure.bucket import STORE_CALLS, MemoryBucket, carry_out, refused
from tests.doubles.azure.rules import SUBSCRIPTION, Rules
from tests.doubles.azure.values import ArmError, Thing
from tests.doubles.azure.world import VM, LostError, World
from tests.doubles.clock import NOON
from tests.doubles.endings import end_record, fields_of
from tests.faults.cases import SILENT_HOURS
from tests.faults.harness import Ask, Lived
from tests.faults.points import Points
from tests.faults.sim import Hung, work_of
from trainplan.planner.runs.targets import Target
from trainplan.pricing.offers import Market, Offer, PriceGrade
from trainplan.providers.azure.account import AzureAccount
from trainplan.providers.azure.api import ArmClient
from trainplan.providers.azure.launch import Pace
from trainplan.providers.azure.reply import PRICE
from trainplan.providers.azure.settings import AzureSettings
from trainplan.providers.base import LABEL_ATTEMPT, LABEL_CLIENT, LABEL_DEADLINE, LABEL_RUN
from trainplan.providers.cloud.launch import Rented
from trainplan.providers.errors import TransientError
from trainplan.providers.sim.training import Simulated
from trainplan.providers.sim.values import Why
from trainplan.providers.stores.patience import Patience
from trainplan.providers.stores.store import run_store

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from trainplan.providers.azure.api import Call, Reply

BASE = "https://azure.invalid"
TYPE, REGIONS = "Standard_NC4as_T4_v3", ("eastus", "westus3", "northeurope")
_USD = {Market.ON_DEMAND: Decimal("0.50"), Market.SPOT: Decimal("0.16")}
LOOK_UPS = (
    *("GET subscriptions", "GET providers", "GET permissions", "GET userAssignedIdentities", "GET roleDefinitions"),
    *("GET skus", "GET usages", "GET versions", "GET publishers"),
)

_EXPIRED = {"code": "ExpiredAuthenticationToken", "start": "30s", "end": "150s", "times": None}

SCENARIOS: dict[str, dict[str, Any]] = {
    "plain": {},
    "late replay": {},
    "failover": {
        "full": (("eastus", "*", "*"),),
        "limits": {("westus3", "standardNCASv3_T4Family"): 0, ("westus3", "lowPriorityCores"): 0},
    },
    "reclaim": {
        "incidents": ({"event": "reclaim", "attempt": 1, "after": "50s"},),
        "faults": ({"operation": "PUT roleAssignments", "effect": "lost_reply"},),
        "forgets_delete_option": True,
    },
    # Whoever stops a machine from outside (a policy that shuts down at night, maintenance) leaves it deallocated.
    "maintenance": {"incidents": ({"event": "maintenance", "attempt": 1, "after": "50s"},)},
    "throttled": {
        "faults": (
            {"operation": "PUT virtualMachines", "code": "TooManyRequests", "times": 2},
            {"operation": "PUT networkSecurityGroups", "code": "TooManyRequests"},
            {"operation": "GET resourcegroups", "code": "TooManyRequests", "times": None, "chance": 0.2},
            {"operation": "GET virtualMachines", "code": "TooManyRequests", "times": None, "chance": 0.2},
            {"operation": "GetObject", "code": "TooManyRequests", "times": None, "chance": 0.2},
            {"operation": "DELETE resourceGroups", "code": "TooManyRequests", "times": 1},
        ),
        "forgets_delete_option": True,
    },
    "lost reply": {
        "faults": (
            {"operation": "PUT virtualMachines", "effect": "lost_request"},
            {"operation": "PUT virtualMachines", "effect": "lost_reply", "skip": 1},
            {"operation": "POST virtualMachinesSubmitDeallocate", "effect": "lost_reply"},
            {"operation": "DELETE resourceGroups", "effect": "lost_request"},
            {"operation": "DELETE roleAssignments", "effect": "lost_reply"},
            {"operation": "GET resources", "effect": "lost_reply", "times": None, "chance": 0.2},
            {"operation": "GET virtualMachines", "effect": "lost_reply", "times": None, "chance": 0.1},
            {"operation": "PutObject", "effect": "lost_reply", "times": None, "chance": 0.3},
        ),
        "leaves_rights": True,
    },
    # A create without an answer, four tries whose every look is without one, and then nobody lists what there is.
    "unclear": {
        "faults": (
            {"operation": "PUT virtualMachines", "effect": "lost_reply"},
            {"operation": "GET virtualMachines", "effect": "lost_reply", "skip": 1, "times": 16},
            {"operation": "GET resourcegroups", "code": "InternalServerError", "times": 2},
            {"operation": "GET resources", "effect": "lost_reply", "times": None, "chance": 0.3},
        ),
    },
    # The first look that is answered comes when the machine has died meanwhile.
    "dead replay": {
        "faults": (
            {"operation": "PUT virtualMachines", "effect": "lost_reply"},
            {"operation": "GET virtualMachines", "effect": "lost_reply", "skip": 1, "times": 3},
        ),
        "incidents": ({"event": "crash", "attempt": 1, "after": "3s"},),
    },
    # The run directory is read again while Compute still does not know who asks.
    "expired": {
        "faults": (
            {"code": "ExpiredAuthenticationToken", "start": "30s", "end": "80s", "times": None},
            {"operation": "GET virtualMachines", **_EXPIRED},
        ),
        "forgets_delete_option": True,
    },
    "silent placement": {
        "faults": (
            {"operation": "GET resources", "code": "InternalServerError", "start": "15s", "end": "300s", "times": None},
        ),
    },
    "machine's timer": {"cloud_timer_works": False},
    "cleanup": {"forgets_delete_option": True},
    "left alone": {},
    "left hung": {},
}
_SILENT = {"start": f"{SILENT_HOURS[0]}h", "end": f"{SILENT_HOURS[1]}h", "times": None}
SCENARIOS |= {
    "no answer at the end": {"faults": ({"code": "ExpiredAuthenticationToken", **_SILENT},)},
    "silent store at the end": {"faults": ({"operation": "GetObject", "code": "InternalServerError", **_SILENT},)},
}
SCENARIOS |= {
    "pilot": SCENARIOS["plain"],
    "pilot, settings": SCENARIOS["plain"],
    "pilot, lost reply": SCENARIOS["lost reply"],
    "pilot, hung": {},
    "two at once": SCENARIOS["left alone"],
    "signal": SCENARIOS["left alone"],
    "shared home": SCENARIOS["left alone"],
    "goes straight on": SCENARIOS["plain"],
    "goes on elsewhere": SCENARIOS["plain"],
}
HUNG = ("machine's timer", "cleanup", "left hung", "pilot, hung")


class AzureCloud:
    """The double of one case."""

    # Without the cloud's timer alone: it only deallocates, and disk and address bill on, as test_deadline.py shows.
    cases = frozenset(SCENARIOS)
    in_harness = True

    def __init__(self, case: str) -> None:
        rules = Rules(page_size=1, **SCENARIOS[case])
        self.world = World(rules, Hung() if case in HUNG else None)
        self.arm = Arm(self.world, BASE)

    def provider(self, ask: Ask, points: Points) -> AzureInItsTime:
        return a_provider(Line(ask), points)

    def answer(self, message: tuple[Any, ...]) -> Any:
        what, *given = message
        match what:
            case "now":
                return self.world.now
            case "sleep":
                return self.world.advance(self.world.now + timedelta(seconds=given[0]))
            case "bucket":
                return self._bucket(*given)
            case _:
                try:
                    told = self.arm.handle(*given)
                except LostError:
                    return None
                return told.status, dict(told.headers), told.body

    def _bucket(self, operation: str, key: str, data: bytes) -> Any:
        """("held", what came of it), or the code of a refusal; None: no answer."""
        try:
            effect = self.world.reply_to(STORE_CALLS[operation], {})
        except ArmError as error:
            return "refused", error.body["error"]["code"]
        except LostError:
            return None
        held = carry_out(self.world, operation, key, data)
        return None if effect == "lost_reply" else ("held", held)

    def let_go(self) -> None:
        """Each client makes its own connections."""

    def put_aside(self) -> None:
        """The world is in the harness's process: a copy of the harness has a copy of it."""

    def take_up(self) -> None:
        """This process's world is as it was."""

    def targets(self, market: str) -> tuple[Target, ...]:
        return tuple(
            Target(
                offer=an_offer(region, Market(market)), seconds=300.0, overhead_seconds=60.0, fixed_usd=Decimal("0.01")
            )
            for region in REGIONS
        )

    def plant(self) -> None:
        theirs = {
            "trainplan": "run",
            LABEL_RUN: "261121-ffffffff",
            LABEL_ATTEMPT: "1",
            LABEL_DEADLINE: (NOON + timedelta(days=3)).isoformat(),
            LABEL_CLIENT: "another computer",
            PRICE: "0.50",
        }
        for name, tags in (("trainplan-261121-ffffffff-1", theirs), ("others", {"team": "others"})):
            group = self.world.put_group(name, {"location": "eastus", "tags": tags})
            path = f"{group.id}/providers/{VM}/{name}"
            self.world.add(
                Thing(
                    id=path, type=VM, name=name, group=name, location="eastus", body=_BODY, tags=tags,
                    created_at=self.world.now, usd_per_hour=0.5, power="running",
                )
            )  # fmt: skip

    def now(self) -> datetime:
        return self.world.now

    def pass_time(self, until: datetime) -> None:
        self.world.advance(until)

    def ledger(self) -> list[Lived]:
        return lived(self.world)

    def trains_until(self, run: str) -> datetime | None:
        """Also of one that has ended, and waits for its right to delete its group."""
        there = {vm.life for vm in self.world.machines()}
        for machine in self.world.life.physics.state.machines.values():
            if machine.labels.get(LABEL_RUN) != run or machine.course is None or machine.id not in there:
                continue
            if machine.why is Why.TRAINER_ENDED:
                return machine.ended_at
            if machine.live:
                ending = Simulated().ends(machine.course)
                return ending.at if ending is not None else None
        return None


_BODY = {"properties": {"hardwareProfile": {"vmSize": TYPE}, "osProfile": {}, "networkProfile": {}}}


def an_offer(region: str, market: Market) -> Offer:
    return Offer(
        provider="azure", region=region, instance_type=TYPE, device="T4", device_count=1, vcpus=4, memory_gib=28.0,
        market=market, usd_per_hour=_USD[market], planning_usd_per_hour=_USD[market], price_grade=PriceGrade.LISTED,
        price_as_of=NOON.date(), price_source="the harness", family="NCas_T4_v3",
        on_demand_usd_per_hour=_USD[Market.ON_DEMAND], device_memory_gib=16.0,
    )  # fmt: skip


def lived(world: World) -> list[Lived]:
    """Everything that was ever in a group, the groups, and rights on them; what set-up made is not told of."""
    groups = {group.name.lower(): group for group in world.groups if group.tags.get("trainplan") != "set-up"}
    rows = []
    for thing in world.past:
        group = groups.get(thing.group.lower())
        if group is None:
            continue
        machine = thing.type == VM and thing.error is None
        ended = (thing.stopped_at or thing.ended_at) if machine else thing.ended_at
        row = _row(thing.id, group.tags, thing.created_at, ended, (machine, thing.ended_at is None, thing.usd_per_hour))
        rows.append(replace(row, **_row_of_machine(world, thing, row)) if machine else row)
    rows += [
        _row(group.id, group.tags, group.created_at, group.ended_at, (False, group.ended_at is None, 0.0))
        for group in groups.values()
    ]
    for right in world.past_rights:
        group = groups.get(right.scope.rpartition("/")[2].lower())
        if group is not None:
            rows.append(
                _row(right.id, group.tags, right.created_at, right.ended_at, (False, right.ended_at is None, 0.0))
            )
    return rows


def _row_of_machine(world: World, vm: Thing, row: Lived) -> dict[str, Any]:
    """Who ended a machine, why, and what it had been doing."""
    work = None
    if row.ours and vm.life is not None:
        work = work_of(world.life.of(vm.life), world.life.physics)
    return fields_of({"id": vm.id, "ended_at": row.ended_at, **end_record(vm.ended_by, vm.why, work)})


def _row(
    name: str, tags: dict[str, str], created_at: datetime, ended_at: datetime | None, what: tuple[bool, bool, float]
) -> Lived:
    machine, left, usd = what
    ours = LABEL_RUN in tags and tags.get(LABEL_CLIENT) != "another computer"
    hours = ((ended_at or created_at) - created_at).total_seconds() / 3600
    return Lived(
        id=name, run=tags.get(LABEL_RUN), machine=machine, ours=ours, created_at=created_at, ended_at=ended_at,
        remaining=left,
        usd_per_hour=usd, usd=usd * hours,
    )  # fmt: skip


class Line:
    """The way to the harness, one question at a time."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._lock = threading.Lock()

    def __call__(self, *message: Any) -> Any:
        with self._lock:
            return self._ask(message)


def a_provider(line: Line, points: Points) -> AzureInItsTime:
    """What a newly started command makes, in a client."""
    settings = AzureSettings(subscription=SUBSCRIPTION, arm_endpoint=BASE)
    client = ArmClient(settings, credential=_Credential, transport=partial(_transport, line))
    bucket = MemoryBucket(partial(_send, line, points))
    sleep = partial(line, "sleep")
    return AzureInItsTime(
        account=AzureAccount(settings, PointedArm(client, points)),
        rented=Rented(
            cloud="azure",
            service="blob",
            store=lambda run_id: run_store(bucket, run_id, patience=Patience(sleep=sleep)),
            region=lambda: "",
            now=partial(line, "now"),
            digest=lambda _: DIGEST,
        ),
        now=partial(line, "now"),
        pace=Pace(sleep=sleep),
        public_key=lambda: PUBLIC_KEY,
    )


@dataclass(frozen=True)
class PointedArm:
    """A client of Resource Manager whose calls have two points each."""

    client: ArmClient
    points: Points

    def send(self, call: Call) -> Reply:
        with self._around(call.name):
            return self.client.send(call)

    def fetch(self, url: str) -> bytes:
        return self.client.fetch(url)

    def person(self) -> str | None:
        return self.client.person()

    def _around(self, name: str) -> AbstractContextManager[None]:
        """Lists of several groups are asked in threads, whose order nobody knows; what is looked up of the account
        changes nothing, and a death there is one before the first call that counts."""
        counts = threading.current_thread() is threading.main_thread() and name not in LOOK_UPS
        return self.points.around(name) if counts else nullcontext()


def _send(line: Line, points: Points, operation: str, key: str, data: bytes) -> Any:
    with points.around(STORE_CALLS[operation]):
        told = line("bucket", operation, key, data)
        if told is None:
            raise TransientError("the store did not answer", hint="try again")
        what, held = told
        if what == "refused":
            raise refused(held)
    return held


class _Credential:
    """A sign-in that is always good; that it has ended, the double says."""

    def get_token(self, *_: str, **__: Any) -> AccessToken:
        return AccessToken("token", int(time.time()) + 3600)


def _transport(line: Line) -> RequestsTransport:
    session = requests.Session()
    session.trust_env = False
    session.mount("https://", _Adapter(line))
    return RequestsTransport(session=session, session_owner=False)


class _Adapter(BaseAdapter):
    """Connections of `requests` that end in the harness."""

    def __init__(self, line: Line) -> None:
        super().__init__()
        self._line = line

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        body = request.body or b""
        raw = body.encode() if isinstance(body, str) else bytes(cast("bytes", body))
        target = str(request.url).removeprefix(BASE)
        told = self._line("arm", request.method, target, request.headers.get("Authorization"), raw)
        if told is None:
            raise requests.ConnectionError("the connection was closed without an answer")
        return _response(request, *told)

    def close(self) -> None:
        """Nothing is open."""


def _response(request: requests.PreparedRequest, status: int, headers: dict[str, str], body: Any) -> requests.Response:
    import json

    data = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    made = requests.Response()
    made.status_code = status
    made.headers = CaseInsensitiveDict({"Content-Type": "application/json", **headers})
    made.raw = HTTPResponse(body=io.BytesIO(data), headers=dict(made.headers), status=status, preload_content=False)
    made.url = str(request.url)
    made.request = request
    made.encoding = "utf-8"
    return made


assert azure.mgmt.compute
assert azure.mgmt.core.policies
