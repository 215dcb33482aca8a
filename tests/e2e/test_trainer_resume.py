"""The trainer's process, killed with kill -9 in the middle of an epoch, and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trainplan.workloads.job import TrainingJob

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.train, pytest.mark.skipif(os.name != "posix", reason="kill -9 is POSIX")]

# The real command, which also tells on stdout what it writes to progress.jsonl: the one who kills can wait for it.
# A checkpoint is due after every KEPT_STEPS steps and not by the clock, so that the test is the same on any machine.
TELLING = """
import json, sys
from trainplan.workloads.trainer.progress import Progress
from trainplan.workloads.trainer.watch import TrainingWatch
from trainplan.workloads.trainer.__main__ import main
told, batch_end = Progress.event, TrainingWatch.batch_end
def event(self, name, /, **fields):
    told(self, name, **fields)
    print(json.dumps({"event": name, **fields}), flush=True)
def every_step(self, logs):
    batch_end(self, logs)
    if self.step % int(sys.argv[1]) == 0:
        self.checkpoint()
    print(json.dumps({"event": "trained", "step": self.step}), flush=True)
Progress.event, TrainingWatch.batch_end = event, every_step
sys.exit(main(sys.argv[2:]))
"""
KEPT_STEPS = 15
STEPS_PER_EPOCH = 22
EPOCHS = 4
KILLED_AT = 2 * STEPS_PER_EPOCH + 12

JOB = TrainingJob.model_validate(
    {
        "name": "killed",
        "model": {"layers": [8, "M", 16, "M"], "batch_norm": True, "dense": [32], "dropout": 0.0},
        "data": {"name": "digits"},
        "epochs": EPOCHS,
        "global_batch_size": 64,
        "optimizer": {"name": "adam", "learning_rate": 0.003},
    }
)


def started(run_dir: Path, attempt: int) -> subprocess.Popen[str]:
    run_dir.mkdir(parents=True, exist_ok=True)
    (run_dir / "job.json").write_text(JOB.to_json(), encoding="utf-8")
    options = ["--job", str(run_dir / "job.json"), "--run-dir", str(run_dir), "--attempt", str(attempt)]
    return subprocess.Popen(
        [sys.executable, "-c", TELLING, str(KEPT_STEPS), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
    )


def progress_events(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


def to_the_end(run_dir: Path, attempt: int) -> list[dict[str, Any]]:
    with started(run_dir, attempt) as process:
        events = list(progress_events(process))
    assert process.returncode == 0
    return events


def killed(run_dir: Path, when: dict[str, Any]) -> list[dict[str, Any]]:
    """Kill -9 as soon as the event `when` is told; everything told until then."""
    events = []
    with started(run_dir, 1) as process:
        for event in progress_events(process):
            events.append(event)
            if when.items() <= event.items():
                process.send_signal(signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL
    return events


def steps(events: list[dict[str, Any]]) -> list[int]:
    return [event["step"] for event in events if event["event"] == "trained"]


def one(events: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = (event for event in events if event["event"] == name)
    return found


def test_a_trainer_killed_in_mid_epoch_loses_no_step(tmp_path: Path) -> None:
    undisturbed = to_the_end(tmp_path / "undisturbed", 1)
    first = killed(tmp_path / "killed", {"event": "trained", "step": KILLED_AT})
    second = to_the_end(tmp_path / "killed", 2)

    resumed_from = one(second, "start")["resumed_from_step"]
    assert resumed_from % STEPS_PER_EPOCH != 0
    assert KILLED_AT - resumed_from < KEPT_STEPS
    # No step is lost: the second attempt does every step after the checkpoint, once, in order.
    assert steps(first) == list(range(1, KILLED_AT + 1))
    assert steps(second) == list(range(resumed_from + 1, EPOCHS * STEPS_PER_EPOCH + 1))
    assert one(second, "end")["step"] == one(undisturbed, "end")["step"] == EPOCHS * STEPS_PER_EPOCH
    # And the model is the one an undisturbed run makes, up to rounding.
    ends = one(second, "end")["hold_out_accuracy"], one(undisturbed, "end")["hold_out_accuracy"]
    assert ends[0] == pytest.approx(ends[1], abs=0.01)


def test_a_checkpoint_that_the_kill_left_unfinished_is_passed_over(tmp_path: Path) -> None:
    killed(tmp_path, {"event": "trained", "step": 2 * KEPT_STEPS + 1})
    newest = tmp_path / "checkpoints" / f"step-{2 * KEPT_STEPS:08}"
    (newest / "complete.json").unlink()
    second = to_the_end(tmp_path, 2)
    assert "step-00000030 is passed over" in one(second, "warning")["message"]
    assert one(second, "start")["resumed_from_step"] == KEPT_STEPS
    assert one(second, "end")["step"] == EPOCHS * STEPS_PER_EPOCH
