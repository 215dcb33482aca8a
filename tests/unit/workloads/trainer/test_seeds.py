"""Seeds of layers, purposes and epochs say nothing about each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.workloads.trainer.builders import a_job
from trainplan.workloads.job import Framework
from trainplan.workloads.trainer.backend import load
from trainplan.workloads.trainer.model import build
from trainplan.workloads.trainer.seeds import derived_seed


def test_seeds_are_the_same_everywhere_and_differ_in_every_part() -> None:
    # Runs are gone on with on other machines: these figures never change.
    assert [derived_seed(0, "kernel", 0), derived_seed(1, "kernel", 0)] == [1_519_174_413, 17_501_390]
    drawn = {
        derived_seed(seed, what, layer) for seed in range(20) for what in ("kernel", "dropout") for layer in range(20)
    }
    assert len(drawn) == 20 * 2 * 20
    assert all(0 <= seed < 2**31 for seed in drawn)


@pytest.mark.train
@pytest.mark.filterwarnings("default")
@pytest.mark.keras_3
def test_no_layer_of_one_seed_is_another_layer_of_the_next(tensorflow: Any) -> None:
    """Layer n of seed 1 was layer n + 1 of seed 0, bit by bit."""
    del tensorflow
    keras = load(Framework.TENSORFLOW).keras
    job = a_job(
        model={"layers": [8, 8, 8, 8], "image_size": 8, "dense": [8, 8, 8], "classes": 8}, data={"name": "digits"}
    )
    kernels = {}
    for seed in (0, 1, 2):
        for weight in build(keras, job.net(), 8, seed).training.trainable_weights:
            if len(weight.shape) > 1:
                kernels[seed, weight.path] = np.asarray(weight)
    pairs = [(one, other) for one in kernels for other in kernels if one < other]
    alike = [(one, other) for one, other in pairs if kernels[one].shape == kernels[other].shape]
    assert len(alike) > 20
    for one, other in alike:
        assert abs(np.corrcoef(kernels[one].ravel(), kernels[other].ravel())[0, 1]) < 0.5
