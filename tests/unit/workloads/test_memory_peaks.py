"""What PyTorch was measured to take of a GPU beside the estimate, and what ran out of memory on a card of 40 GB."""

from __future__ import annotations

import csv
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.fit.memory import Peak, network, peak_ratios
from tests.conftest import ROOT
from tests.rows import each_row
from trainplan.pricing.compile import TEXT_DIR
from trainplan.pricing.device_text import read_devices
from trainplan.workloads.graph import Graph, Kind, Shape
from trainplan.workloads.graph_builder import GraphBuilder
from trainplan.workloads.memory import GIB, Footprint, footprint, is_tight
from trainplan.workloads.terms import Framework

RATIOS = peak_ratios()


def test_enough_was_measured() -> None:
    assert sum(map(len, RATIOS.values())) == 108
    assert len({net for net, _ in RATIOS}) == 11


@each_row("kind", RATIOS, ids="-".join)
def test_the_estimate_is_the_measured_peak(kind: tuple[str, str]) -> None:
    assert 0.94 <= statistics.median(RATIOS[kind]) <= 1.15


def test_hardly_a_peak_is_far_off() -> None:
    """Farthest: VGG16 with 512 images in fp32, for which cuDNN took a larger scratch space than for 256."""
    ratios = [ratio for kind in RATIOS.values() for ratio in kind]
    assert statistics.median(abs(ratio - 1) for ratio in ratios) < 0.02
    assert min(ratios) > 0.8
    assert max(ratios) < 1.2
    assert sum(0.9 <= ratio <= 1.15 for ratio in ratios) >= 0.98 * len(ratios)


def test_vgg16_with_512_images_is_borderline_on_40_gb() -> None:
    """58.65 GiB were taken of an H200, 37.5 with TF32, whose convolutions take next to no scratch space."""
    need = Peak("vgg16", 224, 512, "fp32", 58.65).footprint()
    usable_gib = _usable_of_40_gb_gib()
    assert need.least == pytest.approx(37.5 * GIB, rel=0.03)
    assert need.allocated > 46 * GIB
    assert is_tight(need.allocated, usable_gib)


RANDOM = ROOT / "tests" / "data" / "random_networks_40gb.csv"
"""Networks of random layers, a minute of Adam in fp32 on a GPU of 40 GB each (A100, PyTorch; every third of those that
are chains without pools in github.com/itu-rad/GPUMemNet, cnn_data_step1.csv of commit a79a76af, read 2026-11-28):
`used_mib` is the most that nvidia-smi showed; without `ran` it ended for want of memory."""


def _random_network(row: dict[str, str]) -> Graph:
    size, channels = int(row["image_size_px"]), int(row["channels"])
    net = GraphBuilder("random", Shape(size, size, channels))
    last = net.image
    for filters in map(int, row["filters"].split("-")):
        last = net.convolution(last, filters, 3)
        if row["batch_norm"] == "yes":
            last = net.add_operator(Kind.BATCH_NORM, last, bias=True)
        last = net.add_operator(Kind.ACTIVATION, last, function=row["activation"])
        if row["dropout"] == "yes":
            last = net.add_operator(Kind.DROPOUT, last, rate=0.3)
    last = net.add_operator(Kind.GLOBAL_AVERAGE_POOL, last)
    last = net.add_operator(Kind.DENSE, last, channels=int(row["classes"]), bias=True)
    net.add_operator(Kind.SOFTMAX, last)
    return net.graph()


def _usable_of_40_gb_gib() -> float:
    return read_devices(TEXT_DIR / "devices.toml")[0]["A100-40GB"].usable_memory(40).high_gib


def test_what_ran_on_40_gb_fits_and_what_ran_out_does_not() -> None:
    """In TF32, PyTorch's default for convolutions. What is told to fit and ran out is within the tight eighth, or its
    allocator's memory was in pieces."""
    usable_gib = _usable_of_40_gb_gib()
    with RANDOM.open(encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    refused, missed, borderline = [], [], 0
    for row in rows:
        need = footprint(_random_network(row), int(row["batch"]), "tf32", "adam")
        ran, fits = row["ran"] == "yes", need.least <= usable_gib * GIB
        tight = fits and is_tight(need.allocated, usable_gib)
        if ran and not fits:
            refused.append(row)
        if not ran and fits:
            borderline += tight
            missed.append(row)
    assert len(rows) > 450
    assert not refused
    assert len(missed) <= 0.04 * len(rows), (len(missed), borderline)
    assert len(missed) - borderline <= 0.03 * len(rows), (len(missed), borderline)


@given(
    preset=st.sampled_from(["vgg11", "resnet50", "mobilenet_v2", "efficientnet_b0", "densenet121", "convnext_tiny"]),
    size=st.sampled_from([64, 96, 160, 224]),
    batch=st.integers(1, 512),
    framework=st.sampled_from(list(Framework)),
    optimizer=st.sampled_from(["sgd", "adam"]),
)
@settings(max_examples=60)
def test_more_work_never_takes_less_memory(
    preset: str, size: int, batch: int, framework: Framework, optimizer: str
) -> None:
    """A wider precision takes no less of the activations; of the weights mixed precision keeps a copy beside."""

    def need(at_size: int, images: int, precision: str) -> Footprint:
        xla = framework is Framework.JAX
        graph = network(preset, at_size)
        return footprint(graph, images, precision, optimizer, framework=framework, xla=xla)

    for precision in ("fp32", "tf32", "amp_fp16", "amp_bf16"):
        one = need(size, batch, precision)
        for more in (need(size, batch + 1, precision), need(size + 32, batch, precision)):
            assert more.least > one.least
            assert more.allocated >= one.allocated
        assert one.allocated >= one.least
    fp32, tf32, half = (need(size, batch, precision) for precision in ("fp32", "tf32", "amp_fp16"))
    assert fp32.allocated >= tf32.allocated
    assert tf32.activations >= half.activations
