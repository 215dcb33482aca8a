"""A sweep as it is trained: rung after rung, stopped and killed anywhere, told as one training."""

from __future__ import annotations

import hashlib
import json
import random
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.workloads.trainer.builders import a_job, events
from tests.unit.workloads.trainer.fake_trials import IMAGES, FakeTrial, Killed, a_swept_job, killed_before, trials
from trainplan.workloads.job import TrainingJob
from trainplan.workloads.output_files import STOPPED_FOR_GOOD
from trainplan.workloads.sweep import SweepTable, planned_images
from trainplan.workloads.trainer.errors import (
    EXIT_DEADLINE,
    BadInputError,
    DeadlineReached,
    DivergedError,
    FailedWithResultsError,
    TrainerError,
    TrainingStopped,
)
from trainplan.workloads.trainer.output import MODEL
from trainplan.workloads.trainer.prepare import Setting
from trainplan.workloads.trainer.process_group import ProcessGroup
from trainplan.workloads.trainer.progress import Clock, Progress
from trainplan.workloads.trainer.rung_result import RungResult
from trainplan.workloads.trainer.sweep import train_sweep
from trainplan.workloads.trainer.watch import Limits, StopRequest

JOB = a_swept_job(a_job, global_batch_size=32)


def sweep(
    run_dir: Path, start: Any, attempt: int = 1, job: TrainingJob = JOB, limits: Limits | None = None, **setting: Any
) -> None:
    clock = Clock()
    train_sweep(
        job,
        Setting(
            run_dir=run_dir,
            data_dir=run_dir / "data",
            limits=limits or Limits(checkpoint_every_seconds=600),
            progress=Progress(run_dir / "attempts" / str(attempt), clock),
            clock=clock,
            **setting,
        ),
        attempt,
        start,
    )


def results(run_dir: Path) -> tuple[bytes, dict[str, Any]]:
    """The model that a sweep left, and its table."""
    output = run_dir / "output"
    return (output / MODEL).read_bytes(), json.loads((output / "sweep.json").read_bytes())


def test_rung_after_rung_and_the_model_of_the_best(tmp_path: Path) -> None:
    start, started = trials()
    sweep(tmp_path, start)
    model, table = results(tmp_path)
    first = sorted(started[:9])
    assert first == [f"{number:03}:1" for number in range(1, 10)]
    assert [text[4:] for text in started[9:]] == ["3", "3", "3", "3", "9", "9", "None"]
    best = max(table["trials"], key=lambda row: (len(row["results"]), row["results"][-1]["accuracy"]))
    assert table["best"] == best["trial"] == int(started[-1][:3])
    alone = FakeTrialAlone(tmp_path / "alone", JOB.trials[table["best"] - 1].job)
    assert model == alone.model, "the best trial is trained as if it had been trained alone"
    rows = {row["path"]: row for row in json.loads((tmp_path / "output" / "manifest.json").read_bytes())}
    assert rows.keys() == {MODEL, "metrics.json", "report.md", "sweep.json"}
    report = (tmp_path / "output" / "report.md").read_text()
    assert report.startswith(f"# small\n\nBest of the sweep: trial {table['best']} of 9 (")
    assert rows[MODEL]["size_bytes"] == len(model)


class FakeTrialAlone:
    """A trial trained in one go, and its model."""

    def __init__(self, folder: Path, job: TrainingJob) -> None:
        start, _ = trials()
        folder.mkdir()
        (folder / "job.json").write_text(job.to_json(), encoding="utf-8")
        process = start(["--job", str(folder / "job.json"), "--run-dir", str(folder), "--attempt", "1"])
        while process.wait(0.0) is None:
            pass
        self.model = (folder / "output" / MODEL).read_bytes()


