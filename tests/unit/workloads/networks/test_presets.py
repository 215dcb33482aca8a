"""The presets against published figures, and against Keras itself."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.rows import each_row
from trainplan.workloads.graph import ImageTooSmallError, Kind
from trainplan.workloads.graph_shapes import check
from trainplan.workloads.job import TrainingJob
from trainplan.workloads.layers import macs, parameters
from trainplan.workloads.networks.presets import NETWORKS, preset_graph
from trainplan.workloads.terms import LAYER_LISTS, Preset


class Published(NamedTuple):
    """`counted`: Keras' `count_params()` with 1,000 classes, which has the moving statistics, where `keras` names the
    network of keras.applications (3.15.1, 2026-11-26); else the parameters that torchvision states (`num_params` of its
    weights), which have not. `giga_macs` of an image of `size` px."""

    counted: int
    giga_macs: float
    keras: str = ""
    size: int = 0


# Multiply-accumulates: `_ops` of torchvision's weights (torchvision/models/*.py), for the size of their images; of
# ResNets whose first 1x1 convolution has the stride, as Keras' have: pytorch/README.md of github.com/osmr/imgclsmob
# (50: 3,877.95 M, 101: 7,597.95 M, 152: 11,321.85 M). LeNet-5 by hand: 156 + 2,416 + 48,120 + 10,164 + 850 parameters,
# 117,600 + 240,000 + 48,000 + 10,080 + 840 multiply-accumulates. Read 2026-11-26.
PUBLISHED = {
    Preset.RESNET18: Published(11_689_512, 1.814),
    Preset.RESNET34: Published(21_797_672, 3.664),
    Preset.RESNET50: Published(25_636_712, 3.87795, "ResNet50"),
    Preset.RESNET101: Published(44_707_176, 7.59795, "ResNet101"),
    Preset.RESNET152: Published(60_419_944, 11.32185, "ResNet152"),
    Preset.MOBILENET_V2: Published(3_538_984, 0.301, "MobileNetV2"),
    Preset.MOBILENET_V3_LARGE: Published(5_507_432, 0.217, "MobileNetV3Large"),
    Preset.EFFICIENTNET_B0: Published(5_330_571, 0.386, "EfficientNetB0"),
    Preset.EFFICIENTNET_B1: Published(7_856_239, 0.687, "EfficientNetB1"),
    Preset.EFFICIENTNET_B2: Published(9_177_569, 1.088, "EfficientNetB2", size=288),
    Preset.EFFICIENTNET_B3: Published(12_320_535, 1.827, "EfficientNetB3"),
    Preset.INCEPTION_V3: Published(23_851_784, 5.713, "InceptionV3"),
    Preset.DENSENET121: Published(8_062_504, 2.834, "DenseNet121"),
    Preset.DENSENET169: Published(14_307_880, 3.36, "DenseNet169"),
    Preset.DENSENET201: Published(20_242_984, 4.291, "DenseNet201"),
    Preset.SQUEEZENET1_1: Published(1_235_496, 0.349),
    Preset.CONVNEXT_TINY: Published(28_589_128, 4.456, "ConvNeXtTiny"),
    Preset.ALEXNET: Published(61_100_840, 0.714),
    Preset.LENET: Published(61_706, 0.00041652),
}
VGGS = {
    Preset.VGG11: Published(132_863_336, 7.609),
    Preset.VGG13: Published(133_047_848, 11.308),
    Preset.VGG16: Published(138_357_544, 15.47, "VGG16"),
    Preset.VGG19: Published(143_667_240, 19.632, "VGG19"),
}


def test_every_preset_has_its_published_figures() -> None:
    assert {*PUBLISHED, *VGGS, Preset.MNIST_CNN} == set(Preset)
    assert NETWORKS.keys() == set(Preset) - LAYER_LISTS


@each_row("preset", PUBLISHED)
def test_parameters_are_exactly_as_published(preset: Preset) -> None:
    network, published = NETWORKS[preset], PUBLISHED[preset]
    graph = preset_graph(preset, network.image_size, network.channels, network.classes)
    assert graph.parameters + (graph.statistics if published.keras else 0) == published.counted
    check(graph)


@each_row("preset", PUBLISHED)
def test_multiply_accumulates_are_within_one_per_cent_of_published(preset: Preset) -> None:
    network, published = NETWORKS[preset], PUBLISHED[preset]
    graph = preset_graph(preset, published.size or network.image_size, network.channels, network.classes)
    assert graph.macs / 1e9 == pytest.approx(published.giga_macs, rel=0.01)


@pytest.mark.parametrize("preset", VGGS)
def test_the_vgg_nets_too(preset: Preset) -> None:
    net = a_job(preset, image_size=224, classes=1000).net()
    assert parameters(net) == VGGS[preset].counted
    assert macs(net) / 1e9 == pytest.approx(VGGS[preset].giga_macs, rel=0.01)


@each_row("preset", [one for one, published in PUBLISHED.items() if published.size == 0])
def test_other_images_and_classes_change_the_ends_alone(preset: Preset) -> None:
    network = NETWORKS[preset]
    size = 2 * network.image_size
    usual = preset_graph(preset, network.image_size, network.channels, network.classes)
    large = preset_graph(preset, size, 1, 7)
    assert (large.image_size, large.channels, large.classes) == (size, 1, 7)
    assert large.operators[-1].kind is Kind.SOFTMAX
    assert [one.kind for one in large.operators if one.kind not in _OF_ENDS] == [
        one.kind for one in usual.operators if one.kind not in _OF_ENDS
    ]
    assert large.macs > 2 * usual.macs or preset is Preset.ALEXNET  # most of its work is in its dense layers


_OF_ENDS = (Kind.AVERAGE_POOL, Kind.FIXED_SCALE)
"""Torch's AlexNet averages images of other sizes, and ConvNeXt scales colour images alone."""


