"""A rented machine without a machine: a clock that tests move, Docker with one container, and a trainer that trains."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainplan.providers.agent.agent import Agent
from trainplan.providers.agent.clock import Clock, stamp
from trainplan.providers.agent.machine import AgentMachine
from trainplan.providers.agent.processes import ProcessResult, Running
from trainplan.providers.agent.requests import Access
from trainplan.providers.agent.spec import Device, Paths, Spec
from trainplan.providers.agent.store import AwayError, Upload
from trainplan.workloads.output_files import STOPPED_FOR_GOOD

if TYPE_CHECKING:
    from trainplan.providers.agent.endings import Ending

NOON = 1_795_262_400.0
IMAGE = "registry.example/train@sha256:" + "a" * 64
SECOND_IMAGE = "second.example/train@sha256:" + "a" * 64


class FakeClock(Clock):
    """`at_sleep` is called with the instant after every sleep."""

    def __init__(self) -> None:
        self.instant = NOON
        self.at_sleep: list[Callable[[float], None]] = []

    def now(self) -> float:
        return self.instant

    def steady(self) -> float:
        return self.instant - 1000.0

    def sleep(self, seconds: float) -> None:
        self.instant += max(seconds, 0.001)
        for happens in self.at_sleep:
            happens(self.instant)


class MemoryStore:
    """Objects in a dict. While `away` nothing answers; `seconds_per_byte` makes it slow for checkpoints."""

    def __init__(self, clock: FakeClock) -> None:
        self.objects: dict[str, bytes] = {"job.json": b"{}"}
        self.puts: list[str] = []
        self.deleted: list[str] = []
        self.away = False
        self.seconds_per_byte = 0.0
        self.at_put: Callable[[str], None] = lambda path: None
        self._clock = clock

    def put(self, path: str, data: bytes) -> None:
        self._answers()
        if path.startswith("checkpoints/"):
            self._clock.instant += len(data) * self.seconds_per_byte
        self.at_put(path)
        self.objects[path] = data
        self.puts.append(path)

    def get(self, path: str, start: int = 0, size: int | None = None) -> bytes:
        self._answers()
        return self.objects[path][start : None if size is None else start + size]

    def list(self, prefix: str) -> dict[str, int]:
        self._answers()
        return {path: len(data) for path, data in sorted(self.objects.items()) if path.startswith(f"{prefix}/")}

    def delete(self, path: str) -> None:
        self._answers()
        self.deleted.append(path)
        self.objects.pop(path, None)

    def begin(self, path: str, size: int) -> Upload:
        self._answers()
        return _MemoryUpload(self, path, size)

    def json(self, path: str) -> Any:
        return json.loads(self.objects[path])

    def _answers(self) -> None:
        if self.away:
            raise AwayError("nobody answers")


class _MemoryUpload:
    def __init__(self, store: MemoryStore, path: str, size: int) -> None:
        self._store, self._path, self._data = store, path, bytearray(size)

    def part(self, number: int, data: bytes, start: int) -> None:
        self._store._answers()
        self._data[start : start + len(data)] = data
        self._store._clock.instant += len(data) * self._store.seconds_per_byte

    def finish(self) -> None:
        rate, self._store.seconds_per_byte = self._store.seconds_per_byte, 0.0
        try:
            self._store.put(self._path, bytes(self._data))
        finally:
            self._store.seconds_per_byte = rate


class FakeRunning:
    """Ends when `ends` says so; speaks what is put into `says`."""

    def __init__(self, code: int | None = 0, says: bytes = b"", ends: Callable[[], int | None] | None = None) -> None:
        self.says = says
        self.killed = False
        self._code = code
        self._ends = ends

    def poll(self) -> int | None:
        if self.killed:
            return -9
        return self._ends() if self._ends else self._code

    def read(self, most: int) -> bytes:
        data, self.says = self.says[:most], self.says[most:]
        return data

    def rest(self, seconds: float) -> None:
        if self.poll() is None:
            self.killed = True

    def kill(self) -> None:
        if self.poll() is None:
            self.killed = True


@dataclass
class FakeDocker:
    """Docker, iptables, nvidia-smi and systemctl of one machine. `trainer` lives in the container."""

    clock: FakeClock
    state: str = ""
    code: int = 0
    out_of_memory: bool = False
    words: list[tuple[str, ...]] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    """What a registry says instead of giving an image, by host."""
    gpus: int = 1
    gpus_inside: int = 1
    gate_says: bytes = b"tensorflow 2.21.0 sees 1 gpu\nACCELERATOR VISIBLE\n"
    gate_code: int = 0
    pull_seconds: float = 0.0
    env_file: str = ""
    jobs: str = ""
    """What systemd is about."""
    log: FakeRunning = field(default_factory=FakeRunning)
    killed_at: float | None = None
    on_term: Callable[[], None] = lambda: None
    on_start: Callable[[], None] = lambda: None
    broken: dict[str, str] = field(default_factory=dict)
    """What a command says instead of working, by its first two words."""

    def run(self, words: Sequence[str], seconds: float, text: str = "") -> ProcessResult:
        self.words.append((*words, *((f"<{text}",) if text else ())))
        if (said := self.broken.get(" ".join(words[:2]))) is not None:
            return ProcessResult(1, said)
        match tuple(words[:2]):
            case ("systemctl", "list-jobs"):
                return ProcessResult(0, self.jobs)
            case ("iptables", _):
                return ProcessResult(1 if "-C" in words else 0, "")
            case ("docker", "create"):
                self.state = "created"
                if "--env-file" in words:
                    self.env_file = Path(words[words.index("--env-file") + 1]).read_text("utf-8")
            case ("docker", "start"):
                self.state, self.log = "running", FakeRunning(ends=lambda: None if self.state == "running" else 0)
                self.on_start()
            case ("docker", "inspect"):
                state = {"Status": self.state, "ExitCode": self.code, "OOMKilled": self.out_of_memory, "Error": ""}
                return ProcessResult(0, json.dumps(state))
        return ProcessResult(0, "")

    def start(self, words: Sequence[str]) -> Running:
        self.words.append(tuple(words))
        match tuple(words[:2]):
            case ("docker", "pull"):
                host = words[-1].split("/")[0]
                if host in self.refused:
                    return FakeRunning(1, f"{self.refused[host]}\n".encode())
                pulled_at = self.clock.instant + self.pull_seconds
                return FakeRunning(ends=lambda: 0 if self.clock.instant >= pulled_at else None)
            case ("docker", "run"):
                return FakeRunning(self.gate_code, self.gate_says)
            case ("docker", "logs"):
                return self.log
            case ("docker", "stop"):
                self.killed_at = self.clock.instant + int(words[3])
                self.on_term()
                return FakeRunning(ends=lambda: None if self.state == "running" else 0)
            case ("docker", "exec"):
                return FakeRunning(0 if self.gpus_inside else 9, b"NVIDIA T4\n" * self.gpus_inside)
            case _:
                return FakeRunning(0 if self.gpus else 9, b"NVIDIA T4\n" * self.gpus)

    def exits(self, code: int) -> None:
        self.state, self.code = "exited", code

    def live(self, now: float) -> None:
        if self.state == "running" and self.killed_at is not None and now >= self.killed_at:
            self.exits(137)

    def calls_of(self, *start: str) -> list[tuple[str, ...]]:
        return [words for words in self.words if words[: len(start)] == start]


@dataclass
class FakeTrainer:
    """A step every second from the newest checkpoint on. Writes what the real one writes, where it writes it."""

    run_dir: Path
    docker: FakeDocker
    attempt: int = 1
    total_steps: int = 120
    checkpoint_every: int = 30
    checkpoint_bytes: int = 1000
    ignores_term: bool = False
    silent: bool = False
    is_script: bool = False
    seconds_to_end: float = 0.0
    """From SIGTERM on."""
    device_kind: str = "gpu"
    exit_code: int = 0
    step: int = 0
    done_steps: list[int] = field(default_factory=list)
    _began: float = 0.0
    _asked: float | None = None
    _first: int = 0

    def begin(self) -> None:
        marks = sorted(self.run_dir.glob("checkpoints/step-*/complete.json"))
        self.step = self._first = json.loads(marks[-1].read_text())["step"] if marks else 0
        self._began = self.docker.clock.instant
        self.folder.mkdir(parents=True, exist_ok=True)
        self.tell("start", device_kind=self.device_kind, resumed_from_step=self.step)

    @property
    def folder(self) -> Path:
        return self.run_dir / "attempts" / str(self.attempt)

    def live(self, now: float) -> None:
        if self._asked is not None and now >= self._asked + self.seconds_to_end:
            self.seconds_to_end, self._asked = 0.0, None
            self.term()
        while self.docker.state == "running" and not self.silent and self._began + self.step - self._first + 1 <= now:
            self.step += 1
            self.done_steps.append(self.step)
            self.tell("step", step=self.step)
            if self.step % self.checkpoint_every == 0:
                self.checkpoint()
            if self.step >= self.total_steps:
                self.finish()

    def term(self) -> None:
        if self.seconds_to_end:
            self._asked = self.docker.clock.instant
            return
        if self.docker.state == "running" and not self.ignores_term:
            self.checkpoint()
            if self.is_script and (self.folder / STOPPED_FOR_GOOD).exists():
                self.exit_code = 77
                self.finish()
                return
            self.tell("end", step=self.step)
            self.docker.exits(75)

    def checkpoint(self) -> None:
        folder = self.run_dir / "checkpoints" / f"step-{self.step:08}"
        if (folder / "complete.json").exists():
            return
        folder.mkdir(parents=True, exist_ok=True)
        data = f"weights {self.step} ".encode().ljust(self.checkpoint_bytes, b".")
        (folder / "state.npz").write_bytes(data)
        mark = {"step": self.step, "files": {"state.npz": hashlib.sha256(data).hexdigest()}}
        (folder / "complete.json").write_text(json.dumps(mark))

    def finish(self) -> None:
        if self.exit_code in (0, 77):
            output = self.run_dir / "output"
            output.mkdir(exist_ok=True)
            (output / "model.keras").write_bytes(b"model")
            rows = [{"path": "model.keras", "size_bytes": 5, "sha256": hashlib.sha256(b"model").hexdigest()}]
            (output / "manifest.json").write_text(json.dumps(rows))
        self.tell("end", step=self.step)
        self.docker.exits(self.exit_code)

    def tell(self, event: str, **fields: object) -> None:
        line = {"event": event, "time": stamp(self.docker.clock.instant), **fields}
        with (self.folder / "progress.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")


def spec(**changes: Any) -> Spec:
    usual = Spec(
        run_id="r1",
        attempt=1,
        images=(IMAGE, SECOND_IMAGE),
        command=("python", "-m", "trainplan.workloads.trainer", "--job", "/run-dir/job.json"),
        device=Device("gpu", "NVIDIA T4", 1),
        deadline=NOON + 7200,
        boot_deadline=NOON + 1800,
        job_sha256=hashlib.sha256(b"{}").hexdigest(),
    )
    return replace(usual, **changes)


class Rented:
    """One machine with everything in it, and the store beside it, which outlives it."""

    def __init__(
        self,
        root: Path,
        store: MemoryStore | None = None,
        clock: FakeClock | None = None,
        run_key: str = "",
        **changes: Any,
    ):
        self.clock = clock or FakeClock()
        self.store = store or MemoryStore(self.clock)
        token = json.dumps({"access_token": "token", "expires_in": 3599})
        self.metadata: dict[str, Any] = {"instance/service-accounts/default/token": token}
        self.secrets: dict[str, str] = {}
        self.free_bytes = 10**12
        self.docker = FakeDocker(self.clock)
        self.paths = Paths(root / "disk", root / "memory")
        self.spec = spec(**changes)
        self.trainer = FakeTrainer(self.paths.run_dir, self.docker, attempt=self.spec.attempt)
        self.docker.on_start, self.docker.on_term = self.trainer.begin, self.trainer.term
        self.clock.at_sleep[:] = [self.trainer.live, self.docker.live]
        boot = {"cloud": "gcp", "run_uri": "gs://bucket/plan/r1", "region": "", "endpoints": {}, "run_key": run_key}
        access = Access(boot, send=self.send, now=self.clock.now)
        self.machine = AgentMachine(
            self.spec, self.paths, self.clock, self.docker, access, self.store, lambda path: self.free_bytes
        )
        self.agent = Agent(self.machine)

    def send(self, method: str, url: str, headers: Any = None, body: Any = None, timeout: float = 20.0) -> Any:
        """The metadata service of Google, as far as `metadata` has a word for a path; and its secrets."""
        if url.startswith("https://secretmanager.googleapis.com/v1/"):
            value = self.secrets.get(url.partition("/v1/")[2].partition(":access")[0], "")
            text = json.dumps({"payload": {"data": base64.b64encode(value.encode()).decode()}})
            return (200, {}, text.encode()) if value else (403, {}, b"")
        path = url.partition("/computeMetadata/v1/")[2]
        if path in self.metadata:
            return 200, {}, str(self.metadata[path]).encode()
        return 404, {}, b""

    def at(self, seconds: float, happens: Callable[[], None]) -> None:
        """Once, so many seconds after noon."""
        waiting = [happens]

        def look(now: float) -> None:
            if waiting and now >= NOON + seconds:
                waiting.pop()()

        self.clock.at_sleep.append(look)

    def preempt(self) -> None:
        self.metadata["instance/preempted"] = "TRUE"

    def run(self) -> Ending:
        return self.agent.run()

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.store.json(f"attempts/{self.spec.attempt}/status.json")
        return found


def drained(steps: Any) -> Any:
    """The answer of the steps; the pauses are not waited for."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
