"""Which files are trained on and which are held out: layouts people have, and what is refused because it is unclear."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.workloads.data_folder.builders import files, records
from workloads.data_folder.layout import image_layout, read_layout, record_layout
from workloads.data_folder.records import count_records
from workloads.data_folder.values import DataFolderError, RecordLayout, left_out_text

if TYPE_CHECKING:
    from pathlib import Path


def counted(folder: Path) -> tuple[int, int]:
    """Records to train on and held out."""
    layout = record_layout(folder)
    assert layout is not None
    return sum(map(count_records, layout.train)), sum(map(count_records, layout.hold_out))


def shards(folder: Path, name: str, total: int, of: int = 2) -> None:
    for number in range(of):
        records(folder / name.format(f"{number:05}-of-{of:05}"), [0] * (total // of))


@pytest.mark.parametrize(
    ("train", "hold_out"),
    [
        ("train/part-{}.tfrecord", "val/part-{}.tfrecord"),
        ("train/part-{}", "validation/part-{}"),
        ("toys-train.tfrecord-{}", "toys-validation.tfrecord-{}"),
        ("toys/1.0.0/toys-train.tfrecord-{}", "toys/1.0.0/toys-val.tfrecord-{}"),
        ("train-{}", "validation-{}"),
        ("Train/a-{}.tfrecords", "Eval/a-{}.tfrecords"),
        ("train0-{}.tfrecord", "val0-{}.tfrecord"),
        ("training-{}.tfrecord", "test-{}.tfrecord"),
    ],
)
def test_validation_records_are_never_trained_on(tmp_path: Path, train: str, hold_out: str) -> None:
    shards(tmp_path, train, 600)
    shards(tmp_path, hold_out, 200)
    assert counted(tmp_path) == (600, 200)


def test_beside_a_validation_set_the_test_set_is_left_out_and_told(tmp_path: Path) -> None:
    for name, total in (("train", 60), ("validation", 20), ("test", 10)):
        shards(tmp_path, f"{name}-{{}}", total)
    assert counted(tmp_path) == (60, 20)
    layout = record_layout(tmp_path)
    assert layout is not None
    assert [left_out_text(left) for left in layout.left_out] == [
        "2 entries of the data folder are left out (the validation set is the hold-out), for example "
        "test-00000-of-00002"
    ]


def test_words_within_words_say_nothing(tmp_path: Path) -> None:
    """An interval is no val, constraints are no train."""
    shards(tmp_path, "interval-{}.tfrecord", 20)
    shards(tmp_path, "constrained-{}.tfrecord", 20)
    assert counted(tmp_path) == (40, 0)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("train/val-0.tfrecord",), "train/val-0.tfrecord says train and val"),
        (("train-0.tfrecord", "val-0.tfrecord", "more-0.tfrecord"), "more-0.tfrecord does not"),
        (("train-0.tfrecord", "more-0.tfrecord"), "train-0.tfrecord says what it is for and more-0.tfrecord does not"),
        (("1.0.0/dataset_info.json", "1.1.0/dataset_info.json", "a.tfrecord"), "holds 2 data sets or versions of one"),
    ],
)
def test_records_that_can_be_read_in_two_ways_are_refused(tmp_path: Path, names: tuple[str, ...], message: str) -> None:
    files(tmp_path, *names)
    with pytest.raises(DataFolderError, match=message):
        record_layout(tmp_path)


def test_what_lies_beside_records_is_counted(tmp_path: Path) -> None:
    files(tmp_path, "a.tfrecord", "a.tfrecord.idx", "notes.txt", "dataset_info.json", "label.labels.txt")
    (tmp_path / "label.labels.txt").write_text("ball\ntrain\n")
    layout = read_layout(tmp_path)
    assert isinstance(layout, RecordLayout)
    assert [(left.entries, left.example) for left in layout.left_out] == [(2, "a.tfrecord.idx")]
    assert layout.class_names == ("ball", "train")


FOUR = ("ant", "bee", "cow", "dog")


def class_folders(folder: Path, *places: str, each: int = 3) -> None:
    for place in places:
        files(folder, *(f"{place}{name}/{number}.png" for name in FOUR for number in range(each)))


def test_hidden_and_other_folders_are_no_classes(tmp_path: Path) -> None:
    class_folders(tmp_path, "train/", "val/")
    files(tmp_path, ".cache/x.png", "raw/ant/1.png", "train/.thumbs/1.png", "readme.md", "train/ant/.1.png")
    layout = image_layout(tmp_path)
    assert layout.class_names == FOUR
    assert (len(layout.train), len(layout.hold_out)) == (12, 12)
    assert {(left.reason, left.entries) for left in layout.left_out} == {
        ("hidden, or made by the computer itself", 3),
        ("beside train/ and val/ no other folder is read", 1),
        ("it is in no class folder", 1),
    }


def test_of_validation_and_test_folders_the_validation_is_the_hold_out(tmp_path: Path) -> None:
    class_folders(tmp_path, "train/", each=2)
    class_folders(tmp_path, "Test/", each=3)
    class_folders(tmp_path, "Valid/", each=4)
    layout = image_layout(tmp_path)
    assert (len(layout.train), len(layout.hold_out)) == (8, 16)


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    files(tmp_path, *(f"{name}/{number}.jpg" for name in ("bus", "car", "train") for number in range(30)))
    layout = image_layout(tmp_path)
    assert layout.class_names == ("bus", "car", "train")
    assert len(layout.train) + len(layout.hold_out) == 90


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("train/a/1.png", "train/b/1.png", "holdout/a/1.png"), "train/ with sub-folders beside holdout/"),
        (("cat/1.png", "dog/1.png", "test/1.png"), "has test/ and no train/"),
        (("train/a/1.png", "training/a/1.png", "val/a/1.png"), "has train/ and training/"),
    ],
)
def test_folders_that_can_be_read_in_two_ways_are_refused(tmp_path: Path, names: tuple[str, ...], message: str) -> None:
    files(tmp_path, *names)
    with pytest.raises(DataFolderError, match=message):
        image_layout(tmp_path)


def test_files_of_other_suffixes_are_counted_and_webp_is_an_image(tmp_path: Path) -> None:
    class_folders(tmp_path, "", each=20)
    files(tmp_path, "ant/a.webp", "ant/b.WEBP", "bee/c.tif", "bee/d.tif", "cow/e.tiff", "cow/noname")
    layout = image_layout(tmp_path)
    assert len(layout.train) + len(layout.hold_out) == 82
    assert [(left.reason.split(";")[0], left.entries, left.example) for left in layout.left_out] == [
        (".tif is no format that is read", 2, "bee/c.tif"),
        (".tiff is no format that is read", 1, "cow/e.tiff"),
        ("a name without a suffix", 1, "cow/noname"),
    ]


def test_a_class_of_the_hold_out_that_is_not_trained_on_is_told(tmp_path: Path) -> None:
    class_folders(tmp_path, "train/", "val/")
    files(tmp_path, "val/elk/1.png")
    layout = image_layout(tmp_path)
    assert len(layout.hold_out) == 12
    assert [(left.reason, left.example) for left in layout.left_out] == [
        ("train/ has no class of that name", "val/elk")
    ]
