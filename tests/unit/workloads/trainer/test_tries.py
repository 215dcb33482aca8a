"""A pilot that tries settings, each in a process of its own that may run out of memory, crash or hang."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.unit.workloads.trainer.builders import a_job, events, status
from trainplan.workloads.trainer.errors import BadInputError, TrainerError, TrainingStopped
from trainplan.workloads.trainer.prepare import Setting
from trainplan.workloads.trainer.progress import Clock, Progress
from trainplan.workloads.trainer.tries import FOLDER, is_out_of_memory, train_tries
from trainplan.workloads.trainer.watch import Limits, StopRequest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")

DATA = {"name": "synthetic", "images": 64, "channels": 1}
NET = {"layers": [4, "M"], "dense": [], "image_size": 8, "classes": 2}


def tried(run_dir: Path, behaviour: str, monotonic: Callable[[], float] | None = None, **changes: Any) -> None:
    """A pilot that tries settings of a job of 16 images a batch, with tries that behave so."""
    job = a_job(**{"model": NET, "data": DATA, "global_batch_size": 16} | changes)
    clock = Clock() if monotonic is None else Clock(monotonic=monotonic)
    stop = StopRequest("SIGTERM") if behaviour == "stopped" else StopRequest()
    setting = Setting(
        run_dir=run_dir,
        data_dir=run_dir / "data",
        limits=Limits(checkpoint_every_seconds=600, max_steps=50, until_steady=True, stop=stop),
        progress=Progress(run_dir / "attempts" / "1", clock),
        clock=clock,
    )
    train_tries(job, setting, (sys.executable, "-P", str(ROOT / "tests" / "doubles" / "fake_try.py"), behaviour))


def test_the_fastest_that_fits_is_told_with_what_the_first_one_measured(tmp_path: Path) -> None:
    tried(tmp_path, "4")
    tries = events(tmp_path, name="try")
    assert [(row["micro_batch_size"], row["xla"], row["state"]) for row in tries] == [
        (16, False, "out_of_memory"),
        (8, False, "out_of_memory"),
        (4, False, "measured"),
        (4, True, "measured"),
        (2, False, "measured"),
        (2, True, "measured"),
        (1, False, "measured"),
        (1, True, "measured"),
    ]
    (end,) = events(tmp_path, name="end")
    assert (end["accumulate"], end["xla"], end["images_per_second"], end["half_width"]) == (16, False, 1600.0, 0.01)
    assert (end["tries"], end["is_time_up"], end["checkpoint_bytes"]) == (8, False, 4096)
    assert end["input_bound"]  # 105 images/s are no more than it trains
    kept = json.loads((tmp_path / "output" / "measurement.json").read_text())
    assert len(kept["all"]) == 8
    assert {name: kept[name] for name in kept if name != "all"} == {name: end[name] for name in kept if name != "all"}
    assert [row["device_name"] for row in events(tmp_path, name="start")] == ["a processor"]
    assert [row["name"] for row in events(tmp_path, name="phase")] == ["data", "compile"]
    assert status(tmp_path)["state"] == "done"
    assert not (tmp_path / FOLDER).exists()


def test_a_crash_ends_its_try_alone(tmp_path: Path) -> None:
    tried(tmp_path, "crash", global_batch_size=2)
    crashed = events(tmp_path, name="try")[1]
    assert (crashed["xla"], crashed["state"], crashed["message"]) == (True, "failed", "it died of signal 11")
    assert events(tmp_path, name="end")[0]["xla"] is False


def test_where_nothing_fits_it_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match="nothing fits: the smallest micro-batch, of 1 image, ran out of memory too"):
        tried(tmp_path, "0", global_batch_size=2)
    assert not (tmp_path / "output").exists()
    assert events(tmp_path, name="end") == []


def test_a_try_that_hangs_is_killed_when_the_time_is_up(tmp_path: Path) -> None:
    seconds = iter(range(0, 100_000, 20))
    with pytest.raises(TrainerError, match="no try ended within 120 s"):
        tried(tmp_path, "hang", lambda: float(next(seconds)))
    assert [row["state"] for row in events(tmp_path, name="try")] == ["out_of_time"]


def test_a_stop_ends_it(tmp_path: Path) -> None:
    with pytest.raises(TrainingStopped):
        tried(tmp_path, "stopped")


def test_data_that_is_wrong_is_told_before_any_try(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="a batch of 128 cannot be taken from 64 training images"):
        tried(tmp_path, "16", global_batch_size=128)
    assert events(tmp_path, name="try") == []


def test_a_try_ends_with_the_process_that_began_it() -> None:
    waits = "print('up', flush=True); signal.pause()"
    code = f"import signal; from trainplan.workloads.trainer.tries import end_with; end_with(0); {waits}"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    assert child.stdout is not None
    assert child.stdin is not None
    assert child.stdout.readline() == b"up\n"
    child.stdin.close()
    assert child.wait(30) == 70
    child.stdout.close()


@pytest.mark.parametrize(
    "text",
    [
        "ResourceExhaustedError: Graph execution error:",
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate",
        "torch.OutOfMemoryError: CUDA out of memory",
        "the batch does not fit into the memory there is; write a smaller global_batch_size (InternalError)",
    ],
)
def test_frameworks_say_a_want_of_memory_in_their_own_words(text: str) -> None:
    assert is_out_of_memory(text)
    assert not is_out_of_memory("InvalidArgumentError: shapes do not match")
