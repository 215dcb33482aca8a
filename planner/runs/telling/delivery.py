"""Delivers what happened to a run to the person's own command or web address: beside the run, in bounded time.

A delivery that fails is a line of text. It never raises, and nothing of a run waits for it.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import urllib.error
import urllib.request
from concurrent.futures import Future, wait
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from trainplan.planner import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PATIENCE_SECONDS = 10.0
"""How long a command or a web address may take."""
_GRACE_SECONDS = 1.0
"""More than it may take: until a command that was killed is gone."""
_EVENT_VARIABLE = "TRAINPLAN_EVENT"


class Delivery:
    """Deliveries of one command line, each in a thread of its own. `target` is a web address alone, or a command with
    its arguments; it may take `patience_seconds`."""

    def __init__(self, target: Sequence[str], patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._target = tuple(target)
        self._patience = patience_seconds
        self._pending: dict[Future[str], str] = {}

    def send(self, record: Mapping[str, Any]) -> None:
        """Begin to deliver a record, whose `event` and `run_id` name it; returns at once."""
        future: Future[str] = Future()
        self._pending[future] = f"{record['event']} of run {record['run_id']}"
        text = json.dumps(dict(record)).encode()
        thread = Thread(target=self._deliver, args=(future, str(record["event"]), text), daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no more threads
            future.set_result(str(error))

    def failures(self, *, is_last: bool = False) -> list[str]:
        """A line for each delivery that has failed since the last call.

        `is_last` waits for those under way, as long as one may take, and gives up the others.
        """
        if is_last and self._pending:
            with suppress(KeyboardInterrupt):
                wait(self._pending, timeout=self._patience + _GRACE_SECONDS)
        lines = []
        for future, name in list(self._pending.items()):
            if not future.done() and not is_last:
                continue
            del self._pending[future]
            why = future.result() if future.done() else f"no answer within {self._patience:g} s"
            if why:
                lines.append(f"notify: {name} was not delivered: {' '.join(why.split())}")
        return lines

    def _deliver(self, future: Future[str], event: str, text: bytes) -> None:
        why = "it broke off"
        try:
            is_address = len(self._target) == 1 and "://" in self._target[0]
            why = self._post(text) if is_address else self._call(event, text)
        except (OSError, ValueError, http.client.HTTPException, subprocess.SubprocessError) as error:
            why = _words(error)
        finally:
            future.set_result(why)

    def _post(self, text: bytes) -> str:
        """Posts to the address alone: a redirection is not followed. Returns why it was not delivered."""
        (address,) = self._target
        headers = {"Content-Type": "application/json", "User-Agent": f"trainplan/{__version__}"}
        request = urllib.request.Request(address, data=text, headers=headers, method="POST")
        # Plain http is for this computer alone (planner/settings.py), and no proxy is asked for that.
        direct = [urllib.request.ProxyHandler({})] if address.startswith("http:") else []
        opener = urllib.request.build_opener(_Here, *direct)
        try:
            with opener.open(request, timeout=self._patience):
                return ""
        except urllib.error.HTTPError as error:
            with error:
                return f"{urlsplit(address).hostname} answered {error.code}"

    def _call(self, event: str, text: bytes) -> str:
        """Runs the command with the record on its input. Returns why it was not delivered."""
        process = subprocess.Popen(
            self._target, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, _EVENT_VARIABLE: event}, start_new_session=True,
        )  # fmt: skip
        try:
            process.communicate(text, timeout=self._patience)
        except subprocess.TimeoutExpired:
            kill_with_children(process)
            return f"{self._target[0]} had not ended after {self._patience:g} s, and was killed"
        return f"{self._target[0]} ended with code {process.returncode}" if process.returncode else ""


class _Here(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: what happened is told to the address that the person gave, and to no other."""

    def redirect_request(self, *_: Any) -> None:
        return None


def kill_with_children(process: subprocess.Popen[Any]) -> None:
    """End the command, and what it has started."""
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, 9)
        else:
            process.kill()
    with suppress(subprocess.SubprocessError):
        process.wait(timeout=_GRACE_SECONDS / 2)


def _words(error: Exception) -> str:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
    name = getattr(error, "filename", None)
    return f"{name}: {reason}" if name else str(reason) or type(error).__name__
