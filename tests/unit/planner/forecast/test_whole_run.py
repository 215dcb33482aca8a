"""The interval of a whole run beside that of its steps."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.builders import a_job, a_throughput
from trainplan.planner.forecast.allowances import allowances
from trainplan.planner.forecast.estimate import Workload, rented_time
from trainplan.planner.forecast.whole_run import whole_run_half_width, widened


def test_the_ends_are_joined_with_a_width_of_an_independent_cause() -> None:
    """A factor of e to the 3 and one of e to the 4 make one of e to the 5."""
    throughput = a_throughput(1.0)
    exact = widened(throughput, 0.0)
    assert (exact.low, exact.high) == (pytest.approx(throughput.low), pytest.approx(throughput.high))
    wide = widened(replace(throughput, low=math.exp(-3), high=math.exp(3)), 4.0)
    assert (wide.images_per_second, wide.low, wide.high) == (
        1.0,
        pytest.approx(math.exp(-5)),
        pytest.approx(math.exp(5)),
    )


def test_a_rented_run_is_less_sure_than_its_step() -> None:
    throughput = a_throughput(1000.0)
    time = rented_time(Workload(a_job()), allowances("aws", "gpu"), throughput)
    assert whole_run_half_width() > 0
    assert time.train_high / time.train > throughput.images_per_second / throughput.low
    assert time.train / time.train_low > throughput.high / throughput.images_per_second
