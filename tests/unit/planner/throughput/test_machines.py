"""Several machines: what a step takes beside the exchange of its gradients, and how wide that is."""

from __future__ import annotations

import pytest

from trainplan.planner.throughput.machines import (
    UNKNOWN_NETWORK,
    Network,
    ScalingConstants,
    exchange_seconds,
    on_machines,
    scaling_constants,
    step_seconds,
)
from trainplan.planner.throughput.nets import net_of
from trainplan.planner.throughput.predict import Predictor
from trainplan.planner.throughput.values import Basis, Question, Throughput

PLAIN = ScalingConstants(
    network_share=0.8, most_bytes_per_second=2.6e9, overlap=0.0, jitter=0.0, half_width=0.3
)  # fmt: skip
VGG16_BYTES = 4 * 138_357_544
TEN_GBIT = Network.stated(10, "10 Gbit/s")


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
    four = on_machines(alone(), 4, 256, 1.0, Network.stated(100, "100 Gbit/s"), PLAIN)
    assert four.images_per_second == pytest.approx(4000)
    # The logarithm of 1.2 is 0.182, and hypot(0.182, 0.3) is 0.351.
    assert four.high / four.images_per_second == pytest.approx(1.420, abs=0.001)
    assert four.low == pytest.approx(4000 / 1.420, rel=1e-3)
    assert four.basis is Basis.SCALED, "no configuration of several machines was measured here"
    assert "100 Gbit/s" in four.note
    assert four.evidence == ("row-1",)


def test_an_unknown_network_is_wider_than_a_stated_one() -> None:
    stated = on_machines(alone(), 2, 256, VGG16_BYTES, TEN_GBIT)
    unknown = on_machines(alone(), 2, 256, VGG16_BYTES, UNKNOWN_NETWORK)
    assert unknown.images_per_second == stated.images_per_second
    assert unknown.low < stated.low < stated.high < unknown.high
    assert "assumed" in unknown.note


@pytest.mark.parametrize("machines", [2, 4, 16])
def test_a_slower_network_is_never_faster(machines: int) -> None:
    rates = [
        on_machines(alone(), machines, 256, VGG16_BYTES, Network.stated(gbit, "")).images_per_second
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
