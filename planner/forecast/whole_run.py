"""How much wider the time of a whole run is than that of a step: fitted to published whole runs."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainplan.planner.throughput.values import Throughput

TOTALS = Path(__file__).parents[1] / "throughput" / "data" / "totals.json"
"""Written by `make fit` (scripts/fit/totals.py) from totals.csv beside it."""


@cache
def whole_run_half_width() -> float:
    """What the half width of a step's interval, in logarithms, is joined with for a whole run. Raises OSError or
    ValueError where the shipped file is none."""
    return float(json.loads(TOTALS.read_text(encoding="utf-8"))["half_width"])


def widened(throughput: Throughput, half_width: float) -> Throughput:
    """The throughput that a whole run keeps: its interval joined with `half_width` as of another, independent cause."""
    rate = throughput.images_per_second
    below, above = (abs(math.log(end / rate)) for end in (throughput.low, throughput.high))
    return replace(
        throughput,
        low=rate / math.exp(math.hypot(below, half_width)),
        high=rate * math.exp(math.hypot(above, half_width)),
    )
