"""Folders of images and TFRecords: what is found, how it is split, and what is said when it does not fit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.workloads.data_folder.builders import example, files, frames
from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.folders import FolderQuery, check_records, open_folder
from trainplan.workloads.trainer.images import FileImages, RecordImages, Split

THREE = FolderQuery(size=8, channels=1, classes=3)


def records(path: Path, lengths: list[int]) -> Path:
    """Examples whose images have so many bytes."""
    return frames(path, [example(bytes([number]) * size, 0) for number, size in enumerate(lengths)])


def left_out(split: Split) -> int:
    return sum(left.entries for left in split.left_out)


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
        ([], "holds no file; read are images in a sub-folder for each class, TFRecords"),
        (["a/1.png", "b/2.png"], "write model.classes: 2"),
        (["a/1.txt", "b/2.txt", "c/3.txt"], r"holds 3 \.txt files, and nothing that can be trained on"),
    ],
)
def test_a_folder_that_does_not_fit_the_job_is_refused(tmp_path: Path, names: list[str], message: str) -> None:
    files(tmp_path, *names)
    with pytest.raises(BadInputError, match=message):
        open_folder(tmp_path, THREE)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"there is no folder .*absent"):
        open_folder(tmp_path / "absent", THREE)


def test_one_record_in_ten_is_held_out_by_its_content(tmp_path: Path) -> None:
    records(tmp_path / "a.tfrecord", [3] * 21)
    records(tmp_path / "b.tfrecord", [5] * 10)
    split = open_folder(tmp_path, THREE)
    assert isinstance(split.train, RecordImages)
    assert isinstance(split.hold_out, RecordImages)
    assert (split.train.count, split.hold_out.count) == (27, 4)
    assert split.train.kept is not None
    assert split.hold_out.kept is not None
    for trained, held in zip(split.train.kept, split.hold_out.kept, strict=True):
        assert (trained != held).all()
    assert split.train.files == split.hold_out.files


def test_validation_shards_are_the_hold_out(tmp_path: Path) -> None:
    records(tmp_path / "train-00000-of-00001", [3] * 21)
    records(tmp_path / "validation-00000-of-00001", [3] * 6)
    split = open_folder(tmp_path, THREE)
    assert (split.train.count, split.hold_out.count) == (21, 6)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("kind", ["png", "tfrecord"])
def test_data_images_means_the_training_images_of_every_layout(tmp_path: Path, kind: str, count: int) -> None:
    if kind == "png":
        files(tmp_path, "train/a/1.png", "train/b/2.png", "train/c/3.png", "val/c/4.png")
    else:
        frames(tmp_path / "train-0.tfrecord", [example(b"%d" % label, label) for label in range(3)])
        frames(tmp_path / "val-0.tfrecord", [example(b"x", 2)])
    with pytest.raises(BadInputError, match=r"there are 3 images to train on, and data\.images says"):
        open_folder(tmp_path, FolderQuery(size=8, channels=1, classes=3, count=count))
    assert open_folder(tmp_path, FolderQuery(size=8, channels=1, classes=3, count=3)).train.count == 3


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
    assert left_out(split) == 3
    assert split.train.count + split.hold_out.count == before.train.count + before.hold_out.count + 1, "the link"
    assert left_out(before) == 0


def test_only_regular_files_are_records(tmp_path: Path) -> None:
    records(tmp_path / "a.tfrecord", [3] * 21)
    os.mkfifo(tmp_path / "b.tfrecord")
    split = open_folder(tmp_path, THREE)
    assert (split.train.count, split.hold_out.count, left_out(split)) == (18, 3, 1)


def test_a_hold_out_folder_counts_what_it_leaves_out(tmp_path: Path) -> None:
    files(tmp_path, "train/a/1.png", "train/b/2.png", "train/c/3.png", "val/c/4.png")
    os.mkfifo(tmp_path / "val" / "c" / "5.png")
    assert left_out(open_folder(tmp_path, THREE)) == 1


def test_names_need_not_be_utf_8(tmp_path: Path) -> None:
    odd = [os.fsdecode(b"%s/\xff%d.png" % (name, number)) for name in (b"a", b"b", b"c\xfe") for number in range(20)]
    files(tmp_path, *odd)
    split = open_folder(tmp_path, THREE)
    assert isinstance(split.train, FileImages)
    assert isinstance(split.hold_out, FileImages)
    found = {os.path.relpath(path, tmp_path) for path in (*split.train.paths, *split.hold_out.paths)}
    assert found == set(odd)
    assert split.class_names == ("a", "b", os.fsdecode(b"c\xfe"))


# --- labels of records ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "first_label", "message"),
    [
        ([1, 2, 3], 0, r"record \d+ of .*a.tfrecord has the label 3; .* 0 to 2: write data.first_label: 1"),
        ([0, 1, 2], 1, r"record \d+ of .*a.tfrecord has the label 0; .* 1 to 3: write data.first_label: 0"),
        ([0, 1, 9], 0, "has the label 9; the 3 classes have the labels 0 to 2: correct the records or model.classes"),
    ],
)
def test_labels_out_of_range_are_told_with_the_remedy(
    tmp_path: Path, labels: list[int], first_label: int, message: str
) -> None:
    frames(tmp_path / "a.tfrecord", [example(b"%d" % number, labels[number % 3]) for number in range(30)])
    split = open_folder(tmp_path, FolderQuery(size=8, channels=1, classes=3, first_label=first_label))
    with pytest.raises(BadInputError, match=message):
        check_records(split.train)


def test_labels_may_begin_at_one(tmp_path: Path) -> None:
    frames(tmp_path / "a.tfrecord", [example(b"%d" % number, 1 + number % 3) for number in range(30)])
    check_records(open_folder(tmp_path, FolderQuery(size=8, channels=1, classes=3, first_label=1)).train)


def test_records_of_something_else_are_refused(tmp_path: Path) -> None:
    frames(tmp_path / "a.tfrecord", [b"not an example"])
    with pytest.raises(BadInputError, match=r"does not hold tf\.train\.Example records"):
        open_folder(tmp_path, THREE)
