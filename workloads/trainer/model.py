"""From a Net to a Keras model: one to train, which ends in logits, and one to keep, which ends in a softmax."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

from trainplan.workloads.graph import Graph
from trainplan.workloads.layers import Conv, Dense, Flatten, Layer, MaxPool, Net
from trainplan.workloads.recipe import AugmentSpec
from trainplan.workloads.trainer.augment import augmented, changes_images, make_loss
from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.graph_model import layers_of_graph
from trainplan.workloads.trainer.kit import Kit
from trainplan.workloads.trainer.own_model import OwnNetwork, own_layers, own_network
from trainplan.workloads.trainer.seeds import derived_seed

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainplan.workloads.job import TrainingJob
    from trainplan.workloads.trainer.replicas import Replicas
    from trainplan.workloads.trainer.torch_processes import TorchProcesses

NO_AUGMENTATION = AugmentSpec()
MOST_LIKELY = 5
"""Classes of which one has to be the right one for the top-5 accuracy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Normalisation:
    """How pixels of 0 to 255 are scaled before the net sees them: `scale` times the value, plus `offset`.

    An offset for each channel is in the order red, green, blue.
    """

    scale: float
    offset: float | tuple[float, ...]

    @property
    def text(self) -> str:
        """What a report says of it, as a sentence."""
        offset = self.offset
        if not isinstance(offset, tuple):
            return f"The network is given pixels from {offset:g} to {offset + 255 * self.scale:g}."
        less = ", ".join(f"{-value:g}" for value in offset)
        return f"The network is given pixels less the means {less} of red, green and blue."


PLAIN_NORMALISATION = Normalisation(scale=1 / 127.5, offset=-1.0)
"""From -1 to 1: that of nets which begin at random."""
IMAGENET_NORMALISATION = Normalisation(scale=1.0, offset=(-123.68, -116.779, -103.939))
"""The mean of ImageNet taken off, unscaled: `caffe` of keras.applications.imagenet_utils (Keras 3.15.1), as the
weights of VGG16 and VGG19 that Keras publishes were trained with."""


def normalisation_of(job: TrainingJob) -> Normalisation:
    """How the images of a job that begins at random are scaled: to what the first layers of its own file expect."""
    if job.model.read is None:
        return PLAIN_NORMALISATION
    low, high = job.model.read.pixel_range
    return Normalisation(scale=(high - low) / 255, offset=low)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preprocessing:
    """What happens to images before the net sees them, on the device."""

    augment: AugmentSpec = NO_AUGMENTATION
    normalisation: Normalisation = PLAIN_NORMALISATION


PLAIN = Preprocessing()


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """Views of the same weights. `training` and `testing` give logits (float32), `serving` probabilities.

    `training` changes images as the job asks, and with mixup has one more column: the share of each image in its
    mixture. All take uint8 images of shape (batch, size, size, channels), 0 to 255.
    """

    training: Any
    testing: Any
    serving: Any


Network = Net | Graph | OwnNetwork


def network_of(job: TrainingJob) -> Network:
    """What a job trains: its layer list, the graph of its preset, or the person's own file. Raises BadInputError."""
    if job.model.python is not None:
        return own_network(job)
    if job.model.onnx is not None:
        raise BadInputError(
            "model.onnx can be estimated and not trained; write the network with Keras and model.python"
        )
    return job.net() if job.is_layer_list else job.graph()


def build(
    keras: Any,
    net: Network,
    stored_size: int,
    seed: int,
    replicas: Replicas | TorchProcesses | None = None,
    preprocessing: Preprocessing = PLAIN,
) -> Models:
    """Build `net` for images stored at `stored_size` px a side; they are scaled and resized on the device.

    The first `net.frozen` layers of a layer list are not trained. With `replicas`, batch norm sees the images of all
    devices, and each device drops other activations. Keras' count_params() of each is the parameters and the statistics
    of the net's graph. Raises BadInputError for a file of the person's own that cannot be trained.
    """
    augment, normalisation = preprocessing.augment, preprocessing.normalisation
    images = keras.Input((stored_size, stored_size, net.channels), dtype="uint8", name="image")
    network = _layers(Kit(keras=keras, seed=seed, replicas=replicas), net)
    size = augment.resize or net.image_size
    value = _resized(keras, _scaled(keras, images, normalisation), size)
    if size != net.image_size:
        value = keras.layers.CenterCrop(net.image_size, net.image_size, dtype="float32")(value)
    logits = network(value)
    testing = outputs = logits
    if changes_images(augment):
        changed, share = augmented(keras, augment, _resized(keras, images, size), net.image_size, seed)
        outputs = network(_scaled(keras, changed, normalisation))
        if share is not None:
            outputs = keras.layers.Concatenate(dtype="float32", name="mixture")([outputs, share])
    probabilities = keras.layers.Softmax(dtype="float32", name="probability")(logits)
    training = (replicas.model(keras) if replicas else keras.Model)(images, outputs, name=_name(net))
    return Models(
        training=training,
        testing=keras.Model(images, testing, name=_name(net)) if changes_images(augment) else training,
        serving=keras.Model(images, probabilities, name=_name(net)),
    )


