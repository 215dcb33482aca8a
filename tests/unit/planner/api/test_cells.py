"""What a notebook draws of runs, statuses and predictions."""

from __future__ import annotations

import base64
import io
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.unit.planner.report.test_html import HOSTILE, Reader
from trainplan.planner.api.job import Job
from trainplan.planner.api.launch import launch
from trainplan.planner.api.plan import estimate
from trainplan.planner.api.run import RunStatus
from trainplan.planner.runs.prediction_cell import MOST_SHOWN, SIDE_PIXELS
from trainplan.planner.runs.predictions import Prediction, Predictions

EXAMPLES = Path(__file__).parents[4] / "examples"
STATUS = RunStatus(
    run_id="261128-0badcafe", job_name="a job", provider="aws", phase="tearing_down", outcome=None, message=None,
    step=1200, total_steps=4000, usd=0.41, usd_per_hour=0.526, ends_by=datetime(2026, 11, 28, 12, tzinfo=UTC),
    trouble=None,
)  # fmt: skip


def test_a_status_has_its_phase_steps_and_cost() -> None:
    texts = Reader(STATUS._repr_html_()).texts
    assert {"tearing down", "1,200 of 4,000", "$0.41", "cost so far", "billed now"} <= {*texts}
    done = replace(STATUS, phase="done", outcome="no_capacity", message="no placement has room", usd_per_hour=0.0)
    texts = Reader(done._repr_html_()).texts
    assert {"no capacity", "cost", "no placement has room"} <= {*texts}
    assert not {"billed now", "ends by"} & {*texts}


def test_no_text_of_a_run_becomes_an_element() -> None:
    hostile = replace(STATUS, job_name=HOSTILE, message=HOSTILE, trouble=HOSTILE)
    names = Predictions([Prediction(path=HOSTILE, classes=((HOSTILE, 0.9),)), Prediction(path="a", error=HOSTILE)])
    for cell in (hostile._repr_html_(), names._repr_html_()):
        read = Reader(cell)
        assert not {"script", "img", "title"} & {name for name, _ in read.elements}
        assert not [key for _, given in read.elements for key in given if key.startswith("on")]


def test_a_run_is_drawn_as_the_journal_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    plan = estimate(Job.read(EXAMPLES / "digits-vgg.yaml"), providers=["sim"])
    run = launch(plan[0], max_cost_usd=3, yes=True, quiet=True)
    run.stop(quiet=True)
    texts = Reader(run._repr_html_()).texts
    assert {f"Run {run.id}", plan.job.name, "sim", "stopped", str(run.folder)} <= {*texts}
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "another home"))
    assert run.id in run._repr_html_()


def test_predictions_stand_beside_their_images(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    photo = tmp_path / "photo & more.png"
    image.new("RGB", (900, 600), "red").save(photo)
    classes = (("cat", 0.75), ("dog", 0.2), ("cow", 0.05))
    cell = Prediction(path=str(photo), classes=classes)._repr_html_()
    (source,) = re.findall(r'src="data:image/jpeg;base64,([^"]*)"', cell)
    with image.open(io.BytesIO(base64.b64decode(source))) as shown:
        assert shown.size == (SIDE_PIXELS, SIDE_PIXELS)
    assert {"photo & more.png", "cat", "75.0%", "dog 20.0%, cow 5.0%"} <= {*Reader(cell).texts}


def test_a_cell_of_many_predictions_stays_small(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    photo = tmp_path / "noise.png"
    image.effect_noise((400, 400), 90).save(photo)
    some = Predictions([Prediction(path=str(photo), classes=(("cat", 1.0),))] * (MOST_SHOWN + 5))
    cell = some._repr_html_()
    assert cell.count("<img") == MOST_SHOWN
    assert "and 5 more" in cell
    assert len(cell) < 1_000_000
    photo.unlink()
    assert "<img" not in some._repr_html_()
