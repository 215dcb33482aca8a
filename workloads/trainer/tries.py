"""A pilot that tries micro-batches and XLA, each in a process of its own: whatever a try runs into ends that try alone,
and its memory is free for the next one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainplan import workloads
from trainplan.workloads.trainer.data import open_data
from trainplan.workloads.trainer.errors import EXIT_BAD_INPUT, EXIT_DONE, EXIT_FAILED, BadInputError, TrainerError
from trainplan.workloads.trainer.folders import check_records
from trainplan.workloads.trainer.output import write_figures
from trainplan.workloads.trainer.pilot import MEASUREMENT, is_bound
from trainplan.workloads.trainer.prepare import Setting, stop_between
from trainplan.workloads.trainer.progress import State
from trainplan.workloads.tries import MOST_SECONDS, TRY_SECONDS, Search, Try, TryEnd, TrySettings, possible, search

if TYPE_CHECKING:
    from trainplan.workloads.job import TrainingJob

FULL, RATE_ONLY = "full", "rate-only"
TRY_KINDS = (FULL, RATE_ONLY)
"""Only the first try that works measures data and checkpoint too: neither hangs on how a batch is trained."""
FOLDER = ".tries"
PROGRAM = (sys.executable, "-P", "-m", "trainplan.workloads.trainer")
_POLL_SECONDS = 0.2
_PHASES = ("import", "build", "compile", "train")
_BESIDE = ("data_images_per_second", "data_half_width", "checkpoint_seconds", "checkpoint_bytes")
_OF_THE_BEST = ("windows", "half_width", "others_share", "train_seconds", "peak_memory_bytes")
_NOT_TOLD = ("event", "time")
_OUT_OF_MEMORY = (
    "resource_exhausted",
    "resourceexhausted",
    "out of memory",
    "outofmemory",
    "failed to allocate",
    "not fit into the memory",
)
_KILLED = {-9, 137}

Line = dict[str, Any]


def is_out_of_memory(text: str) -> bool:
    """Whether an error's text says that memory was wanting, in the words of TensorFlow, JAX or PyTorch."""
    return any(sign in text.lower() for sign in _OUT_OF_MEMORY)


def train_tries(job: TrainingJob, setting: Setting, program: tuple[str, ...] = PROGRAM) -> None:
    """Try settings for two minutes at most, tell the fastest, and write its figures as the output of the run.

    Raises BadInputError (the job or its data), TrainingStopped, DeadlineReached, and TrainerError where no try measured
    anything.
    """
    began = setting.clock.monotonic()
    setting.progress.status(State.STARTING)
    stop_between(setting)
    with setting.progress.phase("data"):  # fetched once, and not within the time of the tries
        split = open_data(job, setting.data_dir)
        for part in (split.train, split.hold_out):
            check_records(part)
        del split
    setting.progress.status(State.RUNNING)
    processes = _Processes(job, setting, program)
    try:
        found = search(processes.possible, TrySettings(job.accumulate, job.xla), processes.run, setting.clock.monotonic)
        stop_between(setting)
        _finish(job, setting, found, processes, began)
    finally:
        shutil.rmtree(processes.folder, ignore_errors=True)


def end_with(stream: int) -> None:
    """End this process as soon as the stream of that number ends: whoever holds its other end is gone."""

    def wait() -> None:
        while os.read(stream, 1):  # not by a file object: the end of the interpreter would wait for its lock
            pass
        os._exit(EXIT_FAILED)

    threading.Thread(target=wait, daemon=True).start()


