"""The server of `plan serve`: one person's browser on loopback, a page with news by server-sent events, and a stop.

The standard library's server answers a handful of routes (ADR 46). Every request has to name this server as its own
page does and, but for the exchange of the token, to have the session's cookie; what changes something comes by POST
from a form of the page. Nothing of a request is logged: an address may hold the token.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR
from typing import TYPE_CHECKING, Any, NoReturn, cast
from urllib.parse import parse_qs, urlsplit

from trainplan.extensions.serve.access import HOST, Access
from trainplan.extensions.serve.pages import (
    SCRIPTS,
    STYLES,
    overview,
    overview_block,
    refusal,
    run_block,
    run_page,
    stop_question,
)
from trainplan.planner.errors import ThisMachineError
from trainplan.planner.report.html import asset, policy
from trainplan.providers.base import RunId

if TYPE_CHECKING:
    import socket

    from trainplan.extensions.serve.board import Home
    from trainplan.extensions.serve.commands import Commands
    from trainplan.planner.clock import Clock

UNSEEN = timedelta(minutes=30)
"""After so long without a look the server ends."""
POLL_SECONDS = 0.5
"""Between two looks at the journal, while somebody watches."""
_HEARTBEAT_POLLS = 20
"""Polls without news after which a comment is sent: a browser that has gone is noticed then."""
_MOST_CONNECTIONS = 16
_MOST_FORM_BYTES = 4_096
_REQUEST_SECONDS = 20.0
"""How long a request may take to arrive as a whole, and a piece of an answer to be taken."""
_POLICY = policy("".join(map(asset, STYLES)), [asset(name) for name in SCRIPTS], connects=True)
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": f"{_POLICY}; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
_RUN = re.compile(r"/runs/([0-9A-Za-z-]{1,64})(/stop)?")


class RefusedRequest(Exception):
    """A request that is answered with this status and a sentence, and with nothing of any run."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class Server(ThreadingHTTPServer):
    """`access` is who may look, `home` what is shown, `commands` what acts. Port 0: any that is free."""

    daemon_threads = True
    block_on_close = False
    # Another process must not take over the port of a server that has just ended, with its browser still asking.
    allow_reuse_address = False
    request_queue_size = 32

    def __init__(self, port: int, home: Home, commands: Commands, clock: Clock) -> None:
        """Raises OSError where the port is taken."""
        super().__init__((HOST, port), Handler)
        self.access = Access(self.server_port)
        self.home = home
        self.commands = commands
        self.is_over = threading.Event()
        self._clock = clock
        self._seen_at = clock.now()
        self._slots = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self.timeout = self.poll_seconds = POLL_SECONDS
        self.request_seconds = _REQUEST_SECONDS

    def serve(self) -> None:
        """Answer until nobody has looked for UNSEEN, `is_over` is set, or a KeyboardInterrupt, which is passed on."""
        try:
            while not self.is_over.is_set() and self._clock.now() - self._seen_at < UNSEEN:
                self.handle_request()
        finally:
            self.is_over.set()
            self.server_close()

    def seen(self) -> None:
        """Somebody who may look has looked."""
        self._seen_at = self._clock.now()

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread of its own, of which there are few: a page elsewhere may open as many connections as it likes."""
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: socket.socket | Any, client_address: Any) -> None:
        """A browser that has gone in the middle of an answer is no news; anything else is a mistake of ours, told."""
        del request, client_address
        error = sys.exception()
        if not isinstance(error, OSError):
            sys.stderr.write(f"error: a request of the page failed: {error!r}\n")


class Handler(BaseHTTPRequestHandler):
    """One request. Every connection has one: HTTP/1.0."""

    timeout = _REQUEST_SECONDS
    server_version, sys_version = "plan", ""

    @property
    def _plan(self) -> Server:
        return cast("Server", self.server)

    def setup(self) -> None:
        """Close a connection whose request has not arrived in time, however steadily it drips."""
        super().setup()
        self._late = threading.Timer(self._plan.request_seconds, self._close)
        self._late.daemon = True
        self._late.start()

    def finish(self) -> None:
        self._late.cancel()
        super().finish()

    def _close(self) -> None:
        with contextlib.suppress(OSError):  # it has gone
            self.connection.shutdown(SHUT_RDWR)

    def do_GET(self) -> None:
        """A page, or the stream of its news."""
        self._late.cancel()
        self._answer(self._get)

    def do_POST(self) -> None:
        """The one thing that can be asked for: to stop a run."""
        self._answer(self._post)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: an address may hold the token."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the library refuses by itself: a request that is none, or another method."""
        del explain
        self._page(code, refusal("Refused", message or "this is no request that this server answers"))

    def _answer(self, route: Callable[[str, dict[str, str]], None]) -> None:
        try:
            if not self._plan.access.is_addressed(self.headers):
                raise RefusedRequest(403, "this server answers its own page alone, under its own address")
            parts = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(parts.query, max_num_fields=4).items()}
            if parts.path == "/enter" and self.command == "GET":
                self._enter(query.get("token", ""))
                return
            if not self._plan.access.has_session(self.headers):
                raise RefusedRequest(403, "open the address that plan serve has printed; it is valid once")
            self._plan.seen()
            route(parts.path, query)
        except RefusedRequest as refused:
            self._page(refused.status, refusal("Refused", refused.text))
        except ThisMachineError as error:
            self._page(503, refusal("The journal cannot be read", f"{error.message} ({error.hint})"))
        except ValueError:  # an address that is none
            self._page(400, refusal("Refused", "this address cannot be read"))

    def _enter(self, token: str) -> None:
        access = self._plan.access
        cookie = None if access.has_session(self.headers) else access.enter(token)
        if cookie is None and not access.has_session(self.headers):
            raise RefusedRequest(
                403, "this is not the address that plan serve has printed, or it has been used already"
            )
        self._plan.seen()
        self._head(303, {"Location": "/", **({"Set-Cookie": cookie} if cookie else {})}, b"")

    def _get(self, path: str, query: dict[str, str]) -> None:
        plan = self._plan
        if path == "/":
            plan.commands.look_when_due()
            self._page(200, overview(plan.home.board(), plan.commands))
            return
        if path == "/favicon.ico":  # browsers ask for it by themselves, and note what is not found as an error
            self._head(204, {}, b"")
            return
        if path == "/events":
            self._events(query.get("run"))
            return
        match = _RUN.fullmatch(path)
        if match is None:
            raise RefusedRequest(404, "there is no such page")
        run, version = _run(plan.home, match[1])
        if match[2]:
            self._page(200, stop_question(run, plan.access.form_token))
            return
        report = plan.commands.report(run.run_id, None if run.live else version)
        self._page(200, run_page(run, report, plan.commands))

    def _post(self, path: str, query: dict[str, str]) -> None:
        del query
        match = _RUN.fullmatch(path)
        if match is None or not match[2]:
            raise RefusedRequest(404, "nothing is asked for there")
        if not self._plan.access.is_from_the_page(self.headers) or not self._plan.access.is_form(self._form_token()):
            raise RefusedRequest(403, "a run is stopped from its own page alone")
        run, _ = _run(self._plan.home, match[1])
        if run.live:
            self._plan.commands.stop(run.run_id)
        self._head(303, {"Location": f"/runs/{run.run_id}"}, b"")

    def _form_token(self) -> str:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or self.headers.get("Transfer-Encoding") is not None:
            raise RefusedRequest(411, "how long the form is has to be said")
        if len(length) > 6 or int(length) > _MOST_FORM_BYTES:
            raise RefusedRequest(413, "the form is too long")
        text = self.rfile.read(int(length)).decode("utf-8", "replace")
        self._late.cancel()
        fields = parse_qs(text, max_num_fields=4)
        return fields.get("form", [""])[0]

    def _events(self, run_id: str | None) -> None:
        """News of a page until its browser goes: the whole live part whenever it has changed."""
        news = _News(self._plan, run_id)
        self._head(200, {"Content-Type": "text/event-stream"}, None)
        quiet = 0
        while not self._plan.is_over.is_set():
            self._plan.seen()
            self._plan.commands.look_when_due()
            message = news.message()
            quiet = 0 if message else quiet + 1
            if message:
                self.wfile.write(f"event: page\ndata: {message}\n\n".encode())
            elif quiet % _HEARTBEAT_POLLS == 0:
                self.wfile.write(b": still here\n\n")
            self._plan.is_over.wait(self._plan.poll_seconds)

    def _page(self, status: int, text: str) -> None:
        self._head(status, {"Content-Type": "text/html; charset=utf-8"}, text.encode())

    def _head(self, status: int, headers: dict[str, str], body: bytes | None) -> None:
        """The answer's head and, but for a stream, its body."""
        self.send_response(status)
        for name, value in {**_HEADERS, **headers}.items():
            self.send_header(name, value)
        if body is not None:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body or b"")


