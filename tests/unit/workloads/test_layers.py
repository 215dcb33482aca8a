"""The arithmetic of nets: published counts, and a tiny net worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainplan.workloads.layers import (
    Conv,
    Dense,
    Flatten,
    ImageTooSmallError,
    LayerFigures,
    MaxPool,
    Net,
    Padding,
    figures,
    macs,
    moving_statistics,
    parameters,
    trained_parameters,
)
from trainplan.workloads.vgg import VGG_DENSE, VGG_DROPOUT, VGG_FEATURES, Head, mnist_cnn, vgg


def a_vgg(name: str, *, batch_norm: bool = False, size: int = 224, classes: int = 1000) -> Net:
    head = Head(dense=VGG_DENSE, dropout=VGG_DROPOUT, classes=classes)
    return vgg(name, VGG_FEATURES[name], head, (size, 3), batch_norm=batch_norm)


# Simonyan and Zisserman, table 2, to the last digit as torchvision and Keras count them.
@pytest.mark.parametrize(
    ("name", "expected"),
    [("vgg11", 132_863_336), ("vgg13", 133_047_848), ("vgg16", 138_357_544), ("vgg19", 143_667_240)],
)
def test_vgg_at_224_px_has_the_published_parameters(name: str, expected: int) -> None:
    assert parameters(a_vgg(name)) == expected
    assert moving_statistics(a_vgg(name)) == 0


def test_vgg16_has_the_published_multiply_accumulates() -> None:
    assert macs(a_vgg("vgg16")) == 15_470_264_320


@pytest.mark.parametrize(
    ("name", "filters"),
    [("vgg11", 2_752), ("vgg13", 2_944), ("vgg16", 4_224), ("vgg19", 5_504)],
)
def test_batch_norm_takes_the_bias_and_brings_a_scale_a_shift_and_two_statistics(name: str, filters: int) -> None:
    plain, normed = a_vgg(name), a_vgg(name, batch_norm=True)
    # torchvision keeps the bias, so its vgg16_bn has 138,365,992: one more for each filter.
    assert parameters(normed) == parameters(plain) + filters
    assert moving_statistics(normed) == 2 * filters
    assert macs(normed) == macs(plain)


def test_the_mnist_net_has_its_published_parameters() -> None:
    net = mnist_cnn(10, (28, 1))
    assert parameters(net) == 695_282
    assert moving_statistics(net) == 600
    assert [row.output_shape for row in figures(net)] == [
        (28, 28, 12),
        (14, 14, 24),
        (7, 7, 64),
        (3136,),
        (200,),
        (10,),
    ]


@pytest.mark.parametrize(("size", "flat"), [(14, 1024), (28, 3136), (29, 4096), (56, 12544)])
def test_the_mnist_net_grows_with_the_image(size: int, flat: int) -> None:
    """Strides round up: 29 px become 15 and then 8."""
    assert figures(mnist_cnn(10, (size, 1)))[3].output_shape == (flat,)


TINY = Net(
    name="tiny",
    image_size=5,
    channels=2,
    layers=(
        Conv(filters=3, batch_norm=True),
        Conv(filters=4, stride=2),
        MaxPool(),
        Flatten(),
        Dense(units=5, softmax=True),
    ),
)
EMPTY = LayerFigures(
    name="", kind="", output_shape=(), parameters=0, moving_statistics=0, macs=0, flops_forward=0, flops_backward=0,
    input_elements=0, output_elements=0,
)  # fmt: skip
BY_HAND = [
    # 3x3x2x3 weights, scale and shift for 3 filters; 25 places; bn 4 and ReLU 1 per output; no gradient by the image.
    replace(
        EMPTY, name="conv1", kind="conv", output_shape=(5, 5, 3), parameters=54 + 6, moving_statistics=6,
        macs=54 * 25, flops_forward=2 * 1350 + 5 * 75, flops_backward=2 * 1350 + 2 * 5 * 75,
        input_elements=50, output_elements=75, passes_back=False,
    ),
    # 3x3x3x4 weights and 4 biases; 5 px by 2 with padding are 3; bias 1 and ReLU 1 per output; two gradients.
    replace(
        EMPTY, name="conv2", kind="conv", output_shape=(3, 3, 4), parameters=108 + 4, macs=108 * 9,
        flops_forward=2 * 972 + 2 * 36, flops_backward=4 * 972 + 2 * 2 * 36,
        input_elements=75, output_elements=36,
    ),
    # The third row and column are left over.
    replace(
        EMPTY, name="maxpool1", kind="maxpool", output_shape=(1, 1, 4), flops_forward=16, flops_backward=16,
        input_elements=36, output_elements=4,
    ),
    replace(EMPTY, name="flatten1", kind="flatten", output_shape=(4,)),
    replace(
        EMPTY, name="dense1", kind="dense", output_shape=(5,), parameters=20 + 5, macs=20,
        flops_forward=2 * 20 + 2 * 5, flops_backward=4 * 20 + 2 * 2 * 5,
        input_elements=4, output_elements=5,
    ),
]  # fmt: skip


@pytest.mark.parametrize("index", range(len(BY_HAND)), ids=[row.name for row in BY_HAND])
def test_each_layer_of_a_tiny_net_is_as_worked_out_by_hand(index: int) -> None:
    assert figures(TINY)[index] == BY_HAND[index]


def test_frozen_layers_go_forward_only_and_the_first_trained_one_passes_no_gradient_on() -> None:
    conv1, conv2, pool, flatten, dense = figures(replace(TINY, frozen=3))
    for row, whole in zip((conv1, conv2, pool), BY_HAND[:3], strict=True):
        assert (row.frozen, row.passes_back, row.flops_backward) == (True, False, 0)
        assert (row.parameters, row.flops_forward, row.macs) == (whole.parameters, whole.flops_forward, whole.macs)
        assert (row.trained_parameters, row.bytes_backward(8, 4)) == (0, 0)
    assert not flatten.passes_back
    # The gradient by the weights and that of the bias and activation; none by the input.
    assert (dense.frozen, dense.passes_back, dense.flops_backward) == (False, False, 2 * 20 + 2 * 2 * 5)
    assert trained_parameters(replace(TINY, frozen=3)) == 25 < parameters(TINY) == parameters(replace(TINY, frozen=3))


def test_the_sums_of_a_tiny_net_are_those_of_its_layers() -> None:
    assert (parameters(TINY), moving_statistics(TINY), macs(TINY)) == (60 + 112 + 25, 6, 1350 + 972 + 20)
    assert TINY.classes == 5


def test_bytes_moved_by_hand() -> None:
    conv = figures(TINY)[0]
    assert conv.bytes_forward(batch=2, bytes_per_element=4) == 4 * (2 * (50 + 75) + 60)
    assert conv.bytes_backward(batch=2, bytes_per_element=4) == 4 * (2 * (2 * 50 + 2 * 75) + 2 * 60)


@pytest.mark.parametrize(
    ("layer", "size", "out"),
    [
        (Conv(filters=1, stride=2), 7, 4),
        (Conv(filters=1, kernel=6, stride=2), 7, 4),
        (Conv(filters=1, padding=Padding.VALID), 7, 5),
        (Conv(filters=1, stride=3, padding=Padding.VALID), 8, 2),
        (MaxPool(), 7, 3),
        (MaxPool(size=3, stride=2), 7, 3),
    ],
)
def test_sides_after_a_layer(layer: Conv | MaxPool, size: int, out: int) -> None:
    assert figures(Net(name="n", image_size=size, channels=1, layers=(layer,)))[0].output_shape == (out, out, 1)


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (a_vgg("vgg16", size=31), "maxpool5"),
        (a_vgg("vgg16", size=1), "maxpool1"),
        (Net(name="n", image_size=2, channels=1, layers=(Conv(filters=1, padding=Padding.VALID),)), "conv1"),
    ],
)
def test_an_image_that_vanishes_names_the_layer(net: Net, message: str) -> None:
    with pytest.raises(ImageTooSmallError, match=message):
        figures(net)


def test_vgg_takes_an_image_of_32_px() -> None:
    assert figures(a_vgg("vgg16", size=32))[-4].output_shape == (512,)


def test_a_net_without_a_last_dense_layer_has_no_classes() -> None:
    with pytest.raises(TypeError, match="softmax"):
        _ = Net(name="n", image_size=8, channels=1, layers=(MaxPool(),)).classes
