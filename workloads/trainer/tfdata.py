"""The same feeds as tf.data pipelines: decoded in parallel, read ahead, one static shape."""

from __future__ import annotations

import os
from typing import Any, assert_never

import numpy as np

from workloads.trainer.errors import BadInputError
from workloads.trainer.feed import Schedule, epoch_orders
from workloads.trainer.folders import HOLD_OUT_EVERY
from workloads.trainer.images import ArrayImages, FileImages, Images, Keep, RecordImages, in_memory

# Files read at once, and raw records among which the next is drawn: about 1 GB of JPEG at ImageNet's 110 kB.
_FILES_AT_ONCE = 16
_SHUFFLED_RECORDS = 8_192
_PROBED_RECORDS = 1_024
# Only a quarter of the memory: the framework, the checkpoint's copy and the page cache want theirs.
_CACHE_SHARE = 4


def training_dataset(tf: Any, images: Images, schedule: Schedule) -> Any:
    """(uint8 images, int32 labels) by the batch, from the schedule's first step to its last."""
    match images:
        case ArrayImages():
            rows = _orders(tf, images.count, schedule).batch(schedule.fed_batch_size, drop_remainder=True)
            dataset = _gathered(tf, images, rows)
        case FileImages():
            order = _orders(tf, images.count, schedule)
            dataset = _decoded_files(tf, images, order).batch(schedule.fed_batch_size, drop_remainder=True)
        case RecordImages():
            dataset = _decoded_records(tf, images, _shuffled_records(tf, images, schedule))
            dataset = dataset.batch(schedule.fed_batch_size, drop_remainder=True)
        case _:
            assert_never(images)
    return _threaded(tf, dataset)


def ordered_dataset(tf: Any, images: Images, batch_size: int) -> Any:
    """Every image once, in order; the last batch may be smaller."""
    match images:
        case ArrayImages():
            rows = tf.data.Dataset.range(images.count).batch(batch_size, drop_remainder=images.count % batch_size == 0)
            dataset = _gathered(tf, images, rows)
        case FileImages():
            dataset = _decoded_files(tf, images, tf.data.Dataset.range(images.count)).batch(batch_size)
        case RecordImages():
            dataset = _decoded_records(tf, images, _kept_records(tf, images, tf.constant(_names(images.files))))
            dataset = dataset.batch(batch_size)
        case _:
            assert_never(images)
    return _threaded(tf, dataset)


def cached(tf: Any, images: Images, memory_bytes: int | None) -> Images:
    """The images decoded into memory where they take no more than a quarter of `memory_bytes`, else as they are."""
    if isinstance(images, ArrayImages) or memory_bytes is None:
        return images
    if images.count * images.size**2 * images.channels * _CACHE_SHARE > memory_bytes:
        return images
    pixels = np.empty((images.count, images.size, images.size, images.channels), np.uint8)
    labels = np.empty((images.count,), np.int32)
    filled = 0
    for batch, batch_labels in ordered_dataset(tf, images, 64).as_numpy_iterator():
        room = slice(filled, min(images.count, filled + len(batch)))
        pixels[room], labels[room] = batch[: room.stop - filled], batch_labels[: room.stop - filled]
        filled = room.stop
    return in_memory(pixels[:filled], labels[:filled])


def check_records(tf: Any, images: Images, classes: int) -> None:
    """Look at the first records. Raises BadInputError where they lack a feature or a label is out of range."""
    if not isinstance(images, RecordImages):
        return
    labels = (
        tf.data.TFRecordDataset(_names(images.files[:1])).take(_PROBED_RECORDS).map(lambda raw: _parsed(tf, raw)[1])
    )
    try:
        found = list(labels.as_numpy_iterator())
    except (tf.errors.InvalidArgumentError, tf.errors.DataLossError) as error:
        raise BadInputError(
            f"{images.files[0]} does not hold tf.train.Example records with image/encoded and image/class/label: "
            f"{str(error).splitlines()[0][:200]}"
        ) from error
    if found and not 0 <= min(found) <= max(found) < classes:
        raise BadInputError(
            f"{images.files[0]} has labels {min(found)} to {max(found)}; with {classes} classes they must run from 0 "
            f"to {classes - 1}: correct the records or model.classes"
        )


def _names(paths: tuple[str, ...]) -> list[bytes]:
    """The paths as the file system has them: TensorFlow takes no text that is not UTF-8."""
    return [os.fsencode(path) for path in paths]


def _threaded(tf: Any, dataset: Any) -> Any:
    options = tf.data.Options()
    options.deterministic = True
    # The tuner sleeps for twice as long each time, up to a minute, and the end of training waits until it wakes up:
    # 18 s after a run of 24. Without it a map takes as many threads as there are processors.
    options.autotune.enabled = False
    # One machine: its replicas each take their part of every batch, not every batch of their part.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return dataset.with_options(options).prefetch(tf.data.AUTOTUNE)


