"""Training in a process of this Python: what is used where no container engine answers."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainplan.providers.base import Check, Instance, InstanceState, LaunchRequest, PreflightState, VendorRequest
from trainplan.providers.cloud.exit_codes import how_it_ended
from trainplan.providers.errors import InstanceNotFoundError, MachineError, TransientError
from trainplan.providers.local.here import LOG_BYTES, LOG_LINES, Here, LocalResource, room_checks
from trainplan.providers.local.inside import open_inside
from trainplan.providers.local.pids import Process
from trainplan.providers.local.records import PROCESS, AttemptLocation, attempt_key
from trainplan.providers.local.store import write_whole
from trainplan.providers.local.supervise import EXIT, REQUEST, SUPERVISOR, TRAINER
from trainplan.providers.local.translate import own_trainer, process_request
from trainplan.workloads.extras import install_hint
from trainplan.workloads.passed_variables import passed_variables
from trainplan.workloads.terms import Framework

if TYPE_CHECKING:
    from trainplan.pricing.offers import Offer

_START_SECONDS = 60


def installed(module: str) -> bool:
    """Whether this Python has a module; it is not imported."""
    return importlib.util.find_spec(module) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessHost:
    """`program` is the trainer's command before its arguments; `installed` tells which frameworks it can use."""

    here: Here
    program: tuple[str, ...] = own_trainer()
    installed: Callable[[str], bool] = installed

    @property
    def name(self) -> str:
        return PROCESS

    def checks(self, offer: Offer, framework: Framework | None) -> Sequence[Check]:
        """The lines of a preflight: whether this Python can train, and with which frameworks."""
        del offer
        gap = self._gap_of(framework)
        frameworks = ", ".join(name for name in Framework if self.installed(name))
        trainer = Check(
            name="trainer",
            state=PreflightState.REFUSED if gap else PreflightState.OK,
            detail=gap or f"trains in a process of this Python with {frameworks}: no limits on memory, no container",
            fix=_fix_of(framework) if gap else "",
        )
        return (trainer, *room_checks(self.here))

    def prepare(self, request: LaunchRequest, report: Callable[[str], None]) -> None:
        """Do nothing: a process needs no image."""

    def requests(self, request: LaunchRequest) -> Sequence[VendorRequest]:
        return (VendorRequest(service=PROCESS, operation="start", parameters=self._record_of(request)),)

    def launch(self, request: LaunchRequest) -> Instance:
        location = AttemptLocation(host=PROCESS, key=attempt_key(request.run_id, request.attempt))
        folder = self.here.records.folder(location.key)
        if not (folder / SUPERVISOR).exists():
            self._start(request, folder)
        return self.get(location)

    def get(self, location: AttemptLocation) -> Instance:
        folder = self.here.records.folder(location.key)
        if self.here.records.host_of(location.key) != PROCESS:
            raise InstanceNotFoundError(f"there is no process {location.key.name}")
        observation = _look(folder)
        alive = Instance(
            ref=location.ref,
            state=observation.state,
            run_id=location.key.run_id,
            attempt=location.key.attempt,
            launched_at=_written_at(folder / "host"),
        )
        if (
            observation.state is InstanceState.RUNNING
            and observation.supervised
            and self.here.records.asked_to_stop(location.key)
        ):
            return replace(alive, state=InstanceState.STOPPING)
        if observation.state is not InstanceState.ENDED:
            return alive
        end, reason = how_it_ended(observation.exit_code)
        return replace(alive, exit_code=observation.exit_code, end=end, reason=reason)

    def list_resources(self) -> Iterator[LocalResource]:
        """The attempts whose trainer is a process of this machine."""
        for location in self.here.records.locations():
            if location.host == PROCESS:
                folder = self.here.records.folder(location.key)
                running = _look(folder).state is not InstanceState.ENDED
                yield LocalResource(
                    location=location, kind="process", created_at=_written_at(folder / "host"), running=running
                )

    def stop(self, location: AttemptLocation) -> None:
        """The supervisor passes it on, once. Without one the trainer is told here, and `get` says RUNNING until it
        follows, so that whoever asked asks again."""
        self.here.records.ask_to_stop(location.key)
        folder = self.here.records.folder(location.key)
        supervisor, trainer = _process(folder / SUPERVISOR), _process(folder / TRAINER)
        if trainer and not (supervisor and supervisor.alive):
            trainer.signal(signal.SIGTERM)

    def delete(self, location: AttemptLocation) -> None:
        folder = self.here.records.folder(location.key)
        for name in (TRAINER, SUPERVISOR):
            if process := _process(folder / name):
                process.kill()
        self.here.records.forget(location.key)

    def logs(self, location: AttemptLocation) -> Sequence[str]:
        run_dir = self.here.folders(location.key.run_id).run_dir
        try:
            with open_inside(run_dir, run_dir / "attempts" / str(location.key.attempt) / "log" / "trainer.log") as log:
                size = os.fstat(log.fileno()).st_size
                log.seek(max(0, size - LOG_BYTES))
                text = log.read(LOG_BYTES).decode("utf-8", "replace")
        except OSError:
            return []
        return text.splitlines()[-LOG_LINES:]

    def _record_of(self, request: LaunchRequest) -> dict[str, Any]:
        folders = self.here.folders(request.run_id)
        return process_request(request, self.program, folders, self.here.gpus(request.offer))

    def _start(self, request: LaunchRequest, folder: Path) -> None:
        if gap := self._gap_of(request.job.framework):
            raise MachineError(gap, hint=_fix_of(request.job.framework))
        document = self._record_of(request)
        self.here.make_room(request, request.job)
        write_whole(folder / REQUEST, json.dumps(document).encode())
        command = [sys.executable, "-P", "-m", "trainplan.providers.local.supervise", "start", str(folder)]
        try:
            process = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=_START_SECONDS,
                # Those of the trainer: a script could read its supervisor's too (/proc).
                env=passed_variables(self.here.environment),
                start_new_session=True,  # a Ctrl-C of this terminal is not for it
            )
        except subprocess.TimeoutExpired:
            raise TransientError("the trainer's process did not come up in time") from None
        if process.returncode:
            raise MachineError(f"the trainer's process did not start: {process.stderr.strip()[-300:]}")

    def _gap_of(self, framework: Framework | None) -> str:
        """Say what is missing for a job of this framework; None: for any job."""
        if any(map(self.installed, Framework if framework is None else (framework,))):
            return ""
        there = [str(name) for name in Framework if self.installed(name)]
        missing = framework or "TensorFlow, JAX or PyTorch"
        besides = f", only {' and '.join(there)}" if there else ""
        return f"no container engine is used, and this Python has no {missing}{besides}"


