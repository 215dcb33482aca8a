"""Measuring this machine's speed with a trainer that is a script."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.builders import a_job
from trainplan.providers.hardware import MeasuredSpeed
from trainplan.providers.local.provider import Stopwatch, measure_speed
from trainplan.workloads.job import job_from_json

TRAINER = """
import argparse, json, os, pathlib
parser = argparse.ArgumentParser()
for name in ("--job", "--run-dir", "--attempt", "--max-steps", "--max-seconds"):
    parser.add_argument(name)
options = parser.parse_args()
folder = pathlib.Path(options.run_dir, "attempts", options.attempt)
folder.mkdir(parents=True)
pathlib.Path(os.environ["TRAINPLAN_SEEN"]).write_text(json.dumps(
    [pathlib.Path(options.job).read_text(), options.max_seconds, os.environ["CUDA_VISIBLE_DEVICES"], options.run_dir,
     "AWS_SECRET_ACCESS_KEY" in os.environ]))
lines = [{"event": "start", "framework": "tensorflow", "framework_version": "2.21.0"}, {"event": "end", %s}]
(folder / "progress.jsonl").write_text("\\n".join(["half a {", *map(json.dumps, lines)]))
"""


class Ticks:
    """Ten seconds pass, of which two processors were busy 12 s, ours 5 of them."""

    def __init__(self, busy: tuple[float | None, float | None] = (100.0, 112.0)) -> None:
        self.times, self.busy, self.own = iter((50.0, 60.0)), iter(busy), iter((1.0, 6.0))

    def stopwatch(self) -> Stopwatch:
        return Stopwatch(
            now=lambda: next(self.times), busy=lambda: next(self.busy), own=lambda: next(self.own), processors=2
        )


def program(tmp_path: Path, end: str) -> tuple[str, ...]:
    script = tmp_path / "trainer.py"
    script.write_text(TRAINER % end, encoding="utf-8")
    return (sys.executable, str(script))


def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "TRAINPLAN_SEEN": str(tmp_path / "seen.json"), "AWS_SECRET_ACCESS_KEY": "a credential"}


def test_the_trainer_is_run_for_two_seconds_on_the_processor_and_nothing_of_it_stays(tmp_path: Path) -> None:
    import json
    from pathlib import Path as AnyPath

    run = program(tmp_path, '"images_per_second": 250.5')
    speed = measure_speed(a_job(), run, environment(tmp_path), stopwatch=Ticks().stopwatch())
    assert speed == MeasuredSpeed(images_per_second=250.5, others=0.35, framework="tensorflow 2.21.0")
    job, seconds, gpus, run_dir, has_credential = json.loads((tmp_path / "seen.json").read_text(encoding="utf-8"))
    assert job_from_json(job) == a_job()
    assert (seconds, gpus, has_credential) == ("2", "-1", False)
    assert not AnyPath(run_dir).exists()


@pytest.mark.parametrize(
    ("busy", "others"), [((None, 112.0), 0.0), ((100.0, None), 0.0), ((100.0, 101.0), 0.0), ((100.0, 900.0), 1.0)]
)
def test_what_others_had_is_between_nothing_and_everything(
    tmp_path: Path, busy: tuple[float | None, float | None], others: float
) -> None:
    run = program(tmp_path, '"images_per_second": 250.5')
    speed = measure_speed(a_job(), run, environment(tmp_path), stopwatch=Ticks(busy).stopwatch())
    assert speed is not None
    assert speed.others == others


@pytest.mark.parametrize("end", ['"state": "failed"', '"images_per_second": 0'])
def test_a_trainer_that_did_not_train_measures_nothing(tmp_path: Path, end: str) -> None:
    assert measure_speed(a_job(), program(tmp_path, end), environment(tmp_path)) is None


@pytest.mark.parametrize("command", [("there-is-no-such-program",), (sys.executable, "-c", "raise SystemExit(70)")])
def test_a_trainer_that_does_not_start_measures_nothing(tmp_path: Path, command: tuple[str, ...]) -> None:
    assert measure_speed(a_job(), command, environment(tmp_path)) is None
