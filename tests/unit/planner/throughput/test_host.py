"""A step on a host's own processors, held against what was measured."""

from __future__ import annotations

import math
from typing import Any

import pytest

from scripts.fit.processors import processor_errors, unseen_factor
from trainplan.planner.throughput.host import UNSEEN_PROCESSOR_FACTOR, UNSEEN_PROCESSORS, host_step_seconds, on_host
from trainplan.planner.throughput.values import Basis
from trainplan.workloads.job import TrainingJob
from trainplan.workloads.layers import Net

DIGITS: dict[str, Any] = {"layers": [32, 32, "M", 64, 64, "M"], "image_size": 16, "dense": [128], "batch_norm": True}
SMALL: dict[str, Any] = {"layers": [16, "M", 32, "M"], "image_size": 28, "dense": [64]}
WIDE: dict[str, Any] = {"layers": [64, 64, "M", 128, 128, "M"], "image_size": 32, "dense": [256]}


def a_net(model: dict[str, Any], channels: int = 3) -> Net:
    data = {"name": "synthetic", "images": 1000, "channels": channels}
    values = {"name": "n", "model": {"classes": 10} | model, "data": data, "epochs": 1, "global_batch_size": 1}
    return TrainingJob.model_validate(values).net()


@pytest.mark.parametrize(
    ("model", "channels", "batch", "milliseconds"),
    [
        (DIGITS, 1, 8, 7.0),
        (DIGITS, 1, 32, 13.8),
        (DIGITS, 1, 128, 35.0),
        (DIGITS | {"batch_norm": False}, 1, 32, 11.1),
        (SMALL, 1, 32, 5.1),
        (SMALL, 1, 128, 11.3),
        (WIDE, 3, 64, 196.6),
        (WIDE | {"batch_norm": True}, 3, 64, 243.7),
        ({"preset": "mnist-cnn", "image_size": 28}, 1, 32, 15.4),
        ({"preset": "vgg11", "image_size": 32, "dense": [512]}, 3, 32, 210.6),
        ({"preset": "vgg11", "image_size": 32, "dense": [512], "batch_norm": True}, 3, 128, 647.5),
        ({"preset": "vgg16", "image_size": 32, "dense": [512], "batch_norm": True}, 3, 64, 685.2),
    ],
)
def test_what_was_measured_on_two_cores_is_met_within_a_fifth(
    model: dict[str, Any], channels: int, batch: int, milliseconds: float
) -> None:
    """Medians of the trainer's own steps, tensorflow 2.21 on 2 cores of an AMD EPYC (Zen 4), 2026-11-21."""
    assert host_step_seconds(a_net(model, channels), batch, 2) * 1e3 == pytest.approx(milliseconds, rel=0.2)


def test_more_cores_are_faster_but_not_by_as_much() -> None:
    net = a_net(WIDE)
    two, four, eight = (host_step_seconds(net, 64, cores) for cores in (2, 4, 8))
    assert two / 2 < four < two
    assert four / 2 < eight < four


def test_a_rented_host_has_two_threads_a_core_and_is_less_sure() -> None:
    net = a_net(WIDE)
    here, rented = on_host(net, 64, 4, rented=False), on_host(net, 64, 8, rented=True)
    assert here.images_per_second == rented.images_per_second
    assert (here.basis, rented.basis) == (Basis.MODELLED, Basis.MODELLED)
    assert rented.high / rented.low > here.high / here.low > 1


def test_a_processor_that_was_never_seen_is_as_unsure_as_the_errors_over_processors() -> None:
    """Computed anew from planner/throughput/data/processors.csv."""
    errors = processor_errors()
    assert (unseen_factor(), len(errors)) == (UNSEEN_PROCESSOR_FACTOR, UNSEEN_PROCESSORS)
    assert max(abs(error.off) for error in errors) <= math.log(UNSEEN_PROCESSOR_FACTOR)
