"""What the machine says of itself: status.json, written anew again and again so that silence means something."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainplan.providers.agent.clock import Clock, stamp
from trainplan.providers.agent.store import AwayError, DeniedError, RefusedError, Store

if TYPE_CHECKING:
    from trainplan.providers.agent.spec import Spec
    from trainplan.providers.agent.vault import Redactor

HEARTBEAT_SECONDS = 20.0
FINAL = ("done", "stopped", "failed", "deadline", "interrupted")
_MOST_MESSAGE = 8_000


class Status:
    """The status of one attempt. A copy of what is written stays on the disk, for the timer that ends the machine where
    the agent cannot.
    """

    def __init__(self, store: Store, spec: Spec, clock: Clock, copy: Path, redactor: Redactor) -> None:
        self.redactor = redactor
        self.details: dict[str, Any] = {}
        self._store = store
        self._spec = spec
        self._clock = clock
        self._copy = copy
        self.denied_since: float | None = None
        """Since when (steady clock) the store does not let this machine write; None where it does, or was not asked."""
        self.denied = ""
        self.is_heard = False
        """The store has taken a word of this agent."""
        self._record: dict[str, Any] = {"state": "booting", "message": "", "reason": "", "exit_code": None}

    @property
    def state(self) -> str:
        """The state that the agent last set."""
        return str(self._record["state"])

    def set(self, state: str, message: str, reason: str = "", exit_code: int | None = None) -> None:
        """Set values of the status; `write` sends them."""
        text = self.redactor.text(message)[-_MOST_MESSAGE:]
        self._record = {"state": state, "message": text, "reason": reason, "exit_code": exit_code}

    def warn(self, message: str) -> None:
        """Something that training survives."""
        self.details["warning"] = self.redactor.text(message)[:500]

    def write(self) -> None:
        """Raises AwayError or RefusedError; the copy on the disk is written all the same."""
        record = {**self._record, "time": stamp(self._clock.now()), "attempt": self._spec.attempt, **self.details}
        data = json.dumps(record).encode()
        keep(self._copy, data)
        try:
            self._store.put(f"{self._spec.folder}/status.json", data)
        except DeniedError as error:
            self.denied = str(error)
            self.denied_since = self._clock.steady() if self.denied_since is None else self.denied_since
            raise
        self.is_heard, self.denied_since = True, None

    def change(self, state: str, message: str) -> None:
        """Set and written, as far as the store answers; the heartbeat makes up for it."""
        self.set(state, message)
        sys.stderr.write(f"trainplan: {state}: {self._record['message']}\n")
        with contextlib.suppress(AwayError, RefusedError):
            self.write()


def keep(path: Path, data: bytes) -> None:
    """A full disk must not end the heartbeat."""
    try:
        partial = path.with_name(path.name + ".new")
        partial.write_bytes(data)
        partial.replace(path)
    except OSError:
        return


def last_said(copy: Path) -> dict[str, Any]:
    """What an earlier life of the agent wrote last; empty for nothing."""
    try:
        document = json.loads(copy.read_bytes())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
