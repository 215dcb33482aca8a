"""Which files are trained on and which are held out: layouts people have, and what is refused because it is unclear."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.workloads.data_folder.builders import files, records
from trainplan.workloads.data_folder.layout import image_layout, read_layout
from trainplan.workloads.data_folder.records import count_records
from trainplan.workloads.data_folder.shards import record_layout
from trainplan.workloads.data_folder.unwrapped import unwrapped
from trainplan.workloads.data_folder.values import DataFolderError, RecordLayout, left_out_text


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
        "ignored 2 files or folders (the validation set is the hold-out), for example test-00000-of-00002"
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
        ("hidden or system files", 3),
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
        (("train/a/1.png", "train/b/1.png", "rest/a/1.png"), "has train/ beside rest/"),
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
        (".tif is not supported", 2, "bee/c.tif"),
        (".tiff is not supported", 1, "cow/e.tiff"),
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


# --- splits by other names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("train", "hold_out"),
    [
        ("training_set", "test_set"),
        ("train_images", "val_images"),
        ("seg_train/seg_train", "seg_test/seg_test"),
        ("train", "val2017"),
        ("TrainData", "ValidationData"),
        ("trainset", "testset"),
        ("cats-train", "cats-dev"),
        ("images_train", "hold_out"),
    ],
)
def test_the_words_of_folders_tell_the_splits(tmp_path: Path, train: str, hold_out: str) -> None:
    class_folders(tmp_path, f"{train}/", each=5)
    class_folders(tmp_path, f"{hold_out}/", each=2)
    files(tmp_path, "seg_pred/1.png", "readme.md")
    layout = image_layout(tmp_path)
    assert layout.class_names == FOUR
    assert (len(layout.train), len(layout.hold_out)) == (20, 8)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("train_images/a/1.png", "rest/a/1.png"), "has train_images/ beside rest/"),
        (("train_images/1.png", "masks/1.png"), "has train_images/ beside masks/"),
        (("ant/1.png", "test_images/1.png"), "has test_images/ and no train/"),
        (("train_val/a/1.png", "test/a/1.png"), "has train_val/, which says train and val"),
        (("train1/a/1.png", "train2/a/1.png", "val/a/1.png"), "has train1/ and train2/: either could be the training"),
        (("train/a/1.png", "val_a/a/1.png", "val_b/a/1.png"), "has val_a/ and val_b/: either could be the hold-out"),
        (
            ("tr/a/1.png", "tr/b/1.png", "te/a/1.png", "te/b/1.png"),
            r"has te/ and tr/ with sub-folders of the same names \(a, b\): .*call the training set train/",
        ),
        (
            tuple(f"{name}/{split}/1.png" for name in ("ant", "bee", "cow", "dog") for split in ("train", "val")),
            r"ant/ and bee/ with sub-folders of the same names \(train, val\): .*put train/ and val/ above the classes",
        ),
    ],
)
def test_splits_that_are_unclear_are_never_taken_for_classes(
    tmp_path: Path, names: tuple[str, ...], message: str
) -> None:
    files(tmp_path, *names)
    with pytest.raises(DataFolderError, match=message):
        read_layout(tmp_path)


@pytest.mark.parametrize("names", [("beaker", "test_tube"), ("bullet_train", "tram"), ("trainer", "testarossa")])
def test_classes_may_have_such_words_in_their_names(tmp_path: Path, names: tuple[str, ...]) -> None:
    files(tmp_path, *(f"{name}/{number}.jpg" for name in names for number in range(30)))
    assert image_layout(tmp_path).class_names == tuple(sorted(names))


def test_nested_folders_of_a_class_belong_to_it(tmp_path: Path) -> None:
    for name in FOUR:
        files(tmp_path, *(f"{name}/{place}/{number}.png" for place in ("indoor", "outdoor") for number in range(9)))
    files(tmp_path, "readme.txt")
    assert image_layout(tmp_path).class_names == FOUR


def test_an_archives_folder_is_entered_beside_what_tells_of_it(tmp_path: Path) -> None:
    class_folders(tmp_path, "chest/train/", "chest/val/")
    files(tmp_path, "LICENSE", "about.md")
    assert unwrapped(tmp_path) == tmp_path / "chest"
    files(tmp_path, "images.zip")
    assert unwrapped(tmp_path) == tmp_path, "an archive may be data"
    files(tmp_path, "one/cat/1.png")
    assert unwrapped(tmp_path / "one") == tmp_path / "one", "a class is not entered"


def test_folders_of_masks_beside_the_training_set_are_left_out(tmp_path: Path) -> None:
    class_folders(tmp_path, "train/", "val/", "train_masks/")
    layout = image_layout(tmp_path)
    assert (layout.class_names, len(layout.train)) == (FOUR, 12)
    assert "train_masks" in {left.example for left in layout.left_out}


def test_a_test_set_in_classes_is_the_hold_out_where_the_validation_set_is_in_none(tmp_path: Path) -> None:
    class_folders(tmp_path, "train/", "test/")
    files(tmp_path, "val/1.png")
    assert len(image_layout(tmp_path).hold_out) == 12


# --- classes ------------------------------------------------------------------------------------------------------


def test_unicode_forms_of_a_name_are_one_class(tmp_path: Path) -> None:
    files(tmp_path, "train/caf\u00e9/1.png", "train/cafe\u0301/2.png", "train/dog/1.png", "val/cafe\u0301/3.png")
    layout = image_layout(tmp_path)
    assert layout.class_names == ("caf\u00e9", "dog")
    assert [label for _, label in layout.train] == [0, 0, 1]
    assert layout.hold_out == (("cafe\u0301/3.png", 0),)
    assert layout.left_out == ()


def test_the_hold_out_may_write_classes_in_another_case(tmp_path: Path) -> None:
    files(tmp_path, "train/Cat/1.png", "train/a/1.png", "train/A/1.png", "val/cat/2.png", "val/A/2.png", "val/B/3.png")
    layout = image_layout(tmp_path)
    assert layout.class_names == ("A", "Cat", "a")
    assert set(layout.hold_out) == {("A/2.png", 0), ("cat/2.png", 1)}
    assert [left.example for left in layout.left_out] == ["val/B"]


def test_what_computers_leave_is_no_class(tmp_path: Path) -> None:
    class_folders(tmp_path, "", each=20)
    for name in ("lost+found", "$RECYCLE.BIN", "System Volume Information", "@eaDir", "#recycle", "Icon\r"):
        (tmp_path / name).mkdir()
    layout = image_layout(tmp_path)
    assert layout.class_names == FOUR
    assert [left.entries for left in layout.left_out] == [6]


def test_every_class_of_two_images_has_one_that_is_held_out(tmp_path: Path) -> None:
    class_folders(tmp_path, "", each=2)
    layout = image_layout(tmp_path)
    assert sorted(label for _, label in layout.hold_out) == [0, 1, 2, 3]


def test_images_in_no_class_folder_are_told(tmp_path: Path) -> None:
    class_folders(tmp_path, "train/", "val/")
    files(tmp_path, "val/1.jpg", "val/2.jpg", "val/list.txt")
    assert [left_out_text(left) for left in image_layout(tmp_path).left_out] == [
        "2 images in val/ are in no class folder and left out, for example val/1.jpg; move each into the sub-folder of "
        "its class, val/CLASS/",
        "ignored 1 file or folder (it is in no class folder), for example val/list.txt",
    ]


# --- shards -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("train-00000-of-00003", "train-00002-of-00003"), r"shard 1 of 3 is missing \(train-00001-of-00003\)"),
        (("a.tfrecord-00003-of-00004",), r"shard 0 of 4 and 2 more are missing \(a.tfrecord-00000-of-00004\)"),
        (("x/train_1-of-3.tfrecord", "x/train_3-of-3.tfrecord"), r"shard 2 of 3 is missing \(x/train_2-of-3\)"),
        (("a-0-of-99999999999",), "shard 1 of 99,999,999,999 and 99,999,999,997 more are missing"),
        (("train.tfrecord", "train (1).tfrecord"), r"train \(1\).tfrecord is a copy of train.tfrecord by its name"),
        (("b-0-of-1", "b-0-of-1 (2)"), r"b-0-of-1 \(2\) is a copy of b-0-of-1"),
        (("A.tfrec", "A - Copy.tfrec"), "A - Copy.tfrec is a copy of a.tfrec"),
    ],
)
def test_shards_that_are_missing_or_there_twice_are_refused(
    tmp_path: Path, names: tuple[str, ...], message: str
) -> None:
    files(tmp_path, *names)
    with pytest.raises(DataFolderError, match=message):
        record_layout(tmp_path)


def test_whole_sets_of_shards_are_read_from_zero_or_one(tmp_path: Path) -> None:
    files(tmp_path, "train-0-of-2", "train-1-of-2", "val-1-of-2", "val-2-of-2 (1)")
    layout = record_layout(tmp_path)
    assert layout is not None
    assert (len(layout.train), len(layout.hold_out)) == (2, 2)


def test_tfrec_is_a_suffix_of_tfrecords(tmp_path: Path) -> None:
    files(tmp_path, "train/00-16x16-60.tfrec", "train/01-16x16-60.tfrec", "val/00-16x16-20.tfrec")
    layout = record_layout(tmp_path)
    assert layout is not None
    assert (len(layout.train), len(layout.hold_out), layout.left_out) == (2, 1, ())


# --- nothing to read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("train.h5",), "holds 1 .h5 file, and nothing that can be trained on: HDF5 is not read: write its images"),
        (
            ("1.jpg", "2.jpg", "labels.csv"),
            "holds 2 .jpg files and 1 .csv file, none of them in a sub-folder of a class, .*: move each image into",
        ),
        (("train/1.jpg", "test/2.jpg"), "holds 2 .jpg files, none of them in a sub-folder of a class"),
        (("images.zip", ".DS_Store"), "holds 1 .zip file, .*: unpack it"),
        (("cat/notes.txt", "dog/noname"), "holds 1 file without a suffix and 1 .txt file, and nothing"),
    ],
)
def test_where_nothing_is_read_it_is_said_what_lies_there(tmp_path: Path, names: tuple[str, ...], message: str) -> None:
    files(tmp_path, *names)
    with pytest.raises(DataFolderError, match=message) as error:
        read_layout(tmp_path)
    assert "read are images in a sub-folder for each class, TFRecords" in str(error.value)
