"""A training whose weights or losses become no number has failed, and keeps the last model that gives some."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.workloads.trainer.builders import a_job, attempt, events
from trainplan.workloads.job import TrainingJob
from trainplan.workloads.trainer.__main__ import main
from trainplan.workloads.trainer.errors import DivergedError
from trainplan.workloads.trainer.watch import Limits

pytestmark = [pytest.mark.train, pytest.mark.keras_3, pytest.mark.filterwarnings("default")]


def job(rate: float, **changes: Any) -> TrainingJob:
    plain = {"name": "sgd", "learning_rate": rate}
    net = {"layers": [4, "M"], "dense": [8]}
    return a_job(**({"model": net, "optimizer": plain, "global_batch_size": 1437, "epochs": 1} | changes))


def strict(path: Path) -> dict[str, Any]:
    """What a file of JSON holds; NaN is none."""

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    return record


def test_a_last_step_that_ruins_the_weights_is_no_success(tensorflow: Any, tmp_path: Path) -> None:
    with pytest.raises(DivergedError, match=r"on the test images is (nan|inf) after step 1; lower") as caught:
        attempt(job(1e30), tmp_path)
    assert caught.value.exit_code == 70
    assert str(caught.value).endswith("there is no checkpoint from before that, so no model is kept")
    assert not (tmp_path / "output").exists()


def test_a_validation_that_is_no_number_is_told_like_a_step(tensorflow: Any, tmp_path: Path) -> None:
    validated = job(1e30, epochs=3, validation={"every_epochs": 1, "keep_best": True, "patience": 2})
    with pytest.raises(DivergedError, match="in the validation after epoch 1; lower optimizer"):
        attempt(validated, tmp_path)
    for line in (tmp_path / "attempts/1/progress.jsonl").read_text(encoding="utf-8").splitlines():
        assert "NaN" not in line


@pytest.fixture(scope="module")
def growing(tensorflow: Any) -> TrainingJob:
    """Weight decay at ten times the weights makes them nine times as large at each step."""
    return job(0.1, epochs=200, optimizer={"name": "sgd", "learning_rate": 1, "weight_decay": 10})


def test_the_model_is_that_of_the_last_checkpoint_that_gives_numbers(growing: TrainingJob, tmp_path: Path) -> None:
    with pytest.raises(DivergedError, match=r"; the model is that of step \d+, the newest") as caught:
        attempt(growing, tmp_path, limits=Limits(checkpoint_every_seconds=0))
    assert caught.value.exit_code == 77
    metrics = strict(tmp_path / "output/metrics.json")
    assert metrics["failure"] == str(caught.value)
    assert np.isfinite(metrics["hold_out_loss"])
    assert f"**Training failed: {caught.value}.**" in (tmp_path / "output/report.md").read_text(encoding="utf-8")
    steps = [event["step"] for event in events(tmp_path, name="checkpoint")]
    assert metrics["steps"] in steps[-2:]
    (end,) = events(tmp_path, name="end")
    assert end["step"] == metrics["steps"]
    # Begun again it comes to the same end; the results are whole, so for whoever collects them the run is done.
    (tmp_path / "job.json").write_text(growing.to_json(), encoding="utf-8")
    code = main(["--job", str(tmp_path / "job.json"), "--run-dir", str(tmp_path), "--attempt", "2"])
    status = strict(tmp_path / "attempts/2/status.json")
    assert (code, status["state"]) == (77, "done")
    assert "lower optimizer.learning_rate" in status["message"]
