"""One attempt on one machine, from its first status to its last: fetch, prepare, check, train, bring all home."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import sys
import traceback
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from trainplan.providers.agent import gate, images, output
from trainplan.providers.agent.checkpoints import Checkpoints
from trainplan.providers.agent.container import Container, EngineError
from trainplan.providers.agent.downloads import FetchError, fetch
from trainplan.providers.agent.endings import STORE_REFUSED, WITH_RESULTS, EndedError, Ending, failed
from trainplan.providers.agent.loop import TICK_SECONDS, drive, together, until
from trainplan.providers.agent.notices import Notices
from trainplan.providers.agent.processes import ProcessResult, watched
from trainplan.providers.agent.signatures import ATTEMPT, OUTPUT_MANIFEST, Vouching, attempt_path, progress_path
from trainplan.providers.agent.status import FINAL, Status, last_said
from trainplan.providers.agent.store import RefusedError, Steps, patiently
from trainplan.providers.agent.training import Attempt, Training
from trainplan.providers.agent.vault import Redactor, SecretError, resolve, write_env_file
from trainplan.providers.agent.watch import AttemptWatch

if TYPE_CHECKING:
    from trainplan.providers.agent.machine import AgentMachine

SETUP_SECONDS = 1800.0
SETUP_PAUSES_SECONDS = (20.0, 60.0)
"""Between tries of the set-up."""
CHECK_SECONDS = 600.0
_LAST_SECONDS = 30.0
"""Before the machine's own deadline everything is said and done."""


Result = TypeVar("Result")


