"""Networks by name are trained as their graphs say: each weight is there, and none besides."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.unit.workloads.trainer.builders import a_job, attempt, final_state, stopped_in_epoch_2
from trainplan.workloads.networks.presets import NETWORKS, preset_graph
from trainplan.workloads.terms import Preset
from trainplan.workloads.trainer.model import build

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.train, pytest.mark.keras_3, pytest.mark.filterwarnings("default")]


@pytest.mark.parametrize("preset", NETWORKS)
def test_a_network_has_the_weights_of_its_graph(preset: Preset, tensorflow: Any) -> None:
    import keras

    network = NETWORKS[preset]
    graph = preset_graph(preset, network.image_size, network.channels, network.classes)
    # The weights themselves take gigabytes; their shapes are there without them.
    with keras.StatelessScope(initialize_variables=False):
        model = build(keras, graph, network.image_size, 0).serving
    assert sum(int(np.prod(weight.shape)) for weight in model.trainable_weights) == graph.parameters
    assert model.count_params() == graph.parameters + graph.statistics
    assert tuple(model.outputs[0].shape) == (None, network.classes)


def test_a_preset_trains_and_is_kept(tmp_path: Path, tensorflow: Any) -> None:
    job = a_job(model={"preset": "lenet", "image_size": 32})
    attempt(job, tmp_path / "whole")
    stopped_in_epoch_2(job, tmp_path / "parts")
    attempt(job, tmp_path / "parts", 2)
    for one, other in zip(final_state(tmp_path / "whole"), final_state(tmp_path / "parts"), strict=True):
        np.testing.assert_array_equal(one, other)
    metrics = json.loads((tmp_path / "whole/output/metrics.json").read_text())
    assert metrics["parameters"] == job.graph().parameters
    assert metrics["hold_out_accuracy"] > 0.5
    kept = tensorflow.keras.models.load_model(tmp_path / "whole/output/model.keras", compile=False)
    assert kept.count_params() == job.graph().parameters + job.graph().statistics
