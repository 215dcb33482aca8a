"""The table of a run's sweep: from the model's folder, else from what its newest checkpoint says."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.planner.errors import BadInputError, ThisMachineError
from trainplan.planner.runs.run import Phase
from trainplan.workloads.sweep import STATE, SweepTable, table_of
from trainplan.workloads.terminal_text import one_line
from trainplan.workloads.wording import Command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainplan.planner.runs.run import Run
    from trainplan.providers.base import RunStore
    from trainplan.workloads.job import TrainingJob
    from trainplan.workloads.sweep import Trial

_MOST_BYTES = 4 * 1024 * 1024
_CHECKPOINT = re.compile(r"checkpoints/step-([0-9]{1,12})/complete\.json")


def read_table(run: Run, job: TrainingJob, store: RunStore | None) -> SweepTable:
    """The table as far as the sweep is; without any results where there are none yet. `store` is the run directory
    (None: nobody can read it).

    What is read was written by a machine: figures are taken from it, and everything else from the job. Raises
    BadInputError for a run without a sweep, ThisMachineError where what is there is no table of it, and ProviderError.
    """
    if job.sweep is None:
        raise BadInputError(f"run {run.run_id} has no sweep", f"{Command('history')} lists runs, plan report shows one")
    raw = next(_places(run, store), None)
    if raw is None:
        return table_of(job, ())
    try:
        read = SweepTable.model_validate_json(raw)
    except ValueError:
        raise ThisMachineError(f"the table of run {run.run_id} cannot be read: it is no {STATE}") from None
    if read.job_digest != job.digest():
        raise ThisMachineError(f"the table of run {run.run_id} is of another job")
    results = [result for row in read.trials for result in row.results]
    early = read.ended_early
    known = {trial.number for trial in job.trials}
    shown = (result.model_copy(update={"failure": one_line(result.failure)}) for result in results)
    return table_of(job, [result for result in shown if result.trial in known], ended_early=early)


def early_text(folder: Path) -> str:
    """Before what a sweep ended whose model is in this folder, and which trial's that is; "" for any other model."""
    raw = _read(folder / STATE)
    try:
        table = SweepTable.model_validate_json(raw) if raw is not None else None
    except ValueError:
        return ""
    best = next((row for row in table.trials if row.trial == table.best), None) if table is not None else None
    if table is None or not table.ended_early or best is None:
        return ""
    newest = max((result.epochs for result in best.results), default=0)
    what = "part" if table.is_of_script else "epoch"
    return (
        f"the last rung of the sweep: the model is that of trial {best.trial}, the best so far, tested after {what} "
        f"{newest} of {table.rungs[-1].epochs}"
    )


def best_trial(folder: Path, job: TrainingJob) -> Trial | None:
    """The trial of the job's sweep whose model is in this folder; None without a sweep, or where nothing says it."""
    raw = _read(folder / STATE) if job.sweep is not None else None
    try:
        best = SweepTable.model_validate_json(raw).best if raw is not None else None
    except ValueError:
        return None
    return next((trial for trial in job.trials if trial.number == best), None)


def _read(file: Path) -> bytes | None:
    """What the file holds; None where it is not there, cannot be read, or is larger than any table."""
    with suppress(OSError):
        if file.is_file() and file.stat().st_size <= _MOST_BYTES:
            return file.read_bytes()
    return None


def _places(run: Run, store: RunStore | None) -> Iterator[bytes]:
    """What is at each of the places where a table may be, the newest first. Where a run goes on, what it has brought
    home is older."""
    is_over = run.phase is Phase.DONE
    at_home = _read(Path(run.model_folder) / STATE) if run.model_folder and is_over else None
    if at_home is not None:  # what cannot be read here is in the run directory too
        yield at_home
    if store is None:
        return
    steps = sorted(
        (int(match[1]), match[1]) for path in store.list("checkpoints") if (match := _CHECKPOINT.fullmatch(path))
    )
    outputs = (f"output/{STATE}",) if is_over else ()
    for path in (*outputs, *(f"checkpoints/step-{text}/{STATE}" for _, text in reversed(steps))):
        try:
            yield store.get(path, size=_MOST_BYTES)
        except KeyError:
            continue
