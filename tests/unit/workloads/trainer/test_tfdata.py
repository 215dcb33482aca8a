"""The tf.data feeds show the schedule's order from any step on, in one static shape."""

from __future__ import annotations

import dataclasses
import os
import re
from collections import Counter, deque
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.workloads.data_folder.builders import example
from tests.unit.workloads.trainer.builders import numbered
from trainplan.workloads.trainer import tfdata
from trainplan.workloads.trainer.damage import naming_damaged
from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.feed import Schedule, training_batches
from trainplan.workloads.trainer.folders import FolderQuery, open_folder
from trainplan.workloads.trainer.images import ArrayImages, FileImages, Images, RecordImages

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("default")]

QUERY = FolderQuery(size=6, channels=1, classes=3)


def schedule(first_step: int = 0, batch_size: int = 4, steps_per_epoch: int = 5) -> Schedule:
    return Schedule(batch_size=batch_size, steps_per_epoch=steps_per_epoch, epochs=3, seed=7, first_step=first_step)


def orders(tf: Any, images: Images, plan: Schedule) -> list[list[int]]:
    """Per batch, the top left pixel of every image: which image it is."""
    return [batch[:, 0, 0, 0].tolist() for batch, _ in tfdata.training_dataset(tf, images, plan).as_numpy_iterator()]


@pytest.mark.parametrize("step", [0, 1, 4, 5, 7, 14])
def test_arrays_come_as_scheduled_from_any_step_on(tensorflow: Any, step: int) -> None:
    expected = [labels.tolist() for _, labels in training_batches(numbered(), schedule(step))]
    assert orders(tensorflow, numbered(), schedule(step)) == expected
    assert len(expected) == 15 - step


def test_shapes_are_static(tensorflow: Any) -> None:
    images, labels = tfdata.training_dataset(tensorflow, numbered(), schedule()).element_spec
    assert (images.shape, images.dtype.name) == ((4, 2, 2, 1), "uint8")
    assert (labels.shape, labels.dtype.name) == ((4,), "int32")


def test_the_hold_out_comes_whole_and_in_order(tensorflow: Any) -> None:
    labels = [batch.tolist() for _, batch in tfdata.ordered_dataset(tensorflow, numbered(10), 4).as_numpy_iterator()]
    assert labels == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


@pytest.fixture
def files(image_folder: Path) -> FileImages:
    train = open_folder(image_folder, QUERY).train
    assert isinstance(train, FileImages)
    return train


