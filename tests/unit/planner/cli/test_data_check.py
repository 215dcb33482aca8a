"""`plan data check`, and what a launch says of a folder of this computer before anything is asked of a provider."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.planner.cli.command import plan
from tests.unit.workloads.data_folder.builders import records
from tests.unit.workloads.trainer.builders import a_job
from trainplan.planner.api.counted_images import with_counted_images
from trainplan.planner.api.data_steps import check_at_launch
from trainplan.planner.errors import BadInputError

Image: Any = pytest.importorskip("PIL.Image")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three classes of 40 grey images of 12x10 px, and a file of another suffix."""
    for name in ("cat", "dog", "eel"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(40):
            grey = ("cat", "dog", "eel").index(name) * 40 + number
            Image.new("L", (12, 10), grey).save(tmp_path / "images" / name / f"{number:03}.png")
    (tmp_path / "images/cat/notes.tif").write_bytes(b"x")
    return tmp_path / "images"


def damage(folder: Path) -> None:
    (folder / "dog/007.png").write_bytes(b"no image")


def test_a_good_folder_is_told_with_what_to_write(folder: Path) -> None:
    said = plan("data", "check", folder)
    assert said.code == 0
    assert "108 images to train on, 12 held out, 3 classes" in said.out
    assert "all 120 images read; grey, 12x10 to 12x10 px (median 12x10)" in said.out
    assert "(.tif is not supported" in said.out
    assert "for the job: model.classes: 3, data.images: 108, data.channels: 1" in said.out


def test_json_has_everything(folder: Path) -> None:
    found: Any = plan("data", "check", folder, "--json").json
    assert [row["name"] for row in found["classes"]] == ["cat", "dog", "eel"]
    assert sum(row["train"] for row in found["classes"]) == found["train_images"] == 108
    assert found["sizes_px"] == {"least": [12, 10], "middle": [12, 10], "most": [12, 10]}
    assert (found["decoded"], found["unreadable"], found["problems"]) == (120, [], [])
    assert found["left_out"][0]["example"] == "cat/notes.tif"
    assert found["job"] == {"model.classes": 3, "data.images": 108, "data.channels": 1}


def test_a_damaged_image_is_named_and_ends_as_bad_input(folder: Path) -> None:
    damage(folder)
    said = plan("data", "check", folder)
    assert said.code == 2
    assert "problem: 1 of 120 images cannot be decoded" in said.out
    assert "dog/007.png (it is no JPEG, PNG, " in said.err


def test_a_contact_sheet_is_a_picture(folder: Path, tmp_path: Path) -> None:
    said = plan("data", "check", folder, "--sheet", tmp_path / "sheet.png")
    assert f"wrote {tmp_path / 'sheet.png'}: 24 images" in said.err
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.format == "PNG"


def test_a_sheet_takes_the_place_of_no_other_file(folder: Path, tmp_path: Path) -> None:
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    for file in (next(file for file in before if file.suffix == ".png"), folder / "sheet.png"):
        refused = plan("data", "check", folder, "--sheet", file)
        assert (refused.code, refused.out) == (2, "")
        assert refused.error == f"{file} would be among the images that are checked"
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before
    refused = plan("data", "check", folder, "--sheet", tmp_path / "sheet.pdf")
    assert refused.error == "--sheet writes a picture, and sheet.pdf does not end in .png"
    assert not (tmp_path / "sheet.pdf").exists()


def test_what_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    said = plan("data", "check", tmp_path / "absent")
    assert said.code == 2
    assert "there is no folder" in said.err
    records(tmp_path / "both" / "train/val-0.tfrecord", [0, 1])
    records(tmp_path / "both" / "train-1.tfrecord", [0, 1])
    assert "says train and val" in plan("data", "check", tmp_path / "both").err


def job(folder: Path, **changes: Any) -> Any:
    return a_job(**{"data": {"path": str(folder)}, "model": {"layers": [4], "image_size": 8, "classes": 3}} | changes)


def test_a_launch_says_in_a_line_what_it_would_train_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    check_at_launch(job(folder), told)
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith(
        "data: 108 images to train on, 12 held out, 3 classes (cat, dog, eel); all 120 images read"
    )
    assert said[1].startswith("data: ignored 1 file or folder")
    assert told == said, "so that the view does not tell them again"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"layers": [4], "image_size": 8, "classes": 5}}, r"write model\.classes: 3"),
        ({"global_batch_size": 512}, "a batch of 512 cannot be taken from 108"),
        ({}, "1 of 120 images cannot be decoded"),
    ],
)
def test_a_launch_refuses_what_a_run_would_fail_with(folder: Path, changes: dict[str, Any], message: str) -> None:
    if not changes:
        damage(folder)
    with pytest.raises(BadInputError, match=message):
        check_at_launch(job(folder, **changes))


