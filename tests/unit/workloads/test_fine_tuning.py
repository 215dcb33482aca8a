"""A job that begins with weights of another run: its keys, its net, what it asks of a device, and how long it takes."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.builders import a_job, a_plan, small_catalog
from trainplan.planner.cli.screen import PLAIN, render
from trainplan.planner.datasets.transfer import providers_of
from trainplan.planner.forecast.estimate import DOWNLOAD_BYTES_PER_SECOND, evaluation_speedup, fetch_seconds
from trainplan.planner.planning.this_machine import shape_of
from trainplan.planner.report.estimate_page import estimate_page
from trainplan.planner.runs.proposal.consent import foreign_parts
from trainplan.planner.throughput.host import host_step_seconds
from trainplan.planner.throughput.nets import model_key
from trainplan.pricing.catalog import Catalog
from trainplan.providers.errors import BadRequestError
from trainplan.workloads.job import job_from_json, uses_recipe
from trainplan.workloads.jobfile import JobFileError, read_job
from trainplan.workloads.layers import MaxPool, figures, parameters, trained_parameters
from trainplan.workloads.memory import footprint, largest_batch
from trainplan.workloads.pretrained import PUBLISHED_WEIGHTS, weights_address, weights_file, weights_lines

IMAGES = {"path": "/images", "images": 1000}


def fine_tuned(**model: Any) -> Any:
    values = {"preset": "vgg16", "image_size": 224, "classes": 5, "weights": "imagenet", **model}
    return a_job(model=values, data=IMAGES, global_batch_size=32)


def test_a_job_without_weights_keeps_its_digest_and_its_text() -> None:
    job = a_job()
    assert not {"weights", "freeze", "base_rate_share"} & set(re.findall(r"\w+", job.to_json()))
    assert not uses_recipe(job)
    assert uses_recipe(fine_tuned())


def test_a_job_with_weights_comes_back_from_its_text() -> None:
    job = fine_tuned(freeze="block4")
    assert job_from_json(job.to_json()) == job
    assert json.loads(job.to_json())["model"]["freeze"] == "block4"
    assert len({job.digest(), fine_tuned().digest(), fine_tuned(freeze="block3").digest()}) == 3


@pytest.mark.parametrize(("freeze", "pools"), [("block1", 1), ("block4", 4), ("block5", 5)])
def test_layers_are_frozen_up_to_and_with_the_block(freeze: str, pools: int) -> None:
    net = fine_tuned(freeze=freeze).net()
    assert sum(isinstance(layer, MaxPool) for layer in net.layers[: net.frozen]) == pools
    assert isinstance(net.layers[net.frozen - 1], MaxPool)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"weights": None, "freeze": "block1"}, "freeze needs weights"),
        ({"freeze": "block6"}, "the net has 5 blocks"),
        ({"preset": "vgg11"}, "published for the presets vgg16 and vgg19"),
        ({"batch_norm": True}, "without batch norm"),
        ({"preset": "mnist-cnn", "image_size": 28, "weights": "a.keras"}, "weights is for VGG nets"),
    ],
)
def test_what_does_not_go_together_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        fine_tuned(**changes)


def test_weights_of_colour_images_are_not_for_grey_ones() -> None:
    with pytest.raises(ValidationError, match="colour images"):
        a_job(
            model={"preset": "vgg16", "weights": "imagenet", "classes": 5, "image_size": 64},
            data=IMAGES | {"channels": 1},
        )


def test_a_rate_of_the_base_needs_a_base_and_a_framework_that_has_one() -> None:
    with pytest.raises(ValidationError, match=r"needs model\.weights"):
        a_job(optimizer={"base_rate_share": 0.1})
    values: dict[str, Any] = {
        "model": {"preset": "vgg16", "weights": "imagenet"},
        "optimizer": {"base_rate_share": 0.1},
    }
    assert a_job(**values, framework="jax").optimizer.base_rate_share == 0.1
    with pytest.raises(ValidationError, match="on torch"):
        a_job(**values, framework="torch")


def test_a_relative_path_of_weights_is_taken_from_the_job_files_folder(tmp_path: Path) -> None:
    model = "{preset: vgg16, weights: before.keras, classes: 5}"
    text = f"name: a\nmodel: {model}\ndata: {{name: cifar10}}\nepochs: 1\nglobal_batch_size: 8\n"
    (tmp_path / "job.yaml").write_text(text)
    with pytest.raises(JobFileError, match=r"model\.weights: there is no file"):
        read_job(tmp_path / "job.yaml")
    (tmp_path / "before.keras").write_bytes(b"x")
    assert read_job(tmp_path / "job.yaml").model.weights == str(tmp_path / "before.keras")


@pytest.mark.parametrize("address", ["s3://bucket/run/model.keras", "https://example.org/model.keras"])
def test_weights_at_an_address_are_no_file_of_this_computer(tmp_path: Path, address: str) -> None:
    text = f"model: {{preset: vgg16, image_size: 32, classes: 5, weights: '{address}'}}\n"
    (tmp_path / "job.yaml").write_text(f"name: t\n{text}data: {{name: cifar10}}\nepochs: 1\nglobal_batch_size: 32\n")
    job = read_job(tmp_path / "job.yaml")
    assert (job.model.weights, weights_address(job), weights_file(job)) == (address, address, None)
    assert f"begins with weights of {address} (a rented machine fetches them)" in weights_lines(job)
    assert foreign_parts(job) == [f"weights: {address}, named by the job"]
    assert providers_of(job) == (("aws",) if address.startswith("s3:") else ())
    # VGG16 of five classes at 32 px: 4 bytes of each weight, at what an estimate assumes of a download.
    without = job.model_copy(update={"model": job.model.model_copy(update={"weights": None})})
    more = fetch_seconds(job) - fetch_seconds(without)
    assert more == pytest.approx(4 * (parameters(job.net())) / DOWNLOAD_BYTES_PER_SECOND, rel=0.01)


def test_data_and_weights_of_two_clouds_have_no_machine() -> None:
    job = a_job(
        model={"preset": "vgg16", "image_size": 32, "classes": 5, "weights": "gs://b/model.keras"},
        data={"url": "s3://b/data", "images": 100},
    )
    with pytest.raises(BadRequestError, match="data, weights and secrets are at aws and gcp"):
        providers_of(job)


def test_frozen_layers_ask_for_weights_alone_of_the_memory() -> None:
    whole, frozen = (fine_tuned(freeze=freeze).net() for freeze in (None, "block5"))
    need, less = (footprint(net, 32, "fp32", "adam") for net in (whole, frozen))
    assert less.weights == need.weights
    trained = parameters(whole) - sum(row.parameters for row in figures(whole) if row.kind == "conv")
    assert trained_parameters(frozen) == trained
    assert (less.gradients, less.optimizer) == (4 * trained, 2 * 4 * trained)
    assert less.activations < need.activations / 2
    assert largest_batch(frozen, 10.0, "fp32", "adam") > 2 * largest_batch(whole, 10.0, "fp32", "adam")


def test_the_more_is_frozen_the_less_a_step_takes() -> None:
    nets = [fine_tuned(freeze=freeze).net() for freeze in (None, "block1", "block3", "block5")]
    seconds = [host_step_seconds(net, 32, 4) for net in nets]
    assert seconds == sorted(seconds, reverse=True)
    # Forward is a third of the arithmetic of a step; a frozen net does not go below it.
    assert 0.3 < seconds[-1] / seconds[0] < 0.5


@pytest.mark.train
def test_the_published_files_are_those_of_the_installed_keras() -> None:
    keras = pytest.importorskip("keras")
    for preset, published in PUBLISHED_WEIGHTS.items():
        module = getattr(keras.src.applications, preset.value)
        assert published.origin == module.WEIGHTS_PATH_NO_TOP
        assert f'file_hash="{published.md5}"' in inspect.getsource(module)
        net = a_job(model={"preset": preset.value, "image_size": 224}).net()
        assert sum(row.parameters for row in figures(net) if row.kind == "conv") == published.weights


def test_the_heading_says_what_the_run_begins_with(tmp_path: Path) -> None:
    with Catalog.open(small_catalog(tmp_path)) as catalog:
        head = render(estimate_page(a_plan(catalog, fine_tuned(freeze="block4"))), PLAIN).splitlines()[:2]
    assert "138.4 M parameters" not in head[0]
    assert "M of them trained" in head[0]
    assert head[1].startswith("begins with weights of ImageNet, about 59 MB from https://")
    assert head[1].endswith("frozen up to and with block4")


def test_an_evaluation_costs_more_of_a_step_that_goes_back_less() -> None:
    whole, frozen = (evaluation_speedup(fine_tuned(freeze=freeze).graph()) for freeze in (None, "block5"))
    assert whole == 3
    assert 1 < frozen < 1.2


def test_a_net_with_frozen_layers_is_no_net_that_was_measured() -> None:
    whole, frozen = fine_tuned(), fine_tuned(freeze="block4")
    assert model_key(whole.net()) == "vgg16" != model_key(frozen.net())
    assert shape_of(whole) != shape_of(frozen)