def test_it_is_told_as_one_training(tmp_path: Path) -> None:
    start, _ = trials()
    sweep(tmp_path, start)
    [begun], [end] = events(tmp_path, name="start"), events(tmp_path, name="end")
    total = sum(map(sum, planned_images(JOB, IMAGES))) // JOB.global_batch_size
    assert (begun["total_steps"], begun["epochs"], begun["resumed_from_step"]) == (total, 29, 0)
    assert (end["step"], end["epoch"], end["state"]) == (total, 29, "done")
    assert end["hold_out_accuracy"] == max(
        result["accuracy"]
        for row in results(tmp_path)[1]["trials"]
        for result in row["results"]
        if result["epochs"] == 9
    )
    epochs = [line["epoch"] for line in events(tmp_path, name="epoch")]
    assert epochs == list(range(1, 30))
    steps = [line["step"] for line in events(tmp_path) if "step" in line]
    assert steps == sorted(steps)


def test_a_stop_ends_the_trial_and_another_attempt_goes_on(tmp_path: Path) -> None:
    start, _ = trials()
    sweep(tmp_path / "whole", start)
    stop = StopRequest()

    def stopping(self: FakeTrial, seconds: float) -> int | None:
        if len(self.started) == 11:  # within the second rung
            stop.signal_name = "SIGTERM"
        return FakeTrial.wait(self, seconds)

    stopped, started = trials(wait=stopping)
    with pytest.raises(TrainingStopped):
        sweep(tmp_path / "run", stopped, limits=Limits(checkpoint_every_seconds=600, stop=stop))
    begun = started[-1]
    assert events(tmp_path / "run", name="end")[0]["state"] == "stopped"
    again, continued = trials()
    sweep(tmp_path / "run", again, attempt=2)
    assert continued[0] == begun, "it goes on at the rung, and at the trial, where it was"
    assert results(tmp_path / "run") == results(tmp_path / "whole")


@pytest.mark.parametrize(("processes", "has_results"), [(11, True), (1, False)])
def test_a_stop_for_good_brings_the_best_trial_so_far_home(
    tmp_path: Path, *, processes: int, has_results: bool
) -> None:
    stop, whole, run = StopRequest(), tmp_path / "whole", tmp_path / "run"
    (run / "attempts" / "1").mkdir(parents=True)

    def stopping(self: FakeTrial, seconds: float) -> int | None:
        if len(self.started) == processes:
            (run / "attempts" / "1" / STOPPED_FOR_GOOD).touch()
            stop.signal_name = "SIGTERM"
        return FakeTrial.wait(self, seconds)

    stopped, _ = trials(wait=stopping)
    with pytest.raises(FailedWithResultsError if has_results else TrainingStopped):
        sweep(run, stopped, limits=Limits(checkpoint_every_seconds=600, stop=stop))
    assert events(run, name="end")[0]["state"] == "stopped"
    assert (run / "output" / "manifest.json").exists() is has_results
    if has_results:
        _, table = results(run)
        newest = {row["trial"]: row["results"][-1]["accuracy"] for row in table["trials"] if row["results"]}
        assert (table["ended_early"], newest[table["best"]]) == (True, max(newest.values()))
        figures = json.loads((run / "output" / "metrics.json").read_bytes())
        assert (figures["outcome"], figures["failure"]) == ("stopped", "the sweep ended before its last rung")
    start, _ = trials()
    sweep(whole, start)
    sweep(run, start, attempt=2)
    assert results(run) == results(whole), "it goes on, and ends as one that nobody stopped"


def test_a_machine_that_has_only_the_checkpoint_goes_on_too(tmp_path: Path) -> None:
    """A rented machine of another attempt gets the newest checkpoint alone, and not what lay in trials/."""
    start, _ = trials()
    sweep(tmp_path / "whole", start)
    with pytest.raises(Killed), killed_before(600, tmp_path / "first") as paths:
        sweep(tmp_path / "first", start)
    assert paths
    newest = sorted((tmp_path / "first" / "checkpoints").glob("step-*/complete.json"))[-1].parent
    target = tmp_path / "second" / "checkpoints" / newest.name
    target.mkdir(parents=True)
    for file in newest.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    again, started = trials()
    sweep(tmp_path / "second", again, attempt=2)
    assert len(started) < 16
    assert results(tmp_path / "second") == results(tmp_path / "whole")


