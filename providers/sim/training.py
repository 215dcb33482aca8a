"""What a machine's trainer writes into the run directory, and when: a pure function of how it was begun."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from trainplan.providers.sim.catalogue import TYPES
from trainplan.providers.sim.values import Course, Ending
from trainplan.workloads.job import Precision, TrainingJob, job_from_json
from trainplan.workloads.memory import GIB, footprint
from trainplan.workloads.sweep import (
    STATE,
    Result,
    Standing,
    SweepTable,
    goal_of,
    planned_epochs,
    planned_images,
    rungs_for,
    table_of,
)
from trainplan.workloads.tries import TRY_SECONDS, Search, Try, TryEnd, TrySettings, possible, search

if TYPE_CHECKING:
    from trainplan.providers.sim.catalogue import MachineType

FRAMEWORK = "simulated"
MODEL = "output/model.keras"
EXIT_DONE, EXIT_FAILED, EXIT_STOPPED, EXIT_DEADLINE, EXIT_WITH_RESULTS = 0, 70, 75, 76, 77
KEPT_CHECKPOINTS = 2
_START_SECONDS = {"data": 3.0, "import": 8.0, "build": 2.0, "compile": 12.0}
"""Made up, in the order of what the trainer takes on a rented machine."""
_TRY_PHASES = {name: seconds for name, seconds in _START_SECONDS.items() if name != "data"}
"""Of each try of settings, whose data was fetched before all of them."""
START_SECONDS = sum(_START_SECONDS.values())
_CHECKPOINT_SECONDS = 2.0
EVALUATE_SECONDS = 5.0
"""At the least."""
_SAVE_SECONDS = 3.0
_END_SECONDS = 60.0
"""What an estimate allows from the saved model to the end (planner/forecast/allowances.py)."""
_MOST_IMAGES_PER_SECOND = 200_000.0
"""However small the net."""
_BACKWARD = 3
"""Forward and backward is three times forward."""
_UNKNOWN_IMAGES = 10_000
_MACS_OF_A_SCRIPT, _STEPS_OF_A_SCRIPT, _BATCH_OF_A_SCRIPT = 1e9, 2_000, 32
"""Made up: nobody runs a script to know."""
_REPORTS = 200
"""An attempt reports about so often, but not oftener than every few seconds."""
_STEADY_SECONDS, _STEADY_STEPS = 16.0, 12
"""Four windows of a pilot, the first of which does not count."""
_DATA_FACTOR = 4
"""How many times as fast as it trains a pilot's host hands over images."""
_LEAST_REPORT_SECONDS = 5.0
_FIRST_SECONDS = 30.0
"""So long every few seconds, as the real trainer does all along: who compares machines waits for these."""
_HEARTBEAT_SECONDS = 20.0
"""As the agent of a rented machine has it (providers/agent/status.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A file of the run directory as it is written at an instant; `path` None is the machine's console."""

    at: datetime
    path: str | None
    data: bytes
    append: bool = False


class Trainer(Protocol):
    """How machines train. The product's is Simulated; tests have others."""

    def ends(self, course: Course) -> Ending | None:
        """When and how it ends if nobody asks; None: never."""
        ...

    def stops(self, course: Course, asked_at: datetime) -> Ending | None:
        """When and how it ends after it is asked to; None: it does not follow."""
        ...

    def begins(self, course: Course) -> Iterator[Write]:
        """What it writes at its start."""
        ...

    def writes(self, course: Course, after: datetime, until: datetime) -> Iterator[Write]:
        """What it writes in (after, until] while it trains, in order."""
        ...

    def finishes(self, course: Course, ending: Ending) -> Iterator[Write]:
        """What it writes as it ends."""
        ...


def images_per_second(job_json: str, machine: MachineType) -> float:
    """How fast a machine trains a job."""
    job = _job(job_json)
    if job.script is not None:
        return min(machine.giga_macs_per_second * 1e9 / _MACS_OF_A_SCRIPT, _MOST_IMAGES_PER_SECOND)
    speed = machine.giga_macs_per_second * 1e9 / (_BACKWARD * job.graph().macs)
    if job.precision in (Precision.AMP_FP16, Precision.AMP_BF16):
        speed *= machine.mixed_precision_factor
    return min(speed, _MOST_IMAGES_PER_SECOND)


