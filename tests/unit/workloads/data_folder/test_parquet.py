"""Parquet in the layout of Hugging Face: which rows are which, and the images that are written of them."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workloads.data_folder.builders import files
from trainplan.planner.datasets.converted import convert, images_of_parquet
from trainplan.planner.errors import BadInputError
from trainplan.workloads.data_folder.check import check_folder
from trainplan.workloads.data_folder.counts import count_images
from trainplan.workloads.data_folder.entries import Tally
from trainplan.workloads.data_folder.layout import image_layout, read_layout
from trainplan.workloads.data_folder.parquet import parquet_layout, rows_of
from trainplan.workloads.data_folder.values import DataFolderError
from trainplan.workloads.trainer.errors import BadInputError as TrainerError
from trainplan.workloads.trainer.folders import FolderQuery, open_folder

arrow: Any = pytest.importorskip("pyarrow")
parquet: Any = pytest.importorskip("pyarrow.parquet")
Image: Any = pytest.importorskip("PIL.Image")

NAMES = ("eel", "cat", "dog")


def picture(number: int, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.new("L", (4 + number % 50, 5 + number // 50), number % 256).save(file, kind)
    return file.getvalue()


def features(names: tuple[str, ...]) -> dict[bytes, bytes]:
    """What datasets 3 writes into a file's metadata (Dataset.to_parquet)."""
    label = {"names": list(names), "_type": "ClassLabel"}
    return {b"huggingface": json.dumps({"info": {"features": {"image": {"_type": "Image"}, "label": label}}}).encode()}


def save(
    path: Path,
    labels: list[Any],
    first: int = 0,
    names: tuple[str, ...] = NAMES,
    columns: tuple[str, str] = ("image", "label"),
) -> Path:
    cells = [{"bytes": picture(first + number), "path": f"{number}.png"} for number in range(len(labels))]
    table = arrow.table({columns[0]: cells, columns[1]: labels})
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table.replace_schema_metadata(features(names) if names else None), path, row_group_size=7)
    return path


def contents(folder: Path) -> dict[str, set[bytes]]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {
        place: {path.read_bytes() for path in paths if path.parent.relative_to(folder).as_posix() == place}
        for place in {path.parent.relative_to(folder).as_posix() for path in paths}
    }


@pytest.fixture
def splits(tmp_path: Path) -> Path:
    """As a data set of the hub is cloned: two shards to train on, one to test, and what lies beside them."""
    folder = tmp_path / "toys"
    for shard in range(2):
        save(folder / f"data/train-0000{shard}-of-00002.parquet", [n % 3 for n in range(30)], 100 * shard)
    save(folder / "data/test-00000-of-00001.parquet", [n % 3 for n in range(12)], 300)
    files(folder, "README.md", "infos.json", ".git/config")
    return folder


def test_splits_and_names_are_those_of_the_files(splits: Path) -> None:
    report = check_folder(splits)
    assert report.kind == "Parquet, an image and a label in each row"
    assert [(row.name, row.train, row.hold_out) for row in report.classes] == [
        *(("cat", 20, 4), ("dog", 20, 4), ("eel", 20, 4))
    ]
    assert (report.decoded, report.unreadable_images, report.problems, report.warnings) == (72, 0, (), ())
    assert {left.example for left in report.left_out} == {"README.md", ".git"}
    assert tuple(count_images(splits)) == (60, 12)


def test_the_column_of_labels_and_other_numbers_of_classes_are_told(splits: Path, tmp_path: Path) -> None:
    assert check_folder(splits).notes[0] == "classes are numbered in the order of their names: eel, 0 in the file, is 2"
    path = save(tmp_path / "many" / "train.parquet", [n % 3 for n in range(60)], names=())
    table = parquet.read_table(path)
    table = table.append_column("fine_label", table["label"]).append_column("coarse_label", table["label"])
    parquet.write_table(table.drop_columns(["label"]), path)
    notes = check_folder(path.parent).notes
    assert notes[0] == "labels are those of the column fine_label; not read: coarse_label"


def test_the_images_that_are_written_are_those_of_the_rows(splits: Path, tmp_path: Path) -> None:
    convert(splits, tmp_path / "images")
    layout = image_layout(tmp_path / "images")
    assert layout.class_names == ("cat", "dog", "eel")
    assert (len(layout.train), len(layout.hold_out)) == (60, 12)
    written = contents(tmp_path / "images")
    assert written["val/dog"] == {picture(300 + number) for number in range(12) if number % 3 == 2}
    assert written["train/eel"] == {picture(100 * shard + n) for shard in range(2) for n in range(30) if n % 3 == 0}


