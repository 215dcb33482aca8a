"""Two processes train what one trains, over loopback, and they end early at the same step."""

from __future__ import annotations

import csv
import importlib.util
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from _pytest.mark import ParameterSet

from tests.conftest import ROOT
from tests.unit.workloads.trainer.builders import a_job, events, final_state, quick_jax
from tests.unit.workloads.trainer.test_process_group import EveryProcessReadsTheFirstPart
from trainplan.workloads.job import Framework
from trainplan.workloads.trainer.__main__ import explained
from trainplan.workloads.trainer.agreement import Agreement
from trainplan.workloads.trainer.errors import BadInputError, DeadlineReached, TrainerError, TrainingStopped
from trainplan.workloads.trainer.feed import even_hold_out_batch
from trainplan.workloads.trainer.joining import join
from trainplan.workloads.trainer.loop import train
from trainplan.workloads.trainer.prepare import Setting, prepare
from trainplan.workloads.trainer.process_group import ALONE, ProcessGroup
from trainplan.workloads.trainer.progress import Clock, Progress
from trainplan.workloads.trainer.watch import Limits, StopRequest

SECONDS = 400
PORTS = itertools.count(20_000 + os.getpid() % 10_000)


def where_installed(framework: str, *more: str) -> ParameterSet:
    missing = importlib.util.find_spec(framework) is None
    absent = pytest.mark.skipif(missing, reason=f"{framework} is not installed")
    marks = (pytest.mark.train, pytest.mark.check, pytest.mark.keras_3, absent)
    return pytest.param(framework, *more, marks=marks)


FRAMEWORKS = [where_installed(name) for name in ("jax", "tensorflow", "torch")]
STRATEGIES = {
    "jax": "DataParallel over 2 processes",
    "tensorflow": "MultiWorkerMirroredStrategy over 2 processes",
    "torch": "mean gradients over 2 processes",
}
WITHIN = {"jax": 1e-6, "tensorflow": 5e-6, "torch": 5e-6}
"""How far the weights, statistics and optimizer's slots of one run may be from the other's."""


class TermAfterAnEpoch(Progress):
    """Sends its own process a TERM, as Slurm does: a handler of the framework must not be in the place of ours."""

    def event(self, name: str, /, **fields: object) -> None:
        super().event(name, **fields)
        if name == "epoch":
            os.kill(os.getpid(), signal.SIGTERM)


def one_process(run_dir: Path, framework: str, rank: int, processes: int, port: int, behaviour: str) -> int:
    """Train as a process of a group, in an interpreter of its own; the exit code as the trainer's command has it."""
    kind = EveryProcessReadsTheFirstPart if behaviour == "same half" else ProcessGroup
    group = kind(rank=rank, processes=processes, coordinator=f"127.0.0.1:{port}") if processes > 1 else ALONE
    clock, stop = Clock(), StopRequest()
    folder = run_dir / "attempts" / "1" if not rank else run_dir / "attempts" / "1" / "ranks" / str(rank)
    signal.signal(signal.SIGTERM, lambda number, _: setattr(stop, "signal_name", signal.Signals(number).name))
    stops = behaviour == "stop" and not rank
    progress = TermAfterAnEpoch(folder, clock) if stops else Progress(folder, clock)
    dropout = 0.5 if behaviour == "dropout in parts" else 0.0
    model = {"layers": [8, "M"], "batch_norm": True, "dense": [16], "dropout": dropout}
    epochs = 100 if behaviour == "stop" else 3
    parts = 2 if behaviour.endswith("in parts") else 1
    job = a_job(framework=framework, epochs=epochs, global_batch_size=128, accumulate=parts, model=model, nodes=2)
    limits = Limits(checkpoint_every_seconds=600, stop=stop)
    setting = Setting(
        run_dir=run_dir, data_dir=run_dir / "data", limits=limits, progress=progress, clock=clock, group=group
    )
    try:
        train(job, setting)
    except TrainerError as error:
        return error.exit_code
    return 0


