"""`plan predict`, and the code in the report: what a kept model says of images, by name."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.unit.planner.cli.command import plan
from trainplan.planner.cli.commands.predict import _row, _write_csv
from trainplan.planner.errors import BadInputError, PlanError, ThisMachineError
from trainplan.planner.runs.predictions import Prediction, image_paths, kept_model, predictions
from trainplan.workloads.terms import Framework
from trainplan.workloads.trainer.usage import usage_lines

FRAMEWORK = next((name for name in ("jax", "tensorflow", "torch") if find_spec(name)), "tensorflow")
needs_framework = pytest.mark.skipif(
    find_spec(FRAMEWORK) is None and os.environ.get("CI") != "true", reason="no framework is installed"
)
METRICS = {
    "input": {"dtype": "uint8", "range": [0, 255], "shape": [4, 4, 3]},
    "class_names": ["red", "green", "blue"],
    "framework": FRAMEWORK,
}
# A model that knows the three colours by heart: the mean of each channel, as a softmax.
MAKE_MODEL = """
import os, sys; os.environ["KERAS_BACKEND"] = sys.argv[1]
import keras
images = keras.Input((4, 4, 3), dtype="uint8")
means = keras.layers.GlobalAveragePooling2D()(keras.layers.Rescaling(0.02)(images))
keras.Model(images, keras.layers.Softmax()(means)).save(sys.argv[2])
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def a_folder(path: Path, metrics: dict[str, Any] = METRICS) -> Path:
    path.mkdir()
    (path / "model.keras").write_bytes(b"no model")
    (path / "metrics.json").write_text(json.dumps(metrics))
    return path


def an_image(path: Path, colour: tuple[int, int, int]) -> Path:
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (9, 6), colour).save(path)
    return path


@pytest.mark.slow
@pytest.mark.train
@needs_framework
def test_images_and_folders_get_the_classes_of_the_run_and_the_reports_code_says_the_same(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "model")
    subprocess.run([sys.executable, "-P", "-c", MAKE_MODEL, FRAMEWORK, folder / "model.keras"], check=True)
    green, blue = an_image(folder / "IMAGE.jpg", (10, 250, 10)), an_image(tmp_path / "more" / "b.png", (0, 0, 255))
    (tmp_path / "more" / "broken.png").write_bytes(b"no image")
    said = plan("predict", folder, green, "more", "--json")
    first, second, broken = said.json["images"]
    assert first["classes"][0]["class"] == "green"
    assert (second["path"], second["classes"][0]["class"]) == (str(blue.relative_to(tmp_path)), "blue")
    assert sum(row["probability"] for row in second["classes"]) == pytest.approx(1, abs=1e-5)
    assert broken["classes"] == []
    assert "more/broken.png cannot be read as an image" in broken["error"]
    assert (said.code, said.error) == (2, "1 of 3 images could not be read")

    report = "\n".join(usage_lines(_Toolkit(), 4, 3, METRICS["class_names"]))  # type: ignore[arg-type]
    code = report.split("```python\n")[1].split("\n```")[0]
    ran = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    (score, name), *_ = eval(ran.stdout.splitlines()[-1])  # what the code has printed
    assert name == "green"
    assert score == pytest.approx(first["classes"][0]["probability"], abs=1e-6)


class _Toolkit:
    framework = Framework(FRAMEWORK)
    keras_version = "3.12.0"


RIGHT = Prediction(path="a.jpg", classes=(("daisy", 0.75), ("rose", 0.25)))
WRONG = Prediction(path="b.jpg", error="b.jpg cannot be read as an image")


def test_a_row_has_the_likeliest_class_first() -> None:
    assert _row(RIGHT) == ("a.jpg", "daisy", "75.0%", "rose 25.0%")


def test_a_csv_row_has_the_figures_as_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    _write_csv([RIGHT, WRONG])
    right, wrong = csv.DictReader(capsys.readouterr().out.splitlines())
    assert (right["path"], right["class_1"], right["probability_2"], right["class_3"]) == ("a.jpg", "daisy", "0.25", "")
    assert (wrong["class_1"], wrong["error"]) == ("", WRONG.error)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("predict nobody a.jpg", "there is no run 'nobody'"),
        ("predict model a.jpg", "there is no file or folder a.jpg"),
        ("predict model empty", "there is no image in empty"),
        ("predict model empty --csv --json", "--csv and --json are two formats"),
    ],
)
def test_what_is_not_there_is_named(tmp_path: Path, line: str, error: str) -> None:
    a_folder(tmp_path / "model")
    (tmp_path / "empty").mkdir()
    said = plan(*line.split())
    assert (said.code, said.error) == (2, error)


@pytest.mark.parametrize(
    "change",
    [
        {"input": {"shape": [4, 5, 3]}},
        {"input": None},
        {"class_names": [1]},
        {"framework": "caffe"},
    ],
)
def test_figures_that_say_nothing_of_the_model_are_an_error(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(ThisMachineError, match=r"metrics\.json does not say what the model takes"):
        kept_model(a_folder(tmp_path / "model", METRICS | change))


def test_a_folder_without_a_model_or_its_figures_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"there is no model\.keras"):
        kept_model(tmp_path)
    (a_folder(tmp_path / "model") / "metrics.json").unlink()
    with pytest.raises(ThisMachineError, match="cannot read"):
        kept_model(tmp_path / "model")


@pytest.mark.parametrize("has_model", [False, True])
def test_what_a_script_has_written_is_not_asked(tmp_path: Path, has_model: bool) -> None:
    folder = a_folder(tmp_path / "model")
    (folder / "metrics.json").write_text('{"name": "mine", "job_digest": "0", "steps": 3}')
    if not has_model:
        (folder / "model.keras").unlink()
    with pytest.raises(BadInputError, match="a script of your own has written what is in"):
        kept_model(folder)


def test_a_simulated_run_has_no_model(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text('{"name": "vgg", "job_digest": "0", "steps": 3, "simulated": true}')
    with pytest.raises(BadInputError, match=f"the run of {tmp_path} is simulated: no net was trained"):
        kept_model(tmp_path)


@needs_framework
def test_a_trainer_that_cannot_answer_is_quoted(tmp_path: Path) -> None:
    program = (sys.executable, "-c", "import sys; sys.exit('error: the model cannot be loaded: it is none')")
    model = kept_model(a_folder(tmp_path / "model"))
    with pytest.raises(PlanError, match=r"model\.keras could not be asked: the model cannot be loaded: it is none"):
        predictions(model, ["a.jpg"], pytest.fail, program)


def test_hidden_files_and_what_is_no_image_are_passed_over_in_folders(tmp_path: Path) -> None:
    for name in ("b/2.png", "a.JPG", ".hidden.png", "notes.txt"):
        (tmp_path / "folder" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "folder" / name).write_bytes(b"")
    assert image_paths([tmp_path / "folder"]) == [str(tmp_path / "folder" / name) for name in ("a.JPG", "b/2.png")]