def test_the_command_refuses_such_a_folder_before_it_plans_anything(folder: Path, tmp_path: Path) -> None:
    damage(folder)
    (tmp_path / "job.yaml").write_text(job(folder).to_json(), encoding="utf-8")
    said = plan("launch", tmp_path / "job.yaml", "--provider", "local", "--dry-run")
    assert (said.code, said.out) == (2, "")
    assert "cannot be trained on: 1 of 120 images cannot be decoded" in said.error
    assert said.hint == f"plan data check {folder} lists every problem"


def test_a_launch_does_not_look_at_what_is_not_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check_at_launch(job(tmp_path / "elsewhere"))
    check_at_launch(a_job())
    assert capsys.readouterr().err == ""


def test_equal_images_are_refused_unless_the_job_allows_them(folder: Path, tmp_path: Path) -> None:
    for name in ("cat/000.png", "cat/001.png", "cat/002.png"):
        (folder / f"dog/again-{name[4:]}").write_bytes((folder / name).read_bytes())
    said = plan("data", "check", folder, "--json")
    assert said.code == 2
    assert said.json["duplicates"] == {"held_out_also_trained_on": 0, "in_two_classes": 3}
    assert "write data.duplicates: allow" in said.json["problems"][0]
    with pytest.raises(BadInputError, match=r"3 images are in two classes \(2\.4% of all\)"):
        check_at_launch(job(folder))
    allowed = job(folder, data={"path": str(folder), "duplicates": "allow"})
    assert check_at_launch(allowed).data.duplicates == "allow"
    (tmp_path / "job.yaml").write_text(allowed.to_json(), encoding="utf-8")
    said = plan("data", "check", folder, "--job", tmp_path / "job.yaml")
    assert said.code == 0
    assert "warning: 3 images are in two classes" in said.out


def test_a_class_without_a_held_out_image_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "fox").mkdir()
    Image.new("L", (9, 9), 250).save(folder / "fox/1.png")
    said = plan("data", "check", folder)
    assert said.code == 0
    assert "warning: the class fox has no test image, and no part in the accuracy" in said.out
    check_at_launch(job(folder, model={"layers": [4], "image_size": 8, "classes": 4}))
    assert "data: the class fox has no test image" in capsys.readouterr().err


@pytest.mark.parametrize("images", [10, 109])
def test_a_number_that_is_not_the_folders_is_refused_by_launch_and_estimate(
    folder: Path, tmp_path: Path, images: int
) -> None:
    written = job(folder, data={"path": str(folder), "images": images, "channels": 1}, global_batch_size=8)
    (tmp_path / "job.yaml").write_text(written.to_json(), encoding="utf-8")
    for said in (
        plan("estimate", tmp_path / "job.yaml", "--json"),
        plan("launch", tmp_path / "job.yaml", "--provider", "local", "--dry-run"),
    ):
        assert said.code == 2
        assert f"there are 108 images to train on, and data.images says {images}; write data.images: 108" in said.error