class _News:
    """What has changed on one page since it was last asked."""

    def __init__(self, plan: Server, run_id: str | None) -> None:
        """Raises RefusedRequest where there is no such run."""
        self._plan = plan
        self._run_id = None if run_id is None else _run(plan.home, run_id)[0].run_id
        self._seen: tuple[int, int] | None = None
        self._sent = ""

    def message(self) -> str:
        """The live part as a line of JSON with the version of what stands below it; "" where nothing has changed."""
        try:
            seen = (self._plan.home.version(), self._plan.commands.changes)
            if seen == self._seen:
                return ""
            html, version = self._block()
        except ThisMachineError as error:
            seen, html, version = None, refusal("", error.message), ""
        self._seen = seen
        message = json.dumps({"html": html, "version": version})
        if message == self._sent:
            return ""
        self._sent = message
        return message

    def _block(self) -> tuple[str, str]:
        if self._run_id is not None:
            run, version = self._plan.home.run(self._run_id)
            return run_block(run, self._plan.commands), str(version)
        board = self._plan.home.board()
        return overview_block(board, self._plan.commands), ",".join(run.run_id for run in board.ended)


def _run(home: Home, run_id: str) -> Any:
    try:
        return home.run(RunId(run_id))
    except KeyError:
        _no_run()


def _no_run() -> NoReturn:
    raise RefusedRequest(404, "there is no such run")