def test_files_are_decoded_to_the_jobs_size(tensorflow: Any, files: FileImages) -> None:
    spec = tfdata.training_dataset(tensorflow, files, schedule()).element_spec
    assert spec[0].shape == (4, 6, 6, 1)
    for pixels, labels in tfdata.training_dataset(tensorflow, files, schedule()).as_numpy_iterator():
        assert (pixels[:, 0, 0, 0] // 60 == labels).all()


def test_files_without_tensorflow_come_in_the_same_order(tensorflow: Any, files: FileImages) -> None:
    with_it = tfdata.training_dataset(tensorflow, files, schedule(3)).as_numpy_iterator()
    for (pixels, labels), (others, other_labels) in zip(with_it, training_batches(files, schedule(3)), strict=True):
        assert (labels == other_labels).all()
        assert (pixels == others).all()


def test_files_that_fit_are_kept_in_memory(tensorflow: Any, files: FileImages) -> None:
    needed = files.count * 6 * 6
    cached = tfdata.cached(tensorflow, files, 4 * needed)
    assert isinstance(cached, ArrayImages)
    assert (cached.count, cached.size) == (files.count, 6)
    assert (cached.labels == files.labels).all()
    assert orders(tensorflow, cached, schedule(2)) == orders(tensorflow, files, schedule(2))
    assert tfdata.cached(tensorflow, files, 4 * needed - 1) is files
    assert tfdata.cached(tensorflow, files, None) is files


def test_a_damaged_file_is_named(tensorflow: Any, files: FileImages) -> None:
    Path(files.paths[50]).write_bytes(b"no image")
    message = re.escape(f"{files.paths[50]} cannot be read as an image (it is no JPEG")
    with pytest.raises(BadInputError, match=message), naming_damaged(files):
        orders(tensorflow, files, schedule(batch_size=20))


def encoded(tf: Any, value: int) -> bytes:
    png: bytes = tf.io.encode_png(np.full((7, 9, 1), value, np.uint8)).numpy()
    return png


def write_records(tf: Any, path: Path, values: range, classes: int = 3) -> None:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for value in values:
            features = {
                "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[encoded(tf, value)])),
                "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[value % classes])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())


@pytest.fixture
def record_folder(tensorflow: Any, tmp_path: Path) -> Path:
    """Three files of 20 images; image i is all i."""
    for number in range(3):
        write_records(tensorflow, tmp_path / f"{number}.tfrecord", range(20 * number, 20 * number + 20))
    return tmp_path


def test_records_show_every_image_once_and_none_of_the_hold_out(tensorflow: Any, record_folder: Path) -> None:
    split = open_folder(record_folder, QUERY)
    assert (split.train.count, split.hold_out.count) == (54, 6)
    plan = schedule(batch_size=6, steps_per_epoch=9)
    epochs = np.array(orders(tensorflow, split.train, plan)).reshape(3, 54)
    batches = list(tfdata.ordered_dataset(tensorflow, split.hold_out, 4).as_numpy_iterator())
    held = {int(value) for batch, _ in batches for value in batch[:, 0, 0, 0]}
    assert Counter(value % 3 for value in held) == {0: 2, 1: 2, 2: 2}, "of each class one in ten"
    for epoch in epochs:
        assert set(epoch.tolist()) == set(range(60)) - held
    assert (epochs[0] != epochs[1]).any()


@pytest.mark.parametrize("step", [1, 9, 13])
def test_records_go_on_exactly_where_they_were(tensorflow: Any, record_folder: Path, step: int) -> None:
    train = open_folder(record_folder, QUERY).train
    whole = orders(tensorflow, train, schedule(batch_size=6, steps_per_epoch=9))
    assert orders(tensorflow, train, schedule(step, batch_size=6, steps_per_epoch=9)) == whole[step:]


def test_records_have_their_labels(tensorflow: Any, record_folder: Path) -> None:
    train = open_folder(record_folder, QUERY).train
    for pixels, labels in tfdata.training_dataset(tensorflow, train, schedule()).as_numpy_iterator():
        assert (pixels[:, 0, 0, 0] % 3 == labels).all()


def test_a_label_out_of_range_is_told_when_it_is_trained_on(tensorflow: Any, record_folder: Path) -> None:
    """Wherever it lies: the look at the first records does not see it."""
    images = open_folder(record_folder, QUERY).train
    assert isinstance(images, RecordImages)
    two = dataclasses.replace(images, classes=2)
    message = r"record \d+ of \S+\d\.tfrecord has the label 2; the 2 classes have the labels 0 to 1: write data\."
    with pytest.raises(BadInputError, match=message), naming_damaged(two):
        orders(tensorflow, two, schedule())


@pytest.mark.parametrize("place", [-1, -40])
def test_a_record_whose_checksum_does_not_fit_is_named(tensorflow: Any, record_folder: Path, place: int) -> None:
    images = open_folder(record_folder, QUERY).train
    second = record_folder / "1.tfrecord"
    data = bytearray(second.read_bytes())
    data[place] ^= 4
    second.write_bytes(data)
    message = re.escape(f"record 19 of {second} is damaged: its checksum does not fit; write the file again")
    with pytest.raises(BadInputError, match=message), naming_damaged(images):
        orders(tensorflow, images, schedule(batch_size=6, steps_per_epoch=9))


def test_labels_that_begin_at_one_are_read_from_zero(tensorflow: Any, tmp_path: Path) -> None:
    write_records(tensorflow, tmp_path / "a.tfrecord", range(1, 31), classes=4)
    split = open_folder(tmp_path, dataclasses.replace(QUERY, first_label=1))
    values = range(1, 31)
    assert split.train.count == 26
    assert {value % 4 for value in values} == {0, 1, 2, 3}
    with pytest.raises(BadInputError, match="the labels 1 to 3"), naming_damaged(split.train):
        orders(tensorflow, split.train, schedule())


@pytest.mark.parametrize("count", [24, 108])
def test_another_number_than_there_are_is_refused_before_anything_is_trained(record_folder: Path, count: int) -> None:
    message = f"there are 54 images to train on, and data.images says {count}; write data.images: 54, or leave it out"
    with pytest.raises(BadInputError, match=message):
        open_folder(record_folder, dataclasses.replace(QUERY, count=count))
    assert open_folder(record_folder, dataclasses.replace(QUERY, count=54)).train.count == 54


def test_records_that_went_away_meanwhile_are_told(tensorflow: Any, record_folder: Path) -> None:
    images = open_folder(record_folder, QUERY).train
    assert isinstance(images, RecordImages)
    assert images.kept is not None
    # TensorFlow writes the features of a record in any order, and which are held out depends on the bytes.
    there = sum(int(kept.sum()) for kept in images.kept[:2])
    less = dataclasses.replace(images, files=images.files[:2])
    seen = iter(tfdata.training_dataset(tensorflow, less, schedule(batch_size=6, steps_per_epoch=9)))
    with (
        pytest.raises(BadInputError, match=f"the training records hold {there} images, and 54 were counted before"),
        naming_damaged(less),
    ):
        deque(islice(seen, 9))


def test_records_with_the_keys_of_tensorflow_datasets_are_read(tensorflow: Any, tmp_path: Path) -> None:
    encoded_images = [example(encoded(tensorflow, value), value % 3, ("image", "label")) for value in range(20)]
    with tensorflow.io.TFRecordWriter(str(tmp_path / "toys-train.tfrecord-00000-of-00001")) as writer:
        for data in encoded_images:
            writer.write(data)
    split = open_folder(tmp_path, QUERY)
    assert split.train.count == 17
    for pixels, labels in tfdata.training_dataset(
        tensorflow, split.train, schedule(steps_per_epoch=4)
    ).as_numpy_iterator():
        assert (pixels[:, 0, 0, 0] % 3 == labels).all()


def test_names_that_are_not_utf_8_are_read(tensorflow: Any, image_folder: Path) -> None:
    for path in sorted(image_folder.rglob("*.png")):
        path.rename(path.with_name(os.fsdecode(b"\xff" + os.fsencode(path.name))))
    train = open_folder(image_folder, QUERY).train
    assert isinstance(train, FileImages)
    batches = tfdata.ordered_dataset(tensorflow, train, 8)
    labels = [label for _, labels in batches for label in labels.numpy().tolist()]
    assert labels == train.labels.tolist()


def test_records_whose_names_are_not_utf_8_are_read(tensorflow: Any, record_folder: Path) -> None:
    for path in sorted(record_folder.rglob("*.tfrecord*")):
        path.rename(path.with_name(os.fsdecode(b"\xff" + os.fsencode(path.name))))
    train = open_folder(record_folder, QUERY).train
    assert len(orders(tensorflow, train, schedule())) == 15
