"""A script of the person's own, by the commands that a person types: measured, launched, stopped, and gone on with."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.doubles.own_script import left
from tests.doubles.waiting import until
from tests.unit.planner.planning.test_locked_script import wheel

pytestmark = [pytest.mark.e2e, pytest.mark.train]
COUNTS = """\
# /// script
# dependencies = ["trainplan-above>=1"]
# [tool.trainplan]
# checkpoints = true
# ///
import sys, time
import trainplan_above
import trainplan_run
from pathlib import Path
assert trainplan_above.HERE
pause, steps = float(sys.argv[1]), int(sys.argv[2])
folder = trainplan_run.resume_from()
value, done = (0, 0) if folder is None else (int((folder / name).read_text()) for name in ("value", "step"))
for step in range(done + 1, steps + 1):
    value = (value * 31 + step) % 1_000_003
    time.sleep(pause)
    trainplan_run.report(step, images=4, total_steps=steps)
    stop = trainplan_run.should_stop()
    if stop or step % 100 == 0:
        with trainplan_run.checkpoint_folder() as folder:
            (folder / "value").write_text(str(value))
            (folder / "step").write_text(str(step))
    if stop:
        sys.exit(trainplan_run.EXIT_STOPPED)
Path("value.txt").write_text(str(value))
"""


class Person:
    """Commands in one home, on this computer without containers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ, "PLAN_HOME": str(folder / "home"), "PLAN_ENGINE": "process", "MARK": str(folder),
            "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder / "wheels"), "PIP_CONFIG_FILE": os.devnull,
        }  # fmt: skip

    def plan(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).with_name("plan")), *words]
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False, timeout=300
        )

    def events(self, run: str, attempt: int, name: str) -> list[dict[str, Any]]:
        path = self.folder / "home" / "runs" / run / "attempts" / str(attempt) / "progress.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [event for event in map(json.loads, lines) if event["event"] == name]


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    (tmp_path / "wheels").mkdir()
    wheel(tmp_path / "wheels", "trainplan_above", "1.5")
    (tmp_path / "train.py").write_text(COUNTS, encoding="utf-8")
    made = Person(tmp_path)
    yield made
    until(lambda: not left(tmp_path), "nothing is left", seconds=60)


def job(folder: Path, pause: float, steps: int) -> str:
    text = f"name: mine\nscript: train.py\nargs: ['{pause}', '{steps}']\nconstraints: {{deadline: 20m}}\n"
    (folder / "job.yaml").write_text(text, encoding="utf-8")
    return "job.yaml"


def test_it_is_stopped_and_goes_on_to_the_same_result_with_what_was_locked(person: Person) -> None:
    file = job(person.folder, 0.05, 600)
    launched = person.plan("launch", file, "--provider", "local", "--yes", "--detach")
    assert launched.returncode == 0, launched.stderr
    assert "locking what train.py needs (trainplan-above>=1)" in launched.stderr
    (run,) = (path.name for path in (person.folder / "home" / "runs").iterdir())
    until(lambda: bool(person.events(run, 1, "checkpoint")), "it trains", seconds=120)
    stopped = person.plan("stop", run)
    assert stopped.returncode == 0, stopped.stderr
    person.plan("attach", run)
    last = person.events(run, 1, "checkpoint")[-1]["step"]
    assert last < 600
    again = person.plan("launch", file, "--provider", "local", "--yes", "--output", "result")
    assert again.returncode == 0, again.stderr
    assert person.events(run, 2, "start")[0]["resumed_from_step"] == last
    value = 0
    for step in range(1, 601):
        value = (value * 31 + step) % 1_000_003
    assert (person.folder / "result" / "value.txt").read_text() == str(value)


@pytest.mark.parametrize("provider", ["local", "sim"])
def test_a_pilot_measures_it_and_the_estimate_has_a_time_then(person: Person, provider: str) -> None:
    file = job(person.folder, 0.02, 100_000)
    asked = ("estimate", file, "--provider", provider)
    assert "not measured: plan pilot" in person.plan(*asked).stdout
    pilot = person.plan("pilot", file, "--provider", provider, "--budget", "5", "--yes")
    assert pilot.returncode == 0, pilot.stderr
    assert re.search(r"\d images/s", pilot.stdout)
    assert "images in all" in person.plan(*asked).stdout


def test_what_cannot_be_locked_is_told_before_anything_is_made(person: Person) -> None:
    (person.folder / "train.py").write_text(COUNTS.replace("above>=1", "above>=9"))
    done = person.plan("launch", job(person.folder, 0, 1), "--provider", "local", "--yes")
    assert done.returncode == 2
    assert "cannot be locked" in done.stderr
    assert not (person.folder / "home" / "runs").exists()


def test_an_example_is_launched_by_itself(person: Person) -> None:
    text = (ROOT / "examples" / "scripts" / "keras_images.py").read_text(encoding="utf-8")
    (person.folder / "keras_images.py").write_text(text, encoding="utf-8")
    done = person.plan("launch", "keras_images.py", "--provider", "local", "--yes", "--output", "result")
    assert done.returncode == 0, done.stderr
    assert (person.folder / "result" / "model.keras").is_file()
    assert "receipt of keras-images" in done.stdout
