"""Several machines: what a step takes beside the exchange of its gradients, and how wide that is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainplan.planner.throughput.machines import (
    ScalingConstants,
    exchange_seconds,
    on_machines,
    scaling_constants,
    stated_network,
    step_seconds,
    unknown_network,
)
from trainplan.planner.throughput.nets import net_of
from trainplan.planner.throughput.predict import Predictor
from trainplan.planner.throughput.values import Basis, Question, Throughput

PLAIN = ScalingConstants(
    network_share=0.8, most_bytes_per_second=2.6e9, overlap=0.0, jitter=0.0, half_width=0.3
)  # fmt: skip
VGG16_BYTES = 4 * 138_357_544
TEN_GBIT = stated_network(10, "10 Gbit/s")


def alone(rate: float = 1000.0) -> Throughput:
    return Throughput(
        images_per_second=rate, low=rate / 1.2, high=rate * 1.2, basis=Basis.MEASURED, evidence=("row-1",)
    )


def test_a_ring_sends_its_bytes_over_the_share_of_the_network_that_is_reached() -> None:
    # 2 x 1/2 x 1 GB at 0.8 x 1.25 GB/s.
    assert exchange_seconds(2, 1e9, 10, PLAIN) == pytest.approx(1.0)
    assert exchange_seconds(8, 1e9, 10, PLAIN) == pytest.approx(1.75)
    assert exchange_seconds(2, 1e9, 100, PLAIN) == pytest.approx(1 / 2.6), "TCP carries no more"


def test_what_the_backward_pass_hides_costs_nothing() -> None:
    hiding = ScalingConstants(
        network_share=0.8, most_bytes_per_second=2.6e9, overlap=0.5, jitter=0.01, half_width=0.3
    )  # fmt: skip
    assert step_seconds(3.0, 2, 1e9, 10, hiding) == pytest.approx(3.0 * 1.01)
    assert step_seconds(1.0, 2, 1e9, 10, hiding) == pytest.approx(1.5 * 1.01)
    assert step_seconds(1.0, 1, 1e9, 10, hiding) == 1.0


def test_one_machine_is_left_as_it_is() -> None:
    assert on_machines(alone(), 1, 256, VGG16_BYTES, TEN_GBIT) == alone()


def test_the_interval_is_that_of_one_machine_joined_with_the_spread_of_published_runs() -> None:
    four = on_machines(alone(), 4, 256, 1.0, stated_network(100, "100 Gbit/s"), PLAIN)
    assert four.images_per_second == pytest.approx(4000)
    # The logarithm of 1.2 is 0.182, and hypot(0.182, 0.3) is 0.351.
    assert four.high / four.images_per_second == pytest.approx(1.420, abs=0.001)
    assert four.low == pytest.approx(4000 / 1.420, rel=1e-3)
    assert four.basis is Basis.SCALED, "no configuration of several machines was measured here"
    assert "100 Gbit/s" in four.note
    assert four.evidence == ("row-1",)


def test_an_unknown_network_is_wider_than_a_stated_one() -> None:
    stated = on_machines(alone(), 2, 256, VGG16_BYTES, TEN_GBIT)
    unknown = on_machines(alone(), 2, 256, VGG16_BYTES, unknown_network(1))
    assert unknown.images_per_second == stated.images_per_second
    assert unknown.low < stated.low < stated.high < unknown.high
    assert "assumed" in unknown.note


def test_a_network_of_several_adapters_carries_more_than_one_of_them() -> None:
    one, four, all_32 = (exchange_seconds(2, 1e9, gbit, PLAIN) for gbit in (100, 400, 3200))
    assert (four, all_32) == pytest.approx((one / 4, one / 32))
    assert stated_network(3200, "").low == 100, "a library without its plug-in for them uses one"
    assert stated_network(25, "").low == 25


def test_an_unknown_network_grows_with_the_devices() -> None:
    """A100s of 16 a machine were taken to share 10 Gbit/s, and four such machines to be slower than one."""
    assert [unknown_network(devices).gbit_per_second for devices in (1, 4, 16)] == [10, 40, 100]
    four = on_machines(alone(29_291), 4, 1024, 4 * 25_557_032, unknown_network(16))
    assert four.images_per_second > 1.7 * 29_291


@given(
    rate=st.floats(10, 60_000),
    batch=st.integers(8, 4096),
    gradient_bytes=st.floats(1e5, 6e8),
    gbit=st.sampled_from([1, 10, 25, 100, 400, 3200]),
    machines=st.sampled_from([2, 4, 8, 64]),
)
def test_several_machines_are_slower_than_one_only_for_a_stated_reason(
    rate: float, batch: int, gradient_bytes: float, gbit: float, machines: int
) -> None:
    one = alone(rate)
    several = on_machines(one, machines, batch, gradient_bytes, stated_network(gbit, ""))
    assert several.low <= several.images_per_second <= several.high
    assert (several.images_per_second < rate) == ("slower than one machine" in several.note)
    more = on_machines(one, machines, batch, gradient_bytes, stated_network(2 * gbit, ""))
    assert more.images_per_second >= several.images_per_second * (1 - 1e-9)


@pytest.mark.parametrize("machines", [2, 4, 16])
def test_a_slower_network_is_never_faster(machines: int) -> None:
    rates = [
        on_machines(alone(), machines, 256, VGG16_BYTES, stated_network(gbit, "")).images_per_second
        for gbit in (1, 10, 25, 100)
    ]
    assert rates == sorted(rates)


def test_vgg16_on_two_machines_of_eight_v100_at_ten_gigabit_is_slower_than_on_one(predictor: Predictor) -> None:
    """The case of which a first look said 1,038 against 1,771 images/s: a batch of 512 over all devices."""
    one, half = (_eight_v100(predictor, batch) for batch in (64, 32))
    two = on_machines(half, 2, 8 * 32, VGG16_BYTES, TEN_GBIT)
    assert one.images_per_second == pytest.approx(1854, rel=0.01)
    assert two.images_per_second == pytest.approx(804, rel=0.01)
    assert two.high < one.images_per_second


def _eight_v100(predictor: Predictor, batch_per_device: int) -> Throughput:
    net = net_of("vgg16", 224)
    assert net is not None
    answer = predictor.predict(
        Question(
            net=net,
            device="V100",
            device_count=8,
            interconnect="NVLink2",
            vcpus=None,
            batch_per_device=batch_per_device,
            precision="fp32",
            xla=False,
            framework="tensorflow",
        )
    )
    assert isinstance(answer, Throughput)
    return answer


def test_the_shipped_constants_are_possible() -> None:
    constants = scaling_constants()
    assert 0.5 <= constants.network_share <= 1
    assert 1.5e9 <= constants.most_bytes_per_second <= 3.5e9
    assert 0 <= constants.overlap <= 2 / 3, "the backward pass is two thirds of a step"
    assert 0 <= constants.jitter <= 0.05