class _Processes:
    """Runs tries, and keeps what they told: by number from 0, the lines of each."""

    def __init__(self, job: TrainingJob, setting: Setting, program: tuple[str, ...]) -> None:
        self.folder = setting.run_dir / FOLDER
        self.lines: list[list[Line]] = []
        self._job = job
        self._setting = setting
        self._program = program
        self._devices = 1
        self._has_told_start = False
        self._has_full = False

    def possible(self) -> list[TrySettings]:
        """The settings that divide over the devices there are, as far as a try has told."""
        return possible(self._job, self._devices)

    def run(self, settings: TrySettings, most_seconds: float) -> Try:
        """One try, which is killed after so many seconds. Raises BadInputError where the job itself is to blame, and
        TrainingStopped or DeadlineReached where that is due."""
        now, number = self._setting.clock.monotonic, len(self.lines)
        began, folder = now(), self.folder / str(number)
        is_first = not number
        code = self._wait(self._start(folder, settings, most_seconds), folder, began + most_seconds)
        lines, message = _lines(folder), _message(folder)
        self.lines.append(lines)
        self._hear(folder)
        if code == EXIT_BAD_INPUT and is_first:
            raise BadInputError(message)
        one = replace(_try(settings, code, lines, message), seconds=now() - began)
        self._tell(number, one, _event(lines, "end"))
        return one

    def _start(self, folder: Path, settings: TrySettings, most_seconds: float) -> subprocess.Popen[bytes]:
        folder.mkdir(parents=True)
        job = self._job.model_copy(update={"accumulate": settings.accumulate, "xla": settings.xla})
        (folder / "job.json").write_text(job.to_json(), encoding="utf-8")
        setting, limits = self._setting, self._setting.limits
        command = [
            *self._program,
            *("--job", str(folder / "job.json"), "--run-dir", str(folder), "--attempt", "1"),
            *("--data-dir", str(setting.data_dir), "--max-steps", str(limits.max_steps), "--until-steady"),
            *("--max-seconds", f"{min(TRY_SECONDS, most_seconds):.1f}"),
            *("--as-try", RATE_ONLY if self._has_full else FULL),
        ]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, env=_environment())
        # Where the machine itself runs out of memory, the try is to be ended and nothing else.
        with suppress(OSError):
            Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000", encoding="ascii")
        return process

    def _wait(self, process: subprocess.Popen[bytes], folder: Path, ends_at: float) -> int | None:
        """The exit code; None of one that was killed for want of time."""
        now = self._setting.clock.monotonic
        try:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    return process.wait(max(0.0, min(_POLL_SECONDS, ends_at - now())))
                self._hear(folder)
                stop_between(self._setting)
                if now() >= ends_at:
                    return None
        finally:
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()

    def _hear(self, folder: Path) -> None:
        """Tell the first start as the run's own as soon as it is told, and learn the devices from it."""
        if self._has_told_start:
            return
        start = _event(_lines(folder), "start")
        if start:
            self._has_told_start = True
            self._devices = int(start["device_count"])
            self._setting.progress.event("start", **_without(start, _NOT_TOLD))

    def _tell(self, number: int, one: Try, end: Line) -> None:
        self._has_full = self._has_full or "checkpoint_seconds" in end
        self._setting.progress.event(
            "try",
            number=number + 1,
            accumulate=one.settings.accumulate,
            micro_batch_size=self._job.global_batch_size // one.settings.accumulate,
            xla=one.settings.xla,
            state=one.ended.value,
            seconds=round(one.seconds, 3),
            images_per_second=one.images_per_second,
            half_width=one.half_width,
            peak_memory_bytes=end.get("peak_memory_bytes"),
            message=one.message,
        )


def _try(settings: TrySettings, code: int | None, lines: list[Line], message: str) -> Try:
    end = _event(lines, "end")
    rate = float(end.get("images_per_second") or 0)
    if code == EXIT_DONE and end.get("state") == State.DONE and rate > 0:
        width = end.get("half_width")
        return Try(
            settings=settings, ended=TryEnd.MEASURED, seconds=0.0, images_per_second=rate, half_width=width
        )  # fmt: skip
    if code is None:
        return Try(settings=settings, ended=TryEnd.OUT_OF_TIME, seconds=0.0)
    if code in _KILLED or is_out_of_memory(message):
        return Try(settings=settings, ended=TryEnd.OUT_OF_MEMORY, seconds=0.0, message=message)
    message = message or (f"it died of signal {-code}" if code < 0 else f"it ended with exit code {code}")
    return Try(settings=settings, ended=TryEnd.FAILED, seconds=0.0, message=message)


