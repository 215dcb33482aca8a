"""Runs of the Python API: followed, looked at, stopped."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from trainplan.planner.api import build, words
from trainplan.planner.api.after_run import after_run
from trainplan.planner.api.calls import library_call
from trainplan.planner.api.event_lines import Lines
from trainplan.planner.api.following import stopped, to_follow
from trainplan.planner.api.python_desk import Interrupted, leave_running, tell
from trainplan.planner.api.standing import standing_of
from trainplan.planner.errors import (
    LimitReachedError,
    PlanError,
    ThisMachineError,
    UnknownRunError,
)
from trainplan.planner.runs.execution.executor import Detached, ended_error
from trainplan.planner.runs.predictions import Prediction, Predictions, image_paths, kept_model, predictions
from trainplan.planner.runs.run import Outcome, Phase
from trainplan.planner.runs.runner import FollowerSilentError
from trainplan.planner.settings import load_settings
from trainplan.providers.base import RunId
from trainplan.workloads.wording import Command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainplan.planner.runs.journal.journal import Journal
    from trainplan.planner.runs.run import Run as JournalRun
    from trainplan.planner.runs.runner import Runner
    from trainplan.planner.settings import Settings

MODEL = "model.keras"
"""The trained model in the folder of a run."""
_HISTORY = (
    "epoch", "step", "loss", "accuracy", "validation_loss", "validation_accuracy", "validation_top5", "learning_rate",
    "seconds", "attempt",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """How a run stands.

    `phase` is one of `trainplan.Phase`; `outcome`, one of `trainplan.Outcome`, how it ended (None: it has not), with a
    `message`. `step` of `total_steps` is the newest optimizer step, `usd` what it has cost so far, `usd_per_hour` what
    bills at this moment, `ends_by` when it ends itself at the latest. `trouble` says why it could not be looked at.
    """

    run_id: str
    job_name: str
    provider: str
    phase: words.Phase
    outcome: words.Outcome | None
    message: str | None
    step: int | None
    total_steps: int | None
    usd: float
    usd_per_hour: float
    ends_by: datetime
    trouble: str | None

    @property
    def is_done(self) -> bool:
        """Whether it has ended and nothing of it is left to delete."""
        return self.phase == "done"

    def _repr_html_(self) -> str:
        from trainplan.planner.api.run_cells import status_cell

        return status_cell(self)


class Run:
    """A run of this home, by its id or the beginning of it. `launch` and `runs` give them.

    Only `launch` rents anything. A run goes on when Python ends: it is ended by its deadline and its budget, on the
    rented machine and at the provider. `Run("260101-1a2b")` finds it again in another session.
    """

    __slots__ = ("_run_id",)

    def __init__(self, run_id: str) -> None:
        """Raises UnknownRunError where no run has that id, BadInputError where several begin with it."""
        with library_call(), _journal() as (journal, _):
            if not isinstance(run_id, str):
                raise UnknownRunError(f"the id of a run is expected, not {run_id!r}", "runs() has them all")
            self._run_id = journal.run(run_id).run_id

    @property
    def id(self) -> str:
        """Its id, by which `plan status`, `plan logs` and `plan report` know it."""
        return self._run_id

    @property
    def model_path(self) -> Path | None:
        """The trained model on this computer (`keras.models.load_model` reads it); None before it is here."""
        path = self.folder / MODEL
        return path if path.is_file() else None

    @property
    def folder(self) -> Path:
        """The folder of its model, its curves and its metrics; it is made when the model comes."""
        with library_call(), _journal() as (journal, _):
            return Path(journal.run(self._run_id).model_folder)

    def status(self) -> RunStatus:
        """Look at the run, bring it up to date, and say how it stands. Trouble with its provider is in the answer."""
        with library_call(), _journal() as (journal, settings):
            client, factory = build.client(settings), build.providers(settings)
            standing = standing_of(journal.run(self._run_id), journal, settings, client, factory)
        run, progress = standing.run, standing.progress
        return RunStatus(
            run_id=run.run_id,
            job_name=run.job_name,
            provider=run.provider,
            phase=cast("words.Phase", str(run.phase)),
            outcome=None if run.outcome is None else cast("words.Outcome", str(run.outcome)),
            message=run.message,
            step=progress.step,
            total_steps=progress.total_steps or run.total_steps,
            usd=standing.usd,
            usd_per_hour=float(run.bills_usd_per_hour),
            ends_by=run.deadline,
            trouble=None if standing.error is None else standing.error.message,
        )

    def wait(self, *, quiet: bool = False) -> RunStatus:
        """Follow the run until it has ended, its model is at home and nothing of it is left; how it stands then.

        Lines on what happens go to standard error, in a notebook to the cell. Interrupting it (Ctrl-C, or the button of
        a notebook) raises KeyboardInterrupt and leaves the run running; `stop` ends it. Raises TrainingFailedError,
        LimitReachedError, NoCapacityError or RefusedError where the run was not trained to its end,
        TeardownUnverifiedError where it is not confirmed that nothing is left.
        """
        with library_call(), _journal() as (journal, settings):
            run, factory = journal.run(self._run_id), build.providers(settings)
            lines = Lines(build.clock().now, quiet=quiet)
            runner = build.runner(journal, settings, lines.show, run.provider, Interrupted(), factory)
            request = build.further_requests(runner, run, factory, settings)
            ready = to_follow(run, runner, journal)
            if ready is not None:
                try:
                    run, receipt = runner.follow(ready, request)
                except Detached as left:
                    leave_running(left.run)
                after_run(run, receipt, journal, settings)
            refuse_failure(journal.run(self._run_id))
        return self.status()

    def stop(self, *, quiet: bool = False) -> RunStatus:
        """End the run: its trainer is asked for a last checkpoint, and everything is deleted. How it stands then.

        Launching the same job again goes on from the checkpoint. Raises TeardownUnverifiedError where it is not
        confirmed that nothing is left.
        """
        with library_call(), _journal() as (journal, settings):
            run = journal.run(self._run_id)
            if run.phase is not Phase.DONE:
                lines = Lines(build.clock().now, quiet=quiet)
                runner = build.runner(journal, settings, lines.show, run.provider, Interrupted())
                _stop(run, runner)
        return self.status()

    def history(self) -> dict[str, list[Any]]:
        """Its epochs as columns of equal length: `pandas.DataFrame(run.history())` is a table of them.

        epoch, step, loss, accuracy, validation_loss, validation_accuracy, validation_top5 (shares of 1),
        learning_rate, seconds, attempt; None where an epoch has no such figure. An epoch that was trained again after
        an interruption counts as it was last trained.
        """
        from trainplan.planner.runs.report.document import Sources, run_document

        with library_call(), _journal() as (journal, settings):
            run = journal.run(self._run_id)
            store, why = build.store_of(run, settings)
            epochs = run_document(run, Sources(journal, store, build.clock().now(), why))["epochs"]
        return {name: [epoch.get(name) for epoch in epochs] for name in _HISTORY}

    def predict(self, *images: str | os.PathLike[str]) -> list[Prediction]:
        """What its model says of images, or of all images in folders, read as the run read its own.

        Asked in a process of its own, which needs the framework (the extra train-cpu). Raises BadInputError where there
        is no model yet or no image, ThisMachineError where the framework is missing.
        """
        folder = self.folder
        with library_call():
            paths = image_paths(Path(os.fspath(image)) for image in images)
            return Predictions(predictions(kept_model(folder), paths, lambda line: tell([line])))

    def receipt(self) -> dict[str, Any] | None:
        """What it took and cost beside what was estimated (docs/output.md); None while it has not ended."""
        with library_call(), _journal() as (journal, _):
            return journal.receipt(self._run_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and self._run_id == other._run_id

    def __hash__(self) -> int:
        return hash(self._run_id)

    def __repr__(self) -> str:
        try:
            with library_call(), _journal() as (journal, _):
                run = journal.run(self._run_id)
        except (
            PlanError
        ):  # it is another home's, say: an object is shown wherever it is, and `status` says what is wrong
            return f"<Run {self._run_id}>"
        return f"<Run {run.run_id}: {run.job_name} at {run.provider}, {run.outcome or run.phase}>"

    def _repr_html_(self) -> str:
        """What the journal has of it; the provider is not asked."""
        from trainplan.planner.api.run_cells import run_cell
        from trainplan.planner.report.notebook_cell import cell

        try:
            with library_call(), _journal() as (journal, _):
                return run_cell(journal.run(self._run_id), journal.receipt(self._run_id))
        except PlanError as error:
            return cell(f"run {self._run_id}: {error.message}")


def runs() -> list[Run]:
    """The runs of this home, the newest first; `Run.status` looks at how one stands.

    One that this version cannot read is told on standard error and left out.
    """
    with library_call(), _journal() as (journal, _):
        return [recorded_run(run.run_id) for run in journal.runs(lambda text: tell([text]))]


@contextmanager
def _journal() -> Iterator[tuple[Journal, Settings]]:
    settings = load_settings(os.environ)
    with build.journal(settings) as journal:
        yield journal, settings


def recorded_run(run_id: str) -> Run:
    """A run that is known to be in the journal."""
    run = Run.__new__(Run)
    run._run_id = RunId(run_id)
    return run


def _stop(run: JournalRun, runner: Runner) -> None:
    try:
        stopped(run, runner)
    except Detached as left:
        leave_running(left.run)
    except FollowerSilentError:
        raise ThisMachineError(
            f"another process follows run {run.run_id} and does not respond",
            f"the command {Command('stop', run.run_id).typed} ends its machines by their label",
        ) from None


def refuse_failure(run: JournalRun) -> None:
    """Raises the error of a run that was not trained to its end; one that somebody stopped is none."""
    if run.outcome in (Outcome.SUCCEEDED, Outcome.STOPPED):
        return
    error = ended_error(run)
    if isinstance(error, LimitReachedError) and not run.may_have_checkpoint:
        error.hint = "it saved no checkpoint: launch it again to start from the beginning"
    elif isinstance(error, LimitReachedError):
        error.hint = "launch it again to go on from its newest checkpoint; fresh=True starts anew"
    raise error
