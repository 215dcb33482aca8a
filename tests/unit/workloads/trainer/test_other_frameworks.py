"""What TensorFlow's tests hold of a run holds on the other frameworks too, whose state lives outside the model.

One process trains on one framework, and to import one takes a processor seconds: so all tests here of a framework share
a process, which calls a function of this module for each.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.unit.workloads.trainer.builders import a_job, attempt, events, final_state, quick_jax, stopped_in_epoch_2
from tests.unit.workloads.trainer.own_networks import MOBILE, own_job
from tests.unit.workloads.trainer.test_accumulate import assert_alike, plain_job
from tests.unit.workloads.trainer.test_batch_norm import check_averages
from trainplan.workloads.job import Framework

pytestmark = pytest.mark.slow
CALLS = """
import importlib, json, os, sys, traceback
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # whatever training prints is no answer
for line in sys.stdin:
    module, function, arguments = json.loads(line)
    wrong = ""
    try:
        getattr(importlib.import_module(module), function)(*arguments)
    except BaseException:
        wrong = traceback.format_exc()
    print(json.dumps(wrong), file=answers, flush=True)
"""


class Elsewhere:
    """A process that trains on a framework."""

    def __init__(self, framework: str, folder: Path) -> None:
        self.framework = framework
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "KERAS_BACKEND": framework, **quick_jax(folder)}
        self._process = subprocess.Popen(
            [sys.executable, "-c", CALLS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
            env=environment,
        )  # fmt: skip

    def call(self, function: Callable[..., None], *arguments: object) -> None:
        """Calls a function of a module there. Raises AssertionError with the traceback where it raised anything."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = [function.__module__, function.__name__, [str(one) for one in arguments]]
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the process has ended with {self._process.wait()}"
        wrong = json.loads(answer)
        assert not wrong, wrong

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module", params=["jax", "torch"])
def elsewhere(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Elsewhere]:
    for needed in (request.param, "keras", "sklearn"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed")
    there = Elsewhere(request.param, tmp_path_factory.mktemp(request.param))
    yield there
    there.close()


@pytest.fixture
def on_jax(elsewhere: Elsewhere) -> Elsewhere:
    if elsewhere.framework != "jax":
        pytest.skip("of JAX alone")
    return elsewhere


def goes_on(job: Any, folder: Path) -> None:
    attempt(job, folder / "whole")
    stopped_in_epoch_2(job, folder / "cut")
    attempt(job, folder / "cut", 2)
    for gone_on, undisturbed in zip(final_state(folder / "cut"), final_state(folder / "whole"), strict=True):
        np.testing.assert_array_equal(gone_on, undisturbed)


def own_network(folder: str) -> None:
    goes_on(own_job(MOBILE, framework="jax", global_batch_size=512), Path(folder))


def test_a_network_of_ones_own_goes_on_bit_for_bit(on_jax: Elsewhere, tmp_path: Path) -> None:
    on_jax.call(own_network, tmp_path)


RECIPE: dict[str, Any] = {
    "model": {"layers": [4, "M"], "batch_norm": True, "dense": [], "dropout": 0.2},
    "optimizer": {
        "name": "sgd", "learning_rate": 0.05, "nesterov": True, "ema": 0.9,
        "schedule": {"name": "plateau", "warmup_epochs": 1, "patience": 1, "factor": 0.5},
    },
    "augment": {"resize": 10, "crop": 0.5, "flip": True, "brightness": 0.1, "mixup": 0.2, "label_smoothing": 0.1},
    "validation": {"every_epochs": 1, "keep_best": True, "min_change": 0.5},
}  # fmt: skip


def recipe(where: str) -> None:
    folder = Path(where)
    goes_on(a_job(framework="jax", global_batch_size=256, epochs=3, **RECIPE), folder)
    whole, cut = (events(folder / name, number, "end")[0] for name, number in (("whole", 1), ("cut", 2)))
    assert (whole["best_epoch"], whole["hold_out_accuracy"]) == (cut["best_epoch"], cut["hold_out_accuracy"])
    fine_tuning(folder)


def fine_tuning(folder: Path) -> None:
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


def test_a_run_with_all_of_a_recipe_goes_on_bit_for_bit(on_jax: Elsewhere, tmp_path: Path) -> None:
    on_jax.call(recipe, tmp_path)
    assert (tmp_path / "cut/output/manifest.json").is_file()


def parts(where: str, framework: str) -> None:
    import keras

    folder = Path(where)
    for name, accumulate in (("whole", 1), ("parts", 4)):
        attempt(plain_job(framework=framework, accumulate=accumulate), folder / name)
    one, other = (keras.models.load_model(folder / name / "output/model.keras") for name in ("parts", "whole"))
    assert_alike(one.get_weights(), other.get_weights())


def test_the_parts_of_a_batch_give_the_weights_of_the_whole(elsewhere: Elsewhere, tmp_path: Path) -> None:
    elsewhere.call(parts, tmp_path, elsewhere.framework)


def averages(framework: str) -> None:
    check_averages(Framework(framework))


def test_the_averages_of_batch_norm_are_those_of_the_images(elsewhere: Elsewhere) -> None:
    elsewhere.call(averages, elsewhere.framework)
