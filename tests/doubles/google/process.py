"""The server as tests start and steer it: a process of its own, which ends with whoever started it."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.conftest import ROOT
from tests.doubles.hangs import HANGS_SECONDS
from tests.doubles.shown_time import NO_TIME, ShownTime

if TYPE_CHECKING:
    from tests.doubles.google.scenario import FaultRule, Scenario


class Google:
    """Where a server listens, and what steers it. Nothing is connected between two calls: good after a fork."""

    def __init__(self, url: str) -> None:
        self.url = url

    def control(self, what: str, body: object = None) -> dict[str, Any]:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=HANGS_SECONDS)
        try:
            connection.request("POST", f"/control/{what}", json.dumps(body or {}).encode())
            told: dict[str, Any] = json.loads(connection.getresponse().read())
            return told
        finally:
            connection.close()

    def reset(self, scenario: Scenario) -> None:
        self.control("reset", scenario.model_dump(mode="json"))

    def now(self) -> datetime:
        return datetime.fromisoformat(self.control("now")["now"])

    def sleep(self, seconds: float) -> None:
        self.control("sleep", {"seconds": seconds})

    def pass_to(self, until: datetime) -> None:
        self.control("pass", {"until": until.isoformat()})

    def close(self) -> None:
        """Nothing is open."""

    def script(self, rule: FaultRule) -> None:
        """One more thing that goes wrong."""
        self.control("fault", rule.model_dump(mode="json"))


class Steady(Google):
    """A server that serves in one thread, asked on one connection, kept for each process and thread: for whoever asks
    often, and ends without a word."""

    def __init__(self, server: Process) -> None:
        super().__init__(server.url)
        assert server.shown_clock is not None
        self._shown_clock = server.shown_clock
        self._lines: dict[tuple[int, int], http.client.HTTPConnection] = {}

    def control(self, what: str, body: object = None) -> dict[str, Any]:
        who = os.getpid(), threading.get_ident()
        if who not in self._lines:
            self._lines[who] = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=HANGS_SECONDS)
        line = self._lines[who]
        line.request("POST", f"/control/{what}", json.dumps(body or {}).encode())
        told: dict[str, Any] = json.loads(line.getresponse().read())
        return told

    def now(self) -> datetime:
        return self._shown_clock.read()

    def put_aside(self) -> None:
        """What happens from here on is undone by `take_up`."""
        self.control("put_aside")

    def take_up(self) -> None:
        """Back to what was put aside last; this process's own connection was there then."""
        self.control("take_up")

    def close(self) -> None:
        """Let go of the connections; whoever asks again opens a new one."""
        for line in self._lines.values():
            line.close()


class Process(Google):
    """`close` ends it; it ends by itself with the process that started it. `in_turn`: it serves in one thread, and
    `shown` has its time."""

    def __init__(self, *, in_turn: bool = False) -> None:
        self.shown_clock, file = ShownTime.make() if in_turn else NO_TIME
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.doubles.google", *([str(file)] if file else [])],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        super().__init__(self._process.stdout.readline().strip())
        if file is not None:
            file.unlink()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=300)
        self._process.stdout.close()
