"""The commands of docs/exports.md, as they stand there, on a run of this computer whose job asks for an export."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.unit.workloads.trainer.conftest import HAS_TENSORFLOW

pytestmark = [
    pytest.mark.train,
    pytest.mark.skipif(not HAS_TENSORFLOW, reason="TensorFlow is not installed (the extra train-cpu)"),
]
JOB = """
name: digits
model: {layers: [16, M, 32, M], batch_norm: true, dense: [32]}
data: {name: digits}
epochs: 6
global_batch_size: 64
optimizer: {name: adam, learning_rate: 0.003}
export: [tflite_int8]
"""


def commands_of_the_page() -> list[list[str]]:
    page = (ROOT / "docs" / "exports.md").read_text(encoding="utf-8")
    _, _, rest = page.partition("<!-- commands:")
    block, _, _ = rest.partition("<!-- /commands -->")
    return [shlex.split(line, comments=True) for line in block.splitlines() if line.startswith("plan ")]


def plan(*words: str, cwd: Path, home: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", "from trainplan.planner.cli.main import main; main()", *words]
    environment = {**os.environ, "PLAN_HOME": str(home), "PLAN_ENGINE": "process"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("framework", ["tensorflow", pytest.param("jax", marks=pytest.mark.e2e)])
def test_they_do_what_the_page_says(framework: str, tmp_path: Path) -> None:
    from PIL import Image
    from sklearn.datasets import load_digits

    home = tmp_path / "home"
    (tmp_path / "job.yaml").write_text(f"{JOB}framework: {framework}\n")
    launched = plan("launch", "job.yaml", "--provider", "local", "--yes", "--json", cwd=tmp_path, home=home)
    assert launched.returncode == 0, launched.stderr
    receipt = json.loads(launched.stdout)
    folder = Path(receipt["model_folder"])
    assert f"tflite_int8: written to {folder}/exports/tflite_int8\n" in launched.stderr
    digit = (load_digits().images[3] * (255 / 16)).astype("uint8")
    Image.fromarray(digit).save(folder / "photo.png")

    convert, quantize, predict = commands_of_the_page()
    for words in (convert, quantize):
        ran = plan(*(receipt["run_id"] if word == "RUN" else word for word in words[1:]), cwd=folder, home=home)
        assert ran.returncode == 0, ran.stderr
    assert {path.name for path in (folder / "exports").iterdir()} == {"onnx", "tflite", "tflite_int8"}
    assert "Coral: not compiled here" in ran.stdout
    told = plan(*predict[1:], "--json", cwd=folder, home=home)
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["images"][0]["classes"][0]["class"] == "3"
