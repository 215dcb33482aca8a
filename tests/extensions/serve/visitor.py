"""A server of `plan serve` in a thread, and somebody who sends it bytes over loopback."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.extensions.serve.board import Home
from trainplan.extensions.serve.commands import Answer, Commands
from trainplan.extensions.serve.server import Server
from trainplan.planner.runs.journal.locks import RunLocks
from trainplan.planner.runs.money.spending import Spending

if TYPE_CHECKING:
    from tests.doubles.clock import FakeClock


@dataclass
class Reply:
    """What came back: the status, the headers in lower case, and the body."""

    status: int
    headers: dict[str, str]
    body: str


@dataclass
class Typed:
    """Stands for `plan` itself: the command lines that the page has run, and what each of them prints."""

    answers: dict[str, Answer] = field(default_factory=dict)
    lines: list[tuple[str, ...]] = field(default_factory=list)
    holds: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.holds.set()

    def __call__(self, arguments: Sequence[str]) -> Answer:
        self.lines.append(tuple(arguments))
        self.holds.wait()
        return self.answers.get(arguments[0], Answer(0, "[]", ""))


class Visitor:
    """A browser without manners: each call is one connection, with exactly these headers."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.port = server.server_port
        self.cookie = ""

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        return self.server.access.address.partition("token=")[2]

    def enter(self) -> Visitor:
        """Exchange the token, as the person does."""
        reply = self.get(f"/enter?token={self.token}")
        assert reply.status == 303, reply
        self.cookie = reply.headers["set-cookie"].partition(";")[0]
        return self

    def get(self, path: str, **headers: str | None) -> Reply:
        return self.ask("GET", path, "", **headers)

    def post(self, path: str, body: str = "", **headers: str | None) -> Reply:
        given: dict[str, str | None] = {"origin": f"http://{self.host}", "content_length": str(len(body))}
        return self.ask("POST", path, body, **given | headers)

    def ask(self, method: str, path: str, body: str = "", **headers: str | None) -> Reply:
        """`content_length` is the header Content-Length; None leaves out one that is sent otherwise."""
        given = {"host": self.host, "cookie": self.cookie or None} | headers
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in given.items() if value is not None]
        return self.raw("\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", body]))

    def raw(self, text: str) -> Reply:
        """These bytes, and all that comes back."""
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            data = b""
            with suppress(OSError):  # a server that is full closes a connection before it has read anything
                connection.sendall(text.encode())
                connection.shutdown(socket.SHUT_WR)
                while part := connection.recv(65_536):
                    data += part
        return parsed(data)

    def form_token(self, run_id: str) -> str:
        """What the page of the question puts into its form."""
        found = re.search(r'name="form" value="([^"]+)"', self.get(f"/runs/{run_id}/stop").body)
        assert found is not None
        return found[1]

    @contextmanager
    def stream(self, path: str) -> Iterator[Iterator[dict[str, str]]]:
        """The news of a page, one message after the other."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=120) as connection:
            request = f"GET {path} HTTP/1.1\r\nHost: {self.host}\r\nCookie: {self.cookie}\r\n\r\n"
            connection.sendall(request.encode())
            with connection.makefile("rb") as lines:
                yield (json.loads(line[6:]) for line in lines if line.startswith(b"data: "))


def parsed(data: bytes) -> Reply:
    head, _, body = data.decode("utf-8").partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    headers = dict(_header(line) for line in lines if ": " in line)
    return Reply(int(first.split(" ")[1]) if first.startswith("HTTP/") else 0, headers, body)


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(": ")
    return name.lower(), value


@contextmanager
def serving(
    folder: Path, clock: FakeClock, typed: Typed | None = None, limit_usd: Decimal | None = None
) -> Iterator[Visitor]:
    """A server over the home in `folder`, with this budget for the month, until the block ends."""
    home = Home(folder, lambda journal: Spending(journal, limit_usd, clock, RunLocks(folder / "locks")))
    server = Server(0, home, Commands(clock.now, typed or Typed()), clock)
    server.poll_seconds = 0.01
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield Visitor(server)
    finally:
        server.is_over.set()  # a page that is still open would go on looking, whatever the clock says
        with suppress(OSError), socket.create_connection(("127.0.0.1", server.server_port)):
            thread.join()  # the connection wakes it
