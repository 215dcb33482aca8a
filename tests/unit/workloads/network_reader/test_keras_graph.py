"""A model of Keras becomes the graph that it is: every weight, every shape, what is unknown by its name."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rows import each_row
from trainplan.workloads.graph import Graph, Kind
from trainplan.workloads.graph_file import graph_from_json
from trainplan.workloads.network_reader.errors import UnreadableError
from trainplan.workloads.network_reader.keras_graph import read_keras

pytestmark = [
    *(pytest.mark.train, pytest.mark.keras_3, pytest.mark.filterwarnings("default")),
    pytest.mark.usefixtures("tensorflow"),
]

BUILD = "import keras\nfrom keras import layers, ops\n\n\ndef build(image_size, channels, classes):\n"
IMAGE = f"{BUILD}    image = keras.Input((image_size, image_size, channels))\n"
END = "    return keras.Model(image, layers.Dense(classes)(layers.Flatten()(x)))\n"


def answer_of(source: str, size: int = 32, classes: int = 10, **more: Any) -> dict[str, Any]:
    question = {
        "source": source, "file": "my_net.py", "builder": "build", "size": size, "channels": 3, "classes": classes,
        "framework": "tensorflow",
    }  # fmt: skip
    return read_keras(question | more, lambda: None, lambda: lambda: "")


def read(source: str, size: int = 32, classes: int = 10) -> tuple[Graph, tuple[str, ...]]:
    answer = answer_of(source, size, classes)
    return graph_from_json(answer["graph"]), tuple(answer["own"])


def kinds(graph: Graph) -> list[Kind]:
    return [operator.kind for operator in graph.operators[1:]]


# count_params() of keras.applications 3.15.1 with 1,000 classes: weights and statistics.
@pytest.mark.parametrize(
    ("name", "size", "count"),
    [
        ("VGG16", 224, 138_357_544),
        ("ResNet50", 224, 25_636_712),
        ("MobileNetV2", 224, 3_538_984),
        ("MobileNetV3Large", 224, 5_507_432),
        ("EfficientNetB0", 224, 5_330_571),
        ("InceptionV3", 299, 23_851_784),
        ("DenseNet121", 224, 8_062_504),
        ("ConvNeXtTiny", 224, 28_589_128),
        ("Xception", 299, 22_910_480),
    ],
)
def test_networks_of_keras_have_all_their_weights(name: str, size: int, count: int) -> None:
    graph, own = read(
        f"{BUILD}    return keras.applications.{name}(weights=None, input_shape=(image_size, image_size, channels))\n",
        size, 1000,
    )  # fmt: skip
    assert graph.parameters + graph.statistics == count
    assert (graph.unknown, own) == ((), ())


EVERYTHING = f"""{IMAGE}    x = layers.Rescaling(2.0)(image)
    x = layers.Conv2D(8, (3, 5), (2, 1), "same", activation="silu")(layers.ZeroPadding2D(((1, 2), (0, 3)))(x))
    x = layers.Conv2D(8, 3, dilation_rate=2, groups=4)(x)
    x = layers.SeparableConv2D(12, 3, padding="same", depth_multiplier=2)(x)
    x = layers.LeakyReLU()(layers.GroupNormalization(4)(x))
    x = layers.LayerNormalization()(layers.Conv2DTranspose(8, 3, 2, "same")(x))
    x = layers.UpSampling2D(2, interpolation="bilinear")(layers.AveragePooling2D(3, 2, "same")(x))
    x = layers.Cropping2D(1)(layers.SpatialDropout2D(0.1)(x))
    y = layers.Dense(8, activation="sigmoid")(layers.GlobalMaxPooling2D(keepdims=True)(x))
    x = layers.Concatenate()([layers.Multiply()([x, y]), ops.relu6(x * 2 + y)])
    x = layers.Softmax()(layers.BatchNormalization(scale=False)(x))
    x = ops.transpose(ops.einsum("bhwc,bhvc->bhwv", x, x), (0, 2, 1, 3))
    x = ops.mean(ops.max(x, axis=1, keepdims=True), axis=(1, 2))
    return keras.Model(image, layers.Dense(classes, activation="softmax")(x))
