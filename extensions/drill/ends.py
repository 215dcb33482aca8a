"""The last steps of a drill, of all its machines together: deletes, reads of what is gone, and a look at the whole."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from trainplan.extensions.drill.sheet import FailedError, SkippedError
from trainplan.extensions.drill.steps import Step
from trainplan.planner.runs.cleanup.cleanup import Cleanup, Fate, look
from trainplan.planner.runs.provider_clock import tells_time
from trainplan.providers.base import InstanceRef, InstanceState, OwnedResource
from trainplan.providers.errors import InstanceNotFoundError

if TYPE_CHECKING:
    from trainplan.extensions.drill.tools import Tools
    from trainplan.planner.runs.run import Run

GONE_PATIENCE = timedelta(minutes=3)
_Key = tuple[str, str, str]


def try_ends(tools: Tools, before: frozenset[_Key]) -> None:
    """Tries the last steps; `before` is what had our labels when the drill began."""
    refs = [attempt.ref for run in tools.recorded() for attempt in run.attempts if attempt.ref is not None]
    if not refs:
        tools.sheet.leave_out((Step.DELETE, Step.NOT_FOUND, Step.CLEANUP), "no machine was created")
        return
    _try(tools, Step.DELETE, lambda: _deleted(tools, refs))
    _try(tools, Step.NOT_FOUND, lambda: _wait_until_gone(tools, refs))
    _try(tools, Step.CLEANUP, lambda: _cleaned(tools, before))


def ours(tools: Tools) -> Cleanup:
    """Everything with our labels. Raises ProviderError."""
    runs: dict[str, Run] = {run.run_id: run for run in tools.journal.runs()}

    def time() -> datetime | None:
        return tools.now() if tells_time(tools.provider) else None

    return look(tools.provider, lambda: runs, {tools.client.id}, time)


def keys_of(cleanup: Cleanup) -> frozenset[_Key]:
    """What identifies each resource that a cleanup has found."""
    return frozenset(_key(resource.resource) for resource in cleanup.resources)


def _try(tools: Tools, step: Step, holds: Callable[[], str]) -> None:
    try:
        with tools.sheet.step(step) as names:
            names.append(holds())
    except SkippedError:
        return  # the others are tried all the same


def _deleted(tools: Tools, refs: list[InstanceRef]) -> str:
    for ref in refs:
        # They have ended: deleting once more has to be no error, since a teardown repeats what was cut off.
        tools.provider.delete(ref)
    until = tools.now() + GONE_PATIENCE
    while True:
        rest = [owned.kind for run_id in tools.runs for owned in tools.provider.list_owned(run_id)]
        if not rest:
            return f"{len(refs)} deletes; nothing is listed"
        if tools.now() > until:
            raise FailedError(f"still listed: {', '.join(rest)}")
        tools.pause()


def _wait_until_gone(tools: Tools, refs: list[InstanceRef]) -> str:
    unknown = 0
    for ref in refs:
        try:
            # A vendor may forget a machine that was deleted, or go on showing it as ended for a while.
            state = tools.provider.get(ref).state
        except InstanceNotFoundError:
            unknown += 1
            continue
        if state is not InstanceState.ENDED:
            raise FailedError(f"a machine that was deleted is shown as {state}")
    return f"{unknown} of {len(refs)} unknown, the others shown as ended"


def _cleaned(tools: Tools, before: frozenset[_Key]) -> str:
    cleanup = ours(tools)
    if cleanup.unanswered:
        raise FailedError(f"{len(cleanup.unanswered)} placements did not answer")
    rest = [
        resource.resource.kind
        for resource in cleanup.resources
        if resource.resource.run_id in tools.runs
        or (resource.fate in (Fate.ORPHAN, Fate.EXPIRED) and _key(resource.resource) not in before)
    ]
    if rest:
        raise FailedError(f"still listed with the labels of trainplan: {', '.join(rest)}")
    return "no resource of the drill is listed"


def _key(resource: OwnedResource) -> _Key:
    return resource.region, resource.kind, resource.id
