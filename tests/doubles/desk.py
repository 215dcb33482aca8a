"""Everything a launch needs, in a folder of its own: a fake provider, a real journal, a fake clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.builders import a_job, a_machine_estimate, an_offer
from tests.doubles.clock import FakeClock
from tests.doubles.fake_provider import FakeProvider, Script
from trainplan.planner.runs.events import Event
from trainplan.planner.runs.execution.executor import Executor, Person
from trainplan.planner.runs.execution.nobody import Nobody
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.receipt.receipt import Receipt, estimate_record
from trainplan.planner.runs.runner import Runner, request_for
from trainplan.planner.runs.targets import Target
from trainplan.planner.settings import Settings

if TYPE_CHECKING:
    from trainplan.planner.runs.execution.create import MakeRequest
    from trainplan.planner.runs.run import Run
    from trainplan.workloads.job import TrainingJob


SLOW_END = a_machine_estimate().time.high  # it has a time


@dataclass
class Desk:
    """`events` are all that anybody was told."""

    folder: Path
    clock: FakeClock = field(default_factory=FakeClock)
    events: list[Event] = field(default_factory=list)
    listen: Callable[[Event], None] = lambda _: None

    def __post_init__(self) -> None:
        self.provider = FakeProvider(self.clock)
        self.person: Person = Nobody()
        self.settings = Settings(home=self.folder / "home")
        self.journal = self.reopened()

    def reopened(self) -> Journal:
        """The journal as another process finds it."""
        journal = Journal.open(self.settings.journal)
        # Nothing here outlives a power cut, and waiting for the disk is most of what a test would do.
        journal._db.execute("PRAGMA synchronous = OFF")
        return journal

    def close(self) -> None:
        self.journal.close()

    def scripts(self, *scripts: Script) -> None:
        self.provider.scripts = list(scripts)

    def runner(self, journal: Journal | None = None) -> Runner:
        return Runner(
            lambda _: self.provider, journal or self.journal, self.settings, self.clock, self._tell, self.person
        )

    def executor(self, journal: Journal | None = None) -> Executor:
        return Executor(lambda _: self.provider, journal or self.journal, self.clock, self._tell, self.person)

    def request(self, job: TrainingJob | None = None, **changes: Any) -> MakeRequest:
        return request_for(job or a_job(), self.clock, **changes)

    def planned(self, job: TrainingJob | None = None, targets: Sequence[Target] | None = None, **changes: Any) -> Run:
        """A run that is in the journal and nowhere else yet; its model goes to the folder `model`, or `model-2`, …"""
        job = job or a_job()
        runner = self.runner()
        count = len(self.journal.runs())
        targets = targets or [Target(offer=an_offer(**changes))]
        folder = self.folder / (f"model-{count + 1}" if count else "model")
        run = runner.draft(job, targets, SLOW_END, folder)
        runner.record(run, job, estimate_record(a_machine_estimate()))
        return run

    def launch(
        self, job: TrainingJob | None = None, targets: Sequence[Target] | None = None, **changes: Any
    ) -> tuple[Run, Receipt]:
        """A fresh launch, to its end."""
        return self.runner().follow(self.planned(job, targets, **changes), self.request(job))

    def go_on(self, job: TrainingJob | None = None) -> tuple[Run, Receipt]:
        """A launch that goes on from the checkpoint of an earlier one."""
        job = job or a_job()
        runner = self.runner()
        earlier = runner.resumable(job, ["local"])
        assert earlier is not None
        draft = runner.draft(job, [Target(offer=an_offer())], SLOW_END, None)
        return runner.follow(runner.again(earlier, draft, None), self.request(job))

    @property
    def leaked(self) -> list[str]:
        """What still exists at the provider."""
        return [*self.provider.machines, *self.provider.attached]

    def events_of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def _tell(self, event: Event) -> None:
        self.events.append(event)
        self.listen(event)
