"""The double's process as a test has it: started, steered over HTTP, and ended with the test."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from tests.conftest import ROOT
from tests.doubles.hangs import HANGS_SECONDS
from tests.doubles.shown_time import NO_TIME, ShownTime

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_DEFAULT_REGION": "us-east-1",
}
"""Somebody is signed in, and nothing of this computer's own sign-in is read."""
UNSET = ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_SESSION_TOKEN", "AWS_REGION")


def sign_in() -> None:
    """This process is one of somebody who is signed in to the double, for good."""
    os.environ.update(ENVIRONMENT)
    for name in UNSET:
        os.environ.pop(name, None)


@contextlib.contextmanager
def signed_in() -> Iterator[None]:
    """The environment of somebody who is signed in to the double."""
    before = {name: os.environ.get(name) for name in (*ENVIRONMENT, *UNSET)}
    sign_in()
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class Double:
    """`url` is what the SDK is pointed at. `in_turn`: it serves in one thread, can be put aside with all it knows
    (tests/doubles/in_turn.py), and shows its time without being asked."""

    def __init__(self, *, in_turn: bool = False) -> None:
        self._shown_clock, file = ShownTime.make() if in_turn else NO_TIME
        environment = {name: value for name, value in os.environ.items() if name not in UNSET}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.doubles.aws", *([str(file)] if file else [])],
            cwd=ROOT,
            env={**environment, **ENVIRONMENT, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        if file is not None:
            file.unlink()
        self.url = f"http://127.0.0.1:{self.port}"
        self._connections: dict[tuple[int, int], http.client.HTTPConnection] = {}

    @property
    def mirror(self) -> str:
        """A registry that has every image, as the setting `mirrors` names it."""
        return f"127.0.0.1:{self.port}/mirror"

    def __enter__(self) -> Double:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, what: str, **parameters: Any) -> Any:
        """One of `tests.doubles.aws.server.Server.steered`."""
        connection = self._connection()
        connection.request("POST", f"/double/{what}", json.dumps(parameters, default=str).encode())
        answer = connection.getresponse()
        data = answer.read()
        assert answer.status == http.client.OK, data
        return json.loads(data)

    def reset(self, **scenario: Any) -> None:
        """Another world (tests.doubles.aws.scenario.Scenario)."""
        self.ask("reset", **scenario)

    def now(self) -> datetime:
        return datetime.fromisoformat(self.ask("now")) if self._shown_clock is None else self._shown_clock.read()

    def advance(self, until: datetime) -> None:
        self.ask("advance", until=until.isoformat())

    def sleep(self, seconds: float) -> None:
        self.ask("sleep", seconds=seconds)

    def script(self, **fault: Any) -> None:
        """One more thing that goes wrong (tests.doubles.aws.scenario.Fault)."""
        self.ask("script", faults=[fault])

    def put_aside(self) -> None:
        """What happens from here on is undone by `take_up`."""
        self.ask("put_aside")

    def take_up(self) -> None:
        """Back to what was put aside last; this process's own connection was there then."""
        self.ask("take_up")

    def remaining(self) -> list[str]:
        """What of ours is still there."""
        return [row["id"] for row in self.ask("ledger") if row["left"] and row["ours"]]

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._process.terminate()
        self._process.wait(timeout=300)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _connection(self) -> http.client.HTTPConnection:
        """This thread's own, and this process's: one that was forked must not speak on its parent's."""
        who = os.getpid(), threading.get_ident()
        if who not in self._connections:
            self._connections[who] = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANGS_SECONDS)
        return self._connections[who]
