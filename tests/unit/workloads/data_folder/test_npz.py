"""Images and labels as arrays in .npz files, as people write them: names, orders, types and shapes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainplan.workloads.data_folder.check import check_folder
from trainplan.workloads.data_folder.counts import count_images
from trainplan.workloads.data_folder.layout import read_layout
from trainplan.workloads.data_folder.values import DataFolderError
from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.folders import FolderQuery, open_folder
from trainplan.workloads.trainer.images import ArrayImages

QUERY = FolderQuery(size=8, channels=3, classes=3)
PIXELS = np.random.default_rng(0).integers(0, 256, (60, 8, 8, 3), np.uint8)
LABELS = np.arange(60) % 3


def save(folder: Path, name: str = "data.npz", **arrays: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / name, **arrays)
    return folder


def named(names: tuple[str, ...], *arrays: Any) -> dict[str, Any]:
    return dict(zip(names, arrays, strict=True))


def opened(folder: Path, query: FolderQuery = QUERY) -> tuple[ArrayImages, ArrayImages]:
    split = open_folder(folder, query)
    assert isinstance(split.train, ArrayImages)
    assert isinstance(split.hold_out, ArrayImages)
    return split.train, split.hold_out


@pytest.mark.parametrize(
    "names",
    [
        ("x_train", "y_train", "x_test", "y_test"),
        ("train_images", "train_labels", "val_images", "val_labels"),
        ("trainX", "trainY", "testX", "testY"),
        ("X", "y", "X_valid", "y_valid"),
    ],
)
def test_the_words_of_names_tell_the_splits(tmp_path: Path, names: tuple[str, ...]) -> None:
    save(tmp_path, **named(names, PIXELS[:40], LABELS[:40], PIXELS[40:], LABELS[40:]))
    train, hold_out = opened(tmp_path)
    assert (train.pixels == PIXELS[:40]).all()
    assert (hold_out.labels == LABELS[40:]).all()
    assert tuple(count_images(tmp_path)) == (40, 20)


def test_files_may_be_splits(tmp_path: Path) -> None:
    save(tmp_path, "train.npz", images=PIXELS[:40], labels=LABELS[:40])
    save(tmp_path, "test.npz", images=PIXELS[40:], labels=LABELS[40:])
    assert [images.count for images in opened(tmp_path)] == [40, 20]


@pytest.mark.parametrize("names", [("x", "y"), ("images", "labels"), ("arr_0", "arr_1"), ("data", "targets")])
def test_of_one_pair_one_in_ten_of_each_class_is_held_out_by_content(tmp_path: Path, names: tuple[str, str]) -> None:
    save(tmp_path / "a", **named(names, PIXELS, LABELS))
    train, hold_out = opened(tmp_path / "a")
    assert Counter(hold_out.labels.tolist()) == {0: 2, 1: 2, 2: 2}
    assert train.count == 54
    save(tmp_path / "b", **named(names, PIXELS[::-1], LABELS[::-1]))
    assert {image.tobytes() for image in opened(tmp_path / "b")[1].pixels} == {
        image.tobytes() for image in hold_out.pixels
    }
    report = check_folder(tmp_path / "a")
    assert (report.train_images, report.hold_out_images, report.problems) == (54, 6, ())


@pytest.mark.parametrize(
    "pixels",
    [
        PIXELS.astype(np.int64),
        PIXELS.astype(np.float32),
        PIXELS / 255,
        (PIXELS / 255).astype(np.float32),
        PIXELS.transpose(0, 3, 1, 2).copy(),
    ],
)
def test_other_types_and_orders_are_the_same_images(tmp_path: Path, pixels: Any) -> None:
    save(tmp_path, x_train=pixels[:40], y_train=LABELS[:40], x_test=pixels[40:], y_test=LABELS[40:])
    train, hold_out = opened(tmp_path)
    assert (train.pixels == PIXELS[:40]).all()
    assert (hold_out.pixels == PIXELS[40:]).all()
    assert check_folder(tmp_path).problems == ()


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (LABELS.reshape(-1, 1), ()),
        (LABELS.astype(np.float32), ()),
        (LABELS.astype(np.uint8), ()),
        (LABELS + 1, ("1", "2", "3")),
        (np.array(["cat", "dog", "eel"])[LABELS], ("cat", "dog", "eel")),
        (np.array([b"cat", b"dog", b"eel"])[LABELS], ("cat", "dog", "eel")),
    ],
)
def test_labels_are_numbered_from_zero(tmp_path: Path, labels: Any, names: tuple[str, ...]) -> None:
    save(tmp_path, x_train=PIXELS[:40], y_train=labels[:40], x_test=PIXELS[40:], y_test=labels[40:])
    split = open_folder(tmp_path, QUERY)
    assert isinstance(split.train, ArrayImages)
    assert (split.train.labels == LABELS[:40]).all()
    assert split.class_names == names


def test_grey_images_and_images_that_are_not_square(tmp_path: Path) -> None:
    wide = np.zeros((60, 8, 12), np.uint8)
    wide[:, :, 2:10] = PIXELS[..., 0]
    save(tmp_path, x=wide, y=LABELS)
    train, _ = opened(tmp_path, FolderQuery(size=8, channels=1, classes=3))
    assert train.pixels.shape == (54, 8, 8, 1)
    assert {image.tobytes() for image in train.pixels} <= {image.tobytes() for image in PIXELS[..., 0]}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": PIXELS}, r"hold x of 60x8x8x3: needed is one array of images .* and one of as many labels"),
        ({"x": PIXELS, "z": PIXELS, "y": LABELS}, "needed is one array of images"),
        ({"x": PIXELS, "y": LABELS[:9]}, "there must be as many labels as images"),
        ({"x": PIXELS, "y": np.eye(3)[LABELS]}, "x of 60x8x8x3, y of 60x3: needed is"),
        ({"x": PIXELS[..., :2], "y": LABELS}, "images have 1 or 3 channels"),
        ({"x": PIXELS, "y": LABELS + 0.5}, "write the labels as whole numbers or texts"),
        ({"x": PIXELS, "y": np.where(LABELS, np.nan, 0.0)}, "write the labels as whole numbers or texts"),
        ({"x": PIXELS, "y": np.where(LABELS, np.inf, 0.0)}, "write the labels as whole numbers or texts"),
        ({"x": PIXELS, "y": LABELS.astype(object)}, "cannot be read: y holds Python objects"),
        ({"x": PIXELS.astype(np.complex64), "y": LABELS}, "write the pixels as uint8"),
        ({"x": np.asfortranarray(PIXELS), "y": LABELS}, "write numpy.ascontiguousarray of it"),
        ({"notes": np.zeros(3)}, "hold notes of 3: needed is one array of images"),
        ({}, "the .npz files hold no array: needed are arrays of images and labels"),
    ],
)
def test_what_is_no_pair_of_images_and_labels_is_told(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    save(tmp_path, **arrays)
    with pytest.raises(DataFolderError, match=message):
        read_layout(tmp_path)


def test_pixels_that_are_normalised_are_refused_by_the_check_and_by_the_trainer(tmp_path: Path) -> None:
    save(tmp_path, x=(PIXELS / 127.5 - 1).astype(np.float32), y=LABELS)
    message = "the pixels run from -1 to 1: write them as they are in an image"
    assert message in check_folder(tmp_path).problems[0]
    with pytest.raises(BadInputError, match=message):
        open_folder(tmp_path, QUERY)


@pytest.mark.parametrize("kind", [np.uint8, np.int64, np.float32])
def test_pixels_of_another_white_than_255_are_told(tmp_path: Path, kind: Any) -> None:
    save(tmp_path, x=(PIXELS % 17).astype(kind), y=LABELS)
    assert "the pixels run from 0 to 16, which is nearly black" in check_folder(tmp_path).warnings[-1]


@pytest.mark.parametrize("kind", [np.uint8, np.int64, np.bool_, np.float32])
def test_pixels_of_0_and_1_are_black_and_white(tmp_path: Path, kind: Any) -> None:
    save(tmp_path, x=(PIXELS % 2).astype(kind), y=LABELS)
    assert not [line for line in check_folder(tmp_path).warnings if "pixels" in line]
    assert set(np.unique(open_folder(tmp_path, QUERY).train.pixels)) == {0, 255}


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "data.npz").write_bytes(b"PK\x03\x04 no zip")
    with pytest.raises(DataFolderError, match=r"holds \.npz files that cannot be read: File is not a zip file"):
        read_layout(tmp_path)
