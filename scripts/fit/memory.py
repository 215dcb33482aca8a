"""Memory in docs/accuracy.md: peaks on a GPU and XLA's plans of training steps beside the estimate
(`python -m scripts.fit.memory`)."""

from __future__ import annotations

import csv
import re
import sys
from functools import cache
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from trainplan.workloads.job import TrainingJob
from trainplan.workloads.memory import Footprint, footprint

if TYPE_CHECKING:
    from trainplan.workloads.graph import Graph

_DATA = Path(__file__).parents[2] / "tests" / "data"
TABLE, PEAKS = _DATA / "xla_memory.csv", _DATA / "networks_h200.csv"
_GIB = 2**30


class PlannedStep(NamedTuple):
    """A step that XLA planned, and what an estimate says of it: bytes without the framework and scratch space, which no
    plan has."""

    title: str
    net: str
    precision: str
    optimizer: str
    planned_bytes: int
    estimated_bytes: int

    @property
    def error(self) -> float:
        """(estimated - planned) / planned."""
        return self.estimated_bytes / self.planned_bytes - 1


def planned_steps(table: Path = TABLE) -> list[PlannedStep]:
    """The steps of the table that benchmarks/memory_xla.py writes."""
    with table.open(encoding="utf-8", newline="") as text:
        return [_step(row) for row in csv.DictReader(text)]


def _step(row: dict[str, str]) -> PlannedStep:
    batch = int(row["batch"])
    need = footprint(network(row["net"], int(row["image_size"])), batch, row["precision"], row["optimizer"], xla=True)
    parts = sum(int(row[f"{part}_bytes"]) for part in ("argument", "output", "temp"))
    return PlannedStep(
        title=f"{row['net']} {row['image_size']} px, batch {batch}, {row['optimizer']}",
        net=row["net"],
        precision=row["precision"],
        optimizer=row["optimizer"],
        planned_bytes=parts - int(row["alias_bytes"]),
        estimated_bytes=need.allocated - need.workspace,
    )


@cache
def network(net: str, image_size: int) -> Graph:
    """A preset, VGG with batch norm as `vgg16_bn`, for ImageNet."""
    plain = net.removesuffix("_bn")
    model = {"preset": plain, "image_size": image_size, "batch_norm": plain != net}
    job = {"name": "job", "model": model, "data": {"name": "imagenet"}, "epochs": 1, "global_batch_size": 1}
    return TrainingJob.model_validate(job).graph()


class Peak(NamedTuple):
    """The most that PyTorch's allocator had handed out in training steps with SGD and momentum."""

    net: str
    image_size: int
    batch: int
    precision: str
    gib: float

    def footprint(self) -> Footprint:
        """What an estimate says of it."""
        return footprint(network(self.net, self.image_size), self.batch, self.precision, "sgd")


def measured_peaks(table: Path = PEAKS) -> list[Peak]:
    """Those in the notes of the rows that benchmarks/networks_on_gpu.py writes, without VGG on small images:
    torchvision's keeps its head of 224 px there, the preset's has a smaller one."""
    with table.open(encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    found = []
    for row in rows:
        gib, size = re.search(r"peak ([\d.]+) GiB", row["note"]), int(row["image_size_px"])
        if gib and not (row["model"].startswith("vgg") and size != 224):
            found.append(Peak(row["model"], size, int(row["batch_per_device"]), row["precision"], float(gib[1])))
    return found


def peak_ratios() -> dict[tuple[str, str], list[float]]:
    """The estimate over the measured peak, by network and precision."""
    found: dict[tuple[str, str], list[float]] = {}
    for peak in measured_peaks():
        found.setdefault((peak.net, peak.precision), []).append(peak.footprint().allocated / _GIB / peak.gib)
    return found


def peak_lines() -> list[str]:
    """A table by network, over all precisions."""
    lines = ["| network | peaks | estimate over peak, median | least | most |", "|---|---|---|---|---|"]
    by_net: dict[str, list[float]] = {}
    for (net, _), ratios in peak_ratios().items():
        by_net.setdefault(net, []).extend(ratios)
    for net, ratios in sorted(by_net.items()):
        figures = f"{median(ratios):.2f} | {min(ratios):.2f} | {max(ratios):.2f}"
        lines.append(f"| {net} | {len(ratios)} | {figures} |")
    return lines


def memory_lines() -> list[str]:
    """A table of the steps in fp32, by network the one that is furthest off; those within 5 % in one row."""
    furthest: dict[str, PlannedStep] = {}
    counts: dict[str, int] = {}
    for step in planned_steps():
        if step.precision == "fp32":
            counts[step.net] = counts.get(step.net, 0) + 1
            furthest[step.net] = max(furthest.get(step.net, step), step, key=lambda one: abs(one.error))
    lines = ["| network | steps | furthest off | XLA GiB | estimate GiB | error |", "|---|---|---|---|---|---|"]
    near = [net for net, step in furthest.items() if abs(step.error) <= _NEAR]
    for net, step in sorted(furthest.items(), key=lambda row: ("vgg" in row[0], abs(row[1].error))):
        if net not in near:
            sizes = f"{step.planned_bytes / _GIB:.2f} | {step.estimated_bytes / _GIB:.2f}"
            what = step.title.removeprefix(f"{net} ")
            lines.append(f"| {net} | {counts[net]} | {what} | {sizes} | {step.error:+.1%} |")
    return [*lines, f"| {len(near)} others | {sum(counts[net] for net in near)} | | | | within {_NEAR:.0%} |"]


_NEAR = 0.05


def main() -> int:
    """Print the tables."""
    sys.stdout.write("\n".join([*peak_lines(), "", *memory_lines()]) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
