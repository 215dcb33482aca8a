"""What a host can feed: JPEG files against arrays, more cores, caching, and when feeding holds the training up."""

from __future__ import annotations

import csv
from datetime import timedelta
from typing import Any

import pytest

from tests.conftest import ROOT
from trainplan.planner.forecast.feeding import (
    ARRAY_SECONDS,
    JPEG_SECONDS,
    JPEG_SECONDS_PER_PIXEL,
    JPEG_SECONDS_PER_STORED_PIXEL,
    LINK_BYTES_PER_SECOND,
    Feed,
    feed_images_per_second,
    pace,
)
from trainplan.workloads.job import TrainingJob


def a_job(data: dict[str, Any], *, image_size: int = 224, epochs: int = 2) -> TrainingJob:
    model = {"preset": "vgg11", "image_size": image_size, "classes": 10}
    text = {"name": "j", "model": model, "data": data, "epochs": epochs, "global_batch_size": 32}
    return TrainingJob.model_validate(text | {"checkpoint_every": timedelta(minutes=10)})


IMAGENET = a_job({"name": "imagenet"})
SYNTHETIC = a_job({"name": "synthetic"})
FOLDER = a_job({"path": "./images", "images": 10_000}, epochs=10)


def fed(job: TrainingJob, vcpus: float, devices: int = 1, **rest: Any) -> Feed:
    found = feed_images_per_second(job, vcpus, devices, **rest)
    assert found is not None
    return found


@pytest.mark.parametrize("vcpus", [None, 0])
def test_nothing_is_said_of_a_host_whose_vcpus_are_not_known(vcpus: float | None) -> None:
    assert feed_images_per_second(IMAGENET, vcpus, 1) is None


# Stored width and height, size decoded to, images a second of one core: the benchmark's nine cases.
MEASURED = [
    (500, 375, 32, 619), (500, 375, 128, 458), (500, 375, 224, 330),
    (256, 256, 32, 1132), (256, 256, 128, 764), (256, 256, 224, 436),
    (1000, 750, 32, 161), (1000, 750, 128, 143), (1000, 750, 224, 126),
]  # fmt: skip


@pytest.mark.parametrize(("width", "height", "size", "measured"), MEASURED)
def test_the_decoding_figures_meet_what_was_measured(width: int, height: int, size: int, measured: float) -> None:
    seconds = JPEG_SECONDS + JPEG_SECONDS_PER_STORED_PIXEL * width * height + JPEG_SECONDS_PER_PIXEL * size**2
    assert 1 / seconds == pytest.approx(measured, rel=0.10)


def test_jpeg_files_are_held_up_by_decoding_and_more_vcpus_help() -> None:
    four, eight = fed(IMAGENET, 4), fed(IMAGENET, 8)
    assert eight.images_per_second == pytest.approx(2 * four.images_per_second)
    assert 600 < four.images_per_second < 800


def test_smaller_images_are_decoded_faster() -> None:
    small = a_job({"name": "imagenet"}, image_size=64)
    assert fed(small, 4).images_per_second > 1.5 * fed(IMAGENET, 4).images_per_second


@pytest.mark.parametrize("name", ["digits", "mnist", "fashion_mnist", "cifar10", "cifar100", "synthetic"])
def test_arrays_are_never_decoded(name: str) -> None:
    job = a_job({"name": name}, image_size=32)
    assert fed(job, 2).images_per_second > 0.9 * 2 * 0.5 / (ARRAY_SECONDS + 1e-6)


def test_a_folder_is_decoded_like_imagenet() -> None:
    assert fed(FOLDER, 8).images_per_second == pytest.approx(fed(IMAGENET, 8).images_per_second)


def test_files_that_fit_the_memory_are_decoded_once() -> None:
    """10,000 images of 224 px are 1.5 GB: a quarter of 8 GiB holds them, a quarter of 4 GiB does not."""
    assert fed(FOLDER, 8, memory_gib=4.0) == fed(FOLDER, 8)
    assert fed(FOLDER, 8, memory_gib=8.0).images_per_second == pytest.approx(10 * fed(FOLDER, 8).images_per_second, 0.1)
    once = a_job({"path": "./images", "images": 10_000}, epochs=1)
    assert fed(once, 8, memory_gib=64.0) == fed(once, 8)


def test_the_link_bounds_a_host_with_many_vcpus() -> None:
    one, eight = fed(SYNTHETIC, 500, 1), fed(SYNTHETIC, 500, 8)
    assert one.images_per_second == pytest.approx(LINK_BYTES_PER_SECOND.expected / (224 * 224 * 3))
    assert eight.images_per_second > one.images_per_second


@pytest.mark.parametrize(("job", "vcpus"), [(IMAGENET, 4), (IMAGENET, 500), (SYNTHETIC, 500), (SYNTHETIC, 2)])
def test_whatever_bounds_the_feed_has_a_width(job: TrainingJob, vcpus: float) -> None:
    """A vCPU's share of a core, the lock of one process, the link, and copying."""
    feed = fed(job, vcpus)
    assert 1.2 <= feed.images_per_second / feed.low <= 1.5 + 1e-9
    assert 1.2 <= feed.high / feed.images_per_second <= 1.5 + 1e-9


def test_images_travel_as_stored_and_are_resized_on_the_device() -> None:
    cifar = a_job({"name": "cifar10"}, image_size=224)
    assert fed(cifar, 500).images_per_second > 2 * fed(SYNTHETIC, 500).images_per_second


@pytest.mark.parametrize(
    ("computed", "on_cpu", "rate", "bound"),
    [
        (50.0, False, 50.0, False),
        (200.0, False, 100.0, True),
        (50.0, True, 100 / 3, False),
        (200.0, True, 200 / 3, True),
    ],
)
def test_the_slower_one_sets_the_pace(computed: float, on_cpu: bool, rate: float, bound: bool) -> None:
    feed = Feed(images_per_second=100.0, low=80.0, high=130.0, evidence="")
    found = pace(computed, feed, on_cpu=on_cpu)
    assert (found.images_per_second, found.input_bound) == (pytest.approx(rate), bound)


def test_what_is_not_known_holds_nothing_up() -> None:
    found = pace(123.0, None)
    assert (found.images_per_second, found.input_bound) == (123.0, False)


def test_no_machine_that_was_fed_real_images_is_said_to_be_slower() -> None:
    """The EC2 machine with 8 K80 (p2.8xlarge, 32 vCPU) and the DGX-1 (80), on ImageNet; the fastest rows seen."""
    vcpus = {"K80": 32, "P10": 80}
    checked = 0
    with (ROOT / "planner/throughput/data/measurements.csv").open(encoding="utf-8", newline="") as text:
        for row in csv.DictReader(text):
            documented = row["id"].startswith("tfdoc") and row["data"] == "real" and row["mode"] == "train"
            if documented and row["device_count"] == "8" and row["device"][:3] in vcpus:
                feed = fed(IMAGENET, vcpus[row["device"][:3]], 8)
                assert feed.images_per_second >= float(row["images_per_second"]), row["id"]
                checked += 1
    assert checked >= 10
