"""What a fake provider rents out: a machine whose trainer follows a script, and the run directory it writes to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Any

from tests.doubles.clock import FakeClock
from trainplan.providers.base import EndKind, InstanceState, LaunchRequest
from trainplan.providers.errors import BadRequestError
from trainplan.providers.sim.attempt_record import attempt_record


class FakeStore:
    """A run directory in a dictionary. `at_get` is told of every read before it happens; `down` is what it raises."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.at_get: Callable[[str], None] = lambda _: None
        self.down: Exception | None = None

    def put(self, path: str, data: bytes) -> None:
        self.files[_checked(path)] = data

    def get(self, path: str, *, start: int = 0, size: int | None = None) -> bytes:
        self.at_get(path)
        self._answer()
        return self.files[_checked(path)][start : None if size is None else start + size]

    def list(self, prefix: str = "") -> Sequence[str]:
        self._answer()
        return sorted(path for path in self.files if _under(path, prefix))

    def delete(self, prefix: str) -> None:
        self._answer()
        self.files = {path: data for path, data in self.files.items() if not _under(path, prefix)}

    def _answer(self) -> None:
        if self.down is not None:
            raise self.down


def _under(path: str, prefix: str) -> bool:
    return not prefix or path == prefix or path.startswith(f"{prefix}/")


def _checked(path: str) -> str:
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise BadRequestError(f"{path!r} leaves the run directory")
    return path


@dataclass(frozen=True, slots=True)
class Sighting:
    """How a machine stands when somebody looks."""

    state: InstanceState
    end: EndKind | None = None
    exit_code: int | None = None
    reason: str | None = None
    bills: bool = True


PENDING, RUNNING, STOPPING = map(Sighting, (InstanceState.PENDING, InstanceState.RUNNING, InstanceState.STOPPING))
QUEUED = Sighting(InstanceState.PENDING, bills=False)
SIGHTING_OF_END = {
    EndKind.DONE: Sighting(InstanceState.ENDED, EndKind.DONE, 0, "done"),
    EndKind.STOPPED: Sighting(InstanceState.ENDED, EndKind.STOPPED, 75, "stopped, with a checkpoint"),
    EndKind.DEADLINE: Sighting(InstanceState.ENDED, EndKind.DEADLINE, 76, "the deadline was reached"),
    EndKind.BAD_JOB: Sighting(InstanceState.ENDED, EndKind.BAD_JOB, 65, "the trainer cannot train this job"),
    EndKind.FAILED: Sighting(InstanceState.ENDED, EndKind.FAILED, 70, "training failed"),
    EndKind.OUT_OF_MEMORY: Sighting(
        InstanceState.ENDED, EndKind.OUT_OF_MEMORY, 86, "killed: the memory limit was reached"
    ),
    EndKind.KILLED: Sighting(InstanceState.ENDED, EndKind.KILLED, 137, "killed (signal 9)"),
    EndKind.LOST: Sighting(InstanceState.ENDED, EndKind.LOST, None, None),
    EndKind.RECLAIMED: Sighting(InstanceState.ENDED, EndKind.RECLAIMED, None, "spot took it back"),
    EndKind.DEVICE_LOST: Sighting(InstanceState.ENDED, EndKind.DEVICE_LOST, 70, "the accelerator is gone"),
    EndKind.NO_CAPACITY: Sighting(InstanceState.ENDED, EndKind.NO_CAPACITY, None, "it waited in vain", bills=False),
}


