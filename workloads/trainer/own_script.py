"""Trains by a script of the person's own: it runs in a process beside this one, which holds it to the run-directory
protocol, to its deadline, and ends all that it has started."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import trainplan.workloads.reporting
from trainplan.workloads.job import TrainingJob
from trainplan.workloads.output_files import STOPPED_FOR_GOOD
from trainplan.workloads.script import ReadScript
from trainplan.workloads.trainer.checkpoint import Checkpoints
from trainplan.workloads.trainer.descendants import MOST_PROCESSES, adopt_orphans, descendants, end_all
from trainplan.workloads.trainer.errors import (
    EXIT_STOPPED,
    BadInputError,
    DeadlineReached,
    FailedWithResultsError,
    TrainerError,
    TrainingStopped,
)
from trainplan.workloads.trainer.keeper import ASK, END, FOLDER, TOO_MANY_EXIT
from trainplan.workloads.trainer.output import METRICS
from trainplan.workloads.trainer.prepare import Setting
from trainplan.workloads.trainer.progress import State, complain
from trainplan.workloads.trainer.rung_result import write_result
from trainplan.workloads.trainer.script_output import own_folder, results_of, set_aside, write_documents, write_output
from trainplan.workloads.trainer.script_packages import Installing, installed
from trainplan.workloads.trainer.script_reports import OF_EVERY_TRAINER, Reports
from trainplan.workloads.trainer.script_trial import cannot_be_ranked, result_of

GRACE_SECONDS = 45.0
"""From SIGTERM to SIGKILL where nothing presses; what asks the trainer waits longer (60 s here, 110 s in a cloud)."""
_PILOT_GRACE_SECONDS = 3.0
_PILOT_CHECKPOINT_SECONDS = 10.0
LAST_SECONDS = 30.0
"""So long before its deadline a script is asked to end; half of its time where it has less than a minute."""
_RESERVE_SECONDS = 180.0
"""So long before its deadline a rented machine asks what trains to end (providers/agent/spec.py)."""
_POLL_SECONDS = 0.25
_ALIVE_SECONDS = 120.0
"""A script need not say anything: its trainer does."""
FIGURE = "figure."
"""Before the name of a figure of a script in the line of its end, where it is nothing that the line says itself."""
_SHARED_MEMORY = "/dev/shm"
_NO_CHECKPOINT = "it saved no checkpoint, so a new launch starts from the beginning"


class _Asked(StrEnum):
    """Why a script was asked to end."""

    STOP = "stop"
    DEADLINE = "deadline"
    MEASURED = "measured"
    UNRANKED = "unranked"


@dataclass(frozen=True, slots=True)
class _Attempt:
    job: TrainingJob
    read: ReadScript
    setting: Setting
    number: int

    @property
    def folder(self) -> Path:
        return self.setting.run_dir / "attempts" / str(self.number)

    @property
    def is_pilot(self) -> bool:
        return self.setting.limits.max_steps is not None

    @property
    def is_trial(self) -> bool:
        return self.setting.limits.until_share is not None

    @property
    def work(self) -> Path:
        return self.setting.run_dir / "work"


def run_script(job: TrainingJob, setting: Setting, attempt_number: int) -> None:
    """Run the script to its end. Raises TrainingStopped, DeadlineReached, BadInputError and TrainerError."""
    if job.read_script is None:
        raise BadInputError("the job names a script and does not carry it; launch it with plan")
    attempt = _Attempt(job, job.read_script, setting, attempt_number)
    adopt_orphans()
    others = frozenset(descendants(os.getpid()))
    setting.progress.status(State.STARTING)
    if setting.limits.writes_now:
        _write_checkpoint(attempt)
        return
    packages = _installed(attempt)
    _only_plain(attempt.folder)
    # What an earlier start of this attempt has told is over.
    reports = Reports(attempt.folder / "progress.jsonl", skips=True, figure=setting.limits.figure)
    began = setting.clock.monotonic()
    try:
        code, asked = _watched(attempt, _command(attempt), _environment(attempt, packages), reports)
    finally:
        end_all(os.getpid(), others)
        _only_plain(attempt.folder)
    now = setting.clock.monotonic()
    reports.read(now)
    setting.progress.event("phase", name="train", seconds=round(now - began, 3))
    _judge(attempt, reports, code, asked)


def _command(attempt: _Attempt) -> list[str]:
    folder = attempt.setting.run_dir / "script"
    file = folder / attempt.read.inside / Path(str(attempt.job.script)).name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(attempt.read.source, encoding="utf-8")
    for neighbour in attempt.read.files:
        path = folder / neighbour.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(neighbour.source, encoding="utf-8")
    own_folder(attempt.work)
    keeper = (sys.executable, "-P", "-m", "trainplan.workloads.trainer.keeper", str(MOST_PROCESSES))
    return [*keeper, sys.executable, "-u", str(file), *attempt.job.script_words]


def _environment(attempt: _Attempt, packages: Path | None) -> dict[str, str]:
    setting = attempt.setting
    own = Path(trainplan.workloads.reporting.__path__[0])
    # The keeper is found where this module was, the script's packages before whatever is installed.
    above = own.parents[2]
    path = [str(own), *([str(packages)] if packages else []), os.environ.get("PYTHONPATH", str(above))]
    return {
        "KERAS_BACKEND": str(attempt.job.framework),
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        # Where it lies deeper in the folder that travels, modules of several scripts lie at the top.
        FOLDER: str(setting.run_dir.absolute() / "script") if attempt.read.inside else "",
        "TRAINPLAN_RUN_DIR": str(setting.run_dir.absolute()),
        "TRAINPLAN_ATTEMPT": str(attempt.number),
        "TRAINPLAN_DATA_DIR": str(setting.data_dir.absolute()),
        "TRAINPLAN_CHECKPOINT_SECONDS": f"{_checkpoint_seconds(attempt):g}",
        "TRAINPLAN_PILOT": "1" if attempt.is_pilot else "",
        **_pause(attempt),
    }


def _pause(attempt: _Attempt) -> dict[str, str]:
    """Where a trial of a sweep pauses, for its script: nowhere in the last rung."""
    share = attempt.setting.limits.until_share
    if share is None or share == 1:
        return {}
    return {"TRAINPLAN_PAUSE_AT": str(share), "TRAINPLAN_FIGURE": attempt.setting.limits.figure}


def _checkpoint_seconds(attempt: _Attempt) -> float:
    """How far checkpoints are apart; in a pilot, which keeps none, one is measured."""
    return _PILOT_CHECKPOINT_SECONDS if attempt.is_pilot else attempt.setting.limits.checkpoint_every_seconds


def _watched(
    attempt: _Attempt, command: list[str], environment: dict[str, str], reports: Reports
) -> tuple[int, _Asked | None]:
    """The exit code, and why it was asked to end (None: it was not)."""
    setting, clock = attempt.setting, attempt.setting.clock
    process = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=attempt.work, env=environment)
    began = told = clock.monotonic()
    ask_at = _ask_at(attempt)
    asked: _Asked | None = None
    kill_at = 0.0
    setting.progress.status(State.RUNNING)
    while (code := _code_within(process, _POLL_SECONDS)) is None:
        now = clock.monotonic()
        reports.read(now)
        if asked is None and (asked := _why_end(attempt, reports, now, ask_at)) is not None:
            kill_at = now + (_PILOT_GRACE_SECONDS if asked is _Asked.MEASURED else GRACE_SECONDS)
            setting.progress.status(State.STOPPING, step=reports.step)
            _say(process, ASK)
        elif asked is not None and (now >= kill_at or _is_over(attempt)):
            _say(process, END)
        if now - told >= _ALIVE_SECONDS:
            told = now
            setting.progress.event("alive", seconds=round(now - began, 1))
            setting.progress.status(State.RUNNING if asked is None else State.STOPPING, step=reports.step)
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    return (128 - code if code < 0 else code), asked


def _ask_at(attempt: _Attempt) -> float | None:
    deadline = attempt.setting.limits.deadline_unix
    if deadline is None:
        return None
    return deadline - min(LAST_SECONDS, max(0.0, deadline - attempt.setting.clock.wall()) / 2)


def _is_near_its_end(attempt: _Attempt) -> bool:
    """Whether a request to stop is that of a machine which makes ready for its deadline, or comes to the same."""
    deadline = attempt.setting.limits.deadline_unix
    return deadline is not None and attempt.setting.clock.wall() >= deadline - _RESERVE_SECONDS - GRACE_SECONDS


def _is_over(attempt: _Attempt) -> bool:
    deadline = attempt.setting.limits.deadline_unix
    return deadline is not None and attempt.setting.clock.wall() >= deadline


def _why_end(attempt: _Attempt, reports: Reports, now: float, ask_at: float | None) -> _Asked | None:
    limits = attempt.setting.limits
    if limits.stop.signal_name:
        return _Asked.STOP
    if ask_at is not None and attempt.setting.clock.wall() >= ask_at:
        return _Asked.DEADLINE
    if limits.max_steps is not None and reports.is_enough(now, limits.max_steps):
        return _Asked.MEASURED
    return _Asked.UNRANKED if attempt.is_trial and cannot_be_ranked(limits, reports) else None


def _code_within(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Its exit code; None where it still runs after so long."""
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return None


