"""Known data sets: images, shape, classes and bytes, so that a job need not repeat them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DataSet:
    """`image_size` px a side as stored (ImageNet: as usually trained), `download_bytes` as fetched and kept.

    `hold_out_images` are for testing only. `download_bytes` is 0 where nothing is fetched.
    """

    name: str
    train_images: int
    hold_out_images: int
    image_size: int
    channels: int
    classes: int
    download_bytes: int
    source: str


# name, training images, hold-out images, image size, channels, classes, download bytes, source
_ROWS = (
    DataSet("digits", 1_437, 360, 8, 1, 10, 0, "scikit-learn load_digits: 1,797 images, stratified 20 % hold-out"),
    DataSet("mnist", 60_000, 10_000, 28, 1, 10, 11_490_434, "keras.datasets.mnist, mnist.npz"),
    DataSet("fashion_mnist", 60_000, 10_000, 28, 1, 10, 30_878_645, "keras.datasets.fashion_mnist, four gzip files"),
    DataSet("cifar10", 50_000, 10_000, 32, 3, 10, 170_498_071, "keras.datasets.cifar10, cifar-10-python.tar.gz"),
    DataSet("cifar100", 50_000, 10_000, 32, 3, 100, 169_001_437, "keras.datasets.cifar100, cifar-100-python.tar.gz"),
    DataSet(
        "imagenet", 1_281_167, 50_000, 224, 3, 1_000, 150_000_000_000,
        "ILSVRC 2012: 1,281,167 training images; about 150 GB as JPEG",
    ),
    DataSet("synthetic", 50_000, 1_000, 32, 3, 10, 0, "made where it is used, from the job's seed"),
)  # fmt: skip
DATASETS: dict[str, DataSet] = {row.name: row for row in _ROWS}
