"""The world behind the double: its time, its machines and what came with them, and what happens as time passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from tests.contract.sim import NamedTrainer
from tests.doubles.aws import backends, functions
from tests.doubles.aws.budgets import Actions
from tests.doubles.aws.machines import Machine, boot, finish, live_on, was_asked_to_stop
from tests.doubles.aws.scenario import Scenario, last_that_fits
from tests.doubles.aws.unknown import Unmet
from tests.doubles.clock import NOON
from tests.doubles.spoiled_trainers import SPOILED
from tests.faults.harness import EndedBy
from tests.faults.sim import Hung

if TYPE_CHECKING:
    from trainplan.providers.sim.training import Trainer

QUOTA_CODES = {
    ("p", "on-demand"): "L-417A185B",
    ("g", "on-demand"): "L-DB2E81BA",
    ("standard", "on-demand"): "L-1216C47A",
    ("p", "spot"): "L-7212CCBC",
    ("g", "spot"): "L-3819A6DF",
    ("standard", "spot"): "L-34B43A08",
    ("p5", "spot"): "L-C4BD4855",
}
"""A list of its own, and not the product's: they check each other."""
MARKETS = ("on-demand", "spot")
FIRST_DAY_VCPUS = 5.0
"""Of a new account for machines without accelerators, on demand and on spot; none for G, VT and P
(https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html)."""
_TRAINERS: dict[str, Callable[[], Trainer]] = {"named": NamedTrainer, "hung": Hung, **SPOILED}


@dataclass
class Thing:
    """Something that came with a machine, or was made for it."""

    id: str
    kind: str
    region: str
    run: str | None
    client: str | None
    created_at: datetime


