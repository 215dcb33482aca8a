"""Trainers of trials that train nothing, and a kill before any write: what a sweep makes of them is looked at."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from trainplan.workloads.job import TrainingJob, job_from_json
from trainplan.workloads.trainer.checkpoint import Checkpoints, Position
from trainplan.workloads.trainer.errors import EXIT_STOPPED
from trainplan.workloads.trainer.output import MANIFEST, MODEL
from trainplan.workloads.trainer.progress import Clock, Progress, State
from trainplan.workloads.trainer.rung_result import RungResult, write_result

IMAGES = 128


class FakeTrial:
    """Trains an epoch at each look. Its weights are a hash of all its steps, so that they tell where a training went on
    from another state than it was left in; its accuracy follows from them."""

    started: list[str]
    """What was started by all of them, as `trial:epoch`; set by `trials`."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._writes_now = "--write-now" in arguments
        words = [word for word in arguments if word != "--write-now"]
        given = dict(zip(words[::2], words[1::2], strict=True))
        self._folder, self._attempt = Path(given["--run-dir"]), given["--attempt"]
        self._job = job_from_json(Path(given["--job"]).read_text(encoding="utf-8"))
        self._until = int(given["--until-epoch"]) if "--until-epoch" in given else None
        self._is_asked = False
        self.started.append(f"{self._folder.name}:{self._until}")
        self._life = self._train()

    def wait(self, seconds: float) -> int | None:
        try:
            next(self._life)
        except StopIteration as end:
            return int(end.value)
        return None

    def stop(self) -> None:
        self._is_asked = True

    def accuracy(self, weights: bytes) -> RungResult:
        value = int.from_bytes(hashlib.sha256(weights).digest()[:4], "big") / 2**32
        return RungResult(accuracy=round(value, 6), loss=1 - value)

    def _train(self) -> Generator[None, None, int]:
        job = self._job
        progress = Progress(self._folder / "attempts" / self._attempt, Clock())
        steps = IMAGES // job.global_batch_size
        position = Position(step=0, epoch=1, job_digest=job.digest(), images=IMAGES, steps_per_epoch=steps)
        store = Checkpoints(self._folder / "checkpoints")
        loaded = store.newest(position, progress.warn)
        step, weights = (loaded.position.step, loaded.arrays[0].tobytes()) if loaded else (0, job.digest().encode())
        progress.event(
            "start", device_kind="cpu", images=IMAGES, steps_per_epoch=steps, epochs=job.epochs,
            total_steps=steps * job.epochs, resumed_from_step=step,
        )  # fmt: skip
        first = step
        last = step // steps if self._writes_now else self._until or job.epochs
        if self._writes_now:
            yield
        for epoch in range(step // steps + 1, last + 1):
            step, weights = epoch * steps, hashlib.sha256(weights + str(epoch).encode()).digest()
            progress.event("epoch", epoch=epoch, step=step, loss=1.0)
            store.save(
                position.model_copy(update={"step": step, "epoch": epoch}), [np.frombuffer(weights, np.uint8)], "[]"
            )
            progress.event("checkpoint", step=step, epoch=epoch)
            yield
            if self._is_asked:
                return EXIT_STOPPED
        result = self.accuracy(weights)
        if self._until is not None:
            write_result(self._folder, result)
        else:
            self._write_output(weights, result)
        progress.event(
            "end", state="done", step=step, train_seconds=float(step - first), hold_out_accuracy=result.accuracy
        )
        progress.status(State.DONE)
        return 0

    def _write_output(self, weights: bytes, result: RungResult) -> None:
        output = self._folder / "output"
        output.mkdir(exist_ok=True)
        (output / MODEL).write_bytes(weights)
        (output / "metrics.json").write_text(result.model_dump_json(), encoding="utf-8")
        (output / "report.md").write_text("# small\n\nTested.\n", encoding="utf-8")
        rows = [{"path": name, "size_bytes": 1, "sha256": "0" * 64} for name in (MODEL, "metrics.json", "report.md")]
        (output / MANIFEST).write_text(json.dumps(rows), encoding="utf-8")


def trials(**methods: Any) -> tuple[type[FakeTrial], list[str]]:
    """A class of such trainers with its own list of what was started; `methods` replace some of its methods."""
    started: list[str] = []
    return type("Trial", (FakeTrial,), {"started": started, **methods}), started


def a_swept_job(job: Callable[..., TrainingJob], **changes: Any) -> TrainingJob:
    """Nine trials of nine epochs, of digits that nobody reads."""
    sweep = {"optimizer.learning_rate": [0.1, 0.03, 0.01], "optimizer.momentum": [0.9, 0.5, 0.0]}
    optimizer = {"name": "sgd", "learning_rate": 0.1}
    return job(**{"epochs": 9, "optimizer": optimizer, "sweep": sweep, "data": {"name": "digits"}, **changes})


class Killed(BaseException):
    """The process is gone: no handler of an error runs."""


_WRITES = {"os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree"}
_WATCH: list[Callable[[str], None]] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _WATCH and (
        event in _WRITES or (event == "open" and isinstance(arguments[1], str) and arguments[1][:1] in "wxa")
    ):
        path = arguments[0]
        _WATCH[-1](str(path))


sys.addaudithook(_hook)


@contextmanager
def killed_before(number: int, below: Path) -> Iterator[list[str]]:
    """Raises Killed before the write of this number (from 0) below a folder, and before every later one: a process that
    is gone writes nothing in a `finally`. The list has the paths of all writes."""
    paths: list[str] = []

    def write(path: str) -> None:
        if str(below) in path or not path.startswith("/"):
            paths.append(path)
            if len(paths) > number:
                raise Killed

    _WATCH.append(write)
    try:
        yield paths
    finally:
        _WATCH.remove(write)
