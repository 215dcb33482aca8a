"""The job that a folder of images gets where nothing else is said: a network, a batch, and epochs that it learns in.

The figures are usual ones, assumed to fit; docs/data.md has what they gave on folders of benchmarks/first_models.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from trainplan.workloads.pretrained import PUBLISHED_WEIGHTS
from trainplan.workloads.terms import IMAGENET, LAYER_LISTS, Preset

if TYPE_CHECKING:
    from trainplan.workloads.graph import Graph

SMALL_NETWORK: dict[str, Any] = {
    "layers": [32, "M", 64, "M", 128, "M", 128, "M"], "batch_norm": True, "dense": [128], "dropout": 0.5,
}  # fmt: skip
"""Learns from some hundred images, and trains on a computer without a GPU."""
SMALL_IMAGE_PX = (16, 64)
"""The sides that it is given: four pools leave nothing of fewer pixels, and more take time."""
FEW_IMAGES = 5_000
"""Below, a large network that begins at random learns the images and not the classes (assumed)."""
_BATCH = {FEW_IMAGES: 32, 50_000: 64}
"""The largest batch below so many images: small batches give more steps, of which few images have too few."""
USUAL_BATCH = 128
_STEPS = 2_000
"""After which a network has usually stopped improving; epochs follow from it, between these."""
_EPOCHS = (10, 60)


class Defaults(NamedTuple):
    """Values of a job by its parts, and one sentence why."""

    values: dict[str, Any]
    why: str


def largest_batch_for(images: int) -> int:
    """The batch to use of so many training images, where the memory has room for it."""
    return next((batch for below, batch in _BATCH.items() if images < below), USUAL_BATCH)


def defaults_for(preset: str, network: Graph | None, images: int, batch: int, channels: int) -> Defaults:
    """What a job says that trains on `images` images of so many channels in batches of `batch`. `preset` is "" for the
    small network and for one of a file, whose `network` is None where it is not read yet."""
    weights = _begins_with_weights(preset, images, channels)
    steps_per_epoch = max(1, images // batch)
    least, most = _EPOCHS
    epochs = min(most, max(least, -(-_STEPS // steps_per_epoch)))
    model: dict[str, Any] = {}
    if weights:
        model = {"weights": IMAGENET, "freeze": "block5", "dense": [256], "dropout": 0.5}
    elif preset in LAYER_LISTS and preset != Preset.MNIST_CNN and images < FEW_IMAGES:
        model = {"batch_norm": True, "dense": [256]}
    # Without batch norm a large network that begins at random does not survive a step of 0.001.
    steady = bool(model) or network is None or bool(network.statistics)
    rate = 0.001 if steady else 0.0003
    values = {
        "model": model,
        "epochs": epochs,
        "optimizer": {"name": "adam", "learning_rate": rate, "schedule": {"name": "cosine"}},
        "augment": {"crop": 0.7, "brightness": 0.1, "contrast": 0.1},
        "validation": {"every_epochs": 1, "patience": max(5, epochs // 3)},
    }
    return Defaults(values, _why(preset, images, weights=weights, changed=bool(model)))


def _begins_with_weights(preset: str, images: int, channels: int) -> bool:
    """Whether the trainer can begin with published weights, and should: of many images a network learns its own."""
    return preset in PUBLISHED_WEIGHTS and channels == 3 and images < FEW_IMAGES


def _why(preset: str, images: int, *, weights: bool, changed: bool) -> str:
    if weights:
        return (
            f"{images:,} images are few for {preset} from random weights: it begins with those published for ImageNet, "
            "which the trainer downloads; without network, leave out weights and freeze and write batch_norm: true"
        )
    if changed:
        return f"{images:,} images are few for {preset}: batch norm and a smaller dense layer let it learn from them"
    return f"batch, epochs and augmentation are those for {images:,} images"
