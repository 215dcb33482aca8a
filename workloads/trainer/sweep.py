"""Trains a sweep: its trials one after another within one run directory, each in a process of its own.

`trials/NNN/` is a run directory of a trial. The checkpoint of the sweep is the one record of how it stands: the results
so far, and the newest checkpoint of each trial that may still go on, as links. Whatever lies in `trials/` when a
process begins is what an earlier one left and is made anew from there, so that it does not matter at which instant
that was killed. To whoever watches the run, the sweep is one training: its steps are those of the job's own batch.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainplan.workloads.output_files import STOPPED_FOR_GOOD
from trainplan.workloads.sweep import (
    MOST_FAILURE,
    STATE,
    Result,
    Standing,
    SweepTable,
    Task,
    Trial,
    goal_of,
    rungs_for,
    table_of,
    trials_of,
    values_text,
)
from trainplan.workloads.sweep_text import report_with_trials
from trainplan.workloads.trainer.checkpoint import Checkpoints, Position, linked
from trainplan.workloads.trainer.errors import (
    EXIT_DEADLINE,
    EXIT_DONE,
    EXIT_STOPPED,
    EXIT_WITH_RESULTS,
    BadInputError,
    DeadlineReached,
    DivergedError,
    FailedWithResultsError,
    TrainerError,
    TrainingStopped,
)
from trainplan.workloads.trainer.output import MANIFEST, METRICS, adopt_output
from trainplan.workloads.trainer.progress import State, write_atomically
from trainplan.workloads.trainer.report import REPORT
from trainplan.workloads.trainer.rung_result import forget_result, read_result
from trainplan.workloads.trainer.script_relay import ScriptRelay
from trainplan.workloads.trainer.sweep_progress import Relay
from trainplan.workloads.trainer.trial_process import ChildProcess, Start
from trainplan.workloads.trainer.watch import StopRequest, stop_reason

if TYPE_CHECKING:
    from trainplan.workloads.job import TrainingJob
    from trainplan.workloads.trainer.prepare import Setting

_LOOK_SECONDS = 0.5
_RESERVED_SECONDS = 10.0
"""Between the deadline of a trial and that of the sweep: its last checkpoint is linked into the sweep's."""
_LEAST_OUTPUT_SECONDS = 20.0
_SLOWER = 1.5
"""How much longer a process that writes the output may take than others took to start and to test (assumed)."""
_PART = "trial-"


def train_sweep(job: TrainingJob, setting: Setting, attempt: int, start: Start = ChildProcess) -> None:
    """Train the sweep to its end, from the newest checkpoint on, and write the best trial's output/ as the run's.

    Raises BadInputError, TrainingStopped, DeadlineReached, DivergedError (no trial that was left gives numbers),
    FailedWithResultsError (a trial failed, and the output is the best of the others, else what that one has saved; or
    a person stopped the sweep, and it is the best so far), or TrainerError.
    """
    if setting.limits.max_steps is not None:
        raise BadInputError("a sweep is not measured: leave out --max-steps, or the job's sweep")
    if not setting.group.is_alone:
        raise BadInputError("a sweep is trained by one process; start it without torchrun or srun of several tasks")
    setting.progress.status(State.STARTING)
    _Sweep(job, setting, attempt, start).run()


@dataclass(frozen=True, slots=True)
class _Part:
    """A file of a trial's checkpoint within the sweep's: `trial-003-state.npz`."""

    trial: int
    name: str

    @property
    def text(self) -> str:
        return f"{_PART}{self.trial:03}-{self.name}"

    @staticmethod
    def of(text: str) -> _Part | None:
        if not text.startswith(_PART):
            return None
        number, _, name = text.removeprefix(_PART).partition("-")
        return _Part(int(number), name)


