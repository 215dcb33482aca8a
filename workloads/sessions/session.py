"""One session: go on where the last one ended, train, keep each checkpoint, and stop before the place ends it."""

from __future__ import annotations

import hashlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trainplan.workloads.passed_variables import passed_variables
from trainplan.workloads.sessions import kept
from trainplan.workloads.sessions.needed import STOP_BEFORE_SECONDS
from trainplan.workloads.sessions.records import HISTORY, Progress, instant, records, write_history, write_record
from trainplan.workloads.sessions.telling import ended_text, progress_text, say, tell_progress

PLAN, JOB = "sessions.json", "job.json"
POLL_SECONDS = 1.0
KEEP_RECORD_SECONDS = 60.0
TELL_SECONDS = 15.0
STOP_SECONDS = 120.0
"""Between TERM and KILL of a trainer: time to write a checkpoint."""
DONE, FAILED, DEADLINE = 0, 70, 76
"""Exit codes of the trainer (workloads/trainer/errors.py)."""
Plan = Mapping[str, Any]


class SessionError(Exception):
    """The session cannot train; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a session works: `folder` is what `plan export` wrote, `kept` outlives the session, `work` does not.

    `earlier` are folders that earlier sessions kept and that cannot be written to any more. Known data sets are
    downloaded to `downloads`. `overwrites`: progress is one line, written again and again.
    """

    folder: Path
    kept: Path
    work: Path
    downloads: Path
    earlier: tuple[Path, ...] = ()
    overwrites: bool = True


@dataclass(slots=True)
class _Session:
    """The running session. Instants are seconds since 1970; `began` is that of the place's session, which may be
    older than this training."""

    place: Place
    plan: Plan
    attempt: int
    began: float
    deadline: float
    asked: float
    progress: Progress
    keeper: kept.Keeper
    first_step: tuple[float, int] | None = None
    told: float = 0.0
    recorded: float = 0.0
    failed_write: bool = field(default=False)

    @property
    def run_dir(self) -> Path:
        return self.place.work / "run"


def train(place: Place) -> int:
    """Train until the run is done or the session is about to end; the exit code of the trainer.

    Raises SessionError where this session cannot train: a file is missing, the framework is, no time is left.
    """
    plan = read_plan(place.folder)
    before = records_of(place)
    if any(record.get("exit_code") == DONE for record in before):
        say(f"this run is trained: its model is in {place.kept / kept.OUTPUT}")
        return DONE
    place.work.mkdir(parents=True, exist_ok=True)
    with _alone(place.work) as lock:
        session = _begin(place, plan, 1 + max((record["attempt"] for record in before), default=0))
        data = _prepare(session, before)
        code = _followed(session, _started(session, data, lock))
        _end(session, code)
    return code


