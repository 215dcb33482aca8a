"""Does a run go on when the Python that waits for it is killed, and is it found again?"""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import trainplan
from tests.desk import own_home

PROGRAM = """
import trainplan
keys = {"name": "long", "model": {"preset": "vgg16"}, "data": {"name": "cifar10"}, "epochs": 8000,
        "global_batch_size": 256, "precision": "amp_fp16"}
plan = trainplan.estimate(trainplan.Job.from_dict(keys), providers=["sim"], markets=["on_demand"])
run = trainplan.launch(plan[0], max_cost_usd=50, yes=True, quiet=True)
print(run.id, flush=True)
run.wait(quiet=True)
"""
"""On a simulated cloud that trains for hours of its own time, minutes of real time."""
MOST_SECONDS = 120


def test_a_run_outlives_a_python_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_home(tmp_path, monkeypatch)
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        limit = threading.Timer(MOST_SECONDS, process.kill)
        limit.start()
        assert process.stdout is not None
        run_id = process.stdout.readline().strip()
        process.kill()
        limit.cancel()
    (run,) = trainplan.runs()
    assert run.id == run_id
    status = run.status()
    assert status.phase in ("booting", "running")
    assert status.usd_per_hour > 0
    monkeypatch.setenv("PLAN_SIM_SPEED", "0")
    assert run.stop(quiet=True).outcome == "stopped"
    assert run.status().usd_per_hour == 0
