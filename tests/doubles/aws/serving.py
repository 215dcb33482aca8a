"""The double's HTTP: one answer after the other on a connection that is kept, as the SDK expects it of AWS.

werkzeug's own handler closes the connection after each answer, and waits a hundredth of a second before it does.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.serving import BaseWSGIServer, make_server

from tests.doubles.aws.front import Dropped

if TYPE_CHECKING:
    from tests.doubles.aws.server import Server

_BARE = ("204", "304")
"""Answers that have no body, nor its length."""


class Handler(MotoRequestHandler):  # type: ignore[misc]
    """Nobody reads a log."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def run_wsgi(self) -> None:
        environ = self.make_environ()
        # All of it is taken from the connection, whether the answer needs it or not: the next request comes after it.
        environ["wsgi.input"] = io.BytesIO(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        told: list[Any] = []
        try:
            body = b"".join(self.server.app(environ, lambda status, headers, *_: told.extend((status, headers))))
        except Dropped:  # the client is not left waiting for an answer that is to be lost
            self.close_connection = True
            return
        status, headers = told
        self._answer(status, headers, body)

    def log(self, *_: object) -> None:
        """Nothing."""

    def _answer(self, status: str, headers: Sequence[tuple[str, str]], body: bytes) -> None:
        """Head and body at once."""
        lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers)]
        if not any(name.lower() == "date" for name, _ in headers):
            lines.append(f"Date: {self.date_time_string()}")
        has_length = any(name.lower() == "content-length" for name, _ in headers)
        if not has_length and self.command != "HEAD" and not status.startswith(_BARE):
            lines.append(f"Content-Length: {len(body)}")
        self.wfile.write("\r\n".join((*lines, "", "")).encode("latin-1") + body)


def serving(server: Server, *, threaded: bool = True) -> BaseWSGIServer:
    """On a free port of loopback, with or without a thread for each connection."""
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    return make_server("127.0.0.1", 0, server, threaded=threaded, request_handler=Handler)