"""


def test_every_layer_that_is_known_keeps_shapes_and_weights() -> None:
    graph, own = read(EVERYTHING)  # raises where a shape is not what Keras gives
    assert (graph.unknown, own) == ((), ())
    others = {Kind.INPUT, Kind.SCALE, Kind.MAX_POOL, Kind.FLATTEN, Kind.UNKNOWN}
    assert set(kinds(graph)) == set(Kind) - others


def test_models_and_layers_that_hold_others_are_opened() -> None:
    graph, own = read(
        "import keras\nfrom keras import layers, ops\n\n\n"
        "class Block(layers.Layer):\n    def __init__(self, filters):\n        super().__init__()\n"
        "        self.inside = keras.Sequential([layers.Conv2D(filters, 3), layers.BatchNormalization()])\n\n"
        "    def call(self, x):\n        return ops.relu(self.inside(x))\n\n\n"
        "class Net(keras.Model):\n    def __init__(self, classes):\n        super().__init__()\n"
        "        self.blocks, self.last = [Block(4), Block(8)], layers.Dense(classes)\n\n"
        "    def get_config(self):\n        return {'classes': self.last.units}\n\n"
        "    def call(self, x):\n        for block in self.blocks:\n            x = block(x)\n"
        "        return self.last(ops.mean(layers.Lambda(lambda y: y * 2)(x), axis=(1, 2)))\n\n\n"
        "def build(image_size, channels, classes):\n    return Net(classes)\n"
    )
    once = [Kind.CONVOLUTION, Kind.BATCH_NORM, Kind.ACTIVATION]
    assert kinds(graph) == [*once, *once, Kind.FIXED_SCALE, Kind.GLOBAL_AVERAGE_POOL, Kind.DENSE]
    assert own == ("Net", "Block", "Lambda")
    assert graph.parameters == 3 * 9 * 4 + 4 + 8 + 4 * 9 * 8 + 8 + 16 + 8 * 10 + 10


def test_weights_of_a_layer_of_the_persons_own_are_counted_where_they_are_used() -> None:
    graph, own = read(
        "from keras import layers\nimport keras\n\n\nclass Gain(layers.Layer):\n    def build(self, shape):\n"
        "        self.gain = self.add_weight(shape=shape[1:])\n"
        "        self.seen = self.add_weight(shape=(), trainable=False)\n\n"
        "    def call(self, x):\n        return x * self.gain\n\n\n"
        f"{IMAGE.partition('ops')[2].lstrip()}    x = Gain()(image)\n{END}"
    )
    assert (graph.unknown, own) == ((), ("Gain",))
    weights = [(one.kind, one.parameters, one.statistics) for one in graph.figures[1:3]]
    assert weights == [(Kind.SCALE, 32 * 32 * 3, 0), (Kind.FIXED_SCALE, 0, 1)]


def test_an_unknown_layer_takes_at_least_the_products_of_its_weights() -> None:
    graph, _ = read(
        "from keras import layers\nimport keras\n\n\nclass Odd(layers.Layer):\n    def build(self, shape):\n"
        "        self.kernel = self.add_weight(shape=(3, 3, shape[-1], 8))\n\n"
        "    def compute_output_shape(self, shape):\n        return (*shape[:-1], 8)\n\n"
        "    def call(self, x):\n        return x.numpy()\n\n\n"
        f"{IMAGE.partition('ops')[2].lstrip()}    x = Odd()(image)\n{END}"
    )
    (unknown,) = (row for row in graph.figures if row.kind is Kind.UNKNOWN)
    assert (unknown.parameters, unknown.macs) == (3 * 3 * 3 * 8, 32 * 32 * 3 * 3 * 3 * 8)


def test_a_reshape_may_put_parts_of_an_image_along_the_batch() -> None:
    """As windows of attention are made, and frames of a clip."""
    graph, _ = read(
        f"{IMAGE}    x = ops.reshape(image, (-1, 8, 8, 3))\n"
        "    x = layers.MaxPooling2D()(layers.Conv2D(4, 3, padding='same')(x))\n"
        "    x = ops.reshape(x, (-1, 16, 4 * 4 * 4))\n" + END
    )
    (product,) = (row for row in graph.figures if row.kind is Kind.PRODUCT)
    assert product.macs == 32 * 32 * 9 * 3 * 4
    assert graph.unknown == ()


HOLDING = [
    ("layers.TimeDistributed(layers.Conv2D(4, 3))(layers.Reshape((4, 8, 32, 3))(x))", 4 * 6 * 30 * 9 * 3 * 4),
    ("layers.SpectralNormalization(layers.Conv2D(4, 3))(x)", 30 * 30 * 9 * 3 * 4),
    ("layers.Conv1D(6, 3, padding='causal', groups=3)(layers.Reshape((64, 48))(x))", 64 * 3 * 16 * 6),
    ("layers.Conv3D(4, 3, 2, groups=2)(layers.Reshape((8, 8, 8, 6))(x))", 3 * 3 * 3 * 27 * 3 * 4),
    ("layers.Conv1DTranspose(4, 4, 2)(layers.Reshape((64, 48))(x))", 64 * 48 * 4 * 4),
    ("layers.Conv3DTranspose(4, 2, 2)(layers.Reshape((8, 8, 8, 6))(x))", 512 * 6 * 8 * 4),
    ("layers.Conv2DTranspose(4, 3, 2, output_padding=1)(x)", 32 * 32 * 3 * 9 * 4),
    ("layers.SeparableConv1D(8, 3, padding='same')(layers.Reshape((64, 48))(x))", 64 * 3 * 48 + 64 * 48 * 8),
    ("layers.EinsumDense('bhwc,cd->bhwd', output_shape=(32, 32, 5), bias_axes='d')(x)", 1024 * 3 * 5),
    ("layers.EinsumDense('bhwc,wd->bhdc', output_shape=(32, 5, 3))(x)", 32 * 3 * 32 * 5),
    ("layers.LSTM(8)(layers.Reshape((64, 48))(x))", 64 * (48 + 8) * 4 * 8),
    ("layers.GRU(8, return_sequences=True)(layers.Reshape((64, 48))(x))", 64 * (48 + 8) * 3 * 8),
    ("layers.RNN([layers.LSTMCell(8), layers.GRUCell(4)])(layers.Reshape((64, 48))(x))",
     64 * (56 * 4 * 8 + 12 * 3 * 4)),
    ("layers.Bidirectional(layers.SimpleRNN(8), merge_mode='ave')(layers.Reshape((64, 48))(x))", 2 * 64 * 56 * 8),
    ("layers.ConvLSTM2D(4, 3, padding='same')(layers.Reshape((4, 16, 16, 3))(x))", 1024 * 9 * (3 + 4) * 4 * 4),
    ("(lambda y: layers.MultiHeadAttention(2, 8, dropout=0.1)(y, y))(layers.Reshape((64, 48))(x))",
     4 * 64 * 48 * 16 + 2 * 64 * 64 * 16),
    ("(lambda y: layers.GroupQueryAttention(8, 4, 2)(y, y))(layers.Reshape((64, 48))(x))",
     2 * 64 * 48 * 32 + 2 * 64 * 48 * 16 + 2 * 64 * 64 * 32),
    ("(lambda y: layers.Attention()([y, y]))(layers.Reshape((64, 48))(x))", 2 * 64 * 64 * 48),
    ("(lambda y: layers.Dot(2)([y, y]))(layers.Reshape((64, 48))(x))", 64 * 64 * 48),
    ("(lambda y: ops.matmul(y, ops.transpose(y, (0, 2, 1))))(layers.Reshape((64, 48))(x))", 64 * 64 * 48),
]  # fmt: skip
"""A layer that holds work, of 32 x 32 x 3 values, and the multiply-accumulates of it for one image."""


@each_row(("layer", "macs"), HOLDING)
def test_what_a_layer_holds_is_counted(layer: str, macs: int) -> None:
    graph, _ = read(f"{IMAGE}    x = image\n    x = {layer}\n{END}")
    *_, last = graph.figures
    assert graph.unknown == ()
    assert graph.macs - last.macs == macs


def test_a_layer_that_gives_what_it_was_given_counts_nothing_again() -> None:
    """As dropout of whole branches does, but for its training."""
    graph, own = read(
        "from keras import layers\nimport keras\n\n\nclass Same(layers.Layer):\n    def call(self, x, training=None):\n"
        "        return x * 0.5 if training else x\n\n\n"
        f"{IMAGE.partition('ops')[2].lstrip()}    x = Same()(Same()(layers.Conv2D(4, 3)(image)))\n{END}"
    )
    assert own == ("Same",)
    assert kinds(graph) == [Kind.CONVOLUTION, Kind.FLATTEN, Kind.DENSE]


def test_a_layer_of_the_persons_own_may_put_a_weight_on_the_left_and_add_a_loss() -> None:
    graph, _ = read(
        "from keras import layers, ops\nimport keras\n\n\nclass Mixed(layers.Layer):\n    def build(self, shape):\n"
        "        self.gain = self.add_weight(shape=(1,))\n\n"
        "    def call(self, x):\n        self.add_loss(ops.mean(x))\n"
        "        return self.gain * ops.matmul(x, ops.swapaxes(x, 1, 2))\n\n\n"
        f"{IMAGE.partition('ops')[2].lstrip()}    x = Mixed()(layers.Reshape((64, 48))(image))\n{END}"
    )
    assert graph.unknown == ()
    assert Kind.PRODUCT in kinds(graph)


def test_a_layer_that_is_frozen_is_not_trained() -> None:
    graph, _ = read(f"{IMAGE}    x = layers.Conv2D(4, 3, trainable=False)(image)\n{END}")
    assert [operator.frozen for operator in graph.operators if operator.kind is Kind.CONVOLUTION] == [True]
    assert graph.trained_parameters == 30 * 30 * 4 * 10 + 10


@pytest.mark.parametrize(
    "line", ["model.set_weights([weight * 0 for weight in model.get_weights()])", "model.compile('adam', 'mse')"]
)
def test_a_file_may_look_at_the_weights_or_compile_its_model(line: str) -> None:
    graph, _ = read(
        f"{IMAGE}    x = layers.Flatten()(layers.Conv2D(4, 3)(image))\n"
        f"    model = keras.Model(image, layers.Dense(classes)(x))\n    {line}\n    return model\n"
    )
    assert graph.parameters == 3 * 9 * 4 + 4 + 30 * 30 * 4 * 10 + 10


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("    return 3\n", "returns int, not a keras.Model"),
        ("    raise ValueError('no\\nmore')\n", r"^my_net.py, line 6: ValueError: no$"),
        ("    import sys; sys.exit(1)\n", "^my_net.py, line 6: SystemExit: 1$"),
        ("    return (\n", "my_net.py, line 6: '\\(' was never closed"),
        ("    image = keras.Input((8, 8, 3))\n    x = image\n" + END, "takes images of 8 x 8 x 3, not 32 x 32 x 3"),
        ("    x = image = keras.Input((None, None, 3))\n    return keras.Model(image, layers.Conv2D(8, 3)(x))\n",
         "puts out 30 x 30 x 8 for each image, not 10 numbers"),
        ("    x = image = keras.Input((32, 32, 3))\n    return keras.Model([image, keras.Input((3,))], x)\n",
         "takes 2 inputs"),
        ("    x = image = keras.Input(batch_shape=(8, 32, 32, 3))\n" + END, "takes batches of 8"),
        ("    x = image = keras.Input((32, 32, 3))\n    return keras.Model(image, [x, x])\n", "has two outputs"),
        ("    x = image = keras.Input((32, 32, 3))\n    return keras.Model(image, {'y': x})\n", "output in a dict"),
        ("    x = image = keras.Input((32, 32, 3))\n"
         "    x = layers.Conv2D(3, 3, data_format='channels_first')(x)\n" + END,
         "channels-first"),
        ("    x = image = keras.Input((32, 32, 3))\n    x = layers.Flatten()(x)\n"
         "    return keras.Model(image, layers.Dense(classes, activation='sigmoid')(x))\n", "ends with sigmoid"),
    ],
)  # fmt: skip
def test_what_is_no_classifier_of_such_images_is_told(body: str, message: str) -> None:
    with pytest.raises(UnreadableError, match=message):
        read(f"{BUILD}{body}")


def test_what_is_no_classifier_is_read_as_another_task() -> None:
    """A U-Net with a second output, as for deep supervision."""
    body = (
        "    x = layers.Conv2D(8, 3, padding='same')(image)\n"
        "    y = layers.Conv2DTranspose(8, 2, 2)(layers.MaxPooling2D()(x))\n"
        "    masks = layers.Conv2D(classes, 1, activation='softmax')(layers.Concatenate()([x, y]))\n"
        "    return keras.Model(image, [masks, layers.Conv2D(1, 1, activation='sigmoid')(x)])\n"
    )
    graph = graph_from_json(answer_of(f"{IMAGE}{body}", classes=3, task="other")["graph"])
    assert graph.macs == 1024 * (9 * 3 * 8 + 8 * 8 + 16 * 3 + 8)
    assert graph.unknown == ()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 3\n", "has no function build"),
        ("def build(size):\n    pass\n", r"build has to take \(image_size, channels, classes\)"),
    ],
)
def test_a_function_that_is_not_there_or_takes_something_else_is_told(source: str, message: str) -> None:
    with pytest.raises(UnreadableError, match=message):
        read(source)


def test_what_a_file_imports_that_is_not_there_is_told_with_what_may_be_imported() -> None:
    with pytest.raises(UnreadableError, match=r"line 1: ModuleNotFoundError: No module named 'my_blocks'") as told:
        read("import my_blocks\n")
    assert "this one file is all that is read" in told.value.hint


def test_what_any_model_is_named_does_not_matter() -> None:
    parts: Any = [
        read(f"{IMAGE}    x = layers.Conv2D(4, 3, name={name!r})(image)\n{END}")[0] for name in ("one", "other")
    ]
    assert parts[0].digest == parts[1].digest


FLIPPED = "layers.RandomFlip('horizontal')(image)"


@each_row(
    ("first", "expected"),
    [
        ("layers.Conv2D(3, 3)(image)", (-1, 1)),
        ("layers.BatchNormalization()(image)", (-1, 1)),
        ("layers.Rescaling(1 / 255)(image)", (0, 255)),
        (f"layers.Rescaling(1 / 127.5, offset=-1)({FLIPPED})", (0, 255)),
        ("layers.Rescaling(1 / 255, dtype='mixed_bfloat16')(image)", (0, 255)),
        ("layers.Normalization(mean=[124, 116, 104], variance=[3400, 3260, 3290])(image)", (0, 255)),
        ("layers.Normalization(mean=[.48, .46, .41], variance=[.052, .05, .05])(image)", (0, 1)),
        ("layers.Lambda(lambda pixels: (pixels - 127.5) / 127.5)(image)", (0, 255)),
        ("keras.applications.resnet.preprocess_input(image)", (0, 255)),
        ("keras.applications.mobilenet.preprocess_input(image)", (0, 255)),
        (f"layers.RandomContrast(0.2)({FLIPPED})", (0, 255)),
        ("layers.RandomBrightness(0.2, value_range=(0, 1))(image)", (0, 1)),
        ("layers.Rescaling(1 / 255)(layers.RandomBrightness(0.2)(image))", (0, 255)),
        ("layers.RandomContrast(0.2)(layers.Rescaling(1.0)(image))", (0, 255)),
        (f"keras.Sequential([layers.RandomFlip(), layers.Rescaling(1 / 255)])({FLIPPED})", (0, 255)),
        ("layers.Concatenate()([image, layers.Rescaling(1 / 255)(image)])", (-1, 1)),
    ],
)
def test_the_values_of_pixels_that_the_first_layers_expect_are_found(first: str, expected: tuple[int, int]) -> None:
    assert answer_of(f"{IMAGE}    x = layers.Conv2D(4, 3)({first})\n{END}")["pixel_range"] == expected


@pytest.mark.parametrize("name", ["EfficientNetB0", "EfficientNetV2B0", "MobileNetV3Small", "ConvNeXtTiny", "ResNet50"])
def test_networks_of_keras_that_scale_their_images_are_given_0_to_255(name: str) -> None:
    made = f"keras.applications.{name}(weights=None, input_shape=(image_size, image_size, channels))"
    expected = (-1, 1) if name == "ResNet50" else (0, 255)
    assert answer_of(f"{BUILD}    return {made}\n", classes=1000)["pixel_range"] == expected


VOTE = "layers.Dense(classes, activation='softmax')(layers.Flatten()(image))"
MAP = "layers.Conv2D(classes, 1, activation='softmax')(image)"
SMALL = "keras.Sequential([layers.Flatten(), layers.Dense(classes, activation='softmax')])"


@pytest.mark.parametrize(
    ("output", "named"),
    [
        (f"layers.Average()([{VOTE}, {VOTE}])", "dense"),
        (f"({VOTE} + {VOTE}) / 2", "dense"),
        (f"ops.mean(ops.stack([{VOTE}, {VOTE}], axis=1), axis=1)", "dense"),
        (f"layers.GlobalAveragePooling2D()({MAP})", "conv2d"),
        (f"ops.max({MAP}, axis=(1, 2))", "conv2d"),
        (f"layers.Flatten()(layers.GlobalAveragePooling2D(keepdims=True)({MAP}))", "conv2d"),
        (f"layers.Dropout(0.5)(layers.Rescaling(2.0)({VOTE}))", "dense"),
        (f"layers.Average()([{SMALL}(image), {SMALL}(layers.RandomFlip()(image))])", "dense"),
        (f"layers.Softmax()({VOTE})", "dense"),
        (f"layers.Average()([{VOTE.replace('softmax', 'sigmoid')}, {VOTE}])", "sigmoid"),
        (f"ops.exp({VOTE}) / ops.sum(ops.exp({VOTE}), axis=-1, keepdims=True)", "exp"),
    ],
)
def test_an_output_made_of_probabilities_is_refused_with_where_they_are(output: str, named: str) -> None:
    with pytest.raises(UnreadableError, match=rf"made of probabilities.*{named}") as refused:
        read(f"{IMAGE}    return keras.Model(image, {output})\n")
    assert "leave the" in refused.value.hint


@pytest.mark.parametrize(
    "output",
    [
        VOTE,
        f"layers.Average()([{VOTE.replace('softmax', 'linear')}] * 2)",
        f"layers.Average()([{VOTE.replace('softmax', 'relu')}] * 2)",
        "layers.GlobalAveragePooling2D()(layers.Multiply()([layers.Conv2D(classes, 3, padding='same')(image),"
        " layers.Conv2D(1, 1, activation='sigmoid')(image)]))",
        f"layers.Activation('softmax')({VOTE.replace('softmax', 'linear')})",
        f"ops.softmax({VOTE.replace('softmax', 'linear')})",
        f"layers.Dense(classes)({VOTE})",
    ],
)
def test_logits_and_one_softmax_over_them_are_read(output: str) -> None:
    graph, _ = read(f"{IMAGE}    return keras.Model(image, {output})\n")
    assert graph.classes == 10


CLASSES = """

