"""The check, the feed of TensorFlow and the feed without it read each image alike, and as it was before."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.workloads.data_folder.builders import example, frames
from tests.unit.workloads.data_folder.corpus import SIDE, Encoded, corpus, refused
from trainplan.workloads.data_folder.check import check_folder
from trainplan.workloads.data_folder.decode import looked_at
from trainplan.workloads.trainer import tfdata
from trainplan.workloads.trainer.damage import naming_damaged
from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.feed import Schedule, training_batches
from trainplan.workloads.trainer.images import FileImages, RecordImages

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module")
def encoded() -> list[Encoded]:
    images = corpus()
    assert len(images) >= 60
    assert len({image.name for image in images}) == len(images)
    return images


def files(folder: Path, images: Iterable[tuple[str, bytes]], channels: int, size: int = SIDE) -> FileImages:
    folder.mkdir(exist_ok=True)
    paths = []
    for name, data in images:
        (folder / name).write_bytes(data)
        paths.append(str(folder / name))
    return FileImages(paths=tuple(paths), labels=np.arange(len(paths), dtype=np.int32), size=size, channels=channels)


def stacked(batches: Iterable[Any]) -> tuple[Any, Any]:
    pixels, labels = zip(*batches, strict=True)
    return np.concatenate(pixels), np.concatenate(labels)


def once(count: int) -> Schedule:
    return Schedule(batch_size=1, steps_per_epoch=count, epochs=1, seed=3)


@pytest.mark.parametrize("size", [SIDE, 5])
@pytest.mark.parametrize("channels", [1, 3])
def test_all_feeds_give_the_same_pixels(
    tensorflow: Any, tmp_path: Path, encoded: list[Encoded], channels: int, size: int
) -> None:
    images = files(tmp_path / "images", [(image.name, image.data) for image in encoded], channels, size)
    with_it = stacked(tfdata.training_dataset(tensorflow, images, once(images.count)).as_numpy_iterator())
    without = stacked(training_batches(images, once(images.count)))
    path = frames(tmp_path / "a", [example(image.data, number) for number, image in enumerate(encoded)])
    records = RecordImages(
        files=(str(path),), count=images.count, kept=None, size=size, channels=channels, classes=images.count
    )
    of_records, numbers = stacked(tfdata.ordered_dataset(tensorflow, records, 16).as_numpy_iterator())
    assert (with_it[1] == without[1]).all()
    for pixels, others, number in zip(with_it[0], without[0], with_it[1], strict=True):
        assert (pixels == others).all(), encoded[number].name
        assert (pixels == of_records[numbers == number][0]).all(), encoded[number].name


@pytest.mark.parametrize("channels", [1, 3])
def test_the_pixels_are_those_that_were_saved(tmp_path: Path, encoded: list[Encoded], channels: int) -> None:
    images = files(tmp_path / "images", [(image.name, image.data) for image in encoded], channels)
    for pixels, numbers in training_batches(images, once(images.count)):
        image = encoded[numbers[0]]
        expected = _central(image.pixels.astype(int))
        if channels == 1:  # Rec. ITU-R BT.601: the luma that JPEG and Pillow take for grey
            expected = np.rint(expected @ [0.299, 0.587, 0.114])[..., None]
        off = np.abs(pixels[0].astype(int) - expected).max()
        assert off <= image.most_off + (channels == 1), (image.name, off)


def _central(pixels: Any) -> Any:
    height, width = pixels.shape[:2]
    top, left = (height - SIDE) // 2, (width - SIDE) // 2
    return pixels[top : top + SIDE, left : left + SIDE]


def test_the_check_reads_what_a_run_reads(tmp_path: Path, encoded: list[Encoded]) -> None:
    for image in encoded:
        look = looked_at(image.data)
        assert look.size == image.pixels.shape[1::-1], image.name
    (tmp_path / "all").mkdir()
    files(tmp_path / "all/ant", [(image.name, image.data) for image in encoded], 3)
    files(tmp_path / "all/bee", [(image.name, image.data) for image in encoded], 3)
    report = check_folder(tmp_path / "all")
    assert (report.decoded, report.unreadable, report.channels) == (2 * len(encoded), (), 3)


def test_the_check_says_what_is_left_out_of_an_image_and_of_no_other(tmp_path: Path, encoded: list[Encoded]) -> None:
    for image in encoded:
        (tmp_path / "one").mkdir(exist_ok=True)
        (tmp_path / "two").mkdir(exist_ok=True)
        place = files(tmp_path / "one", [(image.name, image.data)], 3).paths[0]
        assert bool(check_folder(tmp_path).notes) != image.whole, image.name
        tmp_path.joinpath("one", place).unlink()


@pytest.mark.parametrize(("name", "data"), refused().items(), ids=refused())
def test_what_is_no_image_is_refused_by_name_everywhere(
    tensorflow: Any, tmp_path: Path, name: str, data: bytes
) -> None:
    images = files(tmp_path / "ant", [(name, data)], 3)
    files(tmp_path / "bee", [(name, data)], 3)
    report = check_folder(tmp_path)
    assert report.unreadable_images == 2
    reason = report.unreadable[0].reason
    message = f"{images.paths[0]} cannot be read as an image ({reason}); replace or delete it"
    with pytest.raises(BadInputError) as without:
        next(training_batches(images, once(1)))
    assert str(without.value) == message
    with pytest.raises(BadInputError) as with_it, naming_damaged(images):
        next(iter(tfdata.training_dataset(tensorflow, images, once(1))))
    assert str(with_it.value) == message
    path = frames(tmp_path / "a.tfrecord", [example(data, 0)])
    records = RecordImages(files=(str(path),), count=1, kept=None, size=5, channels=3, classes=2)
    with pytest.raises(BadInputError) as of_record, naming_damaged(records):
        next(iter(tfdata.training_dataset(tensorflow, records, once(1))))
    assert str(of_record.value) == message.replace(images.paths[0], f"record 0 of {path}")
