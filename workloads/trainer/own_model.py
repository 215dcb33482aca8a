"""A network of the person's own (`model.python`): what their function builds, made ready to train."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trainplan.workloads.graph import Graph
from trainplan.workloads.own_network import OwnFileError, call_builder
from trainplan.workloads.trainable_network import NotTrainableError, check_precision, model_of_logits
from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.seeds import derived_seed

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainplan.workloads.job import TrainingJob
    from trainplan.workloads.trainer.kit import Kit


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnNetwork:
    """The Python file of a job, and what it is built for. `graph` is the network as it was read, `own` are the names of
    classes in it that are not Keras'."""

    source: str
    file: str
    builder: str
    image_size: int
    channels: int
    classes: int
    graph: Graph
    own: tuple[str, ...]

    @property
    def name(self) -> str:
        """That of the function."""
        return self.builder


def own_network(job: TrainingJob) -> OwnNetwork:
    """The network of the job's own file. Raises BadInputError where the job does not bring the file."""
    read, file = job.model.read, job.model.file
    if read is None or file is None or not read.source:
        raise BadInputError("the job names a Python file and does not bring it; launch it with plan launch")
    return OwnNetwork(
        source=read.source, file=file.name, builder=job.model.builder, image_size=job.image_size,
        channels=job.channels, classes=job.classes, graph=read.graph(), own=read.own_layers,
    )  # fmt: skip


def own_layers(kit: Kit, network: OwnNetwork) -> Callable[[Any], Any]:
    """What applies the network to images, as often as wanted with the same weights; it gives logits in float32.

    Raises BadInputError where the file fails, gives another network than it was read as, or one that cannot be trained
    or kept.
    """
    keras = kit.keras
    # What the file draws, and initializers of Keras without a seed do, comes from these two.
    random.seed(derived_seed(kit.seed, "own"))
    np.random.seed(derived_seed(kit.seed, "own"))
    policy = keras.config.dtype_policy()  # which the file may change
    try:
        sizes = (network.image_size, network.channels, network.classes)
        model = call_builder(network.source, network.file, network.builder, sizes)
    except OwnFileError as error:
        raise BadInputError(str(error)) from error
    if not isinstance(model, keras.Model):
        raise BadInputError(f"{network.file}: {network.builder} returns {type(model).__name__}, not a keras.Model")
    if not model.built:
        model(keras.KerasTensor((None, network.image_size, network.image_size, network.channels), dtype="float32"))
    if kit.replicas is not None:
        model = _for_several(kit, model)
    weights = network.graph.parameters + network.graph.statistics
    if (count := model.count_params()) != weights:
        raise BadInputError(
            f"{network.file} gives a network of {count:,} weights here, and gave one of {weights:,} when it was read: "
            "it hangs on more than image_size, channels and classes"
        )
    try:
        check_precision(model, policy.compute_dtype)
        model = model_of_logits(keras, model, network.graph, network.own)
    except NotTrainableError as error:
        raise BadInputError(f"{network.file}: {error}; {error.hint}") from None
    logits = keras.layers.Activation("linear", dtype="float32", name="logits")
    return lambda images: logits(model(images))


def _for_several(kit: Kit, model: Any) -> Any:
    """The same network whose batch norm sees the images of all devices, and whose dropout differs from device to
    device."""
    keras = kit.keras
    own = [layer for layer in _all_layers(model) if not type(layer).__module__.startswith("keras.")]
    for layer in (model, *own):
        is_own = not type(layer).__module__.startswith("keras.")
        inside = [type(one).__name__ for one in _all_layers(layer)] if is_own else []
        if "BatchNormalization" in inside:
            raise BadInputError(
                f"{type(layer).__name__} is a layer of your own with batch norm in it, which sees one device's images "
                "alone: write it as a function that applies layers of Keras, or train on one device"
            )
    if own or not type(model).__module__.startswith("keras."):
        return model

    def made(layer: Any) -> Any:
        config = layer.get_config()
        if type(layer) is keras.layers.BatchNormalization and kit.replicas is not None:
            config.pop("synchronized", None)
            return kit.replicas.batch_norm(keras)(**config)
        if type(layer) is keras.layers.Dropout and kit.replicas is not None and layer.noise_shape is None:
            config.pop("noise_shape", None)
            return kit.replicas.dropout(keras)(**config)
        return type(layer).from_config(config)

    return keras.models.clone_model(model, clone_function=made, recursive=True)


def _all_layers(model: Any) -> list[Any]:
    """Every layer inside, at any depth, without the model itself."""
    return [layer for layer in model._flatten_layers(include_self=False, recursive=True)]