class _Sweep:
    def __init__(self, job: TrainingJob, setting: Setting, attempt: int, start: Start) -> None:
        self._job, self._setting, self._attempt, self._start = job, setting, attempt, start
        self._digest = job.digest()
        self._trials = {trial.number: trial for trial in trials_of(job)}
        self._rungs = rungs_for(job)
        self._folder = setting.run_dir / "trials"
        self._store = Checkpoints(setting.run_dir / "checkpoints")
        self._standing = self._restored()
        self._saved_step = -1
        make_relay = Relay if job.script is None else ScriptRelay
        self._relay = make_relay(job, self._rungs, setting.progress, setting.clock)

    def run(self) -> None:
        """Train until the best trial is known, or there is no time for more, and bring out its model."""
        try:
            try:
                self._train_all()
            except DeadlineReached:
                best = self._standing.best_so_far
                if best is None:
                    raise
                self._finish(self._trials[best], ended_early=True)
        except (TrainingStopped, DeadlineReached) as reason:
            state = State.STOPPED if isinstance(reason, TrainingStopped) else State.DEADLINE
            is_for_good = state is State.STOPPED and self._is_stopped_for_good()
            if is_for_good and self._brought_out("the sweep ended before its last rung", state):
                raise FailedWithResultsError(str(reason)) from reason
            self._relay.tell_end(state)
            raise
        except TrainerError as error:
            if self._brought_out(str(error), State.FAILED):
                raise FailedWithResultsError(str(error)) from error
            raise

    def _is_stopped_for_good(self) -> bool:
        """Whether a person has stopped the run, so that the best trial so far is wanted now."""
        return (self._setting.run_dir / "attempts" / str(self._attempt) / STOPPED_FOR_GOOD).exists()

    def _brought_out(self, failure: str, state: State) -> bool:
        """Whether there is an output though a trial has failed, or the sweep was stopped: of the best trial so far,
        else what that trial left. `failure` is the reason, as the figures have it."""
        task, best = self._standing.next_task(), self._standing.best_so_far
        number = best or (task.trial if task is not None and self._has_output(self._trials[task.trial]) else None)
        if number is None:
            return False
        try:
            self._finish(self._trials[number], ended_early=True, failure=failure, state=state)
        except (TrainerError, OSError) as other:  # the first error is the one that matters
            self._setting.progress.warn(f"the results of trial {number} could not be brought out: {other}")
            return False
        return True

    def _train_all(self) -> None:
        """Go from task to task until the best trial is known, and let it write its output."""
        self._relay.stand_at(self._standing.done())
        while (task := self._standing.next_task()) is not None:
            self._discard_others(task)
            self._standing = self._standing.with_result(self._train(task))
            self._relay.stand_at(self._standing.done())
            self._save(self._relay.step)
        best = self._standing.best
        if best is None:
            raise DivergedError(f"no trial that was left gives numbers: {self._failures()}")
        self._finish(self._trials[best])

    def _failures(self) -> str:
        failed = [result for result in self._standing.results if result.failure]
        last = failed[-1]
        return f"trial {last.trial} ({values_text(self._trials[last.trial].values)}): {last.failure}"

    def _train(self, task: Task) -> Result:
        """Train a trial up to the end of its rung. Raises what ends the whole sweep."""
        trial = self._trials[task.trial]
        self._setting.progress.event(
            "trial", trial=trial.number, rung=task.rung + 1, epochs=task.epochs, values=values_text(trial.values)
        )
        folder = self._folder_of(trial.number)
        # A script that has ended, or that paused far on, is not trained again.
        share = Fraction(task.epochs, self._rungs[-1].epochs)
        before = max(self._standing.of(task.trial), key=lambda one: one.epochs, default=None)
        if before is not None and before.reached >= share:
            return before.model_copy(update={"epochs": task.epochs})
        forget_result(self._prepared(trial))
        self._run_process(trial, task, self._until(task))
        try:
            result = read_result(folder)
        except (OSError, ValueError) as error:
            raise TrainerError(f"trial {trial.number} ended without a result: {error}") from error
        if result.failure:
            self._setting.progress.warn(f"trial {trial.number} ({values_text(trial.values)}) ends: {result.failure}")
        figures = result.model_dump() | {"failure": result.failure[:MOST_FAILURE]}
        return Result(trial=trial.number, epochs=task.epochs, **figures)

    def _until(self, task: Task) -> tuple[str, ...]:
        """Where the process of a trial pauses."""
        if self._job.script is None:
            return ("--until-epoch", str(task.epochs))
        share = Fraction(task.epochs, self._rungs[-1].epochs)
        return ("--until-share", str(share), "--figure", goal_of(self._job).name)

    def _finish(self, best: Trial, *, ended_early: bool = False, failure: str = "", state: State = State.DONE) -> None:
        """Let the best trial write its output, and make it the run's. With `ended_early` it is as it is trained by now;
        `failure` is why the sweep has failed, or was stopped (`state`), all the same.

        Raises TrainerError, and TrainingStopped or DeadlineReached where there was no time for it.
        """
        self._prepared(best)
        if not self._has_output(best):
            more = ("--write-now",) if ended_early else ()
            self._run_process(best, None, more, is_stopped=state is State.STOPPED)
        table = table_of(self._job, self._standing.results, ended_early=ended_early)
        output, source = self._setting.run_dir / "output", self._folder_of(best.number) / "output"
        try:
            documents = {STATE: _table_text(table)}
            if failure:
                figures = json.loads((source / METRICS).read_bytes()) | {"failure": failure, "outcome": str(state)}
                documents[METRICS] = json.dumps(figures, indent=1)
            if (source / REPORT).is_file():
                documents[REPORT] = report_with_trials((source / REPORT).read_text(encoding="utf-8"), table)
            adopt_output(output, source, documents)
        except OSError as error:
            raise TrainerError(f"the model could not be written: {error}; make room and start again") from error
        self._relay.tell_end(state)
        shutil.rmtree(self._folder, ignore_errors=True)  # the run has the output, and nothing goes on

    def _has_output(self, trial: Trial) -> bool:
        """Whether a trial has written its output: a script does when it ends, and when it fails."""
        return self._job.script is not None and (self._folder_of(trial.number) / "output" / MANIFEST).is_file()

    def _run_process(self, trial: Trial, task: Task | None, more: Sequence[str], *, is_stopped: bool = False) -> None:
        """The trainer on one trial, to its end; `is_stopped`: it brings out what there is after a request to stop.
        Raises TrainerError, TrainingStopped or DeadlineReached."""
        limits, clock = self._setting.limits, self._setting.clock
        if is_stopped:
            limits = replace(limits, stop=StopRequest())  # a second request does not come
        # What ends early writes its output within this time.
        needs = _RESERVED_SECONDS if task is None else self._needed_seconds()
        reason = stop_reason(limits, clock, needs)
        if reason is not None:
            raise reason
        folder = self._folder_of(trial.number)
        process = self._start((*self._arguments(folder), *more))
        progress = folder / "attempts" / str(self._attempt) / "progress.jsonl"
        tail = self._relay.of_task(trial, task, progress, lambda: self._save_within(task))
        is_asked = False
        while (code := process.wait(_LOOK_SECONDS)) is None:
            tail.look()
            needs = _RESERVED_SECONDS if task is None else self._needed_seconds()
            if not is_asked and stop_reason(limits, clock, needs) is not None:
                is_asked = True
                process.stop()
        tail.look()
        # A signal, of ours or to all processes, may end that of the trial before it can say so.
        was_told = is_asked or stop_reason(limits, clock) is not None
        if code in (EXIT_STOPPED, EXIT_DEADLINE) or (code != EXIT_DONE and was_told):
            raise stop_reason(limits, clock, needs + _RESERVED_SECONDS) or TrainingStopped("the trial was stopped")
        if code != EXIT_DONE:
            raise _failure(code, trial, folder / "attempts" / str(self._attempt) / "status.json")

    def _needed_seconds(self) -> float:
        """Between the deadline and the end of the last trial. Where some trial has a result, the best one writes its
        output then, in a process of its own."""
        if self._standing.best_so_far is None:
            return _RESERVED_SECONDS
        return _RESERVED_SECONDS + max(_LEAST_OUTPUT_SECONDS, _SLOWER * self._relay.output_seconds)

    def _arguments(self, folder: Path) -> tuple[str, ...]:
        setting = self._setting
        deadline = setting.limits.deadline_unix
        return (
            *("--job", str(folder / "job.json"), "--run-dir", str(folder), "--attempt", str(self._attempt)),
            *("--data-dir", str(setting.data_dir)),
            *(() if deadline is None else ("--deadline-unix", f"{deadline - _RESERVED_SECONDS:.3f}")),
        )

    def _prepared(self, trial: Trial) -> Path:
        """The folder of a trial, without what an earlier process told there."""
        folder = self._folder_of(trial.number)
        shutil.rmtree(folder / "attempts", ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        if self._job.script is not None:
            _share_packages(self._setting.run_dir / "script", folder / "script")
        weights = self._setting.run_dir / "weights.keras"
        if weights.is_file() and not (folder / weights.name).exists():
            linked(weights, folder / weights.name)
        write_atomically(folder / "job.json", trial.job.to_json())
        return folder

    def _folder_of(self, trial: int) -> Path:
        return self._folder / f"{trial:03}"

    def _discard_others(self, task: Task) -> None:
        """Remove what no rung will ask for again."""
        kept = {*self._standing.kept(), task.trial}
        for number in self._trials.keys() - kept:
            shutil.rmtree(self._folder_of(number), ignore_errors=True)

    def _save_within(self, task: Task | None) -> None:
        """Save the sweep while a trial is trained; the end of its rung is saved with its result."""
        if task is not None and self._relay.step < self._relay.end_of(task):
            self._save(self._relay.step, also=task.trial)

    def _save(self, step: int, also: int | None = None) -> None:
        """Save the results so far and what may still go on; `also` is the trial that is being trained."""
        if step <= self._saved_step:
            return
        position = Position(
            step=step,
            epoch=self._relay.epoch,
            job_digest=self._digest,
            images=self._relay.images,
            steps_per_epoch=self._relay.steps_per_epoch,
        )
        trials = self._standing.kept() | ({also} if also else set())
        table = table_of(self._job, self._standing.results)
        try:
            self._store.save_files(position, (STATE, _table_text(table)), self._files_of(trials))
        # A full disk does not end a training that may still finish: an older checkpoint is still complete.
        except OSError as error:
            self._setting.progress.warn(f"no checkpoint could be written at step {step}, training goes on: {error}")
            return
        self._saved_step = step
        self._setting.progress.event("checkpoint", step=step, epoch=self._relay.epoch)

    def _files_of(self, trials: set[int]) -> dict[str, Path]:
        files = {}
        for trial in sorted(trials):
            newest = Checkpoints(self._folder_of(trial) / "checkpoints").newest_folder
            for file in sorted(newest.iterdir()) if newest else ():
                if file.is_symlink() or not file.is_file():
                    continue  # a script may have put it there, and it may lead out of the run directory
                files[_Part(trial, file.name).text] = file
        return files

    def _restored(self) -> Standing:
        """How the newest checkpoint says that the sweep stands; the trials' folders are made anew from it."""
        shutil.rmtree(self._folder, ignore_errors=True)
        results: Sequence[Result] = ()
        newest = self._store.newest_files(self._digest, self._setting.progress.warn)
        if newest is not None:
            folder, mark = newest
            try:
                table = SweepTable.model_validate_json((folder / STATE).read_bytes())
            except ValueError as error:
                raise BadInputError("the checkpoint is of another version of the trainer; start afresh") from error
            results = sorted(
                (result for row in table.trials for result in row.results if result.trial in self._trials),
                key=lambda one: (one.epochs, one.trial),
            )
            self._bring_back(folder, mark.files)
        return Standing(self._rungs, len(self._trials), goal_of(self._job), results)

    def _bring_back(self, folder: Path, files: Mapping[str, str]) -> None:
        parts = {name: part for name in files if (part := _Part.of(name)) is not None}
        try:
            steps = {
                part.trial: int(json.loads((folder / name).read_bytes())["step"])
                for name, part in parts.items()
                if part.name == "complete.json"
            }
        except (ValueError, KeyError, TypeError) as error:  # a script writes what it likes
            raise BadInputError("the checkpoint of a trial cannot be read; start afresh") from error
        for name, part in parts.items():
            if part.trial not in steps:
                continue
            step = f"step-{steps[part.trial]:08}"
            linked(folder / name, self._folder_of(part.trial) / "checkpoints" / step / part.name)


def _share_packages(shared: Path, own: Path) -> None:
    """All trials use what was installed for the first of them."""
    shared.mkdir(parents=True, exist_ok=True)
    if not own.is_symlink():
        own.symlink_to(shared.absolute(), target_is_directory=True)


def _table_text(table: SweepTable) -> str:
    return table.model_dump_json(indent=1)


def _failure(code: int | None, trial: Trial, status: Path) -> TrainerError:
    """Why the process of a trial ended: what it said last, with its exit code."""
    message: Any = ""
    with suppress(OSError, ValueError, AttributeError):
        message = json.loads(status.read_bytes()).get("message", "")
    error = TrainerError(f"trial {trial.number} ({values_text(trial.values)}): {message or f'exit code {code}'}")
    # A signal (a kill for want of memory) is told as a shell tells it, so that whoever started this knows it.
    if code is not None and code < 0:
        error.exit_code = 128 - code
    elif code and code != EXIT_WITH_RESULTS:  # whether the sweep has results is not known here
        error.exit_code = code
    return error
