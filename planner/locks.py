"""One process at a time acts on a run: a lock that the system lets go of when its process dies, however it dies."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from planner.errors import ThisMachineError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from filelock import FileLock

    from providers.base import RunId


class RunLocks:
    """Locks of runs, as files in a folder of their own. Each is held by one process, on this computer."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: dict[RunId, FileLock] = {}

    def keep(self, run_id: RunId) -> bool:
        """Take the lock now, for the next `holding` of this object; False: another process has it.

        A run is written down before it is followed, and nobody may settle it between the two.
        Raises ThisMachineError where the folder cannot be written.
        """
        lock = self._taken(run_id)
        if lock is not None:
            self._kept[run_id] = lock
        return lock is not None

    @contextmanager
    def holding(self, run_id: RunId) -> Iterator[bool]:
        """Whether this process may act on the run until the block ends; False: another one does.

        Raises ThisMachineError where the folder cannot be written.
        """
        lock = self._kept.pop(run_id, None) or self._taken(run_id)
        if lock is None:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def _taken(self, run_id: RunId) -> FileLock | None:
        from filelock import FileLock, Timeout

        lock = FileLock(self._folder / f"{run_id}.lock", timeout=0)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout:
            return None
        except OSError as error:
            raise ThisMachineError(f"cannot lock {self._folder}: {error.strerror}", "give it to your user") from None
        return lock