def _finish(job: TrainingJob, setting: Setting, found: Search, processes: _Processes, began: float) -> None:
    best = found.best
    if best is None:
        raise TrainerError(_why_none(job, found))
    lines = processes.lines[found.tries.index(best)]
    for name in _PHASES:
        for line in (one for one in lines if one["event"] == "phase" and one["name"] == name):
            setting.progress.event("phase", name=name, seconds=line["seconds"])
    figures = _figures(found, best, _event(lines, "end"), processes.lines)
    text = json.dumps({**figures, "all": [_row(one) for one in found.tries]}, indent=1, allow_nan=False)
    write_figures(setting.run_dir / "output", MEASUREMENT, text)
    total_seconds = round(setting.clock.monotonic() - began, 3)
    end = _event(lines, "end")
    setting.progress.event(
        "end", state=State.DONE.value, step=end["step"], epoch=end["epoch"], **figures, total_seconds=total_seconds
    )
    setting.progress.status(State.DONE, epoch=end["epoch"], step=end["step"])


def _figures(found: Search, best: Try, end: Line, told: list[list[Line]]) -> dict[str, object]:
    ends = [_event(lines, "end") for lines in told]
    beside: Mapping[str, object] = next((line for line in ends if "checkpoint_seconds" in line), {})
    data_rate = beside.get("data_images_per_second")
    return {
        "images_per_second": best.images_per_second,
        **{name: end[name] for name in _OF_THE_BEST if name in end},
        **{name: beside[name] for name in _BESIDE if name in beside},
        "input_bound": is_bound(best.rate, data_rate if isinstance(data_rate, float) else None),
        "accumulate": best.settings.accumulate,
        "xla": best.settings.xla,
        "tries": len(found.tries),
        "not_tried": found.not_tried,
        "is_time_up": found.is_time_up,
    }


def _row(one: Try) -> dict[str, object]:
    return {
        "accumulate": one.settings.accumulate,
        "xla": one.settings.xla,
        "state": one.ended.value,
        "seconds": round(one.seconds, 3),
        "images_per_second": one.images_per_second,
        "half_width": one.half_width,
    }


def _why_none(job: TrainingJob, found: Search) -> str:
    last = found.tries[-1]
    part = job.global_batch_size // last.settings.accumulate
    images = "1 image" if part == 1 else f"{part:,} images"
    if found.is_time_up:
        return f"no try ended within {MOST_SECONDS:.0f} s; plan pilot without --batch auto takes longer"
    if last.ended is TryEnd.OUT_OF_MEMORY:
        return f"nothing fits: the smallest micro-batch, of {images}, ran out of memory too; take a larger machine"
    return f"no try worked, the last with a micro-batch of {images}: {last.message}"


def _lines(folder: Path) -> list[Line]:
    """What the try told; a line that was cut off is passed over."""
    lines = []
    with suppress(OSError):
        for text in (folder / "attempts" / "1" / "progress.jsonl").read_text(encoding="utf-8").splitlines():
            with suppress(ValueError):
                lines.append(json.loads(text))
    return lines


def _message(folder: Path) -> str:
    try:
        status = json.loads((folder / "attempts" / "1" / "status.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return str(status.get("message", ""))


def _event(lines: list[Line], name: str) -> Line:
    """The newest line of an event; {} without one."""
    return next((line for line in reversed(lines) if line["event"] == name), {})


def _without(line: Line, names: tuple[str, ...]) -> Line:
    return {name: value for name, value in line.items() if name not in names}


def _environment() -> dict[str, str]:
    """That of this process; its packages are found wherever this one's were."""
    above = str(Path(workloads.__path__[0]).parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (above, os.environ.get("PYTHONPATH"))))}
