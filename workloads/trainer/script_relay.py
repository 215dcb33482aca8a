"""The progress of a sweep over arguments of a script as one training, in steps that are parts of a trial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.workloads.sweep import Rung, Task, Trial, new_epochs, planned_epochs
from trainplan.workloads.trainer.progress import Clock, Progress, State
from trainplan.workloads.trainer.script_reports import Reports

if TYPE_CHECKING:
    from trainplan.workloads.job import TrainingJob

STEPS = 100_000
"""Of a whole trial, however many its script has: scripts differ in that by their arguments."""
_REPORT_SECONDS = 5.0


class ScriptRelay:
    """As trainplan.workloads.trainer.sweep_progress.Relay, of scripts: nothing that they write is believed or told on
    but for their steps and what they train with. An epoch is a part of a trial, as the rungs count them."""

    def __init__(self, job: TrainingJob, rungs: Sequence[Rung], progress: Progress, clock: Clock) -> None:
        del job
        self._rungs, self._progress, self._clock = rungs, progress, clock
        self._began = clock.monotonic()
        self._done: Sequence[Sequence[int]] = [[] for _ in rungs]
        self._within = 0
        self._is_told = False
        self.output_seconds = 0.0
        """What the output of a sweep that ends early takes: a copy of a checkpoint."""
        self.images = self.steps_per_epoch = STEPS // rungs[-1].epochs

    @property
    def step(self) -> int:
        """How far the sweep is, of `total_steps`."""
        return self._steps_done() + self._within

    @property
    def total_steps(self) -> int:
        """The steps of all rungs."""
        return planned_epochs(self._rungs) * self.steps_per_epoch

    @property
    def epoch(self) -> int:
        """The part, from 1, that the sweep is in, counted over all trials."""
        return max(1, -(-self.step // self.steps_per_epoch))

    def stand_at(self, done: Sequence[Sequence[int]]) -> None:
        """Of each rung the trials that are done: between two tasks."""
        self._done, self._within = done, 0

    def end_of(self, task: Task) -> int:
        """The step at which a task that is being done will have ended."""
        return self._steps_done() + self._new(task)

    def of_task(self, trial: Trial, task: Task | None, path: Path, checkpointed: Callable[[], None]) -> Follower:
        """Follow what the script of a trial tells in the file at `path`. `checkpointed` is called after each of its
        checkpoints."""
        return Follower(Reports(path), self._clock, lambda reports: self._advance(trial, task, reports), checkpointed)

    def tell_end(self, state: State) -> None:
        """The sweep has ended, or this attempt at it."""
        self._progress.event(
            "end",
            state=state.value,
            step=self.step,
            epoch=self.epoch,
            total_seconds=round(self._clock.monotonic() - self._began, 3),
        )
        if state is State.DONE:
            self._progress.status(state, epoch=self.epoch, step=self.step)

    def _steps_done(self) -> int:
        new = new_epochs(self._rungs)
        return sum(len(trials) * epochs for trials, epochs in zip(self._done, new, strict=True)) * self.steps_per_epoch

    def _new(self, task: Task) -> int:
        return new_epochs(self._rungs)[task.rung] * self.steps_per_epoch

    def _advance(self, trial: Trial, task: Task | None, reports: Reports) -> None:
        if task is None or not reports.total_steps:
            return
        if not self._is_told:
            self._is_told = True
            self._within = self._share(task, reports.resumed_step, reports.total_steps)
            self._progress.event(
                "start", total_steps=self.total_steps, resumed_from_step=self.step, **reports.trained_with
            )
        self._within = self._share(task, reports.step, reports.total_steps)
        self._progress.event("step", step=self.step, epoch=self.epoch, trial=trial.number)
        self._progress.status(State.RUNNING, epoch=self.epoch, step=self.step)

    def _share(self, task: Task, step: int, total_steps: int) -> int:
        """How far a task is where its script has done so many of its steps."""
        before = self._rungs[task.rung - 1].epochs if task.rung else 0
        return max(0, min(self._new(task), STEPS * step // total_steps - before * self.steps_per_epoch))


class Follower:
    """Reads on what a script tells."""

    def __init__(
        self,
        reports: Reports,
        clock: Clock,
        advanced: Callable[[Reports], None],
        checkpointed: Callable[[], None],
    ) -> None:
        self._reports, self._clock = reports, clock
        self._advanced, self._checkpointed = advanced, checkpointed
        self._told_at = clock.monotonic()
        self._step = self._checkpoints = 0

    def look(self) -> None:
        """Take in what is new."""
        self._reports.read(self._clock.monotonic())
        has_saved = self._reports.checkpoints > self._checkpoints
        is_due = self._clock.monotonic() - self._told_at >= _REPORT_SECONDS
        if self._reports.step != self._step and (is_due or has_saved):
            self._told_at, self._step = self._clock.monotonic(), self._reports.step
            self._advanced(self._reports)
        if has_saved:
            self._checkpoints = self._reports.checkpoints
            self._checkpointed()
