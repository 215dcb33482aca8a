"""What a check of a data folder finds: labels of every shard, unreadable images, sizes, and slips of a job."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.mutations import no_longer_than
from tests.unit.workloads.data_folder.builders import example, frames
from tests.unit.workloads.data_folder.test_published import cifar10, mnist_idx
from tests.unit.workloads.trainer.builders import a_job
from trainplan.workloads.data_folder import decode
from trainplan.workloads.data_folder.check import check_folder
from trainplan.workloads.data_folder.problems import problems_of_job
from trainplan.workloads.data_folder.sheet import write_sheet
from trainplan.workloads.data_folder.values import DataFolderError
from trainplan.workloads.regular_file import NotRegularError

Image: Any = pytest.importorskip("PIL.Image")


def png(size: tuple[int, int] = (6, 4), mode: str = "L", grey: int = 9) -> bytes:
    file = io.BytesIO()
    Image.new(mode, size, grey if mode == "L" else (grey, 0, 0)).save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes; one damaged image, one of another size, one in colour, a note and a hidden folder."""
    for place in ("train/ant", "train/bee", "val/ant", "val/bee", ".cache"):
        (tmp_path / "data" / place).mkdir(parents=True)
        for number in range(5 if place.startswith("train") else 2):
            (tmp_path / "data" / place / f"{number}.png").write_bytes(png())
    (tmp_path / "data/train/ant/1.png").write_bytes(png()[:45])
    (tmp_path / "data/train/ant/2.png").write_bytes(png((30, 20)))
    (tmp_path / "data/train/bee/3.png").write_bytes(png((3, 2), "RGB"))
    (tmp_path / "data/train/bee/note.tif").write_bytes(b"x")
    return tmp_path / "data"


