"""What happens around every step: counting, reporting, checkpoints by time, and the reasons to end early."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from trainplan.workloads.processor_time import ProcessorTime, others_share
from trainplan.workloads.trainer.agreement import Agreement
from trainplan.workloads.trainer.errors import DeadlineReached, TrainerError, TrainingStopped, diverged
from trainplan.workloads.trainer.meter import Meter
from trainplan.workloads.trainer.process_group import ALONE
from trainplan.workloads.trainer.progress import Clock, Progress, State
from trainplan.workloads.trainer.steady import TRY_WINDOW_SECONDS, WINDOW_SECONDS, Windows

if TYPE_CHECKING:
    from trainplan.workloads.trainer.averages import Averages
    from trainplan.workloads.trainer.feed import Schedule
    from trainplan.workloads.trainer.validation import Validation

# Steps handed to the device beyond the one waited for: enough to hide Python, few enough to stop at once.
_IN_FLIGHT = 2
_REPORT_EVERY_SECONDS = 1.0  # each report waits for all steps in flight
Logs = Mapping[str, Any]


@dataclass(slots=True)
class StopRequest:
    """A request to stop. A signal handler sets it, and training reads it after every step."""

    signal_name: str | None = None


class StepsDone(Exception):
    """The steps that a measuring run asked for are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When to write a checkpoint and when to end early. `deadline_unix` in seconds since 1970; `max_steps` counts
    the steps of this process, and makes it a measuring run; `max_seconds` are those behind the first step, which
    compiles, of a measuring run. `until_steady` ends a measuring run as soon as its rate is known well enough:
    `is_try` by shorter windows, and with `rate_only` it measures nothing beside its rate. `until_epoch`
    pauses a trial of a sweep at the end of that epoch, with a checkpoint and a test. `writes_now`: nothing more is
    trained, and the newest checkpoint is tested and becomes the output. A script that is a trial pauses after
    `until_share` of its steps (1: it runs to its end), once it has reported its `figure` there."""

    checkpoint_every_seconds: float
    deadline_unix: float | None = None
    max_steps: int | None = None
    max_seconds: float | None = None
    until_steady: bool = False
    is_try: bool = False
    rate_only: bool = False
    until_epoch: int | None = None
    writes_now: bool = False
    until_share: Fraction | None = None
    figure: str = ""
    stop: StopRequest = field(default_factory=StopRequest)


def stop_reason(limits: Limits, clock: Clock, needs_seconds: float = 0.0) -> TrainerError | None:
    """Why to end now, if there is a reason; `needs_seconds` is what ending takes (a checkpoint)."""
    if limits.stop.signal_name is not None:
        return TrainingStopped(f"stopped on {limits.stop.signal_name}")
    if limits.deadline_unix is not None and clock.wall() + needs_seconds >= limits.deadline_unix:
        return DeadlineReached("the deadline is reached")
    return None


class TrainingWatch:
    """Follows one process's training. `save(step)` writes a checkpoint; it answers for its own failures. `agreement` is
    None for a process that trains alone."""

    def __init__(
        self,
        schedule: Schedule,
        limits: Limits,
        progress: Progress,
        clock: Clock,
        save: Callable[[int], None],
        agreement: Agreement | None = None,
    ) -> None:
        self.step = schedule.first_step
        self.meter = Meter(schedule.batch_size, clock.monotonic)
        window_seconds = TRY_WINDOW_SECONDS if limits.is_try else WINDOW_SECONDS
        self.windows = Windows(self.meter, schedule.batch_size, window_seconds)
        self._schedule = schedule
        self._limits = limits
        self._progress = progress
        self._clock = clock
        self._save = save
        self._agreement = agreement or Agreement(ALONE, lambda numbers: numbers, clock.monotonic)
        self._processors_at_first: ProcessorTime | None = None
        self._in_flight: deque[Logs] = deque()
        self._last: Logs = {}
        self._checkpointed = self._reported = clock.monotonic()
        self._checkpoint_seconds = 1.0
        self._epoch_began = (clock.monotonic(), 0.0)

    def batch_end(self, logs: Logs) -> None:
        """After each step is handed over; raises TrainingStopped, DeadlineReached, StepsDone, or TrainerError on a loss
        that is no number."""
        self.step += 1
        self._in_flight.append(logs)
        # The first step compiles: it is waited for by itself, so that the meter can leave it out of the rate.
        if self.meter.steps == 0:
            self._first_step()
        elif len(self._in_flight) > _IN_FLIGHT:
            self._land()
        if self._agreement.is_due(self.step):
            self._land_all()
        reason = self._agreement.of(self.step, stop_reason(self._limits, self._clock, self._checkpoint_seconds))
        if reason is not None:
            self._end_early(reason)
        self._report_when_due()
        self._checkpoint_when_due()
        is_steady = self._limits.until_steady and self._is_steady()
        if self.step - self._schedule.first_step == self._limits.max_steps or is_steady or self._is_measured():
            self._land_all()
            raise StepsDone

    def others_share(self) -> float | None:
        """The share of this computer's processors that other programs have had since the first step; None before it,
        or where the system does not tell."""
        first = self._processors_at_first
        return None if first is None else others_share(first, self._clock.processors())

    def _is_steady(self) -> bool:
        """Whether a pilot's windows agree; ends the window that is due."""
        if self.windows.is_due(self.step - self._schedule.first_step):
            self._land_all()
            rate = self.windows.close()
            if rate is not None:
                self._progress.event("window", step=self.step, images_per_second=round(rate, 2))
        # Several processes would have to end at the same step: they train the steps that they were given.
        return self.windows.is_enough and self._agreement.is_alone

    def _is_measured(self) -> bool:
        """Whether a measuring run has trained for `max_seconds` and for at least two steps, which a rate needs."""
        seconds = self._limits.max_seconds
        return seconds is not None and self.meter.steps > 1 and self.meter.steady_seconds >= seconds

    def epoch_begin(self) -> None:
        """Note when an epoch begins."""
        self._epoch_began = (self._clock.monotonic(), self.meter.train_seconds)

    def epoch_end(self, epoch: int, logs: Logs, learning_rate: float) -> float:
        """Seconds of the epoch. `epoch` from 0; `logs` with val_loss and val_accuracy where the hold-out was tested;
        `learning_rate` is that of the epoch's end.

        Raises DivergedError on a loss that is no number.
        """
        self._land_all()
        for name, where in (("loss", "in"), ("val_loss", "in the validation after")):
            if not math.isfinite(float(logs.get(name, 0))):
                raise diverged(f"the loss became {float(logs[name])} {where} epoch {epoch + 1}")
        began, trained = self._epoch_began
        seconds = self._clock.monotonic() - began
        tested = {f"validation_{name}": _figure(logs, f"val_{name}") for name in ("loss", "accuracy")}
        if "val_top5" in logs:
            tested["validation_top5"] = _figure(logs, "val_top5")
        self._progress.event(
            "epoch",
            epoch=epoch + 1,
            step=self.step,
            loss=_figure(logs, "loss"),
            accuracy=_figure(logs, "accuracy"),
            **tested,
            learning_rate=learning_rate,
            seconds=round(seconds, 3),
            train_seconds=round(self.meter.train_seconds - trained, 3),
        )
        return seconds

    def test_begin(self) -> None:
        """The hold-out is tested between epochs: not training time."""
        self._land_all()
        self.meter.pause()

    def test_batch_end(self) -> None:
        """End a validation early where the run must stop; several processes end after the next step."""
        if not self._agreement.is_alone:
            return
        reason = stop_reason(self._limits, self._clock, self._checkpoint_seconds)
        if reason is not None:
            self._end_early(reason)

    def test_end(self) -> None:
        """The validation has ended: the meter measures training again."""
        self.meter.resume()

    def training_end(self) -> None:
        """The last step is done: the test of the hold-out and the output do not count as training."""
        self._land_all()
        self.meter.pause()

    def checkpoint(self) -> None:
        """Write a checkpoint now, unless this step has one."""
        # The time of a checkpoint is no training time: the meter pauses, so that the rate does not depend on the disk.
        self._land_all()
        self.meter.pause()
        began = self._clock.monotonic()
        self._save(self.step)
        self._checkpointed = self._clock.monotonic()
        # Before a deadline, twice the duration of the last checkpoint is kept free: the disk may be slower then.
        self._checkpoint_seconds = max(1.0, 2 * (self._checkpointed - began))
        self.meter.resume()

    def _first_step(self) -> None:
        self._land_all()
        self._reported = self._clock.monotonic()
        self._processors_at_first = self._clock.processors()
        self._progress.event("phase", name="compile", seconds=round(self.meter.first_step_seconds, 3))

    def _land(self) -> None:
        """Wait until the device has finished the oldest step in flight."""
        logs = self._in_flight.popleft()
        loss = float(logs["loss"])  # reading the number is what waits for the device
        self._last = logs
        self.meter.step_done()
        if not math.isfinite(loss):
            step = self.step - len(self._in_flight)
            raise diverged(f"the loss became {loss} at step {step}")

    def _land_all(self) -> None:
        while self._in_flight:
            self._land()

    def _end_early(self, reason: TrainerError) -> None:
        self._progress.status(State.STOPPING, str(reason), epoch=self._epoch, step=self.step)
        if self._limits.max_steps is None:  # a measuring run keeps nothing
            self.checkpoint()
        raise reason

    def _report_when_due(self) -> None:
        if self._clock.monotonic() - self._reported < _REPORT_EVERY_SECONDS:
            return
        self._land_all()
        self._reported = self._clock.monotonic()
        self._progress.event(
            "step",
            epoch=self._epoch,
            step=self.step,
            loss=_figure(self._last, "loss"),
            accuracy=_figure(self._last, "accuracy"),
            images_per_second=round(self.meter.lap_images_per_second(), 2),
        )
        self._progress.status(State.RUNNING, epoch=self._epoch, step=self.step)

    def _checkpoint_when_due(self) -> None:
        if self._limits.max_steps is not None:
            return
        if self._clock.monotonic() - self._checkpointed >= self._limits.checkpoint_every_seconds:
            self.checkpoint()

    @property
    def _epoch(self) -> int:
        """The epoch, from 1, that the last step belongs to."""
        return epoch_of(self.step, self._schedule.steps_per_epoch)


