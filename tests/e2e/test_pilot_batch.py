"""`plan pilot --batch auto` on this computer: a small VGG net, with a process of the trainer for each try."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.workloads.trainer.conftest import HAS_TENSORFLOW
from trainplan.workloads.tries import MOST_SECONDS

pytestmark = [
    pytest.mark.train,
    pytest.mark.skipif(not HAS_TENSORFLOW, reason="TensorFlow is not installed (the extra train-cpu)"),
]
JOB = """
name: small
model: {layers: [16, M, 32, M], dense: [32]}
data: {name: digits}
epochs: 1000
global_batch_size: 16
"""


def plan(*words: str, folder: Path) -> dict[str, object]:
    command = [sys.executable, "-P", "-c", "from trainplan.planner.cli.main import main; main()", *words, "--json"]
    environment = {
        **os.environ, "PLAN_HOME": str(folder / "home"), "PLAN_ENGINE": "process", "CUDA_VISIBLE_DEVICES": "-1",
    }  # fmt: skip
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_settings_are_tried_on_this_computer(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    answer = plan(
        "pilot", "job.yaml", "--budget", "1", "--provider", "local", "--batch", "auto", "--yes", folder=tmp_path
    )
    pilots = answer["pilots"]
    assert isinstance(pilots, list)
    (told,) = pilots
    assert told["outcome"] == "succeeded", told["why"]
    assert sum(row["seconds"] for row in told["tries"]) <= MOST_SECONDS + 1
    first = told["tries"][0]
    assert (first["accumulate"], first["xla"], first["state"]) == (1, False, "measured")
    assert first["peak_memory_bytes"] > 100 * 2**20
    measured = [row for row in told["tries"] if row["state"] == "measured"]
    assert told["kept"] in [{"accumulate": row["accumulate"], "xla": row["xla"]} for row in measured]
    for name in (
        "boot_seconds",
        "data_images_per_second",
        "checkpoint_seconds",
        "checkpoint_bytes",
        "peak_memory_bytes",
    ):
        assert told[name] > 0
    assert told["phase_seconds"].keys() >= {"data", "import", "build", "compile"}
    lines = [f"{name}: {json.dumps(value)}" for name, value in told["kept"].items()]
    (tmp_path / "job.yaml").write_text("\n".join([JOB, *lines]))
    here = plan("estimate", "job.yaml", "--provider", "local", folder=tmp_path)["this_machine"]
    assert isinstance(here, dict)
    # On a computer whose rate is not known within 1.5 either way, under load as well, it is called scaled.
    assert here["basis"] in ("measured", "scaled")
    low, rate, high = (here[f"images_per_second{end}"] for end in ("_low", "", "_high"))
    assert (here["basis"] == "measured") is (max(high / rate, rate / low) <= 1.5)
