"""The simulated cloud itself: its state, its time, and what it does when it is called. No network, no clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from trainplan.providers.base import LABEL_RUN
from trainplan.providers.sim.attempt_record import attempt_record
from trainplan.providers.sim.draws import between
from trainplan.providers.sim.life import Moment, Rules, next_moment, write_progress
from trainplan.providers.sim.objects import RunFiles
from trainplan.providers.sim.stock import Spot, reclaims_per_hour
from trainplan.providers.sim.tables import State
from trainplan.providers.sim.training import EXIT_DONE, EXIT_WITH_RESULTS, Simulated, Trainer, Write
from trainplan.providers.sim.values import Course, Ending, Kind, MachineState, SimMachine

if TYPE_CHECKING:
    from trainplan.providers.sim.scenario import Scenario, Script

SCENARIO = "scenario"


class World:
    """One simulated cloud. The same scenario, calls and times give the same world."""

    def __init__(
        self, scenario: Scenario, now: datetime, trainer: Trainer | None = None, state: State | None = None
    ) -> None:
        """`now` is when a new world begins unless its scenario says; one with a `state` goes on where it was."""
        self.state = State() if state is None else state
        self.scenario = scenario
        self.files = RunFiles(self.state.objects)
        self._trainer = trainer or Simulated()
        self._due: dict[str, tuple[SimMachine, Moment | None]] = {}
        if "began" not in self.state.notes:
            begin = (scenario.start or now).astimezone(UTC)
            self.state.notes["began"] = self.state.notes["now"] = begin.isoformat()
        self._now = datetime.fromisoformat(self.state.notes["now"])
        self._rules = self._made_rules()
        if self.state.notes.get(SCENARIO) != scenario.model_dump_json():
            self.follow(scenario)

    @property
    def now(self) -> datetime:
        """The simulated time."""
        return self._now

    @property
    def began(self) -> datetime:
        """When the simulated world began."""
        return datetime.fromisoformat(self.state.notes["began"])

    @property
    def age(self) -> timedelta:
        """How long the simulated world has existed, in its own time."""
        return self._now - self.began

    def follow(self, scenario: Scenario) -> None:
        """Go on under other rules; its faults and incidents take the place of the old scenario's."""
        for name in [name for name in self.state.faults if name.startswith(f"{SCENARIO}-")]:
            del self.state.faults[name]
        for name in [name for name in self.state.incidents if name.startswith(f"{SCENARIO}-")]:
            del self.state.incidents[name]
        self.scenario = scenario
        self.state.notes[SCENARIO] = scenario.model_dump_json()
        self._play(scenario, SCENARIO, self.began)

    def play(self, script: Script) -> list[str]:
        """Faults and incidents besides those of the scenario; durations count from now. Returns the faults' ids."""
        number = self.state.counts.get("scripts", 0)
        self.state.counts["scripts"] = number + 1
        return self._play(script, f"script{number}", self.now)

    def advance(self, until: datetime) -> None:
        """Let time pass; everything that is due happens at its own instant. Back in time is no time."""
        while (pair := self._next()) is not None and pair[1].at <= until:
            machine, moment = pair
            self._now = max(self._now, moment.at)
            self._happens(machine, moment)
        self._now = max(self._now, until)
        self.state.notes["now"] = self._now.isoformat()
        for thing in list(self.state.things.values()):
            if thing.ended_at is None and thing.goes_at is not None and thing.goes_at <= self._now:
                self.state.things[thing.id] = replace(thing, ended_at=thing.goes_at)

    def put(self, machine: SimMachine) -> None:
        """Keep a machine as it is now; what came with it begins to go when it is gone."""
        self.state.machines[machine.id] = machine
        if machine.state is MachineState.TERMINATED:
            self._clean_up(machine)

    def tell(self, run: str, until: datetime | None = None) -> None:
        """Have everything written that the machines of a run have written by then."""
        for machine in self._machines_of(run):
            instance, writes = write_progress(machine, until or self.now, self._trainer)
            if instance is not machine:
                self.state.machines[instance.id] = instance
                pair = self._due.get(instance.id)
                if pair is not None and pair[0] is machine:
                    # What happens to it next does not hang on what it has written.
                    self._due[instance.id] = (instance, pair[1])
            self._write(instance, writes)

    def console(self, machine: str) -> str:
        """What a machine has printed."""
        return self.state.consoles.get(machine, "")

    def _next(self) -> tuple[SimMachine, Moment] | None:
        pair: tuple[SimMachine, Moment] | None = None
        for machine in self.state.machines.values():
            if machine.state is MachineState.TERMINATED:
                continue
            due = self._due.get(machine.id)
            if due is None or due[0] is not machine:
                due = self._due[machine.id] = (machine, next_moment(machine, self._rules))
            if due[1] is not None and (pair is None or due[1].at < pair[1].at):
                pair = (machine, due[1])
        return pair

    def _happens(self, machine: SimMachine, moment: Moment) -> None:
        run = machine.labels.get(LABEL_RUN)
        if run is not None:
            self.tell(run, moment.at)
        before = self.state.machines[machine.id]
        after = moment.make(before, moment.at)
        if after.course is not None and before.course is None:
            self._write(after, self._trainer.begins(after.course))
        if after.course is not None and after.trainer_end is not None and before.trainer_end is None:
            self._write(after, self._trainer.finishes(after.course, after.trainer_end))
            self._vouch(after.course, after.trainer_end)
        self.put(after)

    def _vouch(self, course: Course, ending: Ending) -> None:
        """Sign a record as the agent does, which has the run's key; its trainer has not."""
        if ending.exit_code not in (EXIT_DONE, EXIT_WITH_RESULTS):
            return
        record = attempt_record(course.run_key, course.run, course.attempt, partial(self.files.find, course.run))
        if record is not None:
            self.files.write(course.run, *record)

    def _machines_of(self, run: str) -> list[SimMachine]:
        return [machine for machine in self.state.machines.values() if machine.labels.get(LABEL_RUN) == run]

    def _write(self, machine: SimMachine, writes: Iterable[Write]) -> None:
        for write in writes:
            if machine.course is None:
                continue
            path = write.path
            if path is None:
                self.state.consoles[machine.id] = self.console(machine.id) + write.data.decode()
                path = f"attempts/{machine.course.attempt}/log/output.log"
            self.files.write(machine.course.run, path, write.data, append=write.append)

    def _clean_up(self, machine: SimMachine) -> None:
        rules, at = self.scenario, machine.gone_at or self.now
        stays = {Kind.DISK: rules.disks_stay, Kind.ADDRESS: rules.addresses_stay, Kind.SCHEDULE: True}
        low, high = (part.total_seconds() for part in rules.clean_up)
        for thing in list(self.state.things.values()):
            if thing.machine == machine.id and thing.goes_at is None and not stays[thing.kind]:
                later = timedelta(seconds=between(rules.seed, low, high, "clean up", thing.id))
                self.state.things[thing.id] = replace(thing, goes_at=at + later)

    def _play(self, script: Script, name: str, base: datetime) -> list[str]:
        faults = script.made_faults(base, name)
        for fault in faults:
            self.state.faults[fault.id] = fault
        for number, incident in enumerate(script.made_incidents(base)):
            self.state.incidents[f"{name}-{number}"] = incident
        self._rules = self._made_rules()
        self._due.clear()
        return [fault.id for fault in faults]

    def _made_rules(self) -> Rules:
        def rate(machine: SimMachine) -> float:
            placement = Spot(
                region=machine.region, zone=machine.zone, instance_type=machine.instance_type, market=machine.market
            )
            return reclaims_per_hour(self.scenario, placement, self.age)

        return Rules(
            scenario=self.scenario,
            trainer=self._trainer,
            incidents=tuple(self.state.incidents.values()),
            reclaims_per_hour=rate,
            job_json=self.files.job_json,
            machines=self.state.machines.values,
            marks=self.files.marks,
        )
