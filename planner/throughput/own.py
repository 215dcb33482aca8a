"""What own runs say: the same run again is measured, another one is scaled by how far the model was off."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from trainplan.planner.throughput.values import Basis, Measurement, Question, Throughput

# The same run on the same machine: its repeats differ by some per cent (cache, clock, neighbours).
_REPEAT_FACTOR = 1.07
# Another net, batch or size on a machine whose speed is known from a run.
_SCALED_FACTOR = 1.25


def from_own(
    question: Question,
    model: str,
    rows: Sequence[Measurement],
    base: Callable[[Measurement], float | None],
    predicted: Throughput,
) -> Throughput:
    """`predicted` corrected by own runs on that device.

    `base` gives what the model says of a measured configuration; None where it cannot.
    """
    same = [row for row in rows if _distance(question, model, row) == 0]
    if same:
        # The middle one, so that a run which was disturbed is outvoted.
        rate = sorted(row.images_per_second for row in same)[len(same) // 2]
        throughput = _around(rate, _REPEAT_FACTOR, Basis.MEASURED, tuple(row.id for row in same))
        return replace(throughput, note="measured by an own run")
    pairs = [(row, value) for row in rows if (value := base(row)) is not None]
    if not pairs:
        return predicted
    nearest, value = min(pairs, key=lambda pair: _distance(question, model, pair[0]))
    rate = predicted.images_per_second * nearest.images_per_second / value
    return replace(_around(rate, _SCALED_FACTOR, Basis.SCALED, (nearest.id,)), note="scaled from an own run")


def _distance(question: Question, model: str, row: Measurement) -> float:
    batch = row.batch_per_device or 1
    return (
        4.0 * (row.device_count != question.device_count)
        + 3.0 * (row.precision != question.precision)
        + 2.0 * (row.framework != question.framework)
        + 1.0 * (bool(row.xla) is not question.xla)
        + 2.0 * (row.model != model)
        + abs(math.log2(row.image_size_px / question.net.image_size))
        + 0.5 * abs(math.log2(batch / question.batch_per_device))
    )


def _around(rate: float, factor: float, basis: Basis, evidence: tuple[str, ...]) -> Throughput:
    return Throughput(images_per_second=rate, low=rate / factor, high=rate * factor, basis=basis, evidence=evidence)