def _fix_of(framework: Framework | None) -> str:
    if framework in (None, Framework.TENSORFLOW):
        return (
            f"install Docker or Podman, or TensorFlow (for NVIDIA cards the extra train): {install_hint('train-cpu')}"
        )
    return f"install {framework} into this Python, or Docker or Podman, or write another framework into the job"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Observation:
    state: InstanceState
    exit_code: int | None = None
    supervised: bool = False


def _look(folder: Path) -> _Observation:
    supervisor, trainer = _process(folder / SUPERVISOR), _process(folder / TRAINER)
    supervised = supervisor is not None and supervisor.alive
    if supervised or (trainer and trainer.alive):
        observation = _Observation(
            state=InstanceState.RUNNING if trainer else InstanceState.PENDING, supervised=supervised
        )
    elif supervisor:
        observation = _Observation(state=InstanceState.ENDED)
    else:
        observation = _Observation(state=InstanceState.PENDING)
    # Read last: the supervisor may have written it, and ended, while we looked.
    reply = _read(folder / EXIT)
    return observation if reply is None else _Observation(state=InstanceState.ENDED, exit_code=int(reply["exit_code"]))


def _process(path: Path) -> Process | None:
    reply = _read(path)
    return None if reply is None else Process(pid=int(reply["pid"]), birth=str(reply["birth"]))


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None


def _written_at(path: Path) -> datetime | None:
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except OSError:
        return None
