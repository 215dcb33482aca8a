"""What a simulated machine stores at the end of its training, so that its results can be told from anybody else's."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from trainplan.providers.agent.signatures import ATTEMPT, OUTPUT_MANIFEST, Vouching, attempt_path, progress_path


def attempt_record(
    run_key: str, run_id: str, attempt: int, read: Callable[[str], bytes | None]
) -> tuple[str, bytes] | None:
    """Path and content of the attempt's record, as the agent of a rented machine writes it.

    `read` gives a file of the run directory, None where there is none. None: the run has no key, or left no results.
    """
    vouching, manifest = Vouching(run_key, run_id), read(OUTPUT_MANIFEST)
    if not vouching.is_on or manifest is None:
        return None
    stored = {OUTPUT_MANIFEST: manifest, progress_path(attempt): read(progress_path(attempt))}
    files = {path: hashlib.sha256(data).hexdigest() for path, data in stored.items() if data is not None}
    return attempt_path(attempt), vouching.record(str(attempt), files, ATTEMPT)
