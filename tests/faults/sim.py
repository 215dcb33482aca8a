"""The simulated cloud as the fault harness uses it: the world in the harness's process, the provider in the client."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.doubles.clock import NOON
from tests.faults.cases import SILENT_AFTER_ALL_HOURS, SILENT_AT_A_STOP_HOURS, SILENT_HOURS
from tests.faults.harness import Ask, EndedBy, Lived, Work
from tests.faults.points import Points
from trainplan.planner.runs.targets import Target
from trainplan.providers.base import LABEL_ATTEMPT, LABEL_CLIENT, LABEL_DEADLINE, LABEL_RUN
from trainplan.providers.sim.api import DisconnectedError, RefusedError, canonical
from trainplan.providers.sim.calls import call
from trainplan.providers.sim.catalogue import ADDRESS_USD_PER_HOUR, DISK_USD_PER_HOUR, ZONES, offers
from trainplan.providers.sim.ledger import ledger
from trainplan.providers.sim.provider import SimProvider
from trainplan.providers.sim.scenario import Scenario
from trainplan.providers.sim.training import Simulated, has_results
from trainplan.providers.sim.values import Why
from trainplan.providers.sim.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trainplan.providers.sim.training import Trainer, Write
    from trainplan.providers.sim.values import Course, Ending, SimMachine

TYPE, REGIONS = "t4.one", ("sim-east", "sim-west", "sim-north")
FOREIGN = "foreign"
QUICK: dict[str, Any] = {
    "boot": (timedelta(seconds=10), timedelta(seconds=20)),
    "deletion": (timedelta(seconds=2), timedelta(seconds=4)),
    "clean_up": (timedelta(seconds=1), timedelta(seconds=3)),
    "timer_grace": timedelta(minutes=5),
    "reclaims_per_hour": 0.0,
    "page_size": 1,
}
"""Everything takes seconds, so that a run has few calls; every list has a page for each thing."""


SCENARIOS: dict[str, dict[str, Any]] = {
    "plain": {},
    "late replay": {},
    "failover": {
        "placements": [{"region": "sim-east", "stock": 0}],
        "quotas": [{"region": "sim-west", "devices": 0}],
    },
    # Room in the last placement alone, and asking all of them takes longer than a full placement is remembered.
    "tail": {
        "placements": [
            *({"region": region, "stock": 0} for region in REGIONS[:-1]),
            *({"region": REGIONS[-1], "zone": zone, "stock": 0} for zone in ZONES[REGIONS[-1]][:-1]),
        ],
        "faults": [{"operation": "RunInstance", "code": "Throttled", "times": None, "chance": 0.93}],
    },
    "reclaim": {
        "incidents": [{"event": "reclaim", "attempt": 1, "after": "50s"}],
        "notice": "15s",
        "disks_stay": True,
    },
    "sweep, reclaim": {
        "incidents": [{"event": "reclaim", "attempt": 1, "after": "50s"}],
        "notice": "15s",
        "disks_stay": True,
    },
    "throttled": {
        "faults": [
            {"operation": "RunInstance", "code": "Throttled", "times": 3},
            {"operation": "ListInstances", "code": "Throttled", "times": None, "chance": 0.2},
            {"operation": "DescribeInstance", "code": "Throttled", "times": None, "chance": 0.2},
            {"operation": "GetObject", "code": "Throttled", "times": None, "chance": 0.2},
            {"operation": "DeleteDisk", "code": "Throttled", "times": 1},
            {"operation": "DeleteInstance", "code": "Throttled", "times": 1},
        ],
        "disks_stay": True,
    },
    "lost reply": {
        "faults": [
            {"operation": "RunInstance", "effect": "lost_request"},
            {"operation": "RunInstance", "effect": "lost_reply", "skip": 1},
            {"operation": "CreateSchedule", "effect": "lost_reply"},
            {"operation": "DeleteAddress", "effect": "lost_request"},
            {"operation": "DeleteSchedule", "effect": "lost_reply"},
            {"operation": "ListAddresses", "effect": "lost_reply", "times": None, "chance": 0.2},
            {"operation": "DescribeInstance", "effect": "lost_reply", "times": None, "chance": 0.1},
            {"operation": "PutObject", "effect": "lost_reply", "times": None, "chance": 0.3},
        ],
        "standing_reaper": False,
        "addresses_stay": True,
    },
    # Five creates in a row without an answer, and then nobody lists the region where they were sent to.
    "unclear": {
        "faults": [
            {"operation": "RunInstance", "effect": "lost_reply", "times": 5},
            {"operation": "ListInstances", "where": {"region": "sim-east"}, "effect": "warning", "times": 2},
            {"operation": "ListDisks", "where": {"region": "sim-east"}, "effect": "warning", "chance": 0.3,
             "times": None},
        ],
    },
    # The answer comes back for a machine that has died meanwhile.
    "dead replay": {
        "faults": [{"operation": "RunInstance", "effect": "lost_reply", "times": 4}],
        "incidents": [{"event": "crash", "attempt": 1, "after": "3s"}],
    },
    "expired": {
        "faults": [{"code": "ExpiredCredentials", "start": "30s", "end": "150s", "times": None}],
        "disks_stay": True,
    },
    "silent placement": {
        "faults": [
            {"operation": "ListInstances", "where": {"region": "sim-east"}, "code": "PlacementUnavailable",
             "start": "15s", "end": "300s", "times": None},
        ],
    },
    "machine's timer": {"cloud_timer_works": False},
    "cloud's timer": {"machine_timer_works": False},
    "cleanup": {"disks_stay": True},
    "absent": {"disks_stay": True},
    "absent, slow boot": {"boot": ["30m", "40m"], "standing_reaper": False},
    # Trains for 14 hours; a day after its machine has gone, its token makes another one.
    "forgotten token": {"throughput_factor": 4.0},
    "left hung": {},
    "hung": {},
    "never begins": {"machine_timer_works": False},
}  # fmt: skip


def _silent(start: float, end: float, **operation: str) -> dict[str, Any]:
    return {"code": "ExpiredCredentials", "start": f"{start}h", "end": f"{end}h", "times": None, **operation}


_silent_store = partial(_silent, operation="GetObject")
SCENARIOS |= {
    "no answer at the end": {"faults": [_silent(*SILENT_HOURS)]},
    "silent store at the end": {"faults": [_silent_store(*SILENT_HOURS)]},
}
SCENARIOS |= {"sweep, budget": {"throughput_factor": 0.13, "disks_stay": True}}
SCENARIOS |= {
    "pilot": SCENARIOS["plain"],
    "pilot, settings": SCENARIOS["plain"],
    "pilot, lost reply": SCENARIOS["lost reply"],
    "pilot, hung": {},
}
SCENARIOS |= {
    "two at once": {"disks_stay": True},
    "shared home": {},
    "sweep, stopped": {},
    "silent store at a stop": {"faults": [_silent_store(*SILENT_AT_A_STOP_HOURS)]},
    "results given up": {"faults": [_silent_store(*SILENT_AFTER_ALL_HOURS)]},
    "signal": {},
}
SCENARIOS |= {"goes straight on": {}, "goes on elsewhere": {}, "goes on, hung": {}}
ENDED_BY = {
    Why.DELETED: EndedBy.COMMAND,
    Why.TRAINER_ENDED: EndedBy.AGENT,
    Why.MACHINE_TIMER: EndedBy.MACHINE_TIMER,
    Why.CLOUD_TIMER: EndedBy.CLOUD_TIMER,
    Why.RECLAIMED: EndedBy.PROVIDER,
    Why.MAINTENANCE: EndedBy.PROVIDER,
    Why.DEVICE_LOST: EndedBy.PROVIDER,
    Why.HOST_FAILED: EndedBy.PROVIDER,
}
"""Who it was, by what the simulated cloud gives as the reason."""


class Hung(Simulated):
    """A trainer that never ends and does not listen: only timers and deletes end its machine."""

    def ends(self, course: Course) -> Ending | None:
        return None

    def stops(self, course: Course, asked_at: datetime) -> Ending | None:
        return None


class FirstFallsSilent(Simulated):
    """In a run's first attempt the trainer hangs after `after`, and says nothing from then on; others are well."""

    after = timedelta(hours=2)

    def ends(self, course: Course) -> Ending | None:
        return None if course.attempt == 1 else super().ends(course)

    def stops(self, course: Course, asked_at: datetime) -> Ending | None:
        well = course.attempt > 1 or asked_at < course.began_at + self.after
        return super().stops(course, asked_at) if well else None

    def writes(self, course: Course, after: datetime, until: datetime) -> Iterator[Write]:
        last = until if course.attempt > 1 else min(until, course.began_at + self.after)
        yield from super().writes(course, after, last)


