"""The words and limits of a job file: what each choice is called. Imports nothing that takes time."""

from __future__ import annotations

from enum import StrEnum
from pathlib import PurePath

from trainplan.workloads.nearest import same_name

MAX_IMAGE_SIZE_PX = 4_096
MAX_LAYERS = 400
MAX_IMAGES = 10**12
MAX_USD = 10**9
MAX_DATA_BYTES = 10**15
MAX_SECRETS = 50
MAX_NODES = 1_024
PROJECT_PATTERN = r"^([a-z0-9][a-z0-9_-]{0,62})?$"
"""What every vendor takes as the value of a label; "" is none."""


class Term(StrEnum):
    """A word of a job file. `VGG-16` is vgg16: capitals, blanks, dashes and underscores tell no two of them apart."""

    @classmethod
    def _missing_(cls, value: object) -> Term | None:
        name = same_name(value, cls) if isinstance(value, str) else None
        return None if name is None else cls(name)


class Precision(Term):
    """The arithmetic of a training step."""

    FP32 = "fp32"
    TF32 = "tf32"
    AMP_FP16 = "amp_fp16"
    AMP_BF16 = "amp_bf16"


IMAGENET = "imagenet"
"""`model.weights`: the weights that Keras publishes, trained on ImageNet."""


class Framework(Term):
    """What Keras runs on."""

    TENSORFLOW = "tensorflow"
    JAX = "jax"
    TORCH = "torch"


class Objective(Term):
    """What the offers are ranked by; `balanced` is cost times time."""

    COST = "cost"
    TIME = "time"
    BALANCED = "balanced"


class OnSlow(Term):
    """What happens when a run is slower than the low end of its estimate."""

    ASK = "ask"
    CONTINUE = "continue"
    STOP = "stop"
    REPLAN = "replan"


class OptimizerName(Term):
    """The optimizers that the trainer has."""

    SGD = "sgd"
    ADAM = "adam"
    ADAMW = "adamw"
    RMSPROP = "rmsprop"


class ScheduleName(Term):
    """How the learning rate changes over the epochs."""

    CONSTANT = "constant"
    STEP = "step"
    COSINE = "cosine"
    PLATEAU = "plateau"


class Measure(Term):
    """The figure that validation watches."""

    ACCURACY = "accuracy"
    LOSS = "loss"


class Preset(Term):
    """Networks that need no list of layers."""

    VGG11 = "vgg11"
    VGG13 = "vgg13"
    VGG16 = "vgg16"
    VGG19 = "vgg19"
    MNIST_CNN = "mnist-cnn"
    RESNET18 = "resnet18"
    RESNET34 = "resnet34"
    RESNET50 = "resnet50"
    RESNET101 = "resnet101"
    RESNET152 = "resnet152"
    MOBILENET_V2 = "mobilenet_v2"
    MOBILENET_V3_LARGE = "mobilenet_v3_large"
    EFFICIENTNET_B0 = "efficientnet_b0"
    EFFICIENTNET_B1 = "efficientnet_b1"
    EFFICIENTNET_B2 = "efficientnet_b2"
    EFFICIENTNET_B3 = "efficientnet_b3"
    INCEPTION_V3 = "inception_v3"
    DENSENET121 = "densenet121"
    DENSENET169 = "densenet169"
    DENSENET201 = "densenet201"
    SQUEEZENET1_1 = "squeezenet1_1"
    CONVNEXT_TINY = "convnext_tiny"
    ALEXNET = "alexnet"
    LENET = "lenet"


LAYER_LISTS = frozenset({Preset.VGG11, Preset.VGG13, Preset.VGG16, Preset.VGG19, Preset.MNIST_CNN})
"""Presets that are lists of layers. The others are graphs, as published (`trainplan.workloads.networks`)."""


class DataName(Term):
    """Data sets that need no description."""

    DIGITS = "digits"
    MNIST = "mnist"
    FASHION_MNIST = "fashion_mnist"
    CIFAR10 = "cifar10"
    CIFAR100 = "cifar100"
    IMAGENET = "imagenet"
    SYNTHETIC = "synthetic"


class ExportFormat(Term):
    """What a kept model is written as, for a place without Keras."""

    SAVEDMODEL = "savedmodel"
    ONNX = "onnx"
    TFLITE = "tflite"
    TFLITE_INT8 = "tflite_int8"


class Tracker(Term):
    """Where the figures of a run are written to, beside those of other runs."""

    MLFLOW = "mlflow"
    WANDB = "wandb"
    TRACKIO = "trackio"


def own_name(path: str) -> str:
    """What a network of `FILE.py:FUNCTION` or `FILE.onnx` is called: its function, else its file, where that is ONNX or
    the function is called `build`."""
    file, _, function = path.rpartition(":")
    if path.endswith(".onnx"):
        return PurePath(path).stem
    return PurePath(file).stem if function == "build" else function
