"""The words and limits of a job file: what each choice is called. Imports nothing that takes time."""

from __future__ import annotations

from enum import StrEnum

MAX_IMAGE_SIZE_PX = 4_096
MAX_LAYERS = 400
MAX_IMAGES = 10**12
MAX_USD = 10**9
MAX_DATA_BYTES = 10**15
MAX_SECRETS = 50
MAX_NODES = 1_024


class Precision(StrEnum):
    """The arithmetic of a training step."""

    FP32 = "fp32"
    TF32 = "tf32"
    AMP_FP16 = "amp_fp16"
    AMP_BF16 = "amp_bf16"


IMAGENET = "imagenet"
"""`model.weights`: the weights that Keras publishes, trained on ImageNet."""


class Framework(StrEnum):
    """What Keras runs on."""

    TENSORFLOW = "tensorflow"
    JAX = "jax"
    TORCH = "torch"


class Objective(StrEnum):
    """What the offers are ranked by; `balanced` is cost times time."""

    COST = "cost"
    TIME = "time"
    BALANCED = "balanced"


class OnSlow(StrEnum):
    """What happens when a run is slower than the low end of its estimate."""

    ASK = "ask"
    CONTINUE = "continue"
    STOP = "stop"
    REPLAN = "replan"


class OptimizerName(StrEnum):
    """The optimizers that the trainer has."""

    SGD = "sgd"
    ADAM = "adam"
    ADAMW = "adamw"
    RMSPROP = "rmsprop"


class ScheduleName(StrEnum):
    """How the learning rate changes over the epochs."""

    CONSTANT = "constant"
    STEP = "step"
    COSINE = "cosine"
    PLATEAU = "plateau"


class Measure(StrEnum):
    """The figure that validation watches."""

    ACCURACY = "accuracy"
    LOSS = "loss"


class Preset(StrEnum):
    """Networks that need no list of layers."""

    VGG11 = "vgg11"
    VGG13 = "vgg13"
    VGG16 = "vgg16"
    VGG19 = "vgg19"
    MNIST_CNN = "mnist-cnn"


class DataName(StrEnum):
    """Data sets that need no description."""

    DIGITS = "digits"
    MNIST = "mnist"
    FASHION_MNIST = "fashion_mnist"
    CIFAR10 = "cifar10"
    CIFAR100 = "cifar100"
    IMAGENET = "imagenet"
    SYNTHETIC = "synthetic"
