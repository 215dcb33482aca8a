"""What a tracker is told of a run: its settings, its curves, its files, and the figures of its receipt."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainplan.planner.runs.sweep_table import best_trial

if TYPE_CHECKING:
    from trainplan.planner.runs.receipt.receipt import Receipt
    from trainplan.workloads.job import TrainingJob
    from trainplan.workloads.sweep import Trial

FIGURES = {
    "hold_out_accuracy": "accuracy",
    "hold_out_top5": "top5",
    "actual_seconds": "actual_seconds",
    "estimated_seconds": "estimated_seconds",
    "actual_usd": "actual_usd",
    "estimated_usd": "estimated_usd",
    "actual_images_per_second": "actual_images_per_second",
    "estimated_images_per_second": "estimated_images_per_second",
    "interruptions": "interruptions",
    "lost_steps": "lost_steps",
    "attempts": "attempts",
    "steps": "steps",
}
"""The twelve figures of a run that every tracker gets, with the fields of the receipt that they are; those that a
script reported stand beside them."""
_CURVES = "metrics.csv"
_FILES = ("model.keras", _CURVES, "report.md")
_MOST_ROWS = 100_000


def run_record(job: TrainingJob, receipt: Receipt) -> dict[str, Any]:
    """The input of write.py, but for the tracker and the project. Unknown figures are left out."""
    folder = Path(receipt.model_folder) if receipt.model_folder else None
    best = best_trial(folder, job) if folder is not None else None
    figures = {name: getattr(receipt, field) for name, field in FIGURES.items()}
    return {
        "run_id": receipt.run_id,
        "job_name": receipt.job_name,
        "params": _params(job, receipt, best),
        "curves": _curves(folder / _CURVES) if folder else [],
        # Those of a script by its own names, which are none of the twelve's.
        "figures": receipt.figures | {name: float(value) for name, value in figures.items() if value is not None},
        "files": [str(folder / name) for name in _FILES if (folder / name).is_file()] if folder else [],
    }


def _model_name(job: TrainingJob) -> str:
    file = job.script or job.model.file
    return str(job.model.preset or ("layers" if file is None else Path(file).name))


def _params(job: TrainingJob, receipt: Receipt, best: Trial | None) -> dict[str, str]:
    """Settings as texts, of a sweep those of its best trial. What names data or secrets is left out: an address may be
    nobody else's business."""
    digest, job = job.digest(), job if best is None else best.job
    of_trial = {} if best is None else {"trial": best.number, **best.values}
    values = {
        "model": _model_name(job),
        **(_of_our_trainer(job) if job.script is None else _of_a_script(job)),
        "framework": receipt.framework or job.framework,
        "job_digest": digest,
        "device": receipt.device,
        "where": ", ".join(dict.fromkeys(str(one["where"]) for one in receipt.placements)),
        "outcome": receipt.outcome,
        "estimate_basis": receipt.basis,
        "simulated": receipt.simulated,
        "usd_by_resource": json.dumps(receipt.usd_by_resource),
        **of_trial,
    }
    return {name: str(value) for name, value in values.items() if value not in (None, "")}


def _of_our_trainer(job: TrainingJob) -> dict[str, object]:
    return {
        "epochs": job.epochs,
        "global_batch_size": job.global_batch_size,
        "precision": job.precision,
        "optimizer": job.optimizer.name,
        "learning_rate": job.optimizer.learning_rate,
        "seed": job.seed,
    }


def _of_a_script(job: TrainingJob) -> dict[str, object]:
    """What it was told: the rest is its own, and nobody knows it."""
    if not isinstance(job.args, dict):
        return {"args": " ".join(job.args)}
    return {f"args.{name}": value for name, value in job.args.items()}


def _curves(path: Path) -> list[dict[str, Any]]:
    """A row for each epoch; what is no number, and a file that is none, is left out."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [row for _, row in zip(range(_MOST_ROWS), csv.DictReader(file), strict=False)]
    except (OSError, UnicodeDecodeError, csv.Error):
        return []
    curves = []
    for row in rows:
        values = {name: number for name, text in row.items() if (number := _number(text)) is not None and name}
        step = values.pop("step", None)
        if step is not None and values:
            curves.append({"step": int(step), "values": values})
    return curves


def _number(text: object) -> float | None:
    try:
        number = float(text) if isinstance(text, str) else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None
