"""How fast training goes: steady images per second, with everything that is not training left out."""

from __future__ import annotations

from collections.abc import Callable


class Meter:
    """Counts the steps of one process. The first one compiles and is left out of the steady rate, as are pauses."""

    def __init__(self, batch_size: int, monotonic: Callable[[], float]) -> None:
        self._batch_size = batch_size
        self._now = monotonic
        self._began = monotonic()
        self._first_done: float | None = None
        self._paused = 0.0
        self._pause_began: float | None = None
        self._lap: tuple[float, int, float] = (self._began, 0, 0.0)
        self.steps = 0

    def step_done(self) -> None:
        """Count a step, and its time."""
        self.steps += 1
        if self._first_done is None:
            self._first_done = self._now()
            self._lap = (self._first_done, 1, self._paused)

    def pause(self) -> None:
        """What comes now is not training: a checkpoint, an evaluation. The clock stands still until `resume`."""
        if self._pause_began is None:
            self._pause_began = self._now()

    def resume(self) -> None:
        """Go on measuring: the time since `pause` counts as no training."""
        if self._pause_began is not None:
            self._paused += self._now() - self._pause_began
            self._pause_began = None

    @property
    def first_step_seconds(self) -> float:
        """How long the first step took, compilation among it."""
        return (self._first_done or self._instant()) - self._began

    @property
    def train_seconds(self) -> float:
        """Seconds since the start of the first step, without pauses."""
        return self._instant() - self._began - self._paused

    @property
    def steady_seconds(self) -> float:
        """Since the end of the first step, pauses left out; 0 before."""
        return 0.0 if self._first_done is None else self._instant() - self._first_done - self._paused

    @property
    def images_per_second(self) -> float:
        """Steady, over this process; over the first step too where there is no other."""
        if self._first_done is None:
            return 0.0
        if self.steps == 1:
            return self._batch_size / max(self.first_step_seconds, 1e-9)
        return (self.steps - 1) * self._batch_size / max(self.steady_seconds, 1e-9)

    def lap_images_per_second(self) -> float:
        """Since the last call of this; for showing while training."""
        now, (began, steps, paused) = self._instant(), self._lap
        self._lap = (now, self.steps, self._paused)
        seconds = now - began - (self._paused - paused)
        return (self.steps - steps) * self._batch_size / max(seconds, 1e-9) if self.steps > steps else 0.0

    def _instant(self) -> float:
        """Now; in a pause the instant at which it began."""
        return self._now() if self._pause_began is None else self._pause_began