def test_a_folder_that_may_not_be_what_was_meant_has_a_warning(tmp_path: Path) -> None:
    for name in ("Cat", "cat", "plants/rose", "plants/fern", "toys/1", "cat/1"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        for number in range(8):
            (tmp_path / name / f"{number}.png").write_bytes(png())
    alike, few, nested = check_folder(tmp_path).warnings
    assert alike.startswith("classes with almost the same name (Cat, cat)")
    assert " of the accuracy; a few dozen images of each class are needed" in few
    assert nested.startswith("all images in sub-folders of plants (fern, rose) are of one class, plants; ")


def test_a_folder_is_counted_and_decoded(folder: Path) -> None:
    report = check_folder(folder)
    assert [(row.label, row.name, row.train, row.hold_out) for row in report.classes] == [
        (0, "ant", 5, 2),
        (1, "bee", 5, 2),
    ]
    assert (report.train_images, report.hold_out_images, report.decoded, report.unreadable_images) == (10, 4, 14, 1)
    assert report.unreadable[0].path.endswith("train/ant/1.png")
    assert report.sizes is not None
    assert (report.sizes.least, report.sizes.middle, report.sizes.most) == ((3, 2), (6, 4), (30, 20))
    assert report.channels == 3
    assert {left.example for left in report.left_out} == {".cache", "train/bee/note.tif"}
    (problem,) = report.problems
    assert "1 of 14 images cannot be decoded, for example" in problem


def test_a_file_too_large_for_an_image_is_named_and_not_read(folder: Path) -> None:
    """It was read whole, twice where it had a twin: a film of 7 GB between the images ended in the memory's end."""
    for name in ("train/ant/film.png", "train/bee/film.png"):
        with (folder / name).open("wb") as film:
            film.truncate(7 * 10**9)
    before = _bytes_read()
    for most in (None, 2):  # also where few images are decoded
        report = check_folder(folder, most)
        large = [row for row in report.unreadable if row.path.endswith("film.png")]
        assert [row.reason for row in large] == 2 * [
            "it has 7,000,000,000 bytes; an image has at most 1,073,741,824; replace or delete it"
        ]
        assert report.problems[0].endswith(f"train/ant/film.png: {large[0].reason}")
        assert (report.train_images, report.unreadable_images) == (12, 3 if most is None else report.unreadable_images)
        write_sheet(report, folder.parent / "sheet.png")
    with pytest.raises(decode.ImageError, match="7,000,000,000 bytes"):
        decode.image_bytes(folder / "train/ant/film.png")
    assert _bytes_read() - before < 50_000_000


def test_an_image_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """A folder's own are left out before; `plan predict` names images one by one."""
    os.mkfifo(tmp_path / "1.png")
    with no_longer_than(60, "an image that is a pipe"), pytest.raises(NotRegularError, match="it is a pipe"):
        decode.image_bytes(tmp_path / "1.png")


def _bytes_read() -> int:
    """What this process has read from files so far; 0 where no kernel counts it."""
    counters = Path("/proc/self/io")
    return int(counters.read_text().split("rchar:")[1].split()[0]) if counters.exists() else 0


def test_images_of_very_many_pixels_are_read_up_to_a_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow warns above one number of pixels, which is no fault of the image, and refuses twice as many."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 400)
    decode._formats.cache_clear()  # what it sets for a process is undone at the end of each test
    (folder / "train/ant/1.jfif").write_bytes(png((25, 25)))
    assert [Path(unreadable.path).name for unreadable in check_folder(folder).unreadable] == ["1.png"]
    (folder / "train/ant/1.jfif").write_bytes(png((30, 30)))
    reasons = [unreadable.reason for unreadable in check_folder(folder).unreadable]
    assert "it has more than 800 pixels: make it smaller" in reasons


def test_a_record_whose_checksum_does_not_fit_is_named(tmp_path: Path) -> None:
    records(tmp_path, [0, 1] * 20, [0, 1] * 20)
    _, second = sorted(tmp_path.iterdir())
    second.write_bytes(second.read_bytes()[:-1] + b"x")
    text = f"1 of 80 images cannot be decoded, for example {second.name}, record 39 (its checksum does not fit"
    assert any(text in problem for problem in check_folder(tmp_path).problems)


def test_it_says_what_a_run_does_not_take_of_the_images(tmp_path: Path) -> None:
    for name, image in (
        ("ant/long", Image.new("L", (64, 8))),
        ("ant/dark", Image.new("I;16", (8, 8), 4095)),
        ("bee/clear", Image.new("RGBA", (8, 8), (9, 9, 9, 128))),
        ("bee/opaque", Image.new("RGBA", (8, 8), (9, 9, 9, 255))),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        image.save(tmp_path / f"{name}.png")
    long, dark, clear = check_folder(tmp_path).notes
    assert long.startswith("1 image loses more than a third of its area: only the central square is used (for")
    assert long.endswith("long.png, 64x8 px)")
    assert dark.startswith("1 image has 16 bits: the upper 8 are used; the brightest pixel of all is 4,095 of 65,535")
    assert clear.startswith("1 image has transparency: it is removed")


def test_a_sample_is_spread_over_the_folder(folder: Path) -> None:
    heard: list[int] = []
    report = check_folder(folder, 7, heard.append)
    assert (report.decoded, report.unreadable_images, heard) == (7, 0, [7])


def records(folder: Path, *shards: list[int], names: str = "train-{:05}.tfrecord") -> Path:
    for number, labels in enumerate(shards):
        grey = number * 100
        frames(folder / names.format(number), [example(png(grey=grey + n), label) for n, label in enumerate(labels)])
    return folder


def test_labels_of_all_shards_are_looked_at(tmp_path: Path) -> None:
    """The usual ImageNet records: labels from 1, the highest of them only in the last shard."""
    report = check_folder(records(tmp_path, [1, 2] * 20, [1, 2] * 20, [1, 2, 3] * 10))
    assert (report.kind, report.first_label, report.last_label) == ("TFRecords", 1, 3)
    assert [(row.label, row.train + row.hold_out) for row in report.classes] == [(0, 50), (1, 50), (2, 10)]
    assert (report.train_images, report.hold_out_images) == (99, 11)
    assert report.problems == ()
    job = a_job(
        data={"path": str(tmp_path), "images": 500}, model={"layers": [4], "image_size": 8, "classes": 4}, epochs=1
    )
    assert problems_of_job(report, job) == (
        "the data has 3 classes, the job 4; write model.classes: 3",
        "the labels run from 1 to 3; write data.first_label: 1",
        "there are 99 images to train on, and data.images says 500; write data.images: 99, or leave it "
        "out and they are counted",
    )


def test_a_shard_that_is_cut_short_is_named_and_the_others_count(tmp_path: Path) -> None:
    records(tmp_path, [0, 1] * 20, [0, 1] * 20)
    second = tmp_path / "train-00001.tfrecord"
    second.write_bytes(second.read_bytes()[:-3])
    report = check_folder(tmp_path)
    assert report.train_images + report.hold_out_images == 79
    assert "train-00001.tfrecord: " in report.problems[0]
    assert "is cut short" in report.problems[0]


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ([0, 2] * 20, "the labels run to 2, and only 2 of them have images"),
        ([5, 6] * 20, "the labels begin at 5; they must run from 0, or from 1 with data.first_label: 1"),
        ([0] * 20, "there is 1 class; a run needs two or more"),
    ],
)
def test_labels_that_no_run_can_use_are_problems(tmp_path: Path, labels: list[int], problem: str) -> None:
    assert problem in check_folder(records(tmp_path, labels)).problems


def test_a_class_without_an_image_is_a_problem(folder: Path) -> None:
    (folder / "train/cow").mkdir()
    assert "the class cow has no image to train on; add some, or take the class out" in check_folder(folder).problems


def test_published_sets_are_counted_by_class(tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    mnist_idx(tmp_path / "mnist", packed=True)
    report = check_folder(tmp_path / "mnist")
    assert (report.kind, report.train_images, report.hold_out_images) == ("MNIST (IDX)", 6, 3)
    assert [(row.label, row.train, row.hold_out) for row in report.classes] == [(0, 2, 1), (1, 2, 1), (2, 2, 1)]
    (tmp_path / "cifar").mkdir()
    cifar10(tmp_path / "cifar", packed=False)
    assert check_folder(tmp_path / "cifar").classes[3].name == "class 3"


def test_a_contact_sheet_shows_each_class(folder: Path, tmp_path: Path) -> None:
    shown = write_sheet(check_folder(folder), tmp_path / "sheet.png")
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.size == (170 + 8 * 100, 2 * 100)
        assert sheet.getpixel((170 + 48, 48)) == (9, 9, 9)
    assert shown == 9, "ten to train on, of which one cannot be decoded"


@pytest.mark.parametrize("name", ["absent", "data/train/ant/0.png"])
def test_what_is_no_folder_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataFolderError, match="there is no folder"):
        check_folder(tmp_path / name)
