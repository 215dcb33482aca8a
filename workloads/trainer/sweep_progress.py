"""The progress of a sweep as one training: what its trials tell, added up."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainplan.workloads.sweep import Rung, Task, Trial, new_epochs, planned_epochs, planned_images
from trainplan.workloads.trainer.progress import Clock, Progress, State

if TYPE_CHECKING:
    from trainplan.workloads.job import TrainingJob

Line = Mapping[str, Any]
_TOLD_OF_THE_BEST = (
    "hold_out_accuracy", "hold_out_top5", "hold_out_most_frequent", "hold_out_images", "hold_out_trained_on",
    "training_accuracy", "training_tested_accuracy", "best_epoch",
)  # fmt: skip


class Relay:
    """Tells a sweep's progress in steps of the job's own batch, whatever batches its trials have. An epoch is one of
    any trial."""

    def __init__(self, job: TrainingJob, rungs: Sequence[Rung], progress: Progress, clock: Clock) -> None:
        self._job, self._rungs, self._progress, self._clock = job, rungs, progress, clock
        self._began = clock.monotonic()
        self._done: Sequence[Sequence[int]] = [[] for _ in rungs]
        self._within_images = self._within_epochs = 0
        self._train_seconds = self._trained_images = 0.0
        self._peak_memory_bytes: int | None = None
        self._last_end: Line = {}
        self._is_told = False
        self._start_seconds = self._test_seconds = 0.0
        self.images = 0
        """Of the data set; 0 until the first trial has counted them."""
        self._planned: list[list[int]] = []
        self._plan_for(job.train_images or 0)

    @property
    def steps_per_epoch(self) -> int:
        """Steps of one epoch of the job's own batch."""
        return max(1, self.images // self._job.global_batch_size)

    @property
    def step(self) -> int:
        """How far the sweep is, of `total_steps`."""
        return (self._images_done() + self._within_images) // self._job.global_batch_size

    @property
    def output_seconds(self) -> float:
        """The longest start of a process up to its first step, and the longest test, of this attempt; 0 before."""
        return self._start_seconds + self._test_seconds

    @property
    def total_steps(self) -> int:
        """The steps of all rungs."""
        return sum(map(sum, self._planned)) // self._job.global_batch_size

    @property
    def epoch(self) -> int:
        """The epoch, from 1, that the sweep is in, counted over all trials."""
        done = sum(len(trials) * new for trials, new in zip(self._done, new_epochs(self._rungs), strict=True))
        return max(1, done + self._within_epochs)

    def stand_at(self, done: Sequence[Sequence[int]]) -> None:
        """Of each rung the trials that are done: between two tasks."""
        self._done = done
        self._within_images = self._within_epochs = 0

    def end_of(self, task: Task) -> int:
        """The step at which a task that is being done will have ended."""
        return (self._images_done() + self._planned[task.rung][len(self._done[task.rung])]) // (
            self._job.global_batch_size
        )

    def of_task(self, trial: Trial, task: Task | None, path: Path, checkpointed: Callable[[], None]) -> Tail:
        """Follow what the process of a trial tells in the file at `path`; `task` None: it writes its output.
        `checkpointed` is called after each of its checkpoints."""
        taken = _Taken(trial, task, checkpointed, self._clock.monotonic())
        return Tail(path, lambda line: self._take(taken, line))

    def tell_end(self, state: State) -> None:
        """The sweep has ended, or this attempt at it."""
        rate = self._trained_images / self._train_seconds if self._train_seconds else 0.0
        last = self._last_end if state is State.DONE else {}
        self._progress.event(
            "end",
            state=state.value,
            step=self.step,
            epoch=self.epoch,
            images_per_second=round(rate, 2),
            **{name: last[name] for name in _TOLD_OF_THE_BEST if name in last},
            train_seconds=round(self._train_seconds, 3),
            total_seconds=round(self._clock.monotonic() - self._began, 3),
            peak_memory_bytes=self._peak_memory_bytes,
        )
        if state is State.DONE:
            self._progress.status(state, epoch=self.epoch, step=self.step)

    def _plan_for(self, images: int) -> None:
        if images != self.images or not self._planned:
            self.images, self._planned = images, planned_images(self._job, images)

    def _images_done(self) -> int:
        return sum(sum(planned[: len(trials)]) for planned, trials in zip(self._planned, self._done, strict=True))

    def _take(self, taken: _Taken, line: Line) -> None:
        match line.get("event"):
            case "start":
                self._start(taken, line)
            case "step" | "epoch":
                self._advance(taken, line)
            case "checkpoint":
                self._move(taken, int(line["step"]))
                taken.checkpointed()
            case "phase":
                if line["name"] == "evaluate":
                    self._test_seconds = max(self._test_seconds, float(line["seconds"]))
                self._progress.event("phase", name=line["name"], seconds=line["seconds"])
            case "warning":
                self._progress.warn(f"trial {taken.trial.number}: {line['message']}")
            case "end":
                self._end(taken, line)
            case _:
                pass

    def _start(self, taken: _Taken, line: Line) -> None:
        self._plan_for(int(line["images"]))
        taken.first_step = int(line["resumed_from_step"])
        taken.steps_per_epoch = int(line["steps_per_epoch"])
        if self._is_told:
            return
        self._is_told = True
        more = {
            "steps_per_epoch": self.steps_per_epoch,
            "epochs": planned_epochs(self._rungs),
            "total_steps": self.total_steps,
            "resumed_from_step": self.step,
        }
        self._progress.event("start", **{**_fields(line), **more})
        self._progress.status(State.RUNNING, epoch=self.epoch, step=self.step)

    def _advance(self, taken: _Taken, line: Line) -> None:
        self._move(taken, int(line["step"]))
        if not taken.has_stepped:
            taken.has_stepped = True
            self._start_seconds = max(self._start_seconds, self._clock.monotonic() - taken.began)
        more = {"epoch": self.epoch, "step": self.step, "trial": taken.trial.number}
        self._progress.event(str(line["event"]), **{**_fields(line), **more})
        self._progress.status(State.RUNNING, epoch=self.epoch, step=self.step)

    def _move(self, taken: _Taken, step: int) -> None:
        """A trial is at this step of its own: what it did since its rung began counts, wherever this process began."""
        if taken.task is None:
            return
        rung, place = taken.task.rung, len(self._done[taken.task.rung])
        before = self._rungs[rung - 1].epochs if rung else 0
        new_steps = max(0, step - before * taken.steps_per_epoch)
        self._within_images = min(self._planned[rung][place], new_steps * taken.trial.job.global_batch_size)
        self._within_epochs = -(-new_steps // taken.steps_per_epoch)

    def _end(self, taken: _Taken, line: Line) -> None:
        self._last_end = line
        self._train_seconds += float(line.get("train_seconds") or 0.0)
        steps = int(line.get("step") or 0) - taken.first_step
        self._trained_images += max(0, steps) * taken.trial.job.global_batch_size
        peak = line.get("peak_memory_bytes")
        self._peak_memory_bytes = max(peak or 0, self._peak_memory_bytes or 0) or None


@dataclass(slots=True)
class _Taken:
    """The trial that is followed, and when its process began, in steady seconds; of its own steps where this process
    began, and those of an epoch."""

    trial: Trial
    task: Task | None
    checkpointed: Callable[[], None]
    began: float
    first_step: int = 0
    steps_per_epoch: int = 1
    has_stepped: bool = False


class Tail:
    """Reads whole lines of a file on as it grows."""

    def __init__(self, path: Path, take: Callable[[Line], None]) -> None:
        self._path, self._take = path, take
        self._offset = 0

    def look(self) -> None:
        """Take in what is new. A file that is not there yet has no lines."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            self._take(json.loads(line))


def _fields(line: Line) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in ("event", "time")}
