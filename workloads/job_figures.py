"""What follows from a job's fields: net, data, image size. Pure, and without the library that checks the fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.datasets import DATASETS, DataSet
from workloads.terms import Preset
from workloads.vgg import VGG_DENSE, VGG_DROPOUT, VGG_FEATURES, Head, mnist_cnn, vgg

if TYPE_CHECKING:
    from workloads.job import DataSpec, ModelSpec
    from workloads.layers import Net


class JobFigures:
    """Properties of a job; the fields are declared by whoever inherits them."""

    if TYPE_CHECKING:
        model: ModelSpec
        data: DataSpec
        global_batch_size: int
        accumulate: int

    @property
    def micro_batch_size(self) -> int:
        """Images that all devices train at once; `accumulate` of these make a batch, and one step of the optimizer."""
        return self.global_batch_size // self.accumulate

    @property
    def known_data(self) -> DataSet | None:
        """What is known of the data set; None for a folder or an address."""
        return DATASETS[self.data.name] if self.data.name is not None else None

    @property
    def data_bytes(self) -> int | None:
        """What is fetched to where it trains; None where that is not known."""
        return self.known_data.download_bytes if self.known_data else self.data.size_bytes

    @property
    def train_images(self) -> int | None:
        """Images of one epoch; None where only the trainer can count them."""
        if self.data.images is not None:
            return self.data.images
        return self.known_data.train_images if self.known_data else None

    @property
    def image_size(self) -> int:
        """Pixels a side that the net sees."""
        known = self.known_data
        base = self.model.image_size or (known.image_size if known else None)
        if base is None:
            raise ValueError("model.image_size is needed: the data set does not tell its own")
        return max(1, round(base * self.model.image_size_multiplier))

    @property
    def classes(self) -> int:
        known = self.known_data
        classes = self.model.classes or (known.classes if known else None)
        if classes is None:
            raise ValueError("model.classes is needed: the data set does not tell its own")
        return classes

    @property
    def channels(self) -> int:
        return self.data.channels or (self.known_data.channels if self.known_data else 3)

    def net(self) -> Net:
        """The net as a layer list. Raises ImageTooSmallError (a ValueError) where the image vanishes on the way."""
        image = (self.image_size, self.channels)
        if self.model.preset is Preset.MNIST_CNN:
            return mnist_cnn(self.classes, image)
        head = Head(
            dense=VGG_DENSE if self.model.dense is None else self.model.dense,
            dropout=VGG_DROPOUT if self.model.dropout is None else self.model.dropout,
            classes=self.classes,
        )
        if self.model.preset is not None:
            name = f"{self.model.preset}{'_bn' if self.model.batch_norm else ''}"
            return vgg(name, VGG_FEATURES[self.model.preset], head, image, batch_norm=self.model.batch_norm)
        return vgg("custom", self.model.layers or (), head, image, batch_norm=self.model.batch_norm)
