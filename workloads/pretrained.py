"""The weights that Keras publishes for VGG16 and VGG19: files, addresses, and the sums by which they are checked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.workloads.addresses import shown_address
from trainplan.workloads.terms import IMAGENET, Preset

if TYPE_CHECKING:
    from trainplan.workloads.job import TrainingJob


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedWeights:
    """One file of convolution weights, without dense layers. `md5` is the sum that Keras checks it by."""

    name: str
    origin: str
    md5: str
    weights: int

    @property
    def size_bytes(self) -> int:
        """About: 4 bytes for each weight; the file has some kB of names besides."""
        return 4 * self.weights


_KERAS = "https://storage.googleapis.com/tensorflow/keras-applications"
# Addresses and sums: keras.applications of Keras 3.15.1, read 2026-11-23. The counts are those of its VGG16 and VGG19
# without their dense layers. Trained on ImageNet by the authors of the nets; their weights are under CC BY 4.0.
PUBLISHED_WEIGHTS: dict[Preset, PublishedWeights] = {
    Preset.VGG16: PublishedWeights(
        name="vgg16_weights_tf_dim_ordering_tf_kernels_notop.h5",
        origin=f"{_KERAS}/vgg16/vgg16_weights_tf_dim_ordering_tf_kernels_notop.h5",
        md5="6d6bbae143d832006294945121d1f1fc",
        weights=14_714_688,
    ),
    Preset.VGG19: PublishedWeights(
        name="vgg19_weights_tf_dim_ordering_tf_kernels_notop.h5",
        origin=f"{_KERAS}/vgg19/vgg19_weights_tf_dim_ordering_tf_kernels_notop.h5",
        md5="253f8cb515780f3b799900260a226db6",
        weights=20_024_384,
    ),
}


WEIGHTS_FILE = "weights.keras"
"""The file of `model.weights` in a run directory, where a launch on this computer puts it."""


_ADDRESS = re.compile(r"(s3|gs|az|https)://.+")


def weights_address(job: TrainingJob) -> str | None:
    """The address, in a bucket or on the web, of the file that a job begins with; None for every other job."""
    weights = job.model.weights
    return weights if weights is not None and _ADDRESS.fullmatch(weights) else None


def weights_file(job: TrainingJob) -> Path | None:
    """The file of this computer that a job begins with; None for every other job."""
    weights = job.model.weights
    return None if weights in (None, IMAGENET) or weights_address(job) else Path(str(weights))


def published_weights(job: TrainingJob) -> PublishedWeights | None:
    """The file that a job with `weights: imagenet` downloads; None for every other job."""
    if job.model.weights != IMAGENET or job.model.preset is None:
        return None
    return PUBLISHED_WEIGHTS[job.model.preset]


def weights_lines(job: TrainingJob) -> tuple[str, ...]:
    """`weights_text` as a line of what a person agrees to before a launch; () where all weights begin at random."""
    text = weights_text(job)
    return (f"begins with {text}",) if text else ()


def weights_text(job: TrainingJob) -> str:
    """Say with which weights the job begins; "" where all begin at random."""
    if job.model.weights is None:
        return ""
    published = published_weights(job)
    if published is None:
        fetched = " (a rented machine fetches them)" if weights_address(job) else ""
        return f"weights of {shown_address(job.model.weights)}{fetched}"
    size = f"{published.size_bytes / 1e6:.0f} MB"
    return f"weights of ImageNet, about {size} from {published.origin} (MD5 {published.md5})"
