"""`plan data check`, and what a launch says of a folder of this computer before anything is asked of a provider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from planner.cli.data import check_at_launch
from planner.errors import BadInputError
from tests.unit.planner.cli.command import plan
from tests.unit.workloads.data_folder.builders import records
from tests.unit.workloads.trainer.builders import a_job

if TYPE_CHECKING:
    from pathlib import Path

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
    assert "all 120 images decoded: grey, 12x10 to 12x10 px, 12x10 in the middle; 0 cannot be" in said.out
    assert "left out (.tif is no format that is read" in said.out
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
    assert "dog/007.png (it is no image of a known format); replace or delete them" in said.err


def test_a_contact_sheet_is_a_picture(folder: Path, tmp_path: Path) -> None:
    said = plan("data", "check", folder, "--sheet", tmp_path / "sheet.png")
    assert f"wrote {tmp_path / 'sheet.png'}: 24 images" in said.err
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.format == "PNG"
    assert plan("data", "check", folder, "--sheet", tmp_path / "sheet.nothing").code == 2


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
    check_at_launch(job(folder))
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("data: 108 images to train on, 12 held out, 3 classes; all 120 images decoded")
    assert said[1].startswith("data: 1 entry of the data folder is left out")


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