def _say(process: subprocess.Popen[bytes], word: bytes) -> None:
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.write(word)
            process.stdin.flush()


def _judge(attempt: _Attempt, reports: Reports, code: int, asked: _Asked | None) -> None:
    progress = attempt.setting.progress
    if asked is None and attempt.setting.limits.stop.signal_name:
        asked = _Asked.STOP  # Slurm sends TERM to all processes of a job at once
    if asked in (_Asked.STOP, _Asked.DEADLINE) and code == 0:
        # A script may end well when it is asked to, after a part of its steps.
        asked, code = (None, 0) if reports.are_of_all else (asked, EXIT_STOPPED)
    if attempt.is_pilot and asked in (None, _Asked.MEASURED) and (code == 0 or asked):
        _write_measurement(attempt, reports)
        return
    if attempt.is_trial and (asked is _Asked.UNRANKED or (asked is None and code in (0, EXIT_STOPPED))):
        write_result(attempt.setting.run_dir, result_of(attempt.setting.limits, reports, has_ended=code == 0))
        if code:
            progress.event("end", state="done", step=reports.step, **_figures(reports))
            progress.status(State.DONE, step=reports.step)
            return
    if code == 0:
        _write_output(attempt, reports)
        progress.event("end", state="done", step=reports.step, **_figures(reports))
        progress.status(State.DONE, step=reports.step)
        return
    step = _newest(attempt)
    kept = f"its newest checkpoint is that of step {step}" if step else _NO_CHECKPOINT
    if asked is not None:
        state = "stopped" if asked is _Asked.STOP else "deadline"
        progress.event("end", state=state, step=reports.step, **_figures(reports))
    unmeasured = "; nothing was reported: a pilot is for scripts that report (trainplan_run)"
    nothing = unmeasured if attempt.is_pilot and not reports.count else ""
    why = {
        None: _why_failed(code),
        _Asked.STOP: f"{attempt.setting.limits.stop.signal_name}: the script was stopped; {kept}",
    }.get(asked, f"the deadline was reached{nothing}; {kept}")
    # Who reads the output of a script that was stopped or late has been told so already.
    is_for_good = asked is _Asked.STOP and (attempt.folder / STOPPED_FOR_GOOD).exists()
    failure, outcome = (why, "failed") if asked is None else (kept, "stopped" if is_for_good else "deadline")
    # A trial that was asked to end goes on later, or its sweep ends with the best that it has.
    is_last = asked is not _Asked.STOP or is_for_good or _is_near_its_end(attempt)
    has_results = not attempt.is_pilot and (asked is None or not attempt.is_trial) and is_last
    if has_results and _write_output(attempt, reports, failure, outcome):
        raise FailedWithResultsError(why)
    raise {None: TrainerError, _Asked.STOP: TrainingStopped}.get(asked, DeadlineReached)(why)


