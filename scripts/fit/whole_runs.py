"""`python -m scripts.fit.whole_runs`: published whole runs of any network on ImageNet beside what is estimated of them.

They are asked as a person asks (the shipped model, no source, the job's own framework), and counted as an estimate
counts them: start, fed steps, validations, checkpoints. `tests/data/whole_runs.csv` has address, section and date of
each.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from scripts.fit.rows import DEVICES
from scripts.fit.totals import feed_of, hours_as_fed
from trainplan.planner.forecast.estimate import apply_feed
from trainplan.planner.forecast.whole_run import whole_run_half_width, widened
from trainplan.planner.throughput.networks import network_of
from trainplan.planner.throughput.predict import Predictor
from trainplan.planner.throughput.values import Question, Throughput
from trainplan.pricing.device_text import read_devices
from trainplan.workloads.job import TrainingJob

RUNS = Path(__file__).parents[2] / "tests" / "data" / "whole_runs.csv"
_FRAMEWORKS = {"mxnet": "torch"}
"""What a program that no job can have is asked as."""
_FAR = 1.6


@dataclass(frozen=True, kw_only=True)
class WholeRun:
    """A published run: hours as published, and as estimated with the interval of an estimate."""

    cells: dict[str, str]
    hours: float
    low: float
    high: float

    @property
    def ratio(self) -> float:
        """Estimated over published."""
        return self.hours / float(self.cells["hours"])

    @property
    def is_inside(self) -> bool:
        """Whether the published hours are inside the interval."""
        return self.low <= float(self.cells["hours"]) <= self.high


def whole_runs() -> list[WholeRun]:
    """Every run of the table. Raises ValueError where one gets no estimate."""
    predictor = Predictor.open(read_devices(DEVICES)[0])
    try:
        with RUNS.open(newline="", encoding="utf-8") as file:
            return [_estimated(cells, predictor) for cells in csv.DictReader(file)]
    finally:
        predictor.close()


def _estimated(cells: dict[str, str], predictor: Predictor) -> WholeRun:
    size, per_device, count = (int(cells[name]) for name in ("image_size_px", "batch_per_device", "device_count"))
    framework = _FRAMEWORKS.get(cells["framework"], cells["framework"])
    job = TrainingJob.model_validate({
        "name": cells["id"].replace("_", "-"),
        "model": {"preset": cells["model"], "image_size": size},
        "data": {"name": "imagenet"},
        "epochs": int(cells["epochs"]),
        "global_batch_size": per_device * count,
        "precision": cells["precision"],
        "framework": framework,
        "validation": {"every_epochs": 1},
    })  # fmt: skip
    net = network_of(cells["model"], size, "")
    if net is None:
        raise ValueError(f"{cells['id']}: there is no network {cells['model']}")
    answer = predictor.predict(
        Question(
            net=net,
            device=cells["device"],
            device_count=count,
            interconnect=cells["interconnect"] or None,
            vcpus=None,
            batch_per_device=per_device,
            precision=cells["precision"],
            xla=cells["device"].startswith("TPU"),
            framework=framework,
        )
    )
    if not isinstance(answer, Throughput):
        raise ValueError(f"{cells['id']}: {answer.reason}")
    fed, _ = apply_feed(answer, feed_of(job, cells), on_cpu=False)
    whole = widened(fed, whole_run_half_width())
    hours, high, low = (hours_as_fed(job, rate) for rate in (whole.images_per_second, whole.low, whole.high))
    return WholeRun(cells=cells, hours=hours, low=low, high=high)


def run_lines() -> list[str]:
    """A table of every run, for the terminal."""
    lines = ["| run | published h | estimated h | ratio | interval h | inside |", "|---|---|---|---|---|---|"]
    for run in whole_runs():
        cells = run.cells
        what = f"{cells['model']}, {cells['epochs']} epochs, {cells['device_count']} x {cells['device']}, "
        what += f"{cells['precision']}, {cells['framework']}"
        lines.append(
            f"| {cells['id']}: {what} | {float(cells['hours']):.3g} | {run.hours:.3g} | {run.ratio:.2f} "
            f"| {run.low:.3g} - {run.high:.3g} | {'yes' if run.is_inside else 'no'} |"
        )
    return lines


def whole_run_lines() -> list[str]:
    """A table by source and what it shows, for docs/accuracy.md."""
    runs = whole_runs()
    lines = [
        "| source | runs | networks | devices | estimated over published: median | least | most | inside |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for source in dict.fromkeys(_source(run) for run in runs):
        of_source = [run for run in runs if _source(run) == source]
        ratios = [run.ratio for run in of_source]
        nets = ", ".join(dict.fromkeys(run.cells["model"] for run in of_source))
        devices = ", ".join(dict.fromkeys(f"{run.cells['device_count']} x {run.cells['device']}" for run in of_source))
        inside = sum(run.is_inside for run in of_source)
        figures = " | ".join(f"{figure:.2f}" for figure in (median(ratios), min(ratios), max(ratios)))
        lines.append(f"| {source} | {len(of_source)} | {nets} | {devices} | {figures} | {inside} of {len(of_source)} |")
    off = [abs(math.log(run.ratio)) for run in runs]
    far = sum(one > math.log(_FAR) for one in off)
    summary = (
        f"Of {len(runs)} runs {sum(run.is_inside for run in runs)} are inside their interval and {far} are off by more "
        f"than {_FAR} times; the middle one is off by a factor of {math.exp(median(off)):.2f}."
    )
    return [*lines, "", summary]


def _source(run: WholeRun) -> str:
    return run.cells["id"].partition("-")[0]


def main() -> int:
    """Prints the tables."""
    print("\n".join([*run_lines(), "", *whole_run_lines()]))  # noqa: T201
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
