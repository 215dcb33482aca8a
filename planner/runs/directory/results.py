"""Whether a run's complete output lies in its run directory, as the store answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainplan.planner.runs.directory.proofs import Vouched
from trainplan.planner.runs.directory.run_directory import status_of
from trainplan.providers.agent.schema import MANIFEST_BYTES
from trainplan.providers.agent.signatures import OUTPUT_MANIFEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainplan.planner.runs.run import Run
    from trainplan.providers.agent.signatures import Vouching
    from trainplan.providers.base import RunStore


def finished_attempt(run: Run, store: RunStore, vouching_of: Callable[[Run], Vouching | None]) -> int | None:
    """The attempt whose complete output is in the store, the newest first; None where the store has none.

    Attempts from before the run was last launched again do not count: what they left has been looked at. The manifest
    is uploaded last, so that an output with one is complete; the status of an attempt, or its signature (`vouching_of`;
    None: nothing is signed there), shows which attempt wrote it. Raises ProviderError where the store does not answer,
    and what `vouching_of` raises, which is asked where there is an output alone.
    """
    try:
        manifest = store.get(OUTPUT_MANIFEST, size=MANIFEST_BYTES + 1)
    except KeyError:
        return None
    vouching = vouching_of(run)
    for attempt in reversed(run.attempts):
        if run.again_at is not None and attempt.asked_at is not None and attempt.asked_at < run.again_at:
            return None
        if status_of(store, attempt.number).get("state") == "done":
            return attempt.number
        if vouching is not None and vouching.is_on and Vouched(vouching, attempt.number).wrote(store, manifest):
            return attempt.number
    return None