def _orders(tf: Any, count: int, schedule: Schedule) -> Any:
    spec = tf.TensorSpec((None,), tf.int64)
    orders = tf.data.Dataset.from_generator(lambda: epoch_orders(count, schedule), output_signature=spec)
    return orders.prefetch(1).flat_map(tf.data.Dataset.from_tensor_slices)


def _gathered(tf: Any, images: ArrayImages, rows: Any) -> Any:
    """Batches of row numbers are cheap; whole batches of images are gathered at once."""
    with tf.device("CPU:0"):
        pixels, labels = tf.constant(images.pixels), tf.constant(images.labels)
    held = len(images.labels)

    def gather(batch: Any) -> Any:
        return tf.gather(pixels, batch % held), tf.gather(labels, batch % held)

    return rows.map(gather, num_parallel_calls=tf.data.AUTOTUNE)


def _decoded_files(tf: Any, images: FileImages, order: Any) -> Any:
    with tf.device("CPU:0"):
        paths, labels = tf.constant(_names(images.paths)), tf.constant(images.labels)

    def decode(row: Any) -> Any:
        return _square(tf, tf.io.read_file(paths[row]), images), labels[row]

    return order.map(decode, num_parallel_calls=tf.data.AUTOTUNE)


def _decoded_records(tf: Any, images: RecordImages, records: Any) -> Any:
    def decode(raw: Any) -> Any:
        encoded, label = _parsed(tf, raw)
        return _square(tf, encoded, images), tf.cast(label, tf.int32)

    return records.map(decode, num_parallel_calls=tf.data.AUTOTUNE)


def _parsed(tf: Any, raw: Any) -> Any:
    features = {
        "image/encoded": tf.io.FixedLenFeature((), tf.string),
        "image/class/label": tf.io.FixedLenFeature((), tf.int64),
    }
    example = tf.io.parse_single_example(raw, features)
    return example["image/encoded"], example["image/class/label"]


def _square(tf: Any, encoded: Any, images: FileImages | RecordImages) -> Any:
    """The central square, resized, as uint8."""
    image = tf.io.decode_image(encoded, channels=images.channels, expand_animations=False)
    shape = tf.shape(image)
    side = tf.minimum(shape[0], shape[1])
    top, left = (shape[0] - side) // 2, (shape[1] - side) // 2
    square = image[top : top + side, left : left + side]
    resized = tf.image.resize(square, (images.size, images.size), antialias=True)
    return tf.ensure_shape(tf.saturate_cast(tf.round(resized), tf.uint8), (images.size, images.size, images.channels))


def _shuffled_records(tf: Any, images: RecordImages, schedule: Schedule) -> Any:
    """Epoch e reads the files, and draws among the records, in an order of (seed, e) alone."""
    epoch_images = schedule.steps_per_epoch * schedule.batch_size

    def epoch_records(epoch: Any) -> Any:
        order = tf.random.experimental.stateless_shuffle(tf.constant(_names(images.files)), seed=(schedule.seed, epoch))
        drawn = _kept_records(tf, images, order).shuffle(
            min(_SHUFFLED_RECORDS, images.count), seed=schedule.seed + epoch, reshuffle_each_iteration=False
        )
        return drawn.take(epoch_images)

    epochs = tf.data.Dataset.range(schedule.first_epoch, schedule.epochs)
    # Skipped while still encoded: bytes are read past, nothing is decoded.
    return epochs.flat_map(epoch_records).skip(schedule.skipped_steps * schedule.batch_size)


def _kept_records(tf: Any, images: RecordImages, files: Any) -> Any:
    # Chosen out here: what runs inside the pipeline is compiled, and must be plain.
    match images.keep:
        case Keep.ALL:
            kept = _any_record
        case Keep.TRAIN:
            kept = _trained_record
        case Keep.HOLD_OUT:
            kept = _held_out_record
        case _:
            assert_never(images.keep)

    def of_file(file: Any) -> Any:
        return tf.data.TFRecordDataset(file).enumerate().filter(kept).map(_without_number)

    return tf.data.Dataset.from_tensor_slices(files).interleave(
        of_file, cycle_length=_FILES_AT_ONCE, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
    )


def _any_record(number: Any, raw: Any) -> Any:
    del raw
    return number >= 0


def _trained_record(number: Any, raw: Any) -> Any:
    del raw
    return number % HOLD_OUT_EVERY != 0


def _held_out_record(number: Any, raw: Any) -> Any:
    del raw
    return number % HOLD_OUT_EVERY == 0


def _without_number(number: Any, raw: Any) -> Any:
    del number
    return raw
