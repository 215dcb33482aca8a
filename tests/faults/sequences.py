"""Random sequences of commands and faults in one simulated cloud, and what must hold whatever happens."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from planner.journal import Journal
from planner.sweep import Fate, look
from planner.targets import Target
from pricing.offers import Market
from providers.base import LABEL_ATTEMPT, LABEL_CLIENT, LABEL_DEADLINE, LABEL_RUN
from providers.sim.catalogue import offers
from providers.sim.ledger import ledger
from providers.sim.provider import SimProvider
from providers.sim.training import Simulated
from providers.sim.values import Why
from providers.sim.world import World
from tests.builders import a_job
from tests.contract.sim import DirectApi
from tests.doubles.clock import NOON
from tests.faults.chance import TIMER_GRACE, a_scenario, a_script
from tests.faults.commands import Command, Computer, installed
from tests.faults.sim import Hung

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.run import Run
    from workloads.job import TrainingJob

MOST_CALLS = 400
"""A command that has made so many calls is killed by the person."""
SLACK = timedelta(minutes=4)
"""Boot, and what the calls of a create may take."""
_DISK_AND_TRANSFER = Decimal("0.05")


@dataclass
class Sequence:
    """One seed's world, computer and what was typed there. `told` is what a failing seed prints."""

    seed: int
    home: Path
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)
        self.never_back = self.chance.random() < 0.4
        scenario = a_scenario(self.chance, leaves_disks=not self.never_back)
        trainer = Hung() if self.chance.random() < 0.2 else Simulated()
        self.world = World(scenario, NOON, trainer)
        self.computer = Computer(self.home, self.world, self.told)
        self.limits: dict[str, tuple[timedelta, Decimal | None]] = {}
        self.depth = 0
        self.planted: list[str] = []

    def play(self) -> None:
        """Raises AssertionError where something does not hold."""
        if self.chance.random() < 0.3:
            self._plant()
        for _ in range(self.chance.choice((1, 2, 2, 3, 4))):
            self._step()
        self._sweep_finds_all_and_only_ours()
        if self.never_back:
            self._nobody_comes_back()
        else:
            self._somebody_comes_back()
        self._machines_kept_their_limits()

    def _step(self) -> None:
        kind = self.chance.random()
        if not self.limits or kind < 0.3:
            self._launch()
        elif kind < 0.5:
            self.computer.status(self._command())
        elif kind < 0.6:
            self.computer.stop(self._command(), self._some_run())
        elif kind < 0.75:
            self.computer.attach(self._command(), self._some_run())
        elif kind < 0.85:
            self.computer.sweep(self._command())
        elif kind < 0.93:
            self.world.play(a_script(self.chance))
        else:
            self.world.advance(self.world.now + timedelta(seconds=self.chance.choice((5, 60, 400, 1500))))

    def _launch(self) -> None:
        job, market = _job(self.chance.choice((0, 0, 1, 2))), self.chance.choice(tuple(Market))
        name = f"261121-{len(self.limits) + 1:08}"
        run = self.computer.draft(name, job, _targets(market, self.chance.choice((1, 2, 3))))
        self.limits[name] = run.deadline - run.created_at, run.budget_usd
        self.computer.launch(self._command(), run, job)

    def _some_run(self) -> str:
        return self.chance.choice(list(self.limits))

    def _command(self) -> Command:
        """Killed at a random call, or in the end; others are typed while it works."""
        early, late = self.chance.randrange(1, 20), self.chance.randrange(10, 150)
        dies_at = self.chance.choice((early, late, MOST_CALLS, MOST_CALLS))
        return Command(self.world, dies_at, self._meanwhile)

    def _meanwhile(self) -> None:
        if self.depth or self.chance.random() > 0.01:
            return
        self.depth = 1
        try:
            self.chance.choice((self._looked, self._stopped, self._swept, self._broke))()
        finally:
            self.depth = 0

    def _looked(self) -> None:
        self.computer.status(Command(self.world, self.chance.choice((6, 40))))

    def _stopped(self) -> None:
        self.computer.stop(Command(self.world, self.chance.choice((3, 20))), self._some_run())

    def _swept(self) -> None:
        self.computer.sweep(Command(self.world, self.chance.choice((20, 60))))

    def _broke(self) -> None:
        self.world.play(a_script(self.chance))

    def _plant(self) -> None:
        """Machines of another computer, and without our labels."""
        theirs = {
            LABEL_RUN: "261121-ffffffff", LABEL_ATTEMPT: "1", LABEL_CLIENT: "another computer",
            LABEL_DEADLINE: (NOON + timedelta(days=3)).isoformat(),
        }  # fmt: skip
        for number, labels in enumerate((theirs, {"team": "others"})):
            given = {
                "region": "sim-west", "zone": "sim-west-b", "instanceType": "a100.one", "market": "on_demand",
                "image": "img-planted", "clientToken": f"planted-{number}", "labels": labels, "userData": {},
            }  # fmt: skip
            with contextlib.suppress(Exception):  # no stock, no quota, a fault: then nothing is planted
                self.planted.append(self.world.call("RunInstance", given)["id"])

    # --- what must hold ------------------------------------------------------------------------------------------

    def _sweep_finds_all_and_only_ours(self) -> None:
        """By label alone: everything that lists must show by now, whoever made it, and nothing else."""
        self._mend()
        self.world.advance(self.world.now + self.world.scenario.listing_lag)
        provider = SimProvider(self.world.scenario, DirectApi(self.world))
        found = look(provider, dict, self.computer.settings.client, self.world.now)
        names = {known.resource.id for known in found.found}
        rows = {row["id"]: row for row in self._rows() if row["left"] and LABEL_RUN in row["labels"]}
        assert names == set(rows), f"sweep finds {sorted(names)}, there are {sorted(rows)}"
        for known in found.found:
            theirs = known.resource.client == "another computer"
            assert not theirs or known.fate in (Fate.FOREIGN, Fate.NEWBORN), f"sweep would end {known}"

    def _nobody_comes_back(self) -> None:
        """After every deadline nothing of ours is left that bills."""
        last = max((lasting for lasting, _ in self.limits.values()), default=timedelta(0))
        self.world.advance(self.world.now + last + TIMER_GRACE + SLACK)
        left = [row["id"] for row in self._ours() if row["left"] and Decimal(row["usd_per_hour"]) and self._timed(row)]
        assert not left, f"nobody came back, and there is still {left}"

    def _timed(self, row: dict[str, Any]) -> bool:
        """Whether a timer can end it: that of a machine which the provider has stopped does not run any more, and
        what is left then is its disk (docs/reliability.md)."""
        machine = self.world.state.machines[row["id"] if row["kind"] == "instance" else row["instance"]]
        by_cloud = machine.cloud_timer_at is not None and self.world.scenario.cloud_timer_works
        return by_cloud or machine.why is not Why.MAINTENANCE

    def _somebody_comes_back(self) -> None:
        """`plan status` brings every run to its end and its receipt, and nothing of any is left."""
        last = max(lasting for lasting, _ in self.limits.values()) + timedelta(hours=1)
        until = self.world.now + last
        while self.world.now < until:
            self.computer.status(Command(self.world, 10 * MOST_CALLS))
            if self._all_settled():
                break
            self.world.advance(self.world.now + timedelta(minutes=2))
        runs = self.computer.recorded()
        open_runs = [f"{run.run_id} {run.phase} {run.unverified}" for run in runs if run.live or run.outcome is None]
        assert not open_runs, f"still live: {open_runs}"
        assert self._all_settled(), "a run has no receipt"
        known = {run.run_id for run in runs}
        left = [row["id"] for row in self._ours() if row["left"]]
        assert not left, f"left: {left}"
        strangers = {row["run"] for row in self._ours()} - known
        assert not strangers, f"not in the journal: {strangers}"

    def _all_settled(self) -> bool:
        with Journal.open(self.computer.settings.journal) as journal:
            return not journal.live()

    def _machines_kept_their_limits(self) -> None:
        told = ledger(self.world.state, self.world.now)
        for run, (_, budget) in self.limits.items():
            machines = [row for row in self._ours() if row["run"] == run and row["kind"] == "instance"]
            if not machines:
                continue
            assert told["runs"][run]["max_live"] <= 1, f"{told['runs'][run]['max_live']} machines of {run} at once"
            recorded = next(known for known in self.computer.recorded() if known.run_id == run)
            for row in machines:
                _ended_in_time(row, recorded)
            if budget is not None:
                _within_budget(machines, budget)

    def _mend(self) -> None:
        """Nothing goes wrong with calls any more."""
        self.world.state.faults.clear()

    def _ours(self) -> list[dict[str, Any]]:
        return [row for row in self._rows() if row["labels"].get(LABEL_CLIENT) == self.computer.settings.client]

    def _rows(self) -> list[dict[str, Any]]:
        return list(ledger(self.world.state, self.world.now)["resources"])


