"""What the contract suite needs of a provider: how to make one on a double, and how to ask it for a short run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, runtime_checkable

import pytest

from tests.doubles.waiting import until
from trainplan.pricing.offers import OfferQuery
from trainplan.providers.abilities import Resolver, Timekeeper
from trainplan.providers.base import (
    EndKind,
    Instance,
    InstanceRef,
    InstanceState,
    LaunchRequest,
    OwnedResource,
    Provider,
    RunId,
    VendorRequest,
)
from trainplan.providers.errors import IncompleteListingError, InstanceNotFoundError
from trainplan.workloads.job import TrainingJob

_LOOK_SECONDS = 5.0
_MOST_LOOKS = 200


class Harness(Protocol):
    """One world in which a provider runs. The trainer in it behaves as tests/doubles/fake_trainer.py says."""

    @property
    def provider_name(self) -> str: ...

    def provider(self) -> Provider:
        """A provider as a newly started client makes it; every one sees the same world."""
        ...

    def sent(self) -> Sequence[VendorRequest]:
        """Every call that created something, as it was really sent, oldest first."""
        ...

    @property
    def keeps_ended(self) -> bool:
        """Whether an instance that has ended is listed until somebody deletes it; else it goes by itself."""
        ...

    @property
    def tells_training(self) -> bool:
        """Whether an instance tells of its training (that it was asked to end, how it ended) and can be asked when it
        is gone. Else the run directory alone tells, and an instance that has ended may be unknown."""
        ...

    def break_launch(self) -> None:
        """From now on nothing can be launched."""

    def break_listing(self) -> None:
        """From now on one of the placements where something may be does not answer."""

    def lose_reply(self) -> None:
        """The first launch of the provider made next takes effect, and its answer is lost."""

    def clean(self) -> None:
        """Leave nothing behind."""


@runtime_checkable
class Silent(Protocol):
    """A world whose instances have no console that could be read."""

    @property
    def silent(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """How the fake trainer behaves, and until when. `job` are values of the job file that are others than usual."""

    behaviour: str = "wait"
    run_id: str = "r1"
    attempt: int = 1
    lasting: timedelta = timedelta(hours=1)
    job: Mapping[str, Any] = field(default_factory=dict)


def request(provider: Provider, ask: Ask = Ask()) -> LaunchRequest:
    """A launch request on the provider's first offer, looked up and put down as the executor does."""
    job = TrainingJob.model_validate(
        {
            "name": ask.behaviour,
            "model": {"layers": [8, "M"], "dense": [16]},
            "data": {"name": "digits"},
            "epochs": 1,
            "global_batch_size": 32,
            **ask.job,
        }
    )
    made = LaunchRequest(
        run_id=RunId(ask.run_id),
        attempt=ask.attempt,
        offer=provider.offers(OfferQuery())[0],
        job=job,
        deadline=(_now(provider) + ask.lasting).replace(microsecond=0),
        memory_gib=0.25,
    )
    return provider.resolve(made) if isinstance(provider, Resolver) else made


def launched(provider: Provider, run: LaunchRequest) -> Instance:
    """Launched, and shown by every list by now."""
    made = provider.launch(run)
    let_show(provider)
    return made


def owned_resources(provider: Provider, run_id: str | None = None) -> Sequence[OwnedResource]:
    """What is there, as far as the placements that answer know."""
    try:
        return provider.list_owned(None if run_id is None else RunId(run_id))
    except IncompleteListingError as error:
        return error.resources


def let_show(provider: Provider) -> None:
    """As long as a list may not show what was just made."""
    if isinstance(provider, Timekeeper):
        provider.sleep(provider.listing_lag.total_seconds())


def eventually(provider: Provider, holds: Callable[[], bool], what: str) -> None:
    """Look again until it holds, in the provider's own time; a failure of the test when it does not in time."""
    if not isinstance(provider, Timekeeper):
        until(holds, what)
        return
    for _ in range(_MOST_LOOKS):
        if holds():
            return
        provider.sleep(_LOOK_SECONDS)
    pytest.fail(f"not within {_MOST_LOOKS * _LOOK_SECONDS:.0f} s: {what}")


def state_of(provider: Provider, ref: InstanceRef) -> InstanceState | None:
    """None: not known, no more or not yet."""
    try:
        return provider.get(ref).state
    except InstanceNotFoundError:
        return None


def wait_for(provider: Provider, ref: InstanceRef, state: InstanceState) -> Instance:
    """The instance once it is in this state."""
    eventually(provider, lambda: state_of(provider, ref) is state, f"{ref.id} is {state}")
    return provider.get(ref)


def how_it_ended(harness: Harness, provider: Provider, run: LaunchRequest, ref: InstanceRef) -> EndKind | None:
    """Once it has: as its instance tells, or its run directory where instances do not."""
    if harness.tells_training:
        return wait_for(provider, ref, InstanceState.ENDED).end
    let_show(provider)
    eventually(provider, lambda: state_of(provider, ref) in (None, InstanceState.ENDED), f"{ref.id} has ended")
    told = json.loads(provider.store(run.run_id).get(f"attempts/{run.attempt}/status.json"))
    return EndKind.BAD_JOB if told.get("reason") == "BAD_JOB" else EndKind(told["state"])


def wait_until_it_trains(provider: Provider, run: LaunchRequest) -> None:
    """Until the trainer has written its first status: from then on it follows a request to end."""
    path = f"attempts/{run.attempt}/status.json"
    eventually(provider, lambda: path in provider.store(run.run_id).list(), "the trainer writes its status")


def _now(provider: Provider) -> datetime:
    if isinstance(provider, Timekeeper):
        return provider.now()
    return datetime.now(UTC)  # noqa: TID251  a real trainer's deadline
