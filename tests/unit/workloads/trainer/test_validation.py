"""Validation in whole runs: early stopping, the best weights, a rate that falls, and that all of it goes on."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.workloads.trainer.builders import a_job, attempt, events, final_state, stopped_in_epoch_2
from trainplan.workloads.job import TrainingJob
from trainplan.workloads.trainer.errors import TrainingStopped
from trainplan.workloads.trainer.watch import Limits, StopRequest

TINY = {"layers": [4, "M"], "batch_norm": True, "dense": [], "dropout": 0.0}
WITHOUT_BATCH_NORM = TINY | {"batch_norm": False}
"""Whose last test is that of the validation: averages of batch norm are worked out anew in between."""
# So small a rate that the accuracy does not move by a fifth: nothing is ever better than the first validation.
STUCK = {"name": "sgd", "learning_rate": 1e-6, "schedule": {"name": "plateau", "patience": 1, "factor": 0.5}}
LEARNS = {"name": "sgd", "learning_rate": 0.05, "ema": 0.8}
pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("default"), pytest.mark.usefixtures("tensorflow")]


def validated(
    epochs: int = 4, optimizer: dict[str, Any] = STUCK, model: dict[str, Any] = TINY, **validation: Any
) -> TrainingJob:
    spec = {"every_epochs": 1} | validation
    return a_job(model=model, optimizer=optimizer, global_batch_size=256, epochs=epochs, validation=spec)


def metrics(run_dir: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run_dir / "output/metrics.json").read_text(encoding="utf-8"))
    return found


def rows(run_dir: Path) -> list[dict[str, str]]:
    """Of metrics.csv, without the seconds, which differ from run to run."""
    with (run_dir / "output/metrics.csv").open(encoding="utf-8", newline="") as file:
        return [{key: value for key, value in row.items() if key != "seconds"} for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def early(tmp_path_factory: pytest.TempPathFactory, tensorflow: Any) -> Path:
    """Ends after two validations that are not better than the first by a fifth."""
    del tensorflow
    run_dir = tmp_path_factory.mktemp("early")
    attempt(validated(6, model=WITHOUT_BATCH_NORM, patience=2, min_change=0.2, keep_best=True), run_dir)
    return run_dir


@pytest.mark.keras_3
def test_a_run_ends_early_and_says_so(early: Path) -> None:
    (end,), (told,) = events(early, name="end"), events(early, name="early_end")
    assert (end["state"], end["epoch"], end["step"], end["best_epoch"]) == ("done", 3, 15, 1)
    assert told["message"] == "training ended after epoch 3: 2 validations brought nothing better"
    assert [row["epoch"] for row in rows(early)] == ["1", "2", "3"]
    # The second validation is not better: the epoch after it is trained at half the rate.
    assert [float(row["rate"]) for row in rows(early)] == pytest.approx([1e-6, 1e-6, 5e-7])
    # While it trains, the rate is told with each epoch: a live run's curve has it too.
    assert [row["learning_rate"] for row in events(early, name="epoch")] == pytest.approx([1e-6, 1e-6, 5e-7])


@pytest.mark.keras_3
def test_the_model_is_that_of_the_best_validation(early: Path) -> None:
    assert metrics(early)["best_epoch"] == 1
    first = events(early, name="epoch")[0]
    assert metrics(early)["hold_out_accuracy"] == pytest.approx(first["validation_accuracy"], abs=1e-6)
    assert metrics(early)["hold_out_loss"] == pytest.approx(first["validation_loss"], abs=1e-5)
    assert "with the weights of epoch 1, the best validation" in (early / "output/report.md").read_text()


@pytest.mark.keras_3
def test_the_reports_come_home_with_the_model(early: Path) -> None:
    manifest = json.loads((early / "output/manifest.json").read_text(encoding="utf-8"))
    reports = ["metrics.csv", "curves.png", "confusion.csv", "report.md", "events.out.tfevents.trainplan"]
    assert [row["path"] for row in manifest] == ["model.keras", "metrics.json", *reports]
    with (early / "output/confusion.csv").open(encoding="utf-8", newline="") as file:
        table = np.array([row[1:] for row in csv.reader(file)][1:], dtype=int)
    assert table.sum() == 360
    assert np.trace(table) / 360 == pytest.approx(metrics(early)["hold_out_accuracy"], abs=1e-6)


@pytest.mark.keras_3
def test_a_run_that_ended_early_stays_ended(early: Path) -> None:
    attempt(validated(6, model=WITHOUT_BATCH_NORM, patience=2, min_change=0.2, keep_best=True), early, 2)
    assert events(early, 2, "epoch") == []
    (end,) = events(early, 2, "end")
    assert (end["step"], end["best_epoch"]) == (15, 1)
    assert end["hold_out_accuracy"] == events(early, 1, "end")[0]["hold_out_accuracy"]


@pytest.mark.keras_3
def test_a_validation_that_was_broken_off_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """History, best weights, averages and state are those of a run that nobody disturbed, bit for bit."""
    job = validated(3, LEARNS, keep_best=True)
    attempt(job, tmp_path / "whole")
    stop = StopRequest()
    from trainplan.workloads.trainer.watch import TrainingWatch

    class StopsInSecondTest(TrainingWatch):
        def test_begin(self) -> None:
            super().test_begin()
            if self.step == 10:
                stop.signal_name = "SIGTERM"

    import trainplan.workloads.trainer.loop as loop

    monkeypatch.setattr(loop, "TrainingWatch", StopsInSecondTest)
    cut = tmp_path / "cut"
    with pytest.raises(TrainingStopped):
        attempt(job, cut, limits=Limits(checkpoint_every_seconds=600, stop=stop))
    assert [event["epoch"] for event in events(cut, 1, "epoch")] == [1]
    monkeypatch.undo()
    attempt(job, cut, 2)
    assert events(cut, 2, "start")[0]["resumed_from_step"] == 10
    assert [event["epoch"] for event in events(cut, 2, "epoch")] == [2, 3]
    for gone_on, undisturbed in zip(final_state(cut), final_state(tmp_path / "whole"), strict=True):
        np.testing.assert_array_equal(gone_on, undisturbed)
    figures = ("epoch", "step", "validation_loss", "validation_accuracy", "validation_top5", "rate")
    assert [[row[name] for name in figures] for row in rows(cut)] == [
        [row[name] for name in figures] for row in rows(tmp_path / "whole")
    ]


@pytest.mark.keras_3
def test_a_plateau_goes_on_where_it_was(tmp_path: Path) -> None:
    job = validated(3, min_change=0.2)
    attempt(job, tmp_path / "whole")
    stopped_in_epoch_2(job, tmp_path / "cut")
    attempt(job, tmp_path / "cut", 2)
    assert [row["rate"] for row in rows(tmp_path / "cut")] == [row["rate"] for row in rows(tmp_path / "whole")]
    for gone_on, undisturbed in zip(final_state(tmp_path / "cut"), final_state(tmp_path / "whole"), strict=True):
        np.testing.assert_array_equal(gone_on, undisturbed)
