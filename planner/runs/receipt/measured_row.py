"""A measurement of this machine as a row of the project's own table, fit to be given away.

It names the software, the driver and the device, and nobody: no user, no host, no path, no run.
"""

from __future__ import annotations

import csv
import hashlib
import io
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner import __version__
from trainplan.planner.throughput.columns import COLUMNS
from trainplan.planner.throughput.nets import model_key
from trainplan.planner.throughput.values import CPU
from trainplan.providers.hardware import canonical_device
from trainplan.workloads.terms import Framework

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date

    from trainplan.planner.runs.directory.progress import Line
    from trainplan.providers.hardware import HostHardware
    from trainplan.workloads.job import TrainingJob

LEAST_LAPS = 3
"""Fewer rates along a run tell no spread."""
_PERCENTS = (10, 50, 90)
_NAMES = {Framework.TENSORFLOW: "TensorFlow", Framework.JAX: "JAX", Framework.TORCH: "PyTorch"}
_PARALLELISM = {Framework.TENSORFLOW: "mirrored", Framework.JAX: "", Framework.TORCH: ""}


class Measured(NamedTuple):
    """What a measuring run told: the first line of its progress, the rate of the whole run and those along it, in
    images per second, and the day. `driver` is the version of the NVIDIA driver, "" where there is none."""

    start: Line
    images_per_second: float
    laps: Sequence[float]
    day: date
    driver: str = ""


def measured_row(
    job: TrainingJob, measured: Measured, machine: HostHardware, find: Callable[[str], str | None]
) -> dict[str, str]:
    """The cells by column. `find` gives the canonical name of a device's spelling, None where it is not known."""
    start, count = measured.start, max(1, int(measured.start.get("device_count", 1)))
    is_gpu = start.get("device_kind") == "gpu" and bool(machine.gpus)
    net = job.net() if job.is_layer_list else job.graph()
    spread = _spread(measured.laps)
    row = {
        **dict.fromkeys(COLUMNS, ""),
        "source": "own",
        "source_section": f"plan measure of trainplan {__version__}",
        "model": model_key(net),
        "parameters_million": f"{job.graph().parameters / 1e6:.6g}",
        "image_size_px": str(job.image_size),
        "mode": "train",
        "device": canonical_device(machine.gpus[0].name, find) if is_gpu else CPU,
        "device_as_stated": machine.gpus[0].name if is_gpu else f"{machine.cpu_name}, {machine.vcpus} vCPU",
        "device_memory_gb": f"{machine.gpus[0].memory_gib:g}" if is_gpu else "",
        "device_count": str(count),
        "node_count": "1",
        "precision": str(job.precision),
        "xla": "yes" if job.xla else "no",
        "batch_per_device": str(job.micro_batch_size // count),
        "framework": f"Keras on {_NAMES[job.framework]}",
        "framework_version": _versions(start, measured.driver if is_gpu else ""),
        "data": "real",
        "images_per_second": f"{measured.images_per_second:.6g}",
        "spread_fraction": "" if spread is None else f"{spread:.4f}",
        "optimizer_step": "yes",
        "parallelism": _PARALLELISM[job.framework] if count > 1 else "",
        "quality": "A" if spread is not None else "B",
        "measured_on": measured.day.isoformat(),
        "note": _note(job, measured, machine),
    }
    # Of its own content: the same row has the same name, and two computers have different ones.
    digest = hashlib.sha256(repr(sorted(row.items())).encode()).hexdigest()
    return {**row, "id": f"own-{digest[:10]}"}


def row_text(row: dict[str, str]) -> str:
    """The row below its header, as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, tuple(COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerow(row)
    return text.getvalue()


def _versions(start: Line, driver: str) -> str:
    version = str(start.get("framework_version", "")) or "unknown"
    more = [("Keras", start.get("keras_version")), ("Python", start.get("python_version")), ("driver", driver)]
    return ", ".join([version, *(f"{name} {value}" for name, value in more if value)])


def _spread(laps: Sequence[float]) -> float | None:
    """(largest - smallest) / median; None where there are too few."""
    return (max(laps) - min(laps)) / median(laps) if len(laps) >= LEAST_LAPS and median(laps) > 0 else None


def _note(job: TrainingJob, measured: Measured, machine: HostHardware) -> str:
    parts = [f"{machine.system} {machine.architecture}"]
    if len(measured.laps) >= LEAST_LAPS:
        rates = ", ".join(f"P{percent} {_percentile(measured.laps, percent):,.4g}" for percent in _PERCENTS)
        parts.append(f"images/s along the run: {rates} ({len(measured.laps)} rates)")
    if job.accumulate > 1:
        parts.append(f"the global batch of {job.global_batch_size} in {job.accumulate} parts")
    return "; ".join(parts)


def _percentile(values: Sequence[float], percent: int) -> float:
    """The value at this percentage of the sorted ones, between two in proportion."""
    ordered, position = sorted(values), (len(values) - 1) * percent / 100
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)
