"""The example scripts in jobs of Slurm: stopped in the middle of an epoch, and gone on with to the same weights."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.contract.harness import Ask, request, wait_for
from tests.contract.slurm import SlurmHarness
from tests.doubles.own_script import lines, run, until_stopped
from tests.doubles.waiting import until
from trainplan.providers.base import EndKind, InstanceState
from trainplan.workloads.job import TrainingJob
from trainplan.workloads.job_mistakes import validated_job

pytestmark = [pytest.mark.slow, pytest.mark.train]
STOPPED_AT = 12
"""In the second epoch of four, of eight steps each."""
no_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SlurmHarness]:
    made = SlurmHarness(tmp_path)
    made.settings = replace(made.settings, python=sys.executable)
    yield made
    made.clean()


@pytest.mark.parametrize(
    ("example", "resumed_from"),
    [
        pytest.param("keras_images", 8, marks=pytest.mark.keras_3),  # behind its last whole epoch
        pytest.param("torch_images", STOPPED_AT, marks=no_torch),
    ],
)
def test_an_example_goes_on_to_the_same_weights(
    harness: SlurmHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: str, resumed_from: int
) -> None:
    source = until_stopped((ROOT / "examples" / "scripts" / f"{example}.py").read_text(), STOPPED_AT)
    framework = "torch" if example == "torch_images" else "tensorflow"
    keys: dict[str, Any] = {"args": {"epochs": 4, "images": 256}, "checkpoints": True, "framework": framework}
    monkeypatch.setenv("WHOLE", "1")
    assert run(tmp_path / "whole", source, **keys).returncode == 0
    monkeypatch.delenv("WHOLE")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")

    provider = harness.provider()
    first = of_script(provider, source, keys, 1)
    ref = provider.launch(first).ref
    folder = Path(harness.settings.directory) / "runs" / first.run_id
    until(lambda: "warning" in [line["event"] for line in lines(folder)], "it trains")
    provider.stop(ref)
    assert wait_for(provider, ref, InstanceState.ENDED).end is EndKind.STOPPED
    second = of_script(provider, source, keys, 2)
    assert wait_for(provider, provider.launch(second).ref, InstanceState.ENDED).end is EndKind.DONE
    start = next(line for line in lines(folder, 2) if line["event"] == "start")
    assert start["resumed_from_step"] == resumed_from
    assert weights(folder / "output") == weights(tmp_path / "whole" / "output")


def of_script(provider: Any, source: str, keys: dict[str, Any], attempt: int) -> Any:
    """The request of an attempt for the script."""
    made = request(provider, Ask(attempt=attempt))
    return provider.resolve(replace(made, job=a_job(source, keys), resolution=None))


def a_job(source: str, keys: dict[str, Any]) -> TrainingJob:
    read = {"sha256": "0" * 64, "source": source}
    return validated_job({"name": "mine", "script": "/x/train.py", "read_script": read, **keys}, "job")


def weights(folder: Path) -> list[Any]:
    """Every array of the model that a script left."""
    if (folder / "model.pt").exists():
        import torch

        return [array.tolist() for array in torch.load(folder / "model.pt").values()]
    import keras

    return [array.tolist() for array in keras.models.load_model(folder / "model.keras").get_weights()]
