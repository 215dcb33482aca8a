"""The journal's runs for commands that look and do not write: a run is read when it is asked for.

A home may have ten thousand done runs, and a cleanup asks about the few that something still exists of.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from trainplan.planner.errors import StateError, ThisMachineError
from trainplan.planner.runs.journal.journal import BUSY_MILLISECONDS, UNREADABLE, Journal
from trainplan.planner.runs.journal.schema import check_version
from trainplan.planner.runs.run import Run
from trainplan.providers.base import RunId
from trainplan.workloads.job import TrainingJob, job_from_json
from trainplan.workloads.wording import Command


def recorded_job(journal: Journal, run_id: RunId) -> TrainingJob:
    """The job that a run trains. Raises StateError where its row cannot be read."""
    try:
        return job_from_json(journal.job_json(run_id))
    except ValueError:
        raise StateError(
            f"the job of run {run_id} in the journal cannot be read",
            f"{Command('stop', run_id)} ends the run; plan launch with its job file begins it anew",
        ) from None


class RecordedRuns(Mapping[str, Run]):
    """Runs by id, read at each access without writing, so that a full disk or a read-only one does not matter.

    An access raises ThisMachineError where the row of a run, or by now the file, cannot be read. `path` None: there
    is no journal yet. `keep` leaves out the runs that it is false for.
    """

    def __init__(self, path: Path | None, keep: Callable[[Run], bool] | None = None) -> None:
        self._path = path
        self._keep = keep

    def __getitem__(self, run_id: str) -> Run:
        with self._journal() as journal:
            if journal is None or not journal.has(RunId(run_id)):
                raise KeyError(run_id)
            run = journal.run(run_id)
        if self._keep is not None and not self._keep(run):
            raise KeyError(run_id)
        return run

    def __iter__(self) -> Iterator[str]:
        with self._journal() as journal:
            runs = [] if journal is None else journal.runs()
        return iter([run.run_id for run in runs if self._keep is None or self._keep(run)])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def only(self, keep: Callable[[Run], bool]) -> RecordedRuns:
        """Those of these runs that `keep` is true for."""
        before = self._keep
        return RecordedRuns(self._path, keep if before is None else lambda run: before(run) and keep(run))

    def providers(self) -> frozenset[str]:
        """Where runs of this journal were launched."""
        with self._journal() as journal:
            return frozenset() if journal is None else journal.providers()

    def unverified(self) -> list[Run]:
        """The runs that are not done and whose teardown could not be verified."""
        with self._journal() as journal:
            runs = [] if journal is None else journal.unverified()
        return [run for run in runs if self._keep is None or self._keep(run)]

    @contextmanager
    def _journal(self) -> Iterator[Journal | None]:
        if self._path is None:
            yield None
            return
        with read_only(self._path) as journal:
            yield journal


@contextmanager
def read_only(path: Path) -> Iterator[Journal]:
    """The journal at `path`, which is not written to; opened for the block alone, so that one that was replaced is
    noticed. Raises ThisMachineError, also in the block, where it cannot be read."""
    with closing(_connected(path)) as db:
        yield Journal(db, path)


def readable_runs(path: Path) -> RecordedRuns | None:
    """The runs of the journal at `path`; none where there is no journal yet, None where there is one that nobody can
    read."""
    if not path.exists():
        return RecordedRuns(None)
    try:
        with closing(_connected(path)) as db:
            check_version(db, path)
            Journal(db, path).providers()
    except (*UNREADABLE, ThisMachineError):
        return None
    return RecordedRuns(path)


def _connected(path: Path) -> sqlite3.Connection:
    try:
        db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_MILLISECONDS / 1000)
    except UNREADABLE as error:
        raise ThisMachineError(f"the journal {path} cannot be read: {error}") from None
    db.row_factory = sqlite3.Row
    return db