def _why_failed(code: int) -> str:
    if code == TOO_MANY_EXIT:
        return "the script started processes without end, and was ended"
    if code == EXIT_STOPPED:
        return (
            f"the script ended with exit code {EXIT_STOPPED}: that is for a run that is asked to stop, and nobody had"
        )
    if code == 137:
        return "the script was killed (signal 9), often for want of memory"
    if code == 135:
        shared = shutil.disk_usage(_SHARED_MEMORY).total / 1024**3 if Path(_SHARED_MEMORY).is_dir() else 0
        return (
            f"the script was ended by signal 7 (a bus error): mostly shared memory ({_SHARED_MEMORY}, {shared:.3g} GiB "
            "here) or the disk was full"
        )
    why = f"signal {code - 128}" if code > 128 else f"exit code {code}"
    return f"the script ended with {why}"


def _figures(reports: Reports) -> dict[str, object]:
    rate = reports.images_per_second
    known = {name: value for name, value in reports.figures.items() if name in OF_EVERY_TRAINER}
    told = {f"{FIGURE}{name}": value for name, value in reports.figures.items()}
    return {**known, **told, **({} if rate is None else {"images_per_second": round(rate, 4)})}


def _write_measurement(attempt: _Attempt, reports: Reports) -> None:
    """The figures of a pilot as its last line and as its output."""
    if reports.images_per_second is None:
        raise TrainerError("the script has ended and reported no two steps: a pilot is for scripts that report")
    figures: dict[str, object] = {
        "images_per_second": round(reports.images_per_second, 4),
        "half_width": None if reports.half_width is None else round(reports.half_width, 5),
        "checkpoint_seconds": reports.checkpoint_seconds,
    }
    write_documents(attempt.setting.run_dir / "output", {"measurement.json": figures})
    attempt.setting.progress.event("end", state="done", step=reports.step, **figures)
    attempt.setting.progress.status(State.DONE, step=reports.step)


