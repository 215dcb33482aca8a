"""Which runs are equal to the last bit, to rounding, or not at all: the lines of docs/training.md."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.unit.workloads.trainer.builders import a_job, attempt, final_state, stopped_in_epoch_2, two_devices
from trainplan.workloads.job import TrainingJob

trains = [pytest.mark.train, pytest.mark.check, pytest.mark.filterwarnings("default")]


def small(**changes: Any) -> TrainingJob:
    """Two epochs of 11 steps, with batch norm and dropout."""
    model = {"layers": [4, "M", 8], "batch_norm": True, "dense": [16], "dropout": 0.2}
    return a_job(**{"model": model, "global_batch_size": 128, "epochs": 2} | changes)


def equal_bits(one: Path, other: Path) -> bool:
    pairs = list(zip(final_state(one), final_state(other), strict=True))
    return all(left.tobytes() == right.tobytes() for left, right in pairs)


def stopped_and_gone_on_with(job: TrainingJob, run_dir: Path) -> None:
    stopped_in_epoch_2(job, run_dir)
    attempt(job, run_dir, 2)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, tensorflow: Any) -> Path:
    run_dir = tmp_path_factory.mktemp("run")
    attempt(small(), run_dir)
    return run_dir


class TestTensorFlow:
    pytestmark = trains

    def test_a_run_again_gives_the_same_bits(self, run: Path, tmp_path: Path) -> None:
        attempt(small(), tmp_path)
        assert equal_bits(run, tmp_path)

    @pytest.mark.keras_3
    def test_a_run_that_was_stopped_gives_the_same_bits(self, run: Path, tmp_path: Path) -> None:
        stopped_and_gone_on_with(small(), tmp_path)
        assert equal_bits(run, tmp_path)

    def test_another_seed_gives_another_run(self, run: Path, tmp_path: Path) -> None:
        attempt(small(seed=1), tmp_path)
        assert (
            max(np.abs(one - other).max() for one, other in zip(final_state(run), final_state(tmp_path), strict=True))
            > 0.1
        )

    def test_two_devices_with_dropout_are_another_run(self, run: Path, tmp_path: Path) -> None:
        attempt(small(), tmp_path, devices=two_devices)
        assert (
            max(np.abs(one - other).max() for one, other in zip(final_state(run), final_state(tmp_path), strict=True))
            > 0.01
        )


def by_jax(program: str, folder: Path) -> Any:
    """What a program prints as JSON, in a process of its own: one process trains on one framework."""
    pytest.importorskip("jax")
    head = (
        "import json, sys; from pathlib import Path; folder = Path(sys.argv[1])\n"
        "from tests.unit.workloads.trainer.test_determinism import *\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "KERAS_BACKEND": "jax"}
    command = [sys.executable, "-c", head + program, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


class TestJax:
    pytestmark = trains

    def test_jax_gives_the_same_bits(self, tmp_path: Path) -> None:
        """A run, and the same again, stopped after its first epoch: compiling each takes JAX seconds."""
        program = (
            "job = small(framework='jax')\n"
            "attempt(job, folder / 'whole')\n"
            "stopped_and_gone_on_with(job, folder / 'stopped')\n"
            "print(json.dumps(equal_bits(folder / 'whole', folder / 'stopped')))\n"
        )
        assert by_jax(program, tmp_path) is True

    def test_jax_and_tensorflow_begin_with_other_weights(self, tmp_path: Path, tensorflow: Any) -> None:
        from trainplan.workloads.job import Framework
        from trainplan.workloads.trainer.backend import load
        from trainplan.workloads.trainer.model import build

        program = (
            "from trainplan.workloads.trainer.backend import load\n"
            "from trainplan.workloads.trainer.model import build\n"
            "from trainplan.workloads.job import Framework; keras = load(Framework.JAX).keras\n"
            "weights = build(keras, small().net(), 8, 0).training.get_weights()\n"
            "print(json.dumps([weight.tolist() for weight in weights if weight.ndim > 1]))\n"
        )
        there = [np.array(weight) for weight in by_jax(program, tmp_path)]
        built = build(load(Framework.TENSORFLOW).keras, small().net(), 8, 0).training.get_weights()
        here = [weight for weight in built if weight.ndim > 1]
        assert [weight.shape for weight in here] == [weight.shape for weight in there]
        assert all(np.abs(one - other).max() > 0.01 for one, other in zip(here, there, strict=True))


def test_each_line_of_the_table_has_its_test() -> None:
    table = (ROOT / "docs" / "training.md").read_text(encoding="utf-8").partition("## Which runs are equal")[2]
    named = re.findall(r"(test_\w+\.py)(?:::Test\w+)?::(test_\w+)", table)
    assert len(named) == 16
    for module, test in named:
        text = (Path(__file__).parent / module).read_text(encoding="utf-8")
        assert re.search(rf"def {test}\(", text), f"{module} has no {test}"
