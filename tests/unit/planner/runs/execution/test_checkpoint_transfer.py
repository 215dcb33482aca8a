"""A run that goes on at another provider takes its newest checkpoint with it, whole, its mark last."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.builders import a_target
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import (
    RATE,
    RUNNING,
    SIGHTING_OF_END,
    FakeMachine,
    FakeStore,
    Sighting,
    ends,
    ends_after,
    trains_well,
)
from tests.doubles.fake_provider import FakeProvider
from trainplan.planner.runs.events import TrainerStarted
from trainplan.planner.runs.execution.executor import Executor
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.providers.base import EndKind

HERE, THERE = a_target("0.1"), a_target("0.2", provider="elsewhere")
STEP = "checkpoints/step-00000100"


class KeepsOrder(FakeStore):
    """Remembers what was put into it, in its order."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []

    def put(self, path: str, data: bytes) -> None:
        self.order.append(path)
        super().put(path, data)


@pytest.fixture
def elsewhere(desk: Desk) -> FakeProvider:
    """The second provider. Its machines live by the scripts of the attempts of the whole run."""
    return FakeProvider(desk.clock, name="elsewhere")


def followed(desk: Desk, elsewhere: FakeProvider) -> Run:
    """A run of two providers, followed to its end; its store at the second one keeps the order of what is put."""
    run = desk.planned(targets=[HERE, THERE])
    elsewhere.stores[run.run_id] = KeepsOrder()
    providers = {"local": desk.provider, "elsewhere": elsewhere}
    executor = Executor(providers.__getitem__, desk.journal, desk.clock, desk.events.append, desk.person)
    return executor.follow(run, desk.request())


def checkpoint_paths(store: FakeStore) -> list[str]:
    assert isinstance(store, KeepsOrder)
    return [path for path in store.order if path.startswith("checkpoints/")]


def test_a_run_that_changes_its_provider_takes_its_newest_checkpoint_with_it(
    desk: Desk, elsewhere: FakeProvider
) -> None:
    desk.scripts(ends_after(EndKind.RECLAIMED, 100))
    elsewhere.scripts = [trains_well]
    run = followed(desk, elsewhere)
    assert (run.phase, run.outcome, run.provider) == (Phase.DONE, Outcome.SUCCEEDED, "elsewhere")
    assert [attempt.target and attempt.target.offer.provider for attempt in run.attempts] == ["local", "elsewhere"]
    assert [started.resumed_from_step for started in desk.events_of(TrainerStarted)] == [0, 100]
    assert [*desk.provider.machines, *elsewhere.machines] == []


def test_the_mark_that_makes_a_checkpoint_whole_is_put_last(desk: Desk, elsewhere: FakeProvider) -> None:
    """A carrier that dies half-way must leave nothing behind that looks complete."""
    desk.scripts(ends_after(EndKind.RECLAIMED, 100))
    followed(desk, elsewhere)
    carried = checkpoint_paths(elsewhere.stores[desk.journal.runs()[0].run_id])[:2]
    assert carried == [f"{STEP}/weights", f"{STEP}/complete.json"]


def _leaves_older_and_half(machine: FakeMachine) -> Iterator[Sighting]:
    """Reclaimed with two whole checkpoints at its provider and half of a third, newer one."""
    machine.start()
    for steps in (50, 50):
        machine.train(steps, RATE)
        machine.checkpoint()
    machine.store.put("checkpoints/step-00000103/weights", b"half")
    yield RUNNING
    yield SIGHTING_OF_END[EndKind.RECLAIMED]


def test_only_the_newest_whole_checkpoint_is_carried(desk: Desk, elsewhere: FakeProvider) -> None:
    desk.scripts(_leaves_older_and_half)
    run = followed(desk, elsewhere)
    assert checkpoint_paths(elsewhere.stores[run.run_id])[:2] == [f"{STEP}/weights", f"{STEP}/complete.json"]


def test_without_a_checkpoint_nothing_is_carried_and_the_run_begins_anew(desk: Desk, elsewhere: FakeProvider) -> None:
    desk.scripts(ends(EndKind.RECLAIMED))
    run = followed(desk, elsewhere)
    assert run.outcome is Outcome.SUCCEEDED
    assert [started.resumed_from_step for started in desk.events_of(TrainerStarted)] == [0, 0]


def test_at_the_same_provider_nothing_is_copied(desk: Desk, elsewhere: FakeProvider) -> None:
    desk.scripts(ends_after(EndKind.RECLAIMED, 100), trains_well)
    run = desk.planned(targets=[a_target("0.1", zone="a"), a_target("0.1", zone="b"), THERE])
    providers = {"local": desk.provider, "elsewhere": elsewhere}
    executor = Executor(providers.__getitem__, desk.journal, desk.clock, desk.events.append, desk.person)
    run = executor.follow(run, desk.request())
    assert (run.outcome, run.provider) == (Outcome.SUCCEEDED, "local")
    assert elsewhere.stores == {}
