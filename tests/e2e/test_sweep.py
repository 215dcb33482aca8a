"""A sweep of real trainings: the best of nine as the full grid has it, and a process that is killed with kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainplan.workloads.job import TrainingJob
from trainplan.workloads.sweep import planned_epochs, rungs_of

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.train, pytest.mark.skipif(os.name != "posix", reason="kill -9 is POSIX")]

# Trains in one process what the product trains in one each: what differs is how long it takes to import TensorFlow.
ONE_PROCESS = """
import sys
from pathlib import Path
from trainplan.workloads.job import job_from_json
from trainplan.workloads.trainer import sweep
from trainplan.workloads.trainer.__main__ import main
from trainplan.workloads.trainer.prepare import Setting
from trainplan.workloads.trainer.progress import Clock, Progress
from trainplan.workloads.trainer.watch import Limits

class Here:
    def __init__(self, arguments):
        self.code = main(arguments)
    def wait(self, seconds):
        return self.code
    def stop(self):
        pass

run_dir = Path(sys.argv[1])
job = job_from_json((run_dir / "job.json").read_text())
clock = Clock()
setting = Setting(
    run_dir=run_dir, data_dir=run_dir / "data", limits=Limits(checkpoint_every_seconds=600),
    progress=Progress(run_dir / "attempts" / "1", clock), clock=clock,
)
sweep.train_sweep(job, setting, 1, Here)
for trial in job.trials:
    folder = run_dir / "grid" / str(trial.number)
    folder.mkdir(parents=True)
    (folder / "job.json").write_text(trial.job.to_json())
    code = main(["--job", str(folder / "job.json"), "--run-dir", str(folder), "--attempt", "1"])
    assert code in (0, 77), code
"""


def a_job(epochs: int, sweep: dict[str, list[Any]]) -> TrainingJob:
    return TrainingJob.model_validate(
        {
            "name": "swept",
            "model": {"layers": [8, "M", 16, "M"], "dense": [32], "dropout": 0.0},
            "data": {"name": "digits"},
            "epochs": epochs,
            "global_batch_size": 64,
            "optimizer": {"name": "sgd"},
            "sweep": sweep,
        }
    )


def begun(job: TrainingJob, run_dir: Path) -> Path:
    run_dir.mkdir(parents=True)
    (run_dir / "job.json").write_text(job.to_json(), encoding="utf-8")
    return run_dir


def accuracy(folder: Path) -> float:
    return float(json.loads((folder / "output" / "metrics.json").read_bytes())["hold_out_accuracy"])


def test_the_best_of_nine_is_that_of_the_full_grid_in_less_than_half_of_its_epochs(tmp_path: Path) -> None:
    values = {"optimizer.learning_rate": [0.03, 0.003, 0.0003], "optimizer.momentum": [0.9, 0.5, 0.0]}
    job = a_job(9, values)
    run_dir = begun(job, tmp_path / "run")
    command = [sys.executable, "-c", ONE_PROCESS, str(run_dir)]
    subprocess.run(command, check=True, timeout=600, cwd=ROOT, env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"})
    table = json.loads((run_dir / "output" / "sweep.json").read_bytes())
    grid = {trial.number: accuracy(run_dir / "grid" / str(trial.number)) for trial in job.trials}
    assert table["best"] == max(grid, key=lambda number: (grid[number], -number)), grid
    assert accuracy(run_dir) == grid[table["best"]], "it is trained as if it had been trained alone"
    lines = (run_dir / "attempts" / "1" / "progress.jsonl").read_text(encoding="utf-8").splitlines()
    trained = sum(json.loads(line)["event"] == "epoch" for line in lines)
    assert trained == planned_epochs(rungs_of(9, 9))
    assert trained <= 0.45 * 9 * 9


def started(run_dir: Path, attempt: int) -> subprocess.Popen[bytes]:
    options = ["--job", str(run_dir / "job.json"), "--run-dir", str(run_dir), "--attempt", str(attempt)]
    return subprocess.Popen(
        [sys.executable, "-m", "trainplan.workloads.trainer", *options],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
        start_new_session=True,
    )


def weights(run_dir: Path) -> list[Any]:
    """The arrays of the best trial in the newest checkpoint of its sweep."""
    newest = sorted((run_dir / "checkpoints").iterdir())[-1]
    [state] = newest.glob("trial-*-state.npz")
    with np.load(state) as arrays:
        return [arrays[name] for name in sorted(arrays.files)]


@pytest.mark.e2e
def test_killed_at_its_second_trial_it_ends_with_the_same_weights(tmp_path: Path) -> None:
    job = a_job(3, {"optimizer.learning_rate": [0.3, 0.03]})
    whole, killed = begun(job, tmp_path / "whole"), begun(job, tmp_path / "killed")
    assert started(whole, 1).wait(400) == 0
    process = started(killed, 1)
    second, end = killed / "trials" / "002" / "attempts" / "1" / "status.json", time.monotonic() + 200
    try:
        while not second.exists() and time.monotonic() < end and process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
    finally:
        os.kill(process.pid, signal.SIGKILL)  # and not its group: the trial has to notice by itself
        process.wait(30)
    assert started(killed, 2).wait(400) == 0
    assert all(map(np.array_equal, weights(killed), weights(whole)))
    tables = [(folder / "output" / "sweep.json").read_bytes() for folder in (whole, killed)]
    assert tables[0] == tables[1]
    told = (killed / "attempts" / "2" / "progress.jsonl").read_text(encoding="utf-8").splitlines()
    trials = [line for line in map(json.loads, told) if line["event"] == "trial"]
    assert (trials[0]["trial"], trials[0]["rung"]) == (2, 1), "the first trial is not trained again"
