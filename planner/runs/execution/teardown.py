"""Ending what a run has made: delete, and look until every placement has answered that nothing is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from trainplan.planner.clock import Clock
from trainplan.planner.errors import TeardownUnverifiedError
from trainplan.planner.runs.decision.next_action import TIMER_GRACE
from trainplan.planner.runs.directory.run_directory import ATTACHED_KINDS, PARTS, note_outlived
from trainplan.providers import interrupts
from trainplan.providers.base import InstanceState, OwnedResource, Provider
from trainplan.providers.errors import (
    CredentialsError,
    IncompleteListingError,
    InstanceNotFoundError,
    PermissionDeniedError,
    ProviderError,
)
from trainplan.workloads.wording import Command, Option

if TYPE_CHECKING:
    from trainplan.planner.runs.run import Attempt, Run

LONGEST_PAUSE_SECONDS = 15.0


@dataclass
class Seen:
    """What a teardown found of attempts, by their number: when the first list showed the machine, and the last one
    what comes with it, by its kind."""

    machines: dict[int, datetime] = field(default_factory=dict)
    attached: dict[tuple[int, str], datetime] = field(default_factory=dict)

    def add(self, resource: OwnedResource, at: datetime) -> None:
        """A list that was asked for `at` shows it. One of no known attempt tells nothing of any."""
        if resource.attempt is None:
            return
        if resource.instance:
            self.machines.setdefault(resource.attempt, at)
        else:
            self.attached[resource.attempt, ATTACHED_KINDS.get(resource.kind, resource.kind)] = at

    def shows(self, attempt: int) -> bool:
        """Whether anything that bills was seen of an attempt: a schedule may stay of a create that made no machine."""
        return attempt in self.machines or any(
            number == attempt and kind not in ("schedule", "task") for number, kind in self.attached
        )

    def attached_of(self, attempt: int) -> dict[str, datetime]:
        """When which of `disk` and `address` were last seen."""
        return {part: self.attached[attempt, part] for part in PARTS if (attempt, part) in self.attached}


@dataclass
class Teardown:
    """`patience` is how long absence is looked for; `pause_seconds` grows between looks."""

    provider: Provider
    clock: Clock
    say: Callable[[str], None]
    patience: timedelta
    pause_seconds: float = 1.0
    seen: Seen = field(default_factory=Seen)
    _complained: set[str] = field(default_factory=set)

    def clear(self, run: Run) -> None:
        """Delete everything of the run. Raises TeardownUnverifiedError when its absence could not be made sure of.

        A machine that another client made for the run is left to that client until its own deadline is over.
        """
        began_at = self.clock.now()
        pause = self.pause_seconds
        while True:
            remaining = self._remaining_names(run)
            if not remaining:
                return
            if self.clock.now() - began_at > self.patience + self._settling(run, began_at):
                raise TeardownUnverifiedError(
                    f"teardown unverified: {', '.join(remaining)} of run {run.run_id} may still be there",
                    "plan status looks again; plan cleanup lists what is left and what it costs",
                )
            self.clock.sleep(pause)
            # A deletion takes seconds to minutes, and each look is calls that the vendor limits.
            pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)

    def _remaining_names(self, run: Run) -> list[str]:
        """Names of what may still be there, all of it told to go; empty once its absence is sure."""
        interrupts.ask()
        # Taken before the request: the reply may not include anything that was created after it was sent.
        asked_at = self.clock.now()
        try:
            owned: Sequence[OwnedResource] = self.provider.list_owned(run.run_id)
            unknown: tuple[str, ...] = ()
        except IncompleteListingError as error:
            # What is listed is deleted now; the teardown is verified only when every placement has answered.
            owned, unknown = error.resources, error.unanswered or ("placements that did not answer",)
        except ProviderError as error:
            return [self._report_no_answer(error)]
        for resource in owned:
            self.seen.add(resource, asked_at)
        others = [resource for resource in owned if is_anothers(resource, run, asked_at)]
        note_outlived(self.provider, self._outliving(run, owned), asked_at)
        remaining = [self._end(resource) for resource in owned if resource not in others]
        # Another client trains on that machine: deleting it would destroy the work of that client.
        if others:
            names = ", ".join(f"{other.kind} {other.id} of client {other.client}" for other in others)
            raise TeardownUnverifiedError(
                f"{names} belongs to run {run.run_id}, which that client has taken over: left alone",
                f"{Command('stop', run.run_id, Option.CLIENT('any'))} ends it all the same",
            )
        remaining += [f"whatever is in {placement}" for placement in unknown]
        return remaining or self._not_listed(run, asked_at)

    def _outliving(self, run: Run, owned: Sequence[OwnedResource]) -> list[OwnedResource]:
        """What is listed of attempts whose machine has ended, or is not there."""
        with_machine = self.seen.machines.keys() - {
            attempt.number for attempt in run.attempts if attempt.ended_at is not None
        }
        return [resource for resource in owned if not resource.instance and resource.attempt not in with_machine]

    def _end(self, resource: OwnedResource) -> str:
        interrupts.ask()
        name = f"{resource.kind} {resource.id}"
        try:
            self.provider.delete(resource)
        except InstanceNotFoundError:
            pass
        except ProviderError as error:
            self._report_no_answer(error)
        return name

    def _not_listed(self, run: Run, asked_at: datetime) -> list[str]:
        """Nothing was listed when it was asked for.

        That counts once a listing must show the newest create, and no instance answers.
        """
        for attempt in run.attempts:
            if attempt.cleared:
                continue
            remaining = self._remaining_of(attempt, asked_at)
            if remaining:
                return [remaining]
        return []

    def _remaining_of(self, attempt: Attempt, asked_at: datetime) -> str:
        if not self._listed_by(asked_at, attempt.sent_at):
            return f"what attempt {attempt.number} may have made"
        if attempt.ref is None:
            return ""
        try:
            # A second source: a listing may miss an instance that the provider returns when it is asked for by its id.
            if self.provider.get(attempt.ref).state is InstanceState.ENDED:
                return ""
            self.provider.delete(attempt.ref)
        except InstanceNotFoundError:
            return ""
        except ProviderError as error:
            return self._report_no_answer(error)
        return f"instance {attempt.ref.id}"

    def _listed_by(self, asked_at: datetime, sent_at: datetime | None) -> bool:
        return sent_at is None or asked_at - sent_at >= self.provider.listing_lag

    def _settling(self, run: Run, began_at: datetime) -> timedelta:
        """Patience starts when a listing can be believed."""
        newest = max((attempt.sent_at for attempt in run.attempts if attempt.sent_at), default=began_at)
        return max(timedelta(0), newest + self.provider.listing_lag - began_at)

    def _report_no_answer(self, error: ProviderError) -> str:
        """Say what stands in the way, once; a refused sign-in loudly, since only the person can mend it."""
        kind = type(error).__name__
        if kind not in self._complained:
            self._complained.add(kind)
            if isinstance(error, CredentialsError | PermissionDeniedError):
                self.say(f"CANNOT TEAR DOWN, still trying: {error.message}. {error.hint}".rstrip())
            else:
                self.say(f"teardown: {error.message}; trying again")
        return "what the provider did not answer about"


def is_anothers(resource: OwnedResource, run: Run, now: datetime) -> bool:
    """Whether a thing of the run was made by a client that the journal knows no attempt of, and may live on."""
    clients = {attempt.client for attempt in run.attempts}
    if run.taken_over or None in clients or resource.client is None or resource.client in clients:
        return False
    return resource.deadline is None or now <= resource.deadline + TIMER_GRACE