def _write_output(attempt: _Attempt, reports: Reports, failure: str = "", outcome: str = "") -> bool:
    """Bring what the script has left in its working folder to the output of the run; whether there was anything. With
    a `failure` and its `outcome` ("failed", "stopped" or "deadline"), figures alone are no output, and the
    files stay where they are too: the run may go on there. Raises TrainerError."""
    try:
        results = results_of(attempt.work, attempt.setting.run_dir / "checkpoints")
        if failure and not results.files:
            return False
        metrics: dict[str, object] = {
            "name": attempt.job.name,
            "job_digest": attempt.job.digest(),
            "steps": reports.step,
            "images_per_second": reports.images_per_second,
            "figures": reports.figures,
            **({"failure": failure, "outcome": outcome} if failure else {}),
        }
        output = attempt.setting.run_dir / "output"
        remarks = write_output(output, results, {METRICS: metrics}, keeps=bool(failure), log=complain)
    except OSError as error:
        before = f"{failure}; " if failure else ""
        raise TrainerError(f"{before}the results cannot be written: {error.strerror}") from None
    for remark in (*remarks, *reports.remarks()):
        attempt.setting.progress.warn(remark)
    return True


def _write_checkpoint(attempt: _Attempt) -> None:
    """Bring the newest checkpoint of a trial, as folder `checkpoint`, and what it has left in its working folder to the
    output: of a sweep that ends early, where the script does not write its model any more. Raises TrainerError."""
    reports = Reports(attempt.folder / "progress.jsonl")
    reports.step = _newest(attempt)
    folder = Checkpoints(attempt.setting.run_dir / "checkpoints").newest_folder
    if folder is None:
        raise TrainerError("the script left no checkpoint that could be brought home")
    own_folder(attempt.work)
    target = attempt.work / "checkpoint"
    try:
        set_aside(target)
        shutil.copytree(folder, target, symlinks=True)
    except OSError as error:
        raise TrainerError(f"the checkpoint cannot be written: {error}") from None
    _write_output(attempt, reports)
    attempt.setting.progress.event("end", state="done", step=reports.step)
    attempt.setting.progress.status(State.DONE, step=reports.step)


def _newest(attempt: _Attempt) -> int:
    """The step of the newest checkpoint; 0 without one."""
    marks = (attempt.setting.run_dir / "checkpoints").glob("step-*/complete.json")
    return max((int(name) for mark in marks if (name := mark.parent.name[len("step-") :]).isdecimal()), default=0)


def _only_plain(folder: Path) -> None:
    """Remove what is no plain file where this process writes: a pipe would hold it up, a link lead it elsewhere."""
    for name in ("progress.jsonl", "status.json", ".status.json.new"):
        path = folder / name
        with contextlib.suppress(OSError):
            if not stat.S_ISREG(path.lstat().st_mode):
                path.unlink()


def _installed(attempt: _Attempt) -> Path | None:
    """The folder of the packages that the script needs, installed once in a run directory; None where it needs none.

    Raises TrainerError.
    """
    locked = attempt.read.locked
    if not locked:
        return None
    with attempt.setting.progress.phase("install"):
        return installed(
            Installing(
                folder=attempt.setting.run_dir / "script",
                locked=locked,
                attempt=attempt.number,
                run=lambda command: _code_of(command, attempt),
                wait=lambda seconds: _wait(seconds, attempt),
            )
        )


def _code_of(command: Sequence[str], attempt: _Attempt) -> int:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        while (code := _code_within(process, _POLL_SECONDS)) is None:
            _goes_on(attempt)
        return code
    finally:
        process.kill()
        process.wait()


def _wait(seconds: float, attempt: _Attempt) -> None:
    until = attempt.setting.clock.monotonic() + seconds
    while attempt.setting.clock.monotonic() < until:
        _goes_on(attempt)
        threading.Event().wait(_POLL_SECONDS)


def _goes_on(attempt: _Attempt) -> None:
    """Raises TrainingStopped and DeadlineReached where packages are not to be installed any more."""
    if attempt.setting.limits.stop.signal_name:
        raise TrainingStopped("stopped while packages were installed")
    if _is_over(attempt):
        raise DeadlineReached("the deadline was reached while packages were installed")