def _ended_in_time(row: dict[str, Any], run: Run) -> None:
    """By its deadline and the timers' grace, whatever became of the client."""
    limit = run.deadline + TIMER_GRACE + SLACK
    ended = row["ended_at"]
    assert ended is not None, f"{row['id']} is still there"
    assert datetime.fromisoformat(ended) <= limit, f"{row['id']} lived until {ended}, its run until {run.deadline}"


def _within_budget(machines: list[dict[str, Any]], budget: Decimal) -> None:
    """What all machines of a run cost together, at the price of on demand for the time that timers may take."""
    spent = sum((Decimal(row["usd"]) for row in machines), Decimal(0))
    dearest = max(_ceiling(row) for row in machines)
    grace = dearest * Decimal((TIMER_GRACE + SLACK).total_seconds()) / 3600
    most = budget + grace + _DISK_AND_TRANSFER
    assert spent <= most, f"${spent} were spent of a budget of ${budget}"


def _ceiling(row: dict[str, Any]) -> Decimal:
    return max(
        offer.usd_per_hour
        for offer in offers()
        if (offer.instance_type, offer.region) == (row["instance_type"], row["region"])
    )


@cache
def _job(kind: int) -> TrainingJob:
    limits = ({"deadline": "20m"}, {"deadline": "15m", "budget_usd": "0.15"}, {"deadline": "1h", "budget_usd": "0.2"})
    return a_job(epochs=2, checkpoint_every="10s", constraints=limits[kind])


