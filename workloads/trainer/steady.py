"""How fast a pilot trains, in windows along it, and when they agree well enough for it to end."""

from __future__ import annotations

import math
from statistics import fmean, stdev
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainplan.workloads.trainer.meter import Meter

WINDOW_SECONDS = 4.0
TRY_WINDOW_SECONDS = 1.0
"""Of a try (workloads/trainer/tries.py), of which several have to end within two minutes."""
LEAST_STEPS = 3
"""Of a window: a step that another program held up is one of several."""
LEAST_WINDOWS = 3
MOST_SECONDS = 120.0
"""Beyond the first step: after that a pilot ends with the spread that it has, if it has enough windows."""
HALF_WIDTH = 0.03
"""Of the 80 % interval of the mean rate, as a share of it, at which a pilot ends."""
# The 0.9 quantile of Student's t, by degrees of freedom: any table of it, for example NIST/SEMATECH e-Handbook of
# Statistical Methods, 1.3.6.7.2.
_T90 = {
    2: 1.886, 3: 1.638, 4: 1.533, 5: 1.476, 6: 1.440, 7: 1.415, 8: 1.397, 9: 1.383, 10: 1.372, 15: 1.341, 20: 1.325,
    30: 1.310,
}  # fmt: skip


def half_width(rates: list[float]) -> float | None:
    """The half width of the 80 % interval of the mean of these rates, as a share of it; None of fewer than three."""
    if len(rates) < LEAST_WINDOWS:
        return None
    freedom = max(known for known in _T90 if known <= len(rates) - 1)
    return _T90[freedom] * stdev(rates) / math.sqrt(len(rates)) / fmean(rates)


class Windows:
    """The rates of a training in windows of some seconds and steps. The first is left out: caches fill, and libraries
    try out kernels. `meter` counts the steps; each has `batch_size` images, and each window `window_seconds` at
    least."""

    def __init__(self, meter: Meter, batch_size: int, window_seconds: float = WINDOW_SECONDS) -> None:
        self._meter = meter
        self._window_seconds = window_seconds
        self._batch_size = batch_size
        self._began: tuple[int, float] | None = None
        self._is_warm = False
        self._steps, self._seconds = 0, 0.0
        self.rates: list[float] = []

    def is_due(self, step_count: int) -> bool:
        """Whether a window may end once so many steps are done: then the steps in flight are to be waited for."""
        if self._began is None:
            return True
        steps, seconds = self._began
        return step_count - steps >= LEAST_STEPS and self._meter.steady_seconds - seconds >= self._window_seconds

    def close(self) -> float | None:
        """End the window now, with all its steps done, and begin the next; its rate in images per second, None of one
        that does not count."""
        steps, seconds = self._meter.steps, self._meter.steady_seconds
        if self._began is None:
            self._began = (steps, seconds)
            return None
        done, lasting = steps - self._began[0], seconds - self._began[1]
        self._began = (steps, seconds)
        if not self._is_warm:
            self._is_warm = True
            return None
        self._steps += done
        self._seconds += lasting
        self.rates.append(done * self._batch_size / max(lasting, 1e-9))
        return self.rates[-1]

    @property
    def is_enough(self) -> bool:
        """Whether enough windows agree, or there is no time for more of them."""
        width = half_width(self.rates)
        return width is not None and (width < HALF_WIDTH or self._meter.steady_seconds >= MOST_SECONDS)

    @property
    def images_per_second(self) -> float | None:
        """The rate over all windows; None before there is one."""
        return self._steps * self._batch_size / self._seconds if self._seconds else None