SMALL = a_swept_job(
    a_job,
    global_batch_size=64,
    epochs=3,
    sweep={"optimizer.learning_rate": [0.1, 0.01], "optimizer.momentum": [0.9, 0.0]},
)


def writes_of_a_sweep(folder: Path) -> int:
    start, _ = trials()
    with killed_before(10**9, folder) as paths:
        sweep(folder, start, job=SMALL)
    return len(paths)


@pytest.mark.slow
def test_killed_anywhere_it_ends_with_the_same_model_and_table(tmp_path: Path) -> None:
    """Killed before a random write, up to three times, in each of so many seeded sweeps."""
    count = writes_of_a_sweep(tmp_path / "whole")
    expected = results(tmp_path / "whole")
    start, _ = trials()
    for seed in range(12):
        draw, run_dir = random.Random(seed), tmp_path / str(seed)
        for attempt in range(1, draw.randint(2, 4)):
            try:
                with killed_before(draw.randrange(count), run_dir):
                    sweep(run_dir, start, attempt, SMALL)
            except Killed:
                continue
            break
        else:
            sweep(run_dir, start, 9, SMALL)
        assert results(run_dir) == expected, f"seed {seed}"
    assert count > 100


def test_a_trial_that_diverges_is_out_and_the_others_go_on(tmp_path: Path) -> None:
    def accuracy(self: FakeTrial, weights: bytes) -> RungResult:
        is_high = self._job.optimizer.learning_rate == 0.1
        return RungResult(failure="the loss became nan") if is_high else FakeTrial.accuracy(self, weights)

    start, started = trials(accuracy=accuracy)
    sweep(tmp_path, start)
    table = SweepTable.model_validate_json((tmp_path / "output" / "sweep.json").read_bytes())
    failed = [row.trial for row in table.trials if row.results[0].failure]
    assert failed == [1, 2, 3]
    assert table.best not in failed
    assert len(started) == 16
    assert sum("ends: the loss became nan" in line["message"] for line in events(tmp_path, name="warning")) == 3


def test_where_all_trials_diverge_the_sweep_has_failed(tmp_path: Path) -> None:
    start, started = trials(accuracy=lambda self, weights: RungResult(failure="the loss became nan"))
    with pytest.raises(
        DivergedError, match=r"no trial that was left gives numbers: trial 9 \(.*\): the loss became nan"
    ):
        sweep(tmp_path, start)
    assert len(started) == 9


def test_a_trial_that_cannot_be_trained_ends_the_sweep_with_its_reason(tmp_path: Path) -> None:
    def fails(self: FakeTrial, seconds: float) -> int:
        progress = Progress(self._folder / "attempts" / "1", Clock())
        progress.status(progress_state(), "no space left")
        return 65

    start, _ = trials(wait=fails)
    with pytest.raises(TrainerError, match=r"trial 1 \(optimizer.learning_rate 0.1, .*\): no space left") as caught:
        sweep(tmp_path, start)
    assert caught.value.exit_code == 65
    killed, _ = trials(wait=lambda self, seconds: -9)
    with pytest.raises(TrainerError, match="exit code -9") as caught:
        sweep(tmp_path / "killed", killed)
    assert caught.value.exit_code == 137