def trained(run_dir: Path, framework: str, processes: int, behaviour: str = "") -> list[int]:
    """The exit codes of the processes, in order of rank."""
    port = str(next(PORTS))
    words = (sys.executable, "-P", "-m", __name__, str(run_dir), framework)
    path = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
    # gloo, which joins processes of PyTorch, takes the address of the host's name otherwise.
    environment = {**os.environ, "PYTHONPATH": path, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    environment |= quick_jax(run_dir.parent)
    started = [
        subprocess.Popen([*words, str(rank), str(processes), port, behaviour], env=environment, cwd=ROOT)
        for rank in range(processes)
    ]
    try:
        return [process.wait(timeout=SECONDS) for process in started]
    finally:
        for process in started:
            process.kill()


def losses(run_dir: Path) -> list[float]:
    return [event["loss"] for event in events(run_dir, 1, "epoch")]


def rows_of(run_dir: Path, name: str) -> list[dict[str, str]]:
    """Of a table among the output, without how long each epoch took."""
    with (run_dir / "output" / name).open(encoding="utf-8") as file:
        return [{key: value for key, value in row.items() if key != "seconds"} for row in csv.DictReader(file)]


@pytest.fixture(scope="module", params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(framework: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp(framework)


@pytest.fixture(scope="module")
def alone(framework: str, folder: Path) -> Path:
    assert trained(folder / "alone", framework, 1) == [0]
    return folder / "alone"


class TestTwoProcesses:
    def test_they_train_what_one_trains(self, framework: str, folder: Path, alone: Path) -> None:
        together = folder / "together"
        assert trained(together, framework, 2) == [0, 0]
        assert losses(together) == losses(alone)
        for one, other in zip(final_state(together), final_state(alone), strict=True):
            np.testing.assert_allclose(one, other, atol=WITHIN[framework])
        (end,), (end_alone,) = events(together, 1, "end"), events(alone, 1, "end")
        assert end["hold_out_accuracy"] == end_alone["hold_out_accuracy"]
        (begin,) = events(together, 1, "start")
        assert (begin["device_count"], begin["strategy"]) == (2, STRATEGIES[framework])
        for name in ("confusion.csv", "metrics.csv"):
            assert rows_of(together, name) == rows_of(alone, name)

    def test_a_run_stopped_on_two_goes_on_with_one(self, framework: str, folder: Path) -> None:
        run_dir = folder / "stopped"
        assert trained(run_dir, framework, 2, "stop") == [75, 75]
        (stopped,) = events(run_dir, 1, "end")
        assert trained(run_dir, framework, 1, "stop") == [75]
        start, end = events(run_dir, 1, "start")[-1], events(run_dir, 1, "end")[-1]
        assert start["resumed_from_step"] == stopped["step"] < end["step"]


@pytest.mark.parametrize("framework", FRAMEWORKS[:1], indirect=True)
def test_processes_that_all_read_the_same_half_are_told_by_their_losses(
    framework: str, folder: Path, alone: Path
) -> None:
    """The planted defect. Nothing else tells of it: the run ends well, and its batches have the right size."""
    run_dir = folder / "same half"
    assert trained(run_dir, framework, 2, "same half") == [0, 0]
    assert losses(run_dir)[0] != losses(alone)[0]


@pytest.mark.parametrize(
    ("framework", "behaviour"),
    [
        # Two machines must find the images of each part where one has them: batch norm sees them together.
        where_installed("tensorflow", "in parts"),
        # Each process draws the whole batch's mask, as one process does.
        where_installed("torch", "dropout in parts"),
    ],
    indirect=["framework"],
)
def test_a_batch_in_parts_is_that_of_one_process(framework: str, behaviour: str, folder: Path) -> None:
    runs = {processes: folder / f"{behaviour} {processes}" for processes in (1, 2)}
    for processes, run_dir in runs.items():
        assert trained(run_dir, framework, processes, behaviour) == [0] * processes
    assert losses(runs[2]) == losses(runs[1])


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed here")
def test_several_processes_name_the_framework_that_is_not_installed() -> None:
    with pytest.raises(BadInputError, match="framework torch needs torch, which is not installed"):
        join(ProcessGroup(rank=0, processes=2, coordinator="127.0.0.1:1"), Framework.TORCH)


@pytest.mark.parametrize("framework", list(Framework))
def test_a_process_that_is_alone_waits_for_nobody(framework: Framework) -> None:
    join(ALONE, framework)


@pytest.mark.parametrize("framework", [where_installed("tensorflow")], indirect=True)
def test_what_xla_cannot_compile_over_several_processes_is_refused(framework: str, tmp_path: Path) -> None:
    group = ProcessGroup(rank=1, processes=2, coordinator="127.0.0.1:1")
    limits, progress = Limits(checkpoint_every_seconds=600), Progress(tmp_path / "attempts" / "1", Clock())
    setting = Setting(run_dir=tmp_path, data_dir=tmp_path / "data", limits=limits, progress=progress, group=group)
    with pytest.raises(BadInputError, match="xla: true is for one process of TensorFlow; leave it out"):
        prepare(a_job(framework=framework, xla=True, nodes=2), setting)


@pytest.mark.parametrize(
    "text",
    [
        "Graph execution error:\nCollective ops is aborted by: Error reported from /job:worker/task:1: The following",
        "Exception encountered\npair.cc:537] Read error [127.0.0.1]:13704: Connection reset by peer. This is typically",
        "UNKNOWN: Gloo all-reduce failed: pair.cc:538] Read error [127.0.0.1]:47027: Connection reset by peer",
    ],
)
def test_a_process_that_lost_another_says_so(text: str) -> None:
    """What TensorFlow, PyTorch and JAX said on loopback, 2026-11-24, when the other process was killed."""
    group = ProcessGroup(rank=0, processes=2, coordinator="127.0.0.1:1")
    assert explained(RuntimeError(text), group).startswith("another of the 2 processes has ended or cannot be reached")
    assert explained(RuntimeError(text), ALONE).startswith("training failed: RuntimeError: ")


def agreements(decisions: Sequence[tuple[int, int]], seconds: Sequence[float]) -> Agreement:
    """Rank 1's, with what rank 0 decides each time it is asked."""
    group = ProcessGroup(rank=1, processes=2, coordinator="127.0.0.1:1")
    replies, clock = iter(decisions), iter(seconds)
    return Agreement(group, lambda _: next(replies), lambda: next(clock))


def test_only_rank_0_decides_and_only_at_the_steps_that_it_named() -> None:
    agreement = agreements([(0, 2), (0, 5), (1, 9)], [0.0, 0.5, 1.0])
    own = TrainingStopped("stopped on SIGTERM")
    assert [agreement.of(step, own) for step in (1, 2, 3, 4)] == [None] * 4
    assert agreement.of(5, own) is own


def test_rank_0s_deadline_is_everybodys() -> None:
    assert isinstance(agreements([(2, 2)], [0.0]).of(1, None), DeadlineReached)


def test_rank_0_names_a_step_about_a_second_ahead() -> None:
    sent: list[tuple[int, int]] = []
    clock = iter([0.0, 0.5])

    def broadcast(numbers: tuple[int, int]) -> tuple[int, int]:
        sent.append(numbers)
        return numbers

    agreement = Agreement(ProcessGroup(processes=2, coordinator="127.0.0.1:1"), broadcast, lambda: next(clock))
    for step in (1, 2, 3):
        agreement.of(step, None)
    assert sent == [(0, 2), (0, 4)]


def test_a_process_that_is_alone_decides_for_itself() -> None:
    own = TrainingStopped("stopped on SIGTERM")
    agreement = Agreement(ALONE, lambda _: pytest.fail("nobody else is asked"), lambda: 0.0)
    assert not agreement.is_due(1)
    assert agreement.of(1, own) is own


def test_held_out_images_divide_over_the_devices_or_the_run_is_refused() -> None:
    assert even_hold_out_batch(360, 64, 2) == 60
    assert even_hold_out_batch(360, 64, 8) == 40
    with pytest.raises(BadInputError, match="360 test images do not divide over 7 devices"):
        even_hold_out_batch(360, 64, 7)


if __name__ == "__main__":
    folder_of_run, framework_of_run, *numbers, behaviour_of_run = sys.argv[1:]
    own_rank, count, common_port = map(int, numbers)
    sys.exit(one_process(Path(folder_of_run), framework_of_run, own_rank, count, common_port, behaviour_of_run))
