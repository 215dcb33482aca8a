"""Which measured model a net is, and which net a measured model is."""

from __future__ import annotations

import hashlib
from functools import lru_cache

from workloads.layers import Conv, Dense, MaxPool, Net
from workloads.vgg import VGG_DENSE, VGG_DROPOUT, VGG_FEATURES, Head, vgg

_IMAGENET_CLASSES = 1_000


@lru_cache(maxsize=64)
def model_key(net: Net) -> str:
    """The key under which measurements of this net are kept.

    A VGG net with the published features and hidden widths is `vgg16` or `vgg16_bn` whatever its class count and
    dropout, which cost next to nothing; any other net is known by a digest of its layers.
    """
    features = tuple(
        "M" if isinstance(layer, MaxPool) else layer.filters
        for layer in net.layers
        if isinstance(layer, Conv | MaxPool)
    )
    hidden = tuple(layer.units for layer in net.layers[:-1] if isinstance(layer, Dense))
    convs = [layer for layer in net.layers if isinstance(layer, Conv)]
    plain = all(conv.kernel == 3 and conv.stride == 1 for conv in convs)
    norms = {conv.batch_norm for conv in convs}
    if plain and hidden == VGG_DENSE and len(norms) == 1:
        for name, published in VGG_FEATURES.items():
            if features == published:
                return f"{name}_bn" if norms == {True} else name
    return "net-" + hashlib.sha256(repr(net.layers).encode()).hexdigest()[:12]


@lru_cache(maxsize=256)
def net_of(model: str, image_size_px: int) -> Net | None:
    """The layer list of a measured model at an image size; None where no list of it is kept here."""
    name, _, suffix = model.partition("_")
    if name not in VGG_FEATURES or suffix not in ("", "bn"):
        return None
    head = Head(dense=VGG_DENSE, dropout=VGG_DROPOUT, classes=_IMAGENET_CLASSES)
    return vgg(model, VGG_FEATURES[name], head, (image_size_px, 3), batch_norm=suffix == "bn")