def test_an_image_that_vanishes_on_the_way_is_refused() -> None:
    with pytest.raises(ImageTooSmallError, match="max_pool_3"):
        preset_graph(Preset.ALEXNET, 32, 3, 10)
    with pytest.raises(ImageTooSmallError, match="reaches"):
        preset_graph(Preset.INCEPTION_V3, 64, 3, 10)


@pytest.mark.parametrize("size", [28, 32])
def test_lenet_takes_the_digits_in_their_field(size: int) -> None:
    assert preset_graph(Preset.LENET, size, 1, 10).parameters == 61_706


def a_job(preset: Preset, **model: object) -> TrainingJob:
    values = {"name": "n", "epochs": 1, "global_batch_size": 8, "data": {"name": "imagenet"}}
    return TrainingJob.model_validate(values | {"model": {"preset": preset, **model}})


def test_a_job_has_the_graph_of_its_preset() -> None:
    graph = a_job(Preset.RESNET50).graph()
    assert (graph.name, graph.classes, graph.image_size) == ("resnet50", 1000, 224)
    assert graph is a_job(Preset.RESNET50).graph()
    with pytest.raises(ValueError, match="resnet50 is no list of layers"):
        a_job(Preset.RESNET50).net()


@pytest.mark.train
@pytest.mark.slow
@pytest.mark.parametrize("preset", [Preset.RESNET50, Preset.MOBILENET_V2, Preset.EFFICIENTNET_B0])
def test_keras_counts_the_same(preset: Preset, tensorflow: object) -> None:
    keras = pytest.importorskip("keras")
    network = NETWORKS[preset]
    graph = preset_graph(preset, network.image_size, network.channels, network.classes)
    model = getattr(keras.applications, PUBLISHED[preset].keras)(weights=None, input_shape=tuple(graph.input_shape))
    assert model.count_params() == graph.parameters + graph.statistics
    assert tuple(model.input_shape[1:]) == graph.input_shape


@pytest.mark.check
@pytest.mark.train
@pytest.mark.parametrize("preset", [one for one, published in PUBLISHED.items() if published.keras])
def test_keras_counts_the_same_of_all(preset: Preset, tensorflow: object) -> None:
    test_keras_counts_the_same(preset, tensorflow)
