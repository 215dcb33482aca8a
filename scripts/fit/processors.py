"""How far the model of hosts is off on processors it was not fitted to (planner/throughput/data/processors.csv)."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from scripts.fit.evaluate import quantile
from trainplan.planner.planning.processor import REFERENCE_MHZ, REFERENCE_WIDTH
from trainplan.planner.throughput.compile import DATA
from trainplan.planner.throughput.host import GFLOPS_PER_CORE, cores_that_count, host_step_seconds
from trainplan.planner.throughput.nets import net_of
from trainplan.workloads.jobfile import read_job

if TYPE_CHECKING:
    from trainplan.workloads.layers import Net

_EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorError:
    """One processor: its rows, and the mean of the logarithms of predicted over measured."""

    processor: str
    rows: int
    framework: str
    off: float


def processor_errors() -> list[ProcessorError]:
    """One error for each processor, however many nets were measured on it: what it is off by is the processor's."""
    rows: dict[str, list[dict[str, str]]] = defaultdict(list)
    with (DATA / "processors.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            rows[row["processor"]].append(row)
    return [
        ProcessorError(
            processor=processor,
            rows=len(group),
            framework=group[0]["framework"],
            off=mean(math.log(_predicted(row) / float(row["images_per_second"])) for row in group),
        )
        for processor, group in rows.items()
    ]


def unseen_factor() -> float:
    """The factor that four processors out of five are within, as widths.py has it of other errors: with fewer than four
    processors the largest error. Rounded up to a tenth."""
    return math.ceil(10 * math.exp(quantile([abs(error.off) for error in processor_errors()]))) / 10


def processor_lines() -> list[str]:
    """A table for docs/accuracy.md."""
    lines = ["| processor | rows | framework | predicted / measured |", "|---|---|---|---|"]
    errors = processor_errors()
    lines += [
        f"| {error.processor} | {error.rows} | {error.framework} | {math.exp(error.off):.2f} |" for error in errors
    ]
    summary = f"{len(errors)} processors; the interval of one that was never seen is a factor of {unseen_factor():.1f}."
    return [*lines, "", summary]


def _predicted(row: dict[str, str]) -> float:
    cores, batch = int(row["cores"]), int(row["batch"])
    speed = float(row["clock_mhz"]) / REFERENCE_MHZ * int(row["flops_per_cycle"]) / REFERENCE_WIDTH
    if flops := row["gflop_per_image"]:
        return GFLOPS_PER_CORE * speed * cores_that_count(cores) / float(flops)
    return speed * batch / host_step_seconds(_net(row), batch, cores)


def _net(row: dict[str, str]) -> Net:
    net = net_of(row["net"], int(row["image_size_px"]), None)
    return net or read_job(_EXAMPLES / f"{row['net']}.yaml").net()
