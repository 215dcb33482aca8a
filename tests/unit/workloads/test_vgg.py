"""The VGG family as layer lists."""

from __future__ import annotations

import pytest

from trainplan.workloads.layers import Conv, Dense, Flatten, MaxPool
from trainplan.workloads.vgg import VGG_FEATURES, Head, M, mnist_cnn, vgg

HEAD = Head(dense=(20, 10), dropout=0.25, classes=7)


@pytest.mark.parametrize(("name", "weighted"), [("vgg11", 11), ("vgg13", 13), ("vgg16", 16), ("vgg19", 19)])
def test_the_number_in_the_name_counts_the_layers_with_weights(name: str, weighted: int) -> None:
    net = vgg(name, VGG_FEATURES[name], HEAD, (224, 3), batch_norm=False)
    assert sum(isinstance(layer, Conv | Dense) for layer in net.layers) == weighted
    assert sum(isinstance(layer, MaxPool) for layer in net.layers) == 5


def test_a_list_becomes_layers_in_its_order() -> None:
    net = vgg("mine", (8, M, 16), HEAD, (32, 1), batch_norm=True)
    assert net.layers == (
        Conv(filters=8, batch_norm=True),
        MaxPool(),
        Conv(filters=16, batch_norm=True),
        Flatten(),
        Dense(units=20, dropout=0.25),
        Dense(units=10, dropout=0.25),
        Dense(units=7, softmax=True),
    )
    assert (net.name, net.image_size, net.channels, net.classes) == ("mine", 32, 1, 7)


def test_a_bias_goes_where_batch_norm_comes() -> None:
    assert Conv(filters=1).bias
    assert not Conv(filters=1, batch_norm=True).bias
    assert not Dense(units=1, batch_norm=True).bias


def test_the_mnist_net_is_strided_and_normed_without_scale() -> None:
    net = mnist_cnn(10, (28, 1))
    convs = [layer for layer in net.layers if isinstance(layer, Conv)]
    assert [(conv.filters, conv.kernel, conv.stride) for conv in convs] == [(12, 3, 1), (24, 6, 2), (64, 6, 2)]
    hidden, last = [layer for layer in net.layers if isinstance(layer, Dense)]
    assert (hidden.units, hidden.dropout, hidden.batch_norm, last.softmax) == (200, 0.4, True, True)
    assert not any([*(conv.batch_norm_scale for conv in convs), hidden.batch_norm_scale])
