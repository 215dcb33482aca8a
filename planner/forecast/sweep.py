"""What a sweep trains, added up: images, processes and speed of all its trials on one rental. Pure.

Which trials go on nobody knows before: those that take the longest are taken to, so that times and costs are "at most"
where trials differ in speed. Trials that differ in a learning rate alone take the same time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from trainplan.planner.throughput.values import Throughput
from trainplan.workloads.sweep import Rung, images_of_epochs, new_epochs, planned_epochs, rungs_for, whole_trainings

if TYPE_CHECKING:
    from trainplan.planner.forecast.plan import Reason
    from trainplan.workloads.job import TrainingJob


class SweepWork:
    """The trials of a job with a sweep as rungs train them, or all of them to the end (`is_grid`).

    `kinds` are jobs that differ in their speed, each the first trial of its kind. Nobody knows what an argument of a
    script changes: all of its trials are of one kind. Raises ValueError where the job does not tell how many images an
    epoch has.
    """

    def __init__(self, job: TrainingJob, *, is_grid: bool = False) -> None:
        self._job = job
        trials = job.trials
        if job.train_images is None:
            raise ValueError("the number of images in the data set is not known: set data.images")
        count = len(trials)
        rungs = rungs_for(job)
        self.rungs = (Rung(rungs[-1].epochs, count),) if is_grid else rungs
        self.epochs = planned_epochs(self.rungs)
        self.trainings = whole_trainings(self.rungs)
        self.tests = sum(rung.trials for rung in self.rungs)
        """Tests of the test images, one at the end of each trial's rung."""
        self.restarts = self.tests - 1 if is_grid else self.tests
        """Processes after the first: one for each trial of a rung, and one that writes the best model."""
        self._images = images_of_epochs(job, job.train_images)
        keys = [_speed_key(trial.job) for trial in trials]
        names = list(dict.fromkeys(keys))
        self._kinds = [names.index(key) for key in keys]
        self.kinds = tuple(trials[keys.index(name)].job for name in names)
        self.images = round(self._over_rungs([float(images) for images in self._images]))
        """Images of all rungs."""
        self.most_kept = (self.rungs[1].trials if len(self.rungs) > 1 else 1) + 1
        """Trials of which a checkpoint holds the state, at most."""

    def speed(self, rates: Sequence[float]) -> float:
        """Images a second of the whole sweep, where trials of each kind train so many."""
        of_an_epoch = [images / rates[kind] for images, kind in zip(self._images, self._kinds, strict=True)]
        return self.images / self._over_rungs(of_an_epoch)

    def throughput(self, ask: Callable[[TrainingJob], Throughput | Reason]) -> Throughput | Reason:
        """That of the whole sweep, where `ask` tells that of one kind or why it cannot be told."""
        if self._job.script is not None:
            return ask(self._job)
        answers = [ask(kind) for kind in self.kinds]
        reason = next((answer for answer in answers if not isinstance(answer, Throughput)), None)
        known = [answer for answer in answers if isinstance(answer, Throughput)]
        return reason if reason is not None else self._together(known)

    def of_each(self, answers: Sequence[Throughput | None]) -> Throughput | None:
        """That of the whole sweep, of those of each kind; None where one of them is not known."""
        known = [answer for answer in answers if answer is not None]
        return self._together(known) if len(known) == len(answers) else None

    def _together(self, answers: Sequence[Throughput]) -> Throughput:
        if len(answers) == 1:
            return answers[0]
        slowest = min(answers, key=lambda one: one.images_per_second)
        note = f"over trials of {len(answers)} speeds; {slowest.note}".removesuffix("; ")
        return replace(
            slowest,
            images_per_second=self.speed([one.images_per_second for one in answers]),
            low=self.speed([one.low for one in answers]),
            high=self.speed([one.high for one in answers]),
            evidence=tuple(dict.fromkeys(name for one in answers for name in one.evidence)),
            note=note,
        )

    def _over_rungs(self, of_an_epoch: Sequence[float]) -> float:
        """What all rungs take together of what an epoch of each trial takes; the trials that take the most go on."""
        most_first = sorted(of_an_epoch, reverse=True)
        new = new_epochs(self.rungs)
        return sum(epochs * sum(most_first[: rung.trials]) for rung, epochs in zip(self.rungs, new, strict=True))


def _speed_key(job: TrainingJob) -> str:
    """Equal for jobs that train equally fast on any rental."""
    values = job.model_dump(mode="json", include={"model", "global_batch_size", "accumulate", "precision", "xla"})
    return json.dumps([values, job.augment.model_dump(mode="json"), job.optimizer.state], sort_keys=True, default=str)
