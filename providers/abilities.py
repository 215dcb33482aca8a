"""What some providers can do besides what every provider must (trainplan.providers.base): a caller asks `isinstance`.

What a cloud tells of money is in `trainplan.providers.cloud` (bill, alarm, invoice), beside the values that it tells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from trainplan.pricing.obtainability import MachinePlacement, Obtainability
from trainplan.providers.base import Check, InstanceRef, LaunchRequest, Preflight, RunId, VendorRequest

if TYPE_CHECKING:
    from trainplan.pricing.offers import Offer, Rental
    from trainplan.providers.values import Resolution
    from trainplan.workloads.job import TrainingJob


@runtime_checkable
class Preparer(Protocol):
    """What some providers can do besides: make ready what a launch needs and that takes long (a container image)."""

    def prepare(self, request: LaunchRequest, report: Callable[[str], None]) -> None:
        """Build or fetch what is missing; nothing missing, nothing done. `report` gets a line now and then.

        Launch does not wait for it: it raises MachineError where this was not called.
        """


@runtime_checkable
class JobChecker(Protocol):
    """What some providers can do besides: a preflight of one job, where the offer alone does not tell enough."""

    def preflight_for(self, offer: Offer, job: TrainingJob) -> Preflight:
        """As `preflight`, of a launch of this job."""
        ...


@runtime_checkable
class Resolver(Protocol):
    """What some providers can do besides: look up, without creating anything, what a request leaves open."""

    def resolve(self, request: LaunchRequest) -> LaunchRequest:
        """The same request with a `resolution`, so that `requests` is pure and a replay sends the same."""
        ...

    def resolution_type(self, offer: Offer) -> type[Resolution]:
        """The class of the resolutions for this offer, by which the journal reads one again."""
        ...


@runtime_checkable
class SpotScout(Protocol):
    """What some providers can do besides: tell whether spot is to be had, without asking for it."""

    def has_spot(self, offer: Offer, zone: str | None) -> bool | None:
        """None where nobody knows. Creates nothing. Raises ProviderError."""
        ...


@runtime_checkable
class Refiner(Protocol):
    """What some providers can do besides: live prices, and the zones that have an offer."""

    def refine(self, offers: Sequence[Offer]) -> Sequence[Offer]:
        """The offers in their order, each as one or several (one for each live price, with its zones); one that is
        not to be had any more is left out, one of which nothing is known stays as it is. Creates nothing.

        A live price has grade `observed` and today's date. Raises ProviderError.
        """
        ...


@runtime_checkable
class Doctor(Protocol):
    """What some providers can do besides: look at the account, whatever the offer."""

    def doctor(self) -> Sequence[Check]:
        """Return one line for each thing that every launch needs: identity, network, permission, stores, set-up.

        In parallel, under 10 s; creates nothing, raises nothing of the vendor's: what does not answer is UNKNOWN.
        Quotas are `preflight`'s, which after the first offer answers from what was looked up already.
        """
        ...


@runtime_checkable
class Prober(Protocol):
    """What some providers can do besides: ask their cloud what no page of its vendor answers."""

    def probes(self) -> Mapping[str, Callable[[], Check]]:
        """By the name of its step of a drill, what asks a question: OK where the cloud does as is assumed, REFUSED
        where it does otherwise, UNKNOWN where this account cannot show it.

        Each creates nothing and costs nothing, and raises ProviderError.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupStep:
    """Something standing in the account: `name` and `detail` are what a person reads before it is made or removed,
    `calls` what is sent for it, in order."""

    name: str
    detail: str
    calls: tuple[VendorRequest, ...]


@runtime_checkable
class SetUp(Protocol):
    """What some providers can do besides: make what the account lacks for launches, and remove it again."""

    def lacking(self) -> Sequence[SetupStep]:
        """What would be made, in order; nothing where all is there. Creates nothing. Raises ProviderError."""
        ...

    def removable(self) -> Sequence[SetupStep]:
        """What would be removed of what was made, in order; what a run or a person still needs is not in it."""
        ...

    def carry_out(self, step: SetupStep, report: Callable[[str], None]) -> None:
        """Make or remove it; idempotent, also after a crash half-way. `report` gets a line where it takes long."""


@runtime_checkable
class Timekeeper(Protocol):
    """A provider whose time is not this computer's: a simulated cloud."""

    def now(self) -> datetime: ...
    def sleep(self, seconds: float) -> None:
        """Wait so many seconds."""


@runtime_checkable
class ServerTime(Protocol):
    """What some providers can do besides: hold this computer's clock against their own."""

    def server_time_offset(self) -> timedelta | None:
        """How far the provider's clock is ahead of this computer's, by its newest answer; negative: behind.

        None: not known, and nothing there may be ended for its age. Asks nobody.
        """
        ...