def test_estimate_and_launch_count_the_same_images(folder: Path, tmp_path: Path) -> None:
    written = job(folder, data={"path": str(folder), "channels": 1}, global_batch_size=8)
    assert check_at_launch(written).data.images == with_counted_images(written).data.images == 108
    records(tmp_path / "records/a.tfrecord", [number % 3 for number in range(50)])
    of_records = job(tmp_path / "records", data={"path": str(tmp_path / "records")})
    assert with_counted_images(of_records).data.images == 45
    (tmp_path / "flat").mkdir()
    Image.new("L", (9, 9), 250).save(tmp_path / "flat/1.png")
    flat = {"path": str(tmp_path / "flat")}
    assert with_counted_images(job(folder, data=flat | {"images": 500})).data.images == 500, "an estimate of its own"
    with pytest.raises(BadInputError, match=r"holds 1 \.png file, none of them in a sub-folder of a class"):
        with_counted_images(job(folder, data=flat))
    elsewhere = job(tmp_path / "elsewhere")
    assert with_counted_images(elsewhere) is elsewhere


def test_what_is_no_data_folder_is_told_as_what_it_is(folder: Path, tmp_path: Path) -> None:
    assert "is a file; name the folder" in plan("data", "check", folder / "cat/000.png").error
    said = plan("data", "check", folder / "cat")
    assert "holds 40 .png files and 1 .tif file, none of them in a sub-folder of a class" in said.error
    assert "Pillow" not in said.out + said.err
    for name in ("one", "other"):
        (tmp_path / "empty" / name).mkdir(parents=True)
    (tmp_path / "empty/one/notes.txt").write_text("x")
    said = plan("data", "check", tmp_path / "empty")
    assert "Pillow" not in said.out + said.err
    (tmp_path / "one").mkdir()
    (folder / "cat").rename(tmp_path / "one/cat")
    said = plan("data", "check", tmp_path / "one")
    assert "there is 1 class (cat); a run needs two or more" in said.error
    assert "model.classes" not in said.error
    (tmp_path / "one/train.csv").write_text("000.png,tabby\n")
    said = plan("data", "check", tmp_path / "one")
    assert "a table of labels (train.csv) is not read, move each image into the sub-folder of its class" in said.error


def test_names_in_wide_letters_are_not_cut(folder: Path) -> None:
    name = "\u732b\u306e\u5199\u771f\u4e00\u89a7\u8868"
    (folder / "cat").rename(folder / f"{name}\u7532")
    (folder / "dog").rename(folder / f"{name}\u4e59")
    said = plan("data", "check", folder)
    assert f"{name}\u7532 " in said.out
    assert "\u2026" not in said.out


def test_a_launch_trains_on_the_images_of_parquet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrow: Any = pytest.importorskip("pyarrow")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "rows").mkdir()
    images = []
    for number in range(60):
        Image.new("L", (9, 9), 4 * number).save(tmp_path / "one.png")
        images.append({"bytes": (tmp_path / "one.png").read_bytes(), "path": None})
    table = arrow.table({"image": images, "label": [number % 3 for number in range(60)]})
    parquet.write_table(table, tmp_path / "rows/all.parquet")
    written = job(tmp_path / "rows", global_batch_size=8)
    launched = check_at_launch(written)
    assert launched.data.images == with_counted_images(written).data.images == 54
    said = capsys.readouterr().err
    assert "data: 54 images to train on, 6 held out, 3 classes (0, 1, 2); all 60 images read" in said
    assert f"data: the images of the Parquet files are in {launched.data.path}" in said
    assert with_counted_images(launched).data.images == 54
    assert check_at_launch(written) == launched, "written once"
    shown = plan("data", "convert", tmp_path / "rows", tmp_path / "images", "--json").json
    assert shown == {"folder": str(tmp_path / "images"), "train_images": 54, "hold_out_images": 6}
    assert "is there already" in plan("data", "convert", tmp_path / "rows", tmp_path / "images").error