def compile_for_training(
    keras: Any,
    model: Any,
    optimizer: Any,
    *,
    xla: bool,
    top5: bool = False,
    augment: AugmentSpec = NO_AUGMENTATION,
) -> None:
    """Cross-entropy on logits, which stays finite where a softmax would underflow. `top5`: count how often the class is
    among the five likeliest, too."""
    model.compile(
        optimizer=optimizer,
        loss=make_loss(keras, augment),
        metrics=_mixture_accuracies(keras, top5=top5) if augment.mixup else _accuracies(keras, top5=top5),
        jit_compile=xla,
    )
    model.optimizer.build(model.trainable_variables)


def _accuracies(keras: Any, *, top5: bool) -> list[Any]:
    more = [keras.metrics.SparseTopKCategoricalAccuracy(MOST_LIKELY, name="top5")] if top5 else []
    return [keras.metrics.SparseCategoricalAccuracy(name="accuracy"), *more]


def _mixture_accuracies(keras: Any, *, top5: bool) -> list[Any]:
    """The same of outputs that end with the share of each image in its mixture."""
    metrics = keras.metrics

    def accuracy(labels: Any, outputs: Any) -> Any:
        return metrics.sparse_categorical_accuracy(labels, outputs[:, :-1])

    def likely(labels: Any, outputs: Any) -> Any:
        return metrics.sparse_top_k_categorical_accuracy(labels, outputs[:, :-1], k=MOST_LIKELY)

    more = [metrics.MeanMetricWrapper(likely, name="top5")] if top5 else []
    return [metrics.MeanMetricWrapper(accuracy, name="accuracy"), *more]


def _scaled(keras: Any, images: Any, normalisation: Normalisation) -> Any:
    # Scaling stays in float32: half precision cannot hold 256 steps between -1 and 1 exactly.
    offset = normalisation.offset
    values = list(offset) if isinstance(offset, tuple) else offset
    return keras.layers.Rescaling(normalisation.scale, offset=values, dtype="float32")(images)


def _layers(kit: Kit, net: Network) -> Callable[[Any], Any]:
    """What applies the network to scaled images, as often as wanted with the same weights; it gives logits."""
    if isinstance(net, OwnNetwork):
        return own_layers(kit, net)
    if isinstance(net, Graph):
        return layers_of_graph(kit, net)
    layers = [_frozen(_parts(kit, layer, number), net, number) for number, layer in enumerate(net.layers)]
    return partial(_through, [part for layer in layers for part in layer])


def _frozen(parts: list[Any], net: Net, number: int) -> list[Any]:
    """A frozen batch norm also keeps its moving statistics: Keras runs it as in a test."""
    if number < net.frozen:
        for part in parts:
            part.trainable = False
    return parts


def _resized(keras: Any, images: Any, size: int) -> Any:
    if int(images.shape[1]) == size:
        return images
    return keras.layers.Resizing(size, size, dtype="float32")(images)


def _through(parts: list[Any], value: Any) -> Any:
    for part in parts:
        value = part(value)
    return value


def _name(net: Network) -> str:
    return net.name.replace("-", "_").replace(".", "_")


def _parts(kit: Kit, layer: Layer, number: int) -> list[Any]:
    match layer:
        case Conv():
            return _conv(kit, layer, number)
        case Dense():
            return _dense(kit, layer, number)
        case MaxPool():
            return [kit.keras.layers.MaxPooling2D(layer.size, layer.stride, name=f"pool_{number}")]
        case Flatten():
            return [kit.keras.layers.Flatten(name=f"flatten_{number}")]
        case _:
            assert_never(layer)


def _conv(kit: Kit, layer: Conv, number: int) -> list[Any]:
    convolution = kit.keras.layers.Conv2D(
        layer.filters,
        layer.kernel,
        strides=layer.stride,
        padding=layer.padding.value,
        use_bias=layer.bias,
        kernel_initializer=kit.keras.initializers.HeNormal(seed=derived_seed(kit.seed, "kernel", number)),
        name=f"conv_{number}",
    )
    return [convolution, *_norm(kit, layer, number), kit.keras.layers.ReLU(name=f"relu_{number}")]


def _dense(kit: Kit, layer: Dense, number: int) -> list[Any]:
    initializers, seed = kit.keras.initializers, derived_seed(kit.seed, "kernel", number)
    dense = kit.keras.layers.Dense(
        layer.units,
        use_bias=layer.bias,
        kernel_initializer=initializers.GlorotUniform(seed=seed) if layer.softmax else initializers.HeNormal(seed=seed),
        name=f"dense_{number}",
    )
    if layer.softmax:
        # The softmax belongs to the serving model; the logits leave in float32 for the loss.
        return [
            dense,
            *_norm(kit, layer, number),
            kit.keras.layers.Activation("linear", dtype="float32", name="logits"),
        ]
    parts = [dense, *_norm(kit, layer, number), kit.keras.layers.ReLU(name=f"relu_{number}")]
    if layer.dropout:
        dropout = kit.replicas.dropout(kit.keras) if kit.replicas else kit.keras.layers.Dropout
        seed = derived_seed(kit.seed, "dropout", number)
        parts.append(dropout(layer.dropout, seed=seed, name=f"dropout_{number}"))
    return parts


def _norm(kit: Kit, layer: Conv | Dense, number: int) -> list[Any]:
    if not layer.batch_norm:
        return []
    batch_norm = kit.replicas.batch_norm(kit.keras) if kit.replicas else kit.keras.layers.BatchNormalization
    return [batch_norm(scale=layer.batch_norm_scale, name=f"norm_{number}")]