def test_a_trial_that_fails_leaves_the_best_of_those_that_ended(tmp_path: Path) -> None:
    def fails(self: FakeTrial, seconds: float) -> int | None:
        return 70 if len(self.started) == 5 and not self._writes_now else FakeTrial.wait(self, seconds)

    start, _ = trials(wait=fails)
    with pytest.raises(FailedWithResultsError, match=r"trial 5 \(.*\): exit code 70"):
        sweep(tmp_path, start)
    _, table = results(tmp_path)
    ranked = {row["trial"]: row["results"][0]["accuracy"] for row in table["trials"] if row["results"]}
    assert ranked.keys() == {1, 2, 3, 4}
    assert (table["best"], table["ended_early"]) == (max(ranked, key=lambda trial: ranked[trial]), True)
    figures = json.loads((tmp_path / "output" / "metrics.json").read_bytes())
    assert (figures["accuracy"], figures["outcome"]) == (max(ranked.values()), "failed")
    assert figures["failure"].startswith("trial 5 ")
    assert events(tmp_path, name="end")[0]["state"] == "failed"
    manifest = {row["path"]: row["sha256"] for row in json.loads((tmp_path / "output" / "manifest.json").read_bytes())}
    digest = hashlib.sha256((tmp_path / "output" / "metrics.json").read_bytes()).hexdigest()
    assert manifest["metrics.json"] == digest
    again, continued = trials()
    sweep(tmp_path, again, attempt=2)
    assert continued[0] == "005:1", "the trial that failed is trained again, and no other"


def test_what_cannot_be_brought_out_is_not_said_to_be_there(tmp_path: Path) -> None:
    def fails(self: FakeTrial, seconds: float) -> int | None:
        return 77 if len(self.started) >= 5 else FakeTrial.wait(self, seconds)

    start, _ = trials(wait=fails)
    with pytest.raises(TrainerError) as caught:
        sweep(tmp_path, start)
    assert caught.value.exit_code == 70
    assert not (tmp_path / "output" / "manifest.json").exists()


def progress_state() -> Any:
    from trainplan.workloads.trainer.progress import State

    return State.FAILED


def test_states_of_trials_that_are_out_are_not_carried_along(tmp_path: Path) -> None:
    start, _ = trials()
    sweep(tmp_path, start)
    newest = sorted((tmp_path / "checkpoints").iterdir())[-1]
    kept = {file.name.split("-")[1] for file in newest.iterdir() if file.name.startswith("trial-")}
    assert kept == {f"{results(tmp_path)[1]['best']:03}"}


def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path) -> None:
    start, _ = trials()
    sweep(tmp_path / "whole", start)
    with pytest.raises(Killed), killed_before(500, tmp_path / "run"):
        sweep(tmp_path / "run", start)
    newest = sorted((tmp_path / "run" / "checkpoints").glob("step-*/complete.json"))[-1].parent
    (newest / "sweep.json").write_bytes(b"{}")
    sweep(tmp_path / "run", start, 2)
    assert "is passed over" in events(tmp_path / "run", 2, "warning")[0]["message"]
    assert results(tmp_path / "run") == results(tmp_path / "whole")


def test_a_sweep_is_not_measured_nor_trained_by_several_processes(tmp_path: Path) -> None:
    start, _ = trials()
    with pytest.raises(BadInputError, match="a sweep is not measured"):
        sweep(tmp_path, start, limits=Limits(checkpoint_every_seconds=600, max_steps=3))
    with pytest.raises(BadInputError, match="a sweep is trained by one process"):
        sweep(tmp_path, start, group=ProcessGroup(rank=0, processes=2, coordinator="127.0.0.1:1"))


LOOK_SECONDS = 4.0


