"""Whole runs in this process: to the end, stopped and gone on with, measured, shared between devices."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.workloads.trainer.builders import (
    StopsAfterAnEpoch,
    a_job,
    attempt,
    events,
    final_state,
    status,
    two_devices,
)
from tests.unit.workloads.trainer.test_tfdata import write_records
from trainplan.workloads.job import TrainingJob
from trainplan.workloads.trainer.errors import BadInputError, DeadlineReached, TrainingStopped
from trainplan.workloads.trainer.watch import Limits, StopRequest

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("default"), pytest.mark.usefixtures("tensorflow")]

STEPS_PER_EPOCH = 1437 // 64
PHASES = ["data", "import", "build", "compile", "train", "evaluate", "save"]


@pytest.fixture(scope="module")
def three_epochs(tensorflow: Any) -> TrainingJob:
    """With dropout where its random state is part of the model, which it is since Keras 3."""
    keras_2 = tensorflow.__version__.startswith("2.14.")
    model = {"layers": [8, "M", 16, "M"], "batch_norm": True, "dense": [32], "dropout": 0.0 if keras_2 else 0.2}
    return a_job(epochs=3, model=model)


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory: pytest.TempPathFactory, three_epochs: TrainingJob) -> Path:
    """A run of three epochs that nobody disturbed."""
    run_dir = tmp_path_factory.mktemp("done")
    attempt(three_epochs, run_dir)
    return run_dir


def test_a_run_tells_what_it_does(run_directory: Path) -> None:
    start, end = events(run_directory, name="start")[0], events(run_directory, name="end")[0]
    assert start == {
        **start,
        "device_kind": "cpu",
        "device_count": 1,
        "framework": "tensorflow",
        "precision": "fp32",
        "xla": False,
        "images": 1437,
        "steps_per_epoch": STEPS_PER_EPOCH,
        "epochs": 3,
        "total_steps": 3 * STEPS_PER_EPOCH,
        "resumed_from_step": 0,
    }
    assert [event["name"] for event in events(run_directory, name="phase")] == PHASES
    assert [event["epoch"] for event in events(run_directory, name="epoch")] == [1, 2, 3]
    assert end == {**end, "state": "done", "step": 3 * STEPS_PER_EPOCH, "epoch": 3, "hold_out_images": 360}
    assert end["images_per_second"] > 0
    metrics = json.loads((run_directory / "output/metrics.json").read_text())
    rates = ("images_per_second", "train_seconds")
    assert [end[name] for name in rates] == [metrics[name] for name in rates], "the clock of training stands still"
    assert end["peak_memory_bytes"] > 100 * 2**20
    assert status(run_directory)["state"] == "done"


def test_a_run_learns(run_directory: Path) -> None:
    losses = [event["loss"] for event in events(run_directory, name="epoch")]
    assert losses == sorted(losses, reverse=True)
    assert events(run_directory, name="end")[0]["hold_out_accuracy"] > 0.5


@pytest.mark.keras_3
def test_the_output_is_vouched_for_and_classifies(run_directory: Path, tensorflow: Any) -> None:
    manifest = json.loads((run_directory / "output/manifest.json").read_text(encoding="utf-8"))
    reports = ["metrics.csv", "curves.png", "confusion.csv", "report.md", "events.out.tfevents.trainplan"]
    assert [row["path"] for row in manifest] == ["model.keras", "metrics.json", *reports]
    for row in manifest:
        data = (run_directory / "output" / row["path"]).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (row["size_bytes"], row["sha256"])
    metrics = json.loads((run_directory / "output/metrics.json").read_text(encoding="utf-8"))
    from trainplan.workloads.trainer.data import digits

    hold_out: Any = digits().hold_out
    model = tensorflow.keras.models.load_model(run_directory / "output/model.keras")
    right = model.predict(hold_out.pixels, verbose=0).argmax(axis=1) == hold_out.labels
    assert metrics["hold_out_accuracy"] == pytest.approx(right.mean(), abs=1e-5)


def test_a_run_that_was_stopped_goes_on_to_the_very_same_state(
    tmp_path: Path, run_directory: Path, three_epochs: TrainingJob
) -> None:
    """Order of images, optimizer and dropout all go on, so that even the weights come out as if undisturbed."""
    stop = StopRequest()
    progress = StopsAfterAnEpoch(tmp_path / "attempts/1", stop)
    limits = Limits(checkpoint_every_seconds=600, stop=stop)
    with pytest.raises(TrainingStopped):
        attempt(three_epochs, tmp_path, limits=limits, progress=progress)
    stopped = events(tmp_path, name="end")[0]
    assert (stopped["state"], stopped["step"]) == ("stopped", STEPS_PER_EPOCH + 1)
    assert stopped["hold_out_accuracy"] is None
    assert status(tmp_path)["state"] == "stopped"

    attempt(three_epochs, tmp_path, 2)
    assert events(tmp_path, 2, "start")[0]["resumed_from_step"] == STEPS_PER_EPOCH + 1
    assert events(tmp_path, 2, "end")[0]["step"] == 3 * STEPS_PER_EPOCH
    assert [event["epoch"] for event in events(tmp_path, 2, "epoch")] == [2, 3]
    for gone_on, undisturbed in zip(final_state(tmp_path), final_state(run_directory), strict=True):
        np.testing.assert_allclose(gone_on, undisturbed, rtol=1e-2, atol=1e-3)


def test_a_finished_run_that_is_started_again_only_writes_its_output_again(
    run_directory: Path, three_epochs: TrainingJob
) -> None:
    attempt(three_epochs, run_directory, 2)
    assert events(run_directory, 2, "start")[0]["resumed_from_step"] == 3 * STEPS_PER_EPOCH
    assert events(run_directory, 2, "epoch") == []
    assert (
        events(run_directory, 2, "end")[0]["hold_out_accuracy"]
        == events(run_directory, 1, "end")[0]["hold_out_accuracy"]
    )


def test_a_deadline_that_has_passed_ends_before_anything_is_done(tmp_path: Path) -> None:
    with pytest.raises(DeadlineReached):
        attempt(a_job(), tmp_path, limits=Limits(checkpoint_every_seconds=600, deadline_unix=1.0))
    assert not (tmp_path / "attempts/1/progress.jsonl").exists()


def test_a_measuring_run_leaves_its_rate_and_nothing_else(tmp_path: Path) -> None:
    attempt(a_job(), tmp_path, limits=Limits(checkpoint_every_seconds=600, max_steps=5))
    end = events(tmp_path, name="end")[0]
    assert (end["state"], end["step"]) == ("done", 5)
    assert end["images_per_second"] > 0
    assert not (tmp_path / "output").exists()
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.parametrize("data", ["array", "files"])
def test_a_pilot_leaves_its_figures_and_no_model(tmp_path: Path, image_folder: Path, data: str) -> None:
    files = {
        "data": {"path": str(image_folder), "channels": 1},
        "model": {"layers": [4, "M"], "image_size": 8, "classes": 3, "dense": []},
        "global_batch_size": 8,
    }
    limits = Limits(checkpoint_every_seconds=600, max_steps=3, until_steady=True)
    attempt(a_job(epochs=50, **(files if data == "files" else {})), tmp_path, limits=limits)
    end = events(tmp_path, name="end")[0]
    assert (end["state"], end["step"], end["windows"], end["half_width"]) == ("done", 3, 0, None)
    for name in ("images_per_second", "data_images_per_second", "checkpoint_seconds", "checkpoint_bytes"):
        assert end[name] > 0
    assert end["input_bound"] is (end["data_images_per_second"] <= 1.1 * end["images_per_second"])
    kept = json.loads((tmp_path / "output" / "measurement.json").read_text())
    assert kept == {name: end[name] for name in kept if name in end} | {"window_images_per_second": []}
    (row,) = json.loads((tmp_path / "output" / "manifest.json").read_text())
    digest = hashlib.sha256((tmp_path / "output" / "measurement.json").read_bytes()).hexdigest()
    assert (row["path"], row["sha256"]) == ("measurement.json", digest)
    assert not (tmp_path / "checkpoints").exists()
    assert not (tmp_path / ".pilot").exists()


def test_a_batch_is_shared_between_devices(tmp_path: Path) -> None:
    attempt(a_job(), tmp_path, devices=two_devices)
    start = events(tmp_path, name="start")[0]
    assert (start["strategy"], start["device_count"]) == ("MirroredStrategy", 2)
    losses = [event["loss"] for event in events(tmp_path, name="epoch")]
    assert losses[1] < losses[0]
    assert events(tmp_path, name="end")[0]["step"] == 2 * STEPS_PER_EPOCH


def test_what_two_devices_wrote_one_goes_on_with(tmp_path: Path) -> None:
    stop = StopRequest()
    progress = StopsAfterAnEpoch(tmp_path / "attempts/1", stop)
    with pytest.raises(TrainingStopped):
        attempt(
            a_job(),
            tmp_path,
            limits=Limits(checkpoint_every_seconds=600, stop=stop),
            progress=progress,
            devices=two_devices,
        )
    attempt(a_job(), tmp_path, 2)
    assert events(tmp_path, 2, "start")[0]["resumed_from_step"] == STEPS_PER_EPOCH + 1
    assert events(tmp_path, 2, "end")[0]["step"] == 2 * STEPS_PER_EPOCH


def test_a_batch_that_cannot_be_shared_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="does not divide over 2 devices"):
        attempt(a_job(global_batch_size=63), tmp_path, devices=two_devices)


@pytest.mark.parametrize("changes", [{"precision": "amp_bf16"}, {"precision": "amp_fp16"}, {"xla": True}])
def test_precision_and_xla_are_as_the_job_says(tmp_path: Path, changes: dict[str, Any]) -> None:
    attempt(a_job(**changes), tmp_path, limits=Limits(checkpoint_every_seconds=600, max_steps=4))
    start = events(tmp_path, name="start")[0]
    assert {name: start[name] for name in changes} == changes
    assert events(tmp_path, name="end")[0]["step"] == 4


def test_a_folder_of_images_is_trained_on(tmp_path: Path, image_folder: Path) -> None:
    job = a_job(
        data={"path": str(image_folder), "channels": 1},
        model={"layers": [4, "M"], "image_size": 8, "classes": 3, "dense": []},
        global_batch_size=8,
    )
    attempt(job, tmp_path)
    metrics = json.loads((tmp_path / "output/metrics.json").read_text(encoding="utf-8"))
    assert metrics["class_names"] == ["cat", "dog", "eel"]
    assert metrics["hold_out_images"] + metrics["images"] == 120


# --- runs on TFRecords --------------------------------------------------------------------------------------------


def record_job(folder: Path, **data: Any) -> TrainingJob:
    return a_job(
        data={"path": str(folder), "channels": 1} | data,
        model={"layers": [4, "M"], "image_size": 6, "classes": 3, "dense": []},
        global_batch_size=10,
    )


@pytest.fixture(scope="module")
def record_folder(tensorflow: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("records")
    write_records(tensorflow, folder / "train-0.tfrecord", range(60))
    write_records(tensorflow, folder / "val-0.tfrecord", range(60, 83))
    return folder


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """So little that records are read in each epoch, as those of ImageNet are."""
    monkeypatch.setattr("trainplan.workloads.trainer.prepare.available_bytes", lambda: 1_000)


def test_data_that_is_not_what_the_job_says_ends_the_run_as_failed(
    tmp_path: Path, record_folder: Path, little_memory: None
) -> None:
    with pytest.raises(
        BadInputError, match=r"are 60 images to train on, and data\.images says 120; write data\.images: 60"
    ):
        attempt(record_job(record_folder, images=120), tmp_path)
    assert not (tmp_path / "output").exists()
    assert events(tmp_path, name="end") == []


def test_a_good_run_on_records_says_nothing_of_data_that_ran_out(
    tmp_path: Path, record_folder: Path, little_memory: None, recwarn: pytest.WarningsRecorder
) -> None:
    attempt(record_job(record_folder, images=60), tmp_path)
    end = events(tmp_path, name="end")[0]
    assert (end["state"], end["step"], end["hold_out_images"]) == ("done", 12, 23)
    assert not [warning for warning in recwarn if "ran out of data" in str(warning.message)]
