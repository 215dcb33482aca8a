"""The reader of a file, which the estimate asks, and the trainer judge alike whether a network can be trained, and what
they take gives logits: with large weights its values leave the range of probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainplan.workloads.graph_file import graph_from_json
from trainplan.workloads.network_reader.errors import UnreadableError
from trainplan.workloads.network_reader.keras_graph import read_keras
from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.model import build
from trainplan.workloads.trainer.own_model import OwnNetwork

pytestmark = [
    *(pytest.mark.train, pytest.mark.keras_3, pytest.mark.filterwarnings("default")),
    pytest.mark.usefixtures("tensorflow"),
]

SIZE, CLASSES = 8, 4
BEGIN = """import keras
from keras import layers, ops


class Scaled(layers.Layer):
    def build(self, shape):
        self.gain = self.add_weight(shape=(shape[-1],), initializer="ones")

    def call(self, x):
        return self.gain * x


class Same(layers.Layer):
    def call(self, x, training=None):
        return x * 1.5 if training else x


class Steps(keras.Model):
    def train_step(self, data):
        return super().train_step(data)


class Ends(keras.Model):
    def __init__(self, last=None):
        super().__init__()
        self.last, self.flat = last, layers.Flatten()
        self.dense = layers.Dense(4, activation=last)

    def get_config(self):
        return {"last": self.last}

    def call(self, x):
        return self.dense(self.flat(x))


def build(image_size, channels, classes):
    x = image = keras.Input((image_size, image_size, channels))
"""
BODIES = (
    "x = layers.Conv2D(6, 3, padding='same', activation='relu')(x)",
    "x = layers.BatchNormalization()(x)",
    "x = layers.Dropout(0.3)(layers.MaxPooling2D(2, padding='same')(x))",
    "x = x + layers.DepthwiseConv2D(3, padding='same')(x)",
    "x = layers.Multiply()([x, layers.Dense(x.shape[-1], activation='sigmoid')(ops.mean(x, (1, 2), keepdims=True))])",
    "x = Scaled()(x)",
    "x = Same()(x)",
    "x = layers.Activation('softmax')(x)",
)
LOGITS = "layers.Dense(classes)(layers.Flatten()(x))"
ENDS = (
    LOGITS,
    f"layers.Softmax()({LOGITS})",
    "layers.Dense(classes, activation='softmax')(layers.GlobalAveragePooling2D()(x))",
    "layers.GlobalAveragePooling2D()(layers.Conv2D(classes, 1)(x))",
    "layers.GlobalAveragePooling2D()(layers.Conv2D(classes, 1, activation='softmax')(x))",
    f"layers.Average()([{LOGITS}, {LOGITS}])",
    f"layers.Average()([layers.Softmax()({LOGITS}), layers.Softmax()({LOGITS})])",
    f"{LOGITS} / 2.0",
    f"layers.Dropout(0.2)(ops.softmax({LOGITS}))",
    f"ops.sigmoid({LOGITS}) * 0.9",
    "layers.Dense(classes, activation='tanh')(layers.Flatten()(x))",
    f"Same()(layers.Softmax()({LOGITS}))",
    "keras.Sequential([layers.Flatten(), layers.Dense(classes, activation='softmax')])(x)",
    "layers.Concatenate()([layers.Dense(classes - 2)(layers.Flatten()(x)), layers.Dense(2)(layers.Flatten()(x))])",
    f"layers.Lambda(lambda y: ops.softmax(y))({LOGITS})",
    "Ends()(x)",
    "Ends('softmax')(x)",
    "layers.Dense(classes, dtype='mixed_float16')(layers.Flatten()(x))",
)


def question_of(bodies: list[str], end: str, model: str) -> dict[str, Any]:
    lines = [*bodies, f"return {model}(image, {end})"]
    source = BEGIN + "".join(f"    {line}\n" for line in lines)
    return {
        "source": source, "file": "my_net.py", "builder": "build", "size": SIZE, "channels": 3, "classes": CLASSES,
        "framework": "tensorflow",
    }  # fmt: skip


def read(question: dict[str, Any]) -> dict[str, Any]:
    return read_keras(question, lambda: None, lambda: lambda: "")


@settings(max_examples=40, derandomize=True, deadline=None)
@given(
    st.lists(st.sampled_from(BODIES), max_size=4),
    st.sampled_from(ENDS),
    st.sampled_from(["keras.Model", "keras.Model", "keras.Model", "Steps"]),
)
def test_reader_and_trainer_judge_alike_and_what_they_take_gives_logits(
    bodies: list[str], end: str, model: str
) -> None:
    import keras

    keras.backend.clear_session()
    question = question_of(bodies, end, model)
    answer = read(question | {"task": "other"})  # the network without a judgement
    network = OwnNetwork(
        source=question["source"], file="my_net.py", builder="build", image_size=SIZE, channels=3, classes=CLASSES,
        graph=graph_from_json(answer["graph"]), own=tuple(answer["own"]),
    )  # fmt: skip
    try:
        read(question)
        is_taken = True
    except UnreadableError:
        is_taken = False
    try:
        built = build(keras, network, SIZE, 0)
    except BadInputError:
        assert not is_taken, question["source"]
        return
    assert is_taken, question["source"]
    for weight in built.training.trainable_variables:
        weight.assign(weight * 50.0)
    images = np.random.default_rng(0).integers(0, 256, (8, SIZE, SIZE, 3)).astype(np.uint8)
    values = np.asarray(built.testing(images, training=False))
    assert values.min() < -1 or values.max() > 1, question["source"]