def test_without_a_hold_out_the_check_and_the_images_hold_out_the_same_rows(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    save(folder / "all.parquet", [n % 3 for n in range(90)])
    report = check_folder(folder)
    held = {sample.read() for sample in report.samples if sample.held_out}
    assert Counter(sample.label for sample in report.samples if sample.held_out) == {0: 3, 1: 3, 2: 3}
    convert(folder, tmp_path / "images")
    written = contents(tmp_path / "images")
    assert set().union(*(written[f"val/{name}"] for name in NAMES)) == held


@pytest.mark.parametrize(
    ("labels", "names", "classes"),
    [
        (["b", "a/c", ".d"], (), ["_.d", "a_c", "b"]),
        ([2, 10, 7], (), ["02", "07", "10"]),
        (["caf\u00e9", "dog", "eel"], (), ["caf\u00e9", "dog", "eel"]),
    ],
)
def test_classes_are_named_as_folders_can_be(
    tmp_path: Path, labels: list[Any], names: tuple[str, ...], classes: list[str]
) -> None:
    folder = tmp_path / "data"
    save(folder / "train.parquet", labels * 10, names=names, columns=("img", "target"))
    save(folder / "validation.parquet", labels, 200, names=names, columns=("img", "target"))
    assert [row.name for row in check_folder(folder).classes] == classes
    convert(folder, tmp_path / "images")
    assert list(image_layout(tmp_path / "images").class_names) == classes


def test_a_cell_may_name_a_file_beside_it_and_none_elsewhere(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    files(folder, "images/1.png", content=picture(1))
    files(tmp_path, "secret.png", content=picture(2))

    def write(path: str) -> None:
        table = arrow.table({"image": [{"bytes": None, "path": path}], "label": ["a"]})
        parquet.write_table(
            table.cast(arrow.schema([("image", IMAGE), ("label", arrow.string())])), folder / "a.parquet"
        )

    IMAGE = arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])

    write("images/1.png")
    layout = parquet_layout(folder, [folder / "a.parquet"], Tally(folder))
    assert rows_of(layout).samples[0].read() == picture(1)
    for path in ("../secret.png", str(tmp_path / "secret.png"), "images/2.png"):
        write(path)
        with pytest.raises(DataFolderError, match=r"row 0 of .*a\.parquet has no bytes of an image and no file"):
            rows_of(layout)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"text": ["a"], "n": [1]}, "has the columns text: string, n: int64; needed are one of encoded images"),
        ({"image": [b"x"], "a": [1], "b": [2]}, "and one of their labels"),
        ({"image": [b""], "label": [1]}, "row 0 of .* has no bytes of an image"),
        ({"image": [b"x", b"y"], "label": ["a", None]}, "row 1 of .* has no label"),
        (
            {"image": [b"x", b"y"], "label": [0, -1]},
            "row 1 of .* has the label -1, and labels are 0 or more: move files",
        ),
        ({"image": [b"x", b"y"], "label": ["a/b", "a:b"]}, "the classes a[/:]b and a[/:]b would be one folder, a_b"),
    ],
)
def test_what_is_no_image_and_label_is_told(tmp_path: Path, table: dict[str, Any], message: str) -> None:
    parquet.write_table(arrow.table(table), tmp_path / "a.parquet")
    with pytest.raises(DataFolderError, match=message):
        check_folder(tmp_path)


def test_labels_that_the_file_does_not_name_are_told(tmp_path: Path) -> None:
    save(tmp_path / "train.parquet", [0, 1, 2])
    save(tmp_path / "test.parquet", [-1, -1])
    with pytest.raises(DataFolderError, match="has the label -1, and the file names the labels 0 to 2: move files"):
        check_folder(tmp_path)


def test_a_damaged_file_and_a_missing_shard_are_told(tmp_path: Path) -> None:
    files(tmp_path / "a", "train.parquet", content=b"PAR1" + bytes(100) + b"PAR1")
    with pytest.raises(DataFolderError, match=r"train\.parquet cannot be read as Parquet \(.*\); fetch it again"):
        check_folder(tmp_path / "a")
    save(tmp_path / "b/train-00001-of-00002.parquet", [0])
    with pytest.raises(DataFolderError, match="shard 0 of 2 is missing"):
        read_layout(tmp_path / "b")


def test_images_are_written_once_and_whole(splits: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    place = images_of_parquet(splits, home)
    assert place.name == "toys"
    stamp = place.stat().st_mtime_ns
    assert images_of_parquet(splits, home) == place
    assert place.stat().st_mtime_ns == stamp
    save(splits / "data/test-00000-of-00001.parquet", [0, 1, 2], 400)
    again = images_of_parquet(splits, home)
    assert again != place
    save(splits / "data/test-00000-of-00001.parquet", [0, -1], 400)
    with pytest.raises(BadInputError, match="has the label -1"):
        images_of_parquet(splits, home)
    whole = {file for good in (place, again) for file in good.rglob("*")}
    assert {file for file in home.rglob("*") if file.is_file()} <= whole, "nothing half written is left"
    with pytest.raises(BadInputError, match="is there already"):
        convert(splits, home)
    with pytest.raises(BadInputError, match="holds no Parquet to convert"):
        convert(place, tmp_path / "other")


def test_a_trainer_that_meets_parquet_says_what_to_do(splits: Path) -> None:
    with pytest.raises(TrainerError, match="plan launch writes a folder of it on your computer as images"):
        open_folder(splits / "data", FolderQuery(size=8, channels=1, classes=3))
