"""The same feeds as tf.data pipelines: decoded in parallel, read ahead, one static shape."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, assert_never

import numpy as np

from trainplan.workloads.trainer.damage import count_text, label_text, marked
from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.feed import Schedule, epoch_orders
from trainplan.workloads.trainer.images import (
    ArrayImages,
    FileImages,
    Images,
    Pixels,
    RecordImages,
    in_memory,
    pixels_of,
    pixels_of_file,
)
from trainplan.workloads.trainer.seeds import derived_seed

# Files read at once, and raw records among which the next is drawn: about 1 GB of JPEG at ImageNet's 110 kB.
_FILES_AT_ONCE = 16
_SHUFFLED_RECORDS = 8_192
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
    return _threaded(tf, _grouped(tf, dataset, schedule))


def ordered_dataset(tf: Any, images: Images, batch_size: int) -> Any:
    """Every image once, in order; the last batch may be smaller."""
    # The number of batches is said, so that Keras takes the last one for the end and not for data that ran out.
    return _threaded(tf, _in_order(tf, images, batch_size).apply(_holds(tf, -(-images.count // batch_size))))


def _in_order(tf: Any, images: Images, batch_size: int) -> Any:
    match images:
        case ArrayImages():
            rows = tf.data.Dataset.range(images.count).batch(batch_size, drop_remainder=images.count % batch_size == 0)
            dataset = _gathered(tf, images, rows)
        case FileImages():
            dataset = _decoded_files(tf, images, tf.data.Dataset.range(images.count)).batch(batch_size)
        case RecordImages():
            dataset = _decoded_records(tf, images, _kept_records(tf, images, tf.range(len(images.files))))
            dataset = dataset.batch(batch_size)
        case _:
            assert_never(images)
    return dataset


def cached(tf: Any, images: Images, memory_bytes: int | None) -> Images:
    """The images decoded into memory where they take no more than a quarter of `memory_bytes`, else as they are."""
    if isinstance(images, ArrayImages) or memory_bytes is None:
        return images
    if images.count * images.size**2 * images.channels * _CACHE_SHARE > memory_bytes:
        return images
    pixels = np.empty((images.count, images.size, images.size, images.channels), np.uint8)
    labels = np.empty((images.count,), np.int32)
    filled = 0
    for batch, batch_labels in _threaded(tf, _in_order(tf, images, 64)).as_numpy_iterator():
        if filled + len(batch) > images.count:
            raise BadInputError("there are more images than were counted: see that nobody changes the data meanwhile")
        room = slice(filled, filled + len(batch))
        pixels[room], labels[room] = batch, batch_labels
        filled = room.stop
    if filled < images.count:
        raise BadInputError(count_text(images.count, filled))
    return in_memory(pixels, labels)


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


def _grouped(tf: Any, dataset: Any, schedule: Schedule) -> Any:
    """A strategy gives device d the d-th stretch of a batch: it must hold that device's share of each part."""
    parts, devices = schedule.grouped
    if parts == 1:
        return dataset

    def regroup(values: Any) -> Any:
        split = tf.reshape(values, (parts, devices, -1, *values.shape[1:]))
        swapped = tf.transpose(split, (1, 0, *range(2, len(split.shape))))
        return tf.ensure_shape(tf.reshape(swapped, tf.shape(values)), values.shape)

    return dataset.map(lambda *batch: tuple(regroup(values) for values in batch), num_parallel_calls=tf.data.AUTOTUNE)


def _orders(tf: Any, count: int, schedule: Schedule) -> Any:
    spec = tf.TensorSpec((None,), tf.int64)
    orders = tf.data.Dataset.from_generator(lambda: epoch_orders(count, schedule), output_signature=spec)
    return orders.prefetch(1).flat_map(tf.data.Dataset.from_tensor_slices)


def _gathered(tf: Any, images: ArrayImages, rows: Any) -> Any:
    """Batches of row numbers are cheap; whole batches of images are gathered at once."""
    with tf.device("CPU:0"):
        pixels, labels = tf.constant(images.pixels), tf.constant(images.labels)
    held_count = len(images.labels)

    def gather(batch: Any) -> Any:
        return tf.gather(pixels, batch % held_count), tf.gather(labels, batch % held_count)

    return rows.map(gather, num_parallel_calls=tf.data.AUTOTUNE)


