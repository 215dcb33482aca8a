"""Which measured model a net is, and which net a measured model is."""

from __future__ import annotations

import hashlib
from functools import lru_cache

from trainplan.planner.throughput.remember import per_net
from trainplan.workloads.graph import Graph, Kind
from trainplan.workloads.layers import Conv, Dense, ImageTooSmallError, MaxPool, Net, parameters
from trainplan.workloads.terms import LAYER_LISTS, Preset
from trainplan.workloads.vgg import VGG_DENSE, VGG_DROPOUT, VGG_FEATURES, Head, vgg

_IMAGENET_CLASSES = 1_000
_PRESETS = frozenset(map(str, Preset)) - frozenset(map(str, LAYER_LISTS))
# Heads seen on VGG features: the published one, the published one for ten classes, and those of CIFAR nets.
_HEADS = ((VGG_DENSE, _IMAGENET_CLASSES), (VGG_DENSE, 10), ((512, 512), 10), ((512,), 10), ((), 10))


def model_key(net: Net | Graph) -> str:
    """The key under which measurements of this net are kept.

    A VGG net with the published features and hidden widths is `vgg16` or `vgg16_bn` whatever its class count and
    dropout, which cost next to nothing; any other list of layers is known by a digest of them. A network that is no
    list of layers is known by its name where that is a preset's, else by the digest of its operators.
    """
    if isinstance(net, Graph):
        return net.name if net.name in _PRESETS and not is_frozen(net) else f"net-{net.digest[:12]}"
    return _key(net, 0, 0)


def is_frozen(net: Net | Graph) -> bool:
    """Whether some of its weights are not trained."""
    if isinstance(net, Graph):
        return net.trained_parameters < net.parameters
    return bool(net.frozen)


@per_net
def _key(net: Net, _first: int, _second: int) -> str:
    if net.frozen:  # No measurement has frozen layers: this is another net.
        return "net-" + hashlib.sha256(repr((net.layers, net.frozen)).encode()).hexdigest()[:12]
    hidden = tuple(layer.units for layer in net.layers[:-1] if isinstance(layer, Dense))
    convs = [layer for layer in net.layers if isinstance(layer, Conv)]
    norms = {conv.batch_norm for conv in convs}
    if hidden == VGG_DENSE and len(norms) == 1 and all(conv.kernel == 3 and conv.stride == 1 for conv in convs):
        features = tuple(
            "M" if isinstance(layer, MaxPool) else layer.filters
            for layer in net.layers
            if isinstance(layer, Conv | MaxPool)
        )
        for name, published in VGG_FEATURES.items():
            if features == published:
                return f"{name}_bn" if norms == {True} else name
    return "net-" + hashlib.sha256(repr(net.layers).encode()).hexdigest()[:12]


def is_vgg(key: str) -> bool:
    """Whether a model key is one of the published nets, with or without batch norm."""
    return key.removesuffix("_bn") in VGG_FEATURES


def convolutions(net: Net | Graph) -> int:
    """How many convolutions a net has."""
    if isinstance(net, Graph):
        return sum(one.kind is Kind.CONVOLUTION for one in net.operators)
    return sum(isinstance(layer, Conv) for layer in net.layers)


def convolutions_of(model: str) -> int:
    """The same of a measured VGG, from its name."""
    return sum(step != "M" for step in VGG_FEATURES[model.partition("_")[0]])


@lru_cache(maxsize=1024)
def net_of(model: str, image_size_px: int, parameters_million: float | None = None) -> Net | None:
    """The layer list of a measured model at an image size; None for one not kept here, or an image that is too small.

    Sources put different heads on the features; where the parameters are stated, the head that comes nearest is
    taken, else the published one.
    """
    name, _, suffix = model.partition("_")
    if name not in VGG_FEATURES or suffix not in ("", "bn"):
        return None
    try:
        nets = [_net(name, suffix, image_size_px, dense, classes) for dense, classes in _HEADS]
        if parameters_million is None:
            return nets[0] if parameters(nets[0]) else None
        stated = parameters_million * 1e6
        return min(nets, key=lambda net: abs(parameters(net) - stated))
    except ImageTooSmallError:
        return None


def _net(name: str, suffix: str, image_size_px: int, dense: tuple[int, ...], classes: int) -> Net:
    head = Head(dense=dense, dropout=VGG_DROPOUT, classes=classes)
    return vgg(name, VGG_FEATURES[name], head, (image_size_px, 3), batch_norm=suffix == "bn")
