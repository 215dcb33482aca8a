"""Whatever of ours still exists, everywhere, found by label: what becomes of each thing, with or without a journal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from trainplan.planner.errors import ThisMachineError
from trainplan.planner.runs.decision.next_action import TIMER_GRACE
from trainplan.planner.runs.directory.run_directory import note_outlived
from trainplan.providers.base import InstanceState, OwnedResource, Provider
from trainplan.providers.errors import IncompleteListingError, InstanceNotFoundError, ProviderError

if TYPE_CHECKING:
    from trainplan.planner.clock import Clock
    from trainplan.planner.runs.run import Run

NEWBORN = timedelta(minutes=10)
"""What is younger may be another computer's launch that is just under way."""
PATIENCE = timedelta(minutes=15)
_PAUSE_SECONDS = 5.0
_Key = tuple[str, str, str]


class Fate(StrEnum):
    """What cleanup does with a thing. The first two are ended; NEWBORN with `--all`, FOREIGN with `--client`."""

    EXPIRED = "expired"
    """Past its own deadline and the timers' grace, whoever made it: its timers have failed."""
    ORPHAN = "orphan"
    """Made by this client, and no run of the journal uses it."""
    LIVE = "live"
    """A run of the journal uses it; plan stop ends it."""
    NEWBORN = "newborn"
    """Just made by this client, and not known here."""
    FOREIGN = "foreign"
    """Made by another client (another home, computer or user), and not yet past its deadline."""

    @property
    def ends(self) -> bool:
        """Whether a cleanup without options deletes it."""
        return self in (Fate.EXPIRED, Fate.ORPHAN)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundResource:
    """A resource with a label of ours, and what a cleanup does with it."""

    resource: OwnedResource
    fate: Fate


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanup:
    """What was found; `unanswered` are placements that did not tell, so that more may be there."""

    resources: tuple[FoundResource, ...]
    unanswered: tuple[str, ...]

    @property
    def ending(self) -> tuple[OwnedResource, ...]:
        """The resources that a cleanup deletes."""
        return tuple(resource.resource for resource in self.resources if resource.fate.ends)


def look(
    provider: Provider,
    runs: Callable[[], Mapping[str, Run] | None],
    clients: Collection[str],
    time: Callable[[], datetime | None],
    same_home: Collection[str] = (),
) -> Cleanup:
    """Everything with our labels at a provider, and what becomes of it. `clients` are this home's own ids, `same_home`
    those of other computers that use it, or that its journal alone has: what they made is ours where the run is in the
    journal.

    What has no label of a client is taken for the client's that made the rest of its run. `runs` reads the journal by
    run id, None where it cannot be read: then labels alone decide. It is read after the provider was asked: what was
    made before is in it. `time` tells the provider's time after its answers, None where nobody knows it.
    """
    unanswered: tuple[str, ...] = ()
    try:
        owned = list(provider.list_owned())
    except IncompleteListingError as error:
        owned, unanswered = list(error.resources), error.unanswered
    # A run is recorded before its create is sent: a journal read after the listing knows each run that is listed.
    runs_by_id, now = runs(), time()
    machineless = _machineless(provider, owned, runs_by_id, now)
    client_of_run = {resource.run_id: resource.client for resource in owned if resource.client is not None}
    owned = [replace(resource, client=resource.client or client_of_run.get(resource.run_id)) for resource in owned]
    resources = tuple(
        FoundResource(resource=resource, fate=fate_of(resource, runs_by_id, clients, now, machineless, same_home))
        for resource in owned
    )
    return Cleanup(resources=resources, unanswered=unanswered)