def epoch_of(step: int, steps_per_epoch: int) -> int:
    """The epoch, from 1, that `step` (steps done) belongs to."""
    return max(1, -(-step // steps_per_epoch))


def _figure(logs: Logs, name: str) -> float | None:
    return round(float(logs[name]), 6) if name in logs else None


def hooked(
    keras: Any, model: Any, watch: TrainingWatch, averages: Averages, validation: Validation, *, parts: int = 1
) -> Any:
    """A Keras CallbackList that tells `watch` of every step without waiting for the device, tests the averages, and
    ends training where the validation does.

    A step is one of the optimizer: `parts` of Keras' batches.

    Keras' own list turns the logs of every step into numbers, and so waits for every step.
    """

    class Hooks(keras.callbacks.CallbackList):  # type: ignore[misc]
        def on_train_batch_begin(self, *_: object) -> None:
            pass

        def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
            if (batch + 1) % parts == 0:
                watch.batch_end(logs or {})

        def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
            super().on_epoch_begin(epoch, logs)
            watch.epoch_begin()

        def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
            super().on_epoch_end(epoch, logs)
            seconds = watch.epoch_end(epoch, logs or {}, validation.learning_rate)
            model.stop_training = validation.epoch_end(epoch + 1, watch.step, logs or {}, seconds)

        def on_test_begin(self, logs: Logs | None = None) -> None:
            super().on_test_begin(logs)
            watch.test_begin()
            averages.show()

        def on_test_batch_end(self, *_: object) -> None:
            watch.test_batch_end()

        def on_test_end(self, logs: Logs | None = None) -> None:
            super().on_test_end(logs)
            validation.test_end()
            averages.hide()
            watch.test_end()

    return Hooks(add_history=True, model=model)
