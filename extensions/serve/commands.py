"""Runs `plan` for the page: whatever asks a provider or changes a run is the ordinary command, in a process of its own.

It takes the run's lock, asks nobody, and goes on where the page's server ends. The server itself imports no vendor's
SDK and stays small.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

LOOK_EVERY = timedelta(seconds=10)
"""Between the end of a look and the next one, while somebody watches."""
_LOOK_SHARE = 4
"""A look that takes long is made more seldom: it is to take no more than a fifth of the time."""
_KEPT_REPORTS = 4


class Answer(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """Its error in words; "" where it had none."""
        said = [line[7:] for line in self.err.splitlines() if line.startswith("error: ")]
        if said or not self.code:
            return said[-1] if said else ""
        return f"plan ended with code {self.code}"


_NOT_STARTED = 126
"""What a shell gives for a program that it cannot start."""
_PLAN = "from trainplan.planner.cli.main import main; main()"


def execute(arguments: Sequence[str]) -> Answer:
    """`plan ARGUMENTS` in a process of its own, which a Ctrl-C in the server's terminal does not reach. One that cannot
    be started is an answer too."""
    # -P: a folder that happens to be the working directory provides no modules.
    command = [sys.executable, "-P", "-c", _PLAN, *arguments]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, start_new_session=True, text=True,
            encoding="utf-8", errors="replace",
        )  # fmt: skip
    except OSError as error:  # no memory, no more processes, or Python was replaced by another version
        return Answer(_NOT_STARTED, "", f"error: plan {arguments[0]} could not be started: {error.strerror or error}")
    return Answer(done.returncode, done.stdout, done.stderr)


class Look(NamedTuple):
    """What `plan status` said last: rows by run, when, and its error."""

    rows: dict[str, dict[str, Any]]
    at: datetime
    error: str


class Commands:
    """The commands of one server, each in a thread. `changes` counts what they have brought."""

    def __init__(self, now: Callable[[], datetime], execute: Callable[[Sequence[str]], Answer] = execute) -> None:
        self.changes = 0
        self.look: Look | None = None
        self._now = now
        self._execute = execute
        self._lock = threading.Lock()
        self._is_looking = False
        self._next_look: datetime | None = None
        self._stops: dict[str, str] = {}
        self._reports: dict[str, tuple[int, dict[str, Any]]] = {}

    def look_when_due(self) -> None:
        """Run `plan status` in the background, unless it runs already or ran a moment ago."""
        with self._lock:
            if self._is_looking or (self._next_look is not None and self._now() < self._next_look):
                return
            self._is_looking = True
        threading.Thread(target=self._run_look, daemon=True).start()

    def stop(self, run_id: str) -> None:
        """Run `plan stop` in the background, once."""
        with self._lock:
            if self._stops.get(run_id) == STOPPING:
                return
            self._stops[run_id] = STOPPING
            self.changes += 1
        # Where the server ends meanwhile, the process goes on by itself.
        threading.Thread(target=self._run_stop, args=(run_id,), daemon=True).start()

    def stop_text(self, run_id: str) -> str:
        """How the stop of a run goes; "" where nobody asked for one here."""
        return self._stops.get(run_id, "")

    def report(self, run_id: str, version: int | None) -> dict[str, Any] | str:
        """The document of a run, of `plan report`; why there is none, in words. One of the same version is kept; None:
        the run goes on, and has another document whenever its trainer says something."""
        with self._lock:
            kept = self._reports.get(run_id)
        if version is not None and kept is not None and kept[0] == version:
            return kept[1]
        answer = self._execute(["report", run_id, "--json"])
        try:
            document = json.loads(answer.out)
        except ValueError:
            document = {}
        if answer.code or "run" not in document:
            return answer.error or "plan report printed nothing that can be read"
        with self._lock:
            self._reports.pop(run_id, None)
            if version is not None:
                self._reports[run_id] = (version, document)
            while len(self._reports) > _KEPT_REPORTS:
                del self._reports[next(iter(self._reports))]
        return dict(document)

    def _run_look(self) -> None:
        began = self._now()
        answer = self._execute(["status", "--json"])
        try:
            rows = {str(row["run_id"]): row for row in json.loads(answer.out)}
        except (ValueError, TypeError, KeyError):
            rows = {}
        ended = self._now()
        with self._lock:
            self.look = Look(rows, ended, answer.error)
            self._next_look = ended + max(LOOK_EVERY, _LOOK_SHARE * (ended - began))
            self._is_looking = False
            self.changes += 1

    def _run_stop(self, run_id: str) -> None:
        answer = self._execute(["stop", run_id, "--json"])
        with self._lock:
            self._stops[run_id] = answer.error and f"it could not be stopped: {answer.error}"
            self.changes += 1


STOPPING = "being stopped: its trainer writes a last checkpoint, then everything that it created is removed"
