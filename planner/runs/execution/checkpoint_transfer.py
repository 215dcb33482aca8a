"""A run that goes on at another provider takes its newest checkpoint with it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from trainplan.planner.runs.directory.run_directory import newest_checkpoint
from trainplan.providers.agent import signatures
from trainplan.workloads.output_files import stored_names

if TYPE_CHECKING:
    from trainplan.providers.agent.signatures import Vouching
    from trainplan.providers.base import RunStore

_MARK = "complete.json"


def carry(here: RunStore, there: RunStore, key: Vouching | None, report: Callable[[int], None]) -> None:
    """Copy the newest whole checkpoint, its mark last; `report` hears of its step before. Raises ProviderError.

    With a `key` it is vouched for on the way: it was trained on this computer, where no agent vouches for anything, and
    a rented machine takes no other. What a rented machine has stored has its own record, which goes with it.
    """
    step = newest_checkpoint(here)
    if step is None:
        return
    report(step)
    name = f"step-{step:08}"
    paths = [path for path in here.list("checkpoints") if path.split("/")[1] == name]
    names = stored_names(sorted(path.split("/", 2)[2] for path in paths))
    digests: dict[str, str] = {}
    # A checkpoint counts once its mark is there: a copy that is cut off before is no checkpoint at the new placement.
    for path in sorted(paths, key=lambda path: path.endswith(f"/{_MARK}")):
        data, file = here.get(path), path.split("/", 2)[2]
        digests[file] = hashlib.sha256(data).hexdigest()
        if file == _MARK and key is not None and key.is_on:
            there.put(f"checkpoints/{name}/{signatures.NAME}", key.record(name, digests))
        there.put(f"checkpoints/{name}/{names[file]}", data)