class Small(keras.Model):
    def __init__(self, classes, last):
        super().__init__()
        self.classes, self.last = classes, last
        self.a, self.b = layers.Flatten(), layers.Dense(classes, activation=last)

    def get_config(self):
        return {"classes": self.classes, "last": self.last}

    def call(self, images):
        return self.b(self.a(images))


class Ends(Small):
    def call(self, images):
        return ops.softmax(self.b(self.a(images)))


class Holds(layers.Layer):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def call(self, x):
        return self.inner(x)


class Steps(Small):
    def train_step(self, data):
        return super().train_step(data)


class Spare(keras.Model):
    def __init__(self, classes):
        super().__init__()
        self.a, self.b, self.c = layers.Flatten(), layers.Dense(classes), layers.Dense(3)

    def call(self, images):
        self.c(self.a(images))
        return self.b(self.a(images))


"""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("    return Small(classes, 'softmax')\n", ""),
        ("    return Ends(classes, None)\n", "ends with a softmax inside"),
        ("    return Steps(classes, None)\n", "has a train_step of its own"),
        (
            f"{IMAGE.rpartition(':')[2][1:]}    x = layers.Conv2D(4, 3, dtype='mixed_float16')(image)\n{END}",
            "computes in float16, whatever precision",
        ),
        ("    return Spare(classes)\n", "has 39,949 weights, and those on the way"),
        (f"{IMAGE.rpartition(':')[2][1:]}    x = Holds(layers.Conv2D(4, 3))(image)\n{END}", "could not be kept.*Holds"),
        (
            f"{IMAGE.rpartition(':')[2][1:]}    x = layers.Lambda(lambda y: y.numpy(), output_shape=(10,))\n"
            "    return keras.Model(image, x(layers.Dense(classes)(layers.Flatten()(image))))\n",
            "ends with Lambda, a layer of your own",
        ),
    ],
)
def test_what_the_trainer_could_not_train_is_refused_when_it_is_read(body: str, message: str) -> None:
    source = BUILD.replace("\n\n\ndef", f"{CLASSES}def") + body
    if not message:
        assert kinds(read(source)[0])[-1] is Kind.SOFTMAX
        return
    with pytest.raises(UnreadableError, match=message) as refused:
        read(source)
    assert refused.value.hint


def test_a_layer_that_is_applied_again_has_its_weights_once() -> None:
    again = "    for _ in range(4):\n        x = same(x)\n"
    source = f"{IMAGE}    x, same = image, layers.Conv2D(3, 3, padding='same')\n{again}"
    graph, _ = read(source + END)
    assert graph.parameters == graph.trained_parameters == 3 * 9 * 3 + 3 + 32 * 32 * 3 * 10 + 10
    assert graph.macs == 4 * 32 * 32 * 3 * 9 * 3 + 32 * 32 * 3 * 10
    once, *others = (row for row in graph.figures if row.kind is Kind.CONVOLUTION)
    assert [row.parameters for row in (once, *others)] == [84, 0, 0, 0]
    assert {row.flops_backward - once.flops_backward for row in others} == {2 * once.macs}


def test_a_file_imports_what_is_there_where_it_trains() -> None:
    guarded = "try:\n    import matplotlib.pyplot\nexcept ImportError:\n    import numpy as np\n"
    body = f"{IMAGE}    import math, keras.layers as more\n    x = image\n{END}"
    assert answer_of(guarded + body, modules=["keras", "numpy"])["own"] == []
    with pytest.raises(UnreadableError, match=r"line 1: ModuleNotFoundError: No module named 'tensorflow' on"):
        answer_of("from tensorflow.keras import layers\n" + body, modules=["keras", "numpy"])
