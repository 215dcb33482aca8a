"""Test images that were trained on too are counted in every layout, and told where the accuracy is 100 %."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.unit.workloads.data_folder.builders import example, files, frames
from trainplan.workloads.trainer.copies import count_copies
from trainplan.workloads.trainer.folders import FolderQuery, open_folder
from trainplan.workloads.trainer.images import Split, in_memory

TWO = FolderQuery(size=8, channels=1, classes=2)


def test_files_are_compared_by_their_bytes(tmp_path: Path) -> None:
    files(tmp_path, "train/a/1.png", "train/a/2.png", content=b"one")
    files(tmp_path, "train/b/3.png", content=b"two")
    files(tmp_path, "val/a/4.png", "val/b/5.png", content=b"one")
    files(tmp_path, "val/b/6.png", content=b"six")
    files(tmp_path, "val/b/7.png", content=b"another length")
    split = open_folder(tmp_path, TWO)
    assert count_copies(split) == 2
    (tmp_path / "train/b/3.png").unlink()
    assert count_copies(split) == 0, "nothing is claimed of what is gone"


def test_records_are_compared_by_their_images(tmp_path: Path) -> None:
    frames(tmp_path / "train.tfrecord", [example(b"image %d" % number, number % 2) for number in range(10)])
    frames(tmp_path / "val.tfrecord", [example(b"image %d" % number, 0) for number in range(7, 13)])
    assert count_copies(open_folder(tmp_path, TWO)) == 3
    (tmp_path / "val.tfrecord").unlink()
    (tmp_path / "train.tfrecord").rename(tmp_path / "all.tfrecord")
    assert count_copies(open_folder(tmp_path, TWO)) == 0


@pytest.mark.parametrize("copies", [0, 3])
def test_arrays_are_compared_by_their_pixels(copies: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 4, 4, 1), np.uint8)
    train, hold_out = in_memory(pixels[:15], np.zeros(15)), in_memory(pixels[15 - copies :], np.zeros(5 + copies))
    assert count_copies(Split(train=train, hold_out=hold_out)) == copies