@cache
def _targets(market: Market, regions: int) -> tuple[Target, ...]:
    return tuple(
        Target(offer=offer, zone=zone, seconds=300.0, overhead_seconds=60.0, fixed_usd=Decimal("0.01"))
        for region in ("sim-east", "sim-west", "sim-north")[:regions]
        for offer in offers()
        if (offer.instance_type, offer.region, offer.market) == ("t4.one", region, market)
        for zone in offer.zones
    )


@contextlib.contextmanager
def _home(seed: int, empty: Path) -> Iterator[Path]:
    """Always the same for a seed: the label of the computer comes from it."""
    folder = empty.parent / f"seed-{seed}"
    folder.mkdir()
    try:
        shutil.copyfile(empty, folder / "journal.sqlite")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def template() -> Iterator[Path]:
    """An empty journal, made once, in a folder that goes with the block."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="plan-sequences-", dir=memory if memory.is_dir() else None) as folder:
        made = Path(folder) / "journal.sqlite"
        Journal.open(made).close()
        yield made


def played(seed: int, empty: Path) -> Sequence:
    """One sequence. Raises AssertionError naming the seed where something does not hold."""
    with _home(seed, empty) as home, installed(home):
        sequence = Sequence(seed, home)
        try:
            sequence.play()
        except Exception as error:
            said = "\n".join(sequence.told[-12:])
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}\nlast said:\n{said}") from error
        return sequence
