"""Networks as a person writes them in a file of their own, and jobs that train them."""

from __future__ import annotations

import hashlib
from typing import Any

from tests.unit.workloads.trainer.builders import a_job
from trainplan.workloads.network_reader.keras_graph import read_keras
from trainplan.workloads.read_network import ReadNetwork, packed

RESIDUAL = """\
import keras
from keras import layers


def block(x, filters, stride):
    short = x
    if stride > 1 or x.shape[-1] != filters:
        short = layers.BatchNormalization(momentum=0.8)(layers.Conv2D(filters, 1, stride, use_bias=False)(x))
    x = layers.Conv2D(filters, 3, stride, padding="same", use_bias=False)(x)
    x = layers.ReLU()(layers.BatchNormalization(momentum=0.8)(x))
    x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
    return layers.ReLU()(layers.Add()([layers.BatchNormalization(momentum=0.8)(x), short]))


def build(image_size, channels, classes):
    image = keras.Input((image_size, image_size, channels))
    x = block(block(image, 8, 1), 16, 2)
    x = layers.Dropout(0.2)(layers.GlobalAveragePooling2D()(x))
    return keras.Model(image, layers.Dense(classes, activation="softmax")(x))
"""

MOBILE = """\
from keras import Sequential, layers


def separable(filters, stride):
    return [
        layers.DepthwiseConv2D(3, stride, padding="same", use_bias=False),
        layers.BatchNormalization(momentum=0.8),
        layers.ReLU(6),
        layers.Conv2D(filters, 1, use_bias=False),
        layers.BatchNormalization(momentum=0.8),
        layers.ReLU(6),
    ]


def build(image_size, channels, classes):
    return Sequential([
        layers.Conv2D(8, 3, padding="same"), *separable(16, 2), *separable(16, 1),
        layers.GlobalAveragePooling2D(), layers.Dropout(0.2), layers.Dense(classes),
    ])
"""


def own_job(source: str, **changes: Any) -> Any:
    """A job on the digits that brings this file, read in this process: its network has images of 8 px and ten
    classes."""
    question = {
        "source": source, "file": "my_net.py", "builder": "build", "size": 8, "channels": 1, "classes": 10,
        "framework": changes.get("framework", "tensorflow"),
    }  # fmt: skip
    answer = read_keras(question, lambda: None, lambda: lambda: "")
    read = ReadNetwork(
        sha256=hashlib.sha256(source.encode()).hexdigest(), source=source, packed=packed(answer["graph"]),
        image_size=8, channels=1, classes=10, own_layers=tuple(answer["own"]), pixel_range=answer["pixel_range"],
    )  # fmt: skip
    return a_job(model={"python": "/home/me/my_net.py:build", "read": read.model_dump()}, **changes)
