"""Memory in docs/accuracy.md: XLA's plans of training steps beside the estimate (`python -m scripts.fit.memory`)."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import NamedTuple

from trainplan.workloads.job import TrainingJob
from trainplan.workloads.memory import footprint

TABLE = Path(__file__).parents[2] / "tests" / "data" / "xla_memory.csv"
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
    plain, batch = row["net"].removesuffix("_bn"), int(row["batch"])
    model = {"preset": plain, "image_size": int(row["image_size"]), "batch_norm": plain != row["net"]}
    job = {"name": "job", "model": model, "data": {"name": "imagenet"}, "epochs": 1, "global_batch_size": batch}
    graph = TrainingJob.model_validate(job).graph()
    need = footprint(graph, batch, row["precision"], row["optimizer"], xla=True)
    parts = sum(int(row[f"{part}_bytes"]) for part in ("argument", "output", "temp"))
    return PlannedStep(
        title=f"{row['net']} {row['image_size']} px, batch {batch}, {row['optimizer']}",
        net=row["net"],
        precision=row["precision"],
        optimizer=row["optimizer"],
        planned_bytes=parts - int(row["alias_bytes"]),
        estimated_bytes=need.allocated - need.workspace,
    )


def memory_lines() -> list[str]:
    """A table of the steps in fp32, by network the one that is furthest off."""
    furthest: dict[str, PlannedStep] = {}
    counts: dict[str, int] = {}
    for step in planned_steps():
        if step.precision == "fp32":
            counts[step.net] = counts.get(step.net, 0) + 1
            furthest[step.net] = max(furthest.get(step.net, step), step, key=lambda one: abs(one.error))
    lines = ["| network | steps | furthest off | XLA GiB | estimate GiB | error |", "|---|---|---|---|---|---|"]
    for net, step in sorted(furthest.items(), key=lambda row: ("vgg" in row[0], abs(row[1].error))):
        sizes = f"{step.planned_bytes / _GIB:.2f} | {step.estimated_bytes / _GIB:.2f}"
        lines.append(f"| {net} | {counts[net]} | {step.title.removeprefix(f'{net} ')} | {sizes} | {step.error:+.1%} |")
    return lines


def main() -> int:
    """Print the table."""
    sys.stdout.write("\n".join(memory_lines()) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
