"""What runs have left in object storage, run by run, what keeping it costs, and which of it may go."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from trainplan.planner.datasets.storage_costs import Stored, stored_cost
from trainplan.planner.errors import ThisMachineError

if TYPE_CHECKING:
    from trainplan.planner.runs.run import Run
    from trainplan.pricing.cost import ProviderRates


class StoredFate(StrEnum):
    """What `plan cleanup --stored` makes of a run directory: it removes only ENDED."""

    LIVE = "live"
    """The run goes on, or something of it still exists."""
    ENDED = "ended"
    """A run of this client that is over; with its checkpoints goes the possibility to go on from them."""
    FOREIGN = "foreign"
    """Of another client, or not in this home's journal: its model may still have to be fetched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run directory. `files` and bytes are those of every attempt."""

    provider: str
    run_id: str
    files: int
    stored: Stored
    fate: StoredFate


def stored_runs(
    provider: str,
    sizes: Mapping[str, int],
    runs: Mapping[str, Run] | None,
    existing: Collection[str],
    rates: ProviderRates | None,
) -> list[StoredRun]:
    """The run directories out of the bytes of each file, the largest first. Pure.

    `runs` is the journal by run id, None where it cannot be read; `existing` are runs of which machines were found.
    """
    files: dict[str, list[int]] = {}
    for path, size in sizes.items():
        files.setdefault(path.partition("/")[0], []).append(size)
    stored = [
        StoredRun(
            provider=provider,
            run_id=run_id,
            files=len(run_files),
            stored=stored_cost(sum(run_files), rates),
            fate=_fate(run_id, runs, existing),
        )
        for run_id, run_files in files.items()
    ]
    return sorted(stored, key=lambda stored_run: (-stored_run.stored.size_bytes, stored_run.run_id))


def removable(stored_runs: Iterable[StoredRun]) -> list[StoredRun]:
    """Those that may go."""
    return [stored_run for stored_run in stored_runs if stored_run.fate is StoredFate.ENDED]


def _fate(run_id: str, runs: Mapping[str, Run] | None, existing: Collection[str]) -> StoredFate:
    try:
        run = (runs if runs is not None else {}).get(run_id)
    except ThisMachineError:  # it is in the journal, and its row cannot be read
        return StoredFate.LIVE
    if run_id in existing or (run is not None and run.live):
        return StoredFate.LIVE
    return StoredFate.FOREIGN if run is None else StoredFate.ENDED
