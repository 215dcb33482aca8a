"""Runs beside the trainer in process mode: holds it to its deadline and writes down how it ended.

The folder it is given is the record of one attempt:

    request.json   written by the launcher: what to run, until when
    supervisor/    made by whoever supervises; making it can succeed only once, so only one trainer ever starts
    trainer.json   pid and birth of the trainer
    stop           somebody asks the trainer to end
    exit.json      how it ended

When the folder goes away the trainer is killed: what nobody can find any more must not run on.
Nothing is imported but the standard library, and what needs nothing else, on any system.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trainplan.providers.local.pids import process, this_process
from trainplan.workloads.passed_variables import passed_variables
from trainplan.workloads.steady import anchored

REQUEST = "request.json"
SUPERVISOR = "supervisor/process.json"
TRAINER = "trainer.json"
STOP = "stop"
EXIT = "exit.json"
POLL_SECONDS = 0.25
HARD_DEADLINE_EXIT = 124
WITH_RESULTS_EXIT = 77
"""As workloads/trainer/errors.py has it: not all is done, and there are results."""
READY = "ready"
IN_USE = "taken"


def main(arguments: list[str]) -> int:
    """`start FOLDER`: leave a supervisor behind and return once it watches. `watch FOLDER`: be it."""
    action, folder = arguments[0], Path(arguments[1])
    return start(folder) if action == "start" else watch(folder)


def start(folder: Path) -> int:
    """Start the supervisor where no signal of this terminal reaches it, and wait until it has taken its place.

    It is a grandchild of the caller, so that nobody who lives has to reap it. Exit code 1: it did not come up,
    and stderr says why.
    """
    command = [sys.executable, "-P", "-m", "trainplan.providers.local.supervise", "watch", str(folder)]
    with tempfile.TemporaryFile() as complaints:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints, **_on_its_own()
        )
        answer = child.stdout.readline().decode().strip() if child.stdout else ""
        if answer in (READY, IN_USE):
            return 0
        complaints.seek(0)
        sys.stderr.write(complaints.read().decode(errors="replace"))
    return 1


def watch(folder: Path) -> int:
    """Run the trainer to its end. Exit code 0 also where another supervisor was first."""
    if not _take_place(folder):
        _answer(IN_USE)
        return 0
    request = json.loads((folder / REQUEST).read_text(encoding="utf-8"))
    _let_signals_ask(folder)
    try:
        trainer = _spawn(request)
    except OSError as error:
        _write(folder / EXIT, {"exit_code": 127})
        sys.stderr.write(f"{request['command'][0]}: {error.strerror}\n")
        return 1
    _write(folder / TRAINER, asdict(process(trainer.pid)))
    _answer(READY)
    _write(folder / EXIT, {"exit_code": _see_it_end(trainer, folder, request)})
    return 0


def _on_its_own() -> dict[str, Any]:
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


def _take_place(folder: Path) -> bool:
    """Renaming a folder onto one that is not empty fails everywhere, so one process succeeds at this."""
    try:
        mine = Path(tempfile.mkdtemp(prefix=".supervisor-", dir=folder))
        _write(mine / "process.json", asdict(this_process()))
        mine.rename(folder / "supervisor")
    except OSError:
        return False
    return True


def _let_signals_ask(folder: Path) -> None:
    """A signal to the supervisor (the system goes down) is one to the trainer: it shall write a checkpoint."""

    def ask(number: int, frame: object) -> None:
        del number, frame
        with contextlib.suppress(OSError):
            (folder / STOP).touch()

    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), ask)


def _spawn(request: dict[str, Any]) -> subprocess.Popen[bytes]:
    if request["vcpus"] and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: request["vcpus"]])
    group: dict[str, Any] = {}
    if sys.platform == "win32":
        group["creationflags"] = subprocess.CREATE_NEW_PROCESS_GROUP
    with Path(request["log"]).open("ab") as log:
        return subprocess.Popen(
            request["command"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**passed_variables(os.environ), **request["environment"]},
            **group,
        )


def _answer(word: str) -> None:
    """Tell the launcher, and let go of it."""
    print(word, flush=True)  # noqa: T201  the launcher reads it
    with Path(os.devnull).open("wb") as nothing:
        os.dup2(nothing.fileno(), sys.stdout.fileno())


def _see_it_end(trainer: subprocess.Popen[bytes], folder: Path, request: dict[str, Any]) -> int:
    """Wait for the trainer; ask it to end at the deadline or when told to, and kill it when it does not follow."""
    asked_at: float | None = None
    late = False
    now = anchored()  # whoever sets the computer's clock does not end the training
    while True:
        try:
            code = trainer.wait(timeout=POLL_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        else:
            return HARD_DEADLINE_EXIT if late and code not in (0, WITH_RESULTS_EXIT) else code
        if not (folder / REQUEST).exists():
            trainer.kill()
        elif asked_at is None:
            late = now() >= request["deadline_unix"]
            if late or (folder / STOP).exists():
                asked_at = time.monotonic()
                _ask_to_end(trainer)
        elif time.monotonic() - asked_at > request["grace_seconds"]:
            trainer.kill()


def _ask_to_end(trainer: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        trainer.send_signal(signal.CTRL_BREAK_EVENT)
    else:
        trainer.terminate()


def _write(path: Path, value: dict[str, Any]) -> None:
    """Write the record atomically; do nothing where it has been removed meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        partial.write_text(json.dumps(value), encoding="utf-8")
        partial.replace(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
