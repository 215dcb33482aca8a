"""On JAX, whose training state lives outside the model, a run with all of a recipe goes on bit for bit too."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.unit.workloads.trainer.builders import a_job, attempt, events, final_state, quick_jax, stopped_in_epoch_2

RECIPE: dict[str, Any] = {
    "model": {"layers": [4, "M"], "batch_norm": True, "dense": [], "dropout": 0.2},
    "optimizer": {
        "name": "sgd", "learning_rate": 0.05, "nesterov": True, "ema": 0.9,
        "schedule": {"name": "plateau", "warmup_epochs": 1, "patience": 1, "factor": 0.5},
    },
    "augment": {"resize": 10, "crop": 0.5, "flip": True, "brightness": 0.1, "mixup": 0.2, "label_smoothing": 0.1},
    "validation": {"every_epochs": 1, "keep_best": True, "min_change": 0.5},
}  # fmt: skip


def compare(folder: Path) -> None:
    """In a process of its own: one process trains on one framework."""
    job = a_job(framework="jax", global_batch_size=256, epochs=3, **RECIPE)
    attempt(job, folder / "whole")
    stopped_in_epoch_2(job, folder / "cut")
    attempt(job, folder / "cut", 2)
    for gone_on, undisturbed in zip(final_state(folder / "cut"), final_state(folder / "whole"), strict=True):
        np.testing.assert_array_equal(gone_on, undisturbed)
    whole, cut = (events(folder / name, number, "end")[0] for name, number in (("whole", 1), ("cut", 2)))
    assert (whole["best_epoch"], whole["hold_out_accuracy"]) == (cut["best_epoch"], cut["hold_out_accuracy"])
    compare_fine_tuning(folder)


def compare_fine_tuning(folder: Path) -> None:
    """The base learns at its share of the rate, and a frozen block not at all."""
    import keras

    file = folder / "whole" / "output" / "model.keras"
    moves = {}
    for name, model, share in (("all", {}, 1.0), ("slow", {}, 0.01), ("frozen", {"freeze": "block1"}, 1.0)):
        optimizer = {"name": "sgd", "learning_rate": 0.001, "momentum": 0.0, "base_rate_share": share}
        job = a_job(
            framework="jax", global_batch_size=256, epochs=1, optimizer=optimizer,
            model={**RECIPE["model"], "weights": str(file), **model},
        )  # fmt: skip
        attempt(job, folder / name)
        old, new = (
            keras.models.load_model(one, compile=False).get_layer("conv_0").get_weights()[0]
            for one in (file, folder / name / "output" / "model.keras")
        )
        moves[name] = float(np.abs(old - new).mean())
    assert moves["frozen"] == 0
    assert 0 < moves["slow"] < 0.05 * moves["all"]


@pytest.mark.slow
def test_a_run_with_a_recipe_goes_on_bit_for_bit(tmp_path: Path) -> None:
    for needed in ("jax", "keras", "sklearn"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed")
    program = (
        "import sys; from pathlib import Path\n"
        "from tests.unit.workloads.trainer.test_recipes_on_jax import compare\n"
        "compare(Path(sys.argv[1]))\n"
    )
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "KERAS_BACKEND": "jax", **quick_jax(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True, text=True, check=False, cwd=ROOT, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "cut/output/manifest.json").is_file()
