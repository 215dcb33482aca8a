"""The orders that hold between estimates, whatever was measured (scripts/fit/sanity.py says which)."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.fit import sanity
from scripts.fit.process import TERMS
from scripts.fit.rows import DEVICES
from trainplan.planner.throughput.model import Correction, Group, load_model
from trainplan.planner.throughput.nets import net_of
from trainplan.planner.throughput.operators import load_operators
from trainplan.planner.throughput.predict import Predictor
from trainplan.planner.throughput.table import SHIPPED_TABLE, open_table
from trainplan.planner.throughput.values import NO_TF32, PRECISION_NOTES, TPU_MULTIPLIES_BF16, Question, Throughput
from trainplan.pricing.device_text import read_devices
from trainplan.workloads.networks.presets import preset_graph
from trainplan.workloads.terms import Preset

_DEVICES = read_devices(DEVICES)[0]
_NETS = sanity.nets()


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """Any question whose step fits: the batch is halved until it does."""
    asked = Question(
        net=draw(st.sampled_from(_NETS)),
        device=draw(st.sampled_from(sanity.known_devices(_DEVICES))),
        device_count=draw(st.sampled_from(sanity.COUNTS)),
        interconnect=draw(st.sampled_from(sanity.INTERCONNECTS)),
        vcpus=None,
        batch_per_device=draw(st.integers(*sanity.BATCHES)),
        precision=draw(st.sampled_from(sanity.PRECISIONS)),
        xla=draw(st.booleans()),
        framework=draw(st.sampled_from(sanity.FRAMEWORKS)),
    )
    while sanity.memory_share(asked, _DEVICES[asked.device]) > 1:
        asked = replace(asked, batch_per_device=asked.batch_per_device // 2)
    return asked


@pytest.fixture(scope="module")
def shipped() -> Predictor:
    return Predictor.open(_DEVICES)


@settings(max_examples=60)
@given(asked=questions())
def test_every_order_holds_between_an_estimate_and_its_neighbours(shipped: Predictor, asked: Question) -> None:
    assert list(sanity.broken_orders(shipped, _DEVICES, asked)) == []


@settings(max_examples=40)
@given(asked=questions(), seed=st.integers(0, 3))
def test_the_orders_follow_from_the_form_whatever_the_measurements_say(asked: Question, seed: int) -> None:
    """Corrections drawn at random, each a factor of up to 2.7 either way: no fit could help to hold an order."""
    assert list(sanity.broken_orders(_with_any_corrections(seed), _DEVICES, asked)) == []


@pytest.mark.parametrize("name", ["vgg11", "vgg16", "vgg19"])
@pytest.mark.parametrize("device", ["A100-80GB", "H100"])
@pytest.mark.parametrize("precision", sanity.PRECISIONS)
def test_a_batch_that_nobody_measured_is_not_half_as_fast(
    shipped: Predictor, name: str, device: str, precision: str
) -> None:
    """In fp32 without XLA, VGG16 on an A100 fell from 302 images/s at a batch of 128 to 151 at 512."""
    net = net_of(name, 224)
    assert net is not None
    asked = Question(
        net=net, device=device, device_count=1, interconnect=None, vcpus=None, batch_per_device=128,
        precision=precision, xla=False, framework="tensorflow",
    )  # fmt: skip
    rates = [
        found.images_per_second
        for batch in (128, 256, 512)
        for found in [shipped.predict(replace(asked, batch_per_device=batch))]
        if isinstance(found, Throughput)
    ]
    assert all(0.95 < later / earlier < 1.12 for earlier, later in pairwise(rates)), rates
    assert len(rates) == 3


@pytest.mark.parametrize("preset", [Preset.MOBILENET_V2, Preset.EFFICIENTNET_B3])
def test_eight_devices_are_at_most_eight_times_as_fast_as_one(shipped: Predictor, preset: Preset) -> None:
    """Eight K80 were 8.27 times as fast as one with the same batch each."""
    asked = Question(
        net=preset_graph(preset, 224, 3, 1_000), device="K80", device_count=8, interconnect="PCIe", vcpus=None,
        batch_per_device=64, precision="fp32", xla=False, framework="tensorflow",
    )  # fmt: skip
    eight, one = shipped.predict(asked), shipped.predict(replace(asked, device_count=1))
    assert isinstance(eight, Throughput)
    assert isinstance(one, Throughput)
    assert eight.images_per_second <= 8.000001 * one.images_per_second


def test_devices_that_add_nothing_have_the_reason(shipped: Predictor) -> None:
    """Eight RTX 5090 were at exactly the speed of one, without a word."""
    two = _asked("vgg16", "RTX-PRO-6000", 32, 2)
    one = _rate(shipped, replace(two, device_count=1))
    found = shipped.predict(two)
    assert isinstance(found, Throughput)
    assert found.images_per_second <= one * (1 + 1e-9)
    assert "summing the gradients over PCIe takes longer than" in found.note


def test_cards_that_exchange_through_the_host_gain_what_nccl_does_today(shipped: Predictor) -> None:
    """Eight RTX 5090 of a server of PCIe 5 sum gradients at 28 GB/s (NVIDIA/nccl issue 1639): 6 ms for ResNet-50."""
    eight = _rate(shipped, _asked("resnet50", "RTX 5090", 64, 8))
    assert 4.5 < eight / _rate(shipped, _asked("resnet50", "RTX 5090", 64, 1)) < 8
    # The slot of a card decides: half the rate costs more.
    slower = _rate(shipped, _asked("resnet50", "RTX 4090", 64, 8)) / _rate(
        shipped, _asked("resnet50", "RTX 4090", 64, 1)
    )
    assert slower < 8


@pytest.mark.parametrize("name", ["resnet50", "vgg16", "efficientnet_b0", "convnext_tiny", "mobilenet_v2"])
def test_an_rtx_5090_is_about_as_much_faster_as_published(shipped: Predictor, name: str) -> None:
    """44 % faster than an RTX 4090 in training by timm, PyTorch 2.6 (nikolasent.github.io, 2025-02-17)."""
    ratio = _rate(shipped, _asked(name, "RTX 5090", 128, 1)) / _rate(shipped, _asked(name, "RTX 4090", 128, 1))
    assert ratio == pytest.approx(1.44, abs=0.15)


@pytest.mark.parametrize(
    ("device", "precision", "note"),
    [
        ("T4", "tf32", NO_TF32),
        ("V100", "tf32", NO_TF32),
        ("K80", "tf32", ""),
        ("A10G", "tf32", ""),
        ("TPU v5e", "amp_fp16", TPU_MULTIPLIES_BF16),
        ("TPU v5e", "amp_bf16", ""),
    ],
)
def test_a_precision_that_a_device_has_not_is_noted(shipped: Predictor, device: str, precision: str, note: str) -> None:
    found = shipped.predict(replace(_asked("resnet50", device, 64, 1), precision=precision))
    assert isinstance(found, Throughput)
    assert [one for one in PRECISION_NOTES if one in found.note] == ([note] if note else [])


def _asked(name: str, device: str, batch: int, count: int) -> Question:
    return Question(
        net=net_of(name, 224) or preset_graph(Preset(name), 224, 3, 1_000), device=device, device_count=count,
        interconnect="PCIe", vcpus=None, batch_per_device=batch, precision="amp_fp16", xla=False, framework="torch",
    )  # fmt: skip


def _rate(predictor: Predictor, asked: Question) -> float:
    found = predictor.predict(asked)
    assert isinstance(found, Throughput)
    return found.images_per_second


@lru_cache
def _with_any_corrections(seed: int) -> Predictor:
    chance = random.Random(seed)

    def any_value(group: Group, kind: str) -> float:
        return chance.uniform(-1, 1) if (group[0], kind) in TERMS else 0.0

    shipped = load_model()
    corrections = {
        group: Correction(
            constant=any_value(group, "constant"),
            pressure=any_value(group, "pressure"),
            waiting=any_value(group, "waiting"),
            doubling=any_value(group, "doubling"),
            nodes=tuple(any_value(group, "nodes") for _ in found.nodes),
        )
        for group, found in shipped.corrections.items()
    }
    return Predictor(
        open_table(SHIPPED_TABLE), (replace(shipped, corrections=corrections), load_operators()), _DEVICES, ()
    )
