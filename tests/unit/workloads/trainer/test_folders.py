"""Folders of images and TFRecords: what is found, how it is split, and what is said when it does not fit."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from workloads.trainer.errors import BadInputError
from workloads.trainer.folders import Wanted, count_records, left_out_text, open_folder
from workloads.trainer.images import FileImages, Keep, RecordImages

THREE = Wanted(size=8, channels=1, classes=3)


def files(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")


def records(path: Path, lengths: list[int]) -> Path:
    """A TFRecord file as it is framed; the checksums are not looked at when counting."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(struct.pack("<QI", size, 0) + bytes(size) + bytes(4) for size in lengths))
    return path


def test_one_image_in_ten_is_held_out_whatever_the_machine(image_folder: Path) -> None:
    split = open_folder(image_folder, THREE)
    assert isinstance(split.train, FileImages)
    assert isinstance(split.hold_out, FileImages)
    held = {str(Path(path).relative_to(image_folder)) for path in split.hold_out.paths}
    assert split.train.count + split.hold_out.count == 120
    assert not held & {str(Path(path).relative_to(image_folder)) for path in split.train.paths}
    # By SHA-256 of the path below the folder: the same images everywhere, for ever.
    held_cats = ["cat/007.png", "cat/031.png", "cat/032.png", "cat/037.png"]
    assert sorted(name for name in held if name.startswith("cat")) == held_cats
    assert split.class_names == ("cat", "dog", "eel")


def test_labels_number_the_classes_by_name(image_folder: Path) -> None:
    train = open_folder(image_folder, THREE).train
    assert isinstance(train, FileImages)
    for path, label in zip(train.paths, train.labels, strict=True):
        assert Path(path).parent.name == ("cat", "dog", "eel")[label]


@pytest.mark.parametrize("name", ["validation", "valid", "val", "test"])
def test_a_hold_out_folder_is_used_as_it_is(tmp_path: Path, name: str) -> None:
    files(tmp_path, "train/a/1.png", "train/b/2.JPG", "train/c/3.jpeg", f"{name}/c/4.png", f"{name}/c/notes.txt")
    split = open_folder(tmp_path, THREE)
    assert (split.train.count, split.hold_out.count) == (3, 1)
    assert isinstance(split.hold_out, FileImages)
    assert split.hold_out.labels.tolist() == [2]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "0 sub-folders, one per class, but the job has 3 classes"),
        (["a/1.png", "b/2.png"], "write model.classes: 2"),
        (["a/1.txt", "b/2.txt", "c/3.txt"], "has no image to train on"),
    ],
)
def test_a_folder_that_does_not_fit_the_job_is_refused(tmp_path: Path, names: list[str], message: str) -> None:
    files(tmp_path, *names)
    with pytest.raises(BadInputError, match=message):
        open_folder(tmp_path, THREE)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"there is no folder .*absent"):
        open_folder(tmp_path / "absent", THREE)


def test_every_tenth_record_is_held_out(tmp_path: Path) -> None:
    records(tmp_path / "a.tfrecord", [3] * 21)
    records(tmp_path / "b.tfrecord", [5] * 10)
    split = open_folder(tmp_path, THREE)
    assert isinstance(split.train, RecordImages)
    assert isinstance(split.hold_out, RecordImages)
    assert (split.train.count, split.train.keep) == (27, Keep.TRAIN)
    assert (split.hold_out.count, split.hold_out.keep) == (4, Keep.HOLD_OUT)
    assert split.train.files == split.hold_out.files


def test_validation_shards_are_the_hold_out(tmp_path: Path) -> None:
    records(tmp_path / "train-00000-of-00001", [3] * 21)
    records(tmp_path / "validation-00000-of-00001", [3] * 6)
    split = open_folder(tmp_path, THREE)
    assert (split.train.count, split.hold_out.count) == (21, 6)


def test_records_that_the_job_counts_are_not_counted_again(tmp_path: Path) -> None:
    (tmp_path / "train-0.tfrecord").write_bytes(b"not read")
    records(tmp_path / "validation-0.tfrecord", [3])
    split = open_folder(tmp_path, Wanted(size=8, channels=1, classes=3, count=1_281_167))
    assert split.train.count == 1_281_167


def test_a_record_file_cut_short_is_named(tmp_path: Path) -> None:
    whole = records(tmp_path / "a.tfrecord", [100, 100])
    assert count_records(whole) == 2
    whole.write_bytes(whole.read_bytes()[:-1])
    with pytest.raises(BadInputError, match=r"a\.tfrecord is cut short"):
        count_records(whole)


# --- what is no regular file, and names that are no text ----------------------------------------------------------


def test_only_regular_files_are_images(tmp_path: Path) -> None:
    files(tmp_path, *(f"{name}/{number}.png" for name in "abc" for number in range(30)))
    before = open_folder(tmp_path, THREE)
    os.mkfifo(tmp_path / "a" / "pipe.png")
    (tmp_path / "b" / "random.png").symlink_to("/dev/urandom")
    (tmp_path / "c" / "nothing.jpg").symlink_to(tmp_path / "absent")
    (tmp_path / "c" / "folder.png").mkdir()
    (tmp_path / "c" / "linked.png").symlink_to(tmp_path / "c" / "1.png")
    split = open_folder(tmp_path, THREE)
    assert split.left_out == 3
    assert split.train.count + split.hold_out.count == before.train.count + before.hold_out.count + 1, "the link"
    assert before.left_out == 0


def test_only_regular_files_are_records(tmp_path: Path) -> None:
    records(tmp_path / "a.tfrecord", [3] * 21)
    os.mkfifo(tmp_path / "b.tfrecord")
    split = open_folder(tmp_path, THREE)
    assert (split.train.count, split.hold_out.count, split.left_out) == (18, 3, 1)


def test_a_hold_out_folder_counts_what_it_leaves_out(tmp_path: Path) -> None:
    files(tmp_path, "train/a/1.png", "train/b/2.png", "train/c/3.png", "val/c/4.png")
    os.mkfifo(tmp_path / "val" / "c" / "5.png")
    assert open_folder(tmp_path, THREE).left_out == 1


def test_names_need_not_be_utf_8(tmp_path: Path) -> None:
    odd = [os.fsdecode(b"%s/\xff%d.png" % (name, number)) for name in (b"a", b"b", b"c\xfe") for number in range(20)]
    files(tmp_path, *odd)
    split = open_folder(tmp_path, THREE)
    assert isinstance(split.train, FileImages)
    assert isinstance(split.hold_out, FileImages)
    found = {os.path.relpath(path, tmp_path) for path in (*split.train.paths, *split.hold_out.paths)}
    assert found == set(odd)
    assert split.class_names == ("a", "b", os.fsdecode(b"c\xfe"))


@pytest.mark.parametrize(("entries", "words"), [(1, "1 entry of the data folder is left out"), (2, "2 entries")])
def test_what_was_left_out_is_told_in_words(entries: int, words: str) -> None:
    assert words in left_out_text(entries)
