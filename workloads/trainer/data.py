"""The job's data, opened and split into what is trained on and what is held out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_never

import numpy as np

from trainplan.workloads.addresses import shown_address
from trainplan.workloads.data_folder.unwrapped import unwrapped
from trainplan.workloads.datasets import DATASETS
from trainplan.workloads.job import DataName, TrainingJob
from trainplan.workloads.trainer.downloads import fetched
from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.folders import FolderQuery, open_folder
from trainplan.workloads.trainer.images import ArrayImages, Images, Pixels, Split, in_memory

HOLD_OUT_SEED = 0
_DIGITS_HOLD_OUT = 360
# A pool this large is far beyond any cache on a device, and small beside a machine's memory.
_POOL_BYTES = 64 * 2**20
_PATTERN_SIDE = 4
_PIECE = 64


def open_data(job: TrainingJob, data_dir: Path) -> Split:
    """Raises BadInputError where the data is missing, damaged, or not what the job says it is."""
    split = _open(job, data_dir)
    for part in (split.train, split.hold_out):
        _check(job, part)
    if split.train.count < job.global_batch_size:
        raise BadInputError(
            f"a batch of {job.global_batch_size} cannot be taken from {split.train.count} training images; "
            f"write a global_batch_size of at most {split.train.count}"
        )
    return split


def _open(job: TrainingJob, data_dir: Path) -> Split:
    if job.data.path is not None:
        return open_folder(unwrapped(_folder(Path(job.data.path), data_dir)), _folder_query(job))
    if job.data.url is not None:
        if not data_dir.is_dir() or not any(data_dir.iterdir()):
            raise BadInputError(
                f"{shown_address(job.data.url)} was not fetched into {data_dir}; fetch it there, or write data.path"
            )
        return open_folder(unwrapped(data_dir), _folder_query(job))
    if job.data.name is None:
        raise BadInputError("the job names no data; write data.name, data.path or data.url")
    return _named_data(job, job.data.name, data_dir)


def _named_data(job: TrainingJob, name: DataName, data_dir: Path) -> Split:
    match name:
        case DataName.DIGITS:
            return digits()
        case DataName.SYNTHETIC:
            return synthetic(job)
        case DataName.IMAGENET:
            return _imagenet(job, data_dir)
        case DataName.MNIST | DataName.FASHION_MNIST | DataName.CIFAR10 | DataName.CIFAR100:
            return fetched(name, data_dir)
        case _:
            assert_never(name)


def digits() -> Split:
    """The 1,797 handwritten digits that come with scikit-learn, 8x8 px, 16 grey levels spread over 0 to 255.

    360 are held out, stratified by class, with seed 0: the same ones whatever the job's seed.
    """
    try:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split
    except ModuleNotFoundError as error:
        raise BadInputError(
            "the digits come with scikit-learn, which is not installed where the trainer runs"
        ) from error
    item = load_digits()
    pixels = np.rint(item.images * (255 / 16)).astype(np.uint8)
    train, hold_out = train_test_split(
        np.arange(len(pixels)), test_size=_DIGITS_HOLD_OUT, stratify=item.target, random_state=HOLD_OUT_SEED
    )
    return Split(
        train=in_memory(pixels[train], item.target[train]),
        hold_out=in_memory(pixels[hold_out], item.target[hold_out]),
        class_names=tuple(str(name) for name in item.target_names),
    )


def synthetic(job: TrainingJob) -> Split:
    """Images made from the job's seed: a coarse pattern per class under noise, so that a net can learn them."""
    count = job.train_images or DATASETS[DataName.SYNTHETIC].train_images
    image_bytes = job.image_size**2 * job.channels
    pool = min(count, max(job.global_batch_size, _POOL_BYTES // image_bytes))
    hold_out = min(DATASETS[DataName.SYNTHETIC].hold_out_images, max(1, _POOL_BYTES // image_bytes))
    random = np.random.default_rng(job.seed)
    patterns = random.integers(0, 256, (job.classes, _PATTERN_SIDE, _PATTERN_SIDE, job.channels), dtype=np.uint8)
    return Split(
        train=_made_images(job, patterns, pool, count, 1), hold_out=_made_images(job, patterns, hold_out, hold_out, 2)
    )


def _made_images(job: TrainingJob, patterns: Any, held_count: int, count: int, stream: int) -> ArrayImages:
    random = np.random.default_rng((job.seed, stream))
    labels = np.arange(held_count, dtype=np.int32) % job.classes
    shape = (held_count, job.image_size, job.image_size, job.channels)
    # Half pattern, half noise; by shifts and in pieces, so that no float copy of the pool is ever made.
    pixels: Pixels = random.integers(0, 256, shape, dtype=np.uint8)
    pixels >>= 1
    scale = np.arange(job.image_size) * _PATTERN_SIDE // job.image_size
    for start in range(0, held_count, _PIECE):
        piece = slice(start, start + _PIECE)
        pixels[piece] += (patterns[labels[piece]] >> 1)[:, scale][:, :, scale]
    return ArrayImages(pixels=pixels, labels=labels, count=count)


def _imagenet(job: TrainingJob, data_dir: Path) -> Split:
    folder = data_dir / DataName.IMAGENET.value
    if not folder.is_dir():
        raise BadInputError(
            f"ImageNet may not be downloaded without an account: put its TFRecords, or train/ and validation/ with a "
            f"sub-folder per class, into {folder}, or write data: {{path: FOLDER}} with model.image_size and "
            "model.classes: 1000"
        )
    return open_folder(unwrapped(folder), _folder_query(job))


def _folder_query(job: TrainingJob) -> FolderQuery:
    return FolderQuery(
        size=job.decoded_size,
        channels=job.channels,
        classes=job.classes,
        count=job.data.images,
        first_label=job.data.first_label,
    )


def _folder(path: Path, data_dir: Path) -> Path:
    """The path as written where it is seen from here, else the folder the launcher brought instead."""
    if path.is_dir() or not data_dir.is_dir() or not any(data_dir.iterdir()):
        return path
    return data_dir


def _check(job: TrainingJob, images: Images) -> None:
    if images.channels != job.channels:
        raise BadInputError(
            f"the images have {images.channels} channels, the job says {job.channels}; correct data.channels"
        )
    if isinstance(images, ArrayImages) and int(images.labels.max()) >= job.classes:
        count = int(images.labels.max()) + 1
        raise BadInputError(f"the data has {count} classes, the job {job.classes}; write model.classes: {count}")
