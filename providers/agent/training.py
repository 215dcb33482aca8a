"""The container while it trains: watched, told of, its checkpoints brought to the store as they come."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.providers.agent import endings, gate
from trainplan.providers.agent.checkpoints import Checkpoints
from trainplan.providers.agent.container import STOP_SECONDS, Container, EngineError, Exit, create_arguments
from trainplan.providers.agent.endings import EndedError, Ending, failed
from trainplan.providers.agent.logs import LogTail
from trainplan.providers.agent.loop import Chore, Duty
from trainplan.providers.agent.machine import AgentMachine
from trainplan.providers.agent.plain_file import NotPlainError, plain_bytes
from trainplan.providers.agent.processes import ProcessResult, Running, watched
from trainplan.providers.agent.progress import ProgressTail, Pulse
from trainplan.providers.agent.schema import STATUS_BYTES, status_record
from trainplan.providers.agent.status import Status
from trainplan.providers.agent.store import RefusedError, Steps, patiently
from trainplan.providers.agent.watch import AttemptWatch

if TYPE_CHECKING:
    from trainplan.providers.agent.vault import Redactor

PULL_SECONDS = 1.0
PUSH_SECONDS = 10.0
LOG_SECONDS = 15.0
HUNG_SECONDS = 10.0
CHECKPOINT_SECONDS = 2.0
RETRY_SECONDS = 60.0
"""After a checkpoint that could not be sent for another reason than a store that is away."""
_MOST_FAILURES = 10
_TRACE_BYTES = 262_144
_LEAST_GRACE = 5
_UPLOAD_RESERVE = 8.0


@dataclass(frozen=True)
class Attempt:
    """What one attempt is trained with."""

    machine: AgentMachine
    container: Container
    checkpoints: Checkpoints
    status: Status
    watch: AttemptWatch


class Training:
    """A container from `docker create` to its end; `look` is called between all other work."""

    def __init__(self, attempt: Attempt) -> None:
        self.devices_seen = 0
        self._attempt = attempt
        machine = attempt.machine
        folder = machine.spec.folder
        self._local = machine.paths.run_dir / folder
        self._progress = ProgressTail(
            self._local / "progress.jsonl",
            machine.paths.spool / "progress.jsonl",
            machine.store,
            f"{folder}/progress.jsonl",
        )
        self.logs = LogTail(machine.store, f"{folder}/log")
        self._pulse = Pulse(machine.clock)
        self._chore = Chore(machine.clock)
        self._follow: Running | None = None
        self._heard_at = 0.0
        self._has_ended = False
        self._not_before = 0.0
        self._looking = Chore(machine.clock)
        self._duties = (
            Duty(PULL_SECONDS, self._pull),
            Duty(PUSH_SECONDS, self._progress.push),
            Duty(LOG_SECONDS, self.logs.push),
            Duty(HUNG_SECONDS, self._hung),
            Duty(CHECKPOINT_SECONDS, self._checkpoint),
        )
        self._look_again = Duty(gate.LOOK_SECONDS, self._accelerator)

    def look(self) -> bool:
        """True: there is more to do at once."""
        if self._follow is None:
            return False
        now = self._attempt.machine.clock.steady()
        for duty in self._duties:
            duty.when_due(now)
        self._look_again.when_due(now)
        with contextlib.suppress(EngineError):
            self._looking.go_on()
        self._go_on()
        return self._chore.due

    def run(self, image: str, env_file: Path | None) -> Steps[Ending]:
        """How the container ended. Raises EngineError where it cannot be made, EndedError where something has asked for
        the end before it was started."""
        attempt, machine = self._attempt, self._attempt.machine
        words = create_arguments(machine.spec, machine.paths, image, None if env_file is None else str(env_file))
        try:
            attempt.container.create(words)
        finally:
            if env_file is not None:
                env_file.unlink()
        if attempt.watch.ending is not None:
            raise EndedError(attempt.watch.ending)
        attempt.container.start()
        self._follow = attempt.container.follow()
        machine.paths.mark_running()
        attempt.watch.training = True
        self._pulse.beat()
        attempt.status.change("running", "training")
        try:
            exited = yield from self._to_its_end()
            if self._follow is not None:
                yield from self.logs.hear_out(self._follow, attempt.status.redactor)
            ending = endings.judge_ending(exited, attempt.watch.ending, self._last_said(), self.logs.last_text)
        except EngineError as error:
            ending = failed("ENGINE", f"Docker no longer knows the container: {error}")
        self._has_ended = True
        attempt.status.change("stopping", f"{ending.message}; bringing everything home")
        return ending

    def progress_sha256(self) -> Steps[str]:
        """Return the SHA-256 of the whole progress once it is stored; "" where the store refuses it."""
        try:
            yield from self._progress.finish(self._attempt.status.redactor)
        except (RefusedError, OSError):  # `told_all` says so
            return ""
        return self._progress.stored_sha256

    def told_all(self) -> Steps[None]:
        """What progress and log still hold, and what only somebody who repairs the trainer wants to read."""
        redactor = self._attempt.status.redactor
        try:
            yield from self._tell(redactor)
        except (RefusedError, OSError) as error:
            self._attempt.status.warn(f"not all of progress and log was sent: {error}")

    def last_checkpoint(self, by: float) -> Steps[None]:
        """The newest one where it fits into the time; else the one that is on its way."""
        checkpoints = self._attempt.checkpoints
        name = checkpoints.waiting()
        fits = self._attempt.machine.clock.now() + checkpoints.seconds_for(name) <= by
        if self._chore.busy and (checkpoints.under_way == name or not fits):
            while self._chore.busy:
                self._go_on()
                yield 0.1
        elif name and fits:
            self._chore.drop()
            try:
                yield from checkpoints.push(name)
            except (RefusedError, OSError) as error:
                self._attempt.status.warn(f"the last checkpoint was not sent: {error}")
        self._note_checkpoint()

    def _tell(self, redactor: Redactor) -> Steps[None]:
        yield from self._progress.finish(redactor)
        if self._follow is not None:
            yield from self.logs.finish(self._follow, redactor)
            self._follow = None
        trace = self._local / "log" / "traceback.txt"
        try:
            size = trace.stat().st_size
            data = redactor.clean(plain_bytes(trace, _TRACE_BYTES, max(0, size - _TRACE_BYTES)))
        except (NotPlainError, OSError):
            return
        store = self._attempt.machine.store
        yield from patiently(partial(store.put, f"{self._attempt.machine.spec.folder}/log/traceback.txt", data))

    def _to_its_end(self) -> Steps[Exit]:
        """Raises EngineError where Docker has lost the container, or itself."""
        watch, container = self._attempt.watch, self._attempt.container
        stopper: Running | None = None
        failures = 0
        while True:
            try:
                exited = container.exit()
                failures = 0
            except EngineError:
                exited, failures = None, failures + 1
                if failures > _MOST_FAILURES:
                    raise
            if exited is not None:
                if stopper is not None:
                    stopper.rest(_LEAST_GRACE)
                return exited
            if self._follow is not None and self._follow.poll() is not None:
                # Cut off: Docker was restarted, say.
                self._follow.rest(0.0)
                self._follow = container.follow(self._heard_at)
            if stopper is not None and stopper.poll() not in (None, 0):
                stopper.rest(0.0)
                stopper = None
            if watch.ending is not None and stopper is None:
                stopper = container.stop(self._grace(watch.ending))
                self._attempt.status.change("stopping", f"{watch.ending.message}; the trainer writes a checkpoint")
            yield 1.0

    def _grace(self, ending: Ending) -> int:
        """Seconds from SIGTERM to SIGKILL: what is left, less what it takes to bring the checkpoint home."""
        machine = self._attempt.machine
        remaining = min(ending.by or machine.spec.deadline, machine.spec.deadline) - machine.clock.now()
        sending = self._attempt.checkpoints.seconds_for(self._attempt.checkpoints.stored)
        return int(max(_LEAST_GRACE, min(STOP_SECONDS, remaining - sending - _UPLOAD_RESERVE)))

    def _pull(self) -> None:
        redactor = self._attempt.status.redactor
        moved = self._progress.pull(redactor)
        if self._follow is not None:
            moved = self.logs.pull(self._follow, redactor) or moved
        if moved:
            self._heard_at = self._attempt.machine.clock.now()
            self._pulse.beat()
            self._fell_back()

    def _fell_back(self) -> None:
        """The trainer's own word on what it trains."""
        promised = self._attempt.machine.spec.device
        uses = self._progress.first.get("device_kind", promised.kind)
        if uses != promised.kind:
            text = f"the trainer uses a {uses}, where {promised.count} x {promised.name} was rented"
            self._attempt.watch.ask(failed("ACCELERATOR_NOT_VISIBLE", text))

    def _hung(self) -> None:
        limit = self._attempt.machine.spec.hung_seconds
        if limit and self._pulse.silent_seconds > limit:
            text = f"neither progress nor a line of output for {limit / 60:.0f} minutes; the container was stopped"
            self._attempt.watch.ask(failed("HUNG", text))

    def _checkpoint(self) -> None:
        # Once the end is asked for, `last_checkpoint` decides what still fits.
        was_asked = self._has_ended or self._attempt.watch.ending is not None
        if was_asked or self._chore.busy or self._attempt.machine.clock.steady() < self._not_before:
            return
        if name := self._attempt.checkpoints.waiting():
            self._chore.begin(self._attempt.checkpoints.push(name))

    def _go_on(self) -> None:
        try:
            self._chore.go_on()
        except (RefusedError, OSError) as error:
            self._not_before = self._attempt.machine.clock.steady() + RETRY_SECONDS
            self._attempt.status.details["warning"] = self._attempt.status.redactor.text(
                f"a checkpoint was not sent: {error}"
            )
        self._note_checkpoint()

    def _note_checkpoint(self) -> None:
        stored, details = self._attempt.checkpoints.stored, self._attempt.status.details
        if stored and details.get("checkpoint") != stored:
            details["checkpoint"] = stored
            # Those before it are not in a row with later ones.
            self._attempt.machine.paths.crashes.unlink(missing_ok=True)

    def _accelerator(self) -> None:
        if self._attempt.machine.spec.device.kind != "cpu" and not self._looking.busy:
            self._looking.begin(self._look())

    def _look(self) -> Steps[None]:
        """Twice not seen is lost: a driver under load may be slow to answer once."""
        attempt = self._attempt
        where, process = yield from self._seen_by()
        if not process.code:
            return
        yield gate.CONFIRM_SECONDS
        where, process = yield from self._seen_by()
        if not process.code:
            return
        # A container that has just ended sees nothing either.
        if attempt.container.exit() is None:
            text = f"{where} has lost the accelerator while it trained:\n{process.output}"
            attempt.watch.ask(Ending("interrupted", "ACCELERATOR_LOST", text))

    def _seen_by(self) -> Steps[tuple[str, ProcessResult]]:
        """The machine's own view; where that is good, the running container's."""
        attempt, words = self._attempt, gate.look(self._attempt.machine.spec.device)
        process = yield from watched(attempt.machine.clock, attempt.machine.processes.start(words), gate.LIMIT_SECONDS)
        process = gate.judge_gate(process, self.devices_seen)
        if process.code:
            return "the machine", process
        process = yield from watched(attempt.machine.clock, attempt.container.inside(words), gate.LIMIT_SECONDS)
        return "the container", gate.judge_gate(process, self.devices_seen)

    def _last_said(self) -> str:
        """The message of the trainer's own status.json."""
        try:
            raw = plain_bytes(self._local / "status.json", STATUS_BYTES + 1)
        except (NotPlainError, OSError):
            return ""
        return str(status_record(raw).get("message", ""))
