"""What a tracker is told of a run; trackers that refuse, hang or are not there. Real ones: e2e/test_trackers.py."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.builders import a_script
from trainplan.extensions.track.push import write_run
from trainplan.extensions.track.run_record import FIGURES, run_record
from trainplan.planner.errors import ThisMachineError
from trainplan.planner.runs.receipt.receipt import Receipt
from trainplan.workloads.job import TrainingJob
from trainplan.workloads.sweep import Result, table_of
from trainplan.workloads.terms import Tracker

MODEL = {"preset": "vgg11", "image_size": 64, "classes": 2}
JOB = TrainingJob.model_validate(
    {
        "name": "net",
        "model": MODEL,
        "data": {"url": "https://user:password@example.org/images.tar"},
        "epochs": 3,
        "global_batch_size": 64,
        "secrets": {"TOKEN": "aws-sm:arn:secret"},
        "track": ["mlflow"],
    }
)


def a_receipt(folder: Path | None) -> Receipt:
    return Receipt(
        run_id="261126-abcd1234",
        job_name="net",
        outcome="succeeded",
        message=None,
        attempts=2,
        interruptions=1,
        lost_steps=5,
        estimated_seconds=120.0,
        actual_seconds=100.0,
        estimated_usd=1.5,
        actual_usd=1.25,
        estimated_images_per_second=400.0,
        basis="measured",
        actual_images_per_second=410.5,
        steps=30,
        total_steps=30,
        accuracy=0.9,
        hold_out_images=10,
        framework="tensorflow 2.21.0",
        device="1 x T4",
        phase_seconds={},
        model_folder=None if folder is None else str(folder),
        top5=None,
    )


def test_the_record_has_curves_files_and_every_figure_that_is_known(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("epoch,step,loss,validation_loss\n1,10,2.5,\n2,20,nan,1.5\n3,,1,1\nx\n")
    (tmp_path / "model.keras").write_bytes(b"")
    record = run_record(JOB, a_receipt(tmp_path))
    assert record["curves"] == [
        {"step": 10, "values": {"epoch": 1, "loss": 2.5}},
        {"step": 20, "values": {"epoch": 2, "validation_loss": 1.5}},
    ]
    assert len(FIGURES) == 12
    assert record["figures"].keys() == FIGURES.keys() - {"hold_out_top5"}
    assert record["figures"]["actual_usd"] == 1.25
    assert [file.rpartition("/")[2] for file in record["files"]] == ["model.keras", "metrics.csv"]


def test_the_figures_of_a_script_stand_beside_those_of_the_run(tmp_path: Path) -> None:
    receipt = replace(a_receipt(tmp_path), figures={"val_accuracy": 0.9, "steps": 7.0})
    figures = run_record(JOB, receipt)["figures"]
    assert (figures["val_accuracy"], figures["steps"]) == (0.9, 30.0)


def test_no_address_and_no_secret_is_in_it(tmp_path: Path) -> None:
    text = str(run_record(JOB, a_receipt(tmp_path)))
    assert not any(word in text for word in ("password", "example.org", "TOKEN", "arn:secret"))


@pytest.mark.parametrize("preset", ["vgg11", "resnet18"])
def test_a_network_has_a_name_whatever_it_is_described_by(preset: str) -> None:
    job = TrainingJob.model_validate(JOB.model_dump(exclude_unset=True) | {"model": MODEL | {"preset": preset}})
    assert run_record(job, a_receipt(None))["params"]["model"] == preset


@pytest.mark.parametrize("folder", [None, "gone"])
def test_a_run_without_a_model_has_no_curves(folder: str | None, tmp_path: Path) -> None:
    record = run_record(JOB, a_receipt(None if folder is None else tmp_path / folder))
    assert (record["curves"], record["files"]) == ([], [])


def test_curves_that_are_no_text_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_bytes(b"\xff\xfe\x00step\n\x00")
    assert run_record(JOB, a_receipt(tmp_path))["curves"] == []


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({"lr": 0.1, "fast": True}, {"args.fast": "True", "args.lr": "0.1"}),
        (["--lr", 0.1], {"args": "--lr 0.1"}),
        ({}, {}),
    ],
)
def test_of_a_script_what_it_was_told_and_nothing_that_it_decides_itself(args: Any, told: dict[str, str]) -> None:
    params = run_record(a_script(args=args), a_receipt(None))["params"]
    assert params["model"] == "train.py"
    assert {name: value for name, value in params.items() if name.startswith("args")} == told
    assert not {"epochs", "global_batch_size", "precision", "optimizer", "learning_rate", "seed"} & set(params)


RECORD = run_record(JOB, a_receipt(None))


def test_a_tracker_that_refuses_is_quoted() -> None:
    python = (sys.executable, "-c", "import sys; sys.exit('warning\\nerror: nobody has signed in')")
    with pytest.raises(ThisMachineError, match=r"^wandb: nobody has signed in$") as refused:
        write_run(Tracker.WANDB, RECORD, python=python)
    assert refused.value.hint == "plan track 261126-abcd1234 --to wandb tries again"


def test_a_tracker_that_hangs_is_given_up() -> None:
    python = (sys.executable, "-c", "import threading; threading.Event().wait()")
    with pytest.raises(ThisMachineError, match=r"^mlflow did not answer within 0\.3 s$"):
        write_run(Tracker.MLFLOW, RECORD, python=python, patience_seconds=0.3)


def test_a_library_that_is_not_there_is_named() -> None:
    with pytest.raises(ThisMachineError, match="the library of trackio is not installed") as refused:
        write_run(Tracker.TRACKIO, RECORD)
    assert "[trackio]" in refused.value.hint


def test_a_sweep_is_recorded_with_the_settings_of_its_best_trial(tmp_path: Path) -> None:
    values = {"optimizer.learning_rate": [0.1, 0.03], "global_batch_size": [64, 128]}
    job = TrainingJob.model_validate({**json.loads(JOB.to_json()), "sweep": values})
    results = [Result(trial=number, epochs=job.epochs, accuracy=number / 10) for number in (1, 2, 3)]
    (tmp_path / "sweep.json").write_text(table_of(job, results, ended_early=True).model_dump_json(), encoding="utf-8")
    params = run_record(job, a_receipt(tmp_path))["params"]
    assert (params["trial"], params["learning_rate"], params["global_batch_size"]) == ("3", "0.1", "128")
    assert params["job_digest"] == job.digest()
    (tmp_path / "sweep.json").write_text("{}", encoding="utf-8")
    assert "trial" not in run_record(job, a_receipt(tmp_path))["params"]
