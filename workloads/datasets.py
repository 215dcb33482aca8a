"""Known data sets: images, shape, classes and bytes, so that a job need not repeat them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
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


_ROWS = (
    DataSet(
        name="digits",
        train_images=1_437,
        hold_out_images=360,
        image_size=8,
        channels=1,
        classes=10,
        download_bytes=0,
        source="scikit-learn load_digits: 1,797 images, stratified 20 % hold-out",
    ),
    DataSet(
        name="mnist",
        train_images=60_000,
        hold_out_images=10_000,
        image_size=28,
        channels=1,
        classes=10,
        download_bytes=11_490_434,
        source="keras.datasets.mnist, mnist.npz",
    ),
    DataSet(
        name="fashion_mnist",
        train_images=60_000,
        hold_out_images=10_000,
        image_size=28,
        channels=1,
        classes=10,
        download_bytes=30_878_645,
        source="keras.datasets.fashion_mnist, four gzip files",
    ),
    DataSet(
        name="cifar10",
        train_images=50_000,
        hold_out_images=10_000,
        image_size=32,
        channels=3,
        classes=10,
        download_bytes=170_498_071,
        source="keras.datasets.cifar10, cifar-10-python.tar.gz",
    ),
    DataSet(
        name="cifar100",
        train_images=50_000,
        hold_out_images=10_000,
        image_size=32,
        channels=3,
        classes=100,
        download_bytes=169_001_437,
        source="keras.datasets.cifar100, cifar-100-python.tar.gz",
    ),
    DataSet(
        name="imagenet",
        train_images=1_281_167,
        hold_out_images=50_000,
        image_size=224,
        channels=3,
        classes=1_000,
        download_bytes=150_000_000_000,
        source="ILSVRC 2012: 1,281,167 training images; about 150 GB as JPEG",
    ),
    DataSet(
        name="synthetic",
        train_images=50_000,
        hold_out_images=1_000,
        image_size=32,
        channels=3,
        classes=10,
        download_bytes=0,
        source="made where it is used, from the job's seed",
    ),
)
DATASETS: dict[str, DataSet] = {row.name: row for row in _ROWS}