class FirstNeverBegins(FirstFallsSilent):
    """In a run's first attempt nothing ever comes out of the machine."""

    after = timedelta(0)

    def begins(self, course: Course) -> Iterator[Write]:
        yield from () if course.attempt == 1 else super().begins(course)


TRAINERS: dict[str, type[Simulated]] = {
    "machine's timer": Hung,
    "cloud's timer": Hung,
    "cleanup": Hung,
    "left hung": Hung,
    "pilot, hung": Hung,
    "goes on, hung": Hung,
    "hung": FirstFallsSilent,
    "never begins": FirstNeverBegins,
}
"""How machines train in some of the cases."""


class SimCloud:
    """The world of one case."""

    cases = frozenset(SCENARIOS)
    in_harness = True
    download_usd = Decimal(0)
    """What a model's way home is estimated at."""

    def __init__(self, case: str, **changes: Any) -> None:
        self.scenario = Scenario.model_validate({**QUICK, **SCENARIOS[case], **changes})
        self.trains_with(TRAINERS.get(case, Simulated)())

    def trains_with(self, trainer: Trainer) -> None:
        """A new world, in which machines train like this."""
        self.world = World(self.scenario, NOON, trainer)

    def provider(self, ask: Ask, points: Points) -> SimProvider:
        return SimProvider(self.scenario, AskingApi(ask, points))

    def answer(self, message: tuple[Any, ...]) -> Any:
        what, *given = message
        if what == "now":
            return self.world.now
        if what == "sleep":
            self.world.advance(self.world.now + timedelta(seconds=given[0]))
            return None
        try:
            return call(self.world, given[0], json.loads(canonical(given[1])))
        except RefusedError as error:
            return "refused", error.code, error.message, error.details
        except DisconnectedError:
            return None

    def let_go(self) -> None:
        """Each client makes its own connections."""

    def put_aside(self) -> None:
        """The world is in the harness's process: a copy of the harness has a copy of it."""

    def take_up(self) -> None:
        """This process's world is as it was."""

    def targets(self, market: str) -> tuple[Target, ...]:
        return tuple(replace(target, download_usd=self.download_usd) for target in targets_of(market))

    def plant(self) -> None:
        theirs = {
            LABEL_RUN: "261121-ffffffff",
            LABEL_ATTEMPT: "1",
            LABEL_DEADLINE: (NOON + timedelta(days=3)).isoformat(),
            LABEL_CLIENT: "another computer",
        }
        for number, labels in enumerate((theirs, {"team": "others"})):
            call(self.world, "RunInstance", _foreign(number, labels))

    def now(self) -> datetime:
        return self.world.now

    def pass_time(self, until: datetime) -> None:
        self.world.advance(until)

    def ledger(self) -> list[Lived]:
        return [_lived(row, self.world) for row in ledger(self.world.state, self.world.now)["resources"]]

    def trains_until(self, run: str) -> datetime | None:
        for machine in self.world.state.machines.values():
            if machine.live and machine.labels.get(LABEL_RUN) == run and machine.course is not None:
                ending = Simulated().ends(machine.course)
                return ending.at if ending is not None else None
        return None


