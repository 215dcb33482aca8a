"""`export` and `track` of a job, and `plan track`: what fails there is told, and changes nothing of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.desk import TINY, own_home
from tests.doubles import fake_provider
from tests.doubles.clock import FakeClock
from tests.doubles.fake_machine import done_at_once
from tests.doubles.fake_provider import FakeProvider
from tests.unit.planner.cli.command import plan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProvider]:
    """This machine, whose runs are over before anybody looks."""
    own_home(tmp_path, monkeypatch)
    with fake_provider.as_this_machine(FakeProvider(FakeClock(), [done_at_once], tidy=True), monkeypatch) as made:
        yield made


def test_what_fails_after_a_run_leaves_its_success(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(f"{TINY}\nexport: [onnx, tflite_int8]\ntrack: [trackio]\n")
    said = plan("launch", "job.yaml", "--provider", "local", "--yes", "--json")
    assert (said.code, said.json["outcome"]) == (0, "succeeded")
    run_id = said.json["run_id"]
    assert f"plan convert {run_id} --to onnx,tflite_int8 tries again\n" in said.err
    assert "the library of trackio is not installed; " in said.err


def test_a_job_that_asks_for_nothing_gets_nothing(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(TINY)
    said = plan("launch", "job.yaml", "--provider", "local", "--yes")
    assert said.code == 0
    assert "tries again" not in said.err


def test_log_of_a_run_without_the_library_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(TINY)
    run_id = plan("launch", "job.yaml", "--provider", "local", "--yes", "--json").json["run_id"]
    said = plan("track", run_id, "--to", "trackio")
    assert (said.code, said.error) == (9, "the library of trackio is not installed")
    assert plan("track", run_id, "--to", "tensorboard").error == "--to: there is no 'tensorboard'"
    assert plan("track", "nobody", "--to", "mlflow").error == "there is no run 'nobody'"
    assert plan("track", "nobody", "--to", "mlflow", "--json").code == 2


@pytest.mark.parametrize(
    ("key", "error"), [("export: [pickle]", "export"), ("track: [aim]", "track"), ("export: onnx", "export")]
)
def test_another_word_is_refused_before_anything_is_rented(key: str, error: str, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(f"{TINY}\n{key}\n")
    said = plan("launch", "job.yaml", "--provider", "local", "--yes")
    assert said.code == 2
    assert error in said.error


def test_a_folder_without_a_model_is_not_converted(tmp_path: Path) -> None:
    said = plan("convert", tmp_path / "none", "--to", "onnx", "--json")
    assert said.code == 2, said.err
    assert said.error
    assert plan("convert", tmp_path / "none", "--to", "onxx", "--json").error == "--to: there is no 'onxx'"
