"""Small jobs, and attempts at them, for the trainer's tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from workloads.job import TrainingJob
from workloads.trainer.devices import find_devices
from workloads.trainer.loop import train
from workloads.trainer.prepare import Setting
from workloads.trainer.progress import Clock, Progress
from workloads.trainer.watch import Limits

if TYPE_CHECKING:
    from pathlib import Path


def a_job(**changes: Any) -> TrainingJob:
    """A VGG-style net on the digits that trains in a second or two."""
    job: dict[str, Any] = {
        "name": "tiny",
        "model": {"layers": [8, "M", 16, "M"], "batch_norm": True, "dense": [32], "dropout": 0.2},
        "data": {"name": "digits"},
        "epochs": 2,
        "global_batch_size": 64,
        "optimizer": {"name": "adam", "learning_rate": 0.003},
    }
    return TrainingJob.model_validate(job | changes)


def attempt(
    job: TrainingJob,
    run_dir: Path,
    number: int = 1,
    *,
    limits: Limits | None = None,
    progress: Progress | None = None,
    devices: Any = find_devices,
) -> None:
    """One attempt in this process."""
    clock = Clock()
    setting = Setting(
        run_dir=run_dir,
        data_dir=run_dir / "data",
        limits=limits or Limits(checkpoint_every_seconds=600),
        progress=progress or Progress(run_dir / "attempts" / str(number), clock),
        clock=clock,
        devices=devices,
    )
    train(job, setting)


def events(run_dir: Path, number: int = 1, name: str | None = None) -> list[dict[str, Any]]:
    """What the attempt told, all of it or the events of one name."""
    lines = (run_dir / "attempts" / str(number) / "progress.jsonl").read_text(encoding="utf-8").splitlines()
    return [event for event in map(json.loads, lines) if name in (None, event["event"])]


def status(run_dir: Path, number: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run_dir / "attempts" / str(number) / "status.json").read_text(encoding="utf-8"))
    return found