class Timed:
    """A clock that moves on as trials train, at each look."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.clock = Clock(wall=lambda: self.seconds, monotonic=lambda: self.seconds)

    def trials(self) -> tuple[type[FakeTrial], list[str]]:
        """Trainers that take time by this clock, and what was started."""

        def wait(trial: FakeTrial, seconds: float) -> int | None:
            self.seconds += LOOK_SECONDS
            return FakeTrial.wait(trial, seconds)

        return trials(wait=wait)

    def sweep(self, run_dir: Path, deadline: float, attempt: int = 1) -> list[str]:
        """Until then, and what was started."""
        start, started = self.trials()
        limits = Limits(checkpoint_every_seconds=600, deadline_unix=deadline)
        progress = Progress(run_dir / "attempts" / str(attempt), self.clock)
        setting = Setting(
            run_dir=run_dir, data_dir=run_dir / "data", limits=limits, progress=progress, clock=self.clock
        )
        train_sweep(JOB, setting, attempt, start)
        return started


# 29 epochs in 15 processes, the output of the best, and a look at the end of each process.
WHOLE_SECONDS = 46 * LOOK_SECONDS


@pytest.mark.slow
@given(st.floats(0, 2 * WHOLE_SECONDS))
@example(19 * LOOK_SECONDS)  # within the first rung
@example(30 * LOOK_SECONDS)  # within the second
@example(44 * LOOK_SECONDS)  # within the last
@settings(deadline=None, max_examples=5)
def test_a_sweep_that_has_no_time_for_its_last_rung_brings_its_best_trial_home(deadline: float) -> None:
    """At whatever instant: what is the best of the trials that have a result, and never later than the deadline."""
    with tempfile.TemporaryDirectory() as folder:
        timed, run_dir = Timed(), Path(folder) / "run"
        try:
            timed.sweep(run_dir, deadline)
        except DeadlineReached:
            assert not events(run_dir, name="trial")[1:], "no trial had a result"
            assert not (run_dir / "output").exists()
            return
        model, table = results(run_dir)
        is_whole = sum(len(row["results"]) for row in table["trials"]) == 15
        assert table["ended_early"] is not is_whole
        assert timed.seconds <= deadline
        newest = {row["trial"]: row["results"][-1]["accuracy"] for row in table["trials"] if row["results"]}
        furthest = max(len(row["results"]) for row in table["trials"])
        rivals = {row["trial"] for row in table["trials"] if row["results"] and len(row["results"]) >= furthest - 1}
        if not is_whole:
            assert newest[table["best"]] == max(newest[trial] for trial in rivals)
        assert (run_dir / "output" / MODEL).read_bytes() == model
        assert events(run_dir, name="end")[0]["state"] == "done"
        # With more time it goes on, and ends as a sweep that had it from the first.
        again = timed.sweep(run_dir, deadline + WHOLE_SECONDS * 2, attempt=2)
        assert again if not is_whole else len(again) == 1
        assert results(run_dir) == whole_of_timed()


@cache
def whole_of_timed() -> tuple[bytes, dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        Timed().sweep(Path(folder) / "run", 1e9)
        return results(Path(folder) / "run")


def test_a_trial_that_was_asked_before_it_could_listen_ends_the_sweep_early_too(tmp_path: Path) -> None:
    timed = Timed()
    start, _ = timed.trials()
    usual = start.wait

    def wait(trial: FakeTrial, seconds: float) -> int | None:
        return -15 if trial._is_asked else usual(trial, seconds)

    start.wait = wait  # type: ignore[method-assign,assignment]
    limits = Limits(checkpoint_every_seconds=600, deadline_unix=20 * LOOK_SECONDS)
    progress = Progress(tmp_path / "attempts" / "1", timed.clock)
    setting = Setting(run_dir=tmp_path, data_dir=tmp_path / "data", limits=limits, progress=progress, clock=timed.clock)
    train_sweep(JOB, setting, 1, start)
    assert results(tmp_path)[1]["ended_early"]


def test_where_there_is_no_time_for_the_output_the_deadline_ends_it(tmp_path: Path) -> None:
    timed = Timed()
    start, _ = timed.trials()

    def slow(trial: FakeTrial, seconds: float) -> int | None:
        timed.seconds += 1000.0 if trial._writes_now else LOOK_SECONDS
        if trial._writes_now:
            trial.stop()
            return EXIT_DEADLINE
        return FakeTrial.wait(trial, seconds)

    start.wait = slow  # type: ignore[method-assign,assignment]
    limits = Limits(checkpoint_every_seconds=600, deadline_unix=20 * LOOK_SECONDS)
    progress = Progress(tmp_path / "attempts" / "1", timed.clock)
    setting = Setting(run_dir=tmp_path, data_dir=tmp_path / "data", limits=limits, progress=progress, clock=timed.clock)
    with pytest.raises(DeadlineReached):
        train_sweep(JOB, setting, 1, start)
    assert [line["state"] for line in events(tmp_path, name="end")] == ["deadline"]
