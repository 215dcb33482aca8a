"""The notebook of `plan export --to colab`, run here against a folder that stands for Google Drive.

Its session is lost at random instants, whichever cell is at work: with the machine (all processes and the disk are
gone), with the kernel alone (its trainer is left), or by the person, who interrupts the cell. The weights in the end
are those of a run that nothing has disturbed, to the last bit.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest

from tests.conftest import ROOT
from tests.unit.planner.cli.command import plan

JOB = """\
name: digits
model: {layers: [8, M, 16, M], dense: [16], image_size: 8, dropout: 0.2, batch_norm: true}
data: {name: digits}
epochs: 40
global_batch_size: 16
framework: jax
checkpoint_every: 1s
"""
SESSION_SECONDS = 22.0
"""About what a session takes that nothing disturbs, on two cores; a session is lost before that."""
LIMIT_SECONDS = 150.0
KILLS = {"make check": 3, "make e2e": 20}
WAYS = ("machine", "kernel", "person")


@pytest.fixture
def drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The exported folder, as it lies on Drive."""
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    job = tmp_path / "job.yaml"
    job.write_text(JOB, encoding="utf-8")
    folder = tmp_path / "drive" / "digits"
    made = plan("export", job, "--to", "colab", "--out", folder, "--drive", folder)
    assert made.code == 0, made.err
    return folder


@pytest.mark.train
@pytest.mark.slow
@pytest.mark.parametrize(
    "kills", [KILLS["make check"], pytest.param(KILLS["make e2e"], marks=pytest.mark.e2e)], ids=["few", "many"]
)
def test_it_ends_with_the_weights_of_an_undisturbed_run(drive: Path, tmp_path: Path, kills: int) -> None:
    undisturbed = tmp_path / "undisturbed"
    shutil.copytree(drive, undisturbed)
    text = (undisturbed / "train.ipynb").read_text(encoding="utf-8")
    (undisturbed / "train.ipynb").write_text(text.replace(str(drive), str(undisturbed)), encoding="utf-8")
    assert "trained: " in _played(undisturbed, tmp_path / "vm-0")
    for seed in range(kills):
        way = WAYS[seed % len(WAYS)]
        vm = tmp_path / "vm-1"
        _lose(drive, vm, random.Random(seed).uniform(1.0, SESSION_SECONDS), way)
        if way == "machine":
            shutil.rmtree(vm, ignore_errors=True)
    assert "trained: " in _played(drive, tmp_path / "vm-1")
    expected, final = _final_state(undisturbed), _final_state(drive)
    assert expected.keys() == final.keys()
    for name, array in expected.items():
        assert np.array_equal(final[name], array, equal_nan=True), name
    _home_again(drive, kills)


def _home_again(drive: Path, kills: int) -> None:
    """The figures are read by `plan history import`, next to the model."""
    imported = plan("history", "import", drive / "run" / "output" / "history.json", "--json")
    assert imported.code == 0, imported.err
    (run,) = imported.json
    assert (run["outcome"], run["provider"], run["receipt"]["steps"]) == ("succeeded", "colab", 3560)
    assert run["receipt"]["actual_usd"] == 0
    assert run["receipt"]["accuracy"] > 0.8
    assert 1 <= run["receipt"]["attempts"] <= kills + 1


def test_a_session_without_the_whole_upload_says_what_is_missing(drive: Path, tmp_path: Path) -> None:
    (drive / "job.json").unlink()
    text = _played(drive, tmp_path / "vm")
    assert "lacks job.json: wait for the upload to end" in text
    assert "Traceback" not in text


def _played(folder: Path, vm: Path) -> str:
    return _start(folder, vm).communicate(timeout=LIMIT_SECONDS)[0].decode()


def _start(folder: Path, vm: Path) -> subprocess.Popen[bytes]:
    """A session: the notebook's kernel, with a disk of its own at `vm`."""
    vm.mkdir(exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(vm), "IPYTHONDIR": str(vm / "ipython"), "PYTHONWARNINGS": "ignore"}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.places.play", str(folder / "train.ipynb")],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _lose(folder: Path, vm: Path, seconds: float, way: str) -> None:
    session = _start(folder, vm)
    with suppress(subprocess.TimeoutExpired):
        session.wait(seconds)
    processes = _with_children(session.pid)
    kernel = next((one for one in processes if "ipykernel_launcher" in " ".join(_words(one))), None)
    match way:
        case "machine":
            _kill(*processes)
        case "kernel" if kernel is not None:
            _kill(kernel)
        case _ if kernel is not None:
            kernel.send_signal(2)  # the trainer writes a checkpoint, and the cell ends
            with suppress(subprocess.TimeoutExpired):
                session.wait(LIMIT_SECONDS / 5)
    _kill(*(one for one in _with_children(session.pid) if way == "machine" or one.pid == session.pid))
    session.communicate(timeout=LIMIT_SECONDS)


def _with_children(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _words(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def _kill(*processes: psutil.Process) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=LIMIT_SECONDS)


def _final_state(folder: Path) -> dict[str, np.ndarray]:
    """Weights, statistics and optimizer of the newest checkpoint."""
    newest = max((folder / "run" / "checkpoints").glob("step-*"))
    assert json.loads((newest / "complete.json").read_text(encoding="utf-8"))["step"] == 3560
    with np.load(newest / "state.npz") as state:
        return {name: state[name] for name in state.files}