def read_plan(folder: Path) -> Plan:
    """What `plan export` planned. Raises SessionError where files of the folder are missing or damaged."""
    try:
        plan: Plan = json.loads((folder / PLAN).read_text(encoding="utf-8"))
        files: Mapping[str, str] = plan["files"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SessionError(f"{folder / PLAN} cannot be read ({error}): upload the whole folder again") from None
    missing = [name for name in files if not (folder / name).is_file()]
    if missing:
        raise SessionError(f"{folder} lacks {', '.join(missing)}: wait for the upload to end, then run this again")
    return plan


def records_of(place: Place) -> list[dict[str, Any]]:
    """The records of all sessions so far, oldest first."""
    found = {record["attempt"]: record for folder in (*place.earlier, place.kept) for record in records(folder)}
    return [found[attempt] for attempt in sorted(found)]


def write_result(place: Place) -> Path:
    """Write what `plan history import` reads, from all that is known. Raises OSError and SessionError."""
    job = json.loads((place.folder / JOB).read_text(encoding="utf-8"))
    return write_history(place.kept / kept.OUTPUT, read_plan(place.folder), job, records_of(place))


def _begin(place: Place, plan: Plan, attempt: int) -> _Session:
    now = time.time()
    began = min(now, _session_began(place.work, now))
    deadline = began + float(plan["session_seconds"]) - STOP_BEFORE_SECONDS
    if now >= deadline:
        raise SessionError("this session is about to end: begin a new one, and run this again there")
    shutil.rmtree(place.work / "run" / "attempts" / str(attempt), ignore_errors=True)  # of a record that never got out
    return _Session(
        place=place,
        plan=plan,
        attempt=attempt,
        began=began,
        deadline=deadline,
        asked=now,
        progress=Progress(place.work / "run" / "attempts" / str(attempt) / "progress.jsonl"),
        keeper=kept.Keeper(place.work / "run", place.kept, say),
    )


def _session_began(work: Path, now: float) -> float:
    """When this session of the place began, as far as can be told: the first training on this disk, or the process
    that the cells run in, whichever is older."""
    marker = work / "began"
    try:
        began = float(marker.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        began = min(now, _process_began(now))
        marker.write_text(repr(began), encoding="utf-8")
    return began


def _process_began(now: float) -> float:
    try:
        ticks = int(Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])
        up_seconds = float(Path("/proc/uptime").read_text(encoding="utf-8").split()[0])
    except (OSError, ValueError, IndexError):
        return now
    return now - max(0.0, up_seconds - ticks / os.sysconf("SC_CLK_TCK"))


@contextmanager
def _alone(work: Path) -> Iterator[int]:
    """The lock of the work folder, which the trainer inherits. A trainer that an earlier kernel has left is ended."""
    import fcntl

    descriptor = os.open(work / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _end_trainer(work)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _end_trainer(work: Path) -> None:
    """End the trainer of an earlier kernel: it writes a checkpoint, from which this session goes on."""
    try:
        process = int((work / "pid").read_text(encoding="utf-8"))
        handle = os.pidfd_open(process)
    except (OSError, ValueError):
        return
    try:
        say("a trainer of an earlier kernel is still at work: it writes a checkpoint and ends")
        for number, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, STOP_SECONDS)):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)
            if select.select([handle], [], [], seconds)[0]:
                return
    finally:
        os.close(handle)


def _prepare(session: _Session, before: list[dict[str, Any]]) -> Path:
    """Trainer, checkpoints and data on this session's disk; where the data is. Raises SessionError."""
    place, plan = session.place, session.plan
    _check_framework(plan)
    _check_files(place.folder, plan)
    try:
        shutil.rmtree(place.work / "trainer", ignore_errors=True)
        with zipfile.ZipFile(place.folder / plan["trainer"]) as wheel:
            wheel.extractall(place.work / "trainer")
        restored = sum(kept.restore(source, session.run_dir) for source in (place.kept, *place.earlier))
        for record in before:  # what only earlier sessions had is kept with the rest from now on
            write_record(place.kept, record)
        data = _data(place, plan)
    except (OSError, zipfile.BadZipFile, tarfile.TarError) as error:
        raise SessionError(f"this session cannot begin: {error}; free some space, or upload the folder again") from None
    newest = next(iter(kept.whole_checkpoints(session.run_dir)), None)
    where = f"goes on from checkpoint {newest.name}" if newest else "begins at step 0"
    say(f"session {session.attempt} of {plan['name']}: {where}{f' ({restored} fetched)' if restored else ''}")
    return data


def _check_framework(plan: Plan) -> None:
    missing = [name for name in plan["packages"] if find_spec(name) is None]
    if missing:
        raise SessionError(f"this place has no {', '.join(missing)}: `pip install` it in a cell, then run this again")


def _check_files(folder: Path, plan: Plan) -> None:
    """Whether the files are as they were written: half an upload must not be trained on. Raises SessionError."""
    for name, expected in plan["files"].items():
        with (folder / name).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != expected:
            raise SessionError(f"{name} is not what plan export wrote (its SHA-256 differs): upload it again")


