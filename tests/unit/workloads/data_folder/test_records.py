"""TFRecords without TensorFlow: the same labels and images as TensorFlow writes, and words for damaged files."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workloads.data_folder.builders import example, frames, records
from trainplan.workloads.data_folder.records import KEYS, bytes_of, count_records, damaged_record, keys_of, read_records
from trainplan.workloads.data_folder.values import DataFolderError


def test_labels_and_images_are_found(tmp_path: Path) -> None:
    file = records(tmp_path / "a.tfrecord", [0, 7, 1_000, -1, 300], image=b"\x89PNG" * 100)
    found = list(read_records(file, KEYS[0]))
    assert [record.label for record in found] == [0, 7, 1_000, -1, 300]
    assert [record.number for record in found] == [0, 1, 2, 3, 4]
    assert {bytes_of(file, record) for record in found} == {
        b"\x89PNG" * 100 + b" %d" % number for number in range(len(found))
    }
    assert count_records(file) == 5


@pytest.mark.parametrize("keys", KEYS)
def test_both_pairs_of_keys_are_known(tmp_path: Path, keys: Any) -> None:
    file = frames(tmp_path / "a.tfrecord", [example(b"data", 3, (keys.image, keys.label))])
    assert keys_of(file) == keys
    assert [record.label for record in read_records(file, keys)] == [3]


@pytest.mark.train
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("keys", KEYS)
def test_what_tensorflow_writes_is_read(tmp_path: Path, keys: Any) -> None:
    tf = pytest.importorskip("tensorflow")
    path = tmp_path / "a.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for label in (0, 5, 128, -1):
            features = {
                keys.image: tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"%d" % label])),
                keys.label: tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                "height": tf.train.Feature(float_list=tf.train.FloatList(value=[1.5, 2.5])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    found = list(read_records(path, keys))
    assert [(record.label, bytes_of(path, record)) for record in found] == [
        (label, b"%d" % label) for label in (0, 5, 128, -1)
    ]


def test_other_features_are_named(tmp_path: Path) -> None:
    file = frames(tmp_path / "a.tfrecord", [example(b"data", 3, ("picture", "kind"))])
    with pytest.raises(DataFolderError, match="have the features kind, picture; needed are image/encoded and"):
        keys_of(file)


def test_something_else_in_the_frames_is_refused(tmp_path: Path) -> None:
    file = frames(tmp_path / "a.tfrecord", [b"not an example"])
    with pytest.raises(DataFolderError, match=r"does not hold tf\.train\.Example records"):
        keys_of(file)


def test_a_file_cut_short_is_named(tmp_path: Path) -> None:
    whole = records(tmp_path / "a.tfrecord", [1, 2])
    whole.write_bytes(whole.read_bytes()[:-1])
    for read in (count_records, lambda file: list(read_records(file, KEYS[0]))):
        with pytest.raises(DataFolderError, match=r"a\.tfrecord is cut short"):
            read(whole)


def test_an_empty_file_has_no_records(tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").touch()
    assert count_records(tmp_path / "a.tfrecord") == 0
    assert keys_of(tmp_path / "a.tfrecord") is None


@pytest.mark.parametrize("size", [0, 1, 3, 4, 127, 128, 129, 132, 133, 255, 256, 257, 1_021, 8_000])
def test_checksums_of_any_length_are_those_of_the_files(tmp_path: Path, size: int) -> None:
    """`frames` works them out byte by byte."""
    image = bytes(number * number % 251 for number in range(size))
    file = frames(tmp_path / "a", [example(image, 1)])
    (record,) = read_records(file, KEYS[0])
    assert bytes_of(file, record) == image


@pytest.mark.parametrize("place", [8, 100, -1])
def test_a_record_that_was_changed_is_told(tmp_path: Path, place: int) -> None:
    file = records(tmp_path / "a", [0, 1], b"\x89PNG" * 100)
    (_, record) = read_records(file, KEYS[0])
    begin, end = record.data
    data = bytearray(file.read_bytes())
    data[end + 4 + place if place < 0 else begin - 12 + place] ^= 4
    file.write_bytes(data)
    for changed in islice(read_records(file, KEYS[0]), 1, None):
        with pytest.raises(DataFolderError, match="its checksum does not fit"):
            bytes_of(file, changed)
    assert [damaged_record(file, offset) for offset in (0, begin - 12, begin)] == [None, 1, 1]