@runtime_checkable
class EndTeller(Protocol):
    """What some providers can do besides: tell when a machine ended that `get` has forgotten, by a record of theirs."""

    def ended_at(self, ref: InstanceRef) -> datetime | None:
        """Until when the machine was charged for; None where the record has nothing of it. Raises ProviderError."""
        ...


@runtime_checkable
class ReclaimTeller(Protocol):
    """What some providers can do besides: tell whether they took back a spot machine that `get` has forgotten."""

    def was_taken_back(self, ref: InstanceRef) -> bool:
        """Whether a record says so. Raises ProviderError."""
        ...


@runtime_checkable
class DeletionTeller(Protocol):
    """What some providers can do besides: tell when the deletion of a machine began that `get` has forgotten. It may
    have been taken away before."""

    def deleted_at(self, ref: InstanceRef) -> datetime | None:
        """From when on the machine was not charged for, at the latest; None where the record has nothing of it. Raises
        ProviderError."""
        ...


@runtime_checkable
class CreationTeller(Protocol):
    """What some providers can do besides: tell whether a create that was cut off has made a machine which has gone."""

    def was_made(self, run_id: RunId, attempt: int, region: str, asked_at: datetime) -> bool | None:
        """Whether the attempt, whose create was sent last at `asked_at`, ever had a machine; None: the record does not
        tell. Raises ProviderError."""
        ...


@runtime_checkable
class PromptEnder(Protocol):
    """What some providers can do besides: tell how soon a machine that has written its last line is off."""

    def off_within(self) -> timedelta:
        """How long it is charged for after that, at most."""
        ...


@runtime_checkable
class AttachedDeleter(Protocol):
    """What some providers can do besides: delete the disk and the address of a machine with it, as its create asks."""

    def attached_outlast(self, ref: InstanceRef) -> timedelta | None:
        """The longest time for which the disk and the address of a machine are charged for after its end, where no
        command deletes them earlier; None: they are not deleted with it."""
        ...


@runtime_checkable
class QuotaTeller(Protocol):
    """What some providers can do besides: tell which limits of the account refuse a create, before it is sent."""

    def shortfalls(self, offers: Sequence[Offer]) -> Sequence[str]:
        """Return for each offer, in order, the quota that is too small for one such machine, or what of the account's
        plan keeps it out, in words; "" for none known.
        """
        ...


@runtime_checkable
class DoubtTeller(Protocol):
    """What some providers can do besides: tell which offers their vendor may refuse to the account, where that is not
    sure. They stay in a plan."""

    def doubts(self, offers: Sequence[Offer]) -> Sequence[str]:
        """Return for each offer, in order, what speaks against its create, in words; "" for nothing known."""
        ...


@runtime_checkable
class RegionTeller(Protocol):
    """What some providers can do besides: tell which regions are closed to the account."""

    def closed_regions(self, regions: Sequence[str]) -> Mapping[str, str]:
        """Return those of the regions in which the account can create nothing, each with the reason in words."""
        ...


@runtime_checkable
class ObtainabilityTeller(Protocol):
    """What some providers can do besides: tell how likely offers are obtained, as their vendor scores it for the
    account."""

    def obtainability(self, offers: Sequence[Offer]) -> Mapping[MachinePlacement, Obtainability]:
        """The offers that the vendor scores; others are left out. Creates nothing.

        Raises ProviderError where it answers about none of them.
        """
        ...


def placement_of(offer: Offer) -> MachinePlacement:
    """What a create request for an offer asks for, but for the zone."""
    return MachinePlacement(offer.provider, offer.region, offer.instance_type, offer.market)


class QueueQuestion(NamedTuple):
    """A job of this length on so many of a rental's machines in a region (on a cluster: a partition)."""

    rental: Rental
    region: str
    lasting: timedelta
    machines: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAnswer:
    """`starts_in` is when the scheduler would begin the job, counted from now (None: it does not say), `refusal` why it
    would not take it ("": it would). `past` are the waits of the jobs that began there lately (None: there is no
    accounting that could tell)."""

    starts_in: timedelta | None
    refusal: str = ""
    past: tuple[timedelta, ...] | None = None


@runtime_checkable
class QueueTeller(Protocol):
    """What some providers can do besides: tell how long jobs wait before they begin."""

    def queue_answers(self, questions: Sequence[QueueQuestion]) -> Sequence[QueueAnswer]:
        """An answer for each question. Creates nothing. Raises ProviderError where nothing answers."""
        ...


@runtime_checkable
class Closing(Protocol):
    """What some providers can do besides: let go of their connections at the end of a command."""

    def close(self) -> None:
        """Release what was opened."""