def _data(place: Place, plan: Plan) -> Path:
    """Where the data is: unpacked on this session's disk, or where the trainer downloads it to. Raises OSError."""
    if not plan["data"]:
        return place.downloads
    folder = place.work / "data"
    mark = place.work / "data.whole"
    if not mark.is_file():
        shutil.rmtree(folder, ignore_errors=True)
        for name in plan["data"]:
            with tarfile.open(place.folder / name) as archive:
                archive.extractall(folder, filter="data")
        mark.touch()
    return folder


def _started(session: _Session, data: Path, lock: int) -> subprocess.Popen[bytes]:
    """The trainer, told to end before the session does."""
    place = session.place
    words = [
        sys.executable,
        "-P",
        "-m",
        "trainplan.workloads.trainer",
        "--job",
        str(place.folder / JOB),
        "--run-dir",
        str(session.run_dir),
    ]
    words += ["--attempt", str(session.attempt), "--data-dir", str(data), "--deadline-unix", repr(session.deadline)]
    environment = {
        **passed_variables(os.environ),
        "PYTHONPATH": str(place.work / "trainer"),
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    environment |= {"KERAS_BACKEND": session.plan["framework"]}
    with (place.work / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            words,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=place.work,
            pass_fds=(lock,),
            start_new_session=True,
        )
    (place.work / "pid").write_text(str(process.pid), encoding="utf-8")
    return process


def _followed(session: _Session, process: subprocess.Popen[bytes]) -> int:
    """The trainer's exit code, once it has ended. An interrupt of the cell stops it with a checkpoint."""
    _record(session, None)
    while True:
        try:
            code = process.wait(POLL_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
        except KeyboardInterrupt:
            say("stopping: the trainer writes a checkpoint")
            process.terminate()
            continue
        _look(session)
        if code is not None:
            return code


def _look(session: _Session) -> None:
    now = time.time()
    for line in session.progress.read():
        if line.get("event") == "step" and session.first_step is None:
            session.first_step = (now, int(line["step"]))
        elif line.get("event") == "warning":
            say(f"warning: {line.get('message')}")
    if session.keeper.keep_checkpoint() or now - session.recorded >= KEEP_RECORD_SECONDS:
        _record(session, None)
    if session.first_step is not None and now - session.told >= TELL_SECONDS:
        session.told = now
        text = progress_text(session.progress, session.first_step, now, session.deadline, session.plan)
        tell_progress(text, overwrites=session.place.overwrites)


def _record(session: _Session, code: int | None) -> None:
    """Keep what is known of this session; it may be gone at any moment."""
    now = session.recorded = time.time()
    setup = session.first_step[0] - session.asked if session.first_step else None
    record = {
        "attempt": session.attempt,
        "began_at": instant(session.asked),
        "ended_at": instant(now),
        "setup_seconds": setup,
        "exit_code": code,
        "progress": session.progress.text,
    }
    try:
        write_record(session.place.kept, record)
    except OSError as error:
        if not session.failed_write:
            say(f"what this session does cannot be written down: {error.strerror or error}")
        session.failed_write = True


def _end(session: _Session, code: int) -> None:
    """Keep what the session leaves, and say what is next. Raises SessionError."""
    place = session.place
    session.keeper.keep_checkpoint()
    try:
        if code == DONE:
            session.keeper.keep_output()
        _record(session, code)
        write_result(place)
    except OSError as error:
        raise SessionError(
            f"the result could not be copied to {place.kept}: {error}; free some space there and run this again"
        ) from None
    say(ended_text(code, session.progress, session.plan, place.kept / kept.OUTPUT / HISTORY))
    if code not in (DONE, DEADLINE):
        say(_last_words(place.work / "log.txt"))


def _last_words(log: Path, lines: int = 8) -> str:
    with suppress(OSError):
        return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
    return ""
