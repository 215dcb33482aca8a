"""Ending the machines of a run by its label alone: where the journal does not help, or its holder does not react."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from trainplan.planner.runs.cleanup.cleanup import end
from trainplan.planner.runs.directory.run_directory import note_stop_for_good, stopped_path
from trainplan.providers.base import InstanceState, OwnedResource, Provider, RunId
from trainplan.providers.errors import IncompleteListingError, InstanceNotFoundError, ProviderError

if TYPE_CHECKING:
    from trainplan.planner.clock import Clock

CHECKPOINT_PATIENCE = timedelta(minutes=2)
"""How long a trainer that is asked to stop has for its checkpoint. As much as a reclaimed spot machine of AWS gets: a
job whose checkpoint takes longer would lose it there too."""
_LOOK_SECONDS = 5.0
_MOST_ROUNDS = 3
"""How often what a list shows only after the first machines are gone is ended too."""


def stop_by_label(
    provider: Provider, run_id: RunId, owned: Sequence[OwnedResource], clock: Clock, say: Callable[[str], None]
) -> list[str]:
    """Ask the machines of a run for a checkpoint, end everything of the run, and look until nothing is listed.

    Returns what may still be there, by name.
    """
    machines = [resource for resource in owned if resource.instance]
    _ask_for_checkpoint(provider, machines, clock, say)
    # Before the end: a command that follows the run and finds the machine gone looks for this note first.
    for machine in machines:
        _note(provider, machine, clock)
    remaining = end(provider, owned, clock)
    for _ in range(_MOST_ROUNDS):
        if remaining:
            return remaining
        more, unanswered = _resources_of(provider, run_id)
        if unanswered:
            return unanswered
        if not more:
            return []
        remaining = end(provider, more, clock)
    return remaining or [f"run {run_id}: something makes machines for it again and again"]


def _ask_for_checkpoint(
    provider: Provider, machines: Sequence[OwnedResource], clock: Clock, say: Callable[[str], None]
) -> None:
    waiting = [machine for machine in machines if _ask_to_stop(provider, machine, say)]
    until = clock.now() + CHECKPOINT_PATIENCE
    while waiting := [machine for machine in waiting if _lives(provider, machine)]:
        if clock.now() > until:
            names = ", ".join(machine.id for machine in waiting)
            say(f"{names}: no end within {CHECKPOINT_PATIENCE} of being asked; ended without a new checkpoint")
            return
        clock.sleep(_LOOK_SECONDS)


def _ask_to_stop(provider: Provider, machine: OwnedResource, say: Callable[[str], None]) -> bool:
    try:
        if machine.attempt is not None:
            note_stop_for_good(provider, machine.run_id, machine.attempt)
        provider.stop(machine.ref)
    except ProviderError as error:
        say(f"{machine.id}: could not be asked for a checkpoint: {error.message}")
        return False
    return True


def _lives(provider: Provider, machine: OwnedResource) -> bool:
    try:
        return provider.get(machine.ref).state is not InstanceState.ENDED
    except InstanceNotFoundError:
        return False
    except ProviderError:
        return True


def _note(provider: Provider, machine: OwnedResource, clock: Clock) -> None:
    """The note for whoever still follows the run; a store that does not answer is no reason to leave a machine."""
    if machine.attempt is None:
        return
    reply = {"by": "plan stop", "time": clock.now().isoformat()}
    with contextlib.suppress(ProviderError):
        provider.store(machine.run_id).put(stopped_path(machine.attempt), json.dumps(reply).encode())


def _resources_of(provider: Provider, run_id: RunId) -> tuple[Sequence[OwnedResource], list[str]]:
    """What of the run is listed, and which placements did not tell."""
    try:
        return provider.list_owned(run_id), []
    except IncompleteListingError as error:
        return error.resources, [f"whatever is in {placement}" for placement in error.unanswered]
    except ProviderError as error:
        return (), [f"whatever {provider.name} did not tell: {error.message}"]