@dataclass
class FakeMachine:
    """One attempt. Its script goes one step on with each look, and writes what the trainer would have written."""

    request: LaunchRequest
    store: FakeStore
    clock: FakeClock
    script: Callable[[FakeMachine], Iterator[Sighting]]
    stop_asked: bool = False
    vanished: bool = False
    sighting: Sighting = PENDING
    step: int = 0
    _life: Iterator[Sighting] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.launched_at = self.clock.now()
        self.job = self.request.job

    @property
    def steps_per_epoch(self) -> int:
        assert self.job.train_images is not None
        return self.job.train_images // self.job.global_batch_size

    @property
    def total_steps(self) -> int:
        return self.steps_per_epoch * self.job.epochs

    def live(self) -> Sighting:
        if self._life is None:
            self._life = self.script(self)
        self.sighting = next(self._life, self.sighting)
        return self.sighting

    def kill(self) -> None:
        self._life = iter(())
        if self.sighting.state is not InstanceState.ENDED:
            self.sighting = SIGHTING_OF_END[EndKind.KILLED]

    def say(self, event: str, **fields: Any) -> None:
        """A line of progress.jsonl."""
        path = f"attempts/{self.request.attempt}/progress.jsonl"
        line = json.dumps({"event": event, "time": self.clock.now().isoformat()} | fields)
        self.store.files[path] = self.store.files.get(path, b"") + line.encode() + b"\n"

    def start(self) -> None:
        # Written from where it runs: what the person's computer cannot read is there all the same.
        kept = [path for path in self.store.files if _under(path, "checkpoints")]
        self.step = max([0, *(int(path.split("-")[1][:8]) for path in kept)])
        self.say(
            "start", device_kind="cpu", device_name="AMD EPYC", device_count=1, framework="tensorflow",
            framework_version="2.20.0", strategy="one device", images=self.job.train_images, epochs=self.job.epochs,
            steps_per_epoch=self.steps_per_epoch, total_steps=self.total_steps, resumed_from_step=self.step,
        )  # fmt: skip

    def train(self, steps: int, rate: float) -> None:
        """So many steps at so many images per second, and an epoch line where one ends; the clock goes on."""
        for _ in range(steps):
            self.step += 1
            self.clock.advance(self.job.global_batch_size / rate)
            if self.step % self.steps_per_epoch == 0:
                self.say("epoch", epoch=self.step // self.steps_per_epoch, step=self.step, seconds=1.0)
        epoch = (self.step - 1) // self.steps_per_epoch + 1
        self.say("step", epoch=epoch, step=self.step, loss=0.5, accuracy=0.75, images_per_second=rate)

    def checkpoint(self) -> None:
        self.store.put(f"checkpoints/step-{self.step:08}/weights", b"w")
        self.store.put(f"checkpoints/step-{self.step:08}/complete.json", b"{}")

    def end(self, state: str, rate: float) -> None:
        status = {"state": state, "time": self.clock.now().isoformat()}
        self.store.put(f"attempts/{self.request.attempt}/status.json", json.dumps(status).encode())
        self.say(
            "end", state=state, step=self.step, images_per_second=rate, hold_out_accuracy=0.975, hold_out_images=360
        )

    def write_output(self, files: dict[str, bytes]) -> None:
        """The files, then the manifest of them."""
        for name, data in files.items():
            self.store.put(f"output/{name}", data)
        entries = [
            {"path": name, "size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in files.items()
        ]
        self.store.put("output/manifest.json", json.dumps(entries).encode())
        record = attempt_record(self.request.run_key, self.request.run_id, self.request.attempt, self.store.files.get)
        if record is not None:
            self.store.put(*record)


Script = Callable[[FakeMachine], Iterator[Sighting]]
MODEL = {"model.keras": b"a model", "metrics.json": b"{}"}
RATE = 4000.0


def trains_well(machine: FakeMachine) -> Iterator[Sighting]:
    """Boots, trains in four looks, leaves a model."""
    yield PENDING
    yield from _trained(machine)
    machine.end("done", RATE)
    machine.write_output(MODEL)
    yield SIGHTING_OF_END[EndKind.DONE]


def done_at_once(machine: FakeMachine) -> Iterator[Sighting]:
    """All of it before anybody looks."""
    list(_trained(machine))
    machine.end("done", RATE)
    machine.write_output(MODEL)
    yield SIGHTING_OF_END[EndKind.DONE]


def until_asked(machine: FakeMachine) -> Iterator[Sighting]:
    """Trains a step a look until it is asked to end, then takes two looks for its checkpoint."""
    machine.start()
    while not machine.stop_asked:
        machine.train(1, RATE)
        yield RUNNING
    yield STOPPING
    machine.checkpoint()
    machine.end("stopped", RATE)
    yield SIGHTING_OF_END[EndKind.STOPPED]


def stubborn(machine: FakeMachine) -> Iterator[Sighting]:
    """Trains for ever, whatever it is asked."""
    machine.start()
    machine.train(1, RATE)
    while True:
        yield RUNNING


def silent(machine: FakeMachine) -> Iterator[Sighting]:
    """Never gets to its trainer."""
    while True:
        yield PENDING


def waits(seconds: float, then: Script) -> Script:
    """Waits in a queue for so long, a minute a look, and costs nothing meanwhile."""

    def script(machine: FakeMachine) -> Iterator[Sighting]:
        until = machine.clock.now() + timedelta(seconds=seconds)
        while machine.clock.now() < until:
            yield QUEUED
            machine.clock.advance(60)
        yield from then(machine)

    return script


def in_vain(machine: FakeMachine) -> Iterator[Sighting]:
    """The end of a wait for which there was nothing."""
    yield SIGHTING_OF_END[EndKind.NO_CAPACITY]


def disappears(machine: FakeMachine) -> Iterator[Sighting]:
    """Is taken away with everything on it."""
    machine.start()
    yield RUNNING
    machine.vanished = True
    yield SIGHTING_OF_END[EndKind.LOST]


def ends(kind: EndKind) -> Callable[[FakeMachine], Iterator[Sighting]]:
    """Starts, does a few steps, and ends in that way."""

    def script(machine: FakeMachine) -> Iterator[Sighting]:
        machine.start()
        machine.train(3, RATE)
        yield RUNNING
        yield SIGHTING_OF_END[kind]

    return script


def ended_at_once(kind: EndKind) -> Callable[[FakeMachine], Iterator[Sighting]]:
    """Has ended in that way when somebody first looks, after a few steps and a checkpoint."""

    def script(machine: FakeMachine) -> Iterator[Sighting]:
        machine.start()
        machine.train(3, RATE)
        machine.checkpoint()
        yield SIGHTING_OF_END[kind]

    return script


def ends_after(kind: EndKind, steps: int) -> Callable[[FakeMachine], Iterator[Sighting]]:
    """Does so many steps, writes a checkpoint, does three more, and ends in that way."""

    def script(machine: FakeMachine) -> Iterator[Sighting]:
        machine.start()
        machine.train(steps, RATE)
        machine.checkpoint()
        yield RUNNING
        machine.train(3, RATE)
        yield RUNNING
        yield SIGHTING_OF_END[kind]

    return script


def trains_at(rate: float) -> Callable[[FakeMachine], Iterator[Sighting]]:
    """Trains a step a look, at so many images per second, until it is done or asked to end."""

    def script(machine: FakeMachine) -> Iterator[Sighting]:
        machine.start()
        while machine.step < machine.total_steps and not machine.stop_asked:
            machine.train(1, rate)
            yield RUNNING
        machine.checkpoint()
        if machine.step < machine.total_steps:
            machine.end("stopped", rate)
            yield SIGHTING_OF_END[EndKind.STOPPED]
            return
        machine.end("done", rate)
        machine.write_output(MODEL)
        yield SIGHTING_OF_END[EndKind.DONE]

    return script


def _trained(machine: FakeMachine) -> Iterator[Sighting]:
    machine.clock.advance(2)
    machine.start()
    yield RUNNING
    left = machine.total_steps - machine.step
    for part in (left // 2, left - left // 2):
        machine.train(part, RATE)
        machine.checkpoint()
        yield RUNNING
