"""Which networks are built alike."""

from __future__ import annotations

_FAMILIES = {
    **dict.fromkeys(("resnet", "resnext", "seresnet", "seresnext", "wide_resnet"), "resnet"),
    **{"regnet": "regnet", "convnext": "convnext", "vgg": "vgg", "alexnet": "alexnet", "overfeat": "alexnet"},
    **{"inception": "inception", "googlenet": "inception", "xception": "inception"},
    **{"mobilenet": "mobile", "mnasnet": "mobile", "efficientnet": "mobile"},
    **{"densenet": "dense", "squeezenet": "squeeze", "repvgg": "repvgg"},
}
TINY = "tiny"
_TINY_NETWORKS = {"lenet5", "mnist_cnn", "cifar10_cnn", "resnetsmall", "tinyvgg", "mnist-cnn"}
_OWN_FAMILIES = {"alexnet_stride1_profet": "alexnet_of_small_steps"}


def family_of_network(model: str) -> str:
    """The family of networks that a model belongs to; its own name where it is of none."""
    if model in _TINY_NETWORKS:
        return TINY
    if model in _OWN_FAMILIES:
        return _OWN_FAMILIES[model]
    return next((family for start, family in _FAMILIES.items() if model.startswith(start)), model)
