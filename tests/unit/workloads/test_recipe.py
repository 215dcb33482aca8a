"""Recipes as values: what may be written together, and that a job without one stays what it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from tests.builders import a_job
from trainplan.planner.forecast.feeding import feed_images_per_second
from trainplan.workloads.job import job_from_json
from trainplan.workloads.memory import footprint
from trainplan.workloads.runtimes import runtime_of

MNIST = {"preset": "mnist-cnn"}
OPTIMIZERS: list[dict[str, Any]] = [
    {"nesterov": True},
    {"name": "adamw"},
    {"clip_norm": 1.0},
    {"ema": 0.999},
    {"schedule": {"name": "cosine"}},
    {"schedule": {"name": "cosine", "final_share": 0.1}},
    {"schedule": {"name": "step", "at_epochs": [1]}},
    {"schedule": {"warmup_epochs": 0.5}},
]


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        ({"nesterov": True, "momentum": 0}, "nesterov needs the optimizer sgd with a momentum above 0"),
        ({"name": "adam", "nesterov": True}, "nesterov needs the optimizer sgd"),
        ({"ema": 1}, "less than 1"),
        ({"clip_norm": 0}, "greater than 0"),
        ({"schedule": {"name": "step"}}, r"needs at_epochs: .* such as \[30, 60\]"),
        ({"schedule": {"name": "step", "at_epochs": [60, 30]}}, "at_epochs must rise"),
        (
            {"schedule": {"name": "cosine", "factor": 0.5}},
            "key of the schedule step or plateau, not of cosine",
        ),
        ({"schedule": {"final_share": 0.5}}, "final_share is a key of the schedule cosine, not of constant"),
        ({"schedule": {"warmup_epochs": True}}, "needs a number, not true"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused(optimizer: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        a_job(optimizer=optimizer)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"validation": {"patience": 3}}, "validation needs every_epochs"),
        ({"validation": {"keep_best": True}}, "validation needs every_epochs"),
        ({"validation": {"every_epochs": 0}}, "greater than or equal to 1"),
        ({"optimizer": {"schedule": {"name": "plateau"}}}, r"needs validation\.every_epochs"),
        ({"optimizer": {"schedule": {"name": "step", "at_epochs": [1], "patience": 2}}}, "key of the schedule plateau"),
    ],
)
def test_a_validation_that_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        a_job(**changes)


def test_a_validation_changes_the_digest_and_survives_json() -> None:
    specs: list[dict[str, Any]] = [{}, {"every_epochs": 1}, {"every_epochs": 1, "patience": 2}]
    jobs = [a_job(validation=spec) for spec in specs]
    assert len({job.digest() for job in jobs}) == 3
    assert jobs[0].digest() == a_job().digest()
    assert "validation" not in json.loads(jobs[0].to_json())
    assert [job_from_json(job.to_json()) for job in jobs] == jobs


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"augment": {"resize": 16}}, r"augment\.resize must be at least the net's 32 px"),
        ({"augment": {"crop": 0}}, "greater than 0"),
        ({"augment": {"brightness": 1.5}}, "less than or equal to 1"),
        ({"augment": {"saturation": 0.1}, "data": {"name": "mnist"}, "model": MNIST}, "for colour images"),
    ],
)
def test_an_augmentation_that_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        a_job(**changes)


def test_an_augmentation_is_counted_where_files_are_decoded() -> None:
    """Files are resized on the host, so that a larger size takes more of it; all else happens on the device."""
    values: dict[str, Any] = {"data": {"path": "x", "images": 10**6}, "model": {"preset": "vgg16", "image_size": 224}}
    values["model"]["classes"] = 10
    plain, larger, flipped = (a_job(**values, augment=spec) for spec in ({}, {"resize": 256}, {"flip": True}))
    rates = [feed_images_per_second(job, 8, 1) for job in (plain, larger, flipped)]
    seconds = [1 / rate.images_per_second for rate in rates if rate is not None]
    assert seconds[1] - seconds[0] == pytest.approx(29e-9 * (256**2 - 224**2) / 4)
    assert seconds[2] == seconds[0]
    assert len({plain.digest(), larger.digest(), flipped.digest()}) == 3
    assert a_job(**values).digest() == plain.digest()


def test_an_average_of_parts_is_refused() -> None:
    with pytest.raises(ValidationError, match="leave out ema or accumulate"):
        a_job(optimizer={"ema": 0.9}, accumulate=2)


def test_each_recipe_has_a_digest_of_its_own_and_survives_json() -> None:
    jobs = [a_job(), *(a_job(optimizer=optimizer) for optimizer in OPTIMIZERS)]
    assert len({job.digest() for job in jobs}) == len(jobs)
    assert [job_from_json(job.to_json()) for job in jobs] == jobs


def test_a_key_that_is_written_with_its_default_changes_nothing() -> None:
    plain = {"nesterov": False, "clip_norm": None, "ema": None, "schedule": {"name": "constant", "warmup_epochs": 0}}
    assert a_job(optimizer=plain).digest() == a_job().digest()
    assert json.loads(a_job(optimizer=plain).to_json()) == json.loads(a_job().to_json())


def test_the_json_of_a_job_without_a_recipe_has_no_key_of_one() -> None:
    """The trainer of an earlier version reads it."""
    optimizer = json.loads(a_job().to_json())["optimizer"]
    assert optimizer == {"name": "sgd", "learning_rate": 0.01, "momentum": 0.9, "weight_decay": 0.0}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_recipe_is_not_trained_with_keras_2(optimizer: dict[str, Any]) -> None:
    """A K80 has TensorFlow 2.14, whose Keras is 2."""
    assert runtime_of(a_job(), "kepler", "x86_64")
    assert runtime_of(a_job(optimizer=optimizer), "kepler", "x86_64") is None
    assert runtime_of(a_job(optimizer=optimizer), "turing", "x86_64")


def test_an_average_of_the_weights_takes_memory() -> None:
    net = a_job().net()
    weights = footprint(net, 1, "fp32", "sgd").weights
    for name in ("sgd", "adam", "adamw", "rmsprop"):
        plain, averaged = (a_job(optimizer={"name": name} | more).optimizer.state for more in ({}, {"ema": 0.9}))
        grown = footprint(net, 1, "fp32", averaged).total - footprint(net, 1, "fp32", plain).total
        assert grown == weights
    assert footprint(net, 1, "fp32", "adamw") == footprint(net, 1, "fp32", "adam")
    of_both = [footprint(net, 9, "fp32", name, xla=True).activations for name in ("adamw+ema", "adam")]
    assert of_both[0] == of_both[1]
