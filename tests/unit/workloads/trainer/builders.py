"""Small jobs, and attempts at them, for the trainer's tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from trainplan.workloads.job import TrainingJob
from trainplan.workloads.trainer.devices import DeviceKind, Devices, find_devices, mirrored
from trainplan.workloads.trainer.errors import TrainingStopped
from trainplan.workloads.trainer.images import ArrayImages, Split, in_memory
from trainplan.workloads.trainer.loop import train
from trainplan.workloads.trainer.prepare import Setting
from trainplan.workloads.trainer.progress import Clock, Progress
from trainplan.workloads.trainer.watch import Limits, StopRequest

if TYPE_CHECKING:
    from trainplan.workloads.trainer.backend import Toolkit


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


NOT_OPTIMISED = "--xla_backend_optimization_level=0"
"""For XLA: to compile a net of the tests takes ten times as long as to train it."""


def quick_jax(folder: Path) -> dict[str, str]:
    """The environment of a process that trains with JAX: what several processes compile is compiled by the first of
    them, and kept in `folder`."""
    return {
        "XLA_FLAGS": NOT_OPTIMISED,
        "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


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


def two_devices(toolkit: Toolkit) -> Devices:
    """The CPU as two devices (fixture `tensorflow`), for a strategy whose messages no earlier one's are taken for."""
    # As TensorFlow's own tests do: in one process the keys of its collective operations would begin anew.
    toolkit.module.distribute.MirroredStrategy._collective_key_base += 100_000
    return mirrored(toolkit.module, DeviceKind.CPU, "two halves of a CPU", ["CPU:0", "CPU:1"])


def events(run_dir: Path, number: int = 1, name: str | None = None) -> list[dict[str, Any]]:
    """What the attempt told, all of it or the events of one name."""
    lines = (run_dir / "attempts" / str(number) / "progress.jsonl").read_text(encoding="utf-8").splitlines()
    return [event for event in map(json.loads, lines) if name in (None, event["event"])]


def status(run_dir: Path, number: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run_dir / "attempts" / str(number) / "status.json").read_text(encoding="utf-8"))
    return found


def final_state(run_dir: Path) -> list[Any]:
    """The arrays of the newest checkpoint."""
    newest = sorted((run_dir / "checkpoints").iterdir())[-1]
    with np.load(newest / "state.npz") as state:
        return [state[name] for name in sorted(state.files)]


class StopsAfterAnEpoch(Progress):
    """Asks training to stop when an epoch is reported: a signal at a known moment."""

    def __init__(self, folder: Path, stop: StopRequest) -> None:
        super().__init__(folder, Clock())
        self.stop = stop

    def event(self, name: str, /, **fields: object) -> None:
        super().event(name, **fields)
        if name == "epoch":
            self.stop.signal_name = "SIGTERM"


def stopped_in_epoch_2(job: TrainingJob, run_dir: Path) -> None:
    """A first attempt that a signal ends after the first step of its second epoch."""
    stop = StopRequest()
    limits = Limits(checkpoint_every_seconds=600, stop=stop)
    with pytest.raises(TrainingStopped):
        attempt(job, run_dir, limits=limits, progress=StopsAfterAnEpoch(run_dir / "attempts/1", stop))


def numbered(count: int = 23) -> ArrayImages:
    """Image i is all i, so that a batch tells which images it holds."""
    return in_memory(np.repeat(np.arange(count), 4).reshape(count, 2, 2), np.arange(count))


def arrays(split: Split) -> tuple[ArrayImages, ArrayImages]:
    """Both parts of a data set that is held in memory."""
    assert isinstance(split.train, ArrayImages)
    assert isinstance(split.hold_out, ArrayImages)
    return split.train, split.hold_out