class Agent:
    """Runs the attempt. Whatever happens, `run` returns how it ended, and status.json says the same."""

    def __init__(self, machine: AgentMachine) -> None:
        self.machine = machine
        machine.paths.make()
        self.container = Container(machine.processes)
        self.notices = Notices(machine.access)
        self.vouching = Vouching(str(machine.access.boot.get("run_key") or ""), machine.spec.run_id)
        self.checkpoints = Checkpoints(
            machine.store,
            machine.paths.run_dir / "checkpoints",
            machine.paths.spool / "checkpoint",
            machine.clock,
            self.vouching,
        )
        copy = machine.paths.root / "status.json"
        self._earlier = last_said(copy)
        self.status = Status(machine.store, machine.spec, machine.clock, copy, Redactor())
        self.watch = AttemptWatch(machine, self.status, self.notices)
        self.training = Training(Attempt(machine, self.container, self.checkpoints, self.status, self.watch))

    def run(self) -> Ending:
        """Never raises for what goes wrong on the machine."""
        if self._earlier.get("state") in FINAL and self._earlier.get("attempt") == self.machine.spec.attempt:
            return Ending(str(self._earlier["state"]), str(self._earlier.get("reason")), "ended before")
        try:
            ending = drive(self._story(), self._duties, self.machine.clock)
        except Exception:  # noqa: BLE001  the machine must end, and the person must read why
            ending = failed("AGENT_FAILED", f"the machine's own program failed:\n{traceback.format_exc()}")
        self._last_words(ending)
        return ending

    def _duties(self) -> bool:
        self.watch.look()
        return self.training.look()

    def _story(self) -> Steps[Ending]:
        try:
            image, env_file = yield from self._unless_ended(self._made_ready())
            ending = yield from self.training.run(image, env_file)
            return (yield from self._bring_home(ending))
        except EndedError as ended:
            return ended.ending
        except EngineError as error:
            return failed("ENGINE", f"Docker does not work on this machine: {error}")
        except images.ImageError as error:
            return failed("IMAGE_NOT_PULLED", f"the container image could not be pulled: {error}")
        except SecretError as error:
            return failed("SECRET_NOT_READ", str(error))
        except (FetchError, RefusedError) as error:
            return failed("NOT_FETCHED", f"what the run needs could not be fetched: {error}")

    def _made_ready(self) -> Steps[tuple[str, Path | None]]:
        """Everything before training: the image, and the file with secrets."""
        self.status.change("fetching", "fetching the image, the data and the last checkpoint")
        self.container.close_metadata()
        spec = self.machine.spec
        pulling = images.pull(spec.images, self.container, self.machine.access, partial(watched, self.machine.clock))
        image = yield from together(self.machine.clock, self._fetched(), pulling)
        self.status.details["image"] = image
        self.status.change("preparing", "preparing the container")
        env_file = yield from self._secrets()
        if spec.setup:
            process = yield from self._once(image, spec.setup, SETUP_SECONDS)
            for pause in SETUP_PAUSES_SECONDS:
                if not process.code:
                    break
                # Packages are pinned by hash: mostly the index did not answer, which may pass.
                self.status.warn(f"what the trainer needs could not be installed; trying again in {pause:.0f} s")
                yield pause
                process = yield from self._once(image, spec.setup, SETUP_SECONDS)
            if process.code:
                raise EndedError(
                    failed("SETUP_FAILED", f"what the trainer needs could not be installed:\n{process.output}")
                )
        if spec.device.kind != "cpu":
            yield from self._checked(image)
        return image, env_file

    def _fetched(self) -> Steps[None]:
        """The job, the files, and the checkpoint to go on from."""
        self.status.details["fetched_bytes"] = yield from fetch(self.machine, report=self._has_come)
        value = yield from self.checkpoints.restore()
        if value:
            self.status.details["resumed_from"] = value
        if self.checkpoints.remark:
            self.status.warn(self.checkpoints.remark)
        yield from patiently(self.training.logs.go_on)

    def _has_come(self, done_count: int, total: int) -> None:
        """Report the bytes fetched so far with the next heartbeat."""
        self.status.details["fetched_bytes"] = done_count
        self.status.set("fetching", f"fetching: {done_count / 1e9:.1f} of {total / 1e9:.1f} GB are here")

    def _secrets(self) -> Steps[Path | None]:
        """Resolved into an environment file in memory; None where there are none."""
        values: dict[str, str] = {}
        for name, reference in self.machine.spec.secrets.items():
            values[name] = yield from self._secret(reference)
        if not values:
            return None
        self.status.redactor = Redactor(values.values())
        path = self.machine.paths.volatile / "secrets.env"
        write_env_file(path, values)
        return path

    def _secret(self, reference: str) -> Steps[str]:
        """Tried for as long as the machine may take to come up: permission may be on its way."""
        while True:
            try:
                return resolve(self.machine.access, reference)
            except OSError as error:
                self.status.set("preparing", f"waiting for a secret: {error}")
            yield 10.0

    def _checked(self, image: str) -> Steps[None]:
        """The gate: on only where the framework sees what was promised and computes right on it."""
        device = self.machine.spec.device
        self.status.change("checking", f"looking for {device.count} x {device.name} in the container")
        looking = self.machine.processes.start(gate.look(device))
        outside = gate.judge_gate(
            (yield from watched(self.machine.clock, looking, gate.LIMIT_SECONDS)), gate.least_on_host(device)
        )
        words = gate.program(device, self.machine.spec.framework, self.machine.spec.precision)
        inside = yield from self._once(image, words, CHECK_SECONDS)
        self.status.details["accelerator"] = self.status.redactor.text(inside.output[-500:])
        if text := gate.refusal(device, outside, inside):
            raise EndedError(failed("ACCELERATOR_NOT_VISIBLE", text))
        self.training.devices_seen = gate.count_devices(outside)

    def _once(self, image: str, command: tuple[str, ...], seconds: float) -> Steps[ProcessResult]:
        spec, paths = self.machine.spec, self.machine.paths
        return (yield from watched(self.machine.clock, self.container.once(spec, paths, image, command), seconds))

    def _unless_ended(self, steps: Steps[Result]) -> Steps[Result]:
        """The steps; raises EndedError as soon as something has asked for the end."""
        due = 0.0
        while True:
            if self.watch.ending:
                steps.close()
                raise EndedError(self.watch.ending)
            if self.machine.clock.steady() >= due:
                try:
                    due = self.machine.clock.steady() + next(steps)
                except StopIteration as end:
                    result: Result = end.value
                    return result
            yield max(0.0, min(TICK_SECONDS, due - self.machine.clock.steady()))

    def _bring_home(self, ending: Ending) -> Steps[Ending]:
        """The results where there are any, the newest checkpoint where all is not done; then what is left of progress
        and log: what that makes of the ending."""
        by = self._last_instant(ending)
        if ending.state != "done" or ending.exit_code == WITH_RESULTS:
            yield from until(self.machine.clock, by, self.training.last_checkpoint(by))
        if ending.state == "done":
            ending = yield from self._results(ending, by)
        yield from until(self.machine.clock, by, self.training.told_all())
        return ending

    def _results(self, ending: Ending, by: float) -> Steps[Ending]:
        pushing = output.push(self.machine.store, self._output, self._vouched, self.status.warn)
        try:
            whole = yield from until(self.machine.clock, by, pushing)
        except (output.OutputError, OSError, RefusedError) as error:
            return replace(ending, state=ending.unstored_state, reason="NO_OUTPUT", message=str(error))
        if whole:
            return ending
        yield from until(self.machine.clock, by + _LAST_SECONDS, self.training.last_checkpoint(by + _LAST_SECONDS))
        text = "training ended, but its results could not be stored in time; the last checkpoint is kept"
        return replace(ending, state=ending.unstored_state, reason="RESULTS_NOT_STORED", message=text)

    def _vouched(self, manifest: bytes) -> Steps[None]:
        """The attempt's record, with which the person's computer checks the results and the progress."""
        if not self.vouching.is_on:
            return
        attempt = self.machine.spec.attempt
        files = {OUTPUT_MANIFEST: hashlib.sha256(manifest).hexdigest()}
        if progress := (yield from self.training.progress_sha256()):
            files[progress_path(attempt)] = progress
        record = self.vouching.record(str(attempt), files, ATTEMPT)
        yield from patiently(partial(self.machine.store.put, attempt_path(attempt), record))

    @property
    def _output(self) -> Path:
        return self.machine.paths.run_dir / output.FOLDER

    def _last_instant(self, ending: Ending) -> float:
        """Return the instant (Unix seconds) until which results may be uploaded."""
        spec, now = self.machine.spec, self.machine.clock.now()
        latest = min(spec.deadline - _LAST_SECONDS, now + spec.store_patience_seconds)
        return latest if ending.by is None else min(latest, ending.by - 2.0)

    def _last_words(self, ending: Ending) -> None:
        """The final status, as long as there is any sense in it; then Azure may have its machine."""
        clock = self.machine.clock
        self.status.set(ending.state, ending.message, ending.reason, ending.exit_code)
        if ending.reason == STORE_REFUSED:  # the store takes no last word
            sys.stderr.write(f"trainplan: {STORE_REFUSED}: {self.status.redactor.text(ending.message)}\n")
            return
        by = max(self._last_instant(ending), clock.now() + 1.0) + _LAST_SECONDS / 2
        with contextlib.suppress(RefusedError):
            drive(until(clock, by, patiently(self.status.write, 1.0)), lambda: False, clock)
        if ending.notice is not None:
            self.notices.acknowledge(ending.notice)
        shutil.rmtree(self.machine.paths.volatile, ignore_errors=True)
