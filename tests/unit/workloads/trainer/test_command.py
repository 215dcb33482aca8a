"""The command as a launcher starts it: exit codes, one line on stderr, and the other frameworks."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.workloads.trainer.builders import NOT_OPTIMISED, a_job, events, quick_jax, status
from trainplan.workloads.job import TrainingJob

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[4]
# A framework that must do without TensorFlow: importing it fails as if it were not installed.
WITHOUT_TENSORFLOW = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "tensorflow":
            raise ModuleNotFoundError("No module named 'tensorflow'", name="tensorflow")
sys.meta_path.insert(0, Absent())
import importlib.util
known = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "tensorflow" else known(name, *rest)
from trainplan.workloads.trainer.__main__ import main
sys.exit(main())
"""


CompletedCommand = subprocess.CompletedProcess[str]


def run(
    run_dir: Path,
    job: TrainingJob | str,
    *options: str,
    attempt: int = 1,
    code: str | None = None,
    **environment: str,
) -> CompletedCommand:
    run_dir.mkdir(parents=True, exist_ok=True)
    (run_dir / "job.json").write_text(job if isinstance(job, str) else job.to_json(), encoding="utf-8")
    return subprocess.run(
        [
            sys.executable,
            *(("-c", code) if code else ("-m", "trainplan.workloads.trainer")),
            *("--job", str(run_dir / "job.json"), "--run-dir", str(run_dir), "--attempt", str(attempt), *options),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={
            **os.environ,
            "CUDA_VISIBLE_DEVICES": "-1",
            "JAX_PLATFORMS": "cpu",
            **quick_jax(run_dir.parent),
            **environment,
        },
        check=False,
        timeout=300,
    )


def complaint(command: CompletedCommand) -> str:
    assert "Traceback" not in command.stderr
    lines = [line for line in command.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, command.stderr
    return lines[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "is not a job: name: Field required"),
        ("not json", "is not a job: the file: Invalid JSON"),
        (a_job().to_json().replace('"seed": 0', '"sed": 0'), "is not a job: sed: Extra inputs are not permitted"),
    ],
)
def test_a_job_that_is_none_is_refused(tmp_path: Path, text: str, message: str) -> None:
    done = run(tmp_path, text)
    assert done.returncode == 65
    assert message in complaint(done)
    assert status(tmp_path)["state"] == "failed"
    assert message in status(tmp_path)["message"]


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed here")
def test_a_framework_that_is_not_installed_is_named(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")  # the data are read first, and the digits are in it
    done = run(tmp_path, a_job(framework="torch"))
    assert done.returncode == 65
    assert "framework torch needs torch, which is not installed" in complaint(done)


@pytest.mark.parametrize("options", [["--max-steps", "0"], ["--attempt", "one"], ["--unknown"]])
def test_options_that_make_no_sense_are_refused(tmp_path: Path, options: list[str]) -> None:
    done = run(tmp_path, a_job(), *options)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_missing_data_is_the_jobs_fault(tmp_path: Path) -> None:
    done = run(tmp_path, a_job(data={"name": "imagenet"}, model={"preset": "vgg11"}, global_batch_size=1))
    assert done.returncode == 65
    assert "ImageNet may not be downloaded" in complaint(done)


def test_a_deadline_ends_with_its_own_code(tmp_path: Path) -> None:
    done = run(tmp_path, a_job(), "--deadline-unix", "1")
    assert done.returncode == 76
    assert status(tmp_path)["state"] == "deadline"


@pytest.mark.train
@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
@pytest.mark.slow
def test_a_signal_ends_with_a_checkpoint_and_its_own_code(tmp_path: Path) -> None:
    """The command signals itself as soon as it tells of a first step, so that nothing has to be waited for."""
    signalling = f"""
import os, sys
from trainplan.workloads.trainer.progress import Progress
from trainplan.workloads.trainer.__main__ import main
told = Progress.event
def event(self, name, /, **fields):
    told(self, name, **fields)
    if name == "phase" and fields["name"] == "compile":
        os.kill(os.getpid(), {int(signal.SIGINT)})
Progress.event = event
sys.exit(main())
"""
    done = run(tmp_path, a_job(epochs=50), code=signalling)
    assert done.returncode == 75
    assert status(tmp_path) == {**status(tmp_path), "state": "stopped", "message": "stopped on SIGINT"}
    end = events(tmp_path, name="end")[0]
    mark = json.loads((tmp_path / f"checkpoints/step-{end['step']:08}/complete.json").read_text(encoding="utf-8"))
    assert mark["step"] == end["step"] < 50 * end["epoch"]


STOPS_IN_EPOCH_2 = """
import os, signal
from trainplan.workloads.trainer.progress import Progress
told = Progress.event
def event(self, name, /, **fields):
    told(self, name, **fields)
    if name == "epoch":
        os.kill(os.getpid(), signal.SIGTERM)
Progress.event = event
from trainplan.workloads.trainer.__main__"""


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
@pytest.mark.parametrize("framework", ["jax", "torch"])
@pytest.mark.slow
def test_another_framework_trains_stops_and_goes_on_without_tensorflow(tmp_path: Path, framework: str) -> None:
    for needed in (framework, "keras", "sklearn"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed")
    job = a_job(framework=framework)
    stopping = WITHOUT_TENSORFLOW.replace("from trainplan.workloads.trainer.__main__", STOPS_IN_EPOCH_2, 1)
    assert run(tmp_path, job, code=stopping).returncode == 75
    stopped = events(tmp_path, 1, "end")[0]["step"]
    assert stopped % 22 != 0

    done = run(tmp_path, job, attempt=2, code=WITHOUT_TENSORFLOW)
    assert done.returncode == 0, done.stderr
    start, end = events(tmp_path, 2, "start")[0], events(tmp_path, 2, "end")[0]
    assert (start["framework"], start["device_kind"]) == (framework, "cpu")
    assert start["resumed_from_step"] == stopped
    assert end["step"] == start["total_steps"] == 2 * 22
    assert end["hold_out_accuracy"] > 0.3
    assert (tmp_path / "output/manifest.json").is_file()
    assert not list((tmp_path / "output").glob("*tfevents*"))
    report = (tmp_path / "output/report.md").read_text(encoding="utf-8")
    assert f"There is no TensorBoard event file: {framework} trained, and TensorFlow writes it." in report


SHARED_BY_TWO = """
from pathlib import Path
import sys
from tests.unit.workloads.trainer.builders import a_job, attempt
from trainplan.workloads.trainer.devices import DeviceKind, data_parallel
from trainplan.workloads.trainer.watch import Limits
def two(toolkit):
    return data_parallel(toolkit, DeviceKind.CPU, toolkit.module.local_devices())
run_dir = Path(sys.argv[sys.argv.index("--run-dir") + 1])
attempt(a_job(framework="jax"), run_dir, limits=Limits(checkpoint_every_seconds=600, max_steps=4), devices=two)
"""


@pytest.mark.slow
def test_jax_shares_a_batch_between_devices(tmp_path: Path) -> None:
    for needed in ("jax", "keras", "sklearn"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed")
    two = f"{NOT_OPTIMISED} --xla_force_host_platform_device_count=2"
    done = run(tmp_path, a_job(framework="jax"), code=SHARED_BY_TWO, XLA_FLAGS=two)
    assert done.returncode == 0, done.stderr
    start = events(tmp_path, 1, "start")[0]
    assert (start["strategy"], start["device_count"]) == ("DataParallel", 2)
    assert events(tmp_path, 1, "end")[0]["step"] == 4


def test_a_sweep_is_trained_by_the_same_command(tmp_path: Path) -> None:
    job = a_job(sweep={"optimizer.learning_rate": [0.003, 0.001]})
    command = run(tmp_path, job, "--max-steps", "3")
    assert command.returncode == 65
    assert complaint(command) == "error: a sweep is not measured: leave out --max-steps, or the job's sweep"
