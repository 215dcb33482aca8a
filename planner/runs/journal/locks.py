"""One process at a time acts on a run: a lock that the system lets go of when its process dies, however it dies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.planner.errors import StateError, ThisMachineError

if TYPE_CHECKING:
    from filelock import FileLock

    from trainplan.providers.base import RunId


PATIENCE_SECONDS = 60.0
"""How long a launch waits for another one of the same job: what that does meanwhile is one write of the journal, which
waits as long for others that write (trainplan.planner.runs.journal.journal)."""


class RunLocks:
    """Locks of runs, as files in a folder of their own. Each is held by one process, on this computer."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._locks: dict[RunId, FileLock] = {}

    def keep(self, run_id: RunId) -> bool:
        """Take the lock now, for the next `holding` of this object; False: another process has it.

        A run is written down before it is followed, and nobody may settle it between the two.
        Raises StateError where the folder cannot be written.
        """
        lock = self._lock_of(run_id)
        if lock is not None:
            self._locks[run_id] = lock
        return lock is not None

    def keeps(self, run_id: RunId) -> bool:
        """Whether the lock was taken with `keep` and is not held yet: the run is as it was read then."""
        return run_id in self._locks

    def let_go(self, run_id: RunId) -> None:
        """Give up a lock that was kept: the run is not followed after all."""
        lock = self._locks.pop(run_id, None)
        if lock is not None:
            lock.release()

    @contextmanager
    def holding(self, run_id: RunId) -> Iterator[bool]:
        """Whether this process may act on the run until the block ends; False: another one does.

        Raises StateError where the folder cannot be written.
        """
        # A second lock object for the same file would find it taken, though it is this process that holds it.
        lock = self._locks.pop(run_id, None) or self._lock_of(run_id)
        if lock is None:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    @contextmanager
    def deciding(self, job_digest: str, patience_seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
        """Whether a job is launched, and the record of its run, are one step: other launches of the job wait for it.

        Nobody is asked anything within it. Raises ThisMachineError where the folder cannot be written, or another
        process does not let go in time.
        """
        lock = self._acquired(f"job-{job_digest}", patience_seconds)
        if lock is None:
            raise ThisMachineError(
                f"another plan launch of this job has held its lock for {patience_seconds:.0f} s",
                "end that command, then launch again; plan status lists what runs",
            )
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def piloting(self, job_digest: str) -> Iterator[None]:
        """The pilots of a job are run by one command at a time: each holds a cap of its own.

        Raises ThisMachineError where another one runs them, or the folder cannot be written.
        """
        lock = self._acquired(f"pilots-{job_digest}", 0)
        if lock is None:
            raise ThisMachineError(
                "another plan pilot of this job is running on this computer",
                "wait until it has ended: it keeps what it measures for this command too; plan status shows its run",
            )
        try:
            yield
        finally:
            lock.release()

    def _lock_of(self, run_id: RunId) -> FileLock | None:
        return self._acquired(run_id, 0)

    def _acquired(self, name: str, patience_seconds: float) -> FileLock | None:
        from filelock import FileLock, Timeout

        lock = FileLock(self._folder / f"{name}.lock", timeout=patience_seconds)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout:
            return None
        except OSError as error:
            raise StateError(f"cannot lock {self._folder}: {error.strerror}", "give it to your user") from None
        return lock
