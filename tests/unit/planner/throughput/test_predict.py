"""Predictions: what they rest on, and that they stay sane where nothing was measured."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.doubles.calls import calls_of
from trainplan.planner.throughput.model import load_model
from trainplan.planner.throughput.nets import model_key, net_of
from trainplan.planner.throughput.predict import Predictor
from trainplan.planner.throughput.table import MissingTableError
from trainplan.planner.throughput.values import Basis, Measurement, Question, Throughput, Unpredicted
from trainplan.workloads.graph import Graph, Kind, Shape
from trainplan.workloads.graph_builder import GraphBuilder
from trainplan.workloads.networks.presets import preset_graph
from trainplan.workloads.terms import Preset
from trainplan.workloads.vgg import VGG_DENSE, VGG_FEATURES, Head, mnist_cnn, vgg

if TYPE_CHECKING:
    from pathlib import Path

    from trainplan.pricing.devices import DeviceTable


def question(device: str = "V100", size: int = 224, **changes: object) -> Question:
    net = net_of("vgg16", size)
    assert net is not None
    base = Question(
        net=net, device=device, device_count=1, interconnect="NVLink2", vcpus=None, batch_per_device=64,
        precision="fp32", xla=False, framework="tensorflow",
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


def answer(predictor: Predictor, question: Question) -> Throughput:
    found = predictor.predict(question)
    assert isinstance(found, Throughput), found
    assert 0 < found.low < found.images_per_second < found.high
    assert found.evidence
    assert found.note
    return found


def test_the_same_configuration_is_measured(predictor: Predictor) -> None:
    found = answer(predictor, question())
    assert found.basis is Basis.MEASURED
    # profet-…: 263.02 images/s, nine repeats within a few per cent.
    assert found.images_per_second == pytest.approx(263, rel=0.05)
    assert found.evidence[0].startswith("profet-")


@pytest.mark.parametrize(
    "changes",
    [{"batch_per_device": 100}, {"size": 112}, {"device_count": 2}, {"precision": "amp_fp16"}, {"framework": "torch"}],
)
def test_another_configuration_of_a_measured_device_is_scaled(predictor: Predictor, changes: dict[str, object]) -> None:
    assert answer(predictor, question(**changes)).basis is Basis.SCALED  # type: ignore[arg-type]


def test_several_devices_of_which_one_was_measured_are_told_and_as_wide_as_a_library_left_out(
    predictor: Predictor,
) -> None:
    one, eight = (answer(predictor, question("V100", device_count=count)) for count in (1, 8))
    assert "MirroredStrategy" not in one.note
    assert (
        "one device alone was measured, and no step of a VGG net over any link that MirroredStrategy shared"
        in eight.note
    )
    assert "over NVLink the interval" in eight.note
    widths = load_model().half_widths
    assert eight.high / eight.images_per_second >= math.exp(widths["unseen_library"]) > 1.1
    assert one.high / one.images_per_second < eight.high / eight.images_per_second


@pytest.mark.parametrize("device", ["L4", "A10G", "L40S", "TPU v5e", "GTX 1080 Ti"])
def test_an_unmeasured_device_is_modelled_from_its_rates(predictor: Predictor, device: str) -> None:
    found = answer(predictor, question(device))
    assert found.basis is Basis.MODELLED
    assert found.high / found.low > 1.5
    # Between a K80 (33 images/s) and twenty V100s.
    assert 33 < found.images_per_second < 5_000


def test_intervals_widen_as_evidence_thins(predictor: Predictor) -> None:
    widths = [
        found.high / found.low
        for asked in (question(), question("L4"), question("TPU v3"))
        for found in [answer(predictor, asked)]
    ]
    assert widths == sorted(widths)


def test_more_work_takes_longer(predictor: Predictor) -> None:
    rates = [answer(predictor, question(size=size)).images_per_second for size in (32, 64, 128, 224, 256)]
    assert rates == sorted(rates, reverse=True)
    bigger = vgg(
        "big", (64, 64, 64, "M", 128, "M"), Head(dense=(64,), dropout=0.0, classes=10), (64, 3), batch_norm=False
    )
    smaller = vgg("small", (64, "M", 128, "M"), Head(dense=(64,), dropout=0.0, classes=10), (64, 3), batch_norm=False)
    of_bigger, of_smaller = (answer(predictor, question(net=net)).images_per_second for net in (bigger, smaller))
    assert of_bigger < of_smaller


@pytest.mark.parametrize("device", ["V100", "A100-40GB", "T4", "L4", "H100"])
def test_several_devices_help_but_not_more_than_their_number(predictor: Predictor, device: str) -> None:
    one, two, eight = (answer(predictor, question(device, device_count=count)).images_per_second for count in (1, 2, 8))
    assert one < two < eight
    assert two <= 2.1 * one
    assert eight <= 8.4 * one


@pytest.mark.parametrize("device", ["RTX-PRO-4500", "unheard of"])
def test_a_device_without_rates_is_not_guessed(predictor: Predictor, device: str) -> None:
    assert predictor.predict(question(device)) == Unpredicted(reason="no_device_data")


def test_a_rented_host_is_scaled_per_vcpu(predictor: Predictor) -> None:
    small = answer(predictor, question("cpu", vcpus=4))
    large = answer(predictor, question("cpu", vcpus=16))
    assert small.basis is Basis.MODELLED
    assert 2 < large.images_per_second / small.images_per_second < 4
    assert large.high / large.low > 3
    assert isinstance(predictor.predict(question("cpu")), Unpredicted)


def test_what_this_machine_measured_comes_first(table: Path, devices: DeviceTable) -> None:
    own = Measurement(
        id="run-1", model="vgg16", image_size_px=224, device="this-machine", precision="fp32",
        batch_per_device=64, framework="tensorflow", images_per_second=3.5,
    )  # fmt: skip
    predictor = Predictor.open(devices, table, own=[own])
    found = answer(predictor, question("this-machine", vcpus=2))
    assert (found.basis, found.images_per_second, found.evidence) == (Basis.MEASURED, 3.5, ("run-1",))
    other = answer(predictor, question("this-machine", vcpus=2, size=112))
    assert other.basis is Basis.SCALED
    # A quarter of the pixels: about four times as fast as what was measured, whatever the model says alone.
    assert 8 < other.images_per_second < 20
    predictor.close()


def test_an_own_run_on_a_rented_device_corrects_the_model(table: Path, devices: DeviceTable) -> None:
    plain = Predictor.open(devices, table)
    said = answer(plain, question()).images_per_second
    plain.close()
    own = Measurement(
        id="run-2", model="vgg16", image_size_px=224, device="V100", precision="fp32",
        batch_per_device=64, framework="Keras", images_per_second=said / 2,
    )  # fmt: skip
    predictor = Predictor.open(devices, table, own=[own])
    found = answer(predictor, question(batch_per_device=32))
    predictor.close()
    assert found.basis is Basis.SCALED
    assert found.images_per_second < 0.7 * said


def test_a_net_is_known_by_its_layers_not_its_name() -> None:
    head = Head(dense=VGG_DENSE, dropout=0.0, classes=10)
    renamed = vgg("mine", VGG_FEATURES["vgg16"], head, (224, 3), batch_norm=False)
    pretender = vgg("vgg16", (64, "M"), head, (224, 3), batch_norm=False)
    assert model_key(renamed) == "vgg16"
    assert model_key(pretender).startswith("net-")
    assert model_key(mnist_cnn(10, (28, 1))).startswith("net-")


@pytest.mark.parametrize(
    ("parameters_million", "hidden"), [(None, 2), (138.36, 2), (15.3, 2), (14.72, 0), (33.6, 2), (14.98, 1)]
)
def test_the_head_follows_from_the_stated_parameters(parameters_million: float | None, hidden: int) -> None:
    net = net_of("vgg16", 32, parameters_million)
    assert net is not None
    assert len([layer for layer in net.layers if type(layer).__name__ == "Dense"]) == hidden + 1


def test_a_model_or_size_that_is_not_kept_has_no_net() -> None:
    assert net_of("resnet50", 224) is None
    assert net_of("vgg16", 8) is None


def test_a_missing_table_says_how_to_make_it(tmp_path: Path, devices: DeviceTable) -> None:
    with pytest.raises(MissingTableError, match="python -m"):
        Predictor.open(devices, tmp_path / "absent.sqlite")


def test_a_whole_catalog_is_answered_quickly(table: Path, devices: DeviceTable) -> None:
    asked = [
        question(device, device_count=count, batch_per_device=256 // count, precision="amp_fp16", xla=True)
        for device in devices
        for count in (1, 2, 4, 8)
    ]
    net = asked[0].net
    asked = [replace(one, net=net) for one in asked]
    predictor = Predictor.open(devices, table)
    predictor.predict(asked[0])
    calls = calls_of(lambda: [predictor.predict(one) for one in asked])
    predictor.close()
    # About ten times what it takes: a guard against another order of magnitude, not a benchmark. The seconds of a busy
    # computer would say nothing.
    assert calls / len(asked) < 4_000


@pytest.mark.parametrize(("device", "row"), [("H100", "lambda_pt"), ("TPU v4", "mlperf")])
def test_a_device_of_other_networks_is_anchored_by_them(predictor: Predictor, device: str, row: str) -> None:
    found = answer(predictor, question(device, precision="amp_bf16"))
    assert found.basis is Basis.ANCHORED
    assert found.note == "anchored: resnet50 on this device"
    assert found.evidence
    assert all(name.startswith(row) for name in found.evidence)


def test_a_network_is_scaled_where_it_was_measured_and_anchored_where_others_were(predictor: Predictor) -> None:
    graph = preset_graph(Preset.MOBILENET_V2, 224, 3, 1_000)
    measured, anchored, modelled = (answer(predictor, question(device, net=graph)) for device in ("V100", "H100", "L4"))
    assert [one.basis for one in (measured, anchored, modelled)] == [Basis.SCALED, Basis.ANCHORED, Basis.MODELLED]
    assert measured.evidence[0].startswith("profet")
    assert measured.high / measured.low < anchored.high / anchored.low


def test_several_devices_of_a_network_are_faster_than_one_and_less_sure(predictor: Predictor) -> None:
    graph = preset_graph(Preset.RESNET50, 224, 3, 1_000)
    one, four = (answer(predictor, question("V100", net=graph, device_count=count)) for count in (1, 4))
    assert one.images_per_second < four.images_per_second < 4 * one.images_per_second
    assert one.high / one.low < four.high / four.low


def test_a_network_of_which_too_much_is_unknown_has_no_prediction(predictor: Predictor) -> None:
    def network(unknown: int) -> Graph:
        builder = GraphBuilder("odd", Shape(32, 32, 3))
        x = builder.activation(builder.convolution(builder.image, 64, 3))
        for _ in range(20):
            x = builder.activation(builder.convolution(x, 64, 3))
        for _ in range(unknown):
            x = builder.add_operator(Kind.UNKNOWN, x, shape=builder.shape(x), function="Odd")
        builder.dense(builder.global_pool(x), 10)
        return builder.graph()

    known, little = (answer(predictor, question("V100", net=network(unknown))) for unknown in (0, 1))
    assert known.high / known.low < little.high / little.low
    assert predictor.predict(question("V100", net=network(60))) == Unpredicted(reason="unknown_operators")
