"""One batch over 1 to 64 devices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.fit import sanity
from trainplan.planner.throughput.predict import Predictor
from trainplan.planner.throughput.values import Question, Throughput
from trainplan.pricing.devices import DeviceTable

LINKS = [("T4", "PCIe"), ("V100", "NVLink"), ("A100-40GB", "NVSwitch"), ("RTX 4090", "PCIe"), ("TPU v5e", "ICI")]


@pytest.fixture(scope="module")
def shipped(devices: DeviceTable) -> Iterator[Predictor]:
    predictor = Predictor.open(devices)
    yield predictor
    predictor.close()


@st.composite
def shared_batches(draw: st.DrawFn) -> list[Question]:
    """A batch over each power of two, on a known link."""
    device, interconnect = draw(st.sampled_from(LINKS))
    batch = draw(st.sampled_from([64, 256, 1024, 2048]))
    asked = Question(
        net=draw(st.sampled_from(sanity.nets())),
        device=device,
        device_count=1,
        interconnect=interconnect,
        vcpus=None,
        batch_per_device=batch,
        precision=draw(st.sampled_from(sanity.PRECISIONS)),
        xla=False,
        framework=draw(st.sampled_from(sanity.FRAMEWORKS)),
    )
    counts = [2**doublings for doublings in range(7)]
    return [replace(asked, device_count=count, batch_per_device=batch // count) for count in counts]


@settings(max_examples=40)
@given(asked=shared_batches())
def test_more_devices_are_slower_for_a_stated_reason_alone(shipped: Predictor, asked: list[Question]) -> None:
    answers = [shipped.predict(question) for question in asked]
    for fewer, more in pairwise(answers):
        assert isinstance(fewer, Throughput)
        assert isinstance(more, Throughput)
        is_slower = fewer.images_per_second > more.images_per_second * 1.05 * (1 + 1e-9)
        assert ("slower than" in more.note) == is_slower