def fate_of(
    resource: OwnedResource,
    runs: Mapping[str, Run] | None,
    clients: Collection[str],
    now: datetime | None,
    machineless: Collection[str] = (),
    same_home: Collection[str] = (),
) -> Fate:
    """What becomes of one thing; pure. The label says whose it is, since a journal can be a copy of another home's.

    `now` is the provider's time; without it, nothing is past its deadline. `machineless` are runs whose newest machine
    the provider says has ended: what came with it serves nothing any more, though nobody has looked at the run.
    """
    if resource.deadline is not None and now is not None and now > resource.deadline + TIMER_GRACE:
        return Fate.EXPIRED
    try:
        run = runs.get(resource.run_id) if runs is not None else None
    except ThisMachineError:  # it is in the journal, and its row cannot be read: nothing is concluded from that
        return Fate.LIVE if resource.client in {*clients, *same_home} else Fate.FOREIGN
    if not _ours(resource, run, clients if run is None else {*clients, *same_home}):
        return Fate.FOREIGN
    if run is not None:
        # What bears no attempt's number may belong to the next one.
        is_left_over = resource.run_id in machineless and not resource.instance and resource.attempt is not None
        return Fate.LIVE if _in_use(resource, run) and not is_left_over else Fate.ORPHAN
    if resource.created_at is not None and now is not None and now - resource.created_at < NEWBORN:
        return Fate.NEWBORN
    return Fate.ORPHAN


def end(provider: Provider, resources: Iterable[OwnedResource], clock: Clock) -> list[str]:
    """End these, and look until they are gone. Returns what may still be there, by name, when patience has run out."""
    owned_resources = {(resource.region, resource.kind, resource.id): resource for resource in resources}
    until = clock.now() + PATIENCE
    note_outlived(provider, owned_resources.values(), clock.now())
    while owned_resources:
        complaints = [_end_resource(provider, resource) for resource in owned_resources.values()]
        remaining, complaint = _still_there(provider, owned_resources.keys())
        owned_resources = {
            key: resource for key, resource in owned_resources.items() if remaining is None or key in remaining
        }
        if not owned_resources:
            return []
        if clock.now() > until:
            why = next((text for text in [*complaints, complaint] if text), "")
            return [f"{kind} {name} in {region}{why}" for region, kind, name in owned_resources]
        clock.sleep(_PAUSE_SECONDS)
    return []


def _machineless(
    provider: Provider, owned: Iterable[OwnedResource], runs: Mapping[str, Run] | None, now: datetime | None
) -> set[str]:
    """Runs that count as live, and whose newest machine has ended by the provider's own word. What is young, or what
    nobody can tell, has one."""
    machineless: set[str] = set()
    for run_id in {resource.run_id for resource in owned if not resource.instance}:
        try:
            run = runs.get(run_id) if runs is not None else None
        except ThisMachineError:
            continue
        attempt = run.attempt if run is not None and run.live else None
        asked_at = None if attempt is None else attempt.sent_at or attempt.asked_at
        if attempt is None or attempt.ref is None or asked_at is None or now is None or now - asked_at < NEWBORN:
            continue
        if attempt.ref.provider != provider.name:
            continue
        try:
            if provider.get(attempt.ref).state is InstanceState.ENDED:
                machineless.add(run_id)
        except InstanceNotFoundError:
            machineless.add(run_id)
        except ProviderError:
            continue
    return machineless


def _ours(resource: OwnedResource, run: Run | None, clients: Collection[str]) -> bool:
    if run is not None and run.taken_over:
        return True
    client = resource.client or (run.client if run is not None else None)
    return client is None or client in clients


def _in_use(resource: OwnedResource, run: Run) -> bool:
    # What a run has left whose teardown is over, or could not be confirmed, is to be deleted.
    if not run.live or run.unverified is not None:
        return False
    attempt = run.attempt
    if attempt is None:
        return False
    # A journal may be older than what it is about: another computer has gone on then, with a copy of it.
    if resource.attempt is not None and resource.attempt > attempt.number:
        return True
    # What bears no attempt's number may belong to the one that runs now.
    return not attempt.cleared and resource.attempt in (None, attempt.number)


def _end_resource(provider: Provider, resource: OwnedResource) -> str:
    try:
        provider.delete(resource)
    except InstanceNotFoundError:
        return ""
    except ProviderError as error:
        return f": {error.message}"
    return ""


def _still_there(
    provider: Provider, keys: Iterable[tuple[str, str, str]]
) -> tuple[set[tuple[str, str, str]] | None, str]:
    """Which of these are listed; None: not every placement has answered, so any may be there."""
    try:
        owned = provider.list_owned()
    except ProviderError as error:
        return None, f": {error.message}"
    listed_keys = {(resource.region, resource.kind, resource.id) for resource in owned}
    return listed_keys & set(keys), ""