@dataclass
class World:
    """One scenario's world. Time moves only by `advance`."""

    scenario: Scenario
    now: datetime = NOON
    began: datetime = NOON
    machines: dict[str, Machine] = field(default_factory=dict)
    things: dict[str, Thing] = field(default_factory=dict)
    tokens: dict[tuple[str, str, str], tuple[str, Any]] = field(default_factory=dict)
    shown_from: dict[str, datetime] = field(default_factory=dict)
    request: bytes = b""
    """The body of the request that is being answered: what a token is held against."""
    actions: Actions = field(default_factory=Actions)
    """What AWS Budgets does by itself."""
    terminations: list[tuple[datetime, str, str]] = field(default_factory=list)
    """Each call that was to end a machine: when, which, and its state before."""
    told_turns: int = 0
    caller: EndedBy | None = None
    """Whose call is being answered: a client's, or the standing reaper's. None: nobody calls."""

    def __post_init__(self) -> None:
        self.chance = Random(self.scenario.seed)
        if self.scenario.real:
            self.now = self.began = datetime.now(UTC)  # noqa: TID251  real machines live in it
        before = self.began - timedelta(minutes=1)
        self.turns = [(before, not self.scenario.reaper_fails)] if self.scenario.setup == "reaper" else []
        self.unmet = Unmet(self.scenario.unknown, self.began)
        self.trainer = _TRAINERS[self.scenario.trainer]()
        self.reaps_at = self.began + timedelta(seconds=self.scenario.reaper_every)

    def catch_up(self) -> None:
        """As late as it really is, where that counts."""
        self.advance(datetime.now(UTC) if self.scenario.real else self.now)  # noqa: TID251  real machines live in it

    # --- what is asked before a machine is made ------------------------------------------------------------------

    def stock(self, region: str, zone: str, instance_type: str, market: str) -> int:
        """What is left in a zone."""
        where = {"region": region, "zone": zone, "instance_type": instance_type, "market": market}
        allowed = last_that_fits(self.scenario.placements, "stock", **where)
        taken = sum((row.zone, row.instance_type, row.market) == (zone, instance_type, market) for row in self._live())
        return int(self.scenario.stock if allowed is None else allowed) - taken

    def vcpus_allowed(self, region: str, code: str) -> float:
        found = self.scenario.vcpus
        if self.scenario.first_day:
            found = FIRST_DAY_VCPUS if code in (QUOTA_CODES["standard", market] for market in MARKETS) else 0
        for rule in self.scenario.quotas:
            if rule.code == code and rule.region in (None, region):
                found = rule.vcpus
        return found

    def vcpus_used(self, region: str, code: str) -> float:
        return sum(
            row.vcpus for row in self._live() if row.region == region and code_of(row.instance_type, row.market) == code
        )

    def spot_price(self, region: str, zone: str, instance_type: str) -> str | None:
        """What the scenario says of it, if anything."""
        where = {"region": region, "zone": zone, "instance_type": instance_type, "market": "spot"}
        given = last_that_fits(self.scenario.placements, "spot_price", **where)
        return None if given is None else str(given)

    def hidden(self, name: str) -> bool:
        """Whether no list and no look-up shows it yet."""
        return self.shown_from.get(name, self.now) > self.now

    # --- what happens --------------------------------------------------------------------------------------------

    def born(self, machine: Machine, things: list[Thing]) -> None:
        """A machine was made, and what comes with it."""
        machine.created_at = self.now
        machine.boots_at = self.now + self._span(self.scenario.boot)
        self.machines[machine.id] = machine
        self.shown_from[machine.id] = self.now + timedelta(seconds=self.scenario.listing_lag)
        for thing in things:
            self.things[thing.id] = thing
            self.shown_from[thing.id] = self.shown_from[machine.id]

    def end(self, machine: Machine, code: str, message: str, by: EndedBy) -> None:
        """It stops billing now, and is gone a little later. What is done to it after that changes nothing."""
        if machine.ended_at is None:
            live_on(self, machine, self.now)
            machine.ended_at, machine.ended_by, machine.why = self.now, by, message
            machine.gone_at = self.now + self._span(self.scenario.deletion)
            backends.shutting_down(machine, code, message, self.now)

    def note_termination(self, machine: Machine) -> None:
        """A call is about to end it, whatever its state."""
        state = "pending" if not machine.booted else "running"
        gone = "terminated" if machine.is_gone else "shutting-down"
        self.terminations.append((self.now, machine.id, state if machine.ended_at is None else gone))

    def advance(self, until: datetime) -> None:
        """Everything that happens until then, in its order."""
        while True:
            upcoming = [event for event in self._events() if event[0] <= until]
            if not upcoming:
                break
            at, _, happens = min(upcoming, key=lambda event: (event[0], event[1]))
            self.now = max(self.now, at)
            happens()
        self.now = max(self.now, until)
        for machine in self._live():
            live_on(self, machine, self.now)

    def take(self, machine: Machine, event: str) -> None:
        """An incident befalls it."""
        if machine.ended_at is not None:
            return
        live_on(self, machine, self.now)
        if event == "reclaim":
            self.end(
                machine,
                "Server.SpotInstanceTermination",
                "Server.SpotInstanceTermination: Spot instance termination",
                EndedBy.PROVIDER,
            )
        else:
            said = "Server.InternalError: Internal error on launch"
            self.end(machine, "Server.InternalError", said, EndedBy.PROVIDER)

    def _events(self) -> Iterator[tuple[datetime, int, Callable[[], None]]]:
        yield self.reaps_at, 9, self._reap
        for at, fires in backends.schedules(self):
            yield at, 8, fires
        for machine in list(self.machines.values()):
            yield from self._of(machine)

    def _of(self, machine: Machine) -> Iterator[tuple[datetime, int, Callable[[], None]]]:
        if machine.gone_at is not None and not machine.is_gone:
            yield machine.gone_at, 1, lambda: self._remove(machine)
        if machine.is_gone and not machine.forgotten and machine.gone_at is not None:
            later = machine.gone_at + timedelta(seconds=self.scenario.forgets_after)
            yield later, 7, lambda: backends.forget(machine)
        if machine.ended_at is not None:
            return
        if not machine.booted:
            yield machine.boots_at, 2, lambda: self._boots(machine)
            return
        if machine.deadline is not None and self.scenario.machine_timer_works:
            ends = max(machine.deadline, machine.boots_at)
            yield ends, 5, lambda: finish(self, machine, None)
        yield from self._at_work(machine)

    def _at_work(self, machine: Machine) -> Iterator[tuple[datetime, int, Callable[[], None]]]:
        if machine.asks_at is not None:
            yield machine.asks_at, 3, lambda: boot(self, machine)
        ending = machine.ending
        if ending is not None:
            yield max(ending.at, machine.boots_at), 4, lambda: finish(self, machine, ending)
        # Only a client writes the wish, between two calls of `advance`: looks that find none need no instant.
        if machine.looks_at is not None and was_asked_to_stop(machine):
            yield machine.looks_at, 3, lambda: live_on(self, machine, self.now)
        for number, incident in enumerate(self.scenario.incidents):
            if number not in machine.befallen and incident.attempt in (None, machine.attempt):
                at = machine.boots_at + timedelta(seconds=incident.after)
                yield at, 6, lambda n=number, e=incident.event: self._befalls(machine, n, e)  # type: ignore[misc]

    def _boots(self, machine: Machine) -> None:
        if machine.attempt in self.scenario.never_start:
            text = "Server.InsufficientInstanceCapacity"
            said = f"{text}: Insufficient capacity to satisfy instance request"
            self.end(machine, text, said, EndedBy.PROVIDER)
            return
        machine.booted = True
        backends.runs(machine)
        if not self.scenario.real:
            boot(self, machine)

    def off(self, machine: Machine) -> None:
        """A real machine is off, by itself unless it was ended before."""
        text = "Client.InstanceInitiatedShutdown"
        self.end(machine, text, f"{text}: Instance initiated shutdown", EndedBy.AGENT)

    def _befalls(self, machine: Machine, number: int, event: str) -> None:
        machine.befallen.add(number)
        self.take(machine, event)

    def _remove(self, machine: Machine) -> None:
        machine.is_gone = True
        backends.terminated(machine, stays=self.scenario.disks_stay)

    def _reap(self) -> None:
        """The standing reaper, where it is installed and works."""
        self.reaps_at = self.now + timedelta(seconds=self.scenario.reaper_every)
        if not (self.scenario.cloud_timer_works and backends.reaper_stands(self)):
            return
        succeeded = True
        if self._live() or functions.is_another():  # else there is nothing that it could end
            self.caller = EndedBy.CLOUD_TIMER
            succeeded = functions.reap(self.now)
            self.caller = None
        self.turns.append((self.now, succeeded))

    def _live(self) -> list[Machine]:
        return [row for row in self.machines.values() if row.ended_at is None]

    def _span(self, bounds: tuple[float, float]) -> timedelta:
        return timedelta(seconds=self.chance.uniform(*bounds))


def code_of(instance_type: str, market: str) -> str:
    """The quota that a machine counts in."""
    letter = instance_type[0]
    group = letter if letter in "pg" else "standard"
    if market == "spot" and instance_type.startswith("p5"):
        group = "p5"
    return QUOTA_CODES[group, market]