def evaluate_seconds(job_json: str, seconds_after_setup: float, images_per_second: float) -> float:
    """What is left for tests and checkpoints of what an estimate counts from the first step on: all of it is spent
    after the last step."""
    job = _job(job_json)
    epoch, batch = _images_and_batch(job)
    images = max(1, epoch // batch) * batch * job.epochs
    if job.sweep is not None:
        images = sum(map(sum, planned_images(job, epoch)))
    left = seconds_after_setup - images / images_per_second - _SAVE_SECONDS - _END_SECONDS
    return round(max(EVALUATE_SECONDS, left), 3)


def same_job(job_json: str, other: str) -> bool:
    """Whether two runs train the same."""
    return _job(job_json).digest() == _job(other).digest()


def model_bytes(job_json: str) -> int:
    """The size of a job's trained model, as 4-byte weights."""
    graph = _job(job_json).graph()
    return 4 * (graph.parameters + graph.statistics)


class Simulated:
    """Trains as the real trainer does, as far as anybody can see from outside."""

    def ends(self, course: Course) -> Ending | None:
        schedule = _Schedule(course)
        if course.try_settings:
            return _ending_of_tries(schedule)
        ending = _by_deadline(course, Ending(at=schedule.done_at, exit_code=EXIT_DONE, state="done"))
        if ending.state == "deadline" and schedule.job.sweep is not None and _results_by(schedule, ending.at):
            return Ending(at=ending.at, exit_code=EXIT_DONE, state="done")  # the best trial so far is brought home
        return ending

    def stops(self, course: Course, asked_at: datetime) -> Ending | None:
        own = self.ends(course)
        ending = Ending(at=asked_at + _checkpoint_time(), exit_code=EXIT_STOPPED, state="stopped")
        if course.for_good and has_results(course, ending.at):
            ending = replace(ending, exit_code=EXIT_WITH_RESULTS)
        return own if own is not None and own.at <= ending.at else ending

    def begins(self, course: Course) -> Iterator[Write]:
        yield _console(course.began_at, f"training {_job(course.job_json).name}")
        yield _status(course, course.began_at, "starting", course.start_step)

    def writes(self, course: Course, after: datetime, until: datetime) -> Iterator[Write]:
        schedule = _Schedule(course)
        if course.try_settings:
            ends_at = _ending_of_tries(schedule).at  # what is told at that instant belongs to the end
            yield from (write for write in _tries_lines(schedule) if after < write.at <= until and write.at < ends_at)
            return
        lines = [*schedule.opening(), *schedule.reports(after, until)]
        lines += [*schedule.epochs(after, until), *schedule.checkpoints(after, until), *schedule.heartbeat(until)]
        yield from sorted((write for write in lines if after < write.at <= until), key=lambda write: write.at)

    def finishes(self, course: Course, ending: Ending) -> Iterator[Write]:
        schedule = _Schedule(course)
        if course.try_settings:
            yield from _end_of_tries(schedule, ending)
            return
        at = ending.at
        step = schedule.step_at(at)
        if course.max_steps is None and step > course.start_step and schedule.keeps_checkpoints:
            yield from schedule.checkpoint(at, step)
        if ending.state == "done":
            yield _event(course, at, "phase", name="train", seconds=schedule.trained_seconds(step))
            if course.max_steps is None:
                yield _event(course, at, "phase", name="evaluate", seconds=course.evaluate_seconds)
                yield from _output(at, schedule, step)
                yield _event(course, at, "phase", name="save", seconds=_SAVE_SECONDS)
            elif course.until_steady:
                yield from _written(at, {"measurement.json": json.dumps(_pilot_figures(schedule)).encode()})
        is_left = ending.exit_code == EXIT_WITH_RESULTS
        if is_left:
            yield from _output(at, schedule, step, failure="the sweep ended before its last rung", outcome="stopped")
        yield schedule.end_event(at, ending.state, step)
        yield _status(course, at, "done" if is_left else ending.state, step, schedule.epoch_of(step))
        yield _console(at, f"{ending.state} at step {step}")


def has_results(course: Course, at: datetime) -> bool:
    """Whether it is a sweep of which a trial has a result by then."""
    return _job(course.job_json).sweep is not None and bool(_results_by(_Schedule(course), at))


class _Schedule:
    """Steps over time. Checkpoints, epochs and reports are at fixed instants, so that it does not matter when
    somebody looks."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self.job = _job(course.job_json)
        self.images, self.batch = _images_and_batch(self.job)
        self.steps_per_epoch = max(1, self.images // self.batch)
        self.epochs_of_all = self.job.epochs
        self.total_steps = self.steps_per_epoch * self.job.epochs
        if self.job.sweep is not None:  # told as one training, as the trainer does
            self.epochs_of_all = planned_epochs(rungs_for(self.job))
            self.total_steps = sum(map(sum, self.planned)) // self.batch
        self.step_seconds = self.batch / course.images_per_second
        self.first_step_at = course.began_at + timedelta(seconds=START_SECONDS)

    @property
    def planned(self) -> list[list[int]]:
        """Of each rung of its sweep the images of each of its trials."""
        return planned_images(self.job, self.images)

    @property
    def keeps_checkpoints(self) -> bool:
        """Whether it writes checkpoints: a script does where it says so."""
        return self.job.script is None or self.job.checkpoints

    @property
    def last_step(self) -> int:
        if self.course.max_steps is None:
            return self.total_steps
        steps = self.course.max_steps
        if self.course.until_steady:
            # What the trainer of a rented machine takes where all its windows agree (workloads/trainer/steady.py).
            steps = min(steps, 1 + max(_STEADY_STEPS, math.ceil(_STEADY_SECONDS / self.step_seconds)))
        return min(self.total_steps, self.course.start_step + steps)

    @property
    def done_at(self) -> datetime:
        """When all is done, with tests and the output."""
        tail = 0.0 if self.course.max_steps is not None else self.course.evaluate_seconds + _SAVE_SECONDS
        return self.trained_at(self.last_step) + timedelta(seconds=tail)

    def trained_at(self, step: int) -> datetime:
        """When this step of the whole run is done."""
        return self.first_step_at + timedelta(seconds=(step - self.course.start_step) * self.step_seconds)

    def trained_seconds(self, step: int) -> float:
        return round((step - self.course.start_step) * self.step_seconds, 3)

    def step_at(self, at: datetime) -> int:
        trained = max(0.0, (at - self.first_step_at).total_seconds())
        # A step that is done at this very instant counts, whatever the rounding to microseconds did.
        return min(self.last_step, self.course.start_step + math.floor(trained / self.step_seconds + 1e-6))

    def epoch_of(self, step: int) -> int:
        return max(1, -(-step // self.steps_per_epoch))

    def opening(self) -> Iterator[Write]:
        at = self.course.began_at
        for name, seconds in _START_SECONDS.items():
            if name == "compile":
                yield self.start_event(at)
            at += timedelta(seconds=seconds)
            yield _event(self.course, at, "phase", name=name, seconds=seconds)
        yield _status(self.course, at, "running", self.course.start_step, self.epoch_of(self.course.start_step))

    def start_event(self, at: datetime) -> Write:
        return _event(
            self.course,
            at,
            "start",
            device_kind="cpu" if self.course.device == "cpu" else "gpu",
            device_name=self.course.device,
            device_count=self.course.device_count,
            strategy="one device" if self.course.device_count == 1 else "mirrored",
            **_versions(self.job),
            images=self.images,
            steps_per_epoch=self.steps_per_epoch,
            epochs=self.epochs_of_all,
            total_steps=self.total_steps,
            resumed_from_step=self.course.start_step,
        )

    def reports(self, after: datetime, until: datetime) -> Iterator[Write]:
        length = self.trained_seconds(self.last_step)
        seconds = max(_LEAST_REPORT_SECONDS, length / _REPORTS)
        first = self.first_step_at + timedelta(seconds=min(seconds, _FIRST_SECONDS))
        often = self._every(_LEAST_REPORT_SECONDS, after, min(until, first))
        for at in (*often, *self._every(seconds, max(after, first), until)):
            step = self.step_at(at)
            if step == self.course.start_step:
                continue
            yield _event(
                self.course, at, "step", epoch=self.epoch_of(step), step=step, loss=None, accuracy=None,
                images_per_second=round(self.course.images_per_second, 2),
            )  # fmt: skip

    def heartbeat(self, until: datetime) -> Iterator[Write]:
        """The newest status by then: of what is replaced, only the last is ever seen. As from an agent, it comes while
        the trainer tests its model too. None after all is done: a trainer that hangs then is silent."""
        seconds = (min(until, self.done_at) - self.first_step_at).total_seconds()
        if seconds >= _HEARTBEAT_SECONDS:
            at = self.first_step_at + timedelta(seconds=seconds // _HEARTBEAT_SECONDS * _HEARTBEAT_SECONDS)
            step = self.step_at(at)
            yield _status(self.course, at, "running", step, self.epoch_of(step))

    def epochs(self, after: datetime, until: datetime) -> Iterator[Write]:
        first, last = (self.step_at(at) // self.steps_per_epoch for at in (max(after, self.first_step_at), until))
        seconds = round(self.steps_per_epoch * self.step_seconds, 3)
        for epoch in range(max(1, first), last + 1):
            step = epoch * self.steps_per_epoch
            if step <= self.course.start_step:
                continue
            yield _event(
                self.course, self.trained_at(step), "epoch", epoch=epoch, step=step, loss=None, accuracy=None,
                validation_loss=None, validation_accuracy=None, seconds=seconds, train_seconds=seconds,
            )  # fmt: skip

    def checkpoints(self, after: datetime, until: datetime) -> Iterator[Write]:
        if self.course.max_steps is not None or not self.keeps_checkpoints:
            return
        for at in self._every(self.job.checkpoint_every.total_seconds(), after, until):
            step = self.step_at(at)
            if step > self.course.start_step:
                yield from self.checkpoint(at, step)

    def checkpoint(self, at: datetime, step: int) -> Iterator[Write]:
        weights = f"simulated weights of {self.job.digest()} at step {step}\n".encode()
        folder, epoch = f"checkpoints/step-{step:08}", self.epoch_of(step)
        position = {
            "step": step, "epoch": epoch, "job_digest": self.job.digest(),
            "images": self.images, "steps_per_epoch": self.steps_per_epoch,
        }  # fmt: skip
        mark = {
            "position": position, "step": step, "epoch": epoch,
            "files": {"weights": hashlib.sha256(weights).hexdigest()}, "size_bytes": len(weights),
        }  # fmt: skip
        yield Write(at=at, path=f"{folder}/weights", data=weights)
        yield Write(at=at, path=f"{folder}/complete.json", data=json.dumps(mark, indent=1).encode())
        yield _event(
            self.course, at, "checkpoint", step=step, epoch=epoch, seconds=_CHECKPOINT_SECONDS, bytes=len(weights)
        )

    def end_event(self, at: datetime, state: str, step: int) -> Write:
        return _event(
            self.course,
            at,
            "end",
            state=state,
            step=step,
            epoch=self.epoch_of(step),
            images_per_second=round(self.course.images_per_second, 2),
            **(_pilot_figures(self) if self.course.until_steady and state == "done" else {}),
            hold_out_accuracy=None,  # no net was trained
            hold_out_images=_hold_out(self.job),
            train_seconds=self.trained_seconds(step),
            total_seconds=round((at - self.course.began_at).total_seconds(), 3),
            peak_memory_bytes=None,
        )

    def _every(self, seconds: float, after: datetime, until: datetime) -> Iterator[datetime]:
        """Every so many seconds from the first step on, within (after, until]."""
        done_at = self.trained_at(self.last_step)
        elapsed = (max(after, self.first_step_at) - self.first_step_at).total_seconds()
        number = max(1, math.floor(elapsed / seconds))
        while (at := self.first_step_at + timedelta(seconds=number * seconds)) <= min(until, done_at):
            if at > after:
                yield at
            number += 1


def _by_deadline(course: Course, ending: Ending) -> Ending:
    """That ending, or the deadline's where it comes first."""
    if course.deadline is None or ending.at <= course.deadline - _checkpoint_time():
        return ending
    at = max(course.deadline - _checkpoint_time(), course.began_at)
    return Ending(at=at, exit_code=EXIT_DEADLINE, state="deadline")


def _search(schedule: _Schedule) -> Search:
    """The tries of a pilot that tries settings (workloads/tries.py): all that fit train alike fast."""
    job, count, now = schedule.job, schedule.course.device_count, 0.0

    def run_one(settings: TrySettings, most_seconds: float) -> Try:
        nonlocal now
        fits = _fits(schedule, settings)
        seconds = sum(_TRY_PHASES.values()) + (_try_training_seconds(schedule) if fits else 0.0)
        ended = TryEnd.MEASURED if fits else TryEnd.OUT_OF_MEMORY
        if seconds > most_seconds:
            seconds, ended = most_seconds, TryEnd.OUT_OF_TIME
        now += seconds
        rate = round(schedule.course.images_per_second, 2) if ended is TryEnd.MEASURED else None
        return Try(
            settings=settings, ended=ended, seconds=seconds, images_per_second=rate,
            half_width=None if rate is None else 0.0,
        )  # fmt: skip

    return search(lambda: possible(job, count), TrySettings(job.accumulate, job.xla), run_one, lambda: now)


def _try_training_seconds(schedule: _Schedule) -> float:
    """Four windows of a second and three steps (workloads/trainer/steady.py)."""
    return min(TRY_SECONDS, max(4.0, _STEADY_STEPS * schedule.step_seconds))


def _fits(schedule: _Schedule, settings: TrySettings) -> bool:
    """Whether a micro-batch fits into the memory of one device; a device of no known memory takes any."""
    job, course = schedule.job, schedule.course
    memory_gib = next((row.device_memory_gib for row in TYPES.values() if row.device == course.device), None)
    needed = footprint(
        job.graph(), job.global_batch_size // settings.accumulate // course.device_count, job.precision,
        job.optimizer.state, framework=job.framework, xla=settings.xla, accumulate=settings.accumulate > 1,
    )  # fmt: skip
    return memory_gib is None or needed.least + needed.framework <= memory_gib * GIB


def _ending_of_tries(schedule: _Schedule) -> Ending:
    found = _search(schedule)
    at = _tries_began(schedule) + timedelta(seconds=sum(one.seconds for one in found.tries))
    code, state = (EXIT_DONE, "done") if found.best else (EXIT_FAILED, "failed")
    return _by_deadline(schedule.course, Ending(at=at, exit_code=code, state=state))


def _tries_began(schedule: _Schedule) -> datetime:
    return schedule.course.began_at + timedelta(seconds=_START_SECONDS["data"])


def _tries_lines(schedule: _Schedule) -> Iterator[Write]:
    """What is told until the last try has ended, in order."""
    course, job, at = schedule.course, schedule.job, _tries_began(schedule)
    yield _event(course, at, "phase", name="data", seconds=_START_SECONDS["data"])
    yield _status(course, at, "running", 0)
    yield schedule.start_event(at + timedelta(seconds=_START_SECONDS["import"] + _START_SECONDS["build"]))
    for number, one in enumerate(_search(schedule).tries, 1):
        at += timedelta(seconds=one.seconds)
        yield _event(
            course, at, "try", number=number, accumulate=one.settings.accumulate, xla=one.settings.xla,
            micro_batch_size=job.global_batch_size // one.settings.accumulate, state=one.ended.value,
            seconds=round(one.seconds, 3), images_per_second=one.images_per_second, half_width=one.half_width,
            peak_memory_bytes=None, message="",
        )  # fmt: skip
        yield _status(course, at, "running", 0)


def _end_of_tries(schedule: _Schedule, ending: Ending) -> Iterator[Write]:
    course, at, found = schedule.course, ending.at, _search(schedule)
    yield from (write for write in _tries_lines(schedule) if write.at == at)
    best = found.best
    if best is None or ending.state != "done":
        message = "" if best else "nothing fits: the smallest micro-batch ran out of memory too"
        yield _status(course, at, ending.state, 0, message=message)
        return
    for name in ("import", "build", "compile"):
        yield _event(course, at, "phase", name=name, seconds=_TRY_PHASES[name])
    figures = _pilot_figures(schedule)
    yield from _written(at, {"measurement.json": json.dumps(figures).encode()})
    seconds = (at - course.began_at).total_seconds()
    yield _event(
        course, at, "end", state="done", step=_STEADY_STEPS, epoch=1, images_per_second=best.images_per_second,
        **figures, accumulate=best.settings.accumulate, xla=best.settings.xla, tries=len(found.tries),
        not_tried=found.not_tried, is_time_up=found.is_time_up, total_seconds=round(seconds, 3),
        train_seconds=round(_try_training_seconds(schedule), 3), peak_memory_bytes=None,
    )  # fmt: skip
    yield _status(course, at, "done", _STEADY_STEPS)


def _images_and_batch(job: TrainingJob) -> tuple[int, int]:
    """Images of an epoch, and of a step."""
    if job.script is not None:
        return _BATCH_OF_A_SCRIPT * _STEPS_OF_A_SCRIPT, _BATCH_OF_A_SCRIPT
    return job.train_images or _UNKNOWN_IMAGES, job.global_batch_size


def newest_checkpoint(marks: Iterable[bytes], job_json: str) -> int:
    """The step to go on from: that of the newest whole checkpoint of this job, 0 where there is none.

    `marks` are the complete.json of the run's checkpoints; one that cannot be read is passed over.
    """
    digest = _job(job_json).digest()
    return max((step for mark in marks if (step := _step_of(mark, digest)) is not None), default=0)


def _step_of(mark: bytes, digest: str) -> int | None:
    try:
        position = json.loads(mark)["position"]
        return int(position["step"]) if position["job_digest"] == digest else None
    except (ValueError, KeyError, TypeError):
        return None


@lru_cache(maxsize=256)
def _job(job_json: str) -> TrainingJob:
    return job_from_json(job_json)


def _checkpoint_time() -> timedelta:
    return timedelta(seconds=_CHECKPOINT_SECONDS)


def _hold_out(job: TrainingJob) -> int:
    return job.known_data.hold_out_images if job.known_data else 0


def _versions(job: TrainingJob) -> dict[str, object]:
    return {
        "framework": FRAMEWORK,
        "framework_version": "1",
        "keras_version": None,
        "python_version": None,
        "precision": job.precision.value,
        "xla": job.xla,
    }


def _output(at: datetime, schedule: _Schedule, step: int, **ended: str) -> Iterator[Write]:
    job = schedule.job
    model = f"simulated model of {job.digest()} after {step} steps: no net was trained\n".encode()
    end = json.loads(schedule.end_event(at, "done", step).data)
    metrics = {
        "name": job.name,
        "job_digest": job.digest(),
        "simulated": True,
        "hold_out_accuracy": None,
        "hold_out_images": end["hold_out_images"],
        "images": schedule.images,
        "epochs": job.epochs,
        "steps": step,
        "parameters": job.graph().parameters,
        "moving_statistics": job.graph().statistics,
        "images_per_second": end["images_per_second"],
        "train_seconds": end["train_seconds"],
        **_versions(job),
        **ended,
    }
    files = {"model.keras": model, "metrics.json": json.dumps(metrics, indent=1).encode()}
    if job.sweep is not None:
        files[STATE] = _sweep_table(schedule, at).model_dump_json(indent=1).encode()
    yield from _written(at, files)


def _results_by(schedule: _Schedule, at: datetime) -> Sequence[Result]:
    """Of the trials that the rungs ask for, those that are trained by then, without figures: no net was trained."""
    job, step = schedule.job, schedule.step_at(at)
    planned = [images for rung in schedule.planned for images in rung]
    standing, images = Standing(rungs_for(job), len(job.trials), goal_of(job)), 0
    while (task := standing.next_task()) is not None:
        images += planned[len(standing.results)]
        if images // schedule.batch > step:
            break
        standing = standing.with_result(Result(trial=task.trial, epochs=task.epochs))
    return standing.results


def _sweep_table(schedule: _Schedule, at: datetime) -> SweepTable:
    results = _results_by(schedule, at)
    is_whole = table_of(schedule.job, results).best is not None
    return table_of(schedule.job, results, ended_early=not is_whole)


def _pilot_figures(schedule: _Schedule) -> dict[str, object]:
    """What a pilot tells beside its rate: its windows agree, and images come as fast as they are wanted."""
    weights = model_bytes(schedule.course.job_json)
    return {
        "windows": 3,
        "half_width": 0.0,
        "data_images_per_second": round(_DATA_FACTOR * schedule.course.images_per_second, 2),
        "input_bound": False,
        "checkpoint_seconds": _CHECKPOINT_SECONDS,
        "checkpoint_bytes": 2 * weights,
    }


def _written(at: datetime, files: Mapping[str, bytes]) -> Iterator[Write]:
    """The output of a run, with the manifest of it."""
    for name, data in files.items():
        yield Write(at=at, path=f"output/{name}", data=data)
    rows = [
        {"path": name, "size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in files.items()
    ]
    yield Write(at=at, path="output/manifest.json", data=json.dumps(rows, indent=1).encode())


def _event(course: Course, at: datetime, name: str, /, **fields: object) -> Write:
    line = json.dumps({"event": name, "time": _stamp(at), **fields}) + "\n"
    return Write(at=at, path=f"attempts/{course.attempt}/progress.jsonl", data=line.encode(), append=True)


def _status(course: Course, at: datetime, state: str, step: int, epoch: int = 1, *, message: str = "") -> Write:
    record = {"state": state, "time": _stamp(at), "epoch": epoch, "step": step, "message": message}
    return Write(at=at, path=f"attempts/{course.attempt}/status.json", data=json.dumps(record).encode())


def _console(at: datetime, line: str) -> Write:
    return Write(at=at, path=None, data=f"{line}\n".encode(), append=True)


def _stamp(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds")
