"""The words and limits of a job file: what each choice is called. Imports nothing that takes time."""

from __future__ import annotations

from enum import StrEnum

MAX_IMAGE_SIZE_PX = 4_096
MAX_LAYERS = 400
MAX_IMAGES = 10**12
MAX_USD = 10**9
MAX_DATA_BYTES = 10**15
MAX_SECRETS = 50


class Precision(StrEnum):
    FP32 = "fp32"
    TF32 = "tf32"
    AMP_FP16 = "amp_fp16"
    AMP_BF16 = "amp_bf16"


class Framework(StrEnum):
    TENSORFLOW = "tensorflow"
    JAX = "jax"
    TORCH = "torch"


class Objective(StrEnum):
    COST = "cost"
    TIME = "time"
    BALANCED = "balanced"


class OnSlow(StrEnum):
    ASK = "ask"
    CONTINUE = "continue"
    STOP = "stop"
    REPLAN = "replan"


class OptimizerName(StrEnum):
    SGD = "sgd"
    ADAM = "adam"
    RMSPROP = "rmsprop"


class Preset(StrEnum):
    VGG11 = "vgg11"
    VGG13 = "vgg13"
    VGG16 = "vgg16"
    VGG19 = "vgg19"
    MNIST_CNN = "mnist-cnn"


class DataName(StrEnum):
    DIGITS = "digits"
    MNIST = "mnist"
    FASHION_MNIST = "fashion_mnist"
    CIFAR10 = "cifar10"
    CIFAR100 = "cifar100"
    IMAGENET = "imagenet"
    SYNTHETIC = "synthetic"
