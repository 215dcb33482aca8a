"""Teardown is sure only after a look that shows nothing: a delete that was taken is no end, nor is one that failed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pytest

from tests.builders import a_job, a_run, a_target, an_attempt
from tests.doubles.clock import FakeClock
from tests.doubles.fake_machine import stubborn
from tests.doubles.fake_provider import FakeProvider
from trainplan.planner.errors import TeardownUnverifiedError
from trainplan.planner.runs.cleanup.cleanup import end
from trainplan.planner.runs.execution.teardown import Teardown
from trainplan.planner.runs.run import Phase
from trainplan.planner.runs.runner import request_for
from trainplan.providers.base import InstanceRef, InstanceState, OwnedResource
from trainplan.providers.errors import PermissionDeniedError

PATIENCE = timedelta(minutes=5)


@dataclass
class DeafAndUnlisted(FakeProvider):
    """Its list shows nothing. It answers the first `ignored` deletes as if it obeyed, and does nothing."""

    ignored: int = 0

    def list_owned(self, run_id: object = None) -> list[OwnedResource]:  # any run
        self.calls.append(("list_owned", ""))
        return []

    def delete(self, ref: InstanceRef | OwnedResource) -> None:
        if self.count("delete") < self.ignored:
            self.calls.append(("delete", ref.id))
            return
        super().delete(ref)


def launched(ignored: int) -> tuple[DeafAndUnlisted, FakeClock]:
    """A provider with a machine that trains for ever."""
    clock = FakeClock()
    provider = DeafAndUnlisted(clock, [stubborn], ignored=ignored)
    provider.launch(request_for(a_job(), clock)(a_run(), 1, a_target()))
    return provider, clock


def clear(provider: DeafAndUnlisted, clock: FakeClock) -> None:
    run = a_run(Phase.TEARING_DOWN, made=(an_attempt(),))
    Teardown(provider, clock, lambda _: None, PATIENCE).clear(run)


@pytest.mark.parametrize("ignored", [0, 1, 3])
def test_a_delete_that_was_ignored_is_sent_again_until_the_machine_has_ended(ignored: int) -> None:
    provider, clock = launched(ignored)
    clear(provider, clock)
    (machine,) = provider.machines.values()
    assert machine.sighting.state is InstanceState.ENDED
    assert provider.count("delete") == ignored + 1
    assert provider.calls[-1][0] == "get", "the last thing is a look"


def test_a_machine_that_ignores_every_delete_is_named_and_never_called_gone() -> None:
    provider, clock = launched(ignored=10**6)
    with pytest.raises(TeardownUnverifiedError, match=f"instance {an_attempt().ref.id} of run"):
        clear(provider, clock)
    (machine,) = provider.machines.values()
    assert machine.sighting.state is not InstanceState.ENDED


def test_cleanup_says_why_a_thing_could_not_be_deleted() -> None:
    clock = FakeClock()
    provider = FakeProvider(clock, [stubborn])
    provider.launch(request_for(a_job(), clock)(a_run(), 1, a_target()))
    provider.down["delete"] = PermissionDeniedError("machines may not be deleted by you")
    (resource,) = provider.list_owned()
    (left,) = end(provider, [resource], clock)
    assert left == f"machine {resource.id} in here: machines may not be deleted by you"