def _decoded_files(tf: Any, images: FileImages, order: Any) -> Any:
    with tf.device("CPU:0"):
        labels = tf.constant(images.labels)

    def read(row: Any) -> Any:
        return pixels_of_file(images, int(row))

    def decode(row: Any) -> Any:
        return _pixels(tf, read, [row], images), labels[row]

    return order.map(decode, num_parallel_calls=tf.data.AUTOTUNE)


def _decoded_records(tf: Any, images: RecordImages, records: Any) -> Any:
    features = {
        images.keys.image: tf.io.FixedLenFeature((), tf.string),
        images.keys.label: tf.io.FixedLenFeature((), tf.int64),
    }

    def read(file: bytes, number: Any, encoded: bytes, label: Any) -> Any:
        where = f"record {number} of {os.fsdecode(file)}"
        # A GPU looks a label up without asking whether it is there: the loss would be no number, or a wrong one.
        if not 0 <= label - images.first_label < images.classes:
            raise BadInputError(label_text(where, int(label), images))
        return pixels_of(encoded, where, images)

    def decode(file: Any, number: Any, raw: Any) -> Any:
        example = tf.io.parse_single_example(raw, features)
        label = example[images.keys.label]
        pixels = _pixels(tf, read, [file, number, example[images.keys.image], label], images)
        return pixels, tf.cast(label - images.first_label, tf.int32)

    return records.map(decode, num_parallel_calls=tf.data.AUTOTUNE)


def _pixels(tf: Any, read: Callable[..., Pixels], values: list[Any], images: FileImages | RecordImages) -> Any:
    """What `read` makes of `values`, in Python: the same as without TensorFlow, to the last bit (ADR 33)."""

    def marked_read(*arguments: Any) -> Any:
        try:
            return read(*arguments)
        except BadInputError as error:
            raise marked(error) from error

    pixels = tf.numpy_function(marked_read, values, tf.uint8, stateful=False)
    return tf.ensure_shape(pixels, (images.size, images.size, images.channels))


def _holds(tf: Any, elements: int) -> Any:
    return tf.data.experimental.assert_cardinality(elements)


def _shuffled_records(tf: Any, images: RecordImages, schedule: Schedule) -> Any:
    """Epoch e reads the files, and draws among the records, in an order of (seed, e) alone."""
    epoch_images = schedule.steps_per_epoch * schedule.batch_size
    files = tf.range(len(images.files))

    def epoch_records(epoch: Any, seed: Any) -> Any:
        order = tf.random.experimental.stateless_shuffle(files, seed=(schedule.seed, epoch))
        drawn = _kept_records(tf, images, order).shuffle(
            min(_SHUFFLED_RECORDS, images.count), seed=seed, reshuffle_each_iteration=False
        )
        return drawn.take(epoch_images).apply(_holds(tf, epoch_images))

    numbers = range(schedule.first_epoch, schedule.epochs)
    seeds = [derived_seed(schedule.seed, "records", epoch) for epoch in numbers]
    epochs = tf.data.Dataset.from_tensor_slices((tf.constant(numbers, tf.int64), tf.constant(seeds, tf.int64)))
    # Skipped while still encoded: bytes are read past, nothing is decoded.
    return epochs.flat_map(epoch_records).skip(schedule.skipped_steps * schedule.batch_size)


def _kept_records(tf: Any, images: RecordImages, numbers: Any) -> Any:
    """(file, number in it, raw record) of the records of the files with these numbers."""
    with tf.device("CPU:0"):
        names = tf.constant(_names(images.files))
        kept = tf.constant(np.concatenate([*(images.kept or ()), np.zeros(0, np.bool_)]))
        begins = tf.constant(np.cumsum([0, *map(len, images.kept or ())]), tf.int64)

    def all_of_file(file: Any) -> Any:
        return tf.data.TFRecordDataset(names[file]).enumerate().map(lambda number, raw: (names[file], number, raw))

    def kept_of_file(file: Any) -> Any:
        begin = begins[file]
        numbered = tf.data.TFRecordDataset(names[file]).enumerate()
        kept_here = numbered.filter(lambda number, _: kept[begin + number])
        return kept_here.map(lambda number, raw: (names[file], number, raw))

    return tf.data.Dataset.from_tensor_slices(numbers).interleave(
        all_of_file if images.kept is None else kept_of_file,
        cycle_length=_FILES_AT_ONCE,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