@dataclass(frozen=True)
class AskingApi:
    """The simulated cloud's API in a client (trainplan.providers.sim.api.Api); time is asked for between no points."""

    ask: Ask
    points: Points

    def call(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        with self.points.around(operation):
            told = self.ask(("call", operation, dict(parameters)))
        if told is None:
            raise DisconnectedError("the reply was lost")
        if isinstance(told, tuple):
            raise RefusedError(*told[1:])
        return dict(told)

    def now(self) -> datetime:
        told = self.ask(("now",))
        assert isinstance(told, datetime)
        return told

    def sleep(self, seconds: float) -> None:
        self.ask(("sleep", seconds))


def targets_of(market: str) -> tuple[Target, ...]:
    """Every zone of every region, in the catalogue's order."""
    return tuple(
        Target(
            offer=offer, zone=zone, seconds=300.0, overhead_seconds=60.0, fixed_usd=Decimal("0.01"),
            disk_usd_per_hour=DISK_USD_PER_HOUR, address_usd_per_hour=ADDRESS_USD_PER_HOUR,
        )
        for region in REGIONS
        for offer in offers()
        if (offer.instance_type, offer.region, offer.market) == (TYPE, region, market)
        for zone in offer.zones
    )  # fmt: skip


def _foreign(number: int, labels: Mapping[str, str]) -> dict[str, Any]:
    return {
        "region": "sim-east",
        "zone": "sim-east-c",
        "instanceType": TYPE,
        "market": "on_demand",
        "image": "img-foreign",
        "clientToken": f"{FOREIGN}-{number}",
        "labels": dict(labels),
        "userData": {},
    }


def _lived(row: Mapping[str, Any], world: World) -> Lived:
    labels = row["labels"]
    ours = LABEL_RUN in labels and labels.get(LABEL_CLIENT) != "another computer"
    machine = world.state.machines.get(row["id"])
    why = machine.why if machine is not None and machine.ended_at is not None else None
    return Lived(
        id=row["id"],
        run=row["run"],
        machine=machine is not None,
        ours=ours,
        created_at=datetime.fromisoformat(row["created_at"]),
        ended_at=datetime.fromisoformat(row["ended_at"]) if row["ended_at"] else None,
        remaining=bool(row["left"]),
        usd_per_hour=float(row["usd_per_hour"]),
        usd=float(row["usd"]),
        ended_by=ENDED_BY[why] if why is not None else None,
        why=why or "",
        work=work_of(machine, world) if machine is not None and ours else None,
    )


def work_of(machine: SimMachine, world: World) -> Work:
    """What a machine of the simulated cloud has done by now."""
    trained_at = machine.trainer_end.at if machine.trainer_end is not None else None
    course = machine.course
    return Work(
        deadline=machine.deadline,
        boots_since=machine.created_at,
        progress_at=_progress_at(machine, world),
        stop_asked_at=machine.asked_at,
        taken_at=machine.noticed_at,
        trained_at=trained_at,
        home_at=trained_at,
        has_results=course is not None and trained_at is not None and has_results(course, trained_at),
    )


def _progress_at(machine: SimMachine, world: World) -> datetime | None:
    """The time in its trainer's newest status, of which it writes one with everything that it reports."""
    if machine.course is None:
        return None
    run, path = machine.course.run, f"attempts/{machine.course.attempt}/status.json"
    world.tell(run)  # what it has written by now: it is read from it only when somebody looks
    if path not in world.files.paths(run, path):
        return None
    return datetime.fromisoformat(json.loads(world.files.read(run, path))["time"])
