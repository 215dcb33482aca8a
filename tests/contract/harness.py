"""What the contract suite needs of a provider: how to make one on a double, and how to ask it for a short run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from pricing.offers import OfferQuery
from providers.base import InstanceState, LaunchRequest, RunId
from tests.doubles.waiting import until
from workloads.job import TrainingJob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.base import Instance, InstanceRef, Provider, VendorRequest


class Harness(Protocol):
    """One world in which a provider runs. The trainer in it is tests/doubles/fake_trainer.py."""

    @property
    def provider_name(self) -> str: ...

    def provider(self) -> Provider:
        """A provider as a newly started client makes it; every one sees the same world."""
        ...

    def sent(self) -> Sequence[VendorRequest]:
        """Every call that created something, as it was really sent, oldest first."""
        ...

    def break_launch(self) -> None:
        """From now on nothing can be launched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """How the fake trainer behaves, and until when."""

    behaviour: str = "wait"
    run_id: str = "r1"
    attempt: int = 1
    lasting: timedelta = timedelta(hours=1)


def request(provider: Provider, ask: Ask = Ask()) -> LaunchRequest:
    """A launch request on the provider's first offer."""
    job = TrainingJob.model_validate(
        {
            "name": ask.behaviour,
            "model": {"layers": [8, "M"], "dense": [16]},
            "data": {"name": "digits"},
            "epochs": 1,
            "global_batch_size": 32,
        }
    )
    return LaunchRequest(
        run_id=RunId(ask.run_id),
        attempt=ask.attempt,
        offer=provider.offers(OfferQuery())[0],
        job_json=job.to_json(),
        deadline=(datetime.now(UTC) + ask.lasting).replace(microsecond=0),  # noqa: TID251  a real trainer's deadline
        memory_gib=0.25,
    )


def wait_for(provider: Provider, ref: InstanceRef, state: InstanceState) -> Instance:
    """The instance once it is in this state."""
    until(lambda: provider.get(ref).state is state, f"{ref.id} is {state}")
    return provider.get(ref)


def wait_until_it_trains(provider: Provider, run: LaunchRequest) -> None:
    """Until the trainer has written its first status: from then on it follows a request to end."""
    path = f"attempts/{run.attempt}/status.json"
    until(lambda: path in provider.store(run.run_id).list(), "the trainer writes its status")
